/* study.c - opens and closes a study, and says what came out. */
#include "study/study.h"
#include "backend/backend.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/mem.h"
#include "run/growth.h"
#include "study/team.h"

void lipsc_study_defaults(lipsc_study_settings *set) {
    lipsc_svd_settings solver;
    lipsc_certify_settings certify;
    if (!set) return;
    lipsc_svd_defaults(&solver);
    lipsc_certify_defaults(&certify);
    *set = (lipsc_study_settings){.map = LIPSC_MAP_ATTENTION,
                                  .dtype = LIPSC_F32,
                                  .method = solver.method,
                                  .probability = solver.probability,
                                  .seed = solver.seed,
                                  .certify_seconds = certify.max_seconds,
                                  .certify_memory =
                                      (double)certify.max_bytes / (double)(1 << 30)};
}

/* ---- Who is told --------------------------------------------------------------------- */

int lipsc_study_stopped(const lipsc_study *study) {
    return study->set.stop && study->set.stop(study->set.ctx);
}

void lipsc_study_remark(const lipsc_study *study, const char *format, ...) {
    char sentence[sizeof((lipsc_error *)0)->text + LIPSC_CELL_KEY];
    va_list args;
    if (!study->set.remark) return;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
#pragma omp critical(study_finish)
    study->set.remark(study->set.ctx, sentence);
}

/* ---- Opening ------------------------------------------------------------------------- */

static lipsc_status check(const lipsc_study_settings *s, lipsc_error *err) {
    const int attention = s->map == LIPSC_MAP_HEADS || s->map == LIPSC_MAP_ATTENTION;
    if (!s->model) return lipsc_fail(err, LIPSC_E_ARG, "a study needs a model");
    if (s->upper && !attention)
        return lipsc_fail(err, LIPSC_E_ARG,
                          "upper is known for the maps heads and attention only");
    if (s->mask_override && *s->mask_override != LIPSC_MASK_NONE &&
        *s->mask_override != LIPSC_MASK_CAUSAL)
        return lipsc_fail(err, LIPSC_E_ARG, "another mask can be none or causal");
    return LIPSC_OK;
}

/* Model and text. */
static lipsc_status read_all(lipsc_study *study, lipsc_error *err) {
    const lipsc_study_settings *s = &study->set;
    lipsc_status status = check(s, err);
    if (status) return status;
    study->model = s->open;
    if (!study->model)
        status = lipsc_model_open_part(s->model, s->part, s->seed, &study->model, err);
    if (status) return status;
    study->info = lipsc_model_describe(study->model);
    status = lipsc_source_read(&s->source, s->model, study->info, &study->source, err);
    for (size_t i = 0; i < study->source.remark_count && !status; i++)
        lipsc_study_remark(study, "%s", study->source.remarks[i]);
    if (!status) status = lipsc_study_take_stride(study, err);
    return status;
}

static lipsc_status begin(lipsc_study *study, lipsc_error *err) {
    lipsc_status status = lipsc_team_new(study, err);
    if (!status) status = lipsc_team_meet(study, read_all(study, err), err);
    if (!status) status = lipsc_study_plan(study, err);
    if (!status) status = lipsc_study_prepare_directions(study, err);
    if (!status) status = lipsc_study_open_run(study, err);
    if (!status) status = lipsc_study_choose_device(study, err);
    if (status) return status;
    return lipsc_model_use(study->model, study->set.device, err);
}

lipsc_status lipsc_study_open(const lipsc_study_settings *set, lipsc_study **out,
                              lipsc_error *err) {
    if (!set || !out)
        return lipsc_fail(err, LIPSC_E_ARG, "a study needs settings and a place");
    lipsc_study *study = lipsc_alloc_zero(1, sizeof *study);
    if (!study) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a study");
    study->set = *set;
    lipsc_error why = {.text = ""};
    const lipsc_status status = begin(study, &why);
    if (status) {
        lipsc_team_part(study, status, &why);
        lipsc_study_close(study);
        if (err) *err = why;
    } else {
        *out = study;
    }
    return status;
}

void lipsc_study_close(lipsc_study *study) {
    const lipsc_error none = {.text = ""};
    if (!study) return;
    lipsc_team_part(study, LIPSC_OK, &none);
    lipsc_team_free(study->team);
    if (!study->set.run) lipsc_run_close(study->run);
    lipsc_release(study->cells);
    lipsc_release(study->rows);
    lipsc_release(study->sorted);
    lipsc_pool_free(&study->pool);
    lipsc_source_free(&study->source);
    if (!study->set.open) lipsc_model_free(study->model);
    lipsc_device_close(study->fallback);
    lipsc_release(study);
}

