/* vector.h - sums over plain vectors of doubles, unless said otherwise one after the other:
 * the same bits everywhere. */
#ifndef LIPSC_CORE_VECTOR_H
#define LIPSC_CORE_VECTOR_H

#include <math.h>
#include <stddef.h>

#include "core/extreme.h"

static inline double lipsc_dot(size_t count, const double *x, const double *y) {
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) sum += x[i] * y[i];
    return sum;
}

/* In the order of the machine's vectors: faster, and other bits on another machine. */
static inline double lipsc_dot_simd(size_t count, const double *x, const double *y) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < count; i++) sum += x[i] * y[i];
    return sum;
}

static inline double lipsc_length(size_t count, const double *x) {
    return sqrt(lipsc_dot(count, x, x));
}

/* max |x_e|, a NaN where there is one. */
static inline double lipsc_largest(size_t count, const double *x) {
    double largest = 0.0;
    for (size_t e = 0; e < count; e++) largest = lipsc_max(largest, fabs(x[e]));
    return largest;
}

/* |x| where squares may overflow or vanish. */
static inline double lipsc_scaled_length(size_t count, const double *x) {
    const double largest = lipsc_largest(count, x);
    double sum = 0.0;
    for (size_t e = 0; largest > 0.0 && e < count; e++)
        sum += (x[e] / largest) * (x[e] / largest);
    return largest * sqrt(sum);
}

/* Takes the mean of n tokens off them. */
static inline void lipsc_subtract_mean(size_t n, size_t d, double *X) {
    for (size_t c = 0; c < d; c++) {
        double mean = 0.0;
        for (size_t i = 0; i < n; i++) mean += X[i * d + c] / (double)n;
        for (size_t i = 0; i < n; i++) X[i * d + c] -= mean;
    }
}

/* The length of the longest of n tokens; no square overflows. */
static inline double lipsc_longest_token(size_t n, size_t d, const double *X) {
    double longest = 0.0;
    for (size_t i = 0; i < n; i++) {
        double length = 0.0;
        for (size_t c = 0; c < d; c++) length = hypot(length, X[i * d + c]);
        longest = lipsc_max(longest, length);
    }
    return longest;
}

#endif
