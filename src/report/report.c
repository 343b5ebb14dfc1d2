/* report.c - run files -> JSON -> the embedded page with that JSON in it.
 *
 * A run becomes one object: what it says of itself, the fields that are the same in all of
 * its rows (`same`), the others as columns of values in the order of the rows, and its
 * fits.  Columns keep 20,000 rows near 3 MB, a third of what objects would take.
 *
 * The JSON stands in a <script type="application/json">, which ends at the first "</script"
 * whatever quotes surround it.  "<" occurs in JSON only inside strings, where \u003c means
 * the same: with it written so no text of a file can leave the element. */
#define _POSIX_C_SOURCE 200809L
#include "lipscope/report.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/error.h"
#include "core/mem.h"
#include "core/plain.h"
#include "io/replace.h"
#include "out/table.h"
#include "report/changes.h"
#include "report/made.h"
#include "report/words.h"
#include "run/growth.h"
#include "run/rows_file.h"

extern const unsigned char lipsc_report_page[];
extern const size_t lipsc_report_page_size;

/* ---- Rows to columns ---------------------------------------------------------------- */

/* The names of all fields, in the order in which they first appear. */
static json_t *field_names(size_t count, json_t *const *rows) {
    json_t *seen = json_object(), *names = json_array();
    int bad = !seen || !names;
    for (size_t i = 0; i < count; i++) {
        const char *name;
        json_t *value;
        json_object_foreach(rows[i], name, value) {
            if (json_object_get(seen, name)) continue;
            bad |= json_object_set_new(seen, name, json_true());
            bad |= json_array_append_new(names, json_string(name));
        }
    }
    json_decref(seen);
    if (!bad) return names;
    json_decref(names);
    return NULL;
}

static int is_same(size_t count, json_t *const *rows, const char *name) {
    const json_t *first = json_object_get(rows[0], name);
    for (size_t i = 1; i < count; i++) {
        const json_t *value = json_object_get(rows[i], name);
        if (value != first && !(value && first && json_equal(value, first))) return 0;
    }
    return 1;
}

/* 0, or -1 when memory ran out. */
static int add_columns(json_t *run, size_t count, json_t *const *rows) {
    json_t *names = field_names(count, rows), *same = json_object(),
           *columns = json_object(), *name;
    int bad = 0;
    size_t at;
    json_array_foreach(names, at, name) {
        const char *field = json_string_value(name);
        if (is_same(count, rows, field)) {
            bad |= json_object_set(same, field, json_object_get(rows[0], field));
            continue;
        }
        json_t *column = json_array();
        for (size_t i = 0; i < count; i++) {
            json_t *value = json_object_get(rows[i], field);
            bad |= json_array_append(column, value ? value : json_null());
        }
        bad |= json_object_set_new(columns, field, column);
    }
    bad |= json_object_set_new(run, "fields", names);
    bad |= json_object_set_new(run, "same", same);
    bad |= json_object_set_new(run, "columns", columns);
    return bad ? -1 : 0;
}

/* ---- One run ------------------------------------------------------------------------ */

/* Rows that differ in one of these are not points of one curve; curves that differ only in
 * the last one can be fitted together. */
enum { GROUP = 5, SAME = GROUP - 1 };
static const char *const group[GROUP] = {"experiment", "model", "map", "mask", "text_hash"};

static int compare(const lipsc_row *left, const lipsc_row *right, size_t fields) {
    const char *const x[GROUP] = {left->experiment, left->model, left->map, left->mask,
                                  left->text_hash},
                      *const y[GROUP] = {right->experiment, right->model, right->map,
                                         right->mask, right->text_hash};
    for (size_t i = 0; i < fields; i++) {
        const int order = strcmp(x[i] ? x[i] : "", y[i] ? y[i] : "");
        if (order) return order;
    }
    return 0;
}

static int by_group(const void *a, const void *b) {
    return compare(*(const lipsc_row *const *)a, *(const lipsc_row *const *)b, GROUP);
}

/* Adds to `all` the fits of these rows, with the first `fields` of their group. */
static lipsc_status add_fits(size_t count, const lipsc_row **rows, uint64_t seed,
                             size_t fields, json_t *all) {
    lipsc_growths laws;
    lipsc_rows_sort(count, rows);
    lipsc_status status = lipsc_rows_fit(count, rows, seed, &laws);
    json_t *fits = status ? NULL : lipsc_growths_json(&laws), *fit;
    size_t i;
    json_array_foreach(fits, i, fit) {
        for (size_t g = 0; g < fields; g++) {
            json_t *value = lipsc_fields_get(lipsc_row_fields(), rows[0], group[g]);
            if (json_is_null(value))
                json_decref(value);
            else
                json_object_set_new(fit, group[g], value);
        }
    }
    if (!fits || json_array_extend(all, fits)) status = LIPSC_E_NOMEM;
    json_decref(fits);
    lipsc_growths_free(&laws);
    return status;
}

