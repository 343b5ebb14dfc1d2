/* measure_table.c - a study for people: a line for each layer, a column for each length,
 * medians over windows; then what was asked for besides, at the longest windows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "screen.h"
#include "words.h"

/* ---- What is shown ------------------------------------------------------------------ */

/* The rows of one layer and head, of one window where windows were named. */
typedef struct {
    size_t layer, head, window; /* window LIPSC_NONE: all                      */
    size_t first, last;         /* rows of the layer and head                  */
    const lipsc_growth *law;    /* against n; NULL: none                       */
} line;

typedef struct {
    const measure_settings *set;
    const lipsc_row *const *rows;
    size_t row_count;
    size_t *lengths, length_count;
    line *lines;
    size_t line_count;
    int heads, windows; /* columns of their own                                  */
    double *values;     /* room for one value of each row                        */
    const lipsc_source *source;
    lipsc_tokenizer *tokenizer; /* NULL: tokens are told by their numbers             */
} view;

static int by_size(const void *a, const void *b) {
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* NaN where there is nothing, or one of them is not finite. */
static double median(size_t count, double *values) {
    for (size_t i = 0; i < count; i++)
        if (!isfinite(values[i])) return NAN;
    if (!count) return NAN;
    qsort(values, count, sizeof *values, by_value);
    return 0.5 * (values[(count - 1) / 2] + values[count / 2]);
}

static int belongs(const line *l, const lipsc_row *row, size_t n) {
    return row->n == n && (l->window == LIPSC_NONE || row->window == l->window);
}

/* The median over windows of the member at `offset`. */
static double median_of(const view *v, const line *l, size_t n, size_t offset) {
    size_t count = 0;
    for (size_t i = l->first; i < l->last; i++)
        if (belongs(l, v->rows[i], n))
            v->values[count++] =
                *(const double *)(const void *)((const char *)v->rows[i] + offset);
    return median(count, v->values);
}

#define MEDIAN(v, l, n, member) median_of(v, l, n, offsetof(lipsc_row, member))

static void find_lengths(view *v) {
    for (size_t i = 0; i < v->row_count; i++) v->lengths[i] = v->rows[i]->n;
    qsort(v->lengths, v->row_count, sizeof *v->lengths, by_size);
    for (size_t i = 0; i < v->row_count; i++)
        if (!i || v->lengths[i] != v->lengths[i - 1])
            v->lengths[v->length_count++] = v->lengths[i];
}

static const lipsc_growth *find_law(const lipsc_growths *laws, const lipsc_row *row) {
    for (size_t i = 0; i < laws->count; i++) {
        const lipsc_growth *law = &laws->at[i];
        if (law->layer == row->layer && law->head == row->head && !law->text &&
            !strcmp(law->against, "n"))
            return law;
    }
    return NULL;
}

/* Whether an earlier row of the line's layer and head has this window. */
static int window_seen(const view *v, size_t first, size_t at) {
    for (size_t i = first; i < at; i++)
        if (v->rows[i]->window == v->rows[at]->window) return 1;
    return 0;
}

static void find_lines(view *v, const lipsc_growths *laws) {
    for (size_t at = 0, next; at < v->row_count; at = next) {
        const lipsc_row *row = v->rows[at];
        for (next = at; next < v->row_count; next++)
            if (v->rows[next]->layer != row->layer || v->rows[next]->head != row->head)
                break;
        v->heads |= row->head != LIPSC_NONE;
        line l = {row->layer, row->head, LIPSC_NONE, at, next, find_law(laws, row)};
        if (v->windows) l.law = NULL;
        for (size_t i = at; i < (v->windows ? next : at + 1); i++) {
            if (v->windows && window_seen(v, at, i)) continue;
            if (v->windows) l.window = v->rows[i]->window;
            v->lines[v->line_count++] = l;
        }
    }
}

/* ---- The sentence above ------------------------------------------------------------- */

/* How many windows the lengths have: the least and the most, in one line. */
static void count_windows(const view *v, size_t *least, size_t *most) {
    const line *l = &v->lines[0];
    *least = SIZE_MAX;
    *most = 0;
    for (size_t k = 0; k < v->length_count; k++) {
        size_t count = 0;
        for (size_t i = l->first; i < l->last; i++)
            count += belongs(l, v->rows[i], v->lengths[k]);
        if (count < *least) *least = count;
        if (count > *most) *most = count;
    }
}

static const char *common_mask(const view *v) {
    for (size_t i = 1; i < v->row_count; i++)
        if (strcmp(v->rows[i]->mask, v->rows[0]->mask)) return "the masks of its layers";
    return NULL;
}

static const char *source_name(const lipsc_source_options *source) {
    const char *name = source->text  ? source->text
                       : source->ids ? source->ids
                                     : source->pixels;
    return !name || !strcmp(name, "-") ? "standard input" : name;
}

static void introduce(const view *v, const cli_screen *screen) {
    const char *mixed = common_mask(v);
    const char *mask = v->rows[0]->mask;
    char windows[96] = "";
    size_t least, most;
    count_windows(v, &least, &most);
    if (most > 1 && least == most)
        snprintf(windows, sizeof windows, ", medians over %zu windows", most);
    else if (most > 1)
        snprintf(windows, sizeof windows, ", medians over %zu to %zu windows", least, most);
    cli_say(screen, "%s%s%s on %s: sigma of the map %s, %s%s%s",
            v->set->label ? v->set->label : "", v->set->label ? ": " : "",
            v->rows[0]->model, source_name(&v->set->source), v->rows[0]->map,
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
    if (v->heads) columns[count++] = (cli_grid_column){"head", CLI_RIGHT};
    if (v->windows) columns[count++] = (cli_grid_column){"window", CLI_RIGHT};
    return count;
}

static void put_place(cli_grid *g, const view *v, const line *l) {
    if (l->layer == LIPSC_NONE)
        cli_grid_text(g, "model");
    else
        cli_grid_text(g, "%zu", l->layer);
    if (v->heads && l->head == LIPSC_NONE)
        cli_grid_text(g, "all");
    else if (v->heads)
        cli_grid_text(g, "%zu", l->head);
    if (v->windows) cli_grid_text(g, "%zu", l->window);
}

static int has_laws(const view *v) {
    for (size_t i = 0; i < v->line_count; i++)
        if (v->lines[i].law) return 1;
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

/* Which member bounds sigma: what was proved, or what holds with a probability. */
static size_t bound_offset(const view *v) {
    return v->set->upper || v->set->certify.eps > 0.0 ? offsetof(lipsc_row, upper)
                                                      : offsetof(lipsc_row, upper_prob);
}

static lipsc_status print_lengths(const view *v, const cli_screen *screen) {
    cli_grid_column *columns = calloc(v->length_count + PLACES + ENDS, sizeof *columns);
    char(*names)[24] = calloc(v->length_count, sizeof *names);
    lipsc_status status = LIPSC_E_NOMEM;
    if (columns && names) {
        const int laws = has_laws(v);
        const size_t places = place_columns(v, columns);
        const size_t longest = v->lengths[v->length_count - 1];
        size_t count = places;
        for (size_t k = 0; k < v->length_count; k++) {
            snprintf(names[k], sizeof *names, k ? "%zu" : "n = %zu", v->lengths[k]);
            columns[count++] = (cli_grid_column){names[k], CLI_POINT};
        }
        if (laws) columns[count++] = (cli_grid_column){"exponent", CLI_POINT};
        if (laws) columns[count++] = (cli_grid_column){"(95 %)", CLI_LEFT};
        columns[count++] = (cli_grid_column){"bound", CLI_POINT};
        cli_grid *g = cli_grid_new(count, columns);
        for (size_t i = 0; i < v->line_count; i++) {
            const line *l = &v->lines[i];
            put_place(g, v, l);
            for (size_t k = 0; k < v->length_count; k++)
                cli_grid_number(g, MEDIAN(v, l, v->lengths[k], sigma));
            if (laws) put_law(g, l->law);
            cli_grid_up(g, median_of(v, l, longest, bound_offset(v)));
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
    for (size_t i = 0; i < v->line_count; i++) {
        const lipsc_growth *law = v->lines[i].law;
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
    for (size_t i = 0; i < v->line_count; i++) {
        const lipsc_growth *law = v->lines[i].law;
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
    const size_t longest = v->lengths[v->length_count - 1];
    if (bound_offset(v) == offsetof(lipsc_row, upper))
        cli_say(screen, "bound: proved, no direction does more; at n = %zu", longest);
    else
        cli_say(screen,
                "bound: no direction does more, with probability %g; at n = %zu (--upper "
                "or --certify proves one)",
                v->rows[0]->probability, longest);
}

static void say_loose(const view *v, const cli_screen *screen) {
    size_t loose = 0;
    for (size_t i = 0; i < v->row_count; i++) loose += v->rows[i]->converged != 1;
    if (loose)
        cli_say(screen, "%zu of %zu values did not converge: they are lower bounds", loose,
                v->row_count);
}

static void explain(const view *v, const cli_screen *screen) {
    putchar('\n');
    if (v->length_count > 2 && !v->windows)
        say_exponent(v, screen);
    else if (!v->windows)
        cli_say(screen, "no exponent: it takes three lengths");
    say_bound(v, screen);
    say_loose(v, screen);
}

/* ---- What was asked for besides ----------------------------------------------------- */

/* The row of the longest windows whose sigma is largest. */
static const lipsc_row *worst(const view *v, const line *l) {
    const size_t longest = v->lengths[v->length_count - 1];
    const lipsc_row *best = NULL;
    for (size_t i = l->first; i < l->last; i++)
        if (belongs(l, v->rows[i], longest) && (!best || v->rows[i]->sigma > best->sigma))
            best = v->rows[i];
    return best;
}

static void put_word(cli_grid *g, const view *v, const lipsc_row *row, size_t token) {
    char word[CLI_WORD];
    if (!row || token == LIPSC_NONE)
        cli_grid_text(g, "-");
    else if (!v->source->ids)
        cli_grid_text(g, "%zu", token);
    else
        cli_grid_text(g, "%s",
                      cli_word(v->tokenizer,
                               lipsc_window_id(v->source, row->start, row->n, token),
                               word));
}

/* Medians of each of the singular values. */
static void put_sigmas(cli_grid *g, const view *v, const line *l) {
    const size_t longest = v->lengths[v->length_count - 1];
    char text[1024] = "", one[CLI_NUMBER];
    for (size_t k = 0; k < v->set->count; k++) {
        size_t count = 0;
        for (size_t i = l->first; i < l->last; i++)
            if (belongs(l, v->rows[i], longest) && k < v->rows[i]->sigmas.count)
                v->values[count++] = v->rows[i]->sigmas.at[k];
        const size_t used = strlen(text);
        if (used + CLI_NUMBER + 8 > sizeof text) {
            snprintf(text + used, sizeof text - used, " ...");
            break;
        }
        snprintf(text + used, sizeof text - used, "%s%s", k ? "  " : "",
                 cli_digits(median(count, v->values), 3, one));
    }
    cli_grid_text(g, "%s", text);
}

static void put_certified(cli_grid *g, const view *v, const line *l) {
    size_t all = 0, closed = 0;
    for (size_t i = l->first; i < l->last; i++) {
        if (l->window != LIPSC_NONE && v->rows[i]->window != l->window) continue;
        all++;
        closed += v->rows[i]->certified == 1;
    }
    cli_grid_text(g, "%zu of %zu", closed, all);
}

typedef enum { REAL, SHARE, WORD, CERTIFIED, SIGMAS } extra_kind;

/* Columns behind the layer; offset: of the member of a row. */
typedef struct {
    unsigned part;
    const char *name;
    extra_kind kind;
    size_t offset;
} extra;

#define OF(member) offsetof(lipsc_row, member)
static const extra extras[] = {
    {LIPSC_ROW_CERTIFY, "certified", CERTIFIED, 0},
    {LIPSC_ROW_RELEASED, "released", REAL, OF(released)},
    {LIPSC_ROW_DETAILS, "token", WORD, OF(token)},
    {LIPSC_ROW_DETAILS, "alone", REAL, OF(token_norm)},
    {LIPSC_ROW_DETAILS, "from", WORD, OF(pair_from)},
    {LIPSC_ROW_DETAILS, "to", WORD, OF(pair_to)},
    {LIPSC_ROW_DETAILS, "pair", REAL, OF(pair_norm)},
    {LIPSC_ROW_SPREAD, "sink", WORD, OF(sink_token)},
    {LIPSC_ROW_SPREAD, "mass", SHARE, OF(sink)},
    {LIPSC_ROW_SINK, "it alone", REAL, OF(sink_norm)},
    {LIPSC_ROW_SINK, "the rest", REAL, OF(rest_norm)},
    {LIPSC_ROW_SPREAD, "entropy", REAL, OF(entropy)},
    {LIPSC_ROW_COUNT, "singular values", SIGMAS, 0},
};
enum { EXTRAS = sizeof extras / sizeof *extras };

static void put_extra(cli_grid *g, const view *v, const line *l, const extra *e) {
    const size_t longest = v->lengths[v->length_count - 1];
    const lipsc_row *row = worst(v, l);
    switch (e->kind) {
    case REAL:
        cli_grid_number(g, median_of(v, l, longest, e->offset));
        break;
    case SHARE: {
        char text[CLI_NUMBER];
        const double share = 100.0 * median_of(v, l, longest, e->offset) / (double)longest;
        cli_grid_text(g, "%s %%", cli_decimals(share, 1, text));
        break;
    }
    case WORD:
        put_word(g, v, row,
                 row ? *(const size_t *)(const void *)((const char *)row + e->offset)
                     : LIPSC_NONE);
        break;
    case CERTIFIED:
        put_certified(g, v, l);
        break;
    case SIGMAS:
        put_sigmas(g, v, l);
        break;
    }
}

static void say_extras(const view *v, const cli_screen *screen, unsigned parts) {
    const size_t longest = v->lengths[v->length_count - 1];
    putchar('\n');
    cli_say(screen, "At n = %zu, medians%s:", longest,
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
    cli_grid_column columns[PLACES + EXTRAS];
    const size_t places = place_columns(v, columns);
    size_t count = places;
    for (size_t e = 0; e < EXTRAS; e++)
        if (extras[e].part & parts)
            columns[count++] = (cli_grid_column){
                extras[e].name,
                extras[e].kind == REAL || extras[e].kind == SHARE ? CLI_POINT : CLI_LEFT};
    if (count == places) return LIPSC_OK;
    say_extras(v, screen, parts);
    cli_grid *g = cli_grid_new(count, columns);
    for (size_t i = 0; i < v->line_count; i++) {
        put_place(g, v, &v->lines[i]);
        for (size_t e = 0; e < EXTRAS; e++)
            if (extras[e].part & parts) put_extra(g, v, &v->lines[i], &extras[e]);
    }
    const lipsc_status status = cli_grid_print(screen, g, places);
    cli_grid_free(g);
    if (!status) explain_extras(screen, parts);
    return status;
}

/* ---- Together ------------------------------------------------------------------------ */

lipsc_status measure_table(const measure_settings *set, unsigned parts, lipsc_study *study,
                           const lipsc_growths *laws) {
    const cli_screen screen = cli_screen_open();
    size_t count;
    const lipsc_row *const *rows = lipsc_study_rows(study, &count);
    if (!rows) return LIPSC_E_NOMEM;
    if (!count) return LIPSC_OK;
    view v = {.set = set,
              .rows = rows,
              .row_count = count,
              .lengths = calloc(count, sizeof *v.lengths),
              .lines = calloc(count, sizeof *v.lines),
              .values = calloc(count, sizeof *v.values),
              .windows = set->windows && strpbrk(set->windows, ":,"),
              .source = lipsc_study_source(study)};
    lipsc_status status = v.lengths && v.lines && v.values ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) {
        find_lengths(&v);
        find_lines(&v, laws);
        v.tokenizer = cli_words_open(&set->source, rows[0]->model);
        introduce(&v, &screen);
        status = print_lengths(&v, &screen);
        if (!status) explain(&v, &screen);
        if (!status) status = print_extras(&v, &screen, parts);
    }
    lipsc_tokenizer_free(v.tokenizer);
    free(v.lengths);
    free(v.lines);
    free(v.values);
    return status;
}
