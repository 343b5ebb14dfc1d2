/* measure_table.c - a study for people: a line for each layer, a column for each length,
 * medians over windows; then what was asked for besides, at the longest windows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "measure_medians.h"
#include "screen.h"
#include "words.h"

typedef struct {
    const measure_settings *set;
    const measure_medians *of;
    const lipsc_growths *laws;
    const lipsc_source *source;
    lipsc_tokenizer *tokenizer; /* NULL: tokens are told by their numbers             */
} view;

typedef measure_line line;

static size_t longest(const view *v) { return v->of->lengths[v->of->length_count - 1]; }

/* Of a line against n; NULL: none, or its windows stand alone. */
static const lipsc_growth *law_of(const view *v, const line *l) {
    for (size_t i = 0; i < v->laws->count && !v->of->by_window; i++) {
        const lipsc_growth *law = &v->laws->at[i];
        if (law->layer == l->layer && law->head == l->head && !law->text &&
            !strcmp(law->against, "n"))
            return law;
    }
    return NULL;
}

/* ---- The sentence above ------------------------------------------------------------- */

/* How many windows the lengths have: the least and the most, in the first line. */
static void count_windows(const view *v, size_t *least, size_t *most) {
    const line *l = &v->of->lines[0];
    *least = SIZE_MAX;
    *most = 0;
    for (size_t k = 0; k < v->of->length_count; k++) {
        const size_t count = l->at[k].windows;
        if (count < *least) *least = count;
        if (count > *most) *most = count;
    }
}

static const char *source_name(const lipsc_source_options *source) {
    const char *name = source->text  ? source->text
                       : source->ids ? source->ids
                                     : source->pixels;
    return !name || !strcmp(name, "-") ? "standard input" : name;
}

static void introduce(const view *v, const cli_screen *screen) {
    const char *mixed = v->of->mixed_masks ? "the masks of its layers" : NULL;
    const char *mask = v->of->mask;
    char windows[96] = "";
    size_t least, most;
    count_windows(v, &least, &most);
    if (most > 1 && least == most)
        snprintf(windows, sizeof windows, ", medians over %zu windows", most);
    else if (most > 1)
        snprintf(windows, sizeof windows, ", medians over %zu to %zu windows", least, most);
    cli_say(screen, "%s%s%s on %s: sigma of the map %s, %s%s%s",
            v->set->label ? v->set->label : "", v->set->label ? ": " : "", v->of->model,
            source_name(&v->set->study.source), v->of->map,
            mixed                   ? mixed
            : !strcmp(mask, "none") ? "no"
                                    : mask,
            mixed ? "" : " mask", windows);
    putchar('\n');
}

/* ---- Layer by length ---------------------------------------------------------------- */

enum { PLACES = 3, ENDS = 3 }; /* columns in front of the lengths, and behind them */

static size_t place_columns(const view *v, cli_grid_column *columns) {
    size_t count = 0;
    columns[count++] = (cli_grid_column){"layer", CLI_RIGHT};
    if (v->of->by_head) columns[count++] = (cli_grid_column){"head", CLI_RIGHT};
    if (v->of->by_window) columns[count++] = (cli_grid_column){"window", CLI_RIGHT};
    return count;
}

static void put_place(cli_grid *g, const view *v, const line *l) {
    if (l->layer == LIPSC_NONE)
        cli_grid_text(g, "model");
    else
        cli_grid_text(g, "%zu", l->layer);
    if (v->of->by_head && l->head == LIPSC_NONE)
        cli_grid_text(g, "all");
    else if (v->of->by_head)
        cli_grid_text(g, "%zu", l->head);
    if (v->of->by_window) cli_grid_text(g, "%zu", l->window);
}

static int has_laws(const view *v) {
    for (size_t i = 0; i < v->of->line_count; i++)
        if (law_of(v, &v->of->lines[i])) return 1;
    return 0;
}

static void put_law(cli_grid *g, const lipsc_growth *law) {
    char low[CLI_NUMBER], high[CLI_NUMBER];
    if (!law || !isfinite(law->exponent)) {
        cli_grid_text(g, "-");
        cli_grid_text(g, "%s", "");
        return;
    }
    cli_grid_text(g, "%s%s", cli_decimals(law->exponent, 2, low), law->law ? "" : "*");
    if (isfinite(law->exponent_low))
        cli_grid_text(g, "(%s, %s)", cli_decimals(law->exponent_low, 2, low),
                      cli_decimals(law->exponent_high, 2, high));
    else
        cli_grid_text(g, "%s", "");
}

