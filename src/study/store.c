/* store.c - the run file of a study: what is there already, and what is added.
 *
 * It is kept under the name of the command that makes one. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/mem.h"
#include "run/rows_file.h"
#include "study/study.h"

static const char command[] = "measure";

/* ---- Settings ------------------------------------------------------------------------ */

static const char *mask_name(const lipsc_study_settings *s) {
    return s->mask_override ? lipsc_mask_name(*s->mask_override) : "model";
}

/* all, each, or a list; NULL when memory is short. */
static json_t *heads_json(const lipsc_study_settings *s) {
    enum { DIGITS = 21 };
    if (s->each_head || !s->heads.count) return json_string(s->each_head ? "each" : "all");
    char *text = lipsc_alloc(s->heads.count, DIGITS);
    size_t used = 0;
    for (size_t i = 0; text && i < s->heads.count; i++)
        used +=
            (size_t)snprintf(text + used, DIGITS, "%s%zu", i ? "," : "", s->heads.at[i]);
    json_t *made = text ? json_string(text) : NULL;
    lipsc_release(text);
    return made;
}

/* Everything that decides a value.  Lengths, windows and layers are not among it: they only
 * say which cells there are, and a run may be extended.  NULL when memory is short. */
static json_t *settings_json(const lipsc_study *study) {
    const lipsc_study_settings *s = &study->set;
    json_t *all = json_object();
    int bad = 0;
#define SET(name, value) bad |= json_object_set_new(all, name, value)
    SET("model_hash", json_string(study->info->hash));
    SET("text_hash", json_string(study->source.hash));
    SET("ids_hash", json_string(study->source.ids_hash));
    SET("map", json_string(lipsc_map_name(s->map)));
    SET("mask", json_string(mask_name(s)));
    SET("heads", heads_json(s));
    SET("dtype", json_string(lipsc_dtype_name(s->dtype)));
    SET("seed", json_integer((json_int_t)s->seed));
    SET("tol", json_real(lipsc_study_tol(s)));
    SET("value_tol", json_real(lipsc_study_value_tol(s)));
    SET("solver", json_integer(s->method));
    SET("max_products", json_integer((json_int_t)s->max_products));
    SET("probability", json_real(s->probability));
    SET("count", json_integer((json_int_t)s->count));
    SET("upper", json_boolean(s->upper));
    SET("as_released", json_boolean(s->as_released));
    SET("details", json_boolean(s->details));
    SET("sink", json_boolean(s->sink));
    SET("special", json_boolean(s->source.special));
    SET("tiled", json_boolean(!study->stride));
    SET("stride", study->stride ? json_integer((json_int_t)study->stride) : json_null());
    SET("certify", s->certify > 0.0 ? json_real(s->certify) : json_null());
#undef SET
    if (!bad) return all;
    json_decref(all);
    return NULL;
}

/* What files of the first edition were made with. */
static json_t *absent_settings(void) {
    return json_pack("{s:b, s:n, s:n, s:b, s:b}", "tiled", 1, "stride", "certify", "sink",
                     0, "special", 0);
}

/* A run keeps its stride, so that lengths up to it can be added. */
lipsc_status lipsc_study_take_stride(lipsc_study *study, lipsc_error *err) {
    const lipsc_study_settings *s = &study->set;
    if (!s->run_file || s->source.stride || s->source.tiled || lipsc_study_is_single(s))
        return LIPSC_OK;
    json_t *stored = lipsc_run_settings(s->run_file, command);
    if (!stored) return LIPSC_OK;
    const json_int_t stride = json_integer_value(json_object_get(stored, "stride"));
    json_decref(stored);
    if (stride <= 0)
        return lipsc_fail(err, LIPSC_E_RANGE,
                          "%s: its windows are tiled, window w of length n starts at token "
                          "w n: only tiled ones continue it",
                          s->run_file);
    study->stride = (size_t)stride;
    return LIPSC_OK;
}

/* ---- Rows ---------------------------------------------------------------------------- */

lipsc_status lipsc_study_fetch(lipsc_study *study, const study_cell *cell, lipsc_pool *pool,
                               lipsc_row *row, lipsc_error *err) {
    char key[LIPSC_CELL_KEY];
    int there = 0;
    lipsc_study_cell_key(study, cell, key);
    const lipsc_status status = lipsc_run_get_row(study->run, key, pool, &there, row, err);
    if (!status && !there)
        return lipsc_fail(err, LIPSC_E_FORMAT, "a stored cell is gone: %s", key);
    return status;
}

/* The row that an earlier run has stored, if there is one. */
static lipsc_status restore(lipsc_study *study, study_cell *cell, lipsc_error *err) {
    lipsc_row *row = &study->rows[cell - study->cells];
    char key[LIPSC_CELL_KEY];
    json_t *stored;
    lipsc_study_cell_key(study, cell, key);
    if (study->set.rows_stay) {
        int there = 0;
        const lipsc_status status = lipsc_run_has(study->run, key, &there, err);
        cell->stored = there != 0;
        return status;
    }
    lipsc_status status = lipsc_run_get(study->run, key, &stored, err);
    if (status || !stored) return status;
    status = lipsc_row_read(stored, &study->pool, row, err);
    json_decref(stored);
    if (!status) cell->row = row;
    return status;
}

/* A cell whose direction is asked for and not there is computed again: the run file does
 * not have it. */
static int lacks_direction(const lipsc_study *study, const study_cell *cell) {
    char path[4096];
    return study->set.save_direction &&
           (!lipsc_study_direction_path(study, cell, path, sizeof path) ||
            access(path, R_OK));
}

static lipsc_status restore_all(lipsc_study *study, lipsc_error *err) {
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; i < study->cell_count && !status; i++)
        if (!lacks_direction(study, &study->cells[i]))
            status = restore(study, &study->cells[i], err);
    return status;
}

static lipsc_status open_file(lipsc_study *study, lipsc_error *err) {
    const lipsc_fields fields = lipsc_row_fields();
    const char **names = lipsc_alloc(fields.count, sizeof *names);
    json_t *settings = settings_json(study), *absent = absent_settings();
    lipsc_status status = names && settings && absent
                              ? LIPSC_OK
                              : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a run");
    if (!status) {
        lipsc_fields_names(fields, names);
        const lipsc_run_options how = {.command = command,
                                       .command_line = study->set.command_line,
                                       .settings = settings,
                                       .absent = absent,
                                       .field_count = fields.count,
                                       .fields = names};
        status = lipsc_run_open(study->set.run_file, &how, &study->run, err);
    }
    lipsc_release(names);
    json_decref(settings);
    json_decref(absent);
    return status;
}

lipsc_status lipsc_study_open_run(lipsc_study *study, lipsc_error *err) {
    study->run = study->set.run;
    if (study->set.run_file && !study->run) {
        const lipsc_status status = open_file(study, err);
        if (status) return status;
    }
    return study->run ? restore_all(study, err) : LIPSC_OK;
}

lipsc_status lipsc_study_store(lipsc_study *study, const study_cell *cell,
                               lipsc_error *err) {
    char key[LIPSC_CELL_KEY];
    lipsc_status status = lipsc_study_store_words(study, cell, err);
    if (status) return status;
    json_t *row = lipsc_row_json(cell->row);
    if (!row) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a row");
    lipsc_study_cell_key(study, cell, key);
    status = lipsc_run_put(study->run, key, row, err);
    json_decref(row);
    return status;
}
