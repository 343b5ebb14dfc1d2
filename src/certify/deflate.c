/* deflate.c - what Ritz vectors and moments prove together (docs/maths.md 7.8).
 *
 * With G = J^T J, Q the orthonormal basis of the span of V, R = (I - QQ^T) G Q and c above
 * every u.Gu, u a unit vector orthogonal to V: no eigenvalue of G exceeds l when
 *
 *     l > c    and    |J Q y|^2 + |R y|^2 / (l - c) <= l    for every unit y.
 *
 * c^p is at most tr G^p less the part of it that V holds, for every p. */
#include "certify/certify.h"

#include <math.h>
#include <string.h>

#include "core/extreme.h"
#include "core/mem.h"
#include "core/rng.h"
#include "linalg/dense.h"

enum { PROBES = 8 };
static const double smallest_value = 1e-6; /* of the largest: below, a vector is useless */

/* ---- The vectors ------------------------------------------------------------------- */

static int apply_scaled(void *ctx, int trans, size_t k, const double *x, double *y) {
    return lipsc_certify_apply(ctx, trans, k, x, y) != LIPSC_OK;
}

/* Leading vectors that are good for something. */
static size_t useful(size_t k, const double *value) {
    size_t found = 0;
    while (found < k && value[found] > smallest_value * value[0]) found++;
    return found;
}

static lipsc_status solve(lipsc_certifier *c, size_t k, lipsc_ritz *out) {
    const lipsc_op op = {.m = c->op->m, .n = c->op->n, .apply = apply_scaled, .ctx = c};
    lipsc_svd_settings set;
    lipsc_svd_defaults(&set);
    set.count = k;
    set.seed = c->set->seed;
    set.tol = lipsc_min(1e-2, 0.3 * sqrt(c->set->eps));
    set.max_products = 200 + 20 * (long)k;
    lipsc_status status = lipsc_svd(&op, &set, out->value, NULL, out->V, NULL);
    if (status == LIPSC_E_NOCONV) status = LIPSC_OK;
    if (status == LIPSC_E_CALLBACK && c->set->stop && c->set->stop(c->set->ctx))
        status = LIPSC_E_STOPPED;
    out->k = status ? 0 : useful(k, out->value);
    return status;
}

/* Above |V^T V - I|. */
static lipsc_status find_defect(const lipsc_certifier *c, lipsc_ritz *out) {
    const size_t n = c->op->n, k = out->k;
    double *gram = lipsc_alloc(k * k, sizeof *gram);
    if (!gram) return LIPSC_E_NOMEM;
    lipsc_dense_gemm(1, 0, k, k, n, 1.0, out->V, n, out->V, n, 0.0, gram, k);
    for (size_t i = 0; i < k; i++) gram[i * k + i] -= 1.0;
    out->size = lipsc_up(sqrt(lipsc_sum_squares(n * k, out->V)), n + k);
    out->defect = lipsc_up(sqrt(lipsc_sum_squares(k * k, gram)), k * k) +
                  2.0 * (double)n * DBL_EPSILON * out->size * out->size;
    lipsc_release(gram);
    return LIPSC_OK;
}

lipsc_status lipsc_ritz_find(lipsc_certifier *c, size_t k, lipsc_ritz *out,
                             long *products) {
    const size_t m = c->op->m, n = c->op->n, before = c->applied[0];
    *out = (lipsc_ritz){0};
    out->V = lipsc_alloc(n, k * sizeof *out->V);
    out->W = lipsc_alloc(m, k * sizeof *out->W);
    out->R = lipsc_alloc(n, k * sizeof *out->R);
    out->value = lipsc_alloc_zero(k, sizeof *out->value);
    lipsc_status status =
        out->V && out->W && out->R && out->value ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) status = solve(c, k, out);
    if (!status && out->k) status = find_defect(c, out);
    if (!status && out->k) status = lipsc_certify_apply(c, 0, out->k, out->V, out->W);
    *products = (long)(c->applied[0] - before);
    if (status) lipsc_ritz_free(out);
    return status;
}

