/* attack_table.c - the worst inputs on standard output: rows, or for people sigma of the
 * text itself beside sigma found, and which words were moved most. */
#include "attack_table.h"

#include <math.h>
#include <string.h>

#include "rows.h"
#include "screen.h"
#include "words.h"

typedef struct {
    const lipsc_attacks *found;
    const cli_place *set;
    const lipsc_place *place;
    size_t longest;
} view;

static const lipsc_attack_row *first_row(const view *v) {
    for (size_t i = 0; i < v->found->count; i++)
        if (v->found->rows[i].n != LIPSC_NONE) return &v->found->rows[i];
    return NULL;
}

/* Whether some row has the member: a column that is empty is left out. */
static int has(const view *v, size_t offset) {
    for (size_t i = 0; i < v->found->count; i++) {
        const lipsc_attack_row *r = &v->found->rows[i];
        if (r->n != LIPSC_NONE &&
            isfinite(*(const double *)(const void *)((const char *)r + offset)))
            return 1;
    }
    return 0;
}

#define HAS(v, member) has(v, offsetof(lipsc_attack_row, member))

/* ---- The sentence above -------------------------------------------------------------- */

static void say_domain(const lipsc_attack_row *r, char text[200]) {
    char mean[80] = "";
    if (isfinite(r->relative))
        snprintf(mean, sizeof mean, ", %.3g of the mean token of the input given",
                 r->relative);
    if (!strcmp(r->domain, "around"))
        snprintf(text, 200, "no token further than %.4g from where it was%s", r->radius,
                 mean);
    else if (!strcmp(r->domain, "norm"))
        snprintf(text, 200, "tokens that the norm in front of the layer gives");
    else
        snprintf(text, 200, "tokens %s %.4g long%s",
                 strcmp(r->domain, "sphere") ? "at most" : "exactly", r->radius, mean);
}

static void introduce(const view *v, const cli_screen *screen, const char *from,
                      int masses) {
    char words[CLI_PLACE_WORDS], domain[200];
    say_domain(first_row(v), domain);
    cli_say(screen, "%s: the worst input that was found, %s%s.",
            cli_place_words(v->set, from, v->place, words), domain,
            masses ? ", masses sought too" : "");
    putchar('\n');
}

/* ---- The table ----------------------------------------------------------------------- */

static void put_row(cli_grid *g, const view *v, const lipsc_attack_row *r) {
    cli_grid_text(g, "%zu", r->n);
    if (HAS(v, given)) {
        cli_grid_number(g, r->given);
        cli_grid_number(g, r->sigma);
        cli_grid_number(g, r->sigma / r->given);
    } else {
        cli_grid_number(g, r->sigma);
    }
    if (HAS(v, best_construction)) cli_grid_number(g, r->best_construction);
    if (HAS(v, upper)) cli_grid_up(g, r->upper);
    cli_grid_text(g, "%s", r->start ? r->start : "-");
}

static lipsc_status print_rows(const view *v, const cli_screen *screen) {
    cli_grid_column columns[8];
    size_t count = 0;
    columns[count++] = (cli_grid_column){"n", CLI_RIGHT};
    if (HAS(v, given)) columns[count++] = (cli_grid_column){"sigma given", CLI_POINT};
    columns[count++] =
        (cli_grid_column){HAS(v, given) ? "found" : "sigma found", CLI_POINT};
    if (HAS(v, given)) columns[count++] = (cli_grid_column){"factor", CLI_POINT};
    if (HAS(v, best_construction))
        columns[count++] = (cli_grid_column){"construction", CLI_POINT};
    if (HAS(v, upper)) columns[count++] = (cli_grid_column){"bound", CLI_POINT};
    columns[count++] = (cli_grid_column){"climbed from", CLI_LEFT};
    cli_grid *g = cli_grid_new(count, columns);
    for (size_t i = 0; i < v->found->count; i++)
        if (v->found->rows[i].n != LIPSC_NONE) put_row(g, v, &v->found->rows[i]);
    const lipsc_status status = cli_grid_print(screen, g, 1);
    cli_grid_free(g);
    return status;
}

