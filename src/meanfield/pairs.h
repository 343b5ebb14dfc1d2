/* pairs.h - which pairs of measures on a ball attention drives apart most, as far as a
 * search finds them.
 *
 * Measures on a ball form a geodesic space, so no pair has a ratio W_2(F mu, F nu) /
 * W_2(mu, nu) above the largest local constant: the search goes over one measure of few
 * atoms, and the pair is that measure and its perturbation. */
#ifndef LIPSC_MEANFIELD_PAIRS_H
#define LIPSC_MEANFIELD_PAIRS_H

#include "lipscope.h"

typedef struct {
    double radius;
    size_t atoms;       /* of the measures tried without a mask; at least 2.  Default 3 */
    size_t evaluations; /* for each start.  Default 0: 300, or 60 where d > 16 and steps at
                         * random gain little                                         */
    double step;        /* of the perturbation.  Default 1e-4                        */
    int threads;
    uint64_t seed;
    int (*stop)(void *ctx);
    void *ctx;
} lipsc_pairs_settings;

typedef struct {
    double construction;     /* split of the known worst case: 5.3, with a mask 5.4       */
    double promised;         /* by its formula, of one head alone                        */
    double best;             /* the largest split found: a lower bound over the ball     */
    double measured;         /* ratio of the pair: mu and its perturbation               */
    double a;                /* (|A| R + |c|) R, of the head where it is largest         */
    double upper, log_upper; /* 3.6, with a mask 3.9: no pair on the ball exceeds it  */
    lipsc_cloud measure;     /* reaches best                                         */
    long evaluations;
} lipsc_pairs;

void lipsc_pairs_defaults(lipsc_pairs_settings *set);

/* layer: without a mask, or causal, which means the masked mean field.  Free with
 * lipsc_pairs_free. */
lipsc_status lipsc_pairs_find(const lipsc_layer *layer, const lipsc_pairs_settings *set,
                              lipsc_pairs *out, lipsc_error *err);
void lipsc_pairs_free(lipsc_pairs *pairs);

#endif
