/* compare.c - ratios of sigma between two sets of rows, with intervals over starts. */
#include "lipscope/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/median.h"
#include "core/mem.h"
#include "core/pool.h"
#include "row/row.h"
#include "run/distribution.h"
#include "run/rows_file.h"

/* What a value of a solve is good to, relative: twice this between two of them. */
static const double value_error = 1e-6;

typedef lipsc_change record;
static const lipsc_field fields[] = {LIPSC_CHANGE_LIST(LIPSC_FIELD_ENTRY)};

lipsc_fields lipsc_change_fields(void) {
    return (lipsc_fields){sizeof fields / sizeof *fields, fields};
}

/* ---- Order: curve, start, length ---------------------------------------------------- */

static int order_text(const char *a, const char *b) {
    return strcmp(a ? a : "", b ? b : "");
}

static int by_curve(const lipsc_row *a, const lipsc_row *b) {
    int o = order_text(a->map, b->map);
    if (!o) o = lipsc_place_order(a->layer, b->layer);
    return o ? o : lipsc_place_order(a->head, b->head);
}

static int by_start(const lipsc_row *a, const lipsc_row *b) {
    const int o = order_text(a->text_hash, b->text_hash);
    return o ? o : lipsc_place_order(a->start, b->start);
}

static int by_place(const void *a, const void *b) {
    const lipsc_row *x = *(const lipsc_row *const *)a, *y = *(const lipsc_row *const *)b;
    int o = by_curve(x, y);
    if (!o) o = by_start(x, y);
    if (!o) o = lipsc_place_order(x->n, y->n);
    return o ? o : order_text(x->model, y->model);
}

static int usable(const lipsc_row *row) {
    return row->n != LIPSC_NONE && isfinite(row->sigma) && row->sigma > 0.0;
}

/* *count: of those that are usable. */
static const lipsc_row **sorted(size_t *count, const lipsc_row *rows) {
    const lipsc_row **out = lipsc_alloc(*count, sizeof *out);
    size_t used = 0;
    for (size_t i = 0; out && i < *count; i++)
        if (usable(&rows[i])) out[used++] = &rows[i];
    if (used) qsort(out, used, sizeof *out, by_place);
    *count = used;
    return out;
}

/* ---- One curve ---------------------------------------------------------------------- */

typedef struct {
    size_t count;
    const lipsc_row *const *rows; /* of one curve, by start and length */
} side;

static int has_length(const side *s, size_t n) {
    for (size_t i = 0; i < s->count; i++)
        if (s->rows[i]->n == n) return 1;
    return 0;
}

/* The lengths that both sides have, rising; room for before->count. */
static size_t common_lengths(const side *before, const side *after, size_t *lengths) {
    size_t used = 0;
    for (size_t i = 0; i < before->count; i++) {
        const size_t n = before->rows[i]->n;
        size_t at = 0;
        while (at < used && lengths[at] < n) at++;
        if ((at < used && lengths[at] == n) || !has_length(after, n)) continue;
        memmove(lengths + at + 1, lengths + at, (used - at) * sizeof *lengths);
        lengths[at] = n;
        used++;
    }
    return used;
}

/* Rows from `at` on that share its start. */
static size_t start_length(const side *s, size_t at) {
    size_t length = 1;
    while (at + length < s->count && !by_start(s->rows[at], s->rows[at + length])) length++;
    return length;
}

/* Mean of ln sigma over all the lengths at the start that begins at `at`; NaN when one is
 * missing. */
static double start_mean(const side *s, size_t at, size_t count, size_t lengths,
                         const size_t *length) {
    double sum = 0.0;
    for (size_t l = 0; l < lengths; l++) {
        size_t i = at;
        while (i < at + count && s->rows[i]->n != length[l]) i++;
        if (i == at + count) return NAN;
        sum += log(s->rows[i]->sigma);
    }
    return sum / (double)lengths;
}

typedef struct {
    size_t count;
    const lipsc_row **first; /* a row of each start that has every length */
    double *mean;
} starts;

static int find_starts(const side *s, size_t lengths, const size_t *length, starts *out) {
    *out = (starts){0, lipsc_alloc(s->count, sizeof *out->first),
                    lipsc_alloc(s->count, sizeof *out->mean)};
    if (!out->first || !out->mean) return 0;
    for (size_t at = 0, count; at < s->count; at += count) {
        count = start_length(s, at);
        const double mean = start_mean(s, at, count, lengths, length);
        if (isnan(mean)) continue;
        out->first[out->count] = s->rows[at];
        out->mean[out->count++] = mean;
    }
    return 1;
}

static void free_starts(starts *s) {
    lipsc_release(s->first);
    lipsc_release(s->mean);
}

static double mean_of(size_t count, const double *x) {
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) sum += x[i];
    return sum / (double)count;
}

/* Of the mean: variance over count. */
static double spread_of(size_t count, const double *x) {
    const double mean = mean_of(count, x);
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) sum += (x[i] - mean) * (x[i] - mean);
    return sum / ((double)(count - 1) * (double)count);
}