void lipsc_ritz_free(lipsc_ritz *ritz) {
    lipsc_release(ritz->V);
    lipsc_release(ritz->W);
    lipsc_release(ritz->R);
    lipsc_release(ritz->value);
    *ritz = (lipsc_ritz){0};
}

/* ---- Their part of the moments ----------------------------------------------------- */

/* R = Z - V (W^T W), Z in R already, whose error is z_error. */
static lipsc_status make_residual(const lipsc_certifier *c, double z_error,
                                  lipsc_ritz *ritz) {
    const size_t m = c->op->m, n = c->op->n, k = ritz->k;
    double *A = lipsc_alloc(k * k, sizeof *A);
    if (!A) return LIPSC_E_NOMEM;
    const double z = sqrt(lipsc_sum_squares(n * k, ritz->R));
    lipsc_dense_gemm(1, 0, k, k, m, 1.0, ritz->W, m, ritz->W, m, 0.0, A, k);
    lipsc_dense_gemm(0, 0, n, k, k, -1.0, ritz->V, n, A, k, 1.0, ritz->R, n);
    const double a = sqrt(lipsc_sum_squares(k * k, A));
    ritz->R_error = lipsc_up(
        z_error + 2.0 * ((double)k + 4.0) * DBL_EPSILON * (z + ritz->size * a), n * k);
    lipsc_release(A);
    return LIPSC_OK;
}

lipsc_status lipsc_ritz_powers(lipsc_certifier *c, int power, double norm,
                               lipsc_ritz *ritz) {
    const size_t m = c->op->m, n = c->op->n, k = ritz->k, roundings = (m + n) * k;
    const size_t longest = m > n ? m : n;
    if (power < 2) power = 2; /* R is needed in any case */
    double *x = lipsc_alloc(longest, k * sizeof *x),
           *y = lipsc_alloc(longest, k * sizeof *y);
    lipsc_status status = x && y ? LIPSC_OK : LIPSC_E_NOMEM;
    double size = lipsc_up(sqrt(lipsc_sum_squares(m * k, ritz->W)), roundings);
    double error = ritz->W_error = lipsc_up(c->eta * ritz->size, 4);
    ritz->powers = 0;
    if (!status) memcpy(x, ritz->W, m * k * sizeof *x);
    for (int p = 1; p <= power && !status; p++) {
        ritz->kept[p] =
            lipsc_max(0.0, lipsc_down((lipsc_down(size, 2 * roundings + 16) - error) /
                                          lipsc_up(sqrt(1.0 + ritz->defect), 4),
                                      8));
        ritz->powers = p;
        if (p == power) break;
        status = lipsc_certify_apply(c, p & 1, k, x, y);
        if (status) break;
        error = lipsc_up(c->eta * size + norm * error, 8);
        size = lipsc_up(sqrt(lipsc_sum_squares(k * (p & 1 ? n : m), y)), roundings);
        if (p == 1) {
            memcpy(ritz->R, y, n * k * sizeof *y);
            status = make_residual(c, error, ritz);
        }
        double *swap = x;
        x = y;
        y = swap;
    }
    lipsc_release(x);
    lipsc_release(y);
    return status;
}

/* ---- What may be expected ---------------------------------------------------------- */

lipsc_status lipsc_ritz_rest(lipsc_certifier *c, const lipsc_ritz *ritz, int power,
                             double *estimate) {
    const size_t m = c->op->m, n = c->op->n, k = ritz->k, longest = m > n ? m : n;
    double *x = lipsc_alloc(longest, PROBES * sizeof *x);
    double *y = lipsc_alloc(longest, PROBES * sizeof *y);
    double *part = lipsc_alloc(k, PROBES * sizeof *part);
    lipsc_status status = x && y && part ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t e = 0; !status && e < PROBES * n; e++)
        x[e] = lipsc_rng_normal(c->set->seed + 1, e);
    if (!status) {
        lipsc_dense_gemm(1, 0, k, PROBES, n, 1.0, ritz->V, n, x, n, 0.0, part, k);
        lipsc_dense_gemm(0, 0, n, PROBES, k, -1.0, ritz->V, n, part, k, 1.0, x, n);
    }
    for (int p = 1; p <= power && !status; p++) {
        const int trans = (p - 1) & 1;
        status = lipsc_certify_apply(c, trans, PROBES, x, y);
        if (!status) estimate[p] = lipsc_sum_squares(PROBES * (trans ? n : m), y) / PROBES;
        double *swap = x;
        x = y;
        y = swap;
    }
    lipsc_release(x);
    lipsc_release(y);
    lipsc_release(part);
    return status;
}

