/* zoo.h - every bound as one entry of a table: formula, hypotheses, norm, domain, source.
 *
 * A bound is one small function and one line of the table in zoo.c.  Values are handled as
 * natural logarithms: e^{2a} overflows long before a does.
 *
 * Notation of docs/maths.md: R the radius of the ball, and for each head
 *     a1 = |A| R^2 in the query term,   a2 = (|A| R + |c|) R elsewhere (3.4),
 * which are the same a without a query bias. */
#ifndef LIPSC_BOUND_ZOO_H
#define LIPSC_BOUND_ZOO_H

#include "attn/attn.h"
#include "bound/facts.h"

typedef enum { LIPSC_KIND_UPPER, LIPSC_KIND_LIMIT, LIPSC_KIND_LOWER } lipsc_bound_kind;

typedef enum {
    LIPSC_NORM_FROBENIUS,
    LIPSC_NORM_MAX_TOKEN,
    LIPSC_NORM_W1,
    LIPSC_NORM_W2,
    LIPSC_NORM_WP,
    LIPSC_NORM_D2,
    LIPSC_NORM_DP,
    LIPSC_NORM_OF_SIGMA /* frobenius; with weights W2, with weights and a mask d2 */
} lipsc_bound_norm;

typedef enum {
    LIPSC_DOMAIN_INPUT, /* holds at this input                     */
    LIPSC_DOMAIN_BALL,  /* for all tokens in the ball of radius R  */
    LIPSC_DOMAIN_ALL    /* for every input                         */
} lipsc_bound_domain;

/* What one softmax row after the other gave, per head: local.c. */
typedef struct {
    double column;  /* max_j (1/a_j) sum_i a_i P_ij                                    */
    double softmax; /* max_i of the norm of diag(P_i) - P_i P_i^T                      */
    double cover;   /* max_i p1 (1 - p1 + p2), p1 >= p2 the largest of row i           */
    double median;  /* over rows, of 1 - max_j P_ij                                    */
    double spread;  /* max_i of the range of the scores of row i, at most 2 a          */
} lipsc_local;

/* A norm in front of the layer (3.11): R_LN and what its derivative can stretch. */
typedef struct {
    double radius;     /* sqrt(d) max|g| + |b|                                        */
    double here;       /* max_i |DN(x_i)| is at most sqrt(d) max|g| / min_i r(x_i)    */
    double everywhere; /* max|g| / sqrt(eps)                                          */
    double sigma;      /* of the norm and the layer together at this input            */
} lipsc_zoo_norm;

/* How far a table of bounds is: a step is a head passed once, for a bound that takes its
 * time. */
typedef struct {
    void (*told)(void *ctx, size_t done, size_t total); /* NULL: nobody */
    void *ctx;
    size_t done, left;
    size_t after; /* those behind the neighbourhood */
} lipsc_zoo_steps;

/* A layer at an input, and the ball. */
typedef struct {
    lipsc_attn *attn;         /* as given, or `refined` where that knows more */
    lipsc_attn *given;        /* which asks whether to stop while the case is there */
    lipsc_attn *refined;      /* owned, or NULL */
    const lipsc_layer *layer; /* that of attn */
    size_t n;
    double radius;
    double p; /* of W_p and d_p */
    int weighted;
    lipsc_head_facts *head; /* (heads)                                 */
    lipsc_local *local;     /* (heads)                                 */
    double out_norm;        /* |O|; 1 without                          */
    double token_norm;      /* an upper bound of |X|                   */
    lipsc_upper data;       /* 3.3, 3.13                               */
    lipsc_status data_status;
    lipsc_error data_reason;
    const lipsc_zoo_norm *norm; /* NULL: no norm in front               */
    int (*stop)(void *ctx);     /* asked for each head; NULL: nobody    */
    void *ctx;
    lipsc_zoo_steps *steps; /* NULL: nobody counts                      */
    int *short_of_memory;   /* set by a head's bound that is NaN for want of it; or NULL */
} lipsc_zoo_case;

static inline lipsc_status lipsc_zoo_stopped(const lipsc_zoo_case *z) {
    return z->stop && z->stop(z->ctx) ? LIPSC_E_STOPPED : LIPSC_OK;
}

/* So many steps more are done. */
void lipsc_zoo_step(const lipsc_zoo_case *z, size_t steps);
/* So many radii are still to be tried for the neighbourhood. */
void lipsc_zoo_expect(const lipsc_zoo_case *z, size_t radii);

/* radius NaN: max |x_i|.  Free with lipsc_zoo_case_free, also on failure. */
lipsc_status lipsc_zoo_case_make(lipsc_attn *attn, double radius, double p,
                                 const lipsc_zoo_norm *norm, lipsc_zoo_case *out,
                                 lipsc_error *err);
/* The same; once stop says so, this and what is asked of the case is LIPSC_E_STOPPED. */
lipsc_status lipsc_zoo_case_until(lipsc_attn *attn, double radius, double p,
                                  const lipsc_zoo_norm *norm, int (*stop)(void *ctx),
                                  void *ctx, lipsc_zoo_case *out, lipsc_error *err);
