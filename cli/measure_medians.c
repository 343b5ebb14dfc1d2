/* measure_medians.c - medians of a study by layer and length, found while its rows go by.
 */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include "measure_medians.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OF(member) offsetof(lipsc_row, member)
const measure_extra measure_extras[MEASURE_EXTRAS] = {
    {LIPSC_ROW_CERTIFY, "certified", MEASURE_CERTIFIED, 0},
    {LIPSC_ROW_RELEASED, "released", MEASURE_REAL, OF(released)},
    {LIPSC_ROW_DETAILS, "token", MEASURE_WORD, OF(token)},
    {LIPSC_ROW_DETAILS, "alone", MEASURE_REAL, OF(token_norm)},
    {LIPSC_ROW_DETAILS, "from", MEASURE_WORD, OF(pair_from)},
    {LIPSC_ROW_DETAILS, "to", MEASURE_WORD, OF(pair_to)},
    {LIPSC_ROW_DETAILS, "pair", MEASURE_REAL, OF(pair_norm)},
    {LIPSC_ROW_SPREAD, "sink", MEASURE_WORD, OF(sink_token)},
    {LIPSC_ROW_SPREAD, "mass", MEASURE_SHARE, OF(sink)},
    {LIPSC_ROW_SINK, "it alone", MEASURE_REAL, OF(sink_norm)},
    {LIPSC_ROW_SINK, "the rest", MEASURE_REAL, OF(rest_norm)},
    {LIPSC_ROW_SPREAD, "entropy", MEASURE_REAL, OF(entropy)},
    {LIPSC_ROW_COUNT, "singular values", MEASURE_SIGMAS, 0},
};

/* Numbers of a row: sigma; of the longest windows also the bound, the extras and the
 * singular values. */
enum { SIGMA, BOUND, FIRST_EXTRA };

struct measure_collector {
    const measure_settings *set;
    measure_medians of;
    size_t line_room;
    size_t first;   /* line of the layer and head that go by        */
    size_t line, n; /* of the rows that are kept:                  */
    size_t count, room, column_room;
    double *values, *column; /* (count, width of n), (count)                 */
    int short_of_memory;
};

int measure_proves(const measure_settings *set) {
    return set->study.upper || set->study.certify > 0.0;
}

static int is_longest(const measure_collector *c, size_t n) {
    return n == c->of.lengths[c->of.length_count - 1];
}

static size_t width_at(const measure_collector *c, size_t n) {
    return is_longest(c, n) ? FIRST_EXTRA + MEASURE_EXTRAS + c->set->study.count
                            : SIGMA + 1;
}

/* ---- Places in sorted lists --------------------------------------------------------- */

