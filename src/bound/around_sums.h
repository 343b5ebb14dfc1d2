/* around_sums.h - sums over the keys of one row: inside around_*.c only. */
#ifndef LIPSC_BOUND_AROUND_SUMS_H
#define LIPSC_BOUND_AROUND_SUMS_H

#include <float.h>
#include <math.h>

#include "bound/around.h"
#include "core/vector.h"

static inline double lipsc_weighted_squares(size_t count, const double *p,
                                            const double *x) {
    double sum = 0.0;
    for (size_t j = 0; j < count; j++) sum += p[j] * x[j] * x[j];
    return sum;
}

/* What a sum over the row may have lost, relatively. */
static inline double lipsc_row_loss(const lipsc_around_row *row) {
    return (4.0 * (double)row->all + 64.0) * DBL_EPSILON;
}

/* What the difference of two computed keys, or of two times the slopes of a cap, may have
 * lost. */
static inline double lipsc_key_error(const lipsc_reach *reach) {
    return 2.0 * reach->key.largest_error + 32.0 * DBL_EPSILON * reach->key.largest_length;
}

/* |Dk'_j^T Dq'_i|, at most, of every j */
static inline double lipsc_cross_slope(const lipsc_reach *reach, size_t i) {
    if (!isnan(reach->cross)) return reach->cross;
    const double apart = reach->query.slope[i] * reach->key.largest_slope;
    const double balanced = reach->query.balanced[i] * reach->key.largest_balanced;
    return balanced < apart ? balanced : apart; /* no NaN */
}

#endif
