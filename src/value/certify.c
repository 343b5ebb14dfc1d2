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

/* Vectors stay on the device whose products these are; the definition goes by host memory.
 */
static lipsc_status certify_exact(lipsc_exact *exact, const lipsc_op *host, const double *v,
                                  const lipsc_certify_settings *set, lipsc_certificate *out,
                                  lipsc_error *err) {
    const lipsc_linop there =
        exact->attn ? lipsc_attn_linop(exact->attn) : lipsc_svd_callback(host);
    return lipsc_certify_linop(&there, v, set, LIPSC_ANY_WAY, out, err);
}

static lipsc_status certify(lipsc_attn *attn, const double *v,
                            const lipsc_certify_settings *set, lipsc_certificate *out,
                            lipsc_error *err) {
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

/* Whether a certificate would take too long goes by the clock, by which ranks that share an
 * input would not decide alike: each makes its own, on its CPU. */
lipsc_status lipsc_attn_certify(lipsc_attn *attn, const double *v,
                                const lipsc_certify_settings *set, lipsc_certificate *out,
                                lipsc_error *err) {
    if (!attn || !set) return lipsc_fail(err, LIPSC_E_ARG, "a pointer is NULL");
    if (!lipsc_device_space(attn->device, attn->dtype)->split)
        return certify(attn, v, set, out, err);
    lipsc_attn own;
    lipsc_status status =
        lipsc_attn_as(attn, attn->dtype, lipsc_device_cpu(attn->device), &own);
    status = status ? lipsc_fail(err, status, "%s", lipsc_strerror(status))
                    : certify(&own, v, set, out, err);
    lipsc_attn_close(&own);
    return status;
}
