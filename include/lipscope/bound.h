/* bound.h - proved upper bounds of sigma. */
#ifndef LIPSCOPE_BOUND_H
#define LIPSCOPE_BOUND_H

#include "lipscope/layer.h"

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

#ifdef __cplusplus
}
#endif
#endif