void lipsc_zoo_case_free(lipsc_zoo_case *z);

/* How bounds of heads become one of the layer (3.10). */
typedef enum {
    LIPSC_HEADS_ROOT, /* min( sum_h |W_h V_h| g_h, |O| sqrt(sum_h (|V_h| g_h)^2) )      */
    LIPSC_HEADS_SUM   /* sum_h |W_h V_h| g_h alone: for p < 2 Minkowski's inequality
                       * does not give the root of the squares                          */
} lipsc_heads_rule;

typedef struct {
    const char *name, *source, *formula;
    lipsc_bound_kind kind;
    lipsc_bound_norm norm;
    lipsc_bound_domain domain;
    /* The reason why the bound says nothing here, or NULL. */
    const char *(*refuse)(const lipsc_zoo_case *z);
    /* Either the logarithm of the bound of head h for |V| = 1 ... */
    double (*log_head)(const lipsc_zoo_case *z, size_t h);
    /* ... or that of the whole layer.  LIPSC_E_REFUSED: err->text says why. */
    lipsc_status (*log_layer)(const lipsc_zoo_case *z, double *log_value, lipsc_error *err);
} lipsc_zoo_rule;

extern const lipsc_zoo_rule lipsc_zoo_rules[];
extern const size_t lipsc_zoo_count;
const lipsc_zoo_rule *lipsc_zoo_find(const char *name); /* NULL: no such bound */

typedef struct {
    const lipsc_zoo_rule *rule;
    lipsc_bound_norm norm; /* never LIPSC_NORM_OF_SIGMA                           */
    int comparable;        /* sigma is the local constant in this norm            */
    double sigma;          /* of the map that is bounded; set by evaluate_all     */
    double value;          /* NaN when refused or too large for a double          */
    double log_value;      /* NaN when refused or when the value is zero          */
    char refused[sizeof((lipsc_error *)0)->text]; /* empty: it holds */
} lipsc_zoo_row;

/* One row; a refusal is a row too.  Fails only when memory is short. */
lipsc_status lipsc_zoo_evaluate(const lipsc_zoo_case *z, const lipsc_zoo_rule *rule,
                                lipsc_zoo_row *row);
/* All of them, tightest first, refused ones last; rows has room for lipsc_zoo_count.  sigma
 * is that of the layer at the input. */
/* The rules that apply here and take as long as a pass over a head each. */
size_t lipsc_zoo_slow_count(const lipsc_zoo_case *z);

lipsc_status lipsc_zoo_evaluate_all(const lipsc_zoo_case *z, double sigma,
                                    lipsc_zoo_row *rows);

const char *lipsc_bound_kind_name(lipsc_bound_kind kind);
const char *lipsc_bound_norm_name(lipsc_bound_norm norm);
const char *lipsc_bound_domain_name(lipsc_bound_domain domain);

/* ---- Regime ------------------------------------------------------------------------- */

/* LIPSC_E_REFUSED when scores are not of the form (A x_i + c).x_j. */
lipsc_status lipsc_zoo_regime(const lipsc_zoo_case *z, lipsc_regime *out, lipsc_error *err);

/* ---- All of it at once: table.c ----------------------------------------------------- */

/* lipsc_attn_bounds with a norm in front (NULL: none). */
lipsc_status lipsc_zoo_bounds(lipsc_attn *attn, const lipsc_zoo_norm *norm,
                              const lipsc_bounds_settings *set, lipsc_bounds *out,
                              lipsc_error *err);
double lipsc_mean_token(size_t n, size_t d, const double *X); /* mean length */

/* ---- Shared by the files of the bounds ---------------------------------------------- */

double lipsc_log_add(double x, double y); /* log(e^x + e^y) */
double lipsc_log_a1(const lipsc_zoo_case *z, size_t h);
double lipsc_log_a2(const lipsc_zoo_case *z, size_t h);
double lipsc_a2(const lipsc_zoo_case *z, size_t h);
double lipsc_log_root_1_a2(double log_a); /* log sqrt(1 + a^2) */

/* Reasons: NULL where the hypothesis holds. */
const char *lipsc_refuse_turned(const lipsc_zoo_case *z);   /* rotary, query/key norms,
                                                             * caps, sinks             */
const char *lipsc_refuse_biased(const lipsc_zoo_case *z);   /* these, or a score bias  */
const char *lipsc_refuse_masked(const lipsc_zoo_case *z);   /* any mask                */
const char *lipsc_refuse_weights(const lipsc_zoo_case *z);  /* unequal weights         */
const char *lipsc_refuse_unmasked(const lipsc_zoo_case *z); /* no mask, or sliding     */

/* Column sums of the attention that no input of the ball exceeds (3.5, 3.8), for any mask
 * and any weights: log max_j sum_{i sees j} a_i / (a_j + (A_i - a_j) e^{-2a}), A_i the mass
 * that i sees.  NaN when memory is short. */
