/* cmd_compare.c - lipscope compare: how much larger is sigma in one run than in another? */
#include <math.h>
#include <stdlib.h>

#include "compare_table.h"

typedef struct {
    cli_common common;
    const char *out;
    double fail_above;
} settings;

#define OPTION(...) CLI_OPTION(settings, __VA_ARGS__)

static const cli_option options[] = {
    OPTION(TEXT, "out", "FILE", out, .letter = 'o',
           .help = "a page with all of the runs, as `lipscope report` makes it"),
    OPTION(REAL, "fail-above", "R", fail_above, .wanted = "a number that is not negative",
           .min = 0, .max = DBL_MAX, .help = "exit 4 when any ratio is larger"),
    CLI_OUTPUT_OPTIONS(settings),
};

static int verdict(const cli_command *self, const settings *s, size_t count,
                   const lipsc_comparison *all) {
    const lipsc_change *worst = NULL;
    size_t above = 0;
    char place[64];
    for (size_t k = 0; k < count; k++)
        for (size_t i = 0; i < all[k].count; i++) {
            const lipsc_change *c = &all[k].changes[i];
            if (!(c->ratio > s->fail_above)) continue;
            above++;
            if (worst && c->ratio <= worst->ratio) continue;
            worst = c;
        }
    if (!worst) return CLI_DONE;
    compare_place(worst, place, sizeof place);
    cli_failure(self, "%s: ratio %.6g of %s exceeds --fail-above %.6g (%zu in all do)",
                worst->run, worst->ratio, place, s->fail_above, above);
    return CLI_ABOVE_LIMIT;
}

static int compare(const cli_command *self, const settings *s, size_t count,
                   const char *const *paths, lipsc_comparison *all) {
    lipsc_error err;
    for (size_t k = 1; k < count; k++)
        if (lipsc_runs_compare(paths[0], paths[k], &all[k - 1], &err))
            return cli_failure(self, "%s", err.text);
    for (size_t k = 1; k < count && !s->common.quiet; k++)
        if (all[k - 1].every > 1)
            cli_note(self, "%s: of runs this long one window in %zu was compared", paths[k],
                     all[k - 1].every);
    if (s->out && lipsc_report_write(count, paths, s->out, &err))
        return cli_failure(self, "%s", err.text);
    if (s->out && !s->common.quiet) cli_note(self, "wrote %s", s->out);
    const int code = compare_print(self, &s->common, paths[0], count - 1, all);
    return code == CLI_DONE ? verdict(self, s, count - 1, all) : code;
}

static int run(const cli_command *self, int argc, char **argv) {
    settings s = {.fail_above = INFINITY};
    int operands;
    int code = cli_parse(self, argc, argv, &s, &operands);
    if (code != CLI_RUN) return code;
    const size_t count = (size_t)operands;
    lipsc_comparison *all = calloc(count, sizeof *all);
    code = all ? compare(self, &s, count, (const char *const *)argv, all)
               : cli_failure(self, "out of memory");
    for (size_t i = 0; all && i < count; i++) lipsc_comparison_free(&all[i]);
    free(all);
    return code;
}

const cli_command cli_cmd_compare = {
    .name = "compare",
    .operands = "RUN RUN...",
    .min_operands = 2,
    .max_operands = 100,
    .summary = "how much larger is sigma in one run than in another",
    .about =
        "Per layer the ratio of sigma between the first run and each of the others, with\n"
        "a 95 % interval over the starts of their windows: before and after fine-tuning,\n"
        "two texts, two models, masked and not.  Where both have the same windows of the\n"
        "same text they are compared pair by pair.",
    .example = "  $ lipscope measure before/ --text alice.txt --run before.db\n"
               "  $ lipscope measure after/ --text alice.txt --run after.db\n"
               "  $ lipscope compare before.db after.db --fail-above 1.2\n",
    CLI_TABLE(options),
    .run = run,
};
