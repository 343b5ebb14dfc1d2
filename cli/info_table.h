/* info_table.h - what `info` prints: for people numbers in words, for programs records. */
#ifndef LIPSC_CLI_INFO_TABLE_H
#define LIPSC_CLI_INFO_TABLE_H

#include "args.h"

/* Exit codes. */
int info_model_print(const cli_command *self, lipsc_format format,
                     const lipsc_about *about);
int info_tensors_print(const cli_command *self, lipsc_format format,
                       const lipsc_stored_rows *rows);

#endif
