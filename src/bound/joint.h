/* joint.h - an upper bound of |J| at the input by all heads together: inside bound/ only.
 */
#ifndef LIPSC_BOUND_JOINT_H
#define LIPSC_BOUND_JOINT_H

#include "attn/attn.h"

/* *value >= the norm of the Jacobian at the computed queries, keys, values and attention
 * (docs/maths.md 3.10, "All heads at once"); infinite where it does not apply: rotary
 * positions, query or key norms, sinks, caps, numbers beyond the range.  *worst_head: that
 * with the largest column. */
lipsc_status lipsc_joint_bound(const lipsc_attn *attn, double *value, size_t *worst_head);

/* What that bound has chosen: for whoever needs the same away from the point. */
typedef struct {
    size_t sink;    /* the token whose column of blocks was taken apart; n: none   */
    double column;  /* the norm of that column at the computed numbers, without its query
                     * term                                                            */
    double *weight; /* (n), the caller's: of the keys in Cauchy's inequality, in (0, 1], 0
                     * at the sink                                                     */
} lipsc_joint_choice;

/* The same; *choice is filled where *value is finite. */
lipsc_status lipsc_joint_bound_by(const lipsc_attn *attn, double *value, size_t *worst_head,
                                  lipsc_joint_choice *choice);

/* lipsc_attn_upper, with every inequality at any length where `all` is nonzero.  *used (or
 * NULL): the handle that knew more than attn, to be freed; NULL where attn knew enough. */
lipsc_status lipsc_upper_at(lipsc_attn *attn, int all, lipsc_upper *out, lipsc_attn **used,
                            lipsc_error *err);

#endif
