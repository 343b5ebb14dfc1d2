/* sigma.h - the largest singular values of an operator, and their proof. */
#ifndef LIPSCOPE_SIGMA_H
#define LIPSCOPE_SIGMA_H

#include "lipscope/layer.h"

#ifdef __cplusplus
extern "C" {
#endif

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
    int pinned;          /* nonzero: products in the precision of the handle alone.
                          * Default 0: a handle in f32 on a GPU is solved for in what tol
                          * needs and, where that fails, in more (docs/cuda.md)     */
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

/* The same with the vectors in the memory of a device, in double: x and y of op->apply lie
 * there, and what it writes has to be complete when it returns.  sigma, u, v and info are
 * the host's, as above. */
LIPSC_API lipsc_status lipsc_svd_on(const lipsc_device *device, const lipsc_op *op,
                                    const lipsc_svd_settings *set, double *sigma, double *u,
                                    double *v, lipsc_svd_info *info);

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

#ifdef __cplusplus
}
#endif
#endif
