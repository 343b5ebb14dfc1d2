/* norms.h - norms of the weights of a layer, head by head. */
#ifndef LIPSC_ATTN_NORMS_H
#define LIPSC_ATTN_NORMS_H

#include "attn/attn.h"

/* Of a matrix A: its Frobenius norm, and a bound of |A|, the Schatten 8-norm
 * |(A A^T)^2|_F^{1/4}, at most |A| rank^{1/8}. */
typedef struct {
    double frobenius, spectral;
} lipsc_norms;

/* |x|, whatever the size of its entries; infinite or NaN where one of them is */
double lipsc_safe_length(size_t n, const double *x);

/* Of one query head: what it is projected with, and its slice of O (without O one that
 * changes nothing). */
typedef struct {
    lipsc_norms query, key, value, out;
} lipsc_head_norms;

/* Bounds of the norms of the weights behind query head (or, with keys nonzero, key head)
 * `index`: its own, or those of all heads together where they share a norm.  norms: of all
 * heads. */
lipsc_norms lipsc_side_norms(const lipsc_layer *layer, const lipsc_head_norms *norms,
                             int keys, size_t index);

/* norms: one for each query head of a checked layer. */
lipsc_status lipsc_layer_norms(const lipsc_layer *layer, lipsc_head_norms *norms);

/* The same, made when first asked for; valid as long as packed. */
lipsc_status lipsc_packed_norms(lipsc_packed *packed, const lipsc_head_norms **norms);

#endif
