/* sigma.c - largest singular values of attention: solved for in the precision of the
 * handles, judged by products in double and what rounding can do to them. */
#include "attn/rounding.h"
#include "attn/turned.h"
#include "core/mem.h"
#include "value/value.h"

/* Whether an input is so long that a CPU would look at its scores for longer than the
 * device computes with them. */
static int is_long(const lipsc_attn *attn) {
    const size_t half = lipsc_device_table(attn->device)->half;
    return half && attn->input.n >= LIPSC_LONG * half;
}

static lipsc_status attn_rounding(void *ctx, double enough, double *eps, char *why,
                                  size_t size) {
    enum { FEW = 16 };         /* tokens whose scores cost nothing to look at */
    const double coarse = 1e4; /* times enough, where a look at the scores costs much */
    lipsc_attn *attn = ctx;
    lipsc_rounding rounding;
    const double wanted = is_long(attn)        ? coarse * enough
                          : attn->rows.n > FEW ? enough
                                               : 0.0;
    const lipsc_status status =
        lipsc_attn_rounding_within(attn, LIPSC_F64, wanted, &rounding);
    if (status) return status;
    *eps = rounding.eps;
    if (rounding.undecided) lipsc_rounding_reason(&rounding, why, size);
    return LIPSC_OK;
}

/* The space of the operator in double, where that is on the same device. */
static const lipsc_space *wide_of(const lipsc_attn *attn) {
    const lipsc_space *wide = lipsc_device_space(attn->device, LIPSC_F64);
    const int same = lipsc_device_proved(attn->device) == attn->device;
    return same && wide->ops->widen && wide->ops->grams && !wide->split ? wide : NULL;
}

static lipsc_judge judge_of(lipsc_attn *attn) {
    return (lipsc_judge){lipsc_exact_products, attn_rounding, attn, 1, wide_of(attn)};
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
    if (is_long(attn) && !info->unknown[0]) return; /* twice the precision is the CPU's */
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

/* ---- The precision of the products -------------------------------------------------- */

/* A residual that products in f16 reach, one that f16 x 3 does (docs/cuda.md). */
static const double half_tol = 1e-3, single_tol = 1e-5;
/* Pairs after which f16 is given up, and f16 x 3 where f64 can do more. */
enum { HALF_PRODUCTS = 64, SINGLE_PRODUCTS = 256 }; /* for each value */

/* What a solve begins with. */
static lipsc_dtype first_precision(const lipsc_attn *attn, const lipsc_svd_settings *set) {
    const lipsc_device_ops *ops = lipsc_device_table(attn->device);
    if (attn->dtype != LIPSC_F32 || set->pinned || !ops->half || set->tol == 0.0)
        return attn->dtype;
    if (set->tol >= half_tol && attn->input.n >= ops->half) return LIPSC_F16;
    return set->tol >= single_tol ? LIPSC_F32 : LIPSC_F64;
}

/* What comes after it; itself: nothing. */
static lipsc_dtype next_precision(const lipsc_attn *attn, const lipsc_svd_settings *set,
                                  lipsc_dtype dtype) {
    const int ladder =
        attn->dtype == LIPSC_F32 && !set->pinned && lipsc_device_table(attn->device)->half;
    return !ladder ? dtype : dtype == LIPSC_F16 ? LIPSC_F32 : LIPSC_F64;
}

/* How long a precision is tried that another one follows: its residual may stall. */
static long most_products(lipsc_dtype dtype, const lipsc_svd_settings *set) {
    const long each = dtype == LIPSC_F16 ? HALF_PRODUCTS : SINGLE_PRODUCTS;
    const long most = each * (long)(set->count ? set->count : 1);
    const int all = dtype != LIPSC_F16 && set->tol == 0.0;
    return all || most > set->max_products ? set->max_products : most;
}

/* The operator of an input that is long, or that ranks share and of which nothing is proved
 * in its precision, gives its memory to that in double. */
static void close_solved(void *attn) { lipsc_attn_close(attn); }

/* Solved for with `in`, judged by attn. */
static lipsc_status solve_with(size_t count, lipsc_attn *const *attn, lipsc_attn *const *in,
                               const lipsc_svd_settings *set, lipsc_sigma_task *task) {
    lipsc_linop *op = lipsc_alloc(count, sizeof *op);
    lipsc_judge *judge = lipsc_alloc(count, sizeof *judge);
    const lipsc_device *device = attn[0]->device;
    const lipsc_device_ops *ops = lipsc_device_table(device);
    const int handed = ops->concurrent && !ops->batch_tokens; /* vectors, among threads */
    const int threads = handed ? lipsc_device_threads(device) : 1;
    const int spare = ops->own && ops->coarse_f32;
    const lipsc_status status = op && judge ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t i = 0; i < count && !status; i++) {
        op[i] = lipsc_attn_linop(in[i]);
        judge[i] = judge_of(attn[i]);
        task[i].op = &op[i];
        task[i].judge = &judge[i];
        task[i].unprobed = in[i]->dtype == LIPSC_F16; /* its difference says nothing */
        task[i].solved =
            (is_long(attn[i]) || spare) && in[i]->dtype != LIPSC_F64 ? close_solved : NULL;
    }
    if (!status) lipsc_linops_sigma(count, task, set, lipsc_attn_products, threads);
    lipsc_release(op);
    lipsc_release(judge);
    return status;
}

