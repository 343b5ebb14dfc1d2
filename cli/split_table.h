/* split_table.h - moving, splitting and teleporting constants, on standard output. */
#ifndef LIPSC_CLI_SPLIT_TABLE_H
#define LIPSC_CLI_SPLIT_TABLE_H

#include "layer_source.h"

/* The exit code. */
int split_print(const cli_command *self, const cli_common *common, const layer_source *from,
                double step, const lipsc_slopes *found);

#endif
