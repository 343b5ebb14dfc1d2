/* progress.h - one line on standard error that says how far the work is. */
#ifndef LIPSC_CLI_PROGRESS_H
#define LIPSC_CLI_PROGRESS_H

#include "args.h"

typedef struct {
    int shown;    /* whether there is a line at all */
    int line_out; /* something stands on the line   */
    double last;  /* seconds of the last drawing    */
    double begin; /* of the work                    */
    int quiet, estimated;
    const cli_command *self; /* of work in parts */
    const char *things;
    double tol;             /* residual that a solve stops at; 0: not known */
    double solving, before; /* since when, and the residual then            */
} cli_progress;

double cli_seconds(void); /* of a clock that never goes back */

/* Shown on a terminal, or when asked for; never with --quiet. */
void cli_progress_begin(cli_progress *p, const cli_common *common);

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void cli_progress_say(cli_progress *p, const char *format, ...);

/* What long work will take, in a line that stays; then no other estimate is said. */
void cli_progress_plan(cli_progress *p, const cli_command *self, double seconds);

/* The same for work in parts, called `things`.  cli_progress_part then fits
 * lipsc_perturb_settings.progress and lipsc_bounds_settings.steps: "12 of 54 changes  40 s
 * left"; of work that takes long an estimate is said once, in a line that stays.  ctx is
 * the cli_progress. */
void cli_progress_begin_parts(cli_progress *p, const cli_command *self,
                              const cli_common *common, const char *things);
void cli_progress_part(void *ctx, size_t done, size_t total);

/* Fits lipsc_svd_settings.progress; ctx is the cli_progress.  With a tol the residual's
 * fall so far says what is left. */
void cli_progress_solve(void *ctx, long products, double sigma, double residual);

void cli_progress_end(cli_progress *p); /* clears the line */

#endif
