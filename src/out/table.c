/* table.c - storage of result rows.
 *
 * Rows are kept as JSON objects whose members stand in the order of the columns, so one
 * store serves all three printers. */
#include "out/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "out/print.h"

lipsc_table *lipsc_table_new(const char *command, lipsc_format format, lipsc_layout layout,
                             FILE *to, size_t count, const lipsc_column *columns) {
    lipsc_table *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    *t = (lipsc_table){.command = command,
                       .format = format,
                       .layout = layout,
                       .to = to,
                       .count = count,
                       .columns = columns,
                       .rows = json_array(),
                       .members = json_object(),
                       .width = calloc(count ? count : 1, sizeof(size_t))};
    if (!t->rows || !t->members || !t->width) {
        lipsc_table_free(t);
        return NULL;
    }
    return t;
}

void lipsc_table_free(lipsc_table *t) {
    if (!t) return;
    json_decref(t->rows);
    json_decref(t->members);
    free(t->width);
    free(t);
}

static void keep_first(lipsc_table *t, lipsc_status status) {
    if (t->status == LIPSC_OK) t->status = status;
}

/* TSV needs no widths: what is complete goes out, so that a long run fits in memory. */
static void print_many(lipsc_table *t) {
    enum { MANY = 4096 };
    if (t->format != LIPSC_FORMAT_TSV || t->status || json_array_size(t->rows) < MANY)
        return;
    lipsc_print_tsv(t);
    json_array_clear(t->rows);
    t->printed = 0;
}

void lipsc_table_row(lipsc_table *t) {
    if (!t) return;
    print_many(t);
    json_t *row = json_object();
    for (size_t c = 0; row && c < t->count; c++)
        if (json_object_set_new(row, t->columns[c].name, json_null()))
            keep_first(t, LIPSC_E_NOMEM);
    if (!row || json_array_append_new(t->rows, row)) keep_first(t, LIPSC_E_NOMEM);
}

/* Takes over the reference to value. */
static void set(lipsc_table *t, const char *column, lipsc_column_kind kind, json_t *value) {
    if (!t) {
        json_decref(value);
        return;
    }
    json_t *row = json_array_get(t->rows, json_array_size(t->rows) - 1);
    size_t c = 0;
    while (c < t->count && strcmp(t->columns[c].name, column)) c++;
    if (!row || c == t->count || t->columns[c].kind != kind) {
        keep_first(t, LIPSC_E_ARG);
        json_decref(value);
    } else if (!value || json_object_set_new(row, column, value)) {
        keep_first(t, LIPSC_E_NOMEM);
    }
}

void lipsc_table_string(lipsc_table *t, const char *column, const char *value) {
    set(t, column, LIPSC_COLUMN_STRING, lipsc_json_text(value));
}

void lipsc_table_integer(lipsc_table *t, const char *column, long long value) {
    set(t, column, LIPSC_COLUMN_INTEGER, json_integer(value));
}

void lipsc_table_real(lipsc_table *t, const char *column, double value) {
    set(t, column, LIPSC_COLUMN_REAL, lipsc_json_real(value));
}

void lipsc_table_bool(lipsc_table *t, const char *column, int value) {
    set(t, column, LIPSC_COLUMN_BOOL, json_boolean(value));
}

void lipsc_table_reals(lipsc_table *t, const char *column, size_t count,
                       const double *values) {
    if (!t) return;
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++)
        if (json_array_append_new(list, lipsc_json_real(values[i])))
            keep_first(t, LIPSC_E_NOMEM);
    set(t, column, LIPSC_COLUMN_REALS, list);
}

void lipsc_table_record(lipsc_table *t, lipsc_fields fields, const void *record) {
    if (!t) return;
    lipsc_table_row(t);
    json_t *row = json_array_get(t->rows, json_array_size(t->rows) - 1);
    for (size_t i = 0; row && i < fields.count; i++) {
        const lipsc_field *f = &fields.at[i];
        if (json_object_get(row, f->name) &&
            json_object_set_new(row, f->name, lipsc_field_json(f, record)))
            keep_first(t, LIPSC_E_NOMEM);
    }
}

