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

#include "core/extreme.h"
#include "core/mem.h"
#include "svd/solver.h"

enum { PROBES = 8 };
static const double smallest_value = 1e-6; /* of the largest: below, a vector is useless */

/* ---- The vectors ------------------------------------------------------------------- */

/* A stop is told apart by whoever asked. */
static lipsc_status apply_scaled(void *ctx, int trans, size_t k, lipsc_buffer x,
                                 lipsc_buffer y) {
    const lipsc_status status = lipsc_certify_apply(ctx, trans, k, x, y, NULL);
    return status == LIPSC_E_STOPPED ? LIPSC_E_CALLBACK : status;
}

/* Leading vectors that are good for something. */
static size_t useful(size_t k, const double *value) {
    size_t found = 0;
    while (found < k && value[found] > smallest_value * value[0]) found++;
    return found;
}

static lipsc_status solve(lipsc_certifier *c, size_t k, lipsc_ritz *out) {
    const lipsc_linop op = {.m = c->op->m,
                            .n = c->op->n,
                            .space = c->op->space,
                            .apply = apply_scaled,
                            .ctx = c};
    lipsc_svd_settings set;
    lipsc_svd_defaults(&set);
    set.count = k;
    set.seed = c->set->seed;
    set.tol = lipsc_min(1e-2, 0.3 * sqrt(c->set->eps));
    set.max_products = 200 + 20 * (long)k;
    lipsc_status status =
        lipsc_svd_linop(&op, &set, out->value, LIPSC_NOWHERE, out->V, NULL);
    if (status == LIPSC_E_NOCONV) status = LIPSC_OK;
    if (status == LIPSC_E_CALLBACK && c->set->stop && c->set->stop(c->set->ctx))
        status = LIPSC_E_STOPPED;
    out->k = status ? 0 : useful(k, out->value);
    return status;
}

/* Above |V^T V - I|. */
static lipsc_status find_defect(const lipsc_certifier *c, lipsc_ritz *out) {
    const size_t n = c->op->n, k = out->k;
    double *gram = lipsc_alloc(k * k, sizeof *gram), square = NAN;
    if (!gram) return LIPSC_E_NOMEM;
    lipsc_status status = lipsc_space_gram(out->space, n, k, out->V, k, out->V, gram);
    if (!status) status = lipsc_certify_square(c, n, k, out->V, &square);
    for (size_t i = 0; !status && i < k; i++) gram[i * k + i] -= 1.0;
    out->size = lipsc_up(sqrt(square), n + k);
    if (!status)
        out->defect = lipsc_up(sqrt(lipsc_sum_squares(k * k, gram)), k * k) +
                      2.0 * (double)n * DBL_EPSILON * out->size * out->size;
    lipsc_release(gram);
    return status;
}

lipsc_status lipsc_ritz_find(lipsc_certifier *c, size_t k, lipsc_ritz *out,
                             long *products) {
    const size_t m = c->op->m, n = c->op->n, before = c->applied[0];
    *out = (lipsc_ritz){.space = c->op->space};
    out->value = lipsc_alloc_zero(k, sizeof *out->value);
    lipsc_status status = out->value ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) status = lipsc_certify_vectors(c, n, k, &out->V);
    if (!status) status = lipsc_certify_vectors(c, m, k, &out->W);
    if (!status) status = lipsc_certify_vectors(c, n, k, &out->R);
    if (!status) status = solve(c, k, out);
    if (!status && out->k) status = find_defect(c, out);
    if (!status && out->k)
        status = lipsc_certify_apply(c, 0, out->k, out->V, out->W, &out->W_square);
    *products = (long)(c->applied[0] - before);
    if (status) lipsc_ritz_free(out);
    return status;
}

void lipsc_ritz_free(lipsc_ritz *ritz) {
    const lipsc_buffer all[] = {ritz->V, ritz->W, ritz->R};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        lipsc_space_release(ritz->space, all[i]);
    lipsc_release(ritz->value);
    *ritz = (lipsc_ritz){0};
}

/* ---- Their part of the moments ----------------------------------------------------- */

/* R = Z - V (W^T W), Z in R already, whose error is z_error and sum of squares z_square. */
static lipsc_status make_residual(const lipsc_certifier *c, double z_error, double z_square,
                                  lipsc_ritz *ritz) {
    const size_t m = c->op->m, n = c->op->n, k = ritz->k;
    double *A = lipsc_alloc(k * k, sizeof *A);
    if (!A) return LIPSC_E_NOMEM;
    lipsc_status status = lipsc_space_gram(ritz->space, m, k, ritz->W, k, ritz->W, A);
    for (size_t e = 0; !status && e < k * k; e++) A[e] = -A[e];
    if (!status)
        status = lipsc_space_combine(ritz->space, n, k, ritz->V, k, A, 1.0, ritz->R);
    const double a = status ? 0.0 : sqrt(lipsc_sum_squares(k * k, A));
    ritz->R_error = lipsc_up(z_error + 2.0 * ((double)k + 4.0) * DBL_EPSILON *
                                           (sqrt(z_square) + ritz->size * a),
                             n * k);
    lipsc_release(A);
    return status;
}

