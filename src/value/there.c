/* there.c - singular values of a caller's operator on vectors that stay on a device. */
#include "backend/backend.h"
#include "core/mem.h"
#include "svd/solver.h"

typedef struct {
    lipsc_op op;
    const lipsc_space *space;
} callback;

/* What the device still computes of x has to be finished before somebody else reads it: a
 * download waits for it. */
static lipsc_status apply_there(void *ctx, int trans, size_t k, lipsc_buffer x,
                                lipsc_buffer y) {
    const callback *to = ctx;
    double first;
    const lipsc_status status = lipsc_space_download(to->space, 1, x, &first);
    if (status) return status;
    return to->op.apply(to->op.ctx, trans, k, x.at, y.at) ? LIPSC_E_CALLBACK : LIPSC_OK;
}

/* Room for the vectors of the answer, or none where nobody asks for them. */
static lipsc_status room(const lipsc_space *space, size_t count, size_t len,
                         const double *wanted, lipsc_buffer *out) {
    size_t elements;
    *out = LIPSC_NOWHERE;
    if (!wanted) return LIPSC_OK;
    if (!lipsc_mul_size(count, len, &elements)) return LIPSC_E_RANGE;
    *out = lipsc_space_alloc(space, elements);
    return out->at ? LIPSC_OK : LIPSC_E_NOMEM;
}

static lipsc_status fetch(const lipsc_space *space, size_t elements, lipsc_buffer from,
                          double *to) {
    return from.at ? lipsc_space_download(space, elements, from, to) : LIPSC_OK;
}

static int is_answer(lipsc_status status) {
    return status == LIPSC_OK || status == LIPSC_E_NOCONV || status == LIPSC_E_STOPPED;
}

lipsc_status lipsc_svd_on(const lipsc_device *device, const lipsc_op *op,
                          const lipsc_svd_settings *set, double *sigma, double *u,
                          double *v, lipsc_svd_info *info) {
    if (!op || !op->apply || !set || !sigma) return LIPSC_E_ARG;
    callback to = {.op = *op, .space = lipsc_device_space(device, LIPSC_F64)};
    const lipsc_linop linop = {
        .m = op->m, .n = op->n, .space = to.space, .apply = apply_there, .ctx = &to};
    const size_t count = set->count ? set->count : 1;
    lipsc_buffer left, right;
    lipsc_status status = room(to.space, count, op->m, u, &left);
    const lipsc_status other = room(to.space, count, op->n, v, &right);
    if (!status) status = other;
    if (!status) status = lipsc_svd_linop(&linop, set, sigma, left, right, info);
    if (is_answer(status)) {
        lipsc_status lost = fetch(to.space, count * op->m, left, u);
        if (!lost) lost = fetch(to.space, count * op->n, right, v);
        if (lost) status = lost;
    }
    lipsc_space_release(to.space, left);
    lipsc_space_release(to.space, right);
    return status;
}
