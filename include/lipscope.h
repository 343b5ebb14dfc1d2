/* lipscope.h - how far can an attention layer stretch a small change of its
 * input?  This file is the whole public interface.
 *
 * A complete program:
 *
 *     #include <lipscope.h>
 *     #include <stdio.h>
 *
 *     int main(void) {
 *         const double X[] = {-1, 1, 1, 1};       // four tokens of width one
 *         const double minus_one[] = {-1}, one[] = {1};
 *         lipsc_layer layer;
 *         lipsc_layer_defaults(&layer);           // one head, no mask
 *         layer.d = layer.key_dim = layer.value_dim = 1;
 *         layer.Q = minus_one;                    // scores (Q x_i).(K x_j)
 *         layer.K = layer.V = one;
 *
 *         lipsc_input input = {.n = 4, .X = X};
 *         lipsc_error err;
 *         lipsc_attn *attn;
 *         if (lipsc_attn_new(&layer, &input, LIPSC_F64, 0, &attn, &err)) {
 *             fprintf(stderr, "%s\n", err.text);
 *             return 1;
 *         }
 *         lipsc_svd_settings set;
 *         lipsc_svd_info info;
 *         double sigma;
 *         lipsc_svd_defaults(&set);
 *         lipsc_attn_sigma(attn, &set, &sigma, NULL, NULL, &info);
 *         printf("sigma %.12g, residual %.1e\n", sigma, info.residual);
 *         lipsc_attn_free(attn);
 *     }
 *
 * Rules that hold for every function below:
 *   - inputs are const and, unless a line says otherwise, are never kept after
 *     the call returns;
 *   - whoever allocates frees; every *_free(NULL) does nothing;
 *   - a function that can fail returns lipsc_status; results are written only on
 *     LIPSC_OK, LIPSC_E_NOCONV and LIPSC_E_STOPPED.  err may be NULL;
 *   - matrices are row-major, sequences are (n, width) row-major, so a sequence
 *     is also one vector of n * width numbers;
 *   - the library never prints, never exits, and keeps no global state.  Two
 *     threads may use two handles at once, never one.  It changes nothing of the
 *     process: numbers in files have a decimal point in any locale, OpenMP's number
 *     of threads is changed for the calling thread alone and set back, that of a BLAS
 *     with threads of its own never (OpenBLAS built on OpenMP follows OpenMP). */
#ifndef LIPSCOPE_H
#define LIPSCOPE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define LIPSC_API __attribute__((visibility("default")))
#else
#define LIPSC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define LIPSC_VERSION_STRING "0.1.0"
#define LIPSC_SCHEMA         1 /* of files and output fields */

LIPSC_API const char *lipsc_version(void);

/* ---- Status ------------------------------------------------------------- */

/* One list; the enum, the names and the sentences are expanded from it.
 * Values are part of the ABI: append, never reorder. */
#define LIPSC_STATUS_LIST(X)                                                   \
    X(OK, 0, "success")                                                        \
    X(E_ARG, 1, "invalid argument")                                            \
    X(E_NOMEM, 2, "out of memory")                                             \
    X(E_IO, 3, "cannot read or write file")                                    \
    X(E_FORMAT, 4, "malformed file")                                           \
    X(E_RANGE, 5, "size out of range")                                         \
    X(E_BACKEND, 6, "back end not available in this build or on this machine") \
    X(E_NOCONV, 7, "iteration limit reached before the tolerance")             \
    X(E_NONFIN, 8, "a NaN or an infinity appeared")                            \
    X(E_CALLBACK, 9, "a user callback reported failure")                       \
    X(E_STOPPED, 10, "stopped by the stop callback")                           \
    X(E_REFUSED, 11, "the hypotheses of this bound do not hold")

typedef enum {
#define LIPSC_EXPAND(name, value, text) LIPSC_##name = value,
    LIPSC_STATUS_LIST(LIPSC_EXPAND)
#undef LIPSC_EXPAND
} lipsc_status;

LIPSC_API const char *lipsc_strerror(lipsc_status s);    /* a sentence, never NULL */
LIPSC_API const char *lipsc_status_name(lipsc_status s); /* "E_FORMAT", never NULL */

/* Where and why.  text is one sentence that names the file, the thing and the
 * reason, for instance
 *     layer.safetensors: tensor 'Q': shape and offsets disagree */
