/* rows_file.c - a run file as rows: cells that are read, stored and found again. */
#include "run/rows_file.h"

#include <stdint.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/json.h"
#include "core/mem.h"
#include "row/row.h"
#include "run/run.h"

/* ---- Reading ----------------------------------------------------------------------- */

typedef struct {
    json_t *head, *stored;
    lipsc_row *rows;
    char *settings;
    lipsc_pool pool;
} storage;

void lipsc_rows_file_close(lipsc_rows_file *file) {
    storage *s = file->storage;
    if (s) {
        json_decref(s->head);
        json_decref(s->stored);
        lipsc_release(s->rows);
        free(s->settings);
        lipsc_pool_free(&s->pool);
    }
    lipsc_release(s);
    *file = (lipsc_rows_file){0};
}

/* Each length of an attack has one input, and its row says in words how that was begun. */
static lipsc_status read_row(const json_t *object, lipsc_pool *pool, lipsc_row *row,
                             lipsc_error *err) {
    if (!json_is_string(json_object_get(object, "start")))
        return lipsc_row_read(object, pool, row, err);
    const json_t *n = json_object_get(object, "n"),
                 *sigma = json_object_get(object, "sigma");
    lipsc_fields_clear(lipsc_row_fields(), row);
    row->parts = 0;
    if (json_is_integer(n)) row->n = (size_t)json_integer_value(n);
    if (json_is_number(sigma)) row->sigma = json_number_value(sigma);
    return LIPSC_OK;
}

static lipsc_status read_rows(const char *path, size_t most, storage *s,
                              lipsc_rows_file *out, lipsc_error *err) {
    lipsc_status status = lipsc_run_read_some(path, most, &s->head, &s->stored, err);
    if (status) return status;
    out->count = json_array_size(s->stored);
    out->rows = s->rows = lipsc_alloc(out->count, sizeof *s->rows);
    s->settings = lipsc_json_dumps(json_object_get(s->head, "settings"), JSON_COMPACT);
    if (!s->rows || !s->settings)
        return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", path);
    for (size_t i = 0; i < out->count && !status; i++) {
        lipsc_error why;
        status = read_row(json_array_get(s->stored, i), &s->pool, &s->rows[i], &why);
        if (status) lipsc_fail(err, status, "%s: %s", path, why.text);
    }
    return status;
}

static const char *head_text(const storage *s, const char *name) {
    return json_string_value(json_object_get(s->head, name));
}

lipsc_status lipsc_rows_file_open(const char *path, lipsc_rows_file *out,
                                  lipsc_error *err) {
    return lipsc_rows_file_open_some(path, SIZE_MAX, out, err);
}

lipsc_status lipsc_rows_file_open_some(const char *path, size_t most, lipsc_rows_file *out,
                                       lipsc_error *err) {
    *out = (lipsc_rows_file){0};
    storage *s = out->storage = lipsc_alloc_zero(1, sizeof *s);
    if (!s) return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", path);
    const lipsc_status status = read_rows(path, most, s, out, err);
    if (status) return status;
    const json_t *seed = lipsc_rows_file_setting(out, "seed");
    out->command = head_text(s, "command");
    out->command_line = head_text(s, "command_line");
    out->created = head_text(s, "created");
    out->version = head_text(s, "version");
    out->settings = s->settings;
    out->seed = json_is_integer(seed) ? (uint64_t)json_integer_value(seed) : 1;
    return LIPSC_OK;
}

json_t *lipsc_rows_file_head(const lipsc_rows_file *file) {
    return ((const storage *)file->storage)->head;
}

json_t *lipsc_rows_file_stored(const lipsc_rows_file *file, size_t i) {
    return json_array_get(((const storage *)file->storage)->stored, i);
}

size_t lipsc_rows_file_every(const lipsc_rows_file *file) {
    const json_int_t every =
        json_integer_value(json_object_get(lipsc_rows_file_head(file), "every"));
    return every > 1 ? (size_t)every : 1;
}

void lipsc_rows_file_thin(lipsc_rows_file *file, size_t every) {
    lipsc_row *rows = ((storage *)file->storage)->rows;
    size_t kept = 0;
    for (size_t i = 0; i < file->count; i++)
        if (rows[i].window == LIPSC_NONE || rows[i].window % every == 0)
            rows[kept++] = rows[i];
    file->count = kept;
}

const json_t *lipsc_rows_file_setting(const lipsc_rows_file *file, const char *name) {
    return json_object_get(json_object_get(lipsc_rows_file_head(file), "settings"), name);
}

/* ---- Writing ----------------------------------------------------------------------- */

lipsc_status lipsc_run_begin(const char *path, const char *command,
                             const char *command_line, const char *settings,
                             lipsc_run **out, lipsc_error *err) {
    enum { FIELDS = 64 };
    const char *names[FIELDS];
    json_error_t bad = {.text = ""};
    if (!path || !command || !settings || !out)
        return lipsc_fail(err, LIPSC_E_ARG,
                          "a run file needs a path, a command and settings");
    int memory;
    json_t *object =
        lipsc_json_load(settings, strlen(settings), JSON_REJECT_DUPLICATES, &bad, &memory);
    if (memory) return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", path);
    if (!json_is_object(object)) {
        json_decref(object);
        return lipsc_fail(err, LIPSC_E_ARG, "%s: settings are no JSON object: %s", path,
                          bad.text);
    }
    lipsc_fields_names(lipsc_row_fields(), names);
    const lipsc_run_options how = {.command = command,
                                   .command_line = command_line,
                                   .settings = object,
                                   .field_count = lipsc_row_fields().count,
                                   .fields = names};
    const lipsc_status status = lipsc_run_open(path, &how, out, err);
    json_decref(object);
    return status;
}

lipsc_status lipsc_run_put_row(lipsc_run *run, const char *key, const lipsc_row *row,
                               lipsc_error *err) {
    json_t *object = lipsc_row_json(row);
    const lipsc_status status =
        object ? lipsc_run_put(run, key, object, err)
               : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a row");
    json_decref(object);
    return status;
}

lipsc_status lipsc_run_get_row(lipsc_run *run, const char *key, lipsc_pool *pool,
                               int *there, lipsc_row *row, lipsc_error *err) {
    json_t *object = NULL;
    lipsc_status status = lipsc_run_get(run, key, &object, err);
    if (status) return status;
    *there = object != NULL;
    if (object) status = lipsc_row_read(object, pool, row, err);
    json_decref(object);
    return status;
}
