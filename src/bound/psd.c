/* psd.c - the largest eigenvalue of a positive semidefinite matrix, from above.
 *
 * With B_0 = a, t_s = trace(B_s) and B_{s+1} = (B_s / t_s)^2,
 *
 *     lambda(a) = t_0 t_1^{1/2} ... t_s^{1/2^s} lambda(B_s / t_s)^{1/2^s},
 *     t_{s+1} <= lambda(B_s / t_s) <= 1,
 *
 * so that ending after any step leaves an upper bound.  t_{s+1} is the sum of the squares
 * of the entries of B_s / t_s: the last product is never formed.  Products alone, at the
 * speed of the machine, in blocks of columns of a fixed size, so that no bit depends on the
 * number of threads.  Rounding: a product of symmetric matrices B is wrong by at most size
 * eps |B|_F^2 in norm, which is size eps trace(B^2) <= size^2 eps lambda(B^2); step s
 * counts 2^-s of that, in all 2 size^2 eps.  The scale is a power of two times 1/t, so that
 * neither a subnormal trace nor a huge one is lost. */
#include "bound/psd.h"

#include <float.h>
#include <math.h>

#include "linalg/dense.h"

enum { BLOCK = 64 }; /* columns of a product made at once */

static double trace_of(size_t size, const double *a) {
    double trace = 0.0;
    for (size_t c = 0; c < size; c++) trace += a[c + c * size];
    return trace;
}

/* Brings the trace of a into [1/2, 1) and returns the exponent taken off. */
static int normalise(size_t size, double *a, double trace) {
    int exponent;
    frexp(trace, &exponent);
    /* two factors: one power of two may itself be out of range */
    const double half = ldexp(1.0, -exponent / 2),
                 rest = ldexp(1.0, -exponent - -exponent / 2);
    for (size_t e = 0; e < size * size; e++) a[e] = a[e] * half * rest;
    return exponent;
}

/* The trace of (a / trace)^2. */
static double next_trace(size_t size, const double *a, double trace) {
    const double over = 1.0 / trace;
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (size_t e = 0; e < size * size; e++) sum += (over * a[e]) * (over * a[e]);
    return sum;
}

/* to = (from / trace)^2: below the diagonal by products, above it mirrored. */
static void square(int threads, size_t size, const double *from, double trace, double *to) {
    const double factor = 1.0 / (trace * trace);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (size_t c = 0; c < size; c += BLOCK) {
        const size_t width = size - c < BLOCK ? size - c : BLOCK;
        lipsc_dense_gemm(0, 0, size - c, width, size, factor, from + c, size,
                         from + c * size, size, 0.0, to + c + c * size, size);
        for (size_t e = c; e < c + width; e++)
            for (size_t r = e + 1; r < size; r++) to[e + r * size] = to[r + e * size];
    }
}

lipsc_status lipsc_psd_norm(size_t size, double *a, int squarings, double *room,
                            double *value) {
    return lipsc_psd_norm_by(1, size, a, squarings, room, value);
}

lipsc_status lipsc_psd_norm_by(int threads, size_t size, double *a, int squarings,
                               double *room, double *value) {
    double trace = trace_of(size, a);
    if (!(trace < INFINITY)) return LIPSC_E_RANGE; /* a NaN too */
    *value = 0.0;
    if (trace <= 0.0) return LIPSC_OK;
    const int exponent = normalise(size, a, trace);
    double *from = a, *to = room, part = 1.0;
    trace = trace_of(size, a);
    double sum = log(trace);
    for (int step = 1; step <= squarings; step++) {
        const double next = next_trace(size, from, trace);
        if (!(next > 0.0 && next < INFINITY)) return LIPSC_E_RANGE; /* a NaN too */
        part *= 0.5;
        sum += part * log(next);
        if (-part * log(next) < 1e-10 || step == squarings) break;
        square(threads, size, from, trace, to);
        trace = next; /* any number will do that is at least the norm */
        double *swap = from;
        from = to;
        to = swap;
    }
    const double margin = 1.0 + (8.0 * (double)size * (double)size + 64.0) * DBL_EPSILON;
    *value = ldexp(exp(sum) * margin, exponent) + DBL_MIN;
    return LIPSC_OK;
}
