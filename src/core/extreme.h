/* extreme.h - the larger and the smaller of two numbers, where a NaN is not lost: fmax and
 * fmin would return the other one, and a verdict would be drawn from what is left.  And of
 * two sizes; how many pieces of b cover a. */
#ifndef LIPSC_CORE_EXTREME_H
#define LIPSC_CORE_EXTREME_H

#include <math.h>
#include <stddef.h>

static inline double lipsc_max(double a, double b) { return a > b || isnan(a) ? a : b; }
static inline double lipsc_min(double a, double b) { return a < b || isnan(a) ? a : b; }

static inline size_t min_size(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t max_size(size_t a, size_t b) { return a > b ? a : b; }
static inline size_t ceil_div(size_t a, size_t b) { return (a + b - 1) / b; }

#endif
