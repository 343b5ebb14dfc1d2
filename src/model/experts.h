/* experts.h - a mixture of experts in place of the MLP, at one input: which experts each
 * token takes, what they add, and products with the derivative.
 *
 *     M(x) = sum over the chosen e of w_e(x) E_e(x),   w = softmax of their router logits
 *
 * The choice, the `used` largest logits, is held fixed; the weights are differentiated. */
#ifndef LIPSC_MODEL_EXPERTS_H
#define LIPSC_MODEL_EXPERTS_H

#include "model/state.h"

typedef struct lipsc_experts lipsc_experts;

/* x, y (n, d) device memory.  keep 0: only y is wanted, and *out cannot be multiplied
 * with. */
lipsc_status lipsc_experts_at(lipsc_model *model, size_t layer, lipsc_dtype dtype,
                              const lipsc_device *device, size_t n, lipsc_buffer x,
                              int keep, lipsc_buffer y, lipsc_experts **out,
                              lipsc_error *err);
void lipsc_experts_free(lipsc_experts *experts); /* NULL does nothing */

/* y = M' x or M'^T x, k directions; y must not be x. */
lipsc_status lipsc_experts_apply(const lipsc_experts *experts, int trans, size_t k,
                                 lipsc_buffer x, lipsc_buffer y);

/* What the rounding of products needs to know (docs/maths.md 7.9). */
typedef struct {
    double by_gate, by_up; /* the largest factors a, b of what experts are made of      */
    double value;          /* the longest F                                             */
    double kink;           /* how far the arguments are from where slopes jump, at least;
                            * infinite where no slope jumps                             */
} lipsc_experts_size;

/* experts: in double, made with keep. */
lipsc_status lipsc_experts_measure(const lipsc_experts *experts, lipsc_experts_size *out);
/* Whether some token takes expert e. */
int lipsc_experts_takes(const lipsc_experts *experts, size_t e);

/* The smallest lead of a chosen expert over one that is not, in router logits, over all
 * tokens; infinite when every expert is chosen. */
double lipsc_experts_gap(const lipsc_experts *experts);

#endif
