/* svd.c - settings, dispatch to a method, and the answer in the caller's memory. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "svd/solve.h"
#include "svd/solver.h"

enum { DENSE_BLOCK = 32, LARGEST_DEFAULT_BLOCK = 8 };

void lipsc_svd_defaults(lipsc_svd_settings *set) {
    memset(set, 0, sizeof *set);
    set->method = LIPSC_LANCZOS;
    set->max_products = 1000;
    set->count = 1;
    set->seed = 1;
    set->probability = 0.999;
}

/* Vectors per product.  A Krylov space from b random vectors sees at most b copies of a
 * repeated value, so several values are sought with several vectors (more than
 * LARGEST_DEFAULT_BLOCK equal values among the largest can still hide; ask for a larger
 * block).  For one value a single vector needs the fewest products. */
static size_t choose_block(const lipsc_svd_settings *set, size_t n) {
    size_t block = set->block;
    if (set->method == LIPSC_POWER)
        block = 1;
    else if (!block && set->method == LIPSC_DENSE)
        block = DENSE_BLOCK;
    else if (!block)
        block = set->count < LARGEST_DEFAULT_BLOCK ? set->count : LARGEST_DEFAULT_BLOCK;
    return block < n ? block : n;
}

/* *out: the same settings with every default but that of basis resolved. */
static lipsc_status check_settings(const lipsc_linop *op, const lipsc_svd_settings *set,
                                   lipsc_svd_settings *out) {
    *out = *set;
    if (!op->m || !op->n || !op->space || !op->apply) return LIPSC_E_ARG;
    if (!(set->tol >= 0.0) || !(set->value_tol >= 0.0) || set->max_products < 0)
        return LIPSC_E_ARG;
    if (!(set->probability > 0.0 && set->probability < 1.0)) return LIPSC_E_ARG;
    if (set->method != LIPSC_LANCZOS && set->method != LIPSC_POWER &&
        set->method != LIPSC_DENSE)
        return LIPSC_E_ARG;

    if (out->tol == 0.0) out->tol = op->space->dtype == LIPSC_F32 ? 1e-2 : 1e-8;
    if (out->max_products == 0) out->max_products = 1000;
    if (out->count == 0) out->count = 1;
    out->block = choose_block(out, op->n);
    /* the evaluation of the answer alone takes one pair per value */
    if (out->method != LIPSC_DENSE && (size_t)out->max_products < out->count)
        return LIPSC_E_ARG;
    return LIPSC_OK;
}

/* LIPSC_E_RANGE when k vectors of length len cannot be counted in bytes. */
static lipsc_status new_vectors(const lipsc_space *space, size_t len, size_t k,
                                lipsc_buffer *out) {
    size_t elements, bytes;
    *out = LIPSC_NOWHERE;
    if (!lipsc_mul_size(len, k, &elements) ||
        !lipsc_mul_size(elements, space->item, &bytes))
        return LIPSC_E_RANGE;
    *out = lipsc_space_alloc(space, elements);
    return out->at ? LIPSC_OK : LIPSC_E_NOMEM;
}

/* v: where the caller wants the vectors, which are made there where nothing is sorted. */
static lipsc_status run_open(lipsc_svd_run *run, lipsc_buffer v) {
    const lipsc_linop *op = run->op;
    const size_t count = run->set.count;
    run->sigma = lipsc_alloc_zero(count, sizeof *run->sigma);
    run->residual = lipsc_alloc_zero(count, sizeof *run->residual);
    lipsc_status status = run->sigma && run->residual ? LIPSC_OK : LIPSC_E_NOMEM;
    run->lean = lipsc_lanczos_lean(run);
    if (!status)
        status = new_vectors(run->space, op->m, count + (size_t)run->lean, &run->u);
    if (run->lean && v.at)
        run->v = v;
    else if (!status)
        status = new_vectors(run->space, op->n, count, &run->v);
    if (!status) status = new_vectors(run->space, op->n, run->set.block, &run->t);
    return status;
}

static void run_close(lipsc_svd_run *run, lipsc_buffer callers) {
    lipsc_release(run->sigma);
    lipsc_release(run->residual);
    lipsc_space_release(run->space, run->u);
    if (run->v.at != callers.at) lipsc_space_release(run->space, run->v);
    lipsc_space_release(run->space, run->t);
}

/* Largest first: rounding may have exchanged equal values.  order (count). */
static void sort_values(const lipsc_svd_run *run, size_t *order) {
    for (size_t i = 0; i < run->set.count; i++) {
        size_t place = i;
        for (; place > 0 && run->sigma[order[place - 1]] < run->sigma[i]; place--)
            order[place] = order[place - 1];
        order[place] = i;
    }
}

static lipsc_status hand_over(lipsc_svd_run *run, const size_t *order, double *sigma,
                              lipsc_buffer u, lipsc_buffer v) {
    const size_t m = run->op->m, n = run->op->n;
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; i < run->set.count && !status; i++) {
        sigma[i] = run->sigma[order[i]];
        if (u.at)
            status = lipsc_space_copy(run->space, m, lipsc_svd_at(run, run->u, m, order[i]),
                                      lipsc_svd_at(run, u, m, i));
        if (v.at && v.at != run->v.at && !status)
            status = lipsc_space_copy(run->space, n, lipsc_svd_at(run, run->v, n, order[i]),
                                      lipsc_svd_at(run, v, n, i));
    }
    return status;
}

