/* attack_teller.c - what is said while worst inputs are sought: how far the search is, what
 * it will take at most, and where the inputs were written. */
#include "attack_teller.h"

#include <math.h>

#include "interrupt.h"
#include "screen.h"

/* Seconds that are left at most: climbs may arrive early. */
static double seconds_left(const attack_teller *t) {
    const double now = cli_seconds();
    const double left =
        t->done > 0.0 ? (now - t->climbs) * (1.0 - t->done) / t->done : INFINITY;
    const double limit = t->limit > 0.0 ? t->limit + t->begin - now : INFINITY;
    const double least = left < limit ? left : limit;
    return least > 0.0 ? least : 0.0;
}

static const double long_work = 30.0; /* seconds */

/* One estimate of long work, by its size. */
static void tell_plan(void *ctx, double seconds) {
    attack_teller *t = ctx;
    char text[CLI_NUMBER];
    const int known = t->limit > 0.0 && t->limit < seconds;
    if (!(seconds > long_work && seconds < 1e12)) return;
    t->estimated = 1;
    if (!known && !t->common->quiet)
        cli_note(t->self, "about %s; --seconds S ends it before",
                 cli_duration(seconds, text));
}

/* Where that was too low, when the first climbs say how fast it goes. */
static void estimate(attack_teller *t) {
    const double early = 0.02, trial = 2.0;
    char text[CLI_NUMBER];
    if (t->estimated || !(t->done > early) || cli_seconds() - t->climbs < trial) return;
    t->estimated = 1;
    const double whole = cli_seconds() - t->begin + seconds_left(t);
    if (whole < long_work || t->common->quiet) return;
    cli_progress_end(&t->line);
    cli_note(t->self, "at most about %s; --seconds S ends it before",
             cli_duration(whole, text));
}

static void tell_share(void *ctx, double done) {
    attack_teller *t = ctx;
    if (t->climbs == 0.0) t->climbs = cli_seconds();
    t->done = done;
    estimate(t);
}

static void tell(void *ctx, size_t n, const char *doing, long evaluations, double best) {
    attack_teller *t = ctx;
    char left[CLI_NUMBER];
    const int known = t->done > 0.0 || t->limit > 0.0;
    cli_progress_say(&t->line, "n %zu  %s  %ld inputs  best sigma %.4g%s%s%s", n, doing,
                     evaluations, best, known ? "  at most " : "",
                     known ? cli_duration(seconds_left(t), left) : "",
                     known ? " left" : "");
}

static void say_written(void *ctx, const char *path) {
    attack_teller *t = ctx;
    cli_progress_end(&t->line);
    if (!t->common->quiet) cli_note(t->self, "read it with: lipscope layer %s", path);
}

void attack_teller_begin(attack_teller *t, const cli_command *self,
                         const cli_common *common, lipsc_attacks_settings *set) {
    *t = (attack_teller){
        .self = self, .common = common, .limit = set->seconds, .begin = cli_seconds()};
    cli_interrupt_begin();
    cli_progress_begin(&t->line, common);
    set->stop = cli_interrupted;
    set->progress = tell;
    set->plan = tell_plan;
    set->share = tell_share;
    set->written = say_written;
    set->ctx = t;
}

void attack_teller_end(attack_teller *t) { cli_progress_end(&t->line); }

int attack_teller_stopped(const attack_teller *t, const char *run, const lipsc_attacks *a) {
    char went[80] = "the best input so far is kept";
    cli_interrupt_done();
    if (a->missing != LIPSC_NONE)
        snprintf(went, sizeof went, "no input of length %zu was found before, none is kept",
                 a->missing);
    return cli_failure(t->self, "interrupted; %s%s%s", went,
                       run ? "; the same command continues with " : "", run ? run : "");
}