typedef struct {
    lipsc_status code;
    uint64_t offset; /* byte in the file, 0 where that has no meaning */
    char text[800];
} lipsc_error;

/* Precision of the products and of the vectors of a solve. */
typedef enum { LIPSC_F64 = 0, LIPSC_F32 = 1 } lipsc_dtype;

/* ---- One attention layer ------------------------------------------------- */

/* Which tokens a token sees (itself always among them). */
typedef enum {
    LIPSC_MASK_NONE = 0,
    LIPSC_MASK_CAUSAL = 1,  /* j <= i                                    */
    LIPSC_MASK_SLIDING = 2, /* 0 <= i - j < window                       */
    LIPSC_MASK_TIMES = 3,   /* t_j <= t_i; equal times see each other    */
    LIPSC_MASK_LOCAL = 4    /* |i - j| < window                          */
} lipsc_mask;

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
 * packed weights and row statistics; memory grows with n * d, never with n^2. */
typedef struct lipsc_attn lipsc_attn;

/* threads: 0 means as many as OpenMP gives. */
LIPSC_API lipsc_status lipsc_attn_new(const lipsc_layer *layer, const lipsc_input *input,
                                      lipsc_dtype dtype, int threads, lipsc_attn **out,
                                      lipsc_error *err);
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

/* ---- Largest singular values ------------------------------------------------ */

typedef enum {
    LIPSC_LANCZOS = 0, /* Golub-Kahan-Lanczos, full reorthogonalisation, restarts */
    LIPSC_POWER = 1,   /* power iteration on A^T A: the baseline everyone knows   */
    LIPSC_DENSE = 2    /* LAPACK's SVD of the assembled matrix: small problems    */
} lipsc_method;

typedef struct {
    lipsc_method method; /* default LIPSC_LANCZOS                                  */
    double tol;          /* stop when the residual is below.  Default 0: 1e-8 in
                          * f64, 1e-2 in f32                                       */
    double value_tol;    /* stop only when also the value's estimated relative
                          * error is below.  Default 0: not asked for              */
    long max_products;   /* pairs (A, A^T).  Default 1000                          */
    size_t count;        /* how many of the largest singular values.  Default 1    */
    size_t basis;        /* vectors kept before a restart.  Default 0: chosen      */
    size_t block;        /* vectors per product.  Default 0: chosen                */
    uint64_t seed;       /* of the start vectors.  Default 1                       */
    double probability;  /* of upper_prob.  Default 0.999                          */
    /* Asked after every product; nonzero ends the solve with LIPSC_E_STOPPED and
     * what was reached. */
    int (*stop)(void *ctx);
    /* Told after every product: pairs so far, value, residual (NaN before the
     * first is known). */
    void (*progress)(void *ctx, long products, double sigma, double residual);
    void *ctx; /* handed to both */
} lipsc_svd_settings;

/* How the value was reached. */
typedef struct {
    lipsc_status status;
    int converged;   /* every value asked for has residual <= tol                */
    double residual; /* |A^T A v - s^2 v| / s^2 of the largest: the residual of
                      * the vector handed back, not a change                     */
    long products;   /* pairs (A, A^T), the final check included                 */
    int restarts;
    double upper_prob; /* sigma is below this with probability `probability` over
                        * random vectors (docs/maths.md 7.2), the difference between f32
                        * and double included; NaN when too few steps were made to say
                        * anything                                                 */
    double probability;
    double seconds;         /* wall clock, whole call                                   */
    double product_seconds; /* of these, inside products, the evaluation in double
                             * included                                            */
    double rounding;   /* |A v| of the first value is known to this, all rounding of its
                        * evaluation included (docs/maths.md 7.6); NaN from lipsc_svd,
                        * which cannot know what a callback does, infinite where double
                        * precision cannot tell the scores apart                     */
    double lower;      /* proved: sigma >= lower = (|A v| - rounding) / |v|, at least 0;
                        * NaN from lipsc_svd                                         */
    char unknown[200]; /* why lower is 0 although |A v| is not, in one sentence; else
                        * empty.  Then there is no proved upper bound either       */
} lipsc_svd_info;

LIPSC_API void lipsc_svd_defaults(lipsc_svd_settings *set);

