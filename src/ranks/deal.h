/* deal.h - a work of independent pieces, each of which one of the ranks computes.
 *
 * All ranks call lipsc_ranks_deal with the same pieces.  Rank 0 hands them out one at a
 * time, computes like the others, and takes what comes of each; it alone decides which are
 * open.  Who is alone computes them in their order. */
#ifndef LIPSC_RANKS_DEAL_H
#define LIPSC_RANKS_DEAL_H

#include "ranks/ranks.h"

/* What came of a piece; at is NULL for nothing, and released by whoever deals. */
typedef struct {
    size_t bytes;
    void *at;
} lipsc_yield;

typedef struct {
    size_t count;
    const double *cost; /* (count): large ones go first; NULL: in their order */
    /* of rank 0; whether it is still to be computed.  NULL: all are */
    int (*open)(void *ctx, size_t piece);
    /* of any rank; there may be something to take also where it was stopped or failed */
    lipsc_status (*compute)(void *ctx, size_t piece, lipsc_yield *out, lipsc_error *err);
    /* of rank 0: one at a time, in the order in which they come */
    lipsc_status (*take)(void *ctx, size_t piece, const lipsc_yield *from,
                         lipsc_error *err);
    int (*stop)(void *ctx); /* of any rank; nonzero ends it with LIPSC_E_STOPPED */
    void *ctx;
} lipsc_deal;

/* The same status on all ranks; err is rank 0's, and names the rank that failed. */
lipsc_status lipsc_ranks_deal(lipsc_ranks *ranks, const lipsc_deal *deal, lipsc_error *err);

/* For compute, from any thread: whether the whole is over already, because a piece has
 * failed elsewhere. */
int lipsc_deal_over(lipsc_ranks *ranks);

/* Before anything is dealt: status is what came of reading here, and said what was read and
 * asked for, `name: value` in each line, in less than LIPSC_RANKS_SAID bytes.  All ranks go
 * on, or none; err is rank 0's, and names what another rank has otherwise. */
enum { LIPSC_RANKS_SAID = 384 };
lipsc_status lipsc_ranks_meet(lipsc_ranks *ranks, lipsc_status status, const char *said,
                              lipsc_error *err);

#endif
