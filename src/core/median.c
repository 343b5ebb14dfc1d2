/* median.c - the middle of some numbers. */
#include "core/median.h"

#include <math.h>
#include <stdlib.h>

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double lipsc_median(size_t count, double *values) {
    if (!count) return NAN;
    for (size_t i = 0; i < count; i++)
        if (isnan(values[i])) return NAN;
    qsort(values, count, sizeof *values, by_size);
    return 0.5 * (values[(count - 1) / 2] + values[count / 2]);
}
