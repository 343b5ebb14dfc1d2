/* fuzz_gauss_file.c - any bytes as a Gaussian or a mixture: what is accepted has as many
 * numbers as its sizes say. */
#include "io/gauss_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const lipsc_gauss *g) {
    volatile double last;
    if (!g->parts || !g->d || !g->mean || !g->cov) abort();
    last = g->mean[g->parts * g->d - 1];
    last = g->cov[g->parts * g->d * g->d - 1];
    if (g->mass) last = g->mass[g->parts - 1];
    (void)last;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lipsc_st *st;
    lipsc_gauss_file file;
    lipsc_error err;
    memset(&err, 0, sizeof err);
    if (lipsc_st_parse(data, size, "fuzz", &st, NULL)) return 0;
    if (lipsc_gauss_from_st(st, &file, &err) == LIPSC_OK) {
        check(&file.gauss);
        lipsc_gauss_file_free(&file);
    } else if (!err.code || strncmp(err.text, "fuzz: ", 6) != 0) {
        abort();
    }
    lipsc_st_free(st);
    return 0;
}
