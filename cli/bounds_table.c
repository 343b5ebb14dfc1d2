/* bounds_table.c - bounds on standard output: rows, or for people one sentence, then groups
 * of those that hold for the same inputs; refused ones are counted. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bounds_table.h"
#include "rows.h"
#include "screen.h"

static int is_upper(const lipsc_bound *b) {
    return !b->refused && !strcmp(b->kind, "upper") && isfinite(b->ratio);
}

/* The tightest of a domain; NULL: none.  They are sorted. */
static const lipsc_bound *tightest(const lipsc_bounds *all, const char *domain) {
    for (size_t i = 0; i < all->count; i++)
        if (is_upper(&all->at[i]) && !strcmp(all->at[i].domain, domain)) return &all->at[i];
    return NULL;
}

static void say_first(const cli_screen *screen, const lipsc_bounds *all, const char *what) {
    const lipsc_bound *here = tightest(all, "input"), *ball = tightest(all, "ball");
    char sigma[CLI_NUMBER], first[CLI_NUMBER], second[CLI_NUMBER], radius[CLI_NUMBER];
    char rest[160] = "";
    cli_digits(all->sigma, 4, sigma);
    if (ball)
        snprintf(rest, sizeof rest, "; over all inputs with tokens as long as %s, %s times",
                 cli_digits(all->radius, 3, radius), cli_digits_up(ball->ratio, second));
    if (here)
        cli_say(screen,
                "%s, n = %zu: sigma is %s. The tightest bound at this input, %s, is %s "
                "times sigma%s.",
                what, all->n, sigma, here->name, cli_digits_up(here->ratio, first), rest);
    else
        cli_say(screen, "%s, n = %zu: sigma is %s.", what, all->n, sigma);
}

/* What the bounds of a group hold for; radius: NaN where there is none. */
static void say_group(const cli_screen *screen, const lipsc_bound *b) {
    const int at_least = !strcmp(b->kind, "lower"), ball = !strcmp(b->domain, "ball");
    char where[120];
    if (!strcmp(b->domain, "input"))
        snprintf(where, sizeof where, "At this input");
    else if (ball)
        snprintf(where, sizeof where, "%s whose tokens are at most %.4g long",
                 at_least ? "At some input" : "At every input", b->radius);
    else if (!strcmp(b->domain, "around"))
        snprintf(where, sizeof where,
                 "At every input whose tokens lie within %.4g of these", b->radius);
    else
        snprintf(where, sizeof where, at_least ? "At some input" : "At every input");
    printf("\n%s%s, %s%s\n", screen->strong, where,
           at_least                   ? "at least"
           : strcmp(b->kind, "limit") ? "at most"
                                      : "in the limit of large tokens",
           screen->plain);
}

/* A number of a bound, rounded to the side on which the bound holds. */
static void put_side(cli_grid *g, const lipsc_bound *b, double x) {
    if (!strcmp(b->kind, "upper"))
        cli_grid_up(g, x);
    else if (!strcmp(b->kind, "lower"))
        cli_grid_down(g, x);
    else
        cli_grid_number(g, x);
}

/* Values too large for a double by their logarithm. */
static void put_value(cli_grid *g, const lipsc_bound *b) {
    char text[CLI_NUMBER];
    if (isfinite(b->value))
        put_side(g, b, b->value);
    else if (isfinite(b->log_value))
        cli_grid_text(g, "e^%s",
                      strcmp(b->kind, "lower") ? cli_digits_up(b->log_value, text)
                                               : cli_digits_down(b->log_value, 3, text));
    else
        cli_grid_text(g, "-");
}

