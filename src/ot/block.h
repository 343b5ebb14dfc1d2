/* block.h - one transport problem, solved by the method that suits it. */
#ifndef LIPSC_OT_BLOCK_H
#define LIPSC_OT_BLOCK_H

#include "lipscope.h"

/* Points times scale have a bounding box of diameter at most 1; cost, gap, f and g are in
 * those units.  Weights have sum 1 up to rounding. */
typedef struct {
    size_t n, m, d;
    double p, scale;
    double epsilon; /* > 0: Sinkhorn, in the same units */
    int check;
    const double *x, *y; /* (n, d), (m, d) */
    const double *a, *b; /* (n), (m)       */
    double *f, *g;       /* (n), (m): filled */
    /* filled as well; moves are owned by the caller (lipsc_release), NULL for Sinkhorn */
    lipsc_move *moves;
    size_t count;
    double cost, gap, imbalance;
    const char *method;
    long pivots;
} lipsc_ot_block;

/* LIPSC_E_NOCONV of Sinkhorn: everything is filled with what was reached. */
lipsc_status lipsc_ot_block_solve(lipsc_ot_block *block);

/* Over equal times (conditional.c).  Sums over the times, moves in the whole measures'
 * indices.  a and b are the whole measures, with weights (never NULL) in whole->a, ->b. */
lipsc_status lipsc_ot_conditional(const lipsc_measure *a, const lipsc_measure *b,
                                  lipsc_ot_block *whole, lipsc_error *err);

#endif
