/* certify.h - the option --certify: its settings, its words on standard error, its fields.
 */
#ifndef LIPSC_CLI_CERTIFY_H
#define LIPSC_CLI_CERTIFY_H

#include <math.h>

#include "args.h"
#include "progress.h"

typedef struct {
    double eps;     /* 0: not asked for */
    double seconds; /* limits           */
    double memory;  /* in GiB           */
} cli_certify;

#define CLI_CERTIFY_DEFAULTS \
    { .seconds = 300, .memory = 2.0, }

/* eps_, seconds_, memory_: the members that they fill. */
#define CLI_CERTIFY_OPTIONS(settings, eps_, seconds_, memory_)                             \
    CLI_OPTION(settings, MAYBE, "certify", "[EPS]", eps_, .wanted = "a positive number",   \
               .min = DBL_MIN, .max = DBL_MAX, .usual = 1e-3,                              \
               .help =                                                                     \
                   "prove an upper bound of at most 1 + EPS times lower (default 1e-3)"),  \
        CLI_OPTION(                                                                        \
            settings, REAL, "certify-seconds", "S", seconds_,                              \
            .wanted = "a positive number", .min = DBL_MIN, .max = DBL_MAX,                 \
            .help = "refuse a certificate that is expected to take longer (default 300)"), \
        CLI_OPTION(settings, REAL, "certify-memory", "G", memory_,                         \
                   .wanted = "a number of GiB", .min = 0, .max = 1e6,                      \
                   .help = "or needs more memory, in GiB (default 2)")

/* One certificate in the making. */
typedef struct {
    const cli_command *self;
    const char *name; /* of the file, for sentences */
    int quiet;
    const char *rung;
    cli_progress progress;      /* of what comes before it as well */
    lipsc_certify_settings set; /* ctx is this struct */
} cli_certifier;

/* What is handed to the library: NULL where no certificate was asked for.  The progress
 * line begins either way. */
const lipsc_certify_settings *cli_certify_begin(cli_certifier *c, const cli_command *self,
                                                const cli_certify *how,
                                                const cli_common *common, const char *name,
                                                uint64_t seed);
/* status and why are those of the certificate.  Says on standard error what did not work.
 */
void cli_certify_end(cli_certifier *c, lipsc_status status, const lipsc_error *why);

#endif
