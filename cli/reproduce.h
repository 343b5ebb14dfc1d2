/* reproduce.h - the parts of `lipscope reproduce`.
 *
 *     cmd_reproduce.c      options, the claims
 *     reproduce_print.c    the folder with tables and page, the closing table */
#ifndef LIPSC_CLI_REPRODUCE_H
#define LIPSC_CLI_REPRODUCE_H

#include "args.h"

typedef struct {
    cli_common common;
    lipsc_claims_settings set;
    cli_texts texts;
    const char *out; /* the folder */
} reproduce_settings;

/* The folder, made where it is missing; its parent must be there.  CLI_RUN, or CLI_FAILED
 * after a sentence. */
int reproduce_folder(const cli_command *self, const char *path);

/* Files in the folder, the closing table on standard output.  CLI_DONE, or CLI_FAILED when
 * a theorem or a regression does not hold. */
int reproduce_print(const cli_command *self, const reproduce_settings *asked,
                    const lipsc_claims *claims);

#endif
