/* sink_move.h - what the column of blocks of a sink moves by: inside bound/ only. */
#ifndef LIPSC_BOUND_SINK_MOVE_H
#define LIPSC_BOUND_SINK_MOVE_H

#include "bound/around.h"

/* For every head and row i, with g the direction that the sink's token is moved in,
 *     |F_h (P' T' - P T)_is g| <= change_i |F_h T_is g| + shift_i |w_i . g| + turn_i |g|.
 */
typedef struct {
    size_t n, d, k, rank, heads; /* heads 0: no sink, or nobody who asks            */
    size_t sink;
    double unit; /* numbers here are `unit` times those of the layer */
    /* of the head that is passed over, sqrt(a_i/a_s) inside, in its units */
    double *change, *shift, *turn; /* (n)                                            */
    double *y;                     /* (n, dv) z_s - o_i                              */
    /* of every head */
    double *stack;   /* (d, rank + k) column-major: (F V)^T and K^T            */
    double *between; /* (rank + k)^2: sum_i change_i^2 T^T T = stack between stack^T */
    double *shifts;  /* (k, k) sum_i shift_i^2 q_i q_i^T                       */
    double *turns;   /* sum_i turn_i^2                                         */
    double *slack;   /* (2 heads) of both products: rounding                   */
    double *pack_a, *pack_b; /* (n, max(rank, k)) each                              */
    double *storage;
} lipsc_sink;

/* sink n: none. */
lipsc_status lipsc_sink_new(const lipsc_layer *layer, size_t n, size_t sink,
                            lipsc_sink *out);
void lipsc_sink_free(lipsc_sink *sink);

/* Row i of the head that is passed over. */
void lipsc_sink_row(const lipsc_head_at *head, const lipsc_around_row *row, size_t i,
                    lipsc_sink *sink);
/* All rows of head h are there. */
void lipsc_sink_keep(const lipsc_layer *layer, const lipsc_head_at *head, size_t h,
                     lipsc_sink *sink);

/* *value >= ( sum_hi |F_h (P' T' - P T)_is g|^2 / c_h )^{1/2} for every g of length 1, in
 * sink->unit; c NULL: all ones. */
lipsc_status lipsc_sink_bound(const lipsc_sink *sink, const double *c, double *value);

#endif
