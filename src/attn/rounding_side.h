/* rounding_side.h - queries, keys or values of one head: how long they are and how far from
 * exact ones: inside rounding*.c only. */
#ifndef LIPSC_ATTN_ROUNDING_SIDE_H
#define LIPSC_ATTN_ROUNDING_SIDE_H

#include "attn/attn.h"
#include "attn/norms.h"
#include "attn/rounding_row.h"

/* Arithmetic of a precision on a device. */
typedef struct {
    double unit;   /* half an ulp of 1            */
    double normal; /* smallest normal number      */
    double tiny;   /* smallest number             */
    double folds;  /* roundings of a factor beyond those of the definition */
    double least;  /* what is below is zero       */
} lipsc_precision;

lipsc_precision lipsc_precision_of(lipsc_dtype dtype, const lipsc_device *device);
/* gamma_m: relative error of m operations in any order */
double lipsc_precision_gamma(double operations, lipsc_precision in);

/* What a projection is made of.  Where the norm runs over all heads, weight and bias are
 * those of all heads, and so is norm_dim; the gains are those of one. */
typedef struct {
    size_t dim, norm_dim, n;
    lipsc_norms weight;
    double bias; /* |b| */
    const double *gain;
    double scale, norm_eps;
    const double *raw; /* (heads, n, dim) W x + b in twice the precision; NULL: plain */
} lipsc_side;

/* Queries or keys of head `index`.  norms: of all heads. */
lipsc_side lipsc_side_of(const lipsc_attn *attn, const lipsc_head_norms *norms, int keys,
                         size_t index);

/* Error of W x_i + b for |x_i| = size, by products in one precision, or in twice that and
 * rounded once. */
double lipsc_side_raw_error(const lipsc_side *p, size_t i, size_t d, lipsc_precision in,
                            double size);

/* Of all tokens, whose lengths are `sizes`: y as this pass has them, in precision `own`,
 * over_i = sqrt(norm_dim) / r_i of the norm.  See docs/maths.md 7.6, "Projections". */
void lipsc_side_errors(const lipsc_side *p, size_t n, size_t d, const double *sizes,
                       const double *y, const double *over, lipsc_precision in,
                       lipsc_precision own, lipsc_projected *out);

#endif
