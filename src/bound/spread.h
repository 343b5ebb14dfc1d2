/* spread.h - how attention is spread at an input: its entropy and its sink. */
#ifndef LIPSC_BOUND_SPREAD_H
#define LIPSC_BOUND_SPREAD_H

#include "lipscope.h"

typedef struct {
    double entropy;    /* mean over heads and tokens of -sum_j P_ij ln P_ij, nats      */
    double sink;       /* max over heads and tokens j of sum_i P_ij: from 1 up to n;
                        * sqrt(sink) is a factor of the bound by columns               */
    size_t sink_token; /* that j                                                       */
    size_t sink_head;
} lipsc_spread;

/* In double, with the layer and the input as given.  O(n^2 key_dim) for each head. */
lipsc_status lipsc_attn_spread(const lipsc_attn *attn, lipsc_spread *out);

#endif
