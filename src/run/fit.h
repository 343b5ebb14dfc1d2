/* fit.h - growth laws: value ~ coefficient * x^exponent over lengths. */
#ifndef LIPSC_RUN_FIT_H
#define LIPSC_RUN_FIT_H

#include "lipscope.h"

/* One value: window `w` of length n gave y; x is what it is fitted against, n itself or a
 * radius. */
typedef struct {
    size_t n;
    double x, y;
} lipsc_fit_point;

typedef struct {
    double exponent, coefficient;
    double low, high; /* 95 % interval of the exponent; NaN with one window everywhere */
    size_t lengths;   /* that entered                                                  */
} lipsc_fit;

/* Least squares of ln(median over windows of y) on ln(median over windows of x), one point
 * for each length n >= 8.  Points whose x or y is not positive and finite are left out.
 * The interval comes from 2000 resamplings of the windows of each length, seeded.
 * LIPSC_E_REFUSED: fewer than three lengths, or all x equal. */
lipsc_status lipsc_fit_power(size_t count, const lipsc_fit_point *points, uint64_t seed,
                             lipsc_fit *out, lipsc_error *err);

#endif
