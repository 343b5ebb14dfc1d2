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
#include "report/report.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/error.h"
#include "core/mem.h"
#include "io/replace.h"
#include "out/table.h"
#include "run/growth.h"
#include "run/run.h"

extern const unsigned char lipsc_report_page[];
extern const size_t lipsc_report_page_size;

/* ---- Rows to columns ---------------------------------------------------------------- */

/* The names of all fields, in the order in which they first appear. */
static json_t *field_names(size_t count, json_t *const *rows) {
    json_t *seen = json_object(), *names = json_array();
    for (size_t i = 0; i < count; i++) {
        const char *name;
        json_t *value;
        json_object_foreach(rows[i], name, value) {
            if (json_object_get(seen, name)) continue;
            json_object_set_new(seen, name, json_true());
            json_array_append_new(names, json_string(name));
        }
    }
    json_decref(seen);
    return names;
}

static int is_same(size_t count, json_t *const *rows, const char *name) {
    const json_t *first = json_object_get(rows[0], name);
    for (size_t i = 1; i < count; i++) {
        const json_t *value = json_object_get(rows[i], name);
        if (value != first && !(value && first && json_equal(value, first))) return 0;
    }
    return 1;
}

static void add_columns(json_t *run, size_t count, json_t *const *rows) {
    json_t *names = field_names(count, rows), *same = json_object(),
           *columns = json_object(), *name;
    size_t at;
    json_array_foreach(names, at, name) {
        const char *field = json_string_value(name);
        if (is_same(count, rows, field)) {
            json_object_set(same, field, json_object_get(rows[0], field));
            continue;
        }
        json_t *column = json_array();
        for (size_t i = 0; i < count; i++) {
            json_t *value = json_object_get(rows[i], field);
            json_array_append(column, value ? value : json_null());
        }
        json_object_set_new(columns, field, column);
    }
    json_object_set_new(run, "fields", names);
    json_object_set_new(run, "same", same);
    json_object_set_new(run, "columns", columns);
}

/* ---- One run ------------------------------------------------------------------------ */

/* Rows that differ in one of these are not points of one curve; curves that differ only in
 * the last one can be fitted together. */
static const char *const group[] = {"experiment", "model", "map", "mask", "text_hash"};
enum { GROUP = sizeof group / sizeof *group, SAME = GROUP - 1 };

static int compare(const json_t *const *left, const json_t *const *right, size_t fields) {
    for (size_t i = 0; i < fields; i++) {
        const char *x = json_string_value(json_object_get(*left, group[i]));
        const char *y = json_string_value(json_object_get(*right, group[i]));
        const int order = strcmp(x ? x : "", y ? y : "");
        if (order) return order;
    }
    return 0;
}

static int by_group(const void *a, const void *b) { return compare(a, b, GROUP); }
static int by_same(const void *a, const void *b) { return compare(a, b, SAME); }

/* Adds to `all` the fits of these rows, with the first `fields` of their group. */
static void add_fits(size_t count, json_t **rows, uint64_t seed, size_t fields,
                     json_t *all) {
    json_t *fits = lipsc_rows_fit(count, rows, seed), *fit;
    size_t i;
    json_array_foreach(fits, i, fit) {
        for (size_t g = 0; g < fields; g++) {
            json_t *value = json_object_get(rows[0], group[g]);
            if (value) json_object_set(fit, group[g], value);
        }
    }
    json_array_extend(all, fits);
    json_decref(fits);
}

/* Sorts the rows as well: by group, and inside as lipsc_rows_sort does. */
static json_t *fit_groups(size_t count, json_t **rows, uint64_t seed) {
    json_t *all = json_array();
    if (count) qsort(rows, count, sizeof *rows, by_group);
    for (size_t at = 0, length; at < count; at += length) {
        for (length = 1; at + length < count; length++)
            if (by_group(&rows[at], &rows[at + length])) break;
        lipsc_rows_sort(length, rows + at);
        add_fits(length, rows + at, seed, GROUP, all);
    }
    return all;
}

/* Curves of several texts that agree in all else, from all runs: the joint fits, each
 * followed by those of its texts.  NULL when memory is short. */