double lipsc_log_columns(const lipsc_zoo_case *z, double a);

/* The statistics of case.local. */
lipsc_status lipsc_local_make(const lipsc_attn *attn, lipsc_local *local);
/* The largest eigenvalue of diag(p) - p p^T, from above; p (n) sums to one. */
double lipsc_softmax_norm(size_t n, const double *p);
/* p1 (1 - p1 + p2), with 1 - p1 as the sum of the others. */
double lipsc_softmax_cover(size_t n, const double *p);

/* paper.c */
const char *lipsc_paper_finite_refuse(const lipsc_zoo_case *z);
double lipsc_paper_finite(const lipsc_zoo_case *z, size_t h);
const char *lipsc_paper_mean_field_refuse(const lipsc_zoo_case *z);
double lipsc_paper_mean_field(const lipsc_zoo_case *z, size_t h);
/* finite.c */
const char *lipsc_finite_refuse(const lipsc_zoo_case *z);
double lipsc_finite(const lipsc_zoo_case *z, size_t h);
const char *lipsc_rows_refuse(const lipsc_zoo_case *z);
double lipsc_rows_bound(const lipsc_zoo_case *z, size_t h);
double lipsc_atoms(const lipsc_zoo_case *z, size_t h);
double lipsc_max_token(const lipsc_zoo_case *z, size_t h);
/* mean_field.c */
const char *lipsc_mean_field_refuse(const lipsc_zoo_case *z);
double lipsc_mean_field_w1(const lipsc_zoo_case *z, size_t h);
double lipsc_mean_field_w2(const lipsc_zoo_case *z, size_t h);
double lipsc_mean_field_wp(const lipsc_zoo_case *z, size_t h);
/* masked forms, in finite.c and mean_field.c */
const char *lipsc_masked_finite_refuse(const lipsc_zoo_case *z);
double lipsc_masked_finite(const lipsc_zoo_case *z, size_t h);
const char *lipsc_masked_uniform_refuse(const lipsc_zoo_case *z);
double lipsc_masked_uniform(const lipsc_zoo_case *z, size_t h);
const char *lipsc_masked_dp_refuse(const lipsc_zoo_case *z);
double lipsc_masked_dp(const lipsc_zoo_case *z, size_t h);
/* local.c */
lipsc_status lipsc_data_columns(const lipsc_zoo_case *z, double *log_value,
                                lipsc_error *err);
lipsc_status lipsc_data_rows(const lipsc_zoo_case *z, double *log_value, lipsc_error *err);
lipsc_status lipsc_data_joint(const lipsc_zoo_case *z, double *log_value, lipsc_error *err);
lipsc_status lipsc_data_best(const lipsc_zoo_case *z, double *log_value, lipsc_error *err);
const char *lipsc_elementary_refuse(const lipsc_zoo_case *z);
double lipsc_elementary(const lipsc_zoo_case *z, size_t h);
double lipsc_elementary_cover(const lipsc_zoo_case *z, size_t h);
lipsc_status lipsc_large_radius(const lipsc_zoo_case *z, double *log_value,
                                lipsc_error *err);
lipsc_status lipsc_single_token(const lipsc_zoo_case *z, double *log_value,
                                lipsc_error *err);
/* normed.c */
const char *lipsc_normed_refuse(const lipsc_zoo_case *z);
lipsc_status lipsc_normed_data(const lipsc_zoo_case *z, double *log_value,
                               lipsc_error *err);
lipsc_status lipsc_normed_here(const lipsc_zoo_case *z, double *log_value,
                               lipsc_error *err);
lipsc_status lipsc_normed_everywhere(const lipsc_zoo_case *z, double *log_value,
                                     lipsc_error *err);
/* worst.c: the value that a construction reaches */
const char *lipsc_worst_refuse(const lipsc_zoo_case *z);
lipsc_status lipsc_worst_one(const lipsc_zoo_case *z, double *log_value, lipsc_error *err);
lipsc_status lipsc_worst_eigen(const lipsc_zoo_case *z, double *log_value,
                               lipsc_error *err);
lipsc_status lipsc_worst_fit(const lipsc_zoo_case *z, double *log_value, lipsc_error *err);
lipsc_status lipsc_worst_two(const lipsc_zoo_case *z, double *log_value, lipsc_error *err);
lipsc_status lipsc_worst_line(const lipsc_zoo_case *z, double *log_value, lipsc_error *err);
lipsc_status lipsc_worst_diracs(const lipsc_zoo_case *z, double *log_value,
                                lipsc_error *err);
lipsc_status lipsc_worst_scales(const lipsc_zoo_case *z, double *log_value,
                                lipsc_error *err);

/* A case of any radius; lipsc_attn_around (around.c) and lipsc_attn_below on it. */
lipsc_status lipsc_around_at(const lipsc_zoo_case *z, double r, lipsc_around *out,
                             lipsc_error *err);
/* around_below.c */
lipsc_status lipsc_around_below(const lipsc_zoo_case *z, double limit, lipsc_around *out,
                                lipsc_error *err);

#endif