/* sigma (count values, largest first) and, where not NULL, u (count vectors of m)
 * and v (count vectors of n), |v| = 1.  sigma[i] = |A v_i|: up to rounding a LOWER
 * bound, converged or not (info->lower is one with rounding); u_i = A v_i / sigma_i.  Where
 * fewer than count singular values exist, the rest is zero. */
LIPSC_API lipsc_status lipsc_svd(const lipsc_op *op, const lipsc_svd_settings *set,
                                 double *sigma, double *u, double *v, lipsc_svd_info *info);

/* The same for J, solved in the precision of attn; sigma[i] = |J v_i| is then
 * re-evaluated in double, with the weights and the input as they were given. */
LIPSC_API lipsc_status lipsc_attn_sigma(lipsc_attn *attn, const lipsc_svd_settings *set,
                                        double *sigma, double *u, double *v,
                                        lipsc_svd_info *info);

/* |J^T f(X)|^(1/2) in double: what the authors' released scripts return in place of sigma
 * (docs/maths.md 8).  f(X) includes the output bias.  LIPSC_E_ARG with weights, for which
 * those scripts have no meaning. */
LIPSC_API lipsc_status lipsc_attn_released(lipsc_attn *attn, double *value);

/* ---- A proved and tight upper bound ------------------------------------------- */

/* What a certificate is going to cost, told before the work begins. */
typedef struct {
    const char *rung; /* see lipsc_certificate                                  */
    double products;  /* pairs (A, A^T), roughly                                */
    double seconds;   /* by the speed of the products so far                    */
    size_t bytes;     /* of memory, beyond what the products need               */
} lipsc_certify_plan;

typedef struct {
    double eps;         /* wanted: upper <= (1 + eps) lower.  Default 1e-3           */
    double rounding;    /* what the products are off by: |fl(A x) - A x| <= rounding |x|
                         * and the same for A^T.  Default 0: they are exact          */
    double lower;       /* proved already.  Default 0: by the given direction        */
    double upper;       /* proved already.  Default infinity                         */
    double max_seconds; /* refuse what is expected to take longer.  Default 300   */
    size_t max_bytes;   /* and what needs more memory.  Default 2 GiB             */
    uint64_t seed;      /* of start vectors and probes.  Default 1                */
    /* Told the plan; nonzero refuses it.  May be called again for a higher rung. */
    int (*begin)(void *ctx, const lipsc_certify_plan *plan);
    int (*stop)(void *ctx); /* nonzero ends with LIPSC_E_STOPPED                  */
    void (*progress)(void *ctx, double done, double seconds_left); /* done: 0 to 1 */
    void *ctx;                                                     /* handed to all */
} lipsc_certify_settings;

/* sigma lies in [lower, upper]; all rounding is inside. */
typedef struct {
    int certified;       /* upper <= (1 + eps) lower                                    */
    double lower, upper; /* upper: the least that was proved, infinity when nothing
                          * was                                                   */
    const char *rung;    /* what closed the gap: "upper" (given), "frobenius",
                          * "schatten-4", ..., "schatten-16" (that norm of what Ritz
                          * vectors leave), "cholesky" (the assembled matrix); NULL:
                          * nothing did                                              */
    size_t vectors;      /* Ritz vectors that were taken out                         */
    long products;       /* pairs (A, A^T)                                           */
    double seconds;
} lipsc_certificate;

LIPSC_API void lipsc_certify_defaults(lipsc_certify_settings *set);

/* Proves an upper bound of the largest singular value that is close to the lower bound
 * which the direction v (n numbers, not zero; NULL: set->lower stands alone) gives:
 * docs/maths.md 7.8.  Of the ways that work the one expected to be the fastest is taken;
 * it multiplies with min(m, n) unit vectors.  LIPSC_E_NOCONV: not closed, err says why;
 * LIPSC_E_REFUSED: beyond the limits, err says what it would take.  *out is there after
 * both, with what is known. */
LIPSC_API lipsc_status lipsc_certify(const lipsc_op *op, const double *v,
                                     const lipsc_certify_settings *set,
                                     lipsc_certificate *out, lipsc_error *err);

/* The same for J, by products in double with the layer and the input as they were given;
 * set->rounding is ignored, a proved one is used. */
LIPSC_API lipsc_status lipsc_attn_certify(lipsc_attn *attn, const double *v,
                                          const lipsc_certify_settings *set,
                                          lipsc_certificate *out, lipsc_error *err);

