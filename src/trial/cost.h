/* cost.h - what a pair of products of several ranks takes, by what each of them takes alone
 * and what they tell each other (docs/scaling.md). */
#ifndef LIPSC_TRIAL_COST_H
#define LIPSC_TRIAL_COST_H

#include "attn/attn.h"
#include "lipscope/trial.h"

/* Seconds. */
typedef struct {
    double token;   /* of a rank, in a pair of products of one direction                  */
    double meeting; /* of a token with a token; under a causal mask half of them are none */
    lipsc_link link;
} lipsc_rank_cost;

/* Of the ranks that share s->device, for its mask and precision: all at once, each alone
 * with its threads at two lengths.  They all call it. */
lipsc_status lipsc_rank_cost_find(const lipsc_bench_settings *s, lipsc_rank_cost *out,
                                  lipsc_error *err);
/* Of all directions of s->block and s->batch. */
double lipsc_rank_cost_predict(const lipsc_bench_settings *s, const lipsc_rank_cost *cost);

/* All ranks begin together, when threads of a process that was timed alone rest: they spin
 * for some milliseconds after their work, on cores of ranks that slept meanwhile. */
void lipsc_ranks_begin_together(const lipsc_bench_settings *s);
/* All ranks stop, or none. */
int lipsc_bench_stops(const lipsc_bench_settings *s);

#endif
