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

static lipsc_judge judge_of(lipsc_attn *attn) {
    return (lipsc_judge){attn_exact, attn_rounding, attn};
}

/* Once more with projections in twice the precision, where the plain ones leave too much
 * open.  What cannot be had leaves the first answer, which says what it does not know. */
static void sharpen(lipsc_attn *attn, const lipsc_svd_settings *set,
                    lipsc_sigma_task *task) {
    lipsc_svd_info *info = task->info;
    const double before = info->seconds;
    lipsc_attn *refined;
    if (task->status && task->status != LIPSC_E_NOCONV) return;
    if (!info->unknown[0] && info->rounding <= LIPSC_BLURRED * *task->sigma) return;
    if (lipsc_attn_refined(attn, &refined)) return;
    const lipsc_linop op = lipsc_attn_linop(refined);
    const lipsc_judge judge = judge_of(refined);
    const lipsc_status again =
        lipsc_linop_sigma(&op, &judge, set, task->sigma, task->u, task->v, info);
    lipsc_attn_free(refined);
    if (again && again != LIPSC_E_NOCONV && again != LIPSC_E_STOPPED) return;
    info->seconds += before;
    task->status = again;
}

lipsc_status lipsc_attn_sigmas(size_t count, lipsc_attn *const *attn,
                               const lipsc_svd_settings *set, lipsc_sigma_task *task) {
    lipsc_linop *op = lipsc_alloc(count, sizeof *op);
    lipsc_judge *judge = lipsc_alloc(count, sizeof *judge);
    const lipsc_device *device = attn[0]->device;
    const int threads =
        lipsc_device_table(device)->concurrent ? lipsc_device_threads(device) : 1;
    const lipsc_status status = op && judge ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t i = 0; i < count && !status; i++) {
        op[i] = lipsc_attn_linop(attn[i]);
        judge[i] = judge_of(attn[i]);
        task[i].op = &op[i];
        task[i].judge = &judge[i];
    }
    if (!status) lipsc_linops_sigma(count, task, set, lipsc_attn_products, threads);
    for (size_t i = 0; i < count && !status; i++) sharpen(attn[i], set, &task[i]);
    lipsc_release(op);
    lipsc_release(judge);
    return status;
}

lipsc_status lipsc_attn_sigma(lipsc_attn *attn, const lipsc_svd_settings *set,
                              double *sigma, double *u, double *v, lipsc_svd_info *info) {
    if (!attn || !set || !sigma) return LIPSC_E_ARG;
    lipsc_svd_info found;
    lipsc_sigma_task task = {.sigma = sigma, .u = u, .v = v, .info = info ? info : &found};
    const lipsc_status status = lipsc_attn_sigmas(1, &attn, set, &task);
    return status ? status : task.status;
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
    void *found_v; /* on the device */
    lipsc_svd_info found;
} answer;

static void answer_free(const lipsc_space *space, answer *a) {
    lipsc_release(a->sigma);
    lipsc_release(a->u);
    lipsc_release(a->v);
    lipsc_release(a->image);
    lipsc_space_release(space, a->found_v);
}

static lipsc_status answer_new(const lipsc_linop *op, size_t count, answer *a) {
    size_t all_u, all_v;
    *a = (answer){.sigma = NULL};
    if (!lipsc_mul_size(count + 1, op->m, &all_u) ||
        !lipsc_mul_size(count + 1, op->n, &all_v))
        return LIPSC_E_RANGE;
    a->sigma = lipsc_alloc_zero(count, sizeof *a->sigma);
    a->u = lipsc_alloc(all_u, sizeof *a->u);
    a->v = lipsc_alloc(all_v, sizeof *a->v);
    a->image = lipsc_alloc(op->m, sizeof *a->image);
    a->found_v = lipsc_space_alloc(op->space, count * op->n);
    return a->sigma && a->u && a->v && a->image && a->found_v ? LIPSC_OK : LIPSC_E_NOMEM;
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

/* Judges what a solve found and hands it to the caller. */
static lipsc_status conclude(const lipsc_svd_settings *used, double probability, answer *a,
                             lipsc_sigma_task *task) {
    const lipsc_linop *op = task->op;
    const size_t count = used->count;
    const double start = lipsc_seconds();
    lipsc_status status = lipsc_space_download(op->space, count * op->n, a->found_v, a->v);
    if (status) return status;
    lipsc_space_release(op->space, a->found_v); /* room for the operator in double */
    a->found_v = NULL;
    a->found.probability = probability;
    status = judge_answer(op, task->judge, used, a, &a->found);
    if (status) return status;
    memcpy(task->sigma, a->sigma, count * sizeof *task->sigma);
    if (task->u) memcpy(task->u, a->u, count * op->m * sizeof *task->u);
    if (task->v) memcpy(task->v, a->v, count * op->n * sizeof *task->v);
    /* found.residual stays what the solver measured with its own operator: in f32
     * it says when that solve had to end, and its floor is f32 rounding. */
    a->found.seconds += lipsc_seconds() - start;
    if (task->info) *task->info = a->found;
    return LIPSC_OK;
}

void lipsc_linops_sigma(size_t count, lipsc_sigma_task *task, const lipsc_svd_settings *set,
                        lipsc_products *products, int threads) {
    const int f32 = task->op->space->dtype == LIPSC_F32;
    lipsc_svd_settings used = *set;
    if (used.count == 0) used.count = 1;
    if (used.tol == 0.0) used.tol = f32 ? 1e-2 : 1e-8;
    if (f32) used.probability = 1.0 - (1.0 - risk_share) * (1.0 - set->probability);

    answer *a = lipsc_alloc_zero(count, sizeof *a);
    lipsc_svd_task *solve = lipsc_alloc_zero(count, sizeof *solve);
    lipsc_status status = a && solve ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t i = 0; i < count && !status; i++) {
        status = answer_new(task[i].op, used.count, &a[i]);
        solve[i] = (lipsc_svd_task){
            .op = task[i].op, .sigma = a[i].sigma, .v = a[i].found_v, .info = &a[i].found};
    }
    if (!status) lipsc_svd_batch(count, solve, &used, products, threads);
    for (size_t i = 0; i < count; i++) {
        task[i].status = status ? status : solve[i].status;
        if (task[i].status == LIPSC_OK || task[i].status == LIPSC_E_NOCONV ||
            task[i].status == LIPSC_E_STOPPED) {
            const lipsc_status failed = conclude(&used, set->probability, &a[i], &task[i]);
            if (failed) task[i].status = failed;
        }
        if (a) answer_free(task[i].op->space, &a[i]);
    }
    lipsc_release(a);
    lipsc_release(solve);
}

lipsc_status lipsc_linop_sigma(const lipsc_linop *op, const lipsc_judge *judge,
                               const lipsc_svd_settings *set, double *sigma, double *u,
                               double *v, lipsc_svd_info *info) {
    lipsc_sigma_task task = {
        .op = op, .judge = judge, .sigma = sigma, .u = u, .v = v, .info = info};
    lipsc_linops_sigma(1, &task, set, NULL, 1);
    return task.status;
}