/* ---- Proved upper bound at the input ----------------------------------------- */

/* Which inequality gave the value: docs/maths.md has the proofs. */
typedef struct {
    double value;      /* >= sigma                                                   */
    double columns;    /* by column sums of the attention (3.3 UB_data, 3.13); NaN beyond
                        * 128 tokens unless joint is infinite                        */
    double rows;       /* by row norms (3.3, alternative), a cover of them where they
                        * cannot win; NaN with weights and where columns is          */
    size_t worst_head; /* head with the largest bound                                */
    double rounding;   /* part of each of them that covers the rounding of projections
                        * and softmax (7.6)                                          */
    double joint;      /* by all heads together (3.10); infinite with rotary positions
                        * or query and key norms                                     */
} lipsc_upper;

/* An upper bound of sigma that holds at this input, all rounding of its own evaluation
 * included.  Heads are combined by 3.10.  LIPSC_E_REFUSED where the scores are closer than
 * their rounding errors, so that nothing is known of the attention: err has the sentence.
 */
LIPSC_API lipsc_status lipsc_attn_upper(lipsc_attn *attn, lipsc_upper *out,
                                        lipsc_error *err);

/* ---- Proved upper bound over a neighbourhood ---------------------------------- */

/* At every input X' with |x'_i - x_i| <= radius for each token; weights, times and
 * positions stay (docs/maths.md 3.15).  NaN: too large for a double, or no such bound. */
typedef struct {
    double radius;
    double value;  /* >= sigma at all of them: the smallest of ends, point + change, ball */
    double ends;   /* the bound at the point with the upper end of all that is in it      */
    double change; /* >= |J(X') - J(X)|                                                   */
    double point;  /* lipsc_upper.value at the input itself                               */
    double ball;   /* the best bound over the ball of radius max |x_i| + radius           */
} lipsc_around;

/* As radius goes to zero, value goes to the bound at the point. */
LIPSC_API lipsc_status lipsc_attn_around(lipsc_attn *attn, double radius, lipsc_around *out,
                                         lipsc_error *err);

/* The largest radius at which value <= limit, within 0.2 percent from below; at most 8^30
 * times the mean token length.  LIPSC_E_REFUSED: already the bound at the input is above.
 */
LIPSC_API lipsc_status lipsc_attn_below(lipsc_attn *attn, double limit, lipsc_around *out,
                                        lipsc_error *err);

/* ---- Files -------------------------------------------------------------------- */

/* A layer with its input, read from one safetensors file (docs/cli.md, "Layer
 * files").  What its metadata says of the layer counts; an option that says something else
 * is refused (LIPSC_E_ARG, with both values).  Free with lipsc_layer_file_free; layer and
 * input point into it. */
typedef struct {
    lipsc_layer layer;
    lipsc_input input; /* X may be absent (n = 0) when need_input was 0 */
    void *storage;
} lipsc_layer_file;

typedef struct {
    size_t heads, kv_heads; /* 0: as the file says, or default */
    double scale;           /* 0: as the file says, or default */
    lipsc_mask mask;        /* LIPSC_MASK_NONE: as the file says, or by its times */
    size_t window;
    int need_input;
} lipsc_layer_options;

LIPSC_API lipsc_status lipsc_layer_file_read(const char *path,
                                             const lipsc_layer_options *options,
                                             lipsc_layer_file *out, lipsc_error *err);
LIPSC_API void lipsc_layer_file_free(lipsc_layer_file *file);

/* ---- Back ends ------------------------------------------------------------------ */

/* Comma separated names compiled in, best first, for instance "cuda,cpu", and the
 * instruction set that the CPU products chose on this machine. */
LIPSC_API const char *lipsc_backends(void);
LIPSC_API const char *lipsc_cpu_isa(void);

/* ---- Distances between measures ------------------------------------------------- */

/* A probability measure: weighted atoms, with times for the masked mean field. */
typedef struct {
    size_t n, d;
    const double *points;  /* (n, d)                                               */
    const double *weights; /* (n) positive, sum 1 within 1e-9, or NULL: 1/n each   */
    const double *times;   /* (n) in [0, 1], or NULL                               */
} lipsc_measure;

/* mass goes from atom `from` of the first measure to atom `to` of the second. */
typedef struct {
    size_t from, to;
    double mass;
} lipsc_move;