/* The first of count items, as long as size, whose key is not below: keys ascend. */
static size_t place_of(size_t key, size_t count, const void *keys, size_t size) {
    size_t low = 0;
    while (low < count) {
        const size_t middle = low + (count - low) / 2;
        if (*(const size_t *)(const void *)((const char *)keys + middle * size) < key)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

/* Room for count items, and by half more where it grows; NULL: the list is as it was. */
static void *grown(void *list, size_t count, size_t *room, size_t size) {
    if (count <= *room) return list;
    const size_t more = count + count / 2 + 8;
    if (more > SIZE_MAX / size) return NULL;
    void *next = realloc(list, more * size);
    if (next) *room = more;
    return next;
}

static int find_lengths(measure_medians *of, const lipsc_study *study) {
    size_t room = 0;
    for (size_t i = 0; i < lipsc_study_count(study); i++) {
        const lipsc_cell cell = lipsc_study_cell(study, i);
        const size_t count = of->length_count;
        const size_t at = place_of(cell.n, count, of->lengths, sizeof *of->lengths);
        if (!cell.finished || (at < count && of->lengths[at] == cell.n)) continue;
        size_t *next = grown(of->lengths, count + 1, &room, sizeof *next);
        if (!next) return 0;
        memmove(next + at + 1, next + at, (count - at) * sizeof *next);
        next[at] = cell.n;
        of->lengths = next;
        of->length_count++;
    }
    return 1;
}

/* ---- Lines -------------------------------------------------------------------------- */

static int fill_line(const measure_collector *c, const lipsc_row *row, size_t window,
                     measure_line *l) {
    *l = (measure_line){.layer = row->layer,
                        .head = row->head,
                        .window = window,
                        .at = calloc(c->of.length_count, sizeof *l->at),
                        .bound = NAN,
                        .sigmas = calloc(c->set->study.count + 1, sizeof *l->sigmas),
                        .largest = -INFINITY};
    if (!l->at || !l->sigmas) {
        free(l->at);
        free(l->sigmas);
        return 0;
    }
    for (size_t k = 0; k < c->of.length_count; k++) l->at[k].sigma = NAN;
    for (size_t k = 0; k < c->set->study.count; k++) l->sigmas[k] = NAN;
    for (size_t e = 0; e < MEASURE_EXTRAS; e++)
        if (measure_extras[e].kind == MEASURE_WORD)
            l->extra[e].token = LIPSC_NONE;
        else
            l->extra[e].median = NAN;
    return 1;
}

/* The line of a row, made where it is the first; 0: out of memory. */
static int find_line(measure_collector *c, const lipsc_row *row, size_t *line) {
    measure_medians *of = &c->of;
    const size_t window = of->by_window ? row->window : LIPSC_NONE;
    const measure_line *last = of->line_count ? &of->lines[of->line_count - 1] : NULL;
    if (!last || last->layer != row->layer || last->head != row->head)
        c->first = of->line_count;
    const size_t own = of->line_count - c->first;
    const size_t at =
        c->first +
        (own ? place_of(window, own, &of->lines[c->first].window, sizeof *last) : 0);
    *line = at;
    if (at < of->line_count && of->lines[at].window == window) return 1;
    measure_line *next = grown(of->lines, of->line_count + 1, &c->line_room, sizeof *next);
    if (!next) return 0;
    of->lines = next;
    memmove(next + at + 1, next + at, (of->line_count - at) * sizeof *next);
    of->line_count++;
    if (fill_line(c, row, window, &next[at])) return 1;
    of->line_count--;
    memmove(next + at, next + at + 1, (of->line_count - at) * sizeof *next);
    return 0;
}

/* ---- Rows --------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of one column of the rows that were kept; NaN where one of them is not finite. */
static double median(const measure_collector *c, size_t width, size_t column) {
    for (size_t i = 0; i < c->count; i++) {
        c->column[i] = c->values[i * width + column];
        if (!isfinite(c->column[i])) return NAN;
    }
    qsort(c->column, c->count, sizeof *c->column, by_value);
    return 0.5 * (c->column[(c->count - 1) / 2] + c->column[c->count / 2]);
}

/* The rows that were kept become medians of their line; 0: out of memory. */
static int finish(measure_collector *c) {
    if (!c->count) return 1;
    double *column = grown(c->column, c->count, &c->column_room, sizeof *column);
    if (!column) return 0;
    c->column = column;
    const measure_medians *of = &c->of;
    const size_t k = place_of(c->n, of->length_count, of->lengths, sizeof *of->lengths);
    const size_t width = width_at(c, c->n);
    measure_line *l = &of->lines[c->line];
    l->at[k].sigma = median(c, width, SIGMA);
    l->at[k].windows = c->count;
    if (is_longest(c, c->n)) {
        l->bound = median(c, width, BOUND);
        for (size_t e = 0; e < MEASURE_EXTRAS; e++)
            if (measure_extras[e].kind != MEASURE_WORD)
                l->extra[e].median = median(c, width, FIRST_EXTRA + e);
        for (size_t s = 0; s < c->set->study.count; s++)
            l->sigmas[s] = median(c, width, FIRST_EXTRA + MEASURE_EXTRAS + s);
    }
    c->count = 0;
    return 1;
}

static const void *member(const lipsc_row *row, size_t offset) {
    return (const char *)row + offset;
}

/* What is kept of a row of the longest windows. */
static void keep_longest(const measure_collector *c, const lipsc_row *row, measure_line *l,
                         double *to) {
    const int larger = row->sigma > l->largest;
    to[BOUND] = measure_proves(c->set) ? row->upper : row->upper_prob;
    if (larger) {
        l->largest = row->sigma;
        l->start = row->start;
    }
    for (size_t e = 0; e < MEASURE_EXTRAS; e++) {
        const measure_extra *x = &measure_extras[e];
        const int real = x->kind == MEASURE_REAL || x->kind == MEASURE_SHARE;
        to[FIRST_EXTRA + e] = real ? *(const double *)member(row, x->offset) : NAN;
        if (x->kind == MEASURE_WORD && larger)
            l->extra[e].token = *(const size_t *)member(row, x->offset);
    }
    for (size_t s = 0; s < c->set->study.count; s++)
        to[FIRST_EXTRA + MEASURE_EXTRAS + s] =
            s < row->sigmas.count ? row->sigmas.at[s] : NAN;
}

static int begin(measure_medians *of, const lipsc_row *row) {
    of->model = strdup(row->model);
    of->map = strdup(row->map);
    of->mask = strdup(row->mask);
    of->probability = row->probability;
    return of->model && of->map && of->mask;
}

static int same_group(const measure_collector *c, const lipsc_row *row) {
    const measure_line *l = &c->of.lines[c->line];
    return row->layer == l->layer && row->head == l->head && row->n == c->n &&
           !c->of.by_window;
}

static int collect(measure_collector *c, const lipsc_row *row) {
    measure_medians *of = &c->of;
    const size_t width = width_at(c, row->n);
    if (!of->row_count && !begin(of, row)) return 0;
    if (c->count && !same_group(c, row) && !finish(c)) return 0;
    if (!find_line(c, row, &c->line)) return 0;
    double *values = grown(c->values, (c->count + 1) * width, &c->room, sizeof *values);
    if (!values) return 0;
    measure_line *l = &of->lines[c->line];
    c->values = values;
    c->n = row->n;
    values[c->count * width + SIGMA] = row->sigma;
    if (is_longest(c, row->n)) keep_longest(c, row, l, values + c->count * width);
    c->count++;
    of->row_count++;
    of->by_head |= row->head != LIPSC_NONE;
    of->mixed_masks |= strcmp(row->mask, of->mask) != 0;
    of->loose += row->converged != 1;
    l->cells++;
    l->closed += row->certified == 1;
    return 1;
}

void measure_collect(measure_collector *c, const lipsc_row *row) {
    if (!c->short_of_memory) c->short_of_memory = !collect(c, row);
}

/* ---- Together ------------------------------------------------------------------------ */

measure_collector *measure_collector_new(const measure_settings *set,
                                         const lipsc_study *study) {
    measure_collector *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->set = set;
    c->of.by_window = set->typed.windows && strpbrk(set->typed.windows, ":,");
    c->short_of_memory = !find_lengths(&c->of, study);
    return c;
}

const measure_medians *measure_collected(measure_collector *c) {
    if (!c->short_of_memory) c->short_of_memory = !finish(c);
    return c->short_of_memory ? NULL : &c->of;
}

void measure_collector_free(measure_collector *c) {
    if (!c) return;
    for (size_t i = 0; i < c->of.line_count; i++) {
        free(c->of.lines[i].at);
        free(c->of.lines[i].sigmas);
    }
    free(c->of.lines);
    free(c->of.lengths);
    free(c->of.model);
    free(c->of.map);
    free(c->of.mask);
    free(c->values);
    free(c->column);
    free(c);
}