static void set_interval(double mean, double variance, double freedom, lipsc_change *out) {
    const double half =
        lipsc_student_quantile(freedom, 0.05) * sqrt(variance) + 2.0 * value_error;
    out->ratio_low = exp(mean - half);
    out->ratio_high = exp(mean + half);
}

/* Both have the same starts: the differences in place of b->mean. */
static int pair_up(const starts *a, starts *b) {
    if (a->count != b->count) return 0;
    for (size_t i = 0; i < a->count; i++)
        if (by_start(a->first[i], b->first[i])) return 0;
    for (size_t i = 0; i < a->count; i++) b->mean[i] -= a->mean[i];
    return 1;
}

static void judge(lipsc_change *out) {
    if (!isfinite(out->ratio_low))
        out->verdict = "too few starts to say";
    else if (out->ratio_low > 1.0)
        out->verdict = "larger";
    else if (out->ratio_high < 1.0)
        out->verdict = "smaller";
    else
        out->verdict = "no change shown";
}

static void compare_starts(const starts *a, starts *b, lipsc_change *out) {
    const int paired = pair_up(a, b);
    const size_t fewer = a->count < b->count ? a->count : b->count;
    out->paired = paired;
    out->starts = fewer;
    if (fewer) {
        const double mean =
            mean_of(b->count, b->mean) - (paired ? 0.0 : mean_of(a->count, a->mean));
        out->ratio = exp(mean);
        if (fewer >= LIPSC_COMPARE_STARTS && paired)
            set_interval(mean, spread_of(b->count, b->mean), (double)(fewer - 1), out);
        if (fewer >= LIPSC_COMPARE_STARTS && !paired) {
            const double va = spread_of(a->count, a->mean),
                         vb = spread_of(b->count, b->mean), v = va + vb;
            const double freedom = v > 0.0 ? v * v /
                                                 (va * va / (double)(a->count - 1) +
                                                  vb * vb / (double)(b->count - 1))
                                           : (double)(fewer - 1);
            set_interval(mean, v, freedom, out);
        }
    }
    judge(out);
}

/* Median over windows at length n; room for s->count. */
static double median_at(const side *s, size_t n, double *room) {
    size_t count = 0;
    for (size_t i = 0; i < s->count; i++)
        if (s->rows[i]->n == n) room[count++] = s->rows[i]->sigma;
    return lipsc_median(count, room);
}

/* 1: a change; 0: no length in common; -1: memory is short. */
static int compare_curve(const side *before, const side *after, lipsc_change *out) {
    size_t *lengths = lipsc_alloc(before->count, sizeof *lengths);
    double *room = lipsc_alloc(before->count + after->count, sizeof *room);
    starts a = {0}, b = {0};
    int found = lengths && room ? 1 : -1;
    const size_t count = found > 0 ? common_lengths(before, after, lengths) : 0;
    if (found > 0 && !count) found = 0;
    if (found > 0 && (!find_starts(before, count, lengths, &a) ||
                      !find_starts(after, count, lengths, &b)))
        found = -1;
    if (found > 0) {
        lipsc_fields_clear(lipsc_change_fields(), out);
        out->layer = before->rows[0]->layer;
        out->head = before->rows[0]->head;
        out->map = before->rows[0]->map;
        out->lengths = count;
        out->n = lengths[count - 1];
        out->before = median_at(before, out->n, room);
        out->after = median_at(after, out->n, room);
        compare_starts(&a, &b, out);
    }
    free_starts(&a);
    free_starts(&b);
    lipsc_release(lengths);
    lipsc_release(room);
    return found;
}

/* ---- All of them -------------------------------------------------------------------- */

static side curve_at(size_t count, const lipsc_row *const *rows, size_t at) {
    side s = {.count = 0, .rows = rows + at};
    while (at + s.count < count && !by_curve(rows[at], rows[at + s.count])) s.count++;
    return s;
}

static lipsc_status compare_all(size_t m, const lipsc_row *const *a, size_t n,
                                const lipsc_row *const *b, size_t *count,
                                lipsc_change *changes) {
    for (size_t i = 0, j = 0; i < m && j < n;) {
        const int order = by_curve(a[i], b[j]);
        const side before = curve_at(m, a, i), after = curve_at(n, b, j);
        if (!order) {
            const int found = compare_curve(&before, &after, &changes[*count]);
            if (found < 0) return LIPSC_E_NOMEM;
            *count += (size_t)found;
        }
        if (order <= 0) i += before.count;
        if (order >= 0) j += after.count;
    }
    return LIPSC_OK;
}

lipsc_status lipsc_rows_compare(size_t before_count, const lipsc_row *before,
                                size_t after_count, const lipsc_row *after, size_t *count,
                                lipsc_change **changes, lipsc_error *err) {
    size_t m = before_count, n = after_count;
    const lipsc_row **a = sorted(&m, before), **b = sorted(&n, after);
    lipsc_change *found = lipsc_alloc(m, sizeof *found);
    lipsc_status status = a && b && found ? LIPSC_OK : LIPSC_E_NOMEM;
    *count = 0;
    if (!status) status = compare_all(m, a, n, b, count, found);
    if (status) lipsc_fail(err, status, "out of memory to compare %zu rows", m + n);
    if (!status && !*count)
        status = lipsc_fail(err, LIPSC_E_REFUSED,
                            "no layer, map and length that both have a value of");
    lipsc_release(a);
    lipsc_release(b);
    if (status) lipsc_release(found);
    *changes = status ? NULL : found;
    return status;
}

