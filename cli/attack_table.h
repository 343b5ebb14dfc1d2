/* attack_table.h - the worst inputs on standard output. */
#ifndef LIPSC_CLI_ATTACK_TABLE_H
#define LIPSC_CLI_ATTACK_TABLE_H

#include "place.h"

/* What is printed of the lengths that are finished: the screen for people, or their rows.
 * from: as the place was named.  The exit code. */
int attack_print(const cli_command *self, const cli_place *set, const char *from,
                 const lipsc_place *place, const lipsc_attacks_settings *asked, int rows,
                 const lipsc_attacks *found);

#endif
