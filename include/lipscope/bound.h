/* bound.h - proved upper bounds of sigma. */
#ifndef LIPSCOPE_BOUND_H
#define LIPSCOPE_BOUND_H

#include "lipscope/row.h"
#include "lipscope/sigma.h"

#ifdef __cplusplus
extern "C" {
#endif

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

/* ---- The zoo: every bound that is known --------------------------------------------- */

/* One bound; a bound whose hypotheses do not hold is refused with the reason.
 * X(member, kind, part, shown, unit, what it says) */
#define LIPSC_BOUND_LIST(X)                                                             \
    X(name, TEXT, 0, 1, "", "of the bound")                                             \
    X(source, TEXT, 0, 1, "", "where its proof is")                                     \
    X(kind, TEXT, 0, 1, "", "upper, limit or lower")                                    \
    X(norm, TEXT, 0, 1, "", "in which lengths are measured")                            \
    X(domain, TEXT, 0, 1, "", "input, ball, around or all")                             \
    X(radius, REAL, 0, 1, "", "of the ball or the neighbourhood")                       \
    X(value, REAL, 0, 1, "", "null: refused, or too large for a double")                \
    X(log_value, REAL, 0, 1, "", "its natural logarithm; null also where it is 0")      \
    X(sigma, REAL, 0, 1, "", "of the map that is bounded, at the input")                \
    X(ratio, REAL, 0, 1, "", "value / sigma, where sigma is the constant in this norm") \
    X(refused, TEXT, 0, 1, "", "which hypothesis does not hold")

typedef struct {
    LIPSC_BOUND_LIST(LIPSC_FIELD_MEMBER)
} lipsc_bound;

LIPSC_API lipsc_fields lipsc_bound_fields(void);

/* Where growth like sqrt(n) must stop (docs/maths.md 3.5): n against e^{2a}. */
#define LIPSC_REGIME_LIST(X)                                                            \
    X(a, REAL, 0, 1, "", "scores in a row differ by at most 2 a in the ball")           \
    X(delta, REAL, 0, 1, "", "the largest that one outlier reaches there")              \
    X(crossover, REAL, 0, 1, "tokens", "e^{2a}; null: too large for a double")          \
    X(log_crossover, REAL, 0, 1, "", "2 a")                                             \
    X(name, TEXT, 0, 1, "", "sqrt_n, mean_field or large_radius")                       \
    X(spread, REAL, 0, 1, "", "the largest range of the scores in a row of this input") \
    X(input, TEXT, 0, 1, "", "the same names, by the spread: this input, not its ball") \
    X(head, COUNT, 0, 1, "", "that of the largest a")

typedef struct {
    LIPSC_REGIME_LIST(LIPSC_FIELD_MEMBER)
} lipsc_regime;

LIPSC_API lipsc_fields lipsc_regime_fields(void);

/* A neighbourhood, as in lipsc_around. */
#define LIPSC_NEIGHBOURHOOD_LIST(X)                                      \
    X(radius, REAL, 0, 1, "", "no token moves by more")                  \
    X(relative, REAL, 0, 1, "", "the same in lengths of the mean token") \
    X(value, REAL, 0, 1, "", "sigma is nowhere above")                   \
    X(ends, REAL, 0, 1, "", "see lipsc_around")                          \
    X(change, REAL, 0, 1, "", "see lipsc_around")                        \
    X(point, REAL, 0, 1, "", "see lipsc_around")                         \
    X(ball, REAL, 0, 1, "", "see lipsc_around")                          \
    X(below, REAL, 0, 1, "", "the limit that was asked for; null: none")

typedef struct {
    LIPSC_NEIGHBOURHOOD_LIST(LIPSC_FIELD_MEMBER)
} lipsc_neighbourhood;

LIPSC_API lipsc_fields lipsc_neighbourhood_fields(void);

typedef struct {
    double radius; /* of the ball.  Default NaN: the longest token                       */
    double p;      /* of the norms Wp and dp.  Default 4                                 */
    double around; /* also over a neighbourhood of this radius.  Default NaN: none       */
    int relative;  /* 1: that radius counts in lengths of the mean token                 */
    double below;  /* the largest neighbourhood where sigma stays below.  Default NaN    */
    int (*stop)(void *ctx); /* as in lipsc_svd_settings; asked for each head and bound   */
    void (*progress)(void *ctx, long products, double sigma, double residual);
    /* of the bounds behind the solve, 0 steps first; with below the total is an estimate */
    void (*steps)(void *ctx, size_t done, size_t total); /* may be NULL */
    void *ctx;
} lipsc_bounds_settings;

LIPSC_API void lipsc_bounds_defaults(lipsc_bounds_settings *set);

typedef struct {
    size_t count;
    lipsc_bound *at; /* upper ones first, tightest first; refused ones last             */
    size_t n;
    double radius, p;
    double sigma;
    lipsc_svd_info info; /* how sigma was found; not converged: it is a lower bound      */
    int has_regime, has_around;
    lipsc_regime regime;
    lipsc_neighbourhood around;
    void *storage;
} lipsc_bounds;

/* All of them at the input of attn.  LIPSC_E_NOCONV: sigma did not converge, the rest is
 * there.  Free it after LIPSC_OK and LIPSC_E_NOCONV. */
LIPSC_API lipsc_status lipsc_attn_bounds(lipsc_attn *attn, const lipsc_bounds_settings *set,
                                         lipsc_bounds *out, lipsc_error *err);
LIPSC_API void lipsc_bounds_free(lipsc_bounds *bounds);

#ifdef __cplusplus
}
#endif
#endif