typedef struct {
    double p;        /* >= 1.  Default 2                                           */
    int conditional; /* d_p: mass stays at its time (docs/maths.md 1.4).  Default 0 */
    int plan;        /* hand the plan back as well.  Default 0                     */
    double sinkhorn; /* > 0: the Sinkhorn divergence with this epsilon, in units of
                      * |x - y|^p: an approximation.  Default 0: exact             */
    int check;       /* prove the gap by looking at all pairs.  Default 1          */
} lipsc_distance_settings;

/* W_p(a, b) = (min over couplings of sum mass |x - y|^p)^(1/p), or d_p.  f and g prove it:
 * f_i + g_j <= |x_i - y_j|^p for all pairs (of equal times), so that no coupling costs
 * less than sum a_i f_i + sum b_j g_j = cost - gap.  Free with lipsc_distance_free. */
typedef struct {
    double p, distance;
    double cost;      /* distance^p; infinity when a double cannot hold it       */
    double gap;       /* cost less the value of f and g; NaN without check and for an
                       * approximation                                           */
    double imbalance; /* largest difference between the masses that the plan takes or
                       * brings and the weights                                  */
    double epsilon;   /* of an approximation, 0 for an exact value               */
    int conditional;
    const char *method; /* "simplex", "assignment", "line", "point", "sinkhorn";
                         * "conditional" where times were solved one by one        */
    double *f, *g;      /* (a.n), (b.n)                                            */
    lipsc_move *plan;   /* NULL unless asked for                                   */
    size_t moves;
    long pivots;
    double seconds;
} lipsc_distance;

LIPSC_API void lipsc_distance_defaults(lipsc_distance_settings *set);

/* set NULL: the defaults.  LIPSC_E_REFUSED when conditional is asked for and the measures
 * have different masses at some time. */
LIPSC_API lipsc_status lipsc_distance_between(const lipsc_measure *a,
                                              const lipsc_measure *b,
                                              const lipsc_distance_settings *set,
                                              lipsc_distance *out, lipsc_error *err);
LIPSC_API void lipsc_distance_free(lipsc_distance *distance);

/* What plain loops over all pairs find, sharing no code with the solvers. */
typedef struct {
    double primal;    /* sum of mass |x - y|^p over the plan; NaN without one      */
    double dual;      /* sum a_i f_i + sum b_j g_j                                 */
    double violation; /* largest f_i + g_j - |x_i - y_j|^p, at least 0             */
    double imbalance; /* as above, from the plan; NaN without one                  */
} lipsc_distance_proof;

LIPSC_API lipsc_status lipsc_distance_certify(const lipsc_measure *a,
                                              const lipsc_measure *b,
                                              const lipsc_distance *distance,
                                              lipsc_distance_proof *out, lipsc_error *err);

/* A measure from a safetensors file (points, weights, times), a .npy array or a CSV table
 * (points), told apart by content.  Free with lipsc_measure_file_free. */
typedef struct {
    lipsc_measure measure; /* points into storage */
    void *storage;
} lipsc_measure_file;

/* normalise: divide the weights by their sum, which otherwise has to be 1 within 1e-9. */
LIPSC_API lipsc_status lipsc_measure_file_read(const char *path, int normalise,
                                               lipsc_measure_file *out, lipsc_error *err);
LIPSC_API void lipsc_measure_file_free(lipsc_measure_file *file);

/* ---- Attention on measures ------------------------------------------------------- */

/* docs/maths.md 1.4 and 2.  A layer acts on a measure without times as it stands; on one
 * with times as the masked mean field, where an atom sees those whose time is not later.  A
 * causal layer takes a measure without times as a sequence: atom i has the time (i+1)/n.
 * LIPSC_E_REFUSED for what is no map of measures: rotary positions and sliding windows. */

/* A measure that owns its numbers.  Free with lipsc_cloud_free. */
typedef struct {
    lipsc_measure measure;
    void *storage;
} lipsc_cloud;

LIPSC_API void lipsc_cloud_free(lipsc_cloud *cloud);

/* The same measure with equal atoms (of equal times) as one, in the order in which they
 * first appear: n tokens with few values become a small measure.  atom (mu->n, or NULL)
 * tells which atom each became, and so leads back. */
