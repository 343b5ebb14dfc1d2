/* split_search.c - for each radius the pair of measures on the ball that attention drives
 * apart most, as far as a search finds it, beside the bound for all of them. */
#include "split_search.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "interrupt.h"
#include "rows.h"
#include "screen.h"

/* growth is d ln(best) / d radius since the radius before: for e^{c R} it would not change.
 */
#define PAIR_LIST(X)                                                         \
    X(radius, REAL, 0, 1, "", "of the ball")                                 \
    X(a, REAL, 0, 1, "", "(|A| R + |c|) R, of the head where it is largest") \
    X(construction, REAL, 0, 1, "", "split of the known worst case")         \
    X(promised, REAL, 0, 1, "", "by its formula, of one head alone")         \
    X(best, REAL, 0, 1, "", "the largest split found")                       \
    X(measured, REAL, 0, 1, "", "ratio of exact distances of such a pair")   \
    X(atoms, COUNT, 0, 1, "", "of the measure that reaches best")            \
    X(upper, REAL, 0, 1, "", "proved: no pair on the ball exceeds it")       \
    X(log_upper, REAL, 0, 1, "", "its natural logarithm")                    \
    X(ratio, REAL, 0, 1, "", "best / upper")                                 \
    X(growth, REAL, 0, 1, "", "of ln best for each unit of the radius")      \
    X(distance, TEXT, 0, 1, "", "W2, or d2 with a mask")

typedef struct {
    PAIR_LIST(LIPSC_FIELD_MEMBER)
} record;
static const lipsc_field fields[] = {PAIR_LIST(LIPSC_FIELD_ENTRY)};

static void fill_line(cli_grid *g, const record *row) {
    char text[CLI_NUMBER];
    cli_grid_number(g, row->radius);
    cli_grid_text(g, "%zu", row->atoms);
    cli_grid_number(g, row->construction);
    cli_grid_number(g, row->best);
    cli_grid_number(g, row->measured);
    if (isfinite(row->upper))
        cli_grid_up(g, row->upper);
    else
        cli_grid_text(g, "e^%s", cli_digits_up(row->log_upper, text));
    cli_grid_number(g, row->ratio);
    cli_grid_number(g, row->growth);
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

/* Where findings go: rows for programs, or a grid for people. */
typedef struct {
    cli_rows rows;
    cli_grid *grid; /* NULL: the rows */
} sheet;

static void put(sheet *to, const record *row) {
    if (to->grid) {
        fill_line(to->grid, row);
    } else {
        cli_rows_add(&to->rows, row);
        lipsc_table_flush(to->rows.table);
    }
}

static int search(const cli_command *self, const layer_source *from, const char *radii,
                  lipsc_pairs_settings *set, const char *out, sheet *to) {
    double last_radius = NAN, last_log = NAN;
    const char *distance = from->layer.mask != LIPSC_MASK_NONE ? "d2" : "W2";
    for (const char *at = radii; *at;) {
        lipsc_pairs found;
        lipsc_error err;
        if (!next_radius(&at, &set->radius))
            return cli_wrong_use(self,
                                 "--search %s: expected positive numbers separated by "
                                 "commas",
                                 radii);
        if (lipsc_pairs_find(&from->layer, set, &found, &err))
            return cli_failure(self, "%s: radius %.6g: %s", from->name, set->radius,
                               err.text);
        const double now = log(found.best);
        put(to, &(record){.radius = set->radius,
                          .a = found.a,
                          .construction = found.construction,
                          .promised = found.promised,
                          .best = found.best,
                          .measured = found.measured,
                          .atoms = found.measure.measure.n,
                          .upper = found.upper,
                          .log_upper = found.log_upper,
                          .ratio = found.best * exp(-found.log_upper),
                          .growth = (now - last_log) / (set->radius - last_radius),
                          .distance = distance});
        last_radius = set->radius;
        last_log = now;
        const int failed =
            out && !*at && lipsc_measure_file_write(out, &found.measure.measure, &err);
        lipsc_pairs_free(&found);
        if (failed) return cli_failure(self, "%s", err.text);
    }
    return CLI_DONE;
}

/* Nothing is printed for people where the search has failed. */
static int search_and_print(const cli_command *self, const layer_settings *s,
                            const layer_source *from, const char *radii,
                            lipsc_pairs_settings *set, const char *out) {
    const int people = s->common.format == LIPSC_FORMAT_TABLE;
    sheet to = {.grid = people ? cli_grid_new(sizeof shown / sizeof *shown, shown) : NULL};
    if (people && !to.grid) return cli_failure(self, "out of memory");
    if (!people)
        cli_rows_begin(&to.rows, self, &s->common, LIPSC_LAYOUT_WIDE, CLI_FIELDS(fields),
                       0);
    cli_interrupt_begin();
    int code = search(self, from, radii, set, out, &to);
    if (!people && code == CLI_DONE)
        code = cli_rows_end(&to.rows);
    else if (!people)
        lipsc_table_free(to.rows.table);
    else if (code == CLI_DONE && show(to.grid, from->layer.mask != LIPSC_MASK_NONE))
        code = cli_failure(self, "out of memory");
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
