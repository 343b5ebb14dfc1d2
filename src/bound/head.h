/* head.h - one attention head at an input, as the bounds see it: inside bound/ only.
 *
 * Everything lives in the space of one head (key_dim, value_dim): nothing is d x d.
 * Tokens are in the order of lipsc_rows. */
#ifndef LIPSC_BOUND_HEAD_H
#define LIPSC_BOUND_HEAD_H

#include "attn/attn.h"

/* Norm, then rotation, of the queries or of the keys: y -> Rot_i Norm(y). */
typedef struct {
    size_t width, half;          /* key_dim; rotary_dim / 2                        */
    const double *cosine, *sine; /* (n, half)                                    */
    const double *gain;          /* (width) or NULL: no norm                       */
    double *raw;                 /* (n, width) what the norm was given             */
    double *inverse;             /* (n) 1 / sqrt(mean(raw^2) + eps)                */
    size_t norm_width;           /* numbers of that mean: of a head, or of all     */
    double *pull;                /* (n) |W^T raw| / r of all heads where they share the
                                  * norm, else NULL                                */
} lipsc_turn;

/* v := (d turned / d raw at this token)^T v = Norm'^T Rot^T v.  Where all heads share the
 * norm, without what goes through its radius: lipsc_turn_beside. */
void lipsc_turn_back(const lipsc_turn *turn, size_t token, double *v);
/* The same; with c = gain o Rot^T v and u = raw / (sqrt(m) r), m numbers in the mean,
 * *along = c . u and *length = |c|. */
void lipsc_turn_back_from(const lipsc_turn *turn, size_t token, double *v, double *along,
                          double *length);
/* How far from (d turned / d x at this token)^T v that leaves W^T v, at most; v as given to
 * lipsc_turn_back.  0 where each head has its own norm. */
double lipsc_turn_beside(const lipsc_turn *turn, size_t token, const double *v);

/* A factor F (rank, cols), column-major, of a matrix A with cols columns: |A g| = |F g|
 * for every g. */
typedef struct {
    size_t rank, cols;
    double *values;
    double norm; /* largest singular value */
} lipsc_factor;

/* a (rows x cols, column-major) is destroyed; factor->values holds cols * cols. */
lipsc_status lipsc_factor_make(size_t rows, size_t cols, double *a, lipsc_factor *factor);

typedef struct {
    const lipsc_attn *attn; /* which may be told to stop */
    const lipsc_rows *rows;
    const double *X; /* (n, d) the tokens      */
    double *tokens;  /* NULL: they are attn's  */
    int equal;       /* the weights of the tokens, given or not */
    size_t n, d, k, dv;
    double scale;
    int threads;
    int keys_differ;    /* norm or rotation of the keys, or a cap: the score's gradient with
                         * respect to key token j depends on j                           */
    size_t index;       /* which head                                              */
    double cap;         /* of the scores; 0: none                                  */
    const double *bias; /* (2 n - 1) or NULL: bias[n - 1 + j - i] of this head     */
    double sink;        /* its score; -INFINITY: none                              */
    double *cosine, *sine; /* (n, rotary_dim / 2) or NULL                             */
    double *q, *key;       /* (n, k): as in lipsc_layer, q with its scale             */
    double *z;             /* (n, dv): unit V x_j, without bias unless there is a sink,
                            * whose value is zero                                     */
    lipsc_turn query_turn, key_turn;
    double unit;         /* a power of two: V here is unit * V of the layer, so that
                          * its largest entry is between 1/2 and 1                  */
    double *VVt;         /* (dv, dv) V V^T                                          */
    double *VKt;         /* (dv, k) column-major, V K^T                             */
    lipsc_factor Qt, Kt; /* of Q^T and K^T: |Q^T g|, |K^T g|                        */
    lipsc_factor out;    /* of this head's slice of O; rank 0 without O             */
    int sliced;          /* 0: nobody asks for that factor                          */
    double out_unit;     /* a power of two, as unit                                 */
    double score_size;   /* max |q_i| max |key_j|                                   */
    double rounding;     /* relative error of what is computed here (3.3)           */
    double *scratch;     /* weights to be factored                                  */
} lipsc_head_at;

/* Memory for any head of the layer; then one head after the other. */
lipsc_status lipsc_head_new(const lipsc_attn *attn, lipsc_head_at *head);
lipsc_status lipsc_head_enter(const lipsc_attn *attn, size_t index, lipsc_head_at *head);
void lipsc_head_free(lipsc_head_at *head);

/* Whether all tokens weigh the same: then sigma is that of no weights at all. */
int lipsc_equal_weights(const lipsc_input *input);

/* s (hi - lo of row i) holds q_i . k_j and becomes the scores: capped, with bias and
 * weight.  slope (or NULL): the derivatives of the cap, 1 without one. */
void lipsc_head_finish(const lipsc_head_at *head, size_t i, double *s, double *slope);

/* |K^T g| of a key's gradient g (k), rounding included. */
double lipsc_head_pull(const lipsc_head_at *head, const double *g);

/* Relative error of what is summed over n tokens and these dimensions: docs/maths.md 3.3.
 */
double lipsc_head_rounding(size_t n, size_t d, size_t k, size_t dv);

/* Several matrices make one bound: [0] for the head as it is, [1] after its slice of O. */
enum { LIPSC_VIEWS = 2 };

/* Room for one token of one thread, and what that token gave. */
typedef struct {
    double *p;               /* (n) P_ij of the visible j, from lo                     */
    double sink;             /* 1 - sum_j P_ij                                         */
    double *slope;           /* (n) of the cap at the visible j, from lo               */
    double *bent;            /* (n, k) keys times these; without a cap unused          */
    const double *key;       /* bent, or the keys of the head                          */
    double *beside;          /* (chunk) of lipsc_turn_beside                           */
    double *zero;            /* max(k, dv) zeros: the sink                             */
    double *mean_z, *mean_k; /* (dv), (k): o_i and the mean key, minus those of `top`,
                              * or as they are where the sink has the largest part     */
    size_t top;              /* key with the largest p                                 */
    int at_sink;             /* the sink has the largest part                          */
    double *pack_z, *pack_k, *pack_w; /* (chunk, dv), (chunk, k), (chunk, max)         */
    double *vec;           /* max(k, dv)                                             */
    double *sum;           /* (dv, dv) the matrix M or N of row.c                    */
    double *cross;         /* (k, dv)                                                */
    double *cov;           /* (dv, k)                                                */
    double *work[3];       /* (max, max) each, max = max(k, dv)                      */
    double *power;         /* (max, max)                                             */
    double largest, total; /* of the scores with weights; sum of exp(s - largest)    */
    double tau2[LIPSC_VIEWS], rho2[LIPSC_VIEWS];
    double query[LIPSC_VIEWS]; /* largest query term of the tokens seen so far         */
    double cover; /* largest bound by traces of them: the scale of their rounding errors */
} lipsc_head_row;

lipsc_status lipsc_head_row_new(const lipsc_head_at *head, lipsc_head_row *row);
void lipsc_head_row_free(lipsc_head_row *row);

/* tau2 of token i, and its query term, which raises row->query.  A value that overflows
 * is LIPSC_E_RANGE. */
lipsc_status lipsc_head_row_columns(const lipsc_head_at *head, size_t i,
                                    lipsc_head_row *row);
/* rho2 of token i */
lipsc_status lipsc_head_row_rows(const lipsc_head_at *head, size_t i, lipsc_head_row *row);

#endif