static json_t *fit_texts(const json_t *lists, uint64_t seed) {
    json_t *all = json_array(), *list, *row;
    size_t i, j, count = 0, used = 0;
    json_array_foreach(lists, i, list) count += json_array_size(list);
    json_t **rows = lipsc_alloc(count, sizeof *rows);
    if (!rows) {
        json_decref(all);
        return NULL;
    }
    json_array_foreach(lists, i, list) json_array_foreach(list, j, row) {
        if (json_is_string(json_object_get(row, "text_hash"))) rows[used++] = row;
    }
    if (used) qsort(rows, used, sizeof *rows, by_group);
    for (size_t at = 0, length; at < used; at += length) {
        size_t texts = 1;
        for (length = 1; at + length < used && !by_same(&rows[at], &rows[at + length]);
             length++)
            texts += by_group(&rows[at + length - 1], &rows[at + length]) != 0;
        if (texts < 2) continue;
        lipsc_rows_sort(length, rows + at);
        add_fits(length, rows + at, seed, SAME, all);
    }
    lipsc_release(rows);
    return all;
}

static uint64_t seed_of(const json_t *head) {
    const json_t *seed = json_object_get(json_object_get(head, "settings"), "seed");
    return json_is_integer(seed) ? (uint64_t)json_integer_value(seed) : 1;
}

/* *list: its rows. */
static lipsc_status read_run(const char *path, json_t **out, json_t **list_out,
                             lipsc_error *err) {
    json_t *list;
    lipsc_status status = lipsc_run_read(path, out, &list, err);
    if (status) return status;
    const size_t count = json_array_size(list);
    json_t **rows = lipsc_alloc(count, sizeof *rows);
    if (rows) {
        for (size_t i = 0; i < count; i++) rows[i] = json_array_get(list, i);
        json_object_set_new(*out, "file", lipsc_json_text(path));
        json_object_set_new(*out, "count", json_integer((json_int_t)count));
        json_object_set_new(*out, "fits", fit_groups(count, rows, seed_of(*out)));
        add_columns(*out, count, rows);
    } else {
        status = lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", path);
        json_decref(*out);
    }
    lipsc_release(rows);
    if (status)
        json_decref(list);
    else
        *list_out = list;
    return status;
}

static json_t *now(void) { /* UTC, ISO 8601 */
    const time_t seconds = time(NULL);
    struct tm parts;
    char text[32] = "";
    if (gmtime_r(&seconds, &parts))
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return json_string(text);
}

static lipsc_status gather(size_t count, const char *const *paths, json_t **out,
                           lipsc_error *err) {
    json_t *runs = json_array(), *lists = json_array();
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; i < count && !status; i++) {
        json_t *run, *list;
        status = read_run(paths[i], &run, &list, err);
        if (status) break;
        json_array_append_new(runs, run);
        json_array_append_new(lists, list);
    }
    json_t *texts =
        status ? NULL : fit_texts(lists, count ? seed_of(json_array_get(runs, 0)) : 1);
    json_decref(lists);
    if (status) {
        json_decref(runs);
        return status;
    }
    *out = json_pack("{s:s, s:i, s:o, s:o, s:o}", "lipscope", lipsc_version(), "schema",
                     LIPSC_SCHEMA, "created", now(), "runs", runs, "texts",
                     texts ? texts : json_array());
    return *out ? LIPSC_OK : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a report");
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

static int write_escaped(const char *text, size_t size, void *ctx) {
    static const char less[] = "\\u003c";
    buffer *b = ctx;
    for (size_t i = 0; i < size; i++) {
        if (b->used + sizeof less > sizeof b->bytes && flush(b)) return -1;
        if (text[i] == '<') {
            memcpy(b->bytes + b->used, less, sizeof less - 1);
            b->used += sizeof less - 1;
        } else {
            b->bytes[b->used++] = text[i];
        }
    }
    return 0;
}

static int write_page(int fd, const void *ctx) {
    const unsigned char *const data = find_marker(), *const rest = data + sizeof marker - 1;
    buffer b = {.fd = fd};
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