static lipsc_status print_lengths(const view *v, const cli_screen *screen) {
    cli_grid_column *columns = calloc(v->of->length_count + PLACES + ENDS, sizeof *columns);
    char(*names)[24] = calloc(v->of->length_count, sizeof *names);
    lipsc_status status = LIPSC_E_NOMEM;
    if (columns && names) {
        const int laws = has_laws(v);
        const size_t places = place_columns(v, columns);
        size_t count = places;
        for (size_t k = 0; k < v->of->length_count; k++) {
            snprintf(names[k], sizeof *names, k ? "%zu" : "n = %zu", v->of->lengths[k]);
            columns[count++] = (cli_grid_column){names[k], CLI_POINT};
        }
        if (laws) columns[count++] = (cli_grid_column){"exponent", CLI_POINT};
        if (laws) columns[count++] = (cli_grid_column){"(95 %)", CLI_LEFT};
        columns[count++] = (cli_grid_column){"bound", CLI_POINT};
        cli_grid *g = cli_grid_new(count, columns);
        for (size_t i = 0; i < v->of->line_count; i++) {
            const line *l = &v->of->lines[i];
            put_place(g, v, l);
            for (size_t k = 0; k < v->of->length_count; k++)
                cli_grid_number(g, l->at[k].sigma);
            if (laws) put_law(g, law_of(v, l));
            cli_grid_up(g, l->bound);
        }
        status = cli_grid_print(screen, g, places);
        cli_grid_free(g);
    }
    free(names);
    free(columns);
    return status;
}

/* ---- What the columns mean ---------------------------------------------------------- */

/* Why there is no exponent: each reason once. */
static void say_refused(const view *v, const cli_screen *screen) {
    const char *last = NULL;
    for (size_t i = 0; i < v->of->line_count; i++) {
        const lipsc_growth *law = law_of(v, &v->of->lines[i]);
        if (!law || isfinite(law->exponent)) continue;
        const char *why = lipsc_growth_verdict(law);
        if (last && !strcmp(last, why)) continue;
        cli_say(screen, "no exponent: %s", why);
        last = why;
    }
}

static void say_exponent(const view *v, const cli_screen *screen) {
    const lipsc_growth *open = NULL;
    int curved = 0, any = 0;
    for (size_t i = 0; i < v->of->line_count; i++) {
        const lipsc_growth *law = law_of(v, &v->of->lines[i]);
        if (!law || !isfinite(law->exponent)) continue;
        any = 1;
        curved |= law->law == 0;
        if (!isfinite(law->exponent_low)) open = law;
    }
    if (any)
        cli_say(screen, "exponent: slope of ln sigma against ln n%s%s",
                open ? "" : ", with its 95 % interval",
                curved ? "; *: no straight line fits, it is no power law" : "");
    if (open && open->starts < LIPSC_FIT_STARTS)
        cli_say(screen, "no interval: %zu starts have every length, it takes %d",
                open->starts, LIPSC_FIT_STARTS);
    else if (open)
        cli_say(screen, "no interval: less than half of the starts have every length");
    say_refused(v, screen);
}

static void say_bound(const view *v, const cli_screen *screen) {
    if (measure_proves(v->set))
        cli_say(screen, "bound: proved, no direction does more; at n = %zu", longest(v));
    else
        cli_say(screen,
                "bound: no direction does more, with probability %g; at n = %zu (--upper "
                "or --certify proves one)",
                v->of->probability, longest(v));
}

static void say_loose(const view *v, const cli_screen *screen) {
    if (v->of->loose)
        cli_say(screen, "%zu of %zu values did not converge: they are lower bounds",
                v->of->loose, v->of->row_count);
}

static void explain(const view *v, const cli_screen *screen) {
    putchar('\n');
    if (v->of->length_count > 2 && !v->of->by_window)
        say_exponent(v, screen);
    else if (!v->of->by_window)
        cli_say(screen, "no exponent: it takes three lengths");
    say_bound(v, screen);
    say_loose(v, screen);
}

/* ---- What was asked for besides ----------------------------------------------------- */

/* A token of the window where sigma is largest. */
static void put_word(cli_grid *g, const view *v, const line *l, size_t token) {
    char word[CLI_WORD];
    if (token == LIPSC_NONE)
        cli_grid_text(g, "-");
    else if (!v->source->ids)
        cli_grid_text(g, "%zu", token);
    else
        cli_grid_text(g, "%s",
                      cli_word(v->tokenizer,
                               lipsc_window_id(v->source, l->start, longest(v), token),
                               word));
}

