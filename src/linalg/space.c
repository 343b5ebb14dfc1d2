/* space.c - an operator on device vectors, seen from the host. */
#include "linalg/space.h"

#include "core/mem.h"

lipsc_status lipsc_vectors_upload(const lipsc_space *s, size_t len, size_t k,
                                  const double *host, void *dst) {
    lipsc_status status = LIPSC_OK;
    for (size_t j = 0; j < k && !status; j++)
        status =
            lipsc_space_upload(s, len, host + j * len, lipsc_space_at(s, dst, j * len));
    return status;
}

lipsc_status lipsc_vectors_download(const lipsc_space *s, size_t len, size_t k,
                                    const void *src, double *host) {
    lipsc_status status = LIPSC_OK;
    for (size_t j = 0; j < k && !status; j++)
        status =
            lipsc_space_download(s, len, lipsc_space_at(s, src, j * len), host + j * len);
    return status;
}

lipsc_status lipsc_vectors_random(const lipsc_space *s, uint64_t seed, uint64_t first,
                                  size_t len, size_t k, void *dst) {
    lipsc_status status = LIPSC_OK;
    for (size_t j = 0; j < k && !status; j++)
        status = lipsc_space_random(s, seed, first + j * len, len,
                                    lipsc_space_at(s, dst, j * len));
    return status;
}

lipsc_status lipsc_linop_host(const lipsc_linop *op, int trans, size_t k, const double *x,
                              double *y) {
    const lipsc_space *space = op->space;
    size_t from, to;
    if (!lipsc_mul_size(k, trans ? op->m : op->n, &from) ||
        !lipsc_mul_size(k, trans ? op->n : op->m, &to))
        return LIPSC_E_RANGE;
    void *in = lipsc_space_alloc(space, from), *out = lipsc_space_alloc(space, to);
    lipsc_status status = in && out ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) status = lipsc_vectors_upload(space, trans ? op->m : op->n, k, x, in);
    if (!status) status = op->apply(op->ctx, trans, k, in, out);
    if (!status) status = lipsc_vectors_download(space, trans ? op->n : op->m, k, out, y);
    lipsc_space_release(space, in);
    lipsc_space_release(space, out);
    return status;
}
