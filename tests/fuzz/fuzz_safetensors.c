/* fuzz_safetensors.c - any bytes as a safetensors file: what is accepted must be readable
 * to its last byte, and every refusal must carry a sentence. */
#include "io/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint8_t sink; /* keeps the reads */

static void read_tensor(const lipsc_st *st, const lipsc_st_tensor *t) {
    size_t product = 1;
    for (size_t i = 0; i < t->ndim; i++) product *= t->shape[i];
    if (product != t->count || lipsc_st_find(st, t->name) != t) abort();
    for (size_t i = 0; i < t->bytes; i++) sink ^= t->data[i];

    double *d = malloc((t->count ? t->count : 1) * sizeof *d);
    float *f = malloc((t->count ? t->count : 1) * sizeof *f);
    if (!d || !f) abort();
    lipsc_error err;
    const lipsc_status convertible = t->type == LIPSC_ST_OTHER ? LIPSC_E_FORMAT : LIPSC_OK;
    if (lipsc_st_read_f64(st, t, 0, t->count, d, &err) != convertible ||
        lipsc_st_read_f32(st, t, t->count / 2, t->count - t->count / 2, f, NULL) !=
            convertible)
        abort();
    free(d);
    free(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lipsc_st *st = NULL;
    lipsc_error err;
    memset(&err, 0, sizeof err);
    if (lipsc_st_parse(data, size, "fuzz", &st, &err) == LIPSC_OK) {
        for (size_t i = 0; i < lipsc_st_count(st); i++) read_tensor(st, lipsc_st_at(st, i));
        const char *text = lipsc_st_metadata(st, "a");
        if (text) sink ^= (uint8_t)strlen(text);
    } else if (st || !err.code || strncmp(err.text, "fuzz: ", 6) != 0) {
        abort();
    }
    lipsc_st_free(st);
    return 0;
}
