/* backend.h - the table that every back end fills.
 *
 * attn/ prepares the input (checks, order of tokens, visible ranges, log weights) and
 * calls the back end; svd/ sees only the space and an operator.  Chosen at run time. */
#ifndef LIPSC_BACKEND_BACKEND_H
#define LIPSC_BACKEND_BACKEND_H

#include "linalg/space.h"
#include "lipscope.h"

/* Input made ready for a back end.  Tokens are already in the order in which row i
 * sees the keys lo[i] .. hi[i]-1; that range is never empty, and lo and hi do not
 * decrease.  Vectors x, y of the products are in the caller's order: row i here is
 * row order[i] there (NULL: the same order). */
/* Projections W x + b, before norm, scale and rotation, that were found elsewhere. */
typedef struct {
    const double *q, *key; /* (heads, n, key_dim), (kv_heads, n, key_dim)  */
    const double *z;       /* (kv_heads, n, value_dim)                     */
} lipsc_raw;

typedef struct {
    size_t n;
    const double *X;           /* (n, d)                                              */
    const double *log_weight;  /* (n) or NULL: added to the score of key j            */
    const double *root_weight; /* (n) or NULL: J becomes D^{1/2} J D^{-1/2}, this is
                                * the diagonal of D^{1/2}                            */
    const double *positions;   /* (n), only with rotary positions                     */
    const double *distance;    /* (heads, 2 n - 1) or NULL: distance[h][n - 1 + j - i] is
                                * added to the score of row i and key j; only without
                                * an order                                           */
    const size_t *lo, *hi;     /* (n)                                                 */
    const size_t *order;       /* (n) or NULL                                         */
    lipsc_raw raw;             /* to be taken instead of W x + b; q NULL: none         */
} lipsc_rows;

typedef enum {
    LIPSC_ACT_GELU,       /* x Phi(x)                                              */
    LIPSC_ACT_GELU_TANH,  /* x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2       */
    LIPSC_ACT_GELU_FAST,  /* the same with 0.7978845608 for sqrt(2/pi)             */
    LIPSC_ACT_GELU_BLOOM, /* the same with 0.79788456                              */
    LIPSC_ACT_GELU_QUICK, /* x s(1.702 x), s the logistic function                */
    LIPSC_ACT_RELU,
    LIPSC_ACT_SILU, /* x s(x)                                                     */
    LIPSC_ACT_TANH,
    LIPSC_ACT_SIGMOID
} lipsc_activation;

/* Maps that act on each token alone.  Arrays are back-end memory in one precision;
 * directions are blocks of n rows, so row i of a direction belongs to token i mod n. */
typedef struct lipsc_rowwise {
    /* y (n, d) = gain * sqrt(d) z + bias (NULL: none), z = (x - mean) / r with
     * r = sqrt(|x - mean|^2 + d eps); without centre the mean is left in.
     * z (n, d) and over (n) = sqrt(d) / r are what the derivative needs. */
    void (*norm)(int threads, size_t n, size_t d, int centre, double eps, const void *gain,
                 const void *bias, const void *x, void *y, void *z, void *over);
    /* y = over gain * (Pi - z z^T) x, or with trans y = over (Pi - z z^T) (gain * x);
     * Pi removes the mean with centre.  x (rows, d) may be y. */
    void (*norm_derivative)(int threads, size_t rows, size_t n, size_t d, int centre,
                            const void *gain, const void *z, const void *over, int trans,
                            const void *x, void *y);
    /* y = a(x) and slope = a'(x); y may be x */
    void (*activation)(lipsc_activation kind, int threads, size_t count, const void *x,
                       void *y, void *slope);
    /* y[e] = (add ? y[e] : 0) + factor[e mod period] x[e]; x may be y */
    void (*multiply)(int threads, size_t count, size_t period, const void *factor,
                     const void *x, int add, void *y);
    /* y += x */
    void (*add)(int threads, size_t count, const void *x, void *y);
} lipsc_rowwise;

typedef struct lipsc_backend {
    const char *name;
    const lipsc_space *(*space)(lipsc_dtype dtype);

    /* Weights packed for the products; layer has been checked and has its defaults
     * resolved (kv_heads, scale, out_dim).  layer and its arrays must outlive the
     * weights, which any number of inputs may share. */
    lipsc_status (*weights_new)(const lipsc_layer *layer, lipsc_dtype dtype, void **weights,
                                lipsc_error *err);
    void (*weights_free)(void *weights);

    /* Projections and row statistics at one input.  weights must outlive it; threads >= 1.
     * LIPSC_E_NONFIN when a score overflows. */
    lipsc_status (*input_new)(const void *weights, const lipsc_rows *rows, int threads,
                              void **input, lipsc_error *err);
    void (*input_free)(void *input);

    /* y = J x (trans 0) or J^T x (trans 1), k vectors, back-end memory */
    lipsc_status (*product)(void *input, int trans, size_t k, const void *x, void *y);

    /* Gradients of <u, J(X) v> for k pairs held fixed, back-end memory, in the caller's
     * order like the vectors of product: in X, grad (n, d), and in the log weight that the
     * scores of key j share, grad_score (n) or NULL. */
    lipsc_status (*gradient)(void *input, size_t k, const void *u, const void *v,
                             void *grad, void *grad_score);

    /* What the products of query head h work with, in host memory and the back end's order:
     * q with its scale and key (n, key_dim), z (n, value_dim), and sqrt(key_dim) / r of the
     * norms of queries and keys, (n) each, 1 where there is no norm. */
    void (*projections)(const void *input, size_t head, double *q, double *key, double *z,
                        double *q_over, double *k_over);

    /* f(X) with biases, (n, width), host memory */
    lipsc_status (*output)(void *input, double *y);

    /* bytes that products need beyond weights, input and vectors */
    size_t (*bytes)(const void *input);

    /* ---- what stands around attention in a model ---- */

    /* One direction of a dense layer, y = x W^T + bias, packed: W (out, in), or given as
     * its transpose (in, out); bias (out) or NULL.  Nothing is kept of the arrays. */
    lipsc_status (*linear_new)(size_t in, size_t out, const double *w, int transposed,
                               const double *bias, lipsc_dtype dtype, void **linear,
                               lipsc_error *err);
    void (*linear_free)(void *linear);
    /* y (rows, out) = x (rows, in) W^T, or y += with add; bias nonzero adds the bias */
    void (*linear_apply)(const void *linear, int threads, size_t rows, const void *x,
                         int bias, int add, void *y);

    const lipsc_rowwise *(*rowwise)(lipsc_dtype dtype);
} lipsc_backend;

const lipsc_backend *lipsc_backend_cpu(void);
const lipsc_backend *lipsc_backend_cuda(void); /* NULL when not built */
const lipsc_backend *lipsc_backend_best(void);

#endif
