/* rounding_row.h - what rounding does to one row of one head: inside rounding*.c only. */
#ifndef LIPSC_ATTN_ROUNDING_ROW_H
#define LIPSC_ATTN_ROUNDING_ROW_H

#include <stddef.h>

/* Queries, or keys, of one head, per token: lengths and bounds of errors, for the exact
 * numbers and for any computed ones.  Of the keys entry n is the sink: a key that is zero,
 * with a score of its own. */
typedef struct {
    double *length;        /* (n) |y_i|                                             */
    double *error;         /* (n) of y_i                                            */
    double *own_error;     /* (n) of the y_i that this pass has                     */
    double *stretch;       /* (n) |d y_i / d x_i|                                   */
    double *stretch_error; /* (n) of the product with d y_i / d x_i                 */
    double *spread;        /* (n) |y_i - centre|, for a centre common to all tokens */
    double longest, longest_error, most_stretch, most_stretch_error, widest;
} lipsc_projected;

/* One head, as its rows see it. */
typedef struct {
    size_t n;
    lipsc_projected q, k;
    double *z_spread;          /* (n + 1) |z_j - centre|, of the sink last            */
    double z_longest, z_error; /* of the values; the error of a value                 */
    double z_widest;           /* max z_spread                                        */
    double v_norm, v_error;    /* |V|, error of V h for |h| = 1                       */
    double log_weight_error;   /* of a score, by its weight                           */
    const double *log_weight, *root; /* (n) or NULL                                   */
    const double *bias;              /* (2 n - 1) or NULL: bias[n - 1 + j - i]         */
    double most_bias;                /* the largest, in size, of these and the sink    */
    double cap;                      /* of the scores; 0: none                         */
    int has_sink;
    double sink;           /* its score */
    double unit, own_unit; /* half an ulp of 1: of the products, of these scores  */
    double dots, own_dots; /* error of a dot product of a head, relative          */
    double sums;           /* error of all that follows the softmax, relative     */
    double smallest;       /* probabilities below it may be zero                  */
} lipsc_rounded_head;

/* What one row adds: |row of the error applied to h|
 *     <= own |h_i| + key sqrt(sum_j near_j |h_j|^2) + value sqrt(sum_j seen_j |h_j|^2). */
typedef struct {
    double own, key, value;
    double score_error; /* largest of the row, of any evaluation                     */
    double own_error;   /* the same, of this pass                                     */
    double open;        /* how much of the row is not known: 0 nothing, 1 all of it   */
} lipsc_rounded_row;

/* Row i sees keys lo .. hi-1; score[0 .. hi-lo-1] holds q_i . k_j as this pass computed
 * them, and becomes the scores; one entry more is for the sink.  near and seen (hi-lo, and
 * one) are filled. */
lipsc_rounded_row lipsc_rounded_row_of(const lipsc_rounded_head *head, size_t i, size_t lo,
                                       size_t hi, double *score, double *near,
                                       double *seen);

/* A bound of the error of the head that does not look at its scores: P_ij <= 1, and every
 * deviation is at most the largest spread.  Without weights only; infinite where the errors
 * of the scores are not small.  *score_error: a bound of the largest. */
double lipsc_rounded_cover(const lipsc_rounded_head *head, double *score_error);

#endif
