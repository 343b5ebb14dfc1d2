/* around.h - what tokens that move by at most r can do to one head: inside bound/ only.
 *
 *     reach.c        how far queries, keys and values move, and how wrong they are computed
 *     norm_move.c    how far query and key norms bend
 *     around_ends.c  one softmax row: the ends of its weights
 *     around_row.c   its part of the bounds;  around_room.c its memory
 *     around.c       heads, columns, all together
 *     around_below.c the largest radius below a limit */
#ifndef LIPSC_BOUND_AROUND_H
#define LIPSC_BOUND_AROUND_H

#include "bound/head.h"
#include "bound/norm_move.h"

/* Queries (with their scale) or keys of a head, token by token, over the neighbourhood:
 * |y'_i - y_i| <= r slope_i, and the derivative of y in x_i changes by at most r bend_i. */
typedef struct {
    double *error;         /* (n) |computed - exact| at the centre              */
    double *length;        /* (n) |y_i| as computed                             */
    double *slope;         /* (n)                                               */
    double *bend;          /* (n) zero without a norm                           */
    double *balanced;      /* (n) |D y'_i / balance|, for keys times balance    */
    lipsc_norm_move *norm; /* (n) where there is a norm, else NULL              */
    double largest_error, largest_length, largest_slope, largest_bend, largest_balanced;
} lipsc_side;

typedef struct {
    double r;
    lipsc_side query, key;
    double cross;                    /* |A|, or NaN: queries or keys are turned          */
    double value[LIPSC_VIEWS];       /* |V|, |W V|                                       */
    double value_error[LIPSC_VIEWS]; /* of a difference of two z, any                    */
    double whole[2]; /* |Q|, |K| of all heads where they share a norm, else 0            */
    double factor;   /* an error |F g| has beside |Q^T g|, in |Q| |g|    */
    const double *weight; /* (n) of the keys in Cauchy's inequality, at most 1; 0 at the
                           * sink                                                     */
    size_t sink;          /* the key whose column of blocks is taken apart; n: none   */
    lipsc_norm_move *norms;
    double *storage;
} lipsc_reach;

lipsc_status lipsc_reach_new(size_t n, lipsc_reach *reach);
void lipsc_reach_free(lipsc_reach *reach);
/* After lipsc_head_enter for the same head. */
lipsc_status lipsc_reach_make(const lipsc_attn *attn, size_t index,
                              const lipsc_head_at *head, double r, lipsc_reach *reach);

/* Room for one row of one thread, and what it gave. */
typedef struct {
    /* of the visible keys, from lo, and then of a sink in the softmax, where there is one
     */
    double *log_p, *p;    /* (n + 1)                                                   */
    double *query, *move; /* (n + 1) how far scores move: with the query, in all else  */
    double *hi, *eps;     /* (n + 1) P'_ij <= hi, |P'_ij - P_ij| <= eps                */
    double *y, *y_length; /* (n + 1, dv), (n + 1) z_j - o_i                            */
    double *g, *g_length; /* (n + 1, k), (n + 1) k_j - mean key                        */
    double *b, *b_length; /* (n + 1, k), (n + 1) Dq_i^T g_j through the factor of Q    */
    double *b_beside;     /* (n + 1) times one vector, which is not in b: the part of a norm
                           * over all heads; 0 without                                 */
    double *b_bend;       /* (n + 1) |(Dq'_i - Dq_i)^T g_j| <= r b_bend + b_blur       */
    double *b_blur;       /* (n + 1)                                                   */
    /* of the keys alone */
    double *w, *w_length;    /* (n, k), (n) gradients in the raw keys; |w_ij|             */
    double *w_beside;        /* (n) length of what w leaves out, as of b                  */
    double *w_bend, *w_blur; /* (n) as of b, for Dk_j and q_i                          */
    double *slope;           /* (n) of the cap at the score; 1 without one             */
    double *slope_move;      /* (n) how far that moves; 0 without a cap                */
    double *bent;            /* (n, k) keys times their slope; without a cap unused    */
    double *full_b, *full_w; /* (n) |Dq'_i^T k_j|, |Dk'_j^T q_i| without it, at most   */
    double *mean, *pack_a, *pack_b; /* (max), (n + 1, max) each                         */
    double *zero;                   /* (max) zeros: key and value of a sink             */
    double *gram, *half, *room, *sum, *cross; /* (max, max) each                        */
    size_t lo, count, all, top; /* all: count, and one more with a sink               */
    double beside; /* sum_j weight_j w_beside_j^2 |y_j|^2 of the sum made last            */
    /* per view, for every input of the neighbourhood */
    double drift[LIPSC_VIEWS];      /* |sum_j P'_ij y_j|, y_j as it was                  */
    double query_term[LIPSC_VIEWS]; /* |Cov'_i(z, k) Dq'_i|                              */
    double tau[LIPSC_VIEWS];        /* |(B'h)_i|^2 <= tau^2 sum_j hi_ij |h_j|^2          */
    double rho[LIPSC_VIEWS];        /* |row i of B'|                                     */
    /* and what changes: |Cov' Dq' - Cov Dq|, and
     * |((B'-B)h)_i| <= tau_eps (sum_j eps_ij |h_j|^2)^{1/2}
     *                + tau_move (sum_j hi_ij |h_j|^2)^{1/2}                             */
    double query_change, tau_eps, tau_move;
    /* |(B'h)_i|^2 <= tau_weighted^2 sum_j hi_ij |h_j|^2 / weight_j, after O where there is
     * one                                                                               */
    double tau_weighted;
    /* block (i, sink), without the query term, moves by at most change |T g| + shift |w.g|
     * + turn |g| in a direction g, in the same view: sink_move.h                        */
    double sink_change, sink_shift, sink_turn;
} lipsc_around_row;

lipsc_status lipsc_around_row_new(const lipsc_head_at *head, lipsc_around_row *row);
void lipsc_around_row_free(lipsc_around_row *row);
/* p, y and their like of row i. */
void lipsc_around_attend(const lipsc_head_at *head, size_t i, lipsc_around_row *row);
/* And everything else down to w, hi and eps. */
lipsc_status lipsc_around_ends(const lipsc_head_at *head, const lipsc_reach *reach,
                               size_t i, lipsc_around_row *row);
/* Only row->p, and in *size about how much this row can do. */
void lipsc_around_row_weigh(const lipsc_head_at *head, const lipsc_reach *reach, size_t i,
                            lipsc_around_row *row, double *size);
lipsc_status lipsc_around_row_make(const lipsc_head_at *head, const lipsc_reach *reach,
                                   size_t i, lipsc_around_row *row);

#endif
