/* plan.h - how much work a search is, known before it begins. */
#ifndef LIPSC_ATTACK_PLAN_H
#define LIPSC_ATTACK_PLAN_H

#include "lipscope/attack.h"
#include "lipscope/ranks.h"

/* So small that all singular pairs are found at once. */
int lipsc_attack_dense(const lipsc_layer *layer, size_t n);

/* lipsc_attack_run by ranks that share the climbs: all call it, and each has what one
 * process finds, to the last bit.  ranks NULL: alone. */
lipsc_status lipsc_attack_run_shared(const lipsc_layer *layer,
                                     const lipsc_attack_settings *set, lipsc_ranks *ranks,
                                     lipsc_attack_result *out, lipsc_error *err);

/* Of all climbs at most; where scores are large some more follow them. */
size_t lipsc_attack_iterations(const lipsc_layer *layer, const lipsc_attack_settings *set);

#endif
