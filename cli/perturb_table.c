/* perturb_table.c - what changes of finite size do, on standard output: rows, or for people
 * a line for each layer, the same on a logarithmic scale, and what single words do to the
 * whole model. */
#include "perturb_table.h"

#include <math.h>
#include <string.h>

#include "rows.h"
#include "screen.h"
#include "words.h"

/* One layer, or the whole model: its noise, and the swap that is stretched most. */
typedef struct {
    size_t layer; /* SIZE_MAX: the whole model */
    const lipsc_perturbed *noise, *swap;
} line;

/* The row with the largest ratio of this change and layer; NULL: none. */
static const lipsc_perturbed *largest(const lipsc_perturbation_rows *rows, size_t layer,
                                      lipsc_change_kind change, double least, double most) {
    const lipsc_perturbed *best = NULL;
    for (size_t i = 0; i < rows->count; i++) {
        const lipsc_perturbed *r = &rows->at[i];
        if (r->layer != layer || r->change != change || !(r->ratio >= 0)) continue;
        if (!(r->step >= least && r->step <= most)) continue;
        if (!best || r->ratio > best->ratio) best = r;
    }
    return best;
}

/* The next layer's line behind row *at; 0: there is none. */
static int next_line(const lipsc_perturbation_rows *rows, double size, size_t *at,
                     line *out) {
    while (*at < rows->count) {
        const size_t layer = rows->at[*at].layer;
        while (*at < rows->count && rows->at[*at].layer == layer) ++*at;
        *out = (line){layer,
                      largest(rows, layer, LIPSC_CHANGE_NOISE, 0.99 * size, 1.01 * size),
                      largest(rows, layer, LIPSC_CHANGE_SWAP, 0, INFINITY)};
        if (out->noise || out->swap) return 1;
    }
    return 0;
}

static double sigma_of(const line *l) { return l->swap ? l->swap->sigma : l->noise->sigma; }

static void put_layer(cli_grid *g, size_t layer) {
    if (layer == SIZE_MAX)
        cli_grid_text(g, "model");
    else
        cli_grid_text(g, "%zu", layer);
}

/* ---- The table ----------------------------------------------------------------------- */

static lipsc_status print_lines(const cli_screen *screen,
                                const lipsc_perturbation_rows *rows, double size) {
    static const cli_grid_column columns[] = {
        {"layer", CLI_RIGHT}, {"sigma", CLI_POINT},     {"noise", CLI_POINT},
        {"swap", CLI_POINT},  {"predicted", CLI_POINT}, {"bound", CLI_POINT},
        {"step", CLI_POINT}};
    cli_grid *g = cli_grid_new(sizeof columns / sizeof *columns, columns);
    line l;
    for (size_t at = 0; next_line(rows, size, &at, &l);) {
        put_layer(g, l.layer);
        cli_grid_number(g, sigma_of(&l));
        cli_grid_number(g, l.noise ? l.noise->ratio : NAN);
        cli_grid_number(g, l.swap ? l.swap->ratio : NAN);
        cli_grid_number(g, l.swap ? l.swap->first : NAN);
        cli_grid_up(g, l.swap ? l.swap->upper : NAN);
        cli_grid_number(g, l.swap ? l.swap->step : NAN);
    }
    const lipsc_status status = cli_grid_print(screen, g, 1);
    cli_grid_free(g);
    return status;
}

/* ---- The chart ----------------------------------------------------------------------- */

enum { MOST_WIDE = 200 };

typedef struct {
    double low, high; /* powers of ten */
    size_t width;
} scale;

static size_t place_of(const scale *s, double x) {
    const double share = (log10(x) - s->low) / (s->high - s->low);
    return (size_t)lrint(share * (double)(s->width - 1));
}

static void mark(const scale *s, double x, char sign, char *text) {
    if (x > 0 && isfinite(x)) text[place_of(s, x)] = sign;
}

static void widen(scale *s, double x) {
    if (!(x > 0) || !isfinite(x)) return;
    const double below = floor(log10(x)), above = ceil(log10(x));
    if (below < s->low) s->low = below;
    if (above > s->high) s->high = above;
}

/* What a line has, in the order in which signs cover each other. */
static size_t values_of(const line *l, double values[4]) {
    values[0] = l->swap ? l->swap->upper : NAN;
    values[1] = l->noise ? l->noise->ratio : NAN;
    values[2] = l->swap ? l->swap->ratio : NAN;
    values[3] = sigma_of(l);
    return 4;
}

/* The powers of ten over their places. */
static void print_axis(const cli_screen *screen, const scale *s) {
    char text[MOST_WIDE + 16];
    memset(text, ' ', sizeof text);
    size_t end = 0;
    for (double p = s->low; p <= s->high; p++) {
        char number[CLI_NUMBER];
        snprintf(number, sizeof number, "%g", pow(10.0, p));
        const size_t length = strlen(number);
        size_t at = place_of(s, pow(10.0, p));
        if (at + length > s->width) at = s->width - length;
        if (end && at <= end) continue;
        memcpy(text + at, number, length);
        end = at + length;
    }
    printf("%s       %.*s%s\n", screen->faint, (int)end, text, screen->plain);
}

