/* bounds_table.h - bounds on standard output. */
#ifndef LIPSC_CLI_BOUNDS_TABLE_H
#define LIPSC_CLI_BOUNDS_TABLE_H

#include "place.h"

/* For people grouped by what they hold for, or as rows.  what: the layer in words.  The
 * exit code. */
int bounds_print(const cli_command *self, const cli_place *set, const char *what, int rows,
                 const lipsc_bounds *bounds);

#endif
