/* product.c - products with the scaled operator of a certificate: counted, timed, stopped.
 */
#include "certify/certify.h"

#include <math.h>

#include "core/clock.h"
#include "core/mem.h"

size_t lipsc_certify_length(const lipsc_certifier *c, int trans, int image) {
    return trans == image ? c->op->n : c->op->m;
}

lipsc_status lipsc_certify_vectors(const lipsc_certifier *c, size_t len, size_t k,
                                   lipsc_buffer *out) {
    size_t elements;
    *out = LIPSC_NOWHERE;
    if (!lipsc_mul_size(len, k, &elements)) return LIPSC_E_RANGE;
    *out = lipsc_space_alloc(c->op->space, elements);
    return out->at ? LIPSC_OK : LIPSC_E_NOMEM;
}

lipsc_status lipsc_certify_square(const lipsc_certifier *c, size_t len, size_t k,
                                  lipsc_buffer x, double *square) {
    return lipsc_space_gram(c->op->space, len * k, 1, x, 1, x, square);
}

lipsc_status lipsc_certify_apply(lipsc_certifier *c, int trans, size_t k, lipsc_buffer x,
                                 lipsc_buffer y, double *square) {
    const size_t len = lipsc_certify_length(c, trans, 1);
    const double start = lipsc_seconds();
    double sum = NAN;
    if (c->set->stop && c->set->stop(c->set->ctx)) return LIPSC_E_STOPPED;
    lipsc_status status = c->op->apply(c->op->ctx, trans, k, x, y);
    if (!status && c->scale != 1.0)
        status = lipsc_space_scale(c->op->space, k * len, 1.0 / c->scale, y);
    if (!status) status = lipsc_certify_square(c, len, k, y, &sum);
    c->applied[trans] += k;
    c->product_seconds += lipsc_seconds() - start;
    if (square) *square = sum;
    return status || isfinite(sum) ? status : LIPSC_E_NONFIN;
}

/* With ones `side + 1` apart, beginning `first` elements before the first of them shows the
 * unit vectors first, first + 1, ... */
lipsc_status lipsc_units_new(const lipsc_certifier *c, lipsc_buffer *units) {
    const size_t side = c->side;
    size_t elements;
    if (!lipsc_mul_size(LIPSC_CERTIFY_BLOCK + 1, side, &elements)) return LIPSC_E_RANGE;
    double *host = lipsc_alloc_zero(elements, sizeof *host);
    lipsc_status status =
        host ? lipsc_certify_vectors(c, side, LIPSC_CERTIFY_BLOCK + 1, units)
             : LIPSC_E_NOMEM;
    for (size_t j = 0; !status && j < LIPSC_CERTIFY_BLOCK; j++)
        if (side + j * (side + 1) < elements) host[side + j * (side + 1)] = 1.0;
    if (!status) status = lipsc_space_upload(c->op->space, elements, host, *units);
    lipsc_release(host);
    return status;
}

lipsc_buffer lipsc_units_from(const lipsc_certifier *c, lipsc_buffer units, size_t first) {
    return lipsc_space_at(c->op->space, units, c->side - first);
}

void lipsc_certify_tell(lipsc_certifier *c, double done) {
    c->done = done;
    if (!c->set->progress || !(done > 0.0)) return;
    const double elapsed = lipsc_seconds() - c->begin;
    c->set->progress(c->set->ctx, done / c->total, elapsed * (c->total - done) / done);
}

double lipsc_sum_squares(size_t count, const double *x) {
    double part[8] = {0};
    size_t e = 0;
    for (; e + 8 <= count; e += 8)
        for (size_t l = 0; l < 8; l++) part[l] += x[e + l] * x[e + l];
    for (; e < count; e++) part[0] += x[e] * x[e];
    double sum = 0.0;
    for (size_t l = 0; l < 8; l++) sum += part[l];
    return sum;
}
