/* exact.h - the solvers that give an optimal plan with its dual potentials. */
#ifndef LIPSC_OT_EXACT_H
#define LIPSC_OT_EXACT_H

#include "ot/cost.h"

/* A plan as a list of moves, with potentials f (n), g (m) of the caller. */
typedef struct {
    double *f, *g;
    lipsc_move *moves; /* positive masses; owned, lipsc_release             */
    size_t count;
    long pivots;
} lipsc_ot_plan;

/* Weights a (n) and b (m) are positive with sum 1 up to rounding.  Costs lie in [0, 1]. */
lipsc_status lipsc_ot_exact(const lipsc_ot_cost *cost, const double *a, const double *b,
                            lipsc_ot_plan *plan);

/* The same on a line (d = 1): points in order, mass against mass. */
lipsc_status lipsc_ot_line(const lipsc_ot_cost *cost, const double *a, const double *b,
                           lipsc_ot_plan *plan);

/* f_i = min_j c_ij - g_j: with it f_i + g_j <= c_ij for all pairs. */
void lipsc_ot_transform(const lipsc_ot_cost *cost, const double *g, double *f);

#endif
