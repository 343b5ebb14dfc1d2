/* layer_table.h - the row of one layer as `layer` prints it. */
#ifndef LIPSC_CLI_LAYER_TABLE_H
#define LIPSC_CLI_LAYER_TABLE_H

#include "args.h"

/* parts: LIPSC_ROW_ bits of what was asked for besides.  An exit code. */
int layer_table_print(const cli_command *self, lipsc_format format, unsigned parts,
                      const lipsc_row *row);

#endif