static lipsc_status print_group(const cli_screen *screen, const lipsc_bounds *all,
                                const char *domain, const char *kind) {
    static const cli_grid_column columns[] = {{"bound", CLI_LEFT},
                                              {"norm", CLI_LEFT},
                                              {"value", CLI_POINT},
                                              {"/ sigma", CLI_POINT},
                                              {"proof", CLI_LEFT}};
    cli_grid *g = NULL;
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; i < all->count; i++) {
        const lipsc_bound *b = &all->at[i];
        if (b->refused || strcmp(b->domain, domain) || strcmp(b->kind, kind)) continue;
        if (!g) {
            say_group(screen, b);
            g = cli_grid_new(sizeof columns / sizeof *columns, columns);
        }
        cli_grid_text(g, "%s", b->name);
        cli_grid_text(g, "%s", b->norm);
        put_value(g, b);
        put_side(g, b, b->ratio);
        cli_grid_text(g, "%s", b->source);
    }
    if (g) status = cli_grid_print(screen, g, 1);
    cli_grid_free(g);
    return status;
}

static void say_refused(const cli_screen *screen, const lipsc_bounds *all) {
    size_t refused = 0;
    for (size_t i = 0; i < all->count; i++) refused += all->at[i].refused != NULL;
    if (!refused) return;
    putchar('\n');
    cli_say(screen, "%zu more do not apply here; --rows says why", refused);
}

static void say_regime(const cli_screen *screen, const lipsc_regime *r, size_t n) {
    char a[CLI_NUMBER], delta[CLI_NUMBER], spread[CLI_NUMBER], where[CLI_NUMBER];
    if (r->log_crossover < 700.0)
        cli_digits(exp(r->log_crossover), 3, where);
    else
        snprintf(where, sizeof where, "e^%.4g", r->log_crossover);
    cli_say(
        screen,
        "regime %s: head %zu has a = %s, Delta = %s; growth like sqrt(n) must stop near "
        "n = %s (here n = %zu). By its own scores, which differ by at most %s in a row "
        "of that head, this input is %s.",
        r->name, r->head, cli_digits(r->a, 3, a), cli_digits(r->delta, 3, delta), where, n,
        cli_digits_up(r->spread, spread), r->input);
}

static void say_around(const cli_screen *screen, const lipsc_neighbourhood *a) {
    char value[CLI_NUMBER], radius[CLI_NUMBER];
    snprintf(value, sizeof value, "%.6g", a->below);
    cli_say(screen,
            "sigma is at most %s wherever no token moves by more than %s (%.4g of the mean "
            "token length)",
            isnan(a->below) ? cli_digits_up(a->value, value) : value,
            cli_digits_down(a->radius, 6, radius), a->relative);
}

static lipsc_status print_people(const lipsc_bounds *all, const char *what) {
    static const char *const domains[] = {"input", "around", "ball", "all"};
    static const char *const kinds[] = {"upper", "limit", "lower"};
    const cli_screen screen = cli_screen_open();
    lipsc_status status = LIPSC_OK;
    say_first(&screen, all, what);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t d = 0; d < sizeof domains / sizeof *domains && !status; d++)
            status = print_group(&screen, all, domains[d], kinds[k]);
    if (status) return status;
    say_refused(&screen, all);
    if (all->has_regime) putchar('\n');
    if (all->has_regime) say_regime(&screen, &all->regime, all->n);
    if (all->has_around) putchar('\n');
    if (all->has_around) say_around(&screen, &all->around);
    return LIPSC_OK;
}

/* ---- For programs -------------------------------------------------------------------- */

/* Members of the JSON object behind the rows. */
#define CASE_LIST(X)                                             \
    X(n, COUNT, 0, 0, "tokens", "of the input")                  \
    X(special, FLAG, 0, 0, "", "special tokens stand around it") \
    X(radius, REAL, 0, 0, "", "of the ball")                     \
    X(p, REAL, 0, 0, "", "of the norms Wp and dp")

typedef struct {
    CASE_LIST(LIPSC_FIELD_MEMBER)
} record;
static const lipsc_field case_fields[] = {CASE_LIST(LIPSC_FIELD_ENTRY)};

static int print_records(const cli_command *self, const cli_place *set,
                         const lipsc_bounds *b) {
    cli_rows rows;
    cli_rows_begin(&rows, self, &set->common, LIPSC_LAYOUT_WIDE, lipsc_bound_fields(), 0);
    for (size_t i = 0; i < b->count; i++) cli_rows_add(&rows, &b->at[i]);
    lipsc_table_object(rows.table, "regime", lipsc_regime_fields(),
                       b->has_regime ? &b->regime : NULL);
    lipsc_table_members(rows.table, CLI_FIELDS(case_fields),
                        &(record){b->n, set->source.special, b->radius, b->p});
    lipsc_table_object(rows.table, "around", lipsc_neighbourhood_fields(),
                       b->has_around ? &b->around : NULL);
    return cli_rows_end(&rows);
}

