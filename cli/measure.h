/* measure.h - the parts of `lipscope measure`, which asks for a study and prints it.
 *
 *     cmd_measure.c     options, and the order of things
 *     measure_ask.c     the study that they ask for
 *     measure_medians.c layer by length, while the rows go by
 *     measure_table.c   for people: these medians
 *     measure_print.c   rows and fits; what is said of them */
#ifndef LIPSC_CLI_MEASURE_H
#define LIPSC_CLI_MEASURE_H

#include "args.h"
#include "certify.h"
#include "lipscope/study.h"
#include "numbers.h"
#include "source.h"

enum { MEASURE_MASK_MODEL, MEASURE_MASK_NONE, MEASURE_MASK_CAUSAL };

enum { DTYPE_DEFAULT, DTYPE_F32, DTYPE_F64 };

typedef struct {
    lipsc_study_settings study; /* first, for its option tables                     */
    cli_common common;
    struct {
        const char *windows, *layers, *heads; /* NULL: default               */
        const char *shard;                    /* "I/K": the I-th of K parts  */
    } typed;
    int mask, dtype; /* MEASURE_MASK_..., DTYPE_...                                  */
    cli_sizes lengths, windows, layers, heads; /* what study's lists point to        */
    double max_sigma;
    int timing, rows;
    const char *label;
} measure_settings;

/* measure_ask.c */
void measure_defaults(measure_settings *set);
/* What the options do not write into the study themselves.  CLI_RUN, or the exit code after
 * a sentence; measure_settings_free either way. */
int measure_ask(const cli_command *self, measure_settings *set);
void measure_settings_free(measure_settings *set);

/* What was seen while the rows went by. */
typedef struct {
    size_t above, loose, open; /* beyond --max-sigma, not converged, not certified */
    size_t worst;              /* cell of the largest sigma above                  */
    double worst_sigma;
} measure_tally;

/* measure_print.c */
/* The finished rows, with these parts, and the laws fitted to them; *tally begins with 0.
 * CLI_DONE or the exit code. */
int measure_print(const cli_command *self, const measure_settings *set, unsigned parts,
                  lipsc_study *study, measure_tally *tally);
/* Whether a limit is exceeded or something did not converge: the exit code. */
int measure_verdict(const cli_command *self, const measure_settings *set, const char *model,
                    const lipsc_study *study, const measure_tally *tally);
size_t measure_finished(const lipsc_study *study);

/* For --timing; before: cells that were finished before. */
void measure_say_times(const cli_command *self, const lipsc_study *study, size_t before,
                       const lipsc_device *device);

#endif
