/* cmd_compare.c - lipscope compare: how much larger is sigma in one run than in another? */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"

typedef struct {
    cli_common common;
    const char *out;
    double fail_above;
} settings;

static const cli_option options[] = {
    {.kind = CLI_TEXT,
     .letter = 'o',
     .name = "out",
     .value = "FILE",
     .offset = offsetof(settings, out),
     .help = "a page with all of the runs, as `lipscope report` makes it"},
    {.kind = CLI_REAL,
     .name = "fail-above",
     .value = "R",
     .min = 0,
     .max = DBL_MAX,
     .offset = offsetof(settings, fail_above),
     .wanted = "a number that is not negative",
     .help = "exit 4 when any ratio is larger"},
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

/* One sentence: what changed most, as far as its interval goes. */
static void say(size_t count, const lipsc_change *changes, const char *differ) {
    const lipsc_change *most = NULL;
    size_t larger = 0, smaller = 0;
    char place[64];
    for (size_t i = 0; i < count; i++) {
        const lipsc_change *c = &changes[i];
        larger += !strcmp(c->verdict, "larger");
        smaller += !strcmp(c->verdict, "smaller");
        if (isfinite(c->ratio) && (!most || distance(c) > distance(most))) most = c;
    }
    printf("The runs differ in %s.  ", differ ? differ : "nothing that decides a value");
    if (!most) {
        printf("No start has every length on both sides.\n\n");
        return;
    }
    place_words(most, place, sizeof place);
    if (isfinite(most->ratio_low))
        printf("Sigma is larger in %zu and smaller in %zu of %zu;\n"
               "most in %s: %.4g times as large, 95 %% interval [%.4g, %.4g].\n\n",
               larger, smaller, count, place, most->ratio, most->ratio_low,
               most->ratio_high);
    else
        printf("Most in %s:\n%.4g times as large; %zu starts, an interval needs %d.\n\n",
               place, most->ratio, most->starts, LIPSC_COMPARE_STARTS);
}

/* ---- Together ------------------------------------------------------------------------ */

static int has_heads(size_t count, const lipsc_comparison *all) {
    for (size_t k = 0; k < count; k++)
        for (size_t i = 0; i < all[k].count; i++)
            if (all[k].changes[i].head != LIPSC_NONE) return 1;
    return 0;
}

/* For people without the column of heads where there are none: 80 columns. */
static size_t choose_columns(lipsc_format format, int heads, lipsc_column *columns) {
    const size_t all = lipsc_table_columns(lipsc_change_fields(), 0, format, columns);
    size_t kept = 0;
    for (size_t c = 0; c < all; c++)
        if (heads || format != LIPSC_FORMAT_TABLE || strcmp(columns[c].name, "head"))
            columns[kept++] = columns[c];
    return kept;
}

static int print(const cli_command *self, const settings *s, size_t count,
                 const lipsc_comparison *all) {
    const lipsc_format format = (lipsc_format)s->common.format;
    const lipsc_fields fields = lipsc_change_fields();
    lipsc_column columns[MOST];
    lipsc_error err = {.text = "out of memory"};
    lipsc_status status = LIPSC_OK;
    const size_t width = choose_columns(format, has_heads(count, all), columns);
    lipsc_table *t = NULL;
    for (size_t k = 0; k < count && !status; k++) {
        const int people = format == LIPSC_FORMAT_TABLE;
        if (people) {
            if (count > 1 && k) putchar('\n');
            if (count > 1) lipsc_put_plain(stdout, all[k].changes->run);
            if (count > 1) putchar('\n');
            say(all[k].count, all[k].changes, *all[k].differ ? all[k].differ : NULL);
        }
        if (people || !t)
            t = lipsc_table_new(self->name, format, LIPSC_LAYOUT_WIDE, stdout, width,
                                columns);
        if (!t) return cli_failure(self, "%s", err.text);
        for (size_t i = 0; i < all[k].count; i++)
            lipsc_table_record(t, fields, &all[k].changes[i]);
        if (people || k + 1 == count) {
            status = lipsc_table_end(t, &err);
            lipsc_table_free(t);
            t = NULL;
        }
    }
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
    if (s->out && lipsc_report_write(count, paths, s->out, &err))
        return cli_failure(self, "%s", err.text);
    if (s->out && !s->common.quiet) cli_note(self, "wrote %s", s->out);
    const int code = print(self, s, count - 1, all);
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
