/* fuzz_measure_file.c - any bytes as a measure (.npy, CSV or safetensors): what is accepted
 * has points that are finite, weights that are positive and times in [0, 1]. */
#include "io/measure_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const lipsc_measure *m) {
    if (!m->n || !m->d || !m->points) abort();
    for (size_t i = 0; i < m->n * m->d; i++)
        if (!isfinite(m->points[i])) abort();
    double sum = 0.0;
    for (size_t i = 0; m->weights && i < m->n; i++) {
        if (!(m->weights[i] > 0)) abort();
        sum += m->weights[i];
    }
    if (m->weights && !(fabs(sum - 1.0) <= 1e-8)) abort();
    for (size_t i = 0; m->times && i < m->n; i++)
        if (!(m->times[i] >= 0 && m->times[i] <= 1)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    for (int normalise = 0; normalise < 2; normalise++) {
        lipsc_measure_file file;
        lipsc_error err;
        memset(&err, 0, sizeof err);
        if (lipsc_measure_from_bytes(data, size, "fuzz", normalise, &file, &err) ==
            LIPSC_OK) {
            check(&file.measure);
            lipsc_measure_file_free(&file);
        } else if (!err.code || strncmp(err.text, "fuzz: ", 6) != 0) {
            abort();
        }
    }
    return 0;
}
