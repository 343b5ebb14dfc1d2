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

/* The settings hold a cli_certify `certify`. */
#define CLI_CERTIFY_OPTIONS(settings)                                                   \
    {.kind = CLI_MAYBE,                                                                 \
     .name = "certify",                                                                 \
     .value = "[EPS]",                                                                  \
     .min = DBL_MIN,                                                                    \
     .max = DBL_MAX,                                                                    \
     .usual = 1e-3,                                                                     \
     .offset = offsetof(settings, certify.eps),                                         \
     .wanted = "a positive number",                                                     \
     .help = "prove an upper bound of at most 1 + EPS times lower (default 1e-3)"},     \
        {.kind = CLI_REAL,                                                              \
         .name = "certify-seconds",                                                     \
         .value = "S",                                                                  \
         .min = DBL_MIN,                                                                \
         .max = DBL_MAX,                                                                \
         .offset = offsetof(settings, certify.seconds),                                 \
         .wanted = "a positive number",                                                 \
         .help = "refuse a certificate that is expected to take longer (default 300)"}, \
    {                                                                                   \
        .kind = CLI_REAL, .name = "certify-memory", .value = "G", .min = 0, .max = 1e6, \
        .offset = offsetof(settings, certify.memory), .wanted = "a number of GiB",      \
        .help = "or needs more memory, in GiB (default 2)"                              \
    }

/* What was found, as a row tells it. */
typedef struct {
    lipsc_certificate found;
    int refused; /* beyond the limits: may be asked for again */
} cli_certified;

/* One certificate in the making; begin fills it, and `set` is handed to the library. */
typedef struct {
    const cli_command *self;
    const cli_certify *how;
    const char *name; /* of the file or the cell, for sentences */
    int quiet;
    const char *rung;
    cli_progress progress;
    lipsc_certify_settings set; /* ctx is this struct */
} cli_certifier;

/* lower: as the row says it, 0 or NaN: by the direction alone; upper: proved before, or
 * NaN. */
void cli_certify_begin(cli_certifier *c, const cli_command *self, const cli_certify *how,
                       const cli_common *common, const char *name, double lower,
                       double upper, uint64_t seed);
/* status and err are those of the certificate.  Says on standard error what did not work;
 * LIPSC_OK when the row can be made, certified or not. */
lipsc_status cli_certify_end(cli_certifier *c, lipsc_status status, const lipsc_error *err,
                             cli_certified *out);

/* Its fields: certified, certificate, certify_products. */
enum { CLI_CERTIFY_COLUMNS = 3 };
size_t cli_certify_columns(lipsc_column columns[CLI_CERTIFY_COLUMNS]);
void cli_certify_fill(lipsc_table *t, const cli_certified *certified);

#endif
