/* split_search.c - for each radius the pair of measures on the ball that attention drives
 * apart most, as far as a search finds it, beside the bound for all of them. */
#include "split_search.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "interrupt.h"
#include "measure_write.h"
#include "screen.h"

static const lipsc_column columns[] = {
    {"radius", LIPSC_COLUMN_REAL},       {"a", LIPSC_COLUMN_REAL},
    {"construction", LIPSC_COLUMN_REAL}, {"promised", LIPSC_COLUMN_REAL},
    {"best", LIPSC_COLUMN_REAL},         {"measured", LIPSC_COLUMN_REAL},
    {"atoms", LIPSC_COLUMN_INTEGER},     {"upper", LIPSC_COLUMN_REAL},
    {"log_upper", LIPSC_COLUMN_REAL},    {"ratio", LIPSC_COLUMN_REAL},
    {"growth", LIPSC_COLUMN_REAL},       {"distance", LIPSC_COLUMN_STRING}};

/* What a radius came to.  growth is d ln(best) / d radius since the one before: for
 * e^{c R} it would not change. */
typedef struct {
    double radius, growth;
    const lipsc_pairs *found;
    int masked;
} finding;

/* Where findings go: rows for programs, or a grid for people. */
typedef struct {
    lipsc_table *table;
    cli_grid *grid; /* NULL: the table */
} sheet;

static double share_of(const lipsc_pairs *found) {
    return found->best * exp(-found->log_upper);
}

static void fill_row(lipsc_table *t, const finding *f) {
    const lipsc_pairs *found = f->found;
    lipsc_table_row(t);
    lipsc_table_real(t, "radius", f->radius);
    lipsc_table_real(t, "a", found->a);
    lipsc_table_real(t, "construction", found->construction);
    lipsc_table_real(t, "promised", found->promised);
    lipsc_table_real(t, "best", found->best);
    lipsc_table_real(t, "measured", found->measured);
    lipsc_table_integer(t, "atoms", (long long)found->measure.measure.n);
    lipsc_table_real(t, "upper", found->upper);
    lipsc_table_real(t, "log_upper", found->log_upper);
    lipsc_table_real(t, "ratio", share_of(found));
    lipsc_table_real(t, "growth", f->growth);
    lipsc_table_string(t, "distance", f->masked ? "d2" : "W2");
}

static void fill_line(cli_grid *g, const finding *f) {
    char text[CLI_NUMBER];
    cli_grid_number(g, f->radius);
    cli_grid_text(g, "%zu", f->found->measure.measure.n);
    cli_grid_number(g, f->found->construction);
    cli_grid_number(g, f->found->best);
    cli_grid_number(g, f->found->measured);
    if (isfinite(f->found->upper))
        cli_grid_up(g, f->found->upper);
    else
        cli_grid_text(g, "e^%s", cli_digits_up(f->found->log_upper, text));
    cli_grid_number(g, share_of(f->found));
    cli_grid_number(g, f->growth);
}

static const cli_grid_column shown[] = {{"radius", CLI_POINT},       {"atoms", CLI_RIGHT},
                                        {"construction", CLI_POINT}, {"found", CLI_POINT},
                                        {"ratio", CLI_POINT},        {"bound", CLI_POINT},
                                        {"of bound", CLI_POINT},     {"growth", CLI_POINT}};

static lipsc_status show(const cli_grid *g, int masked) {
    const cli_screen screen = cli_screen_open();
    cli_say(
        &screen,
        "The pair of measures on the ball of a radius that attention drives apart most, "
        "in the distance %s, as far as a search finds it.",
        masked ? "d_2" : "W_2");
    putchar('\n');
    const lipsc_status status = cli_grid_print(&screen, g, 1);
    putchar('\n');
    cli_say(&screen,
            "construction: the known worst case; found: by the search; ratio: of exact "
            "distances of such a pair");
    cli_say(&screen, "bound: proved, no pair does more; of bound: found / bound");
    cli_say(&screen, "growth: of ln found for each unit of the radius");
    return status;
}

/* The next number of the list at *at, which moves behind it.  0: not a positive number. */
static int next_radius(const char **at, double *radius) {
    char word[64];
    const size_t length = strcspn(*at, ",");
    if (length == 0 || length >= sizeof word) return 0;
    memcpy(word, *at, length);
    word[length] = '\0';
    *at += length;
    if (**at == ',') *at += 1;
    return !cli_number_real(word, DBL_MIN, DBL_MAX, radius);
}

static int search(const cli_command *self, const layer_source *from, const char *radii,
                  lipsc_pairs_settings *set, const char *out, const sheet *to) {
    double last_radius = NAN, last_log = NAN;
    const int masked = from->layer.mask != LIPSC_MASK_NONE;
    for (const char *at = radii; *at;) {
        lipsc_pairs found;
        lipsc_error err;
        if (!next_radius(&at, &set->radius))
            return cli_wrong_use(self,
                                 "--search %s: expected positive numbers separated by "
                                 "commas",
                                 radii);
        const lipsc_status status = lipsc_pairs_find(&from->layer, set, &found, &err);
        if (status)
            return cli_failure(self, "%s: radius %.6g: %s", from->name, set->radius,
                               err.text);
        const double now = log(found.best);
        const finding f = {set->radius, (now - last_log) / (set->radius - last_radius),
                           &found, masked};
        if (to->grid) {
            fill_line(to->grid, &f);
        } else {
            fill_row(to->table, &f);
            lipsc_table_flush(to->table);
        }
        last_radius = set->radius;
        last_log = now;
        const int failed =
            out && !*at &&
            cli_measure_write(out, &found.measure.measure, NULL, 0, NULL, 0, &err);
        lipsc_pairs_free(&found);
        if (failed) return cli_failure(self, "%s", err.text);
    }
    return CLI_DONE;
}

/* Nothing is printed where the search has failed. */
static int search_and_print(const cli_command *self, const layer_settings *s,
                            const layer_source *from, const char *radii,
                            lipsc_pairs_settings *set, const char *out) {
    const int people = s->common.format == LIPSC_FORMAT_TABLE;
    const sheet to = {people ? NULL
                             : lipsc_table_new(self->name, (lipsc_format)s->common.format,
                                               LIPSC_LAYOUT_WIDE, stdout,
                                               sizeof columns / sizeof *columns, columns),
                      people ? cli_grid_new(sizeof shown / sizeof *shown, shown) : NULL};
    lipsc_error err = {.text = "out of memory"};
    int code = to.table || to.grid ? CLI_RUN : cli_failure(self, "%s", err.text);
    if (code == CLI_RUN) {
        cli_interrupt_begin();
        code = search(self, from, radii, set, out, &to);
    }
    if (code == CLI_DONE && (people ? show(to.grid, from->layer.mask != LIPSC_MASK_NONE)
                                    : lipsc_table_end(to.table, &err)))
        code = cli_failure(self, "%s", err.text);
    lipsc_table_free(to.table);
    cli_grid_free(to.grid);
    return code;
}

int split_search(const cli_command *self, const layer_settings *s, const char *radii,
                 size_t atoms, double step, const char *out) {
    lipsc_pairs_settings set;
    layer_source from;
    lipsc_pairs_defaults(&set);
    if (atoms) set.atoms = atoms;
    if (step > 0.0) set.step = step;
    set.device = s->common.device;
    set.seed = s->seed;
    set.stop = cli_interrupted;
    int code = layer_source_open(self, s, 0, &from);
    if (code == CLI_RUN) code = search_and_print(self, s, &from, radii, &set, out);
    layer_source_close(&from);
    return code;
}