/* ---- What it is ---------------------------------------------------------------------- */

const lipsc_model_info *lipsc_study_model(const lipsc_study *study) { return study->info; }
const lipsc_source *lipsc_study_source(const lipsc_study *study) { return &study->source; }

size_t lipsc_study_count(const lipsc_study *study) { return study->cell_count; }

lipsc_cell lipsc_study_cell(const lipsc_study *study, size_t i) {
    const study_cell *cell = &study->cells[i];
    return (lipsc_cell){.layer = cell->layer,
                        .head = cell->head,
                        .n = cell->n,
                        .window = cell->window,
                        .start = cell->start,
                        .row = cell->row,
                        .finished = lipsc_cell_done(cell)};
}

void lipsc_study_key(const lipsc_study *study, size_t i, char key[LIPSC_CELL_KEY]) {
    lipsc_study_cell_key(study, &study->cells[i], key);
}

lipsc_study_times lipsc_study_spent(const lipsc_study *study) { return study->times; }

/* Of what stayed in the run file. */
static lipsc_status fetch_all(lipsc_study *study, lipsc_error *err) {
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; i < study->cell_count && !status; i++) {
        study_cell *cell = &study->cells[i];
        if (cell->row || !cell->stored) continue;
        status = lipsc_study_fetch(study, cell, &study->pool, &study->rows[i], err);
        if (!status) cell->row = &study->rows[i];
    }
    return status;
}

const lipsc_row *const *lipsc_study_rows(lipsc_study *study, size_t *count) {
    lipsc_error err;
    *count = 0;
    if (!study->sorted)
        study->sorted = lipsc_alloc(study->cell_count, sizeof *study->sorted);
    if (!study->sorted) return NULL;
    if (fetch_all(study, &err)) {
        lipsc_study_remark(study, "%s", err.text);
        return NULL;
    }
    for (size_t i = 0; i < study->cell_count; i++)
        if (study->cells[i].row) study->sorted[(*count)++] = study->cells[i].row;
    lipsc_rows_sort(*count, study->sorted);
    return study->sorted;
}

/* As lipsc_rows_sort has their rows. */
static int by_place(const void *a, const void *b) {
    const study_cell *x = *(const study_cell *const *)a, *y = *(const study_cell *const *)b;
    int o = lipsc_place_order(x->layer, y->layer);
    if (!o) o = lipsc_place_order(x->head, y->head);
    if (!o) o = lipsc_place_order(x->n, y->n);
    return o ? o : lipsc_place_order(x->window, y->window);
}

typedef void row_teller(void *ctx, size_t cell, const lipsc_row *row);

static lipsc_status tell_one(lipsc_study *study, const study_cell *cell, row_teller *tell,
                             void *ctx, lipsc_fitter *fitter, lipsc_error *err) {
    lipsc_pool pool = {NULL};
    lipsc_row own;
    const lipsc_row *row = cell->row ? cell->row : &own;
    lipsc_status status =
        cell->row ? LIPSC_OK : lipsc_study_fetch(study, cell, &pool, &own, err);
    if (!status && tell) tell(ctx, (size_t)(cell - study->cells), row);
    if (!status && fitter->out) {
        status = lipsc_fitter_add(fitter, row);
        if (status) lipsc_fail(err, status, "out of memory for the laws of a study");
    }
    lipsc_pool_free(&pool);
    return status;
}

lipsc_status lipsc_study_each(lipsc_study *study, row_teller *tell, void *ctx,
                              lipsc_growths *laws, lipsc_error *err) {
    const study_cell **sorted = lipsc_alloc(study->cell_count, sizeof *sorted);
    lipsc_fitter fitter = {.out = laws, .seed = study->set.seed};
    lipsc_status status = LIPSC_OK;
    size_t count = 0;
    if (laws) *laws = (lipsc_growths){.count = 0};
    if (!sorted) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a study");
    for (size_t i = 0; i < study->cell_count; i++)
        if (lipsc_cell_done(&study->cells[i])) sorted[count++] = &study->cells[i];
    if (count) qsort(sorted, count, sizeof *sorted, by_place);
    for (size_t i = 0; i < count && !status; i++)
        status = tell_one(study, sorted[i], tell, ctx, &fitter, err);
    lipsc_release(sorted);
    if (status) fitter.count = 0;
    const lipsc_status last = lipsc_fitter_end(&fitter);
    if (status || !last) return status;
    return lipsc_fail(err, last, "out of memory for the laws of a study");
}

lipsc_status lipsc_study_fits(lipsc_study *study, lipsc_growths *out, lipsc_error *err) {
    return lipsc_study_each(study, NULL, NULL, out, err);
}
