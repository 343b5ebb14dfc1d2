/* meanfield.h - measures: distances, and attention as a map between them. */
#ifndef LIPSCOPE_MEANFIELD_H
#define LIPSCOPE_MEANFIELD_H

#include "lipscope/layer.h"

#ifdef __cplusplus
extern "C" {
#endif

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

/* A safetensors file that is read back so. */
LIPSC_API lipsc_status lipsc_measure_file_write(const char *path, const lipsc_measure *mu,
                                                lipsc_error *err);

/* The plan of a distance between measures of n and m atoms as a safetensors file: from, to
 * and mass of every move, and the potentials f (n) and g (m). */
LIPSC_API lipsc_status lipsc_distance_write(const char *path,
                                            const lipsc_distance *distance, size_t n,
                                            size_t m, lipsc_error *err);

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
                                          const lipsc_device *device, lipsc_cloud *out,
                                          lipsc_error *err);

/* Gamma_mu(x) at count points x (count, d) that need not be atoms: y (count, width), in
 * plain double loops.  times (count): when each point stands, NULL exactly when mu has
 * none. */
LIPSC_API lipsc_status lipsc_measure_map(const lipsc_layer *layer, const lipsc_measure *mu,
                                         size_t count, const double *x, const double *times,
                                         double *y, lipsc_error *err);

/* How much faster than mu its image can change, in W_2 (d_2 with times): */
typedef struct {
    const lipsc_device *device; /* default NULL: the CPU                          */
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

/* The perturbed measures behind move_measured, halves_measured and teleport_measured, at a
 * distance of about step; mu is the measure that slopes were found for. */
typedef enum {
    LIPSC_PERTURB_MOVE,    /* atom i at x_i + step h_i                                 */
    LIPSC_PERTURB_SPLIT,   /* split_atom in two halves, step away along +half and -half */
    LIPSC_PERTURB_TELEPORT /* a part of at most step^2 of teleport_atom at target     */
} lipsc_perturbation;

LIPSC_API lipsc_status lipsc_slopes_perturb(const lipsc_slopes *slopes,
                                            const lipsc_measure *mu,
                                            lipsc_perturbation kind, double step,
                                            lipsc_cloud *out, lipsc_error *err);

/* The measure with split_atom in halves (LIPSC_PERTURB_SPLIT), as a file that
 * lipsc_measure_file_read takes, and beside it `move`, `half` and `target`, the directions
 * behind all three constants. */
LIPSC_API lipsc_status lipsc_slopes_write(const char *path, const lipsc_slopes *slopes,
                                          const lipsc_measure *mu, double step,
                                          lipsc_error *err);

/* d(F(a), F(b)) / d(a, b) of two measures, in W_p or d_p as set says (NULL: W_2, or d_2
 * when both have times).  LIPSC_E_REFUSED when a and b are the same measure. */
typedef struct {
    double ratio, before, after;  /* after / before, d(a, b), d(F(a), F(b))           */
    double gap_before, gap_after; /* of the two costs: see lipsc_distance            */
    const char *method_before, *method_after;
} lipsc_ratio;

LIPSC_API lipsc_status lipsc_ratio_between(const lipsc_layer *layer, const lipsc_measure *a,
                                           const lipsc_measure *b,
                                           const lipsc_distance_settings *set,
                                           const lipsc_device *device, lipsc_ratio *out,
                                           lipsc_error *err);

/* ---- Pairs of measures that part the most --------------------------------------- */

/* Which pairs of measures on a ball attention drives apart most, as far as a
 * search finds them.
 *
 * Measures on a ball form a geodesic space, so no pair has a ratio W_2(F mu, F nu) /
 * W_2(mu, nu) above the largest local constant: the search goes over one measure of few
 * atoms, and the pair is that measure and its perturbation. */
typedef struct {
    double radius;
    size_t atoms;       /* of the measures tried without a mask; at least 2.  Default 3 */
    size_t evaluations; /* for each start.  Default 0: 300, or 60 where d > 16 and steps at
                         * random gain little                                         */
    double step;        /* of the perturbation.  Default 1e-4                        */
    const lipsc_device *device; /* NULL: the CPU                                     */
    uint64_t seed;
    int (*stop)(void *ctx);
    void *ctx;
} lipsc_pairs_settings;

typedef struct {
    double construction;     /* split of the known worst case: 5.3, with a mask 5.4       */
    double promised;         /* by its formula, of one head alone                        */
    double best;             /* the largest split found: a lower bound over the ball     */
    double measured;         /* ratio of the pair: mu and its perturbation               */
    double a;                /* (|A| R + |c|) R, of the head where it is largest         */
    double upper, log_upper; /* 3.6, with a mask 3.9: no pair on the ball exceeds it  */
    lipsc_cloud measure;     /* reaches best                                         */
    long evaluations;
} lipsc_pairs;

LIPSC_API void lipsc_pairs_defaults(lipsc_pairs_settings *set);

/* layer: without a mask, or causal, which means the masked mean field.  Free with
 * lipsc_pairs_free. */
LIPSC_API lipsc_status lipsc_pairs_find(const lipsc_layer *layer,
                                        const lipsc_pairs_settings *set, lipsc_pairs *out,
                                        lipsc_error *err);
LIPSC_API void lipsc_pairs_free(lipsc_pairs *pairs);

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

/* One Gaussian, as a file that is read back so. */
LIPSC_API lipsc_status lipsc_gauss_file_write(const char *path, const lipsc_gauss *gauss,
                                              lipsc_error *err);

/* n random tokens of what the file holds, as lipsc_gauss_sample draws them.  Free with
 * lipsc_measure_file_free. */
LIPSC_API lipsc_status lipsc_gauss_file_sample(const char *path, size_t n, uint64_t seed,
                                               lipsc_measure_file *out, lipsc_error *err);

/* lipsc_gauss_push with room of its own.  Free it with lipsc_gauss_file_free. */
LIPSC_API lipsc_status lipsc_gauss_image(const lipsc_layer *layer, const lipsc_gauss *gauss,
                                         lipsc_gauss_file *out, double *slope,
                                         lipsc_error *err);

/* W_2(F(a), F(b)) / W_2(a, b) of two Gaussians; NaN where they are the same.  The gaps are
 * NaN: nothing was searched. */
LIPSC_API lipsc_status lipsc_gauss_ratio(const lipsc_layer *layer, const lipsc_gauss *a,
                                         const lipsc_gauss *b, lipsc_ratio *out,
                                         lipsc_error *err);

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
#endif