/* ---- The proof --------------------------------------------------------------------- */

/* Above every u.Gu with |u| = 1 orthogonal to V. */
static double bound_rest(const lipsc_ritz *ritz, const lipsc_moments *moments) {
    double least = INFINITY;
    for (int p = 1; p <= ritz->powers; p++) {
        const double root = moments->root[p], kept = ritz->kept[p];
        if (!isfinite(root) || !(kept <= root)) continue; /* a promise was broken */
        const double rest = lipsc_up((root - kept) * (root + kept), 4);
        least = lipsc_min(least, lipsc_up(pow(rest, 1.0 / p), 16));
    }
    return least;
}

/* What holds for l = lambda: no larger than it, then lambda is proved.  S (k x k) */
static lipsc_status respond(const lipsc_certifier *c, const lipsc_ritz *ritz, double rest,
                            double lambda, double *S, double *out) {
    const size_t m = c->op->m, n = c->op->n, k = ritz->k;
    const double gap = lipsc_down(lambda - rest, 2), over = 1.0 / gap;
    *out = INFINITY;
    if (!(gap > 0.0) || !(ritz->defect < 0.5)) return LIPSC_OK;
    lipsc_dense_gemm(1, 0, k, k, m, 1.0, ritz->W, m, ritz->W, m, 0.0, S, k);
    lipsc_dense_gemm(1, 0, k, k, n, over, ritz->R, n, ritz->R, n, 1.0, S, k);
    for (size_t i = 0; i < k; i++) /* gemm may round both triangles differently */
        for (size_t j = 0; j < i; j++) S[i * k + j] = S[j * k + i];
    const double w = lipsc_sum_squares(m * k, ritz->W);
    const double r = over * lipsc_sum_squares(n * k, ritz->R);
    double largest;
    const lipsc_status status = lipsc_eigen_below(k, S, &largest);
    if (status || !isfinite(largest)) return status;
    largest += 2.0 * ((double)(m + n) + 8.0) * DBL_EPSILON * (w + r);
    const double error =
        sqrt(ritz->W_error * ritz->W_error + over * ritz->R_error * ritz->R_error);
    const double root = lipsc_up(sqrt(lipsc_up(largest, 4)) + error, 8);
    *out = lipsc_up(root * root / lipsc_down(1.0 - ritz->defect, 2), 8);
    return LIPSC_OK;
}

/* The response falls as lambda grows: twice applied to the goal it comes from above close
 * to where both are equal. */
lipsc_status lipsc_ritz_prove(const lipsc_certifier *c, const lipsc_ritz *ritz,
                              const lipsc_moments *moments, double *bound) {
    const double rest = bound_rest(ritz, moments);
    const double goal = lipsc_down(c->goal * c->goal, 2);
    double below = INFINITY, above = INFINITY, answer = INFINITY;
    *bound = INFINITY;
    if (!ritz->k || !(rest < goal)) return LIPSC_OK;
    double *S = lipsc_alloc(ritz->k * ritz->k, sizeof *S);
    if (!S) return LIPSC_E_NOMEM;
    lipsc_status status = respond(c, ritz, rest, goal, S, &below);
    if (!status && below <= goal) {
        *bound = c->goal;
        status = respond(c, ritz, rest, below, S, &above);
    }
    above = lipsc_up(above, 4);
    if (!status && above < goal) status = respond(c, ritz, rest, above, S, &answer);
    if (!status && answer <= above) *bound = lipsc_up(sqrt(above), 2);
    lipsc_release(S);
    return status;
}