/* Reorders the rows.  NULL when memory is short. */
static json_t *fit_groups(size_t count, const lipsc_row **rows, uint64_t seed) {
    json_t *all = json_array();
    lipsc_status status = all ? LIPSC_OK : LIPSC_E_NOMEM;
    if (count) qsort(rows, count, sizeof *rows, by_group);
    for (size_t at = 0, length; at < count && !status; at += length) {
        for (length = 1; at + length < count; length++)
            if (compare(rows[at], rows[at + length], GROUP)) break;
        status = add_fits(length, rows + at, seed, GROUP, all);
    }
    if (!status) return all;
    json_decref(all);
    return NULL;
}

/* Curves of several texts that agree in all else, from all runs: the joint fits, each
 * followed by those of its texts.  Reorders the rows.  NULL when memory is short. */
static json_t *fit_texts(size_t count, const lipsc_row **rows, uint64_t seed) {
    json_t *all = json_array();
    lipsc_status status = all ? LIPSC_OK : LIPSC_E_NOMEM;
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        if (rows[i]->text_hash) rows[used++] = rows[i];
    if (used) qsort(rows, used, sizeof *rows, by_group);
    for (size_t at = 0, length; at < used && !status; at += length) {
        size_t texts = 1;
        for (length = 1; at + length < used && !compare(rows[at], rows[at + length], SAME);
             length++)
            texts += compare(rows[at + length - 1], rows[at + length], GROUP) != 0;
        if (texts > 1) status = add_fits(length, rows + at, seed, SAME, all);
    }
    if (!status) return all;
    json_decref(all);
    return NULL;
}

/* What the page is told of a run. */
static json_t *describe(const char *path, const lipsc_rows_file *s) {
    const lipsc_row **rows = lipsc_alloc(s->count, sizeof *rows);
    json_t **stored = lipsc_alloc(s->count, sizeof *stored), *out = NULL, *fits = NULL;
    for (size_t i = 0; rows && i < s->count; i++) rows[i] = &s->rows[i];
    if (rows && stored) fits = fit_groups(s->count, rows, s->seed);
    if (fits) out = json_incref(lipsc_rows_file_head(s));
    if (out) {
        /* in the order of the fits, which is that of the curves */
        for (size_t i = 0; i < s->count; i++)
            stored[i] = lipsc_rows_file_stored(s, (size_t)(rows[i] - s->rows));
        int bad = json_object_set_new(out, "file", lipsc_json_text(path));
        bad |= json_object_set_new(out, "count", json_integer((json_int_t)s->count));
        bad |= json_object_set_new(out, "fits", fits);
        bad |= add_columns(out, s->count, stored);
        if (bad) json_decref(out);
        if (bad) out = NULL;
    }
    lipsc_release(rows);
    lipsc_release(stored);
    return out;
}

static json_t *describe_texts(size_t count, const lipsc_rows_file *sources) {
    size_t total = 0, used = 0;
    for (size_t s = 0; s < count; s++) total += sources[s].count;
    const lipsc_row **rows = lipsc_alloc(total, sizeof *rows);
    if (!rows) return NULL;
    for (size_t s = 0; s < count; s++)
        for (size_t i = 0; i < sources[s].count; i++) rows[used++] = &sources[s].rows[i];
    json_t *all = fit_texts(total, rows, sources[0].seed);
    lipsc_release(rows);
    return all;
}

static json_t *now(void) { /* UTC, ISO 8601 */
    const time_t seconds = time(NULL);
    struct tm parts;
    char text[32] = "";
    if (gmtime_r(&seconds, &parts))
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return json_string(text);
}

/* Takes over all three, also when it fails. */
static json_t *page_data(json_t *runs, json_t *texts, json_t *changes) {
    return json_pack("{s:s, s:i, s:o, s:o, s:o, s:o}", "lipscope", lipsc_version(),
                     "schema", LIPSC_SCHEMA, "created", now(), "runs", runs, "texts", texts,
                     "changes", changes);
}

/* Takes over nothing. */
static json_t *describe_all(size_t count, const char *const *paths,
                            const lipsc_rows_file *sources) {
    json_t *runs = json_array(), *texts = describe_texts(count, sources),
           *changes = lipsc_report_changes(count, sources);
    int good = runs && texts && changes;
    for (size_t i = 0; i < count && good; i++)
        good = !json_array_append_new(runs, describe(paths[i], &sources[i]));
    if (good) return page_data(runs, texts, changes);
    json_decref(runs);
    json_decref(texts);
    json_decref(changes);
    return NULL;
}

