/* solver.h - the solvers behind lipsc_svd, on vectors of any back end. */
#ifndef LIPSC_SVD_SOLVER_H
#define LIPSC_SVD_SOLVER_H

#include "linalg/space.h"
#include "lipscope.h"

/* A callback on host doubles as an operator on the f64 space of the host; op outlives it.
 */
lipsc_linop lipsc_svd_callback(const lipsc_op *op);

/* set: checked, no zero left that means "default" except count, basis and block.
 * u, v: room for set->count vectors of op->m and op->n, or LIPSC_NOWHERE.
 * sigma and info as lipsc_svd says. */
lipsc_status lipsc_svd_linop(const lipsc_linop *op, const lipsc_svd_settings *set,
                             double *sigma, lipsc_buffer u, lipsc_buffer v,
                             lipsc_svd_info *info);

/* The same, begun near `start`: one unit vector of op->n, such as the answer for an
 * operator close by; LIPSC_NOWHERE: random.  A little noise keeps other directions in
 * reach, but the start is not random any more and info->upper_prob is NaN. */
lipsc_status lipsc_svd_linop_from(const lipsc_linop *op, const lipsc_svd_settings *set,
                                  lipsc_buffer start, double *sigma, lipsc_buffer u,
                                  lipsc_buffer v, lipsc_svd_info *info);

/* One of several solves, as above. */
typedef struct {
    const lipsc_linop *op;
    lipsc_buffer start; /* or LIPSC_NOWHERE */
    double *sigma;
    lipsc_buffer u, v;    /* or LIPSC_NOWHERE */
    uint64_t seed;        /* added to that of the settings */
    lipsc_svd_info *info; /* or NULL; seconds: its share of the products and its own work */
    lipsc_status status;  /* what the solve came to */
} lipsc_svd_task;

/* Solves with the same settings side by side, Lanczos in lockstep: each is what it would be
 * alone.  products makes those of any of the operators together; it may be NULL for one
 * operator.  threads: how many solves go on at once between products. */
void lipsc_svd_batch(size_t count, lipsc_svd_task *task, const lipsc_svd_settings *set,
                     lipsc_products *products, int threads);

#endif