size_t lipsc_table_columns(lipsc_fields fields, unsigned parts, lipsc_format format,
                           lipsc_column *columns) {
    static const lipsc_column_kind kinds[] = {[LIPSC_FIELD_TEXT] = LIPSC_COLUMN_STRING,
                                              [LIPSC_FIELD_COUNT] = LIPSC_COLUMN_INTEGER,
                                              [LIPSC_FIELD_WHOLE] = LIPSC_COLUMN_INTEGER,
                                              [LIPSC_FIELD_REAL] = LIPSC_COLUMN_REAL,
                                              [LIPSC_FIELD_FLAG] = LIPSC_COLUMN_BOOL,
                                              [LIPSC_FIELD_REALS] = LIPSC_COLUMN_REALS};
    size_t count = 0;
    for (size_t i = 0; i < fields.count; i++) {
        const lipsc_field *f = &fields.at[i];
        if (f->part && !(f->part & parts)) continue;
        if (format == LIPSC_FORMAT_TABLE && !f->shown) continue;
        columns[count++] = (lipsc_column){f->name, kinds[f->kind]};
    }
    return count;
}

void lipsc_table_member(lipsc_table *t, const char *name, json_t *value) {
    if (!t)
        json_decref(value);
    else if (!value || json_object_set_new(t->members, name, value))
        keep_first(t, LIPSC_E_NOMEM);
}

void lipsc_table_members(lipsc_table *t, lipsc_fields fields, const void *record) {
    for (size_t f = 0; f < fields.count; f++)
        lipsc_table_member(t, fields.at[f].name, lipsc_field_json(&fields.at[f], record));
}

void lipsc_table_object(lipsc_table *t, const char *name, lipsc_fields fields,
                        const void *record) {
    lipsc_table_member(t, name,
                       record ? lipsc_fields_json(fields, record, ~0u) : json_null());
}

void lipsc_table_list(lipsc_table *t, const char *name, lipsc_fields fields, size_t count,
                      size_t size, const void *records) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++) {
        json_t *object = lipsc_fields_json(fields, (const char *)records + i * size, ~0u);
        if (object && !json_array_append_new(list, object)) continue;
        json_decref(list);
        list = NULL;
    }
    lipsc_table_member(t, name, list);
}

void lipsc_table_flush(lipsc_table *t) {
    if (!t) return;
    if (t->format == LIPSC_FORMAT_TABLE) lipsc_print_table(t, 1);
    if (t->format == LIPSC_FORMAT_TSV) lipsc_print_tsv(t);
    if (t->format != LIPSC_FORMAT_JSON) fflush(t->to);
}

lipsc_status lipsc_table_end(lipsc_table *t, lipsc_error *err) {
    if (!t) return lipsc_fail(err, LIPSC_E_NOMEM, "%s", lipsc_strerror(LIPSC_E_NOMEM));
    if (t->status != LIPSC_OK)
        return lipsc_fail(err, t->status, "cannot store a result: %s",
                          lipsc_strerror(t->status));
    errno = 0;
    switch (t->format) {
    case LIPSC_FORMAT_TABLE:
        lipsc_print_table(t, 0);
        break;
    case LIPSC_FORMAT_TSV:
        lipsc_print_tsv(t);
        break;
    case LIPSC_FORMAT_JSON:
        lipsc_print_json(t);
        break;
    }
    if (t->status != LIPSC_OK)
        return lipsc_fail(err, t->status, "cannot print the results: %s",
                          lipsc_strerror(t->status));
    if (fflush(t->to) || ferror(t->to))
        return lipsc_fail(err, LIPSC_E_IO, "cannot write the results: %s",
                          errno ? strerror(errno) : "write error");
    return LIPSC_OK;
}
