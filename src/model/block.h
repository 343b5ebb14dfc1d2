/* block.h - one transformer block at one input: its value, and products with its Jacobian.
 *
 *     serial:     s = N3(x + f N2(A(N1 x)))    y = N6(s + f' N5(M(N4 s)))
 *     parallel:   s = x + f N2(A(N1 x))        y = s + f' N5(M(N4 x)), N4 may be N1
 *
 * A attention with output projection, M the MLP, f and f' factors of each component; every
 * norm N may be absent: pre-norm models have N1 and N4, post-norm models N3 and N6,
 * sandwich models N1, N2, N4 and N5 (docs/maths.md 1.7).  n x n is never stored; what is
 * kept grows with n * (d + ffn). */
#ifndef LIPSC_MODEL_BLOCK_H
#define LIPSC_MODEL_BLOCK_H

#include "model/experts.h"
#include "model/state.h"

/* How far the block is followed. */
typedef enum {
    LIPSC_UP_TO_NORM_ATTENTION, /* A(N1 x) */
    LIPSC_UP_TO_RESIDUAL,       /* s       */
    LIPSC_UP_TO_BLOCK           /* y       */
} lipsc_extent;

/* A norm at an input: what its derivative needs. */
typedef struct {
    const lipsc_norm *weights; /* NULL: no norm */
    lipsc_buffer z, over;      /* (n, d), (n)   */
} lipsc_norm_point;

/* A block at an input. */
typedef struct {
    lipsc_model *model;
    size_t layer, n;
    lipsc_extent extent;
    lipsc_dtype dtype;
    const lipsc_device *device;
    lipsc_attn *attn;
    lipsc_norm_point norm[LIPSC_NORM_COUNT];
    lipsc_buffer factor[LIPSC_BRANCHES]; /* (d) or nowhere */
    const void *dense[LIPSC_DENSE_COUNT];
    lipsc_buffer slope; /* (n, ffn): of the activation, times up x where there is a gate */
    lipsc_buffer gate;  /* (n, ffn): act(gate x), or nowhere                              */
    double kink;        /* with relu: how far the arguments are from zero, the least    */
    lipsc_experts *experts; /* or NULL */
} lipsc_block_point;

/* Device memory (n, d) that is filled where it is somewhere. */
typedef struct {
    lipsc_buffer attention_input, attention_output;
} lipsc_block_seen;

/* x, y (n, d) device memory, may not overlap; y may be nowhere.  keep 0: only the value is
 * wanted, and the point cannot be multiplied with. */
lipsc_status lipsc_block_at(lipsc_model *model, size_t layer, lipsc_extent extent,
                            const lipsc_mask *mask_override, lipsc_dtype dtype,
                            const lipsc_device *device, size_t n, lipsc_buffer x, int keep,
                            lipsc_block_point *point, lipsc_buffer y,
                            const lipsc_block_seen *seen, lipsc_error *err);
void lipsc_block_free(lipsc_block_point *point);

/* Work memory of products with k directions at once, shared by all blocks of a map. */
typedef struct {
    size_t k;          /* directions there is room for */
    lipsc_buffer r[3]; /* (k n, d)                     */
    lipsc_buffer t[2]; /* (k n, ffn); t[1] only gated  */
} lipsc_block_work;

/* y (k directions) = J x or J^T x; x and y must not overlap. */
lipsc_status lipsc_block_apply(const lipsc_block_point *point, lipsc_block_work *work,
                               int trans, size_t k, lipsc_buffer x, lipsc_buffer y);

/* y (n, d) = norm(x), keeping the point; weights are those of lipsc_model_*_norm. */
lipsc_status lipsc_norm_at(lipsc_model *model, const lipsc_norm *weights, lipsc_dtype dtype,
                           const lipsc_device *device, size_t n, lipsc_buffer x,
                           lipsc_buffer y, lipsc_norm_point *point, lipsc_error *err);
void lipsc_norm_free(lipsc_model *model, lipsc_dtype dtype, lipsc_norm_point *point);
/* y (rows, d) = DN x or DN^T x; y may be x. */
lipsc_status lipsc_norm_apply(const lipsc_model *model, const lipsc_norm_point *point,
                              lipsc_dtype dtype, const lipsc_device *device, int trans,
                              size_t rows, size_t n, lipsc_buffer x, lipsc_buffer y);

#endif