/* The same of several layers. */
typedef struct {
    size_t layer;
    lipsc_bound bound;
} layer_row;

typedef struct {
    size_t layer;
    lipsc_regime regime;
} layer_regime;

typedef struct {
    size_t layer;
    lipsc_neighbourhood around;
} layer_around;

enum { MOST_FIELDS = 24 };

/* layer in front of the fields of a record that stands `shift` behind it. */
static lipsc_fields behind_layer(lipsc_fields fields, size_t shift,
                                 lipsc_field room[MOST_FIELDS]) {
    size_t count = 0;
    room[count++] =
        (lipsc_field){"layer", LIPSC_FIELD_COUNT, 0, 0, 1, "", "of the model, from 0"};
    for (size_t i = 0; i < fields.count && count < MOST_FIELDS; i++) {
        room[count] = fields.at[i];
        room[count++].offset += shift;
    }
    return (lipsc_fields){count, room};
}

static void list_layers(cli_rows *rows, const lipsc_layers_bounds *all) {
    lipsc_field room[MOST_FIELDS];
    layer_regime *regimes = calloc(all->count, sizeof *regimes);
    layer_around *arounds = calloc(all->count, sizeof *arounds);
    size_t count = 0, around = 0;
    for (size_t i = 0; regimes && arounds && i < all->count; i++) {
        const lipsc_bounds *b = &all->at[i].bounds;
        if (b->has_regime) regimes[count++] = (layer_regime){all->at[i].layer, b->regime};
        if (b->has_around) arounds[around++] = (layer_around){all->at[i].layer, b->around};
    }
    lipsc_table_list(
        rows->table, "regimes",
        behind_layer(lipsc_regime_fields(), offsetof(layer_regime, regime), room), count,
        sizeof *regimes, regimes);
    if (around)
        lipsc_table_list(rows->table, "arounds",
                         behind_layer(lipsc_neighbourhood_fields(),
                                      offsetof(layer_around, around), room),
                         around, sizeof *arounds, arounds);
    free(regimes);
    free(arounds);
}

static int print_layers(const cli_command *self, const cli_place *set,
                        const lipsc_layers_bounds *all) {
    cli_rows rows;
    lipsc_field room[MOST_FIELDS];
    const lipsc_bounds *first = &all->at[0].bounds;
    cli_rows_begin(&rows, self, &set->common, LIPSC_LAYOUT_WIDE,
                   behind_layer(lipsc_bound_fields(), offsetof(layer_row, bound), room), 0);
    for (size_t k = 0; k < all->count; k++)
        for (size_t i = 0; i < all->at[k].bounds.count; i++)
            cli_rows_add(&rows, &(layer_row){all->at[k].layer, all->at[k].bounds.at[i]});
    list_layers(&rows, all);
    lipsc_table_members(rows.table, CLI_FIELDS(case_fields),
                        &(record){first->n, set->source.special, NAN, first->p});
    return cli_rows_end(&rows);
}

int bounds_print(const cli_command *self, const cli_place *set, const char *from,
                 const lipsc_place *place, int rows, const lipsc_layers_bounds *all) {
    lipsc_status status = LIPSC_OK;
    if (rows || set->common.format != LIPSC_FORMAT_TABLE)
        return all->count > 1 ? print_layers(self, set, all)
                              : print_records(self, set, &all->at[0].bounds);
    for (size_t i = 0; i < all->count && !status; i++) {
        cli_place of = *set;
        char what[CLI_PLACE_WORDS];
        of.layer = all->at[i].layer;
        if (i) putchar('\n');
        status = print_people(&all->at[i].bounds, cli_place_words(&of, from, place, what));
    }
    return status ? cli_failure(self, "out of memory") : CLI_DONE;
}
