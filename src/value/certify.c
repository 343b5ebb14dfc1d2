/* certify.c - the certificate of an attention layer: products in double, and a proved bound
 * of what they are off by. */
#include "attn/rounding.h"
#include "certify/certify.h"
#include "core/error.h"
#include "svd/solver.h"
#include "value/value.h"

#include <math.h>

static int apply_exact(void *ctx, int trans, size_t k, const double *x, double *y) {
    return lipsc_exact_apply(ctx, trans, k, x, y) != LIPSC_OK;
}

/* Vectors stay on the device whose products these are; the definition, and vectors that
 * ranks share, go by host memory. */
static lipsc_status certify_exact(lipsc_exact *exact, const lipsc_op *host, const double *v,
                                  const lipsc_certify_settings *set, lipsc_certificate *out,
                                  lipsc_error *err) {
    const lipsc_linop there =
        exact->attn ? lipsc_attn_linop(exact->attn) : lipsc_svd_callback(host);
    return there.space->split
               ? lipsc_certify(host, v, set, out, err)
               : lipsc_certify_linop(&there, v, set, LIPSC_ANY_WAY, out, err);
}

lipsc_status lipsc_attn_certify(lipsc_attn *attn, const double *v,
                                const lipsc_certify_settings *set, lipsc_certificate *out,
                                lipsc_error *err) {
    if (!attn || !set) return lipsc_fail(err, LIPSC_E_ARG, "a pointer is NULL");
    lipsc_op op = lipsc_attn_op(attn);
    lipsc_certify_settings used = *set;
    lipsc_exact exact;
    lipsc_rounding rounding;
    lipsc_attn *refined = NULL;
    lipsc_status status = lipsc_attn_rounding(attn, LIPSC_F64, &rounding);
    if (!status && rounding.undecided && !lipsc_attn_refined(attn, &refined)) {
        attn = refined;
        status = lipsc_attn_rounding(attn, LIPSC_F64, &rounding);
    }
    if (!status) status = lipsc_exact_open(attn, op.m < op.n ? op.m : op.n, &exact);
    if (status) {
        lipsc_attn_free(refined);
        return lipsc_fail(err, status, "%s", lipsc_strerror(status));
    }
    op.apply = apply_exact;
    op.ctx = &exact;
    used.rounding = rounding.undecided ? INFINITY : rounding.eps;
    status = certify_exact(&exact, &op, v, &used, out, err);
    lipsc_exact_close(&exact);
    lipsc_attn_free(refined);
    return status;
}
