/* compare_table.h - how much larger sigma is in one run than in another, on standard
 * output. */
#ifndef LIPSC_CLI_COMPARE_TABLE_H
#define LIPSC_CLI_COMPARE_TABLE_H

#include "args.h"

/* first: the run that the others are compared with.  The exit code. */
int compare_print(const cli_command *self, const cli_common *common, const char *first,
                  size_t count, const lipsc_comparison *all);

/* "layer 3, head 2", or "the model". */
void compare_place(const lipsc_change *change, char *room, size_t size);

#endif
