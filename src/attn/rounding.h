/* rounding.h - how far computed products with J can be from exact ones (docs/maths.md 7.6).
 *
 * Exact means: the function with the layer and the input as they are stored, scale, cosines
 * and sines as the doubles that they are.  The bounds are a priori: they hold for every
 * order of every sum, so for the definition, for the kernels and for a BLAS alike. */
#ifndef LIPSC_ATTN_ROUNDING_H
#define LIPSC_ATTN_ROUNDING_H

#include "attn/attn.h"

typedef struct {
    double eps;         /* |fl(J v) - J v| <= eps and |fl(J^T v) - J^T v| <= eps for
                         * |v| = 1; and |J - J'| <= eps for the exact Jacobian J' of the
                         * softmax at computed queries, keys and values.  May be infinite */
    double score_error; /* of the scores of a row, up to a constant: the largest        */
    double score_size;  /* max |q_i| max |k_j| of the head that has it                  */
    size_t head, token; /* and where, in the caller's order                             */
    int undecided;      /* nonzero: scores are closer than their errors, so that nothing
                         * is known of the attention there                              */
} lipsc_rounding;

/* For products in `dtype`, whatever the precision of attn; O(n^2) work, less than one
 * product.  Of failures only LIPSC_E_NOMEM, LIPSC_E_NONFIN and LIPSC_E_RANGE. */
lipsc_status lipsc_attn_rounding(lipsc_attn *attn, lipsc_dtype dtype, lipsc_rounding *out);

/* The same where eps <= enough will do: O(n d) if a look at the scores can be spared. */
lipsc_status lipsc_attn_rounding_within(lipsc_attn *attn, lipsc_dtype dtype, double enough,
                                        lipsc_rounding *out);

/* Beyond this part of the value its rounding is worth projections in twice the precision
 * (lipsc_attn_refined). */
#define LIPSC_BLURRED 1e-3

/* Where undecided: why there is no enclosure, in one sentence. */
void lipsc_rounding_reason(const lipsc_rounding *rounding, char *text, size_t size);

#endif
