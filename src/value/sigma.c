/* sigma.c - largest singular values of a Jacobian: found in the precision of
 * the operator, then re-evaluated in double.
 *
 * The solver hands over directions v.  Whatever precision found them, |J v| / |v| with J
 * in double is a lower bound of sigma up to rounding in double, and its error is of the
 * order of the square of the direction's. */
#include "core/clock.h"
#include "core/mem.h"
#include "svd/solver.h"
#include "value/value.h"

#include <math.h>
#include <string.h>

/* Taken relative to the largest entry: squares of tiny values would underflow. */
static double norm(size_t n, const double *x) {
    double largest = 0.0, sum = 0.0;
    for (size_t e = 0; e < n; e++) largest = fmax(largest, fabs(x[e]));
    for (size_t e = 0; largest > 0.0 && e < n; e++)
        sum += (x[e] / largest) * (x[e] / largest);
    return largest * sqrt(sum);
}

/* x := x / |x|; returns |x|.  A zero vector stays one. */
static double normalise(size_t n, double *x) {
    const double length = norm(n, x);
    for (size_t e = 0; length > 0.0 && e < n; e++) x[e] /= length;
    return length;
}

static void swap(size_t n, double *a, double *b) {
    for (size_t e = 0; e < n; e++) {
        const double t = a[e];
        a[e] = b[e];
        b[e] = t;
    }
}

/* Largest first.  Almost sorted already: only values that agree within the solver's
 * precision can have changed places. */
static void sort_values(size_t count, size_t m, size_t n, double *sigma, double *u,
                        double *v) {
    for (size_t i = 1; i < count; i++)
        for (size_t j = i; j > 0 && sigma[j] > sigma[j - 1]; j--) {
            swap(1, sigma + j, sigma + j - 1);
            swap(m, u + j * m, u + (j - 1) * m);
            swap(n, v + j * n, v + (j - 1) * n);
        }
}

/* v (count vectors of n), u (count vectors of m): sigma_i = |J v_i|, u_i = J v_i / sigma_i
 */
static lipsc_status evaluate(const lipsc_judge *judge, size_t count, size_t m, size_t n,
                             double *sigma, double *u, double *v, lipsc_svd_info *info) {
    for (size_t i = 0; i < count; i++) normalise(n, v + i * n);
    const double start = lipsc_seconds();
    const lipsc_status status = judge->apply(judge->ctx, count, v, u);
    info->product_seconds += lipsc_seconds() - start;
    if (status) return status;
    for (size_t i = 0; i < count; i++) sigma[i] = normalise(m, u + i * m);
    sort_values(count, m, n, sigma, u, v);
    return LIPSC_OK;
}

static lipsc_status attn_exact(void *ctx, size_t k, const double *x, double *y) {
    lipsc_exact exact;
    lipsc_status status = lipsc_exact_open(ctx, k, &exact);
    if (status) return status;
    status = lipsc_exact_apply(&exact, 0, k, x, y);
    lipsc_exact_close(&exact);
    return status;
}

lipsc_status lipsc_attn_sigma(lipsc_attn *attn, const lipsc_svd_settings *set,
                              double *sigma, double *u, double *v, lipsc_svd_info *info) {
    if (!attn || !set || !sigma) return LIPSC_E_ARG;
    const lipsc_linop op = lipsc_attn_linop(attn);
    const lipsc_judge judge = {attn_exact, attn};
    return lipsc_linop_sigma(&op, &judge, set, sigma, u, v, info);
}

lipsc_status lipsc_linop_sigma(const lipsc_linop *op, const lipsc_judge *judge,
                               const lipsc_svd_settings *set, double *sigma, double *u,
                               double *v, lipsc_svd_info *info) {
    const double start = lipsc_seconds();
    lipsc_svd_settings used = *set;
    if (used.count == 0) used.count = 1;
    if (used.tol == 0.0) used.tol = op->space->dtype == LIPSC_F64 ? 1e-8 : 1e-2;

    size_t all_u, all_v;
    if (!lipsc_mul_size(used.count, op->m, &all_u) ||
        !lipsc_mul_size(used.count, op->n, &all_v))
        return LIPSC_E_RANGE;

    /* found values and vectors: nothing of the caller's is written before success */
    lipsc_svd_info found;
    double *s = lipsc_alloc_zero(used.count, sizeof *s);
    double *hu = lipsc_alloc(all_u, sizeof *hu), *hv = lipsc_alloc(all_v, sizeof *hv);
    void *bv = op->space->alloc(all_v);
    lipsc_status status = LIPSC_E_NOMEM, outcome = LIPSC_OK;
    if (s && hu && hv && bv) {
        outcome = status = lipsc_svd_linop(op, &used, s, NULL, bv, &found);
        if (outcome == LIPSC_E_NOCONV || outcome == LIPSC_E_STOPPED) status = LIPSC_OK;
    }
    if (!status) {
        op->space->download(all_v, bv, hv);
        op->space->release(bv); /* room for the operator in double */
        bv = NULL;
        status = evaluate(judge, used.count, op->m, op->n, s, hu, hv, &found);
    }
    if (!status) {
        status = outcome;
        memcpy(sigma, s, used.count * sizeof *s);
        if (u) memcpy(u, hu, all_u * sizeof *u);
        if (v) memcpy(v, hv, all_v * sizeof *v);
        /* found.residual stays what the solver measured with its own operator: in f32
         * it says when that solve had to end, and its floor is f32 rounding. */
        if (found.upper_prob < s[0]) found.upper_prob = s[0];
        found.seconds = lipsc_seconds() - start;
        if (info) *info = found;
    }
    op->space->release(bv);
    lipsc_release(s);
    lipsc_release(hu);
    lipsc_release(hv);
    return status;
}