/* A browser shows no more with ease; of longer runs every k-th window, and the page says
 * so. */
enum { MOST_ROWS = 50000 };

static lipsc_status gather(size_t count, const char *const *paths, json_t **out,
                           lipsc_error *err) {
    lipsc_rows_file *sources = lipsc_alloc_zero(count, sizeof *sources);
    lipsc_status status =
        sources ? LIPSC_OK : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a report");
    for (size_t i = 0; i < count && !status; i++)
        status =
            lipsc_rows_file_open_some(paths[i], MOST_ROWS / count + 1, &sources[i], err);
    for (size_t i = 0; i < count && !status; i++)
        status = lipsc_report_words(paths[i], &sources[i], count, err);
    if (!status && !(*out = describe_all(count, paths, sources)))
        status = lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a report");
    for (size_t i = 0; sources && i < count; i++) lipsc_rows_file_close(&sources[i]);
    lipsc_release(sources);
    return status;
}

/* ---- The page ----------------------------------------------------------------------- */

static const char marker[] = "@DATA@";

static const unsigned char *find_marker(void) {
    const size_t length = sizeof marker - 1;
    for (size_t i = 0; i + length <= lipsc_report_page_size; i++)
        if (!memcmp(lipsc_report_page + i, marker, length)) return lipsc_report_page + i;
    return NULL;
}

/* json_dump_callback hands over pieces as small as one byte: they are collected here. */
typedef struct {
    size_t used;
    int fd;
    char bytes[1 << 16];
} buffer;

static int flush(buffer *b) {
    const size_t used = b->used;
    b->used = 0;
    return lipsc_write_all(b->fd, b->bytes, used);
}

/* "<" as an escape that means the same; a character that could turn or hide what stands
 * beside it as one that the page shows: backslash, u, digits. */
static int write_escaped(const char *text, size_t size, void *ctx) {
    enum { LONGEST = sizeof "\\\\u003c" };
    buffer *b = ctx;
    uint32_t code;
    for (size_t width; size; text += width, size -= width) {
        width = lipsc_utf8_at(text, size, &code);
        if (b->used + LONGEST > sizeof b->bytes && flush(b)) return -1;
        char *const to = b->bytes + b->used;
        if (code == '<' || (code >= 0x7f && code < 0x10000 && lipsc_is_hostile(code))) {
            b->used += (size_t)snprintf(to, LONGEST, "%su%04x", code == '<' ? "\\" : "\\\\",
                                        (unsigned)code);
        } else {
            memcpy(to, text, width);
            b->used += width;
        }
    }
    return 0;
}

static int write_page(int fd, const void *ctx) {
    const unsigned char *const data = find_marker(), *const rest = data + sizeof marker - 1;
    buffer b = {.fd = fd};
    errno = ENOMEM; /* that of json_dump_callback; the system sets its own */
    return lipsc_write_all(fd, lipsc_report_page, (size_t)(data - lipsc_report_page)) ||
                   json_dump_callback(ctx, write_escaped, &b,
                                      JSON_COMPACT | JSON_REAL_PRECISION(17)) ||
                   flush(&b) ||
                   lipsc_write_all(fd, rest,
                                   lipsc_report_page_size -
                                       (size_t)(rest - lipsc_report_page))
               ? -1
               : 0;
}

int lipsc_report_is_built(void) { return 1; }

lipsc_status lipsc_report_write(size_t count, const char *const *runs, const char *path,
                                lipsc_error *err) {
    json_t *all = NULL;
    if (!count || !runs || !path || !find_marker())
        return lipsc_fail(err, LIPSC_E_ARG, "a report needs a run and a path");
    lipsc_status status = gather(count, runs, &all, err);
    if (!status) status = lipsc_file_replace(path, write_page, all, err);
    json_decref(all);
    return status;
}

lipsc_status lipsc_report_made(json_t *head, size_t count, json_t *const *rows,
                               const char *path, lipsc_error *err) {
    int bad = json_object_set_new(head, "created", now());
    bad |= json_object_set_new(head, "version", json_string(lipsc_version()));
    bad |= json_object_set_new(head, "count", json_integer((json_int_t)count));
    bad |= json_object_set_new(head, "fits", json_array());
    json_t *runs = json_array(), *all = NULL;
    if (!bad && !add_columns(head, count, rows) && !json_array_append(runs, head))
        all = page_data(json_incref(runs), json_array(), json_array());
    const lipsc_status status =
        all ? lipsc_file_replace(path, write_page, all, err)
            : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a report");
    json_decref(runs);
    json_decref(all);
    return status;
}
