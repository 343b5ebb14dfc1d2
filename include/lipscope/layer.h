/* layer.h - one attention layer, and its Jacobian at an input. */
#ifndef LIPSCOPE_LAYER_H
#define LIPSCOPE_LAYER_H

#include "lipscope/device.h"
#include "lipscope/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- One attention layer ------------------------------------------------- */

/* Which tokens a token sees (itself always among them). */
typedef enum {
    LIPSC_MASK_NONE = 0,
    LIPSC_MASK_CAUSAL = 1,  /* j <= i                                    */
    LIPSC_MASK_SLIDING = 2, /* 0 <= i - j < window                       */
    LIPSC_MASK_TIMES = 3,   /* t_j <= t_i; equal times see each other    */
    LIPSC_MASK_LOCAL = 4    /* |i - j| < window                          */
} lipsc_mask;
LIPSC_API const char *lipsc_mask_name(lipsc_mask mask); /* "none", "causal", ... */

/* A bias of the scores by the distance j - i of key and query. */
typedef enum {
    LIPSC_BIAS_NONE = 0,
    LIPSC_BIAS_LINEAR = 1, /* score_bias[h] * (j - i): ALiBi                     */
    LIPSC_BIAS_BUCKETS = 2 /* score_bias[h * bias_buckets + bucket(j - i)]: T5   */
} lipsc_bias_rule;

/* Multi-head self-attention (docs/maths.md, section 1).  With x_i the rows of X:
 *
 *     q_i = scale * Rot_i Norm_q(Q_h x_i + bq_h)      k_j = Rot_j Norm_k(K_g x_j + bk_g)
 *     z_j = V_g x_j + bv_g                            s_ij = q_i . k_j + log a_j
 *     P_i = softmax over the visible j of s_ij        o_i = sum_j P_ij z_j
 *     f(X)_i = O [o_i of head 1; ...; o_i of head H] + bo
 *
 * Query head h uses key/value head g = floor(h * kv_heads / heads).  Norm and Rot
 * are the identity unless asked for.  a_j are the token weights of the input.
 * Pointers are read when an operator is made and not kept. */
typedef struct {
    size_t d;         /* width of a token                                       */
    size_t heads;     /* default 1                                              */
    size_t kv_heads;  /* default 0: as many as heads                            */
    size_t key_dim;   /* width of one query or key, k                           */
    size_t value_dim; /* width of one value, dv                                 */
    size_t out_dim;   /* rows of O; without O it is ignored                     */
    const double *Q;  /* (heads*key_dim, d)                                     */
    const double *K;  /* (kv_heads*key_dim, d); NULL: the identity, which needs
                       * key_dim == d and kv_heads == 1: Q is then the matrix A */
    const double *V;  /* (kv_heads*value_dim, d)                                */
    const double *O;  /* (out_dim, heads*value_dim) or NULL: heads concatenated */
    const double *bq, *bk, *bv, *bo; /* biases, each may be NULL                */
    double scale; /* default 0: 1/sqrt(key_dim), or 1 when K is NULL        */
    lipsc_mask mask;
    size_t window; /* LIPSC_MASK_SLIDING and LIPSC_MASK_LOCAL only           */
    /* Rotary positions: component l of the first rotary_dim ones turns with
     * component l + rotary_dim/2 by the angle position * rotary_freq[l]. */
    size_t rotary_dim;         /* even, <= key_dim; default 0: none             */
    const double *rotary_freq; /* (rotary_dim/2)                                */
    /* Root-mean-square norm of each query and each key head, before rotation:
     * q -> gain * q / sqrt(mean(q^2) + norm_eps).  NULL: none. */
    const double *q_gain, *k_gain; /* (key_dim)                                 */
    double norm_eps;
    /* 1: these norms run over all heads of a token at once; the gains are then
     * (heads*key_dim) and (kv_heads*key_dim).  Default 0. */
    int norm_whole;
    /* s_ij = soft_cap tanh(q_i . k_j / soft_cap) + bias_h(j - i) + log a_j.
     * Default 0: without tanh. */
    double soft_cap;
    lipsc_bias_rule bias_rule;
    const double *score_bias; /* (heads), or (heads, bias_buckets) with buckets */
    /* Half of the buckets are for j > i.  Of each half the first half are the
     * distances 0, 1, 2, ..., the others grow geometrically up to bias_distance;
     * all longer distances share the last one. */
    size_t bias_buckets, bias_distance;
    /* A score per head that takes its part of the softmax and has no value:
     * P_ij = exp(s_ij) / (exp(sink_h) + sum_l exp(s_il)).  NULL: none. */
    const double *sinks; /* (heads)                                             */
} lipsc_layer;