/* The same in another precision, by handles of one batch that are made for it.  An input
 * that does not fit into f16 says so of each task. */
static lipsc_status solve_in(lipsc_dtype dtype, size_t count, lipsc_attn *const *attn,
                             const lipsc_svd_settings *set, lipsc_sigma_task *task) {
    lipsc_attn *own = lipsc_alloc_zero(count, sizeof *own);
    lipsc_attn **in = lipsc_alloc(count, sizeof *in);
    lipsc_status status = own && in ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t i = 0; i < count && !status; i++) in[i] = &own[i];
    if (!status)
        status = lipsc_attns_as(count, (const lipsc_attn *const *)attn, dtype,
                                attn[0]->device, in);
    if (!status)
        status = solve_with(count, attn, in, set, task);
    else if (status == LIPSC_E_NONFIN)
        for (size_t i = 0; i < count; i++) task[i].status = status;
    for (size_t i = 0; own && i < count; i++) lipsc_attn_close(&own[i]);
    lipsc_release(own);
    lipsc_release(in);
    return status == LIPSC_E_NONFIN ? LIPSC_OK : status;
}

static lipsc_status turn_back(void *attn, int image, size_t k, double *x) {
    return lipsc_attn_turn_back(attn, image, k, x);
}

/* The same precision in coordinates that make products cheaper.  Where scores only just fit
 * into f32, and over there do not, it stays here. */
static lipsc_status solve_turned(size_t count, lipsc_attn *const *attn,
                                 const lipsc_svd_settings *set, lipsc_sigma_task *task) {
    lipsc_attn **in = lipsc_alloc_zero(count, sizeof *in);
    lipsc_status status = in ? lipsc_attns_turned(count, attn, in) : LIPSC_E_NOMEM;
    const int here = status == LIPSC_E_NONFIN;
    for (size_t i = 0; i < count && !status; i++) task[i].turn = turn_back;
    if (!status) status = solve_with(count, attn, in, set, task);
    for (size_t i = 0; i < count; i++) {
        task[i].turn = NULL;
        if (in) lipsc_attn_free(in[i]);
    }
    lipsc_release(in);
    return here ? solve_with(count, attn, attn, set, task) : status;
}

