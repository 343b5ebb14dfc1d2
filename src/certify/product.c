/* product.c - products with the scaled operator of a certificate: counted, timed, stopped.
 */
#include "certify/certify.h"

#include <math.h>

#include "core/clock.h"

size_t lipsc_certify_length(const lipsc_certifier *c, int trans, int image) {
    return trans == image ? c->op->n : c->op->m;
}

lipsc_status lipsc_certify_apply(lipsc_certifier *c, int trans, size_t k, const double *x,
                                 double *y) {
    const size_t count = k * lipsc_certify_length(c, trans, 1);
    const double start = lipsc_seconds();
    if (c->set->stop && c->set->stop(c->set->ctx)) return LIPSC_E_STOPPED;
    if (c->op->apply(c->op->ctx, trans, k, x, y)) return LIPSC_E_CALLBACK;
    const double factor = 1.0 / c->scale;
    int finite = 1;
    for (size_t e = 0; e < count; e++) {
        finite &= isfinite(y[e]) != 0;
        y[e] *= factor;
    }
    c->applied[trans] += k;
    c->product_seconds += lipsc_seconds() - start;
    return finite ? LIPSC_OK : LIPSC_E_NONFIN;
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
