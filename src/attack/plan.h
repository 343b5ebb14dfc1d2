/* plan.h - how much work a search is, known before it begins. */
#ifndef LIPSC_ATTACK_PLAN_H
#define LIPSC_ATTACK_PLAN_H

#include "lipscope/attack.h"

/* So small that all singular pairs are found at once. */
int lipsc_attack_dense(const lipsc_layer *layer, size_t n);

/* Of all climbs at most; where scores are large some more follow them. */
size_t lipsc_attack_iterations(const lipsc_layer *layer, const lipsc_attack_settings *set);

#endif
