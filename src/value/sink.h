/* sink.h - what one token does to a Jacobian: alone, and when it is held fixed. */
#ifndef LIPSC_VALUE_SINK_H
#define LIPSC_VALUE_SINK_H

#include "linalg/space.h"

typedef struct {
    double alone; /* |J_:t|: only token t moves       */
    double rest;  /* |J without J_:t|: all others do  */
} lipsc_sink_share;

/* op: sequences of n tokens in and out, as in influence.h.  Both are found by a solve in
 * the precision of op, to a residual of 1e-3: reached, and so not above the true norms but
 * for that precision.  sigma^2 <= alone^2 + rest^2.  stop as in influence.h. */
lipsc_status lipsc_sink_share_find(const lipsc_linop *op, size_t tokens, size_t token,
                                   uint64_t seed, int (*stop)(void *ctx), void *ctx,
                                   lipsc_sink_share *out);

#endif