static int is_answer(lipsc_status status) {
    return status == LIPSC_OK || status == LIPSC_E_NOCONV || status == LIPSC_E_STOPPED;
}

/* What a run found, in the caller's memory. */
static lipsc_status answer(lipsc_svd_run *run, lipsc_svd_task *task) {
    size_t *order = lipsc_alloc(run->set.count, sizeof *order);
    if (!order) return LIPSC_E_NOMEM;
    sort_values(run, order);
    const lipsc_status failed = hand_over(run, order, task->sigma, task->u, task->v);
    const double residual = run->residual[order[0]];
    lipsc_release(order);
    if (failed) return failed;
    if (task->info)
        *task->info = (lipsc_svd_info){
            .status = run->status,
            .converged = run->status == LIPSC_OK,
            .residual = residual,
            .products = run->products,
            .product_seconds = run->product_seconds,
            .restarts = run->restarts,
            .upper_prob =
                run->upper_prob < task->sigma[0] ? task->sigma[0] : run->upper_prob,
            .probability = run->set.probability,
            .seconds = run->product_seconds + run->own_seconds,
            .rounding = NAN, /* what A does to its vectors is not known here */
            .lower = NAN,
        };
    return run->status;
}

/* The methods that solve one at a time. */
static void solve_alone(lipsc_svd_run *run) {
    const double begin = lipsc_seconds();
    run->status =
        run->set.method == LIPSC_POWER ? lipsc_svd_power(run) : lipsc_svd_dense(run);
    run->own_seconds += lipsc_seconds() - begin - run->product_seconds;
}

void lipsc_svd_batch(size_t count, lipsc_svd_task *task, const lipsc_svd_settings *set,
                     lipsc_products *products, int threads) {
    lipsc_svd_run *runs = lipsc_alloc_zero(count, sizeof *runs);
    lipsc_status status = runs ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t i = 0; i < count && !status; i++) {
        lipsc_svd_run *run = &runs[i];
        *run = (lipsc_svd_run){.op = task[i].op,
                               .space = task[i].op->space,
                               .start = task[i].start,
                               .upper_prob = NAN};
        status = check_settings(run->op, set, &run->set);
        if (status) break;
        run->set.seed += task[i].seed;
        run->eps = run->space->dtype == LIPSC_F32 ? (double)FLT_EPSILON : DBL_EPSILON;
        status = run_open(run, task[i].v);
    }
    if (!status && set->method == LIPSC_LANCZOS)
        lipsc_svd_lockstep(count, runs, products, threads);
    else
        for (size_t i = 0; i < count && !status; i++) solve_alone(&runs[i]);
    for (size_t i = 0; i < count; i++) {
        task[i].status = status ? status : runs[i].status;
        if (is_answer(task[i].status)) task[i].status = answer(&runs[i], &task[i]);
        if (runs && runs[i].op) run_close(&runs[i], task[i].v);
    }
    lipsc_release(runs);
}

lipsc_status lipsc_svd_linop(const lipsc_linop *op, const lipsc_svd_settings *set,
                             double *sigma, lipsc_buffer u, lipsc_buffer v,
                             lipsc_svd_info *info) {
    return lipsc_svd_linop_from(op, set, LIPSC_NOWHERE, sigma, u, v, info);
}

lipsc_status lipsc_svd_linop_from(const lipsc_linop *op, const lipsc_svd_settings *set,
                                  lipsc_buffer start, double *sigma, lipsc_buffer u,
                                  lipsc_buffer v, lipsc_svd_info *info) {
    if (!op || !set || !sigma) return LIPSC_E_ARG;
    lipsc_svd_task task = {
        .op = op, .start = start, .sigma = sigma, .u = u, .v = v, .info = info};
    lipsc_svd_batch(1, &task, set, NULL, 1);
    return task.status;
}

static lipsc_status apply_callback(void *ctx, int trans, size_t k, lipsc_buffer x,
                                   lipsc_buffer y) {
    const lipsc_op *op = ctx;
    return op->apply(op->ctx, trans, k, x.at, y.at) ? LIPSC_E_CALLBACK : LIPSC_OK;
}

lipsc_linop lipsc_svd_callback(const lipsc_op *op) {
    return (lipsc_linop){.m = op->m,
                         .n = op->n,
                         .space = lipsc_space_host(LIPSC_F64),
                         .apply = apply_callback,
                         .ctx = (void *)(uintptr_t)op};
}

lipsc_status lipsc_svd(const lipsc_op *op, const lipsc_svd_settings *set, double *sigma,
                       double *u, double *v, lipsc_svd_info *info) {
    if (!op || !op->apply) return LIPSC_E_ARG;
    const lipsc_linop linop = lipsc_svd_callback(op);
    const size_t count = set && set->count ? set->count : 1;
    return lipsc_svd_linop(&linop, set, sigma, lipsc_host_view(count * op->m, u),
                           lipsc_host_view(count * op->n, v), info);
}