/* Solved for in dtype, by the handles themselves where that is theirs. */
static lipsc_status solve_as(lipsc_dtype dtype, size_t count, lipsc_attn *const *attn,
                             const lipsc_svd_settings *set, lipsc_sigma_task *task) {
    lipsc_svd_settings how = *set;
    if (next_precision(attn[0], set, dtype) != dtype)
        how.max_products = most_products(dtype, set);
    if (dtype != attn[0]->dtype) return solve_in(dtype, count, attn, &how, task);
    return lipsc_attn_turns(attn[0]) ? solve_turned(count, attn, &how, task)
                                     : solve_with(count, attn, attn, &how, task);
}

/* A value that is not finite, or a residual that did not fall in the time that its
 * precision was given. */
static int wants_more(const lipsc_sigma_task *task, const lipsc_svd_settings *set) {
    return task->status == LIPSC_E_NONFIN ||
           (task->status == LIPSC_E_NOCONV && task->info->products < set->max_products);
}

/* One task in higher precisions until it is answered; what it took is added up. */
static lipsc_status climb(lipsc_attn *attn, const lipsc_svd_settings *set,
                          lipsc_dtype dtype, lipsc_sigma_task *task) {
    lipsc_status status = LIPSC_OK;
    for (lipsc_dtype next = next_precision(attn, set, dtype);
         !status && next != dtype && wants_more(task, set);
         dtype = next, next = next_precision(attn, set, dtype)) {
        lipsc_svd_info before = {.products = 0};
        lipsc_svd_settings left = *set;
        if (task->status == LIPSC_E_NOCONV) before = *task->info;
        left.max_products -= before.products;
        if ((size_t)left.max_products < left.count) break;
        status = solve_as(next, 1, &attn, &left, task);
        if (task->status && task->status != LIPSC_E_NOCONV) continue;
        task->info->products += before.products;
        task->info->seconds += before.seconds;
        task->info->product_seconds += before.product_seconds;
    }
    return status;
}

/* ---- One end for all ---------------------------------------------------------------- */

/* The caller's settings on ranks that share an input: who is told to end says it to the
 * others, and all end after the same step. */
typedef struct {
    const lipsc_device *device;
    const lipsc_svd_settings *set;
} together;

static int any_stops(void *ctx) {
    const together *t = ctx;
    const int own = t->set->stop && t->set->stop(t->set->ctx);
    return lipsc_device_largest(t->device, own) > 0.0;
}

static void pass_on(void *ctx, long products, double sigma, double residual) {
    const together *t = ctx;
    t->set->progress(t->set->ctx, products, sigma, residual);
}

static lipsc_status find_sigmas(size_t count, lipsc_attn *const *attn,
                                const lipsc_svd_settings *set, lipsc_sigma_task *task) {
    const lipsc_dtype first = first_precision(attn[0], set);
    lipsc_status status = solve_as(first, count, attn, set, task);
    for (size_t i = 0; i < count && !status; i++)
        status = climb(attn[i], set, first, &task[i]);
    for (size_t i = 0; i < count && !status; i++) sharpen(attn[i], set, &task[i]);
    return status;
}

lipsc_status lipsc_attn_sigmas(size_t count, lipsc_attn *const *attn,
                               const lipsc_svd_settings *set, lipsc_sigma_task *task) {
    together all = {attn[0]->device, set};
    lipsc_svd_settings how = *set;
    if (!lipsc_device_space(all.device, attn[0]->dtype)->split)
        return find_sigmas(count, attn, set, task);
    how.stop = any_stops;
    if (set->progress) how.progress = pass_on;
    how.ctx = &all;
    return find_sigmas(count, attn, &how, task);
}

lipsc_status lipsc_attn_sigma(lipsc_attn *attn, const lipsc_svd_settings *set,
                              double *sigma, double *u, double *v, lipsc_svd_info *info) {
    if (!attn || !set || !sigma) return LIPSC_E_ARG;
    lipsc_svd_info found;
    lipsc_sigma_task task = {.sigma = sigma, .u = u, .v = v, .info = info ? info : &found};
    const lipsc_status status = lipsc_attn_sigmas(1, &attn, set, &task);
    return status ? status : task.status;
}
