/* cmd_compare.c - lipscope compare: how much larger is sigma in one run than in another? */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "screen.h"

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

enum { MOST = 16 }; /* columns */

/* ---- Words --------------------------------------------------------------------------- */

static double distance(const lipsc_change *c) { return fabs(log(c->ratio)); }

static void place_words(const lipsc_change *c, char *room, size_t size) {
    int used = c->layer == LIPSC_NONE ? snprintf(room, size, "the model")
                                      : snprintf(room, size, "layer %zu", c->layer);
    if (c->head != LIPSC_NONE && used > 0 && (size_t)used < size)
        snprintf(room + used, size - (size_t)used, ", head %zu", c->head);
}

/* What a run is called: its --label, as its command line has it, or its path. */
static void name_of(const char *path, const char *line, char *room, size_t size) {
    const char *typed = line ? strstr(line, " --label") : NULL;
    snprintf(room, size, "%s", path);
    if (typed && (typed[8] == ' ' || typed[8] == '=') && typed[9]) {
        typed += 9;
        const int quoted = *typed == '\'';
        typed += quoted;
        const size_t length = strcspn(typed, quoted ? "'" : " ");
        snprintf(room, size, "%.*s", (int)length, typed);
    }
}

static void say_names(const cli_screen *screen, const char *first,
                      const lipsc_comparison *c) {
    char before[300], after[300];
    name_of(first, c->before_line, before, sizeof before);
    name_of(c->changes->run, c->after_line, after, sizeof after);
    cli_say(screen, "%s against %s.", after, before);
}

/* One sentence: what changed most, as far as its interval goes. */
static void say(const cli_screen *screen, size_t count, const lipsc_change *changes,
                const char *differ) {
    const char *what = differ ? differ : "nothing that decides a value";
    const lipsc_change *most = NULL;
    size_t larger = 0, smaller = 0;
    char place[64];
    for (size_t i = 0; i < count; i++) {
        const lipsc_change *c = &changes[i];
        larger += !strcmp(c->verdict, "larger");
        smaller += !strcmp(c->verdict, "smaller");
        if (isfinite(c->ratio) && (!most || distance(c) > distance(most))) most = c;
    }
    if (!most) {
        cli_say(screen, "The runs differ in %s. No start has every length on both sides.",
                what);
    } else {
        place_words(most, place, sizeof place);
        if (isfinite(most->ratio_low))
            cli_say(screen,
                    "The runs differ in %s. Sigma is larger in %zu and smaller in %zu of "
                    "%zu; most in %s: %.4g times as large, 95 %% interval [%.4g, %.4g].",
                    what, larger, smaller, count, place, most->ratio, most->ratio_low,
                    most->ratio_high);
        else
            cli_say(
                screen,
                "The runs differ in %s. Most in %s: %.4g times as large; %zu starts, an "
                "interval needs %d.",
                what, place, most->ratio, most->starts, LIPSC_COMPARE_STARTS);
    }
    putchar('\n');
}

/* ---- Together ------------------------------------------------------------------------ */

static int has_heads(size_t count, const lipsc_comparison *all) {
    for (size_t k = 0; k < count; k++)
        for (size_t i = 0; i < all[k].count; i++)
            if (all[k].changes[i].head != LIPSC_NONE) return 1;
    return 0;
}

/* Three digits, as everywhere for people. */
static lipsc_status print_table(const cli_screen *screen, int heads, size_t count,
                                const lipsc_change *changes) {
    cli_grid_column columns[MOST];
    size_t used = 0;
    columns[used++] = (cli_grid_column){"layer", CLI_RIGHT};
    if (heads) columns[used++] = (cli_grid_column){"head", CLI_RIGHT};
    columns[used++] = (cli_grid_column){"n", CLI_RIGHT};
    columns[used++] = (cli_grid_column){"before", CLI_POINT};
    columns[used++] = (cli_grid_column){"after", CLI_POINT};
    columns[used++] = (cli_grid_column){"ratio", CLI_POINT};
    columns[used++] = (cli_grid_column){"(95 %)", CLI_LEFT};
    columns[used++] = (cli_grid_column){"verdict", CLI_LEFT};
    cli_grid *g = cli_grid_new(used, columns);
    for (size_t i = 0; i < count; i++) {
        const lipsc_change *c = &changes[i];
        char low[CLI_NUMBER], high[CLI_NUMBER];
        if (c->layer == LIPSC_NONE)
            cli_grid_text(g, "model");
        else
            cli_grid_text(g, "%zu", c->layer);
        if (heads && c->head == LIPSC_NONE)
            cli_grid_text(g, "all");
        else if (heads)
            cli_grid_text(g, "%zu", c->head);
        cli_grid_text(g, "%zu", c->n);
        cli_grid_number(g, c->before);
        cli_grid_number(g, c->after);
        cli_grid_number(g, c->ratio);
        if (isfinite(c->ratio_low))
            cli_grid_text(g, "(%s, %s)", cli_digits(c->ratio_low, 3, low),
                          cli_digits(c->ratio_high, 3, high));
        else
            cli_grid_text(g, "%s", "");
        cli_grid_text(g, "%s", c->verdict);
    }
    const lipsc_status status = cli_grid_print(screen, g, 1);
    cli_grid_free(g);
    return status;
}

static int print_people(const cli_command *self, const char *first, size_t count,
                        const lipsc_comparison *all) {
    const cli_screen screen = cli_screen_open();
    lipsc_status status = LIPSC_OK;
    for (size_t k = 0; k < count && !status; k++) {
        if (k) putchar('\n');
        say_names(&screen, first, &all[k]);
        say(&screen, all[k].count, all[k].changes, *all[k].differ ? all[k].differ : NULL);
        status = print_table(&screen, has_heads(count, all), all[k].count, all[k].changes);
    }
    return status ? cli_failure(self, "out of memory") : CLI_DONE;
}

static int print(const cli_command *self, const settings *s, size_t count,
                 const lipsc_comparison *all) {
    const lipsc_format format = (lipsc_format)s->common.format;
    const lipsc_fields fields = lipsc_change_fields();
    lipsc_column columns[MOST];
    lipsc_error err = {.text = "out of memory"};
    lipsc_status status = LIPSC_OK;
    const size_t width = lipsc_table_columns(fields, 0, format, columns);
    lipsc_table *t =
        lipsc_table_new(self->name, format, LIPSC_LAYOUT_WIDE, stdout, width, columns);
    if (!t) return cli_failure(self, "%s", err.text);
    for (size_t k = 0; k < count; k++)
        for (size_t i = 0; i < all[k].count; i++)
            lipsc_table_record(t, fields, &all[k].changes[i]);
    status = lipsc_table_end(t, &err);
    lipsc_table_free(t);
    return status ? cli_failure(self, "%s", err.text) : CLI_DONE;
}

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
    place_words(worst, place, sizeof place);
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
    const int code = s->common.format == LIPSC_FORMAT_TABLE
                         ? print_people(self, paths[0], count - 1, all)
                         : print(self, s, count - 1, all);
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
    .option_count = sizeof options / sizeof *options,
    .options = options,
    .run = run,
};
