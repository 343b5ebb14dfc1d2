/* fuzz_gguf.c - any bytes as a GGUF file: what is accepted must be readable to its last
 * value, and every refusal must carry a sentence. */
#include "io/gguf.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile double sink; /* keeps the reads */

static void read_tensor(const lipsc_gguf *g, const lipsc_gguf_tensor *t) {
    double values[1000];
    lipsc_error err;
    const int known = t->type && t->type->unpack;
    if (lipsc_gguf_find(g, t->name) != t) abort();
    for (size_t at = 0; at < t->count; at += 1000) {
        const size_t count = t->count - at < 1000 ? t->count - at : 1000;
        const lipsc_status status = lipsc_gguf_read(g, t, at, count, values, &err);
        if (status != (known ? LIPSC_OK : LIPSC_E_FORMAT)) abort();
        if (!known) return;
        sink = values[count - 1];
    }
}

static void read_list(const lipsc_gguf *g, const char *key) {
    lipsc_gguf_list list;
    lipsc_gguf_text text;
    double value;
    if (!lipsc_gguf_array(g, key, &list)) return;
    while (lipsc_gguf_next_string(&list, &text))
        for (size_t i = 0; i < text.size; i++) sink = text.bytes[i];
    while (lipsc_gguf_next_number(&list, &value)) sink = value;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const keys[] = {"test.u32", "test.words", "test.numbers", "a"};
    lipsc_gguf *g = NULL;
    lipsc_error err;
    memset(&err, 0, sizeof err);
    if (lipsc_gguf_parse(data, size, "fuzz", &g, &err) == LIPSC_OK) {
        for (size_t i = 0; i < lipsc_gguf_count(g); i++)
            read_tensor(g, lipsc_gguf_at(g, i));
        for (size_t i = 0; lipsc_gguf_key(g, i); i++)
            sink = (double)strlen(lipsc_gguf_key(g, i));
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
            lipsc_gguf_text text;
            double value;
            read_list(g, keys[k]);
            if (lipsc_gguf_number(g, keys[k], &value)) sink = value;
            if (lipsc_gguf_string(g, keys[k], &text) && text.size)
                sink = text.bytes[text.size - 1];
        }
    } else if (g || !err.code || strncmp(err.text, "fuzz: ", 6) != 0) {
        abort();
    }
    lipsc_gguf_free(g);
    return 0;
}