LIPSC_API void lipsc_layer_defaults(lipsc_layer *layer);

/* Width of an output token: out_dim, or heads*value_dim without O. */
LIPSC_API size_t lipsc_layer_width(const lipsc_layer *layer);

/* Where the Jacobian is taken.  Only n and X are needed. */
typedef struct {
    size_t n;
    const double *X;         /* (n, d)                                            */
    const double *weights;   /* (n) positive, any scale, or NULL: all equal       */
    const double *times;     /* (n), LIPSC_MASK_TIMES only                        */
    const double *positions; /* (n) for rotary positions, or NULL: 0, 1, ..., n-1 */
} lipsc_input;

/* ---- Linear operators ----------------------------------------------------- */

/* A real m x n operator that is never formed as a matrix.
 *
 * apply(ctx, trans, k, x, y):
 *   trans == 0:  y (k vectors of m) = A   x (k vectors of n)
 *   trans == 1:  y (k vectors of n) = A^T x (k vectors of m)
 * Vector j starts at x + j * length.  x and y never overlap.  Return 0 for
 * success; any other value ends the solve with LIPSC_E_CALLBACK. */
typedef struct {
    size_t m, n;
    int (*apply)(void *ctx, int trans, size_t k, const double *x, double *y);
    void *ctx;
} lipsc_op;

/* ---- The Jacobian of attention at an input -------------------------------- */

/* J = Df(X), or D^{1/2} Df(X) D^{-1/2} with D = diag(weights) when the input has
 * weights: the local Lipschitz constant in the Wasserstein-2 distance.  Holds
 * packed weights and row statistics; memory grows with n * d: P, n^2 numbers for
 * every head, is kept of 96 tokens at most. */
typedef struct lipsc_attn lipsc_attn;

/* device: NULL is the CPU; it must outlive the handle. */
LIPSC_API lipsc_status lipsc_attn_new(const lipsc_layer *layer, const lipsc_input *input,
                                      lipsc_dtype dtype, const lipsc_device *device,
                                      lipsc_attn **out, lipsc_error *err);
LIPSC_API void lipsc_attn_free(lipsc_attn *attn);

/* Products with J (trans 0) and J^T (trans 1) for k vectors at once, computed in
 * the precision of attn, handed over in double. */
LIPSC_API lipsc_status lipsc_attn_apply(lipsc_attn *attn, int trans, size_t k,
                                        const double *x, double *y);

/* The same as an operator; valid as long as attn. */
LIPSC_API lipsc_op lipsc_attn_op(lipsc_attn *attn);

/* f(X) in the precision of attn: (n, lipsc_layer_width). */
LIPSC_API lipsc_status lipsc_attn_output(lipsc_attn *attn, double *y);

/* Bytes that the products need beyond weights, input and the vectors themselves. */
LIPSC_API size_t lipsc_attn_bytes(const lipsc_attn *attn);

/* ---- The definition -------------------------------------------------------- */

/* f(X), J v and J^T w in plain double loops: slow, readable, sharing no code with
 * the operator above.  O(n^2) time, O(n d) memory; x and y as in lipsc_op. */
LIPSC_API lipsc_status lipsc_ref_output(const lipsc_layer *layer, const lipsc_input *input,
                                        double *y, lipsc_error *err);
LIPSC_API lipsc_status lipsc_ref_apply(const lipsc_layer *layer, const lipsc_input *input,
                                       int trans, size_t k, const double *x, double *y,
                                       lipsc_error *err);

#ifdef __cplusplus
}
#endif
#endif
