/* ref_experts.h - a mixture of experts by its definition, in plain double loops.
 *
 *     M(x) = sum over the chosen e of w_e E_e(x),   w = softmax of their router logits
 *
 * The choice, the `used` largest logits of each token, is held fixed; the weights are
 * differentiated. */
#ifndef LIPSC_MODEL_REF_EXPERTS_H
#define LIPSC_MODEL_REF_EXPERTS_H

#include "model/ref_parts.h"

/* Experts are read one at a time, whenever a token takes one. */
typedef struct {
    const lipsc_model *model;
    size_t layer, d, count, used;
    double *router, *router_bias; /* (count, d), (count) or NULL; router NULL: no experts */
} lipsc_ref_experts;

lipsc_status lipsc_ref_experts_load(const lipsc_model *model, size_t layer,
                                    lipsc_ref_experts *out, lipsc_error *err);
void lipsc_ref_experts_free(lipsc_ref_experts *experts);

/* y (n, d) = M(x), M'(x) h or M'(x)^T h; y must not be x or h.  work as of the MLP. */
lipsc_status lipsc_ref_experts_apply(const lipsc_ref_experts *experts, lipsc_ref_what what,
                                     size_t n, const double *x, const double *h,
                                     double *work, double *y, lipsc_error *err);

#endif
