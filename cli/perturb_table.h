/* perturb_table.h - what changes of finite size do, on standard output. */
#ifndef LIPSC_CLI_PERTURB_TABLE_H
#define LIPSC_CLI_PERTURB_TABLE_H

#include "place.h"

/* The screen for people, or rows.  noise: the size that is shown, 0: the smallest;
 * tokenizer: NULL where tokens are numbers.  The exit code. */
int perturb_print(const cli_command *self, const cli_common *common, int rows, double noise,
                  const lipsc_perturbation_rows *found, const lipsc_tokenizer *tokenizer);

#endif
