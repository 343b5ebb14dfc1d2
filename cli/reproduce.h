/* reproduce.h - the parts of `lipscope reproduce`.
 *
 *     cmd_reproduce.c      options, the folder, the claims
 *     reproduce_print.c    tables in the folder, the closing table */
#ifndef LIPSC_CLI_REPRODUCE_H
#define LIPSC_CLI_REPRODUCE_H

#include "args.h"

typedef struct {
    cli_common common;
    const char *out, *run, *bert, *gpt2, *spoil;
    cli_texts texts;
    int quick, only; /* only: 0 all parts, else lipsc_claim_part + 1 of the one */
    uint64_t seed;
} reproduce_settings;

/* Files in the folder, the closing table on standard output.  CLI_DONE, or CLI_FAILED when
 * a theorem or a regression does not hold. */
int reproduce_print(const cli_command *self, const reproduce_settings *set,
                    const lipsc_claims *claims);

#endif
