/* run.c - products, true residuals and the stop rule, shared by all solvers. */
#include "svd/run.h"

#include <math.h>

#include "core/clock.h"

/* Rounding of one product, in units of eps |A|: more than f32 and f64 products of the
 * sizes met show, and far less than any tolerance in use. */
enum { ROUNDING = 64 };

void *lipsc_svd_at(const lipsc_svd_run *run, void *vectors, size_t len, size_t i) {
    return lipsc_space_at(run->space, vectors, i * len);
}

lipsc_status lipsc_svd_apply(lipsc_svd_run *run, int trans, size_t k, const void *x,
                             void *y) {
    const double start = lipsc_seconds();
    if (!trans) run->products += (long)k;
    const lipsc_status status = run->op->apply(run->op->ctx, trans, k, x, y);
    run->product_seconds += lipsc_seconds() - start;
    return status;
}

int lipsc_svd_tell(const lipsc_svd_run *run, double sigma, double residual) {
    const lipsc_svd_settings *set = &run->set;
    if (set->progress) set->progress(set->ctx, run->products, sigma, residual);
    return set->stop && set->stop(set->ctx);
}

/* *norm = |x|, and x scaled to length one where that is possible. */
static lipsc_status normalise(const lipsc_space *space, size_t len, void *x, double *norm) {
    double square;
    const lipsc_status status = lipsc_space_gram(space, len, 1, x, 1, x, &square);
    if (status) return status;
    *norm = sqrt(square);
    return *norm > 0.0 && isfinite(*norm) ? lipsc_space_scale(space, len, 1.0 / *norm, x)
                                          : LIPSC_OK;
}

/* The residual of vector number i + j, whose A^T u is vector j of run->t. */
static lipsc_status find_residual(lipsc_svd_run *run, size_t i, size_t j) {
    const lipsc_space *space = run->space;
    const size_t n = run->op->n;
    void *t = lipsc_svd_at(run, run->t, n, j);
    const double sigma = run->sigma[i + j], minus_sigma = -sigma;
    double square;
    lipsc_status status = lipsc_space_combine(
        space, n, 1, lipsc_svd_at(run, run->v, n, i + j), 1, &minus_sigma, 1.0, t);
    if (!status) status = lipsc_space_gram(space, n, 1, t, 1, t, &square);
    if (status) return status;
    if (!isfinite(square)) return LIPSC_E_NONFIN;
    run->residual[i + j] = sigma > 0.0 ? sqrt(square) / sigma : 0.0;
    return LIPSC_OK;
}

/* One group of at most set.block vectors, the first being number i. */
static lipsc_status evaluate_group(lipsc_svd_run *run, size_t i, size_t k) {
    const lipsc_space *space = run->space;
    const size_t m = run->op->m, n = run->op->n;
    void *v = lipsc_svd_at(run, run->v, n, i), *u = lipsc_svd_at(run, run->u, m, i);
    double length;
    lipsc_status status = LIPSC_OK;
    for (size_t j = 0; j < k && !status; j++)
        status = normalise(space, n, lipsc_svd_at(run, v, n, j), &length);
    if (!status) status = lipsc_svd_apply(run, 0, k, v, u);
    for (size_t j = 0; j < k && !status; j++) {
        double *sigma = &run->sigma[i + j];
        status = normalise(space, m, lipsc_svd_at(run, u, m, j), sigma);
        if (!status && !isfinite(*sigma)) status = LIPSC_E_NONFIN;
    }
    if (!status) status = lipsc_svd_apply(run, 1, k, u, run->t);
    for (size_t j = 0; j < k && !status; j++) status = find_residual(run, i, j);
    return status;
}

lipsc_status lipsc_svd_evaluate(lipsc_svd_run *run, size_t found) {
    const size_t count = run->set.count, block = run->set.block;
    run->found = found;
    for (size_t i = 0; i < found; i += block) {
        const size_t left = found - i;
        lipsc_status status = evaluate_group(run, i, left < block ? left : block);
        if (status) return status;
    }
    for (size_t i = found; i < count; i++) run->sigma[i] = run->residual[i] = 0.0;
    /* an empty sum of vectors is zero */
    const size_t rest = count - found;
    const double none = 0.0;
    if (!rest) return LIPSC_OK;
    lipsc_status status =
        lipsc_space_combine(run->space, run->op->n, 0, run->v, rest, &none, 0.0,
                            lipsc_svd_at(run, run->v, run->op->n, found));
    if (!status)
        status = lipsc_space_combine(run->space, run->op->m, 0, run->u, rest, &none, 0.0,
                                     lipsc_svd_at(run, run->u, run->op->m, found));
    return status;
}

double lipsc_svd_value_error(double sigma, double residual, double below) {
    double error = residual;
    if (below < sigma) {
        const double ratio = below / sigma, gap = 1.0 - ratio * ratio;
        if (residual * residual < gap * error) error = residual * residual / gap;
    }
    return 0.5 * error;
}

/* The largest value must meet tol itself.  The others come from products whose rounding
 * is e = eps s_1: a value of that size is a zero, and an estimated residual |S p| / s_i
 * is not known below e / s_i.  In A^T A v the e of A v is multiplied by s_1 once more:
 * an evaluated residual is not known below e s_1 / s_i^2.  A residual at that level is
 * as good as met; the values then have the accuracy of a dense SVD, a few e. */
int lipsc_svd_meets(const lipsc_svd_run *run, lipsc_svd_source source, double tol,
                    const double *sigma, const double *residual, double below) {
    for (size_t i = 0; i < run->set.count; i++) {
        if (i > 0) {
            const double ratio = sigma[i] / sigma[0];
            const double rounding = ROUNDING * run->eps / ratio;
            /* the negation also takes 0/0, where everything is zero */
            if (!(rounding < 1.0)) continue;
            const double unknown = source == LIPSC_EVALUATED ? rounding / ratio : rounding;
            if (residual[i] <= unknown) continue;
        }
        if (residual[i] > tol) return 0;
        if (run->set.value_tol > 0.0 &&
            lipsc_svd_value_error(sigma[i], residual[i], below) > run->set.value_tol)
            return 0;
    }
    return 1;
}
