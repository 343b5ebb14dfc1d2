/* influence.h - which token, and which pair of tokens, a Jacobian depends on most. */
#ifndef LIPSC_VALUE_INFLUENCE_H
#define LIPSC_VALUE_INFLUENCE_H

#include "linalg/space.h"

/* J is made of blocks J_ij: the output at token i by the input at token j.  Norms are
 * spectral: how far a change of one token alone is stretched, at all tokens or at one. */
typedef struct {
    size_t token; /* j of the largest |J_:j|                        */
    double token_norm;
    size_t pair_to, pair_from; /* i and j of the largest |J_ij|                  */
    double pair_norm;
} lipsc_influence;

/* op: sequences of n tokens in, sequences of n tokens out; m and n multiples of tokens.
 * stop (may be NULL) is asked before every product; nonzero ends with LIPSC_E_STOPPED.
 * Candidates are found by random probes, seeded, the norms of the winners by a solve: each
 * norm is a lower bound, and a token that is nearly as strong may be missed.
 * strengths (tokens), NULL where they are not wanted: |J_:j|_F of every token, estimates
 * whose relative error is about 1/8 where a column has rank 1, less where it has more. */
lipsc_status lipsc_influence_find(const lipsc_linop *op, size_t tokens, uint64_t seed,
                                  int (*stop)(void *ctx), void *ctx, double *strengths,
                                  lipsc_influence *out);

/* The token alone: without the pairs, which cost most, and its norm to about 1e-4. */
lipsc_status lipsc_influence_token(const lipsc_linop *op, size_t tokens, uint64_t seed,
                                   lipsc_influence *out);

#endif
