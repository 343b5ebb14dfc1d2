/* psd.c - the largest eigenvalue of a positive semidefinite matrix, from above.
 *
 * With B_0 = a, t_s = trace(B_s) and B_{s+1} = (B_s / t_s)^2,
 *
 *     lambda(a) = t_0 t_1^{1/2} ... t_s^{1/2^s} lambda(B_s / t_s)^{1/2^s},
 *     t_{s+1} <= lambda(B_s / t_s) <= 1,
 *
 * so that ending after any step leaves an upper bound.  Products alone, at the speed of the
 * machine.  Rounding: a product of symmetric matrices B is wrong by at most size eps
 * |B|_F^2 in norm, which is size eps trace(B^2) <= size^2 eps lambda(B^2); step s counts
 * 2^-s of that, in all 2 size^2 eps.  The scale is a power of two times 1/t, so that
 * neither a subnormal trace nor a huge one is lost. */
#include "bound/psd.h"

#include <float.h>
#include <math.h>

#include "linalg/dense.h"

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

lipsc_status lipsc_psd_norm(size_t size, double *a, int squarings, double *room,
                            double *value) {
    double trace = trace_of(size, a);
    if (!(trace < INFINITY)) return LIPSC_E_RANGE; /* a NaN too */
    *value = 0.0;
    if (trace <= 0.0) return LIPSC_OK;
    const int exponent = normalise(size, a, trace);
    double *from = a, *to = room, part = 1.0;
    trace = trace_of(size, a);
    double sum = log(trace);
    for (int step = 0; step < squarings; step++) {
        lipsc_dense_gemm(0, 0, size, size, size, 1.0 / (trace * trace), from, size, from,
                         size, 0.0, to, size);
        trace = trace_of(size, to);
        if (!(trace > 0.0)) return LIPSC_E_RANGE; /* a NaN: entries beyond the trace */
        part *= 0.5;
        sum += part * log(trace);
        if (-part * log(trace) < 1e-10) break;
        double *swap = from;
        from = to;
        to = swap;
    }
    const double margin = 1.0 + (8.0 * (double)size * (double)size + 64.0) * DBL_EPSILON;
    *value = ldexp(exp(sum) * margin, exponent) + DBL_MIN;
    return LIPSC_OK;
}