lipsc_status lipsc_ritz_powers(lipsc_certifier *c, int power, double norm,
                               lipsc_ritz *ritz) {
    const size_t m = c->op->m, n = c->op->n, k = ritz->k, roundings = (m + n) * k;
    const size_t longest = m > n ? m : n;
    if (power < 2) power = 2; /* R is needed in any case */
    lipsc_buffer room[2] = {LIPSC_NOWHERE, LIPSC_NOWHERE};
    lipsc_buffer x = ritz->W;
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; i < 2 && !status; i++)
        status = lipsc_certify_vectors(c, longest, k, &room[i]);
    double size = lipsc_up(sqrt(ritz->W_square), roundings);
    double error = ritz->W_error = lipsc_up(c->eta * ritz->size, 4);
    ritz->powers = 0;
    for (int p = 1; p <= power && !status; p++) {
        const lipsc_buffer y = room[p & 1];
        double square;
        ritz->kept[p] =
            lipsc_max(0.0, lipsc_down((lipsc_down(size, 2 * roundings + 16) - error) /
                                          lipsc_up(sqrt(1.0 + ritz->defect), 4),
                                      8));
        ritz->powers = p;
        if (p == power) break;
        status = lipsc_certify_apply(c, p & 1, k, x, y, &square);
        if (status) break;
        error = lipsc_up(c->eta * size + norm * error, 8);
        size = lipsc_up(sqrt(square), roundings);
        if (p == 1) {
            status = lipsc_space_copy(ritz->space, n * k, y, ritz->R);
            if (!status) status = make_residual(c, error, square, ritz);
        }
        x = y;
    }
    for (size_t i = 0; i < 2; i++) lipsc_space_release(ritz->space, room[i]);
    return status;
}

/* ---- What may be expected ---------------------------------------------------------- */

/* Random vectors less what V holds of them. */
static lipsc_status draw_rest(const lipsc_certifier *c, const lipsc_ritz *ritz,
                              lipsc_buffer x) {
    const lipsc_space *space = c->op->space;
    const size_t n = c->op->n, k = ritz->k;
    double *part = lipsc_alloc(k, PROBES * sizeof *part);
    lipsc_status status = part || !k ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) status = lipsc_space_random(space, c->set->seed + 1, 0, PROBES * n, x);
    if (!status && k) status = lipsc_space_gram(space, n, k, ritz->V, PROBES, x, part);
    for (size_t e = 0; !status && e < k * PROBES; e++) part[e] = -part[e];
    if (!status && k)
        status = lipsc_space_combine(space, n, k, ritz->V, PROBES, part, 1.0, x);
    lipsc_release(part);
    return status;
}

lipsc_status lipsc_ritz_rest(lipsc_certifier *c, const lipsc_ritz *ritz, int power,
                             double *estimate) {
    const size_t longest = c->op->m > c->op->n ? c->op->m : c->op->n;
    lipsc_buffer room[2] = {LIPSC_NOWHERE, LIPSC_NOWHERE};
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; i < 2 && !status; i++)
        status = lipsc_certify_vectors(c, longest, PROBES, &room[i]);
    if (!status) status = draw_rest(c, ritz, room[0]);
    for (int p = 1; p <= power && !status; p++) {
        status = lipsc_certify_apply(c, (p - 1) & 1, PROBES, room[(p - 1) & 1], room[p & 1],
                                     &estimate[p]);
        estimate[p] /= PROBES;
    }
    for (size_t i = 0; i < 2; i++) lipsc_space_release(c->op->space, room[i]);
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
    double *T = lipsc_alloc(k * k, sizeof *T), w = NAN, r = NAN;
    lipsc_status status = T ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) status = lipsc_space_gram(ritz->space, m, k, ritz->W, k, ritz->W, S);
    if (!status) status = lipsc_space_gram(ritz->space, n, k, ritz->R, k, ritz->R, T);
    if (!status) status = lipsc_certify_square(c, m, k, ritz->W, &w);
    if (!status) status = lipsc_certify_square(c, n, k, ritz->R, &r);
    for (size_t e = 0; !status && e < k * k; e++) S[e] += over * T[e];
    for (size_t i = 0; i < k; i++) /* sums may round both triangles differently */
        for (size_t j = 0; j < i; j++) S[i * k + j] = S[j * k + i];
    lipsc_release(T);
    r *= over;
    double largest;
    if (!status) status = lipsc_eigen_below(k, S, &largest);
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
