/* rows_file.c - a run file as rows. */
#include "run/rows_file.h"

#include "core/error.h"
#include "core/mem.h"
#include "run/run.h"

void lipsc_rows_file_close(lipsc_rows_file *file) {
    json_decref(file->head);
    json_decref(file->stored);
    lipsc_release(file->rows);
    lipsc_pool_free(&file->pool);
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

lipsc_status lipsc_rows_file_open(const char *path, lipsc_rows_file *out,
                                  lipsc_error *err) {
    *out = (lipsc_rows_file){0};
    lipsc_status status = lipsc_run_read(path, &out->head, &out->stored, err);
    if (status) return status;
    out->count = json_array_size(out->stored);
    out->rows = lipsc_alloc(out->count, sizeof *out->rows);
    if (!out->rows) status = lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", path);
    for (size_t i = 0; i < out->count && !status; i++) {
        lipsc_error why;
        status = read_row(json_array_get(out->stored, i), &out->pool, &out->rows[i], &why);
        if (status) lipsc_fail(err, status, "%s: %s", path, why.text);
    }
    return status;
}

uint64_t lipsc_rows_file_seed(const lipsc_rows_file *file) {
    const json_t *seed = json_object_get(json_object_get(file->head, "settings"), "seed");
    return json_is_integer(seed) ? (uint64_t)json_integer_value(seed) : 1;
}
