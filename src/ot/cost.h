/* cost.h - the cost |x_i - y_j|^p between two sets of points, row by row: computed when it
 * is asked for, or kept as a matrix where that is small enough to be faster. */
#ifndef LIPSC_OT_COST_H
#define LIPSC_OT_COST_H

#include "lipscope.h"

typedef struct {
    size_t n, m, d;
    double p;
    double *x;     /* (n, d)                                         */
    double *y;     /* (d, m): a row of costs then runs along memory  */
    double *dense; /* (n, m) or NULL: computed when asked for        */
    double *room;  /* (m) for one computed row                       */
} lipsc_ot_cost;

/* Copies the points (n, d) and (m, d), multiplied by scale.  rows and columns choose some
 * of them, or are NULL: all.  The matrix is kept when it has at most dense_limit entries.
 */
lipsc_status lipsc_ot_cost_make(size_t n, size_t m, size_t d, double p, const double *x,
                                const double *y, double scale, size_t dense_limit,
                                lipsc_ot_cost *out);

/* The same between chosen points of `of`; the matrix is kept when `of` keeps its own. */
lipsc_status lipsc_ot_cost_part(const lipsc_ot_cost *of, size_t n, const size_t *rows,
                                size_t m, const size_t *columns, lipsc_ot_cost *out);
void lipsc_ot_cost_free(lipsc_ot_cost *cost);

/* c_i0 ... c_i(m-1): a row of the matrix, or one computed into `room` and valid until the
 * next call. */
const double *lipsc_ot_cost_row(const lipsc_ot_cost *cost, size_t i);

/* The same into memory of the caller, whether the matrix is kept or not. */
void lipsc_ot_cost_compute(const lipsc_ot_cost *cost, size_t i, double *row);

double lipsc_ot_cost_at(const lipsc_ot_cost *cost, size_t i, size_t j);

#endif
