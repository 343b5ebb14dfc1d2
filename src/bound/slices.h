/* slices.h - heads together behind their slices of O: inside bound/ only. */
#ifndef LIPSC_BOUND_SLICES_H
#define LIPSC_BOUND_SLICES_H

#include "bound/head.h"
#include "bound/sink_move.h"

/* With O_h = U_h F_h, U_h^T U_h = I: for every head what F_h J_h can do, in one common
 * unit, and the bases U_h. */
typedef struct {
    size_t n, heads, rank, out_dim;
    double *column[2]; /* (heads, n) |(F_h B_h x)|^2 <= sum_j column_j |x_j|^2, by
                        * two inequalities                                         */
    double *query;     /* (heads, n) |F_h (query path of token i)|                  */
    double *bases;     /* (out_dim, heads rank) column-major: U_1, ..., U_H         */
    double unit;       /* numbers here are `unit` times those of the layer          */
    double *storage;
} lipsc_slices;

/* A layer without O, or with one too wide for a Gram matrix, has no slices: out->heads 0.
 */
lipsc_status lipsc_slices_new(const lipsc_layer *layer, size_t n, lipsc_slices *out);
void lipsc_slices_free(lipsc_slices *slices);

/* Both columns (n) and query (n) of the view after O, in the units of the head. */
lipsc_status lipsc_slices_keep(const lipsc_layer *layer, const lipsc_head_at *head,
                               size_t h, const double *const column[2], const double *query,
                               lipsc_slices *slices);

/* *value >= |sum_h U_h F_h J_h|, rounding included.  With a sink column[1] is zero there,
 * and sink_column bounds the norm of its column of blocks at the point, without query term.
 */
lipsc_status lipsc_slices_bound(const lipsc_slices *slices, const lipsc_sink *sink,
                                double sink_column, double *value);

#endif