LIPSC_API lipsc_status lipsc_measure_merge(const lipsc_measure *mu, lipsc_cloud *out,
                                           size_t *atom, lipsc_error *err);

/* n tokens, X (n, d), whose merged measure this is; LIPSC_E_REFUSED when some weight is no
 * multiple of 1/n. */
LIPSC_API lipsc_status lipsc_measure_tokens(const lipsc_measure *mu, size_t n, double *X,
                                            lipsc_error *err);

/* The image F(mu): every atom goes to its output, with its weight and its time. */
LIPSC_API lipsc_status lipsc_measure_push(const lipsc_layer *layer, const lipsc_measure *mu,
                                          int threads, lipsc_cloud *out, lipsc_error *err);

/* Gamma_mu(x) at count points x (count, d) that need not be atoms: y (count, width), in
 * plain double loops.  times (count): when each point stands, NULL exactly when mu has
 * none. */
LIPSC_API lipsc_status lipsc_measure_map(const lipsc_layer *layer, const lipsc_measure *mu,
                                         size_t count, const double *x, const double *times,
                                         double *y, lipsc_error *err);

/* How much faster than mu its image can change, in W_2 (d_2 with times): */
typedef struct {
    int threads;     /* default 0: as many as OpenMP gives                           */
    double tol;      /* residual to stop at.  Default 0: 1e-8                        */
    double radius;   /* of the ball in which atoms are teleported.  Default 0: that of
                      * the longest atom                                             */
    size_t restarts; /* starts of that search for each atom; 0: no search.  Default 8 */
    double step;     /* of the finite perturbations; 0: none are made.  Default 1e-4 */
    size_t measured; /* no ratios are measured beyond so many atoms.  Default 1000   */
    uint64_t seed;   /* default 1                                                    */
    int (*stop)(void *ctx); /* as in lipsc_svd_settings                              */
    void *ctx;
} lipsc_slope_settings;

/* Atoms are counted as in the given measure; of equal ones the first is named.  Each
 * measured value is a ratio of two exact distances, W_2(F(mu'), F(mu)) / W_2(mu', mu), of a
 * mu' near mu that shows the constant; NaN when not made. */
typedef struct {
    size_t n, d;     /* of the given measure                                           */
    size_t atoms;    /* different ones                                                 */
    int masked;      /* the distance is d_2                                            */
    double move;     /* atoms move, each in one piece                                  */
    double halves;   /* max_i |V C_i A|: two halves of one atom move apart             */
    double split;    /* max(move, halves): atoms are split and all parts move          */
    double teleport; /* a vanishing part of one atom goes far away: found by search, a
                      * lower value of the supremum; at least halves               */
    double teleport_cover; /* proved to be above that supremum; NaN with query/key norms */
    double duplicate;      /* causal sequences: sigma after every token was written twice, a
                            * different system, whose first copies do not see the second;
                            * NaN otherwise                                               */
    size_t move_atom;      /* the one that takes the largest part in the motion           */
    size_t split_atom, teleport_atom;
    double *direction; /* (n, d) reaches move; sum a_i |h_i|^2 = 1               */
    double *half;      /* (d) one half moves along it, the other against; length 1 */
    double *target;    /* (d) where the part goes; the atom itself when no better
                        * place than close by was found                          */
    double move_measured, halves_measured, split_measured, teleport_measured;
    double move_residual, halves_residual;
    int converged; /* both residuals meet tol                                        */
    double seconds;
} lipsc_slopes;

LIPSC_API void lipsc_slope_defaults(lipsc_slope_settings *set);

/* set NULL: the defaults.  LIPSC_E_NOCONV: *out is there, with converged 0; not so after
 * LIPSC_E_STOPPED.  Free with lipsc_slopes_free. */
LIPSC_API lipsc_status lipsc_slopes_find(const lipsc_layer *layer, const lipsc_measure *mu,
                                         const lipsc_slope_settings *set, lipsc_slopes *out,
                                         lipsc_error *err);
LIPSC_API void lipsc_slopes_free(lipsc_slopes *slopes);

/* The perturbed measures behind the measured values, at a distance of about step; mu is the
 * measure that slopes were found for. */
