/* below.c - a Cholesky factorisation that succeeds as a proof (docs/maths.md 7.8).
 *
 * Where the factorisation of A runs to its end, its factor R has R^T R = A + D with
 * |D| <= g |R^T| |R| entrywise, g = gamma_(n+1), in whatever order sums are made; kernels
 * that multiply by the reciprocals of pivots add one rounding per element, and twice n is
 * taken for g.  Then |D| <= g |R|_F^2 and |R|_F^2 = tr A + tr D <= tr A / (1 - g). */
#include "certify/certify.h"

#include <math.h>
#include <string.h>

#include "core/extreme.h"
#include "core/mem.h"
#include "linalg/dense.h"

double lipsc_cholesky_margin(size_t n, double trace) {
    return 2.0 * ((double)n + 4.0) * DBL_EPSILON * fabs(trace);
}

/* 1: no eigenvalue of a exceeds tau by more than what is added to it.  work (n x n) */
static lipsc_status try_bound(size_t n, const double *a, double tau, double *work,
                              int *holds) {
    memcpy(work, a, n * n * sizeof *work);
    for (size_t i = 0; i < n * n; i++) work[i] = -work[i];
    for (size_t i = 0; i < n; i++) work[i * n + i] += tau;
    return lipsc_dense_cholesky(n, work, holds);
}

lipsc_status lipsc_eigen_below(size_t n, const double *a, double *bound) {
    size_t all;
    *bound = INFINITY;
    if (!lipsc_mul_size(n, n, &all)) return LIPSC_E_RANGE;
    double *work = lipsc_alloc(all, sizeof *work), *w = lipsc_alloc(n, sizeof *w);
    lipsc_status status = work && w ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) {
        memcpy(work, a, all * sizeof *work);
        status = lipsc_dense_eigen(n, work, w, 0);
    }
    int holds = 0;
    double size = 0.0; /* of the diagonal, whose subtraction rounds */
    for (size_t i = 0; !status && i < n; i++) size = lipsc_max(size, fabs(a[i * n + i]));
    for (double slack = 1e-13; !status && !holds && slack < 1e-8; slack *= 100.0) {
        const double tau = w[n - 1] + slack * (double)n * (fabs(w[n - 1]) + size);
        const double trace = (double)n * (fabs(tau) + size);
        status = try_bound(n, a, tau, work, &holds);
        if (!status && holds)
            *bound =
                lipsc_up(tau + lipsc_cholesky_margin(n, trace) + DBL_EPSILON * trace, 4);
    }
    lipsc_release(work);
    lipsc_release(w);
    return status;
}
