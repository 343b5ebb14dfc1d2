/* sigma.c - largest singular values of attention: solved for in the precision of the
 * handles, judged by products in double and what rounding can do to them. */
#include "attn/rounding.h"
#include "core/mem.h"
#include "value/value.h"

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

static lipsc_judge judge_of(lipsc_attn *attn) {
    return (lipsc_judge){lipsc_exact_products, attn_rounding, attn};
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
    const lipsc_device_ops *ops = lipsc_device_table(device);
    const int handed = ops->concurrent && !ops->batch_tokens; /* vectors, among threads */
    const int threads = handed ? lipsc_device_threads(device) : 1;
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
