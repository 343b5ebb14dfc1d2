/* sigma.c - largest singular values of a Jacobian: found in the precision of
 * the operator, then re-evaluated in double.
 *
 * The solver hands over directions v.  Whatever precision found them, |J v| / |v| with J
 * in double, less what rounding can do to it, is a lower bound of sigma. */
#include "attn/rounding.h"
#include "core/clock.h"
#include "core/mem.h"
#include "svd/solver.h"
#include "value/value.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Blocks of that length are summed, then the sums: short chains have small errors. */
enum { CHAIN = 256 };

/* Taken relative to the largest entry: squares of tiny values would underflow. */
static double norm(size_t n, const double *x) {
    double largest = 0.0, sum = 0.0;
    for (size_t e = 0; e < n; e++)
        if (!(fabs(x[e]) <= largest)) largest = fabs(x[e]); /* a NaN stays */
    for (size_t first = 0; largest > 0.0 && first < n; first += CHAIN) {
        double part = 0.0;
        for (size_t e = first; e < n && e < first + CHAIN; e++)
            part += (x[e] / largest) * (x[e] / largest);
        sum += part;
    }
    return largest * sqrt(sum);
}

/* Relative error of norm. */
static double norm_error(size_t n) {
    const double longest = (double)(n < CHAIN ? n : CHAIN) + (double)(n / CHAIN) + 8.0;
    return longest * DBL_EPSILON;
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

/* Rounding below that part of the value is not worth a look at all scores. */
static const double enough_of_sigma = 1e-6;

/* lower of the first value; v is that of the first value, as stored. */
static lipsc_status enclose(const lipsc_judge *judge, size_t m, size_t n, double sigma,
                            const double *v, lipsc_svd_info *info) {
    double eps;
    info->unknown[0] = '\0';
    info->rounding = info->lower = NAN;
    if (!judge->rounding) return LIPSC_OK;
    const lipsc_status status = judge->rounding(judge->ctx, enough_of_sigma * sigma, &eps,
                                                info->unknown, sizeof info->unknown);
    if (status) return status;
    const double length = norm(n, v) * (1.0 + norm_error(n));
    info->rounding = eps * length + sigma * norm_error(m);
    info->lower = (sigma - info->rounding) / length * (1.0 - 4.0 * DBL_EPSILON);
    if (info->lower > 0.0 && !info->unknown[0]) return LIPSC_OK;
    info->lower = 0.0;
    if (!info->unknown[0] && sigma > 0.0)
        snprintf(info->unknown, sizeof info->unknown,
                 "rounding may change this value by %.1e, more than itself",
                 info->rounding);
    return LIPSC_OK;
}

static lipsc_status attn_rounding(void *ctx, double enough, double *eps, char *why,
                                  size_t size) {
    enum { FEW = 16 }; /* tokens whose scores cost nothing to look at */
    lipsc_attn *attn = ctx;
    lipsc_rounding rounding;
    const lipsc_status status = lipsc_attn_rounding_within(
        attn, LIPSC_F64, attn->rows.n > FEW ? enough : 0.0, &rounding);
    if (status) return status;
    *eps = rounding.eps;
    if (rounding.undecided) lipsc_rounding_reason(&rounding, why, size);
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

static lipsc_status solve_attn(lipsc_attn *attn, const lipsc_svd_settings *set,
                               double *sigma, double *u, double *v, lipsc_svd_info *info) {
    const lipsc_linop op = lipsc_attn_linop(attn);
    const lipsc_judge judge = {attn_exact, attn_rounding, attn};
    return lipsc_linop_sigma(&op, &judge, set, sigma, u, v, info);
}

/* Once more with projections in twice the precision, where the plain ones leave too much
 * open.  What cannot be had leaves the first answer, which says what it does not know. */
lipsc_status lipsc_attn_sigma(lipsc_attn *attn, const lipsc_svd_settings *set,
                              double *sigma, double *u, double *v, lipsc_svd_info *info) {
    if (!attn || !set || !sigma) return LIPSC_E_ARG;
    lipsc_svd_info found;
    if (!info) info = &found;
    const lipsc_status status = solve_attn(attn, set, sigma, u, v, info);
    if (status && status != LIPSC_E_NOCONV) return status;
    if (!info->unknown[0] && info->rounding <= LIPSC_BLURRED * *sigma) return status;
    lipsc_attn *refined;
    const double before = info->seconds;
    if (lipsc_attn_refined(attn, &refined)) return status;
    const lipsc_status again = solve_attn(refined, set, sigma, u, v, info);
    lipsc_attn_free(refined);
    if (again && again != LIPSC_E_NOCONV && again != LIPSC_E_STOPPED) return status;
    info->seconds += before;
    return again;
}

/* ---- upper_prob of an operator in f32 ------------------------------------------------ */

/* A solve in f32 speaks of the operator in f32.  Let E be its difference to the one in
 * double and w standard normal: |E| <= |E w| / |g| with g the component of w along E's
 * first direction, and Prob(|g| < t) <= t sqrt(2 / pi).  Half of the risk goes here. */
static const double risk_share = 0.5;

static double operator_difference(size_t m, const double *in_f32, double *in_f64,
                                  double probability) {
    const double t = risk_share * (1.0 - probability) * sqrt(acos(-1.0) / 2.0);
    for (size_t e = 0; e < m; e++) in_f64[e] -= in_f32[e];
    return norm(m, in_f64) / t;
}

/* A random vector w and its product in the precision of op, both as doubles. */
static lipsc_status probe(const lipsc_linop *op, uint64_t seed, double *w, double *image) {
    void *x = lipsc_space_alloc(op->space, op->n), *y = lipsc_space_alloc(op->space, op->m);
    lipsc_status status = x && y ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status)
        status = lipsc_space_random(op->space, seed + 0x9e3779b97f4a7c15u, 0, op->n, x);
    if (!status) status = op->apply(op->ctx, 0, 1, x, y);
    if (!status) status = lipsc_space_download(op->space, op->n, x, w);
    if (!status) status = lipsc_space_download(op->space, op->m, y, image);
    lipsc_space_release(op->space, x);
    lipsc_space_release(op->space, y);
    return status;
}

/* ---- Solve, then evaluate -------------------------------------------------------------
 */

/* Values and vectors found: nothing of the caller's is written before success.  One vector
 * more than asked for, for the probe. */
typedef struct {
    double *sigma, *u, *v, *image;
} answer;

static void answer_free(answer *a) {
    lipsc_release(a->sigma);
    lipsc_release(a->u);
    lipsc_release(a->v);
    lipsc_release(a->image);
}

static lipsc_status judge_answer(const lipsc_linop *op, const lipsc_judge *judge,
                                 const lipsc_svd_settings *set, answer *a,
                                 lipsc_svd_info *found) {
    const size_t count = set->count, m = op->m, n = op->n;
    const int probed = op->space->dtype == LIPSC_F32 && !isnan(found->upper_prob);
    double *w = a->v + count * n, *exact = a->u + count * m;
    lipsc_status status = LIPSC_OK;
    const double start = lipsc_seconds();
    if (probed) status = probe(op, set->seed, w, a->image);
    for (size_t i = 0; !status && i < count; i++) normalise(n, a->v + i * n);
    if (!status) status = judge->apply(judge->ctx, count + (size_t)probed, a->v, a->u);
    found->product_seconds += lipsc_seconds() - start;
    if (status) return status;
    if (probed)
        found->upper_prob += operator_difference(m, a->image, exact, found->probability);
    for (size_t i = 0; i < count; i++) a->sigma[i] = normalise(m, a->u + i * m);
    sort_values(count, m, n, a->sigma, a->u, a->v);
    status = enclose(judge, m, n, a->sigma[0], a->v, found);
    if (!status && !probed && judge->rounding) found->upper_prob += found->rounding;
    if (found->unknown[0]) found->upper_prob = NAN;
    if (found->upper_prob < a->sigma[0]) found->upper_prob = a->sigma[0];
    return status;
}

lipsc_status lipsc_linop_sigma(const lipsc_linop *op, const lipsc_judge *judge,
                               const lipsc_svd_settings *set, double *sigma, double *u,
                               double *v, lipsc_svd_info *info) {
    const double start = lipsc_seconds();
    const int f32 = op->space->dtype == LIPSC_F32;
    lipsc_svd_settings used = *set;
    if (used.count == 0) used.count = 1;
    if (used.tol == 0.0) used.tol = f32 ? 1e-2 : 1e-8;
    if (f32) used.probability = 1.0 - (1.0 - risk_share) * (1.0 - set->probability);

    size_t all_u, all_v;
    if (!lipsc_mul_size(used.count + 1, op->m, &all_u) ||
        !lipsc_mul_size(used.count + 1, op->n, &all_v))
        return LIPSC_E_RANGE;
    lipsc_svd_info found;
    answer a = {.sigma = lipsc_alloc_zero(used.count, sizeof *a.sigma),
                .u = lipsc_alloc(all_u, sizeof *a.u),
                .v = lipsc_alloc(all_v, sizeof *a.v),
                .image = lipsc_alloc(op->m, sizeof *a.image)};
    void *bv = lipsc_space_alloc(op->space, used.count * op->n);
    lipsc_status status = LIPSC_E_NOMEM, outcome = LIPSC_OK;
    if (a.sigma && a.u && a.v && a.image && bv) {
        outcome = status = lipsc_svd_linop(op, &used, a.sigma, NULL, bv, &found);
        if (outcome == LIPSC_E_NOCONV || outcome == LIPSC_E_STOPPED) status = LIPSC_OK;
    }
    if (!status) status = lipsc_space_download(op->space, used.count * op->n, bv, a.v);
    if (!status) {
        lipsc_space_release(op->space, bv); /* room for the operator in double */
        bv = NULL;
        found.probability = set->probability;
        status = judge_answer(op, judge, &used, &a, &found);
    }
    if (!status) {
        status = outcome;
        memcpy(sigma, a.sigma, used.count * sizeof *sigma);
        if (u) memcpy(u, a.u, used.count * op->m * sizeof *u);
        if (v) memcpy(v, a.v, used.count * op->n * sizeof *v);
        /* found.residual stays what the solver measured with its own operator: in f32
         * it says when that solve had to end, and its floor is f32 rounding. */
        found.seconds = lipsc_seconds() - start;
        if (info) *info = found;
    }
    lipsc_space_release(op->space, bv);
    answer_free(&a);
    return status;
}