typedef enum {
    LIPSC_PERTURB_MOVE,    /* atom i at x_i + step h_i                                 */
    LIPSC_PERTURB_SPLIT,   /* split_atom in two halves, step away along +half and -half */
    LIPSC_PERTURB_TELEPORT /* a part of at most step^2 of teleport_atom at target     */
} lipsc_perturbation;

LIPSC_API lipsc_status lipsc_slopes_perturb(const lipsc_slopes *slopes,
                                            const lipsc_measure *mu,
                                            lipsc_perturbation kind, double step,
                                            lipsc_cloud *out, lipsc_error *err);

/* d(F(a), F(b)) / d(a, b) of two measures, in W_p or d_p as set says (NULL: W_2, or d_2
 * when both have times).  LIPSC_E_REFUSED when a and b are the same measure. */
typedef struct {
    double ratio, before, after;  /* after / before, d(a, b), d(F(a), F(b))           */
    double gap_before, gap_after; /* of the two costs: see lipsc_distance            */
    const char *method_before, *method_after;
} lipsc_ratio;

LIPSC_API lipsc_status lipsc_ratio_between(const lipsc_layer *layer, const lipsc_measure *a,
                                           const lipsc_measure *b,
                                           const lipsc_distance_settings *set, int threads,
                                           lipsc_ratio *out, lipsc_error *err);

/* ---- Inputs of infinite length --------------------------------------------------- */

/* sum_k mass_k N(mean_k, cov_k).  Layers without mask, rotary positions and query/key norms
 * see it in closed form; one Gaussian by the affine map Gamma(x) = V (m + S A x). */
typedef struct {
    size_t parts, d;
    const double *mass; /* (parts) positive, sum 1 within 1e-9, or NULL: equal      */
    const double *mean; /* (parts, d)                                               */
    const double *cov;  /* (parts, d, d) symmetric, positive semidefinite           */
} lipsc_gauss;

LIPSC_API lipsc_status lipsc_gauss_check(const lipsc_gauss *gauss, lipsc_error *err);

/* Gamma at count points x (count, d): y (count, width). */
LIPSC_API lipsc_status lipsc_gauss_map(const lipsc_layer *layer, const lipsc_gauss *gauss,
                                       size_t count, const double *x, double *y,
                                       lipsc_error *err);

/* The image of one Gaussian, again one: mean (width), cov (width, width), and slope, the
 * Lipschitz constant |V S A| of Gamma, which is that of splitting and of teleporting;
 * moving may be unbounded.  Each may be NULL. */
LIPSC_API lipsc_status lipsc_gauss_push(const lipsc_layer *layer, const lipsc_gauss *gauss,
                                        double *mean, double *cov, double *slope,
                                        lipsc_error *err);

/* W_2 between two Gaussians. */
LIPSC_API lipsc_status lipsc_gauss_distance(const lipsc_gauss *a, const lipsc_gauss *b,
                                            double *distance, lipsc_error *err);

/* n tokens X (n, d), the same for the same seed. */
LIPSC_API lipsc_status lipsc_gauss_sample(const lipsc_gauss *gauss, size_t n, uint64_t seed,
                                          double *X, lipsc_error *err);

/* From a safetensors file: mean (d) or (parts, d), cov (d, d) or (parts, d, d), and
 * optionally mix (parts), the masses.  Shapes are checked here, values by
 * lipsc_gauss_check.  Free with lipsc_gauss_file_free. */
typedef struct {
    lipsc_gauss gauss; /* points into storage */
    void *storage;
} lipsc_gauss_file;

LIPSC_API lipsc_status lipsc_gauss_file_read(const char *path, lipsc_gauss_file *out,
                                             lipsc_error *err);
LIPSC_API void lipsc_gauss_file_free(lipsc_gauss_file *file);
LIPSC_API int lipsc_gauss_file_recognised(const char *path); /* has mean, not points */

/* How samples of lengths[k] tokens approach the limit: error (count), the root mean square
 * of |Gamma_n - Gamma| over fixed points and `repeats` samples, relative to that of Gamma;
 * exponent: slope of ln error on ln n. */
LIPSC_API lipsc_status lipsc_gauss_rate(const lipsc_layer *layer, const lipsc_gauss *gauss,
                                        size_t count, const size_t *lengths, size_t repeats,
                                        uint64_t seed, double *error, double *exponent,
                                        lipsc_error *err);

#ifdef __cplusplus
}
#endif
#endif /* LIPSCOPE_H */
