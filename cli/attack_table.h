/* attack_table.h - the worst inputs for people. */
#ifndef LIPSC_CLI_ATTACK_TABLE_H
#define LIPSC_CLI_ATTACK_TABLE_H

#include "place.h"

/* from: as the place was named; longest: of the lengths.  LIPSC_E_NOMEM. */
lipsc_status attack_table(const lipsc_attacks *found, const cli_place *set,
                          const char *from, const lipsc_place *place, size_t longest,
                          int masses);

#endif