static void print_chart(const cli_screen *screen, const lipsc_perturbation_rows *rows,
                        double size) {
    static const char signs[] = "]o*|";
    enum { FRONT = 7 };
    scale s = {INFINITY, -INFINITY,
               (screen->width < MOST_WIDE ? screen->width : MOST_WIDE) - FRONT};
    double values[4];
    line l;
    for (size_t at = 0; next_line(rows, size, &at, &l);)
        for (size_t k = 0, n = values_of(&l, values); k < n; k++) widen(&s, values[k]);
    if (!(s.low <= s.high)) return;
    if (s.low == s.high) s.high = s.low + 1;
    putchar('\n');
    cli_say(screen, "o noise, * swap, | sigma, ] bound, on a logarithmic scale:");
    print_axis(screen, &s);
    for (size_t at = 0; next_line(rows, size, &at, &l);) {
        char text[MOST_WIDE + 1];
        memset(text, ' ', s.width);
        for (size_t k = 0, n = values_of(&l, values); k < n; k++)
            mark(&s, values[k], signs[k], text);
        size_t end = s.width;
        while (end && text[end - 1] == ' ') end--;
        if (l.layer == SIZE_MAX)
            printf("%5s  %.*s\n", "model", (int)end, text);
        else
            printf("%5zu  %.*s\n", l.layer, (int)end, text);
    }
}

/* ---- Words --------------------------------------------------------------------------- */

/* A percentage; "-" where there is none. */
static void put_share(cli_grid *g, double share) {
    char text[CLI_NUMBER];
    cli_grid_text(g, "%s%s", cli_decimals(100 * share, 2, text), isnan(share) ? "" : " %");
}

/* Tokens swapped, left out and written twice: how far the last hidden states of the others
 * move, and what the model says of the tokens behind them. */
static lipsc_status print_tokens(const cli_screen *screen,
                                 const lipsc_perturbation_rows *rows,
                                 const lipsc_tokenizer *tokenizer) {
    static const cli_grid_column columns[] = {
        {"outputs move", CLI_POINT}, {"logits move", CLI_POINT}, {"when", CLI_LEFT}};
    cli_grid *g = NULL;
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; i < rows->count; i++) {
        const lipsc_perturbed *r = &rows->at[i];
        char from[CLI_WORD], to[CLI_WORD];
        if (r->layer != SIZE_MAX || r->change == LIPSC_CHANGE_NOISE) continue;
        if (!g) g = cli_grid_new(sizeof columns / sizeof *columns, columns);
        cli_word(tokenizer, r->from, from);
        put_share(g, r->others);
        put_share(g, r->logits);
        if (r->change == LIPSC_CHANGE_SWAP)
            cli_grid_text(g, "token %zu, %s, becomes %s", r->token, from,
                          cli_word(tokenizer, r->to, to));
        else
            cli_grid_text(g, "token %zu, %s, is %s", r->token, from,
                          r->change == LIPSC_CHANGE_DROP ? "left out" : "written twice");
    }
    if (g) {
        putchar('\n');
        cli_say(screen,
                "Through the whole model, the outputs of the other tokens (the last hidden "
                "states) and their logits of the next token move by:");
        status = cli_grid_print(screen, g, 1);
    }
    cli_grid_free(g);
    return status;
}

static lipsc_status print_people(const lipsc_perturbation_rows *rows, double noise,
                                 const lipsc_tokenizer *tokenizer) {
    const cli_screen screen = cli_screen_open();
    cli_say(
        &screen,
        "How far changes of finite size are stretched, |f(X') - f(X)| / |X' - X|, beside "
        "sigma, which no small change exceeds: noise of %g of the input; of the swaps the "
        "one that is stretched most, with what the derivative predicts, the proved bound "
        "for every change of its size, and that size relative to the input.",
        noise);
    putchar('\n');
    lipsc_status status = print_lines(&screen, rows, noise);
    if (!status) print_chart(&screen, rows, noise);
    if (!status) status = print_tokens(&screen, rows, tokenizer);
    return status;
}

/* ---- Together ------------------------------------------------------------------------ */

static int print_records(const cli_command *self, const cli_common *common,
                         const lipsc_perturbation_rows *found,
                         const lipsc_tokenizer *tokenizer) {
    cli_rows rows;
    char from[CLI_WORD], to[CLI_WORD];
    cli_rows_begin(&rows, self, common, LIPSC_LAYOUT_WIDE, lipsc_perturbed_fields(), 0);
    for (size_t i = 0; i < found->count; i++) {
        const lipsc_perturbed_row row = lipsc_perturbed_row_of(
            &found->at[i], cli_word(tokenizer, found->at[i].from, from),
            cli_word(tokenizer, found->at[i].to, to));
        cli_rows_add(&rows, &row);
    }
    return cli_rows_end(&rows);
}

int perturb_print(const cli_command *self, const cli_common *common, int rows, double noise,
                  const lipsc_perturbation_rows *found, const lipsc_tokenizer *tokenizer) {
    if (rows || common->format != LIPSC_FORMAT_TABLE)
        return print_records(self, common, found, tokenizer);
    return print_people(found, noise > 0 ? noise : 1e-3, tokenizer)
               ? cli_failure(self, "%s", lipsc_strerror(LIPSC_E_NOMEM))
               : CLI_DONE;
}