static void explain(const view *v, const cli_screen *screen) {
    putchar('\n');
    if (HAS(v, given))
        cli_say(screen, "sigma given: at the input itself; factor: found / given");
    if (HAS(v, best_construction))
        cli_say(screen, "construction: the best of the known worst cases of such layers");
    if (HAS(v, upper)) cli_say(screen, "bound: proved, no input of this domain does more");
}

/* ---- Words --------------------------------------------------------------------------- */

typedef enum { MOST, LEAST } side;

/* The token moved most or least among those that are not taken yet; LIPSC_NONE: none. */
static size_t next_moved(const lipsc_attack_row *r, side of, size_t taken_count,
                         const size_t *taken) {
    const double alike = 1.001; /* as far: in the order of the text */
    const double *moved = r->moved.at;
    size_t best = LIPSC_NONE;
    for (size_t i = 0; i < r->moved.count; i++) {
        int used = of == MOST && !(moved[i] > 0.0);
        for (size_t k = 0; k < taken_count; k++) used |= taken[k] == i;
        if (!used && (best == LIPSC_NONE || (of == MOST ? moved[i] > alike * moved[best]
                                                        : alike * moved[i] < moved[best])))
            best = i;
    }
    return best;
}

/* The tokens that went as far as they may: among them none goes furthest. */
static size_t at_limit(const lipsc_attack_row *r) {
    size_t count = 0;
    if (strcmp(r->domain, "around") || !(r->radius > 0.0)) return 0;
    for (size_t i = 0; i < r->moved.count; i++) count += r->moved.at[i] >= 0.99 * r->radius;
    return count;
}

enum { SHOWN = 5, ROOM = 600 };

/* "token 3 "er" by 0.12; ...", at most so many; empty: none was moved */
static void list_moved(const view *v, const lipsc_attack_row *r,
                       const lipsc_tokenizer *tokenizer, side of, size_t most,
                       char text[ROOM]) {
    const lipsc_source *source = lipsc_place_source(v->place);
    size_t taken[SHOWN];
    char word[CLI_WORD], far[CLI_NUMBER];
    *text = '\0';
    for (size_t count = 0; count < SHOWN && count < most; count++) {
        const size_t i = taken[count] = next_moved(r, of, count, taken);
        const size_t used = strlen(text);
        if (i == LIPSC_NONE) return;
        *word = '\0';
        if (source && source->ids)
            cli_word(tokenizer,
                     lipsc_window_id(source,
                                     lipsc_window_start(&v->set->source, v->longest, r->n,
                                                        v->set->window),
                                     r->n, i),
                     word);
        snprintf(text + used, ROOM - used, "%stoken %zu%s%s by %s", count ? "; " : "", i,
                 *word ? " " : "", word, cli_digits(r->moved.at[i], 3, far));
    }
}

static void say_moved(const view *v, const cli_screen *screen, const lipsc_attack_row *r,
                      const lipsc_tokenizer *tokenizer) {
    const size_t n = r->moved.count, limit = at_limit(r);
    const side of = limit > SHOWN ? LEAST : MOST;
    char text[ROOM];
    list_moved(v, r, tokenizer, of, of == LEAST ? n - limit : n, text);
    if (limit == n)
        cli_say(screen, "At n = %zu every token was moved as far as it may.", r->n);
    else if (of == LEAST)
        cli_say(screen,
                "At n = %zu %zu tokens were moved as far as they may; moved least: %s.",
                r->n, limit, text);
    else if (*text)
        cli_say(screen, "Moved most at n = %zu: %s.", r->n, text);
}

/* An input that was built elsewhere has moved no token. */
static int came_from_given(const lipsc_attack_row *r) {
    return !strcmp(r->domain, "around") || (r->start && !strcmp(r->start, "data"));
}

