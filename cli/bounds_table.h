/* bounds_table.h - bounds on standard output. */
#ifndef LIPSC_CLI_BOUNDS_TABLE_H
#define LIPSC_CLI_BOUNDS_TABLE_H

#include "place.h"

/* For people grouped by what they hold for, or as rows, which of several layers begin with
 * theirs.  from: as the place was named.  The exit code. */
int bounds_print(const cli_command *self, const cli_place *set, const char *from,
                 const lipsc_place *place, int rows, const lipsc_layers_bounds *all);

#endif
