/* progress.c - one line on standard error that says how far the work is. */
#define _POSIX_C_SOURCE 200809L
#include "progress.h"

#include <math.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "ranks.h"
#include "screen.h"

enum { AUTO = 0, ALWAYS = 1 };

double cli_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void cli_progress_begin(cli_progress *p, const cli_common *common) {
    *p = (cli_progress){.last = -1.0, .begin = cli_seconds(), .quiet = common->quiet};
    p->shown =
        cli_ranks_leads() && !common->quiet &&
        (common->progress == ALWAYS || (common->progress == AUTO && isatty(STDERR_FILENO)));
}

void cli_progress_say(cli_progress *p, const char *format, ...) {
    const double now = cli_seconds();
    if (!p->shown || (p->line_out && now - p->last < 0.1)) return; /* ten a second */
    va_list args;
    va_start(args, format);
    fputc('\r', stderr);
    vfprintf(stderr, format, args);
    fputs("\033[K", stderr); /* erase what an older, longer line left */
    fflush(stderr);
    va_end(args);
    p->line_out = 1;
    p->last = now;
}

static const double long_work = 30.0; /* seconds */

void cli_progress_plan(cli_progress *p, const cli_command *self, double seconds) {
    char text[CLI_NUMBER];
    if (p->quiet || !(seconds > long_work && seconds < 1e12) || !cli_ranks_leads()) return;
    p->estimated = 1;
    cli_note(self, "about %s", cli_duration(seconds, text));
}

void cli_progress_begin_parts(cli_progress *p, const cli_command *self,
                              const cli_common *common, const char *things) {
    cli_progress_begin(p, common);
    p->self = self;
    p->things = things;
}

void cli_progress_part(void *ctx, size_t done, size_t total) {
    cli_progress *p = ctx;
    const double trial = 2.0, patience = 60.0; /* seconds */
    if (!done) p->begin = cli_seconds();       /* what came before told its own time */
    const double spent = cli_seconds() - p->begin;
    char text[CLI_NUMBER];
    if (!done || done > total) return;
    const double left = spent * (double)(total - done) / (double)done;
    /* the first part may have done what the next ones share */
    if (!p->estimated && spent > trial && (8 * done >= total || spent > patience)) {
        p->estimated = 1;
        cli_progress_end(p);
        if (!p->quiet && spent + left > long_work)
            cli_note(p->self, "%zu %s, about %s in all", total, p->things,
                     cli_duration(spent + left, text));
    }
    cli_progress_say(p, "%zu of %zu %s  %s left", done, total, p->things,
                     cli_duration(left, text));
}

/* Residuals fall by a factor in equal times, on the whole; NaN: nothing can be said. */
static double solve_left(cli_progress *p, double residual) {
    const double now = cli_seconds();
    if (!(p->tol > 0.0 && residual > 0.0)) return NAN;
    if (!(p->before > 0.0)) {
        p->solving = now;
        p->before = residual;
    }
    if (residual <= p->tol) return 0.0;
    return residual < p->before
               ? (now - p->solving) * log(residual / p->tol) / log(p->before / residual)
               : NAN;
}

void cli_progress_solve(void *ctx, long products, double sigma, double residual) {
    char text[CLI_NUMBER];
    const double left = solve_left(ctx, residual);
    if (isnan(residual))
        cli_progress_say(ctx, "%ld products", products);
    else
        cli_progress_say(ctx, "%ld products  sigma %.6g  residual %.1e%s%s%s", products,
                         sigma, residual, isnan(left) ? "" : "  about ",
                         isnan(left) ? "" : cli_duration(left, text),
                         isnan(left) ? "" : " left");
}

void cli_progress_end(cli_progress *p) {
    if (p->line_out) fputs("\r\033[K", stderr);
    p->line_out = 0;
}
