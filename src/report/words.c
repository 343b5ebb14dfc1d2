/* words.c - the words that a page can show of a run, no more than a browser takes. */
#include "report/words.h"

#include <jansson.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/mem.h"
#include "run/words.h"

/* Tokens of windows, and numbers of influence, on one page: three megabytes of each. */
enum { MOST_TOKENS = 400000, MOST_NUMBERS = 300000 };

static lipsc_status fail_memory(const char *path, lipsc_error *err) {
    return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory for words", path);
}

/* The windows that some row is of. */
static json_t *wanted_windows(const lipsc_rows_file *file) {
    json_t *wanted = json_object();
    char key[LIPSC_WINDOW_KEY];
    for (size_t i = 0; wanted && i < file->count; i++) {
        const lipsc_row *row = &file->rows[i];
        if (!row->model_hash || !row->text_hash || row->start == LIPSC_NONE) continue;
        const lipsc_run_window at = {row->model_hash, row->text_hash, row->special > 0,
                                     row->start};
        lipsc_run_window_key(&at, key);
        if (json_object_get(wanted, key) || !json_object_set_new(wanted, key, json_true()))
            continue;
        json_decref(wanted);
        wanted = NULL;
    }
    return wanted;
}

static lipsc_status add_windows(const char *path, const lipsc_rows_file *file, size_t most,
                                lipsc_error *err) {
    json_t *wanted = wanted_windows(file), *windows = NULL;
    size_t left;
    lipsc_status status = wanted ? lipsc_run_words(path, wanted, most, &windows, &left, err)
                                 : fail_memory(path, err);
    if (!status && json_object_set(lipsc_rows_file_head(file), "windows", windows))
        status = fail_memory(path, err);
    json_decref(wanted);
    json_decref(windows);
    return status;
}

/* Largest sigma first; what has none last. */
static int by_sigma(const void *a, const void *b) {
    const double x = (*(const lipsc_row *const *)a)->sigma,
                 y = (*(const lipsc_row *const *)b)->sigma;
    if (!(x == x) || !(y == y)) return !(x == x) - !(y == y);
    return x < y ? 1 : x > y ? -1 : 0;
}

static lipsc_status trim_influence(const char *path, const lipsc_rows_file *file,
                                   size_t most, lipsc_error *err) {
    const lipsc_row **rows = lipsc_alloc(file->count, sizeof *rows);
    size_t found = 0, used = 0, left = 0;
    if (!rows) return fail_memory(path, err);
    for (size_t i = 0; i < file->count; i++)
        if (file->rows[i].influence.at) rows[found++] = &file->rows[i];
    if (found) qsort(rows, found, sizeof *rows, by_sigma);
    int bad = 0;
    for (size_t i = 0; i < found; i++) {
        used += rows[i]->influence.count;
        if (used <= most) continue;
        json_t *stored = lipsc_rows_file_stored(file, (size_t)(rows[i] - file->rows));
        bad |= json_object_set_new(stored, "influence", json_null());
        left++;
    }
    if (left)
        bad |= json_object_set_new(lipsc_rows_file_head(file), "influence_left",
                                   json_integer((json_int_t)left));
    lipsc_release(rows);
    return bad ? fail_memory(path, err) : LIPSC_OK;
}

lipsc_status lipsc_report_words(const char *path, const lipsc_rows_file *file, size_t share,
                                lipsc_error *err) {
    const lipsc_status status = add_windows(path, file, MOST_TOKENS / share, err);
    return status ? status : trim_influence(path, file, MOST_NUMBERS / share, err);
}
