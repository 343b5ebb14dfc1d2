/* perturb_table.h - what changes of finite size do, for people: a table and a chart. */
#ifndef LIPSC_CLI_PERTURB_TABLE_H
#define LIPSC_CLI_PERTURB_TABLE_H

#include "lipscope/perturb.h"
#include "lipscope/tokens.h"

/* noise: the size that is shown; tokenizer: NULL where tokens are numbers.  LIPSC_E_NOMEM.
 */
lipsc_status perturb_table(const lipsc_perturbation_rows *rows, double noise,
                           const lipsc_tokenizer *tokenizer);

#endif
