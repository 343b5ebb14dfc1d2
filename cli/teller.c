/* teller.c - what commands say while a study runs: how far it is, and remarks. */
#include "teller.h"

#include <limits.h>
#include <stdio.h>

#include "interrupt.h"
#include "ranks.h"
#include "screen.h"

/* Shorter studies begin without a word. */
static const double long_study = 30.0; /* seconds */

static void show(void *ctx, const lipsc_study_progress *p) {
    cli_teller *t = ctx;
    char left[CLI_NUMBER];
    cli_progress_say(&t->progress, "%zu of %zu cells  %.3g cells/s  %s left", p->done,
                     p->total, p->cells_per_second, cli_duration(p->seconds_left, left));
}

static void show_certificate(void *ctx, const char *rung, double done,
                             double seconds_left) {
    cli_teller *t = ctx;
    if (done >= 1.0)
        cli_progress_end(&t->progress);
    else
        cli_progress_say(&t->progress, "certificate (%s)  %.0f %%  %.0f s left", rung,
                         100.0 * done, seconds_left);
}

/* Of a cell that takes long: short ones are counted. */
static void show_solve(void *ctx, long products, double sigma, double residual,
                       double tol) {
    const double soon = 0.5; /* seconds */
    cli_teller *t = ctx;
    if (products < t->products) { /* another one */
        t->solving = cli_seconds();
        t->progress.before = 0.0;
    }
    t->products = products;
    t->progress.tol = tol;
    if (cli_seconds() - t->solving > soon)
        cli_progress_solve(&t->progress, products, sigma, residual);
}

static void say(void *ctx, const char *sentence) {
    cli_teller *t = ctx;
    cli_progress_end(&t->progress);
    if (!t->common->quiet) cli_note(t->self, "%s", sentence);
}

void cli_teller_begin(cli_teller *t, const cli_command *self, const cli_common *common,
                      lipsc_study_settings *set) {
    *t = (cli_teller){.self = self, .common = common, .products = LONG_MAX};
    cli_progress_begin(&t->progress, common);
    set->stop = cli_interrupted;
    set->progress = show;
    set->remark = say;
    set->certificate = show_certificate;
    set->solve = show_solve;
    set->ctx = t;
}

void cli_teller_plan(const cli_teller *t, lipsc_study *study, lipsc_device *device) {
    char text[CLI_NUMBER];
    if (t->common->quiet) return;
    const lipsc_study_cost needs = lipsc_study_needs(study);
    if (!(needs.seconds > long_study && needs.seconds < 1e12)) return;
    const size_t ranks = lipsc_ranks_count(cli_ranks());
    char several[32] = "";
    if (ranks > 1) snprintf(several, sizeof several, "%zu ranks of ", ranks);
    cli_note(t->self, "%zu cells, about %s on %s%d threads and %.1f GB", needs.cells,
             cli_duration(needs.seconds, text), several, lipsc_device_threads(device),
             needs.bytes / 1e9);
}

/* ---- Claims ------------------------------------------------------------------------- */

static void say_plan(void *ctx, double seconds) {
    cli_teller *t = ctx;
    cli_progress_plan(&t->progress, t->self, seconds);
}

static void say_part(void *ctx, const char *title) {
    const cli_teller *t = ctx;
    if (!t->common->quiet) fprintf(stderr, "%s\n", title);
}

static void say_doing(void *ctx, const char *what) {
    cli_teller *t = ctx;
    if (what)
        cli_progress_say(&t->progress, "%s", what);
    else
        cli_progress_end(&t->progress);
}

static void say_sweep(void *ctx, lipsc_study *study) {
    const cli_teller *t = ctx;
    cli_teller_plan(t, study, t->common->device);
}

void cli_teller_claims(cli_teller *t, const cli_command *self, const cli_common *common,
                       lipsc_claims_settings *set) {
    lipsc_study_settings told = {.model = NULL};
    cli_teller_begin(t, self, common, &told);
    set->stop = told.stop;
    set->progress = told.progress;
    set->remark = told.remark;
    set->plan = say_plan;
    set->part = say_part;
    set->doing = say_doing;
    set->sweep = say_sweep;
    set->ctx = t;
}

void cli_teller_end(cli_teller *t) { cli_progress_end(&t->progress); }
