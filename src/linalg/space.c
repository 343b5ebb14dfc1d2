/* space.c - an operator on device vectors, seen from the host. */
#include "linalg/space.h"

#include "core/mem.h"

lipsc_status lipsc_linop_host(const lipsc_linop *op, int trans, size_t k, const double *x,
                              double *y) {
    const lipsc_space *space = op->space;
    size_t from, to;
    if (!lipsc_mul_size(k, trans ? op->m : op->n, &from) ||
        !lipsc_mul_size(k, trans ? op->n : op->m, &to))
        return LIPSC_E_RANGE;
    void *in = lipsc_space_alloc(space, from), *out = lipsc_space_alloc(space, to);
    lipsc_status status = in && out ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) status = lipsc_space_upload(space, from, x, in);
    if (!status) status = op->apply(op->ctx, trans, k, in, out);
    if (!status) status = lipsc_space_download(space, to, out, y);
    lipsc_space_release(space, in);
    lipsc_space_release(space, out);
    return status;
}