static void say_words(const view *v, const cli_screen *screen, const char *from) {
    lipsc_tokenizer *tokenizer = NULL;
    int begun = 0;
    if (lipsc_place_source(v->place)) tokenizer = cli_words_open(&v->set->source, from);
    for (size_t i = 0; i < v->found->count; i++) {
        const lipsc_attack_row *r = &v->found->rows[i];
        if (r->n == LIPSC_NONE || !r->moved.count || !came_from_given(r)) continue;
        if (!begun++) putchar('\n');
        say_moved(v, screen, r, tokenizer);
    }
    lipsc_tokenizer_free(tokenizer);
}

/* ---- Growth -------------------------------------------------------------------------- */

/* One value for each length has no interval, and a slope without a straight line is no
 * law. */
static void say_growth(const cli_screen *screen, const lipsc_growth *law) {
    putchar('\n');
    if (law->law > 0)
        cli_say(screen, "sigma ~ %.4g n^%.4g over %zu lengths, each with one input",
                law->coefficient, law->exponent, law->lengths);
    else
        cli_say(screen,
                "no power law: slope %.4g over %zu lengths, but the local slopes are more "
                "than 0.15 apart",
                law->exponent, law->lengths);
}

static lipsc_status print_people(const view *v, const char *from, int masses) {
    const cli_screen screen = cli_screen_open();
    introduce(v, &screen, from, masses);
    const lipsc_status status = print_rows(v, &screen);
    if (status) return status;
    explain(v, &screen);
    say_words(v, &screen, from);
    if (v->found->has_law) say_growth(&screen, &v->found->law);
    return LIPSC_OK;
}

/* ---- For programs -------------------------------------------------------------------- */

/* Members of the JSON object behind the fits. */
#define CASE_LIST(X)                                         \
    X(measure, FLAG, 0, 0, "", "masses were sought as well") \
    X(special, FLAG, 0, 0, "", "special tokens stand around the windows")

typedef struct {
    CASE_LIST(LIPSC_FIELD_MEMBER)
} record;
static const lipsc_field case_fields[] = {CASE_LIST(LIPSC_FIELD_ENTRY)};

static int print_records(const cli_command *self, const cli_place *set, int masses,
                         const lipsc_attacks *found) {
    cli_rows rows;
    cli_rows_begin(&rows, self, &set->common, LIPSC_LAYOUT_WIDE, lipsc_attack_fields(), 0);
    for (size_t i = 0; i < found->count; i++)
        if (found->rows[i].n != LIPSC_NONE) cli_rows_add(&rows, &found->rows[i]);
    lipsc_table_list(rows.table, "fits", lipsc_growth_fields(), (size_t)found->has_law,
                     sizeof found->law, &found->law);
    lipsc_table_members(rows.table, CLI_FIELDS(case_fields),
                        &(record){masses, set->source.special});
    return cli_rows_end(&rows);
}

/* ---- Together ------------------------------------------------------------------------ */

/* Of the lengths asked for, or of those that are finished. */
static size_t longest(const lipsc_attacks_settings *asked, const lipsc_attacks *found) {
    size_t most = 0;
    if (asked->lengths.count) return asked->lengths.at[asked->lengths.count - 1];
    for (size_t i = 0; i < found->count; i++)
        if (found->rows[i].n != LIPSC_NONE && found->rows[i].n > most)
            most = found->rows[i].n;
    return most;
}

int attack_print(const cli_command *self, const cli_place *set, const char *from,
                 const lipsc_place *place, const lipsc_attacks_settings *asked, int rows,
                 const lipsc_attacks *found) {
    const view v = {found, set, place, longest(asked, found)};
    const int masses = asked->atoms > 0;
    if (!first_row(&v)) return CLI_DONE;
    if (rows || set->common.format != LIPSC_FORMAT_TABLE)
        return print_records(self, set, masses, found);
    return print_people(&v, from, masses) ? cli_failure(self, "out of memory") : CLI_DONE;
}