static void put_sigmas(cli_grid *g, const view *v, const line *l) {
    char text[1024] = "", one[CLI_NUMBER];
    for (size_t k = 0; k < v->set->study.count; k++) {
        const size_t used = strlen(text);
        if (used + CLI_NUMBER + 8 > sizeof text) {
            snprintf(text + used, sizeof text - used, " ...");
            break;
        }
        snprintf(text + used, sizeof text - used, "%s%s", k ? "  " : "",
                 cli_digits(l->sigmas[k], 3, one));
    }
    cli_grid_text(g, "%s", text);
}

static void put_extra(cli_grid *g, const view *v, const line *l, size_t e) {
    char text[CLI_NUMBER];
    switch (measure_extras[e].kind) {
    case MEASURE_REAL:
        cli_grid_number(g, l->extra[e].median);
        break;
    case MEASURE_SHARE:
        cli_grid_text(
            g, "%s %%",
            cli_decimals(100.0 * l->extra[e].median / (double)longest(v), 1, text));
        break;
    case MEASURE_WORD:
        put_word(g, v, l, l->extra[e].token);
        break;
    case MEASURE_CERTIFIED:
        cli_grid_text(g, "%zu of %zu", l->closed, l->cells);
        break;
    case MEASURE_SIGMAS:
        put_sigmas(g, v, l);
        break;
    }
}

static void say_extras(const view *v, const cli_screen *screen, unsigned parts) {
    putchar('\n');
    cli_say(screen, "At n = %zu, medians%s:", longest(v),
            parts & (LIPSC_ROW_DETAILS | LIPSC_ROW_SPREAD)
                ? "; words are those of the window where sigma is largest"
                : "");
    putchar('\n');
}

static void explain_extras(const cli_screen *screen, unsigned parts) {
    if (parts &
        (LIPSC_ROW_DETAILS | LIPSC_ROW_SPREAD | LIPSC_ROW_SINK | LIPSC_ROW_RELEASED))
        putchar('\n');
    if (parts & LIPSC_ROW_DETAILS)
        cli_say(
            screen,
            "token: moving it alone does most, by `alone`; from, to: the one token that "
            "moves the output of another most, by `pair`");
    if (parts & LIPSC_ROW_SPREAD)
        cli_say(screen,
                "sink: the token that takes most of the attention of a head, with `mass` "
                "of it");
    if (parts & LIPSC_ROW_SINK)
        cli_say(screen, "it alone, the rest: sigma while only the sink moves, and while "
                        "only the others do");
    if (parts & LIPSC_ROW_RELEASED)
        cli_say(screen, "released: what the paper's scripts return");
}

static lipsc_status print_extras(const view *v, const cli_screen *screen, unsigned parts) {
    cli_grid_column columns[PLACES + MEASURE_EXTRAS];
    const size_t places = place_columns(v, columns);
    size_t count = places;
    for (size_t e = 0; e < MEASURE_EXTRAS; e++) {
        const measure_extra *of = &measure_extras[e];
        const int number = of->kind == MEASURE_REAL || of->kind == MEASURE_SHARE;
        if (of->part & parts)
            columns[count++] = (cli_grid_column){of->name, number ? CLI_POINT : CLI_LEFT};
    }
    if (count == places) return LIPSC_OK;
    say_extras(v, screen, parts);
    cli_grid *g = cli_grid_new(count, columns);
    for (size_t i = 0; i < v->of->line_count; i++) {
        put_place(g, v, &v->of->lines[i]);
        for (size_t e = 0; e < MEASURE_EXTRAS; e++)
            if (measure_extras[e].part & parts) put_extra(g, v, &v->of->lines[i], e);
    }
    const lipsc_status status = cli_grid_print(screen, g, places);
    cli_grid_free(g);
    if (!status) explain_extras(screen, parts);
    return status;
}

/* ---- Together ------------------------------------------------------------------------ */

lipsc_status measure_table(const measure_settings *set, unsigned parts,
                           const lipsc_study *study, const measure_medians *of,
                           const lipsc_growths *laws) {
    const cli_screen screen = cli_screen_open();
    view v = {.set = set, .of = of, .laws = laws, .source = lipsc_study_source(study)};
    if (!of->row_count) return LIPSC_OK;
    v.tokenizer = cli_words_open(&set->study.source, of->model);
    introduce(&v, &screen);
    lipsc_status status = print_lengths(&v, &screen);
    if (!status) explain(&v, &screen);
    if (!status) status = print_extras(&v, &screen, parts);
    lipsc_tokenizer_free(v.tokenizer);
    return status;
}
