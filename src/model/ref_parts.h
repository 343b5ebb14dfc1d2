/* ref_parts.h - norms and MLPs by their definition, in plain double loops.
 *
 * Never optimised and sharing no code with any back end: with attn/ref.c it is what
 * `lipscope check` judges the maps of whole blocks by. */
#ifndef LIPSC_MODEL_REF_PARTS_H
#define LIPSC_MODEL_REF_PARTS_H

#include "model/state.h"

/* What is done at a point x: its value, the derivative, or the transpose of it. */
typedef enum { LIPSC_REF_VALUE, LIPSC_REF_JVP, LIPSC_REF_VJP } lipsc_ref_what;

/* gain * (x - mean) / sqrt(variance + eps) + bias; rms: without the mean.  gain NULL: the
 * identity. */
typedef struct {
    double *gain, *bias; /* (d); bias may be NULL */
    double eps;
    int rms;
} lipsc_ref_norm;

/* y (n, d) = N(x), N'(x) h or N'(x)^T h; y may be h. */
void lipsc_ref_norm_apply(const lipsc_ref_norm *norm, lipsc_ref_what what, size_t n,
                          size_t d, const double *x, const double *h, double *y);

/* down a(up x), or down (a(gate x) * up x) with a gate; limit > 0: with both cut off there,
 * down (s (up x + 1)) with s = gate x * logistic(alpha gate x). */
typedef struct {
    double *up, *gate, *down; /* (ffn, d), (ffn, d) or NULL, (d, ffn)  */
    double *up_bias, *gate_bias, *down_bias;
    int transposed; /* the matrices are stored the other way round     */
    size_t d, ffn;
    lipsc_activation activation;
    double limit, alpha;
} lipsc_ref_mlp;

enum { LIPSC_REF_MLP_WORK = 5 };

/* y (n, d) = M(x), M'(x) h or M'(x)^T h; y must not be x or h.  work (5 ffn). */
void lipsc_ref_mlp_apply(const lipsc_ref_mlp *mlp, lipsc_ref_what what, size_t n,
                         const double *x, const double *h, double *work, double *y);

#endif
