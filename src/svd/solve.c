/* solve.c - products, true residuals and the stop rule, shared by all solvers. */
#include "svd/solve.h"

#include <math.h>

#include "core/clock.h"

/* Rounding of one product, in units of eps |A|: more than f32 and f64 products of the
 * sizes met show, and far less than any tolerance in use. */
enum { ROUNDING = 64 };

lipsc_buffer lipsc_svd_at(const lipsc_svd_run *run, lipsc_buffer vectors, size_t len,
                          size_t i) {
    return lipsc_space_at(run->space, vectors, i * len);
}

void lipsc_svd_wish(lipsc_svd_run *run, int trans, size_t k, lipsc_buffer x,
                    lipsc_buffer y) {
    run->trans = trans;
    run->wish = (lipsc_product){.of = run->op->ctx, .k = k, .x = x, .y = y};
}

void lipsc_svd_count(lipsc_svd_run *run, double seconds) {
    if (!run->trans) run->products += (long)run->wish.k;
    run->product_seconds += seconds;
}

/* The wish granted at once. */
static lipsc_status grant(lipsc_svd_run *run) {
    const lipsc_product *p = &run->wish;
    const double start = lipsc_seconds();
    const lipsc_status status = run->op->apply(p->of, run->trans, p->k, p->x, p->y);
    lipsc_svd_count(run, lipsc_seconds() - start);
    return status;
}

lipsc_status lipsc_svd_apply(lipsc_svd_run *run, int trans, size_t k, lipsc_buffer x,
                             lipsc_buffer y) {
    lipsc_svd_wish(run, trans, k, x, y);
    const lipsc_status status = grant(run);
    run->wish.k = 0;
    return status;
}

int lipsc_svd_tell(const lipsc_svd_run *run, double sigma, double residual) {
    const lipsc_svd_settings *set = &run->set;
    if (set->progress) set->progress(set->ctx, run->products, sigma, residual);
    return set->stop && set->stop(set->ctx);
}

/* *norm = |x|, and x scaled to length one where that is possible. */
static lipsc_status normalise(const lipsc_space *space, size_t len, lipsc_buffer x,
                              double *norm) {
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
    const lipsc_buffer t = lipsc_svd_at(run, run->t, n, j);
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

/* The vectors evaluated together, from number run->group on. */
static size_t group_size(const lipsc_svd_run *run) {
    const size_t left = run->found - run->group, block = run->set.block;
    return left < block ? left : block;
}

static lipsc_status begin_group(lipsc_svd_run *run) {
    const size_t m = run->op->m, n = run->op->n, k = group_size(run);
    const lipsc_buffer v = lipsc_svd_at(run, run->v, n, run->group);
    double length;
    lipsc_status status = LIPSC_OK;
    for (size_t j = 0; j < k && !status; j++)
        status = normalise(run->space, n, lipsc_svd_at(run, v, n, j), &length);
    lipsc_svd_wish(run, 0, k, v, lipsc_svd_at(run, run->u, m, run->group));
    return status;
}

/* From A v: sigma and u. */
static lipsc_status take_images(lipsc_svd_run *run) {
    const size_t m = run->op->m, k = group_size(run);
    const lipsc_buffer u = lipsc_svd_at(run, run->u, m, run->group);
    lipsc_status status = LIPSC_OK;
    for (size_t j = 0; j < k && !status; j++) {
        double *sigma = &run->sigma[run->group + j];
        status = normalise(run->space, m, lipsc_svd_at(run, u, m, j), sigma);
        if (!status && !isfinite(*sigma)) status = LIPSC_E_NONFIN;
    }
    lipsc_svd_wish(run, 1, k, u, run->t);
    return status;
}

/* Values that were not found are zero, and so are their vectors: empty sums. */
static lipsc_status clear_rest(lipsc_svd_run *run) {
    const size_t found = run->found, rest = run->set.count - found;
    const double none = 0.0;
    for (size_t i = found; i < run->set.count; i++) run->sigma[i] = run->residual[i] = 0.0;
    if (!rest) return LIPSC_OK;
    lipsc_status status =
        lipsc_space_combine(run->space, run->op->n, 0, run->v, rest, &none, 0.0,
                            lipsc_svd_at(run, run->v, run->op->n, found));
    if (!status)
        status = lipsc_space_combine(run->space, run->op->m, 0, run->u, rest, &none, 0.0,
                                     lipsc_svd_at(run, run->u, run->op->m, found));
    return status;
}

static lipsc_status begin_group_or_end(lipsc_svd_run *run) {
    run->wish.k = 0;
    return run->group < run->found ? begin_group(run) : clear_rest(run);
}

lipsc_status lipsc_svd_evaluate_begin(lipsc_svd_run *run, size_t found) {
    run->found = found;
    run->group = 0;
    return begin_group_or_end(run);
}

lipsc_status lipsc_svd_evaluate_next(lipsc_svd_run *run) {
    if (!run->trans) return take_images(run);
    const size_t k = group_size(run);
    lipsc_status status = LIPSC_OK;
    for (size_t j = 0; j < k && !status; j++) status = find_residual(run, run->group, j);
    run->group += k;
    return status ? status : begin_group_or_end(run);
}

lipsc_status lipsc_svd_evaluate(lipsc_svd_run *run, size_t found) {
    lipsc_status status = lipsc_svd_evaluate_begin(run, found);
    while (!status && run->wish.k) {
        status = grant(run);
        if (!status) status = lipsc_svd_evaluate_next(run);
    }
    run->wish.k = 0;
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
