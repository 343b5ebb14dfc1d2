/* compare_table.c - how much larger sigma is in one run than in another, on standard
 * output: rows, or for people a sentence and a table for each run. */
#include "compare_table.h"

#include <math.h>
#include <string.h>

#include "rows.h"
#include "screen.h"

/* ---- Words --------------------------------------------------------------------------- */

static double distance(const lipsc_change *c) { return fabs(log(c->ratio)); }

void compare_place(const lipsc_change *c, char *room, size_t size) {
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
        compare_place(most, place, sizeof place);
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

/* ---- The table ----------------------------------------------------------------------- */

static int has_heads(size_t count, const lipsc_comparison *all) {
    for (size_t k = 0; k < count; k++)
        for (size_t i = 0; i < all[k].count; i++)
            if (all[k].changes[i].head != LIPSC_NONE) return 1;
    return 0;
}

/* Three digits, as everywhere for people. */
static lipsc_status print_table(const cli_screen *screen, int heads, size_t count,
                                const lipsc_change *changes) {
    cli_grid_column columns[8];
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

static lipsc_status print_people(const char *first, size_t count,
                                 const lipsc_comparison *all) {
    const cli_screen screen = cli_screen_open();
    lipsc_status status = LIPSC_OK;
    for (size_t k = 0; k < count && !status; k++) {
        if (k) putchar('\n');
        say_names(&screen, first, &all[k]);
        say(&screen, all[k].count, all[k].changes, *all[k].differ ? all[k].differ : NULL);
        status = print_table(&screen, has_heads(count, all), all[k].count, all[k].changes);
    }
    return status;
}

/* ---- Together ------------------------------------------------------------------------ */

static int print_records(const cli_command *self, const cli_common *common, size_t count,
                         const lipsc_comparison *all) {
    cli_rows rows;
    cli_rows_begin(&rows, self, common, LIPSC_LAYOUT_WIDE, lipsc_change_fields(), 0);
    for (size_t k = 0; k < count; k++)
        for (size_t i = 0; i < all[k].count; i++) cli_rows_add(&rows, &all[k].changes[i]);
    return cli_rows_end(&rows);
}

int compare_print(const cli_command *self, const cli_common *common, const char *first,
                  size_t count, const lipsc_comparison *all) {
    if (common->format != LIPSC_FORMAT_TABLE)
        return print_records(self, common, count, all);
    return print_people(first, count, all) ? cli_failure(self, "out of memory") : CLI_DONE;
}