/* ---- Two run files ------------------------------------------------------------------- */

static size_t common_divisor(size_t x, size_t y) {
    while (y) {
        const size_t rest = x % y;
        x = y;
        y = rest;
    }
    return x;
}

static int same(const json_t *x, const json_t *y) {
    return x == y || (x && y && json_equal(x, y));
}

static void name_differences(const lipsc_rows_file *a, const lipsc_rows_file *b, char *room,
                             size_t size) {
    static const char *const names[][2] = {{"model_hash", "model"}, {"text_hash", "text"},
                                           {"mask", "mask"},        {"dtype", "dtype"},
                                           {"heads", "heads"},      {"stride", "stride"},
                                           {"tiled", "tiling"},     {"seed", "seed"}};
    size_t used = 0;
    *room = '\0';
    for (size_t i = 0; i < sizeof names / sizeof *names && used < size; i++)
        if (!same(lipsc_rows_file_setting(a, names[i][0]),
                  lipsc_rows_file_setting(b, names[i][0])))
            used += (size_t)snprintf(room + used, size - used, "%s%s", used ? ", " : "",
                                     names[i][1]);
}

static int keep_line(lipsc_pool *pool, const char *line, const char **kept) {
    *kept = line ? lipsc_pool_text(pool, line) : NULL;
    return !line || *kept;
}

/* The rows end with their files: the changes outlive them. */
static lipsc_status keep_texts(const lipsc_rows_file *a, const lipsc_rows_file *b,
                               lipsc_comparison *out, lipsc_error *err) {
    lipsc_pool *pool = lipsc_alloc_zero(1, sizeof *pool);
    int ok = pool != NULL;
    out->texts = pool;
    ok = ok && keep_line(pool, a->command_line, &out->before_line) &&
         keep_line(pool, b->command_line, &out->after_line);
    for (size_t i = 0; ok && i < out->count; i++) {
        const char *map = out->changes[i].map;
        out->changes[i].map = map ? lipsc_pool_text(pool, map) : NULL;
        ok = !map || out->changes[i].map;
    }
    if (ok) return LIPSC_OK;
    lipsc_comparison_free(out);
    return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory to compare rows");
}

static lipsc_status compare_files(const char *before, const lipsc_rows_file *a,
                                  const char *after, const lipsc_rows_file *b,
                                  lipsc_comparison *out, lipsc_error *err) {
    const json_t *x = lipsc_rows_file_setting(a, "map"),
                 *y = lipsc_rows_file_setting(b, "map");
    lipsc_error why;
    if (json_is_string(x) && json_is_string(y) && !json_equal(x, y))
        return lipsc_fail(err, LIPSC_E_REFUSED,
                          "%s is of the map %s, %s of the map %s: not the same", before,
                          json_string_value(x), after, json_string_value(y));
    const lipsc_status status = lipsc_rows_compare(a->count, a->rows, b->count, b->rows,
                                                   &out->count, &out->changes, &why);
    if (status) return lipsc_fail(err, status, "%s and %s: %s", before, after, why.text);
    for (size_t i = 0; i < out->count; i++) out->changes[i].run = after;
    name_differences(a, b, out->differ, sizeof out->differ);
    return keep_texts(a, b, out, err);
}

/* Of two runs of different lengths the windows that both samples have. */
static size_t take_common(lipsc_rows_file *a, lipsc_rows_file *b) {
    const size_t x = lipsc_rows_file_every(a), y = lipsc_rows_file_every(b);
    if (x != y) {
        lipsc_rows_file_thin(a, y);
        lipsc_rows_file_thin(b, x);
    }
    return x == y ? x : x / common_divisor(x, y) * y;
}

lipsc_status lipsc_runs_compare(const char *before, const char *after,
                                lipsc_comparison *out, lipsc_error *err) {
    lipsc_rows_file a = {0}, b = {0};
    *out = (lipsc_comparison){0};
    lipsc_status status = lipsc_rows_file_open_some(before, LIPSC_COMPARE_CELLS, &a, err);
    if (!status) status = lipsc_rows_file_open_some(after, LIPSC_COMPARE_CELLS, &b, err);
    const size_t every = status ? 1 : take_common(&a, &b);
    if (!status) status = compare_files(before, &a, after, &b, out, err);
    if (!status) out->every = every;
    lipsc_rows_file_close(&a);
    lipsc_rows_file_close(&b);
    return status;
}

void lipsc_comparison_free(lipsc_comparison *comparison) {
    if (comparison->texts) lipsc_pool_free(comparison->texts);
    lipsc_release(comparison->texts);
    lipsc_release(comparison->changes);
    *comparison = (lipsc_comparison){0};
}
