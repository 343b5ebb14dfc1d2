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
typedef struct {
    size_t n;
    const double *X;         /* (n, d)                                              */
    const double *log_weight; /* (n) or NULL: added to the score of key j            */
    const double *root_weight; /* (n) or NULL: J becomes D^{1/2} J D^{-1/2}, this is
                                * the diagonal of D^{1/2}                            */
    const double *positions; /* (n), only with rotary positions                     */
    const size_t *lo, *hi;   /* (n)                                                 */
    const size_t *order;     /* (n) or NULL                                         */
} lipsc_rows;

typedef struct lipsc_backend {
    const char *name;
    const lipsc_space *(*space)(lipsc_dtype dtype);

    /* Weights packed for the products; layer has been checked and has its defaults
     * resolved (kv_heads, scale, out_dim).  layer and its arrays must outlive the
     * weights.  threads >= 1. */
    lipsc_status (*weights_new)(const lipsc_layer *layer, lipsc_dtype dtype, int threads,
                                void **weights, lipsc_error *err);
    void (*weights_free)(void *weights);

    /* Projections and row statistics at one input.  weights must outlive it.
     * LIPSC_E_NONFIN when a score overflows. */
    lipsc_status (*input_new)(void *weights, const lipsc_rows *rows, void **input,
                              lipsc_error *err);
    void (*input_free)(void *input);

    /* y = J x (trans 0) or J^T x (trans 1), k vectors, back-end memory */
    lipsc_status (*product)(void *input, int trans, size_t k, const void *x, void *y);

    /* f(X) with biases, (n, width), host memory */
    lipsc_status (*output)(void *input, double *y);

    /* bytes that products need beyond weights, input and vectors */
    size_t (*bytes)(const void *input);
} lipsc_backend;

const lipsc_backend *lipsc_backend_cpu(void);
const lipsc_backend *lipsc_backend_cuda(void); /* NULL when not built */
const lipsc_backend *lipsc_backend_best(void);

#endif
