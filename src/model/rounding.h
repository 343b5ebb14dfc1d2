/* rounding.h - how far computed products with the Jacobian of a block are from exact ones,
 * in double (docs/maths.md 7.9). */
#ifndef LIPSC_MODEL_ROUNDING_H
#define LIPSC_MODEL_ROUNDING_H

#include "model/block.h"

/* A linear map: |T| <= norm, |fl(T x) - T x| <= eps |x|, and the same for its transpose. */
typedef struct {
    double norm, eps;
} lipsc_stretch;

lipsc_stretch lipsc_stretch_after(lipsc_stretch then, lipsc_stretch first);

/* point: in double, on the CPU.  *size: no token of the input, then of the output, is
 * longer.  eps may be infinite: nothing is proved. */
lipsc_status lipsc_block_rounding(const lipsc_block_point *point, double *size,
                                  lipsc_stretch *out);
lipsc_stretch lipsc_norm_rounding(const lipsc_model *model, const lipsc_norm_point *point,
                                  size_t n, double *size);

#endif
