/* space.c - an operator on device vectors, seen from the host. */
#include "linalg/space.h"

#include "core/mem.h"

lipsc_status lipsc_space_grams(const lipsc_space *s, size_t count, const lipsc_gram *gram) {
    for (size_t i = 0; i < count; i++)
        if (!lipsc_space_fits(s, gram[i].a, gram[i].ka, gram[i].len) ||
            !lipsc_space_fits(s, gram[i].b, gram[i].kb, gram[i].len))
            return LIPSC_E_ARG;
    return s->ops->grams(s, count, gram);
}

lipsc_status lipsc_space_combines(const lipsc_space *s, size_t count,
                                  const lipsc_combination *combination) {
    for (size_t i = 0; i < count; i++)
        if (!lipsc_space_fits(s, combination[i].a, combination[i].ka, combination[i].len) ||
            !lipsc_space_fits(s, combination[i].b, combination[i].kb, combination[i].len))
            return LIPSC_E_ARG;
    return s->ops->combines(s, count, combination);
}

lipsc_status lipsc_space_widen(const lipsc_space *s, size_t elements, lipsc_buffer src,
                               lipsc_buffer dst) {
    if (s->dtype != LIPSC_F64 || !lipsc_space_fits(s, dst, 1, elements) ||
        !lipsc_buffer_fits(src, s->home, LIPSC_F32, 1, elements))
        return LIPSC_E_ARG;
    return s->ops->widen(s, elements, src, dst);
}

lipsc_status lipsc_vectors_upload(const lipsc_space *s, size_t len, size_t k,
                                  const double *host, lipsc_buffer dst) {
    lipsc_status status = LIPSC_OK;
    for (size_t j = 0; j < k && !status; j++)
        status =
            lipsc_space_upload(s, len, host + j * len, lipsc_space_at(s, dst, j * len));
    return status;
}

lipsc_status lipsc_vectors_download(const lipsc_space *s, size_t len, size_t k,
                                    lipsc_buffer src, double *host) {
    lipsc_status status = LIPSC_OK;
    for (size_t j = 0; j < k && !status; j++)
        status =
            lipsc_space_download(s, len, lipsc_space_at(s, src, j * len), host + j * len);
    return status;
}

lipsc_status lipsc_vectors_random(const lipsc_space *s, uint64_t seed, uint64_t first,
                                  size_t len, size_t k, lipsc_buffer dst) {
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
    const lipsc_buffer in = lipsc_space_alloc(space, from),
                       out = lipsc_space_alloc(space, to);
    lipsc_status status = in.at && out.at ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) status = lipsc_vectors_upload(space, trans ? op->m : op->n, k, x, in);
    if (!status) status = op->apply(op->ctx, trans, k, in, out);
    if (!status) status = lipsc_vectors_download(space, trans ? op->n : op->m, k, out, y);
    lipsc_space_release(space, in);
    lipsc_space_release(space, out);
    return status;
}
