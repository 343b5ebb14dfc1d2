/* sweep.c - computes the cells that have no row yet and stores each when finished.
 *
 * Windows go through the model together, a few layers at a time, as many as needs.c has
 * room for: the weights of these are made ready once for all windows, and of a window on
 * its way only its residual stream is kept.  The forward pass of a window is thus made
 * once and shared by its layers and heads; where tokens see none behind them, also by the
 * shorter windows that begin where it does.
 *
 * Products of short windows are too small to feed several threads, so cells are spread over
 * the threads, one thread each, and those of the same layer at several short windows are
 * one batch, whose products are made together; what remains of windows whose pair of
 * products alone is large is computed one after the other, with the threads inside the
 * products.  No sum depends on the number of threads, so neither do the results. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>

#include "backend/backend.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/json.h"
#include "core/mem.h"
#include "study/sweep.h"
#include "study/team.h"

/* Up to here (below a millisecond) a second thread costs more than it brings. */
static const double small_pair = 5e7;

typedef struct study_sweep sweep;

static int ended(sweep *s) {
    int status;
#pragma omp atomic read
    status = s->status;
    return status != LIPSC_OK;
}

static void fail(sweep *s, lipsc_status status, const lipsc_error *err) {
#pragma omp critical(study_finish)
    if (s->status == LIPSC_OK) {
        s->err = *err;
#pragma omp atomic write
        s->status = (int)status;
    }
}

static void tell_progress(const sweep *s) {
    const lipsc_study *study = s->study;
    const double elapsed = lipsc_seconds() - s->begin;
    const lipsc_study_progress now = {
        .done = study->cell_count - s->open + s->done,
        .total = study->cell_count,
        .cells_per_second = (double)s->done / elapsed,
        .seconds_left = elapsed * (s->open_cost - s->done_cost) / s->done_cost};
    if (study->set.progress) study->set.progress(study->set.ctx, &now);
}

/* Whether a row is forgotten as soon as it is handed on. */
static int stays(const lipsc_study *study, const study_cell *cell) {
    return study->set.rows_stay && study->run && lipsc_team_leads(study) && !cell->passing;
}

/* Keeps the row with what stands in its room. */
static lipsc_status keep(lipsc_study *study, study_cell *cell, const lipsc_row *row,
                         lipsc_error *err) {
    lipsc_row *kept = &study->rows[cell - study->cells];
    if (stays(study, cell)) {
        cell->row = row; /* for as long as it is handed on */
        return LIPSC_OK;
    }
    *kept = *row;
    if (row->rounding) kept->rounding = lipsc_pool_text(&study->pool, row->rounding);
    if (row->sigmas.at)
        kept->sigmas.at = lipsc_pool_reals(&study->pool, row->sigmas.count, row->sigmas.at);
    if (row->influence.at)
        kept->influence.at =
            lipsc_pool_reals(&study->pool, row->influence.count, row->influence.at);
    if ((row->rounding && !kept->rounding) || (row->sigmas.at && !kept->sigmas.at) ||
        (row->influence.at && !kept->influence.at))
        return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a row");
    cell->row = kept;
    return LIPSC_OK;
}

static void add_times(lipsc_study_times *sum, const lipsc_study_times *times) {
    sum->prepare += times->prepare;
    sum->solve += times->solve;
    sum->extras += times->extras;
    sum->products += times->products;
}

/* A row that is kept is stored, or sent to who stores, and told. */
static lipsc_status hand_on(sweep *s, study_cell *cell, lipsc_error *err) {
    lipsc_study *study = s->study;
    lipsc_status status = LIPSC_OK;
    if (!lipsc_team_leads(study))
        status = lipsc_team_send_row(study, cell, err);
    else if (study->run && !cell->passing)
        status = lipsc_study_store(study, cell, err);
    if (!status && study->set.row) study->set.row(study->set.ctx, cell->row);
    if (stays(study, cell)) {
        cell->row = NULL;
        cell->stored = !status;
    }
    s->done++;
    s->done_cost += cell->cost;
    tell_progress(s);
    return status;
}

static void finish(sweep *s, study_cell *cell, const lipsc_row *row,
                   const lipsc_study_times *times) {
    lipsc_error err;
    lipsc_status status;
#pragma omp critical(study_finish)
    {
        status = keep(s->study, cell, row, &err);
        if (!status) status = hand_on(s, cell, &err);
        add_times(&s->study->times, times);
    }
    if (status) fail(s, status, &err);
}

void lipsc_sweep_take(study_sweep *s, study_cell *cell, const char *text) {
    lipsc_study *study = s->study;
    const int passes = stays(study, cell);
    lipsc_pool own_pool = {NULL}, *pool = passes ? &own_pool : &study->pool;
    lipsc_row own, *row = passes ? &own : &study->rows[cell - study->cells];
    int memory;
    json_t *object = lipsc_json_object(text, &memory);
    lipsc_error err;
    lipsc_status status;
#pragma omp critical(study_finish)
    {
        status = object ? lipsc_row_read(object, pool, row, &err)
                 : memory
                     ? lipsc_fail(&err, LIPSC_E_NOMEM, "out of memory for a row")
                     : lipsc_fail(&err, LIPSC_E_FORMAT, "a row of another rank is no row");
        if (!status) {
            cell->row = row;
            status = hand_on(s, cell, &err);
        }
    }
    json_decref(object);
    lipsc_pool_free(&own_pool);
    if (status) fail(s, status, &err);
}

void lipsc_sweep_fail(study_sweep *s, lipsc_status status, const lipsc_error *err) {
    fail(s, status, err);
}

lipsc_status lipsc_sweep_outcome(study_sweep *s) {
    lipsc_error err;
    if (s->done < s->open) fail(s, lipsc_fail(&err, LIPSC_E_STOPPED, "interrupted"), &err);
    return (lipsc_status)s->status;
}

int lipsc_sweep_ended(study_sweep *s) { return ended(s) || lipsc_study_stopped(s->study); }

lipsc_status lipsc_sweep_status(const study_sweep *s, lipsc_error *err) {
    if (s->status) *err = s->err;
    return (lipsc_status)s->status;
}

int lipsc_sweep_follows(const sweep *s, const study_group *g, const study_group *leader) {
    return s->beginnings && g->start == leader->start && g->n <= leader->n &&
           g->last <= leader->last;
}

static lipsc_status begin_window(sweep *s, study_group *g, lipsc_error *err) {
    lipsc_study *study = s->study;
    const study_cell *first = &study->cells[g->first];
    if (g->acts) return LIPSC_OK;
    if (!g->tokens)
        return lipsc_window_begin(&study->source, first->start, first->n, study->model,
                                  study->set.dtype, &g->acts, err);
    const lipsc_status status =
        lipsc_acts_begin_at(study->model, study->set.dtype, g->n, g->tokens, &g->acts, err);
    lipsc_release(g->tokens);
    g->tokens = NULL;
    return status;
}

/* Runs the window through the layers of the span, or as far as a cell needs it. */
static lipsc_status pass_span(sweep *s, study_group *g, study_span at, int threads,
                              lipsc_error *err) {
    lipsc_study *study = s->study;
    lipsc_status status = begin_window(s, g, err);
    if (!status && study->set.map != LIPSC_MAP_MODEL)
        status = lipsc_acts_pass(study->model, g->acts, threads,
                                 g->last < at.to ? g->last : at.to, err);
    if (!status && g->last < at.to)
        status = lipsc_acts_attend(study->model, g->acts, threads, err);
    return status;
}

void lipsc_sweep_read_window(sweep *s, study_group *g) {
    lipsc_study *study = s->study;
    const study_cell *first = &study->cells[g->first];
    lipsc_error err;
    if (g->acts || ended(s) || lipsc_study_stopped(study)) return;
    const double begin = lipsc_seconds();
    const lipsc_status status = lipsc_window_read(&study->source, first->start, first->n,
                                                  study->model, &g->tokens, &err);
    if (status) fail(s, status, &err);
#pragma omp atomic
    study->times.forward += lipsc_seconds() - begin;
}

void lipsc_sweep_window(sweep *s, study_group *g, study_span at, int threads) {
    lipsc_error err;
    if (ended(s) || lipsc_study_stopped(s->study)) return;
    const double begin = lipsc_seconds();
    const lipsc_status status = pass_span(s, g, at, threads, &err);
    if (status) fail(s, status, &err);
#pragma omp atomic
    s->study->times.forward += threads * (lipsc_seconds() - begin);
}

lipsc_acts *lipsc_sweep_beginning(sweep *s, const study_group *g, const lipsc_acts *whole) {
    lipsc_acts *acts = NULL;
    lipsc_error err;
    if (ended(s) || lipsc_study_stopped(s->study)) return NULL;
    const lipsc_status status = lipsc_acts_first(s->study->model, whole, g->n, &acts, &err);
    if (status) fail(s, status, &err);
    return acts;
}

lipsc_acts *lipsc_sweep_behind(sweep *s, const study_group *g) {
    lipsc_acts *behind = NULL;
    lipsc_error err;
    if (!g->acts || ended(s)) return NULL;
    const lipsc_status status = lipsc_acts_part(s->study->model, g->acts, &behind, &err);
    if (status) fail(s, status, &err);
    return behind;
}

void lipsc_sweep_leave(study_group *g, lipsc_acts *acts, study_span at) {
    if (g->acts != acts) lipsc_acts_free(g->acts);
    g->acts = NULL;
    if (g->last < at.to) {
        lipsc_acts_free(acts);
        return;
    }
    lipsc_acts_forget(acts);
    g->acts = acts;
}

void lipsc_sweep_cells(sweep *s, size_t count, study_job *job, int threads) {
    if (ended(s)) return;
    if (lipsc_study_stopped(s->study)) {
        const lipsc_error err = {.text = "interrupted"};
        fail(s, LIPSC_E_STOPPED, &err);
        return;
    }
    job->told = count == 1 && threads == s->study->threads; /* no other is under way */
    lipsc_study_compute(s->study, count, job, threads);
    for (size_t i = 0; i < count; i++) {
        if (job[i].status)
            fail(s, job[i].status, &job[i].err);
        else
            finish(s, job[i].cell, &job[i].row, &job[i].times);
        lipsc_release(job[i].room.sigmas);
        lipsc_release(job[i].room.influence);
    }
}

/* All threads inside each product, unless it is too small for more than one. */
static void run_in_turn(sweep *s, study_group *g, study_span at) {
    const double together = s->study->set.certify > 0.0 ? 32.0 : 1.0; /* vectors */
    const int threads = together * g->cost < small_pair ? 1 : s->study->threads;
    omp_set_num_threads(threads);
    lipsc_sweep_window(s, g, at, threads);
    for (size_t i = 0; i < g->count && g->acts; i++) {
        study_job job = {.cell = &s->study->cells[g->first + i], .acts = g->acts};
        if (lipsc_group_cell_open(job.cell, at)) lipsc_sweep_cells(s, 1, &job, threads);
    }
    if (g->acts) lipsc_sweep_leave(g, g->acts, at);
}

/* Of the last layer that is needed, attention alone. */
static int is_needed(sweep *s, size_t part, size_t last) {
    const size_t layer = part / LIPSC_WARM_PARTS;
    const int what = (int)(part % LIPSC_WARM_PARTS);
    return (layer < last || (layer == last && !what)) && !lipsc_sweep_ended(s);
}

void lipsc_sweep_read(sweep *s, size_t part, size_t last) {
    if (is_needed(s, part, last))
        lipsc_model_read(s->study->model, part / LIPSC_WARM_PARTS,
                         (int)(part % LIPSC_WARM_PARTS));
}

void lipsc_sweep_warm(sweep *s, size_t part, size_t last) {
    const lipsc_study *study = s->study;
    if (is_needed(s, part, last))
        lipsc_model_warm(study->model, part / LIPSC_WARM_PARTS,
                         (int)(part % LIPSC_WARM_PARTS), study->set.dtype,
                         study->set.device);
}

/* The weights of a span as far as they are needed, side by side: the device waits. */
static void warm_span(sweep *s, size_t count, const study_group *groups, study_span at) {
    const size_t last = lipsc_groups_last(count, groups);
#pragma omp parallel for schedule(dynamic, 1) num_threads(s->study->threads)
    for (size_t p = at.from * LIPSC_WARM_PARTS; p < at.to * LIPSC_WARM_PARTS; p++)
        lipsc_sweep_warm(s, p, last);
}

/* ---- Which windows and layers go together -------------------------------------------- */

static void run_span(sweep *s, size_t count, study_group *groups, study_span at) {
    lipsc_groups_choose_alone(s->study, &s->kind, count, groups);
    if (s->beginnings) lipsc_groups_by_start(count, groups);
    /* a certificate keeps all threads busy, and may need much memory */
    const size_t shared = lipsc_groups_count_shared(s->study, count, groups, at);
    const int all_alone = s->study->set.certify > 0.0 || shared < (size_t)s->study->threads;
    if (!all_alone)
        lipsc_sweep_side_by_side(s, count, groups, shared, at);
    else if (lipsc_device_table(s->study->set.device)->batch_tokens)
        warm_span(s, count, groups, at);
    for (size_t i = 0; i < count; i++)
        if (all_alone || groups[i].alone) run_in_turn(s, &groups[i], at);
}

/* Windows that go through the model together. */
static void run_together(sweep *s, size_t count, study_group *groups) {
    lipsc_model *model = s->study->model;
    const size_t layers = s->study->info->layers, step = lipsc_study_layers_ready(&s->kind);
    const int queued = lipsc_device_table(s->study->set.device)->batch_tokens != 0;
    const size_t last = lipsc_groups_last(count, groups);
    if ((step < layers || queued) && !s->beginnings)
        lipsc_groups_longest_first(count, groups);
    for (study_span at = {0}; at.from <= last; at.from = at.to) {
        at.to = layers - at.from > step ? at.from + step : layers;
        for (size_t l = at.from; l < at.to; l++) lipsc_model_hold(model, l);
        count = lipsc_groups_move_through(count, groups, at);
        run_span(s, count, groups, at);
        for (size_t l = at.from; l < at.to; l++) lipsc_model_let_go(model, l);
    }
}

static void run_groups(sweep *s, size_t count, study_group *groups) {
    if (s->beginnings) lipsc_groups_by_start(count, groups);
    for (size_t i = 0, next; i < count && !ended(s) && !lipsc_study_stopped(s->study);
         i = next) {
        double bytes = 0.0;
        for (next = i; next < count; next++) {
            bytes += lipsc_study_stream_bytes(s->study->model, groups[next].n);
            if (next > i && bytes > lipsc_study_streams_room) break;
        }
        run_together(s, next - i, groups + i);
        for (size_t g = i; g < next; g++) {
            lipsc_acts_free(groups[g].acts);
            lipsc_release(groups[g].tokens);
        }
    }
}

/* ---- What it will take ----------------------------------------------------------------
 */

/* Operations of a second or so: shorter sweeps are not worth a trial of the speed. */
static const double short_sweep = 1e11;

/* Operations of the forward passes. */
static double forward_cost(const sweep *s, size_t count, const study_group *groups) {
    const lipsc_model_info *info = s->study->info;
    const double d = (double)info->d, numbers = d * (4.0 * d + 3.0 * (double)info->ffn);
    double sum = 0.0;
    for (size_t i = 0; i < count; i++)
        sum += 2.0 * numbers * (double)groups[i].n * (double)groups[i].last;
    return sum;
}

/* A cell takes its steps, however short it is; f16 is tried where tol allows it. */
static double on_device(const sweep *s, const lipsc_device_ops *ops, double operations) {
    const double least_cell = 2e-3, half_gain = 3.0, double_loss = 0.5;
    const lipsc_study_settings *set = &s->study->set;
    double speed = ops->speed * (set->dtype == LIPSC_F64 ? double_loss : 1.0);
    int halves = ops->half && set->tol >= 1e-3 && !set->pinned;
    for (size_t i = 0; i < s->study->cell_count; i++)
        halves = halves && s->study->cells[i].n >= ops->half;
    return operations / (halves ? half_gain * speed : speed) + least_cell * (double)s->open;
}

static double seconds_of(const sweep *s, double operations) {
    const lipsc_study *study = s->study;
    if (study->set.certify > 0.0) return NAN;
    const lipsc_device_ops *ops = lipsc_device_table(study->set.device);
    if (ops->speed > 0.0) return on_device(s, ops, operations);
    if (operations < short_sweep) return operations / short_sweep;
    return operations / (lipsc_study_speed(study->set.dtype) * study->threads *
                         (double)lipsc_ranks_count(study->set.ranks));
}

static double bytes_of(const sweep *s, size_t count, const study_group *groups) {
    double streams = 0.0;
    size_t longest = 0;
    for (size_t i = 0; i < count; i++) {
        streams += lipsc_study_stream_bytes(s->study->model, groups[i].n);
        if (groups[i].n > longest) longest = groups[i].n;
    }
    return lipsc_study_sweep_bytes(&s->kind, longest, streams);
}

/* ---- Together -------------------------------------------------------------------------
 */

/* An allocator that hands arrays above 128 KiB back to the system has the pages of every
 * cell cleared anew, 4 % of a sweep over short windows.  glibc's learns from what is freed:
 * up to this size it keeps memory from now on. */
static void teach_allocator(void) { lipsc_release(lipsc_alloc(30 << 20, 1)); }

int lipsc_study_beginnings(const lipsc_study *study) {
    const lipsc_source *source = &study->source;
    return !source->pixels && !source->after && lipsc_model_looks_back(study->model);
}

static sweep begin(lipsc_study *study) {
    sweep s = {
        .study = study,
        .beginnings = lipsc_study_beginnings(study),
        .kind = {.model = study->model,
                 .map = study->set.map,
                 .dtype = study->set.dtype,
                 .threads = study->threads,
                 .queued = lipsc_device_table(study->set.device)->batch_tokens != 0}};
    for (size_t i = 0; i < study->cell_count; i++)
        if (!lipsc_cell_done(&study->cells[i])) {
            s.open++;
            s.open_cost += study->cells[i].cost;
        }
    return s;
}

lipsc_study_cost lipsc_study_needs(lipsc_study *study) {
    const sweep s = begin(study);
    lipsc_study_cost needs = {.cells = s.open, .seconds = NAN, .bytes = NAN};
    study_group *groups = lipsc_alloc(study->cell_count, sizeof *groups);
    if (!groups) return needs;
    const size_t count = lipsc_groups_find(study, groups);
    needs.seconds = seconds_of(&s, lipsc_study_pairs_of_cell * s.open_cost +
                                       forward_cost(&s, count, groups));
    needs.bytes = bytes_of(&s, count, groups);
    lipsc_release(groups);
    return needs;
}

void lipsc_sweep_run(study_sweep *s) {
    const int before = omp_get_max_threads(); /* of the caller, set back at the end */
    study_group *groups = lipsc_alloc(s->study->cell_count, sizeof *groups);
    if (groups) {
        run_groups(s, lipsc_groups_find(s->study, groups), groups);
    } else {
        lipsc_error err;
        fail(s, lipsc_fail(&err, LIPSC_E_NOMEM, "out of memory for a study"), &err);
    }
    lipsc_release(groups);
    omp_set_num_threads(before);
}

/* Of the last seconds, those in which a device that is no CPU was busy. */
static double device_seconds(const lipsc_device *device, double seconds) {
    const lipsc_device_ops *ops = lipsc_device_table(device);
    double part;
    if (!ops->busy) return 0.0;
    return ops->busy(device, seconds, &part) ? NAN : part * seconds;
}

static lipsc_status run_once(lipsc_study *study, lipsc_error *err) {
    sweep s = begin(study);
    const int shared = study->team && !study->team->over;
    teach_allocator();
    s.begin = lipsc_seconds();
    if (!shared)
        lipsc_sweep_run(&s);
    else if (lipsc_team_leads(study))
        lipsc_team_lead(study, &s);
    else
        lipsc_team_follow(study, &s);
    const double seconds = lipsc_seconds() - s.begin;
    study->times.wall += seconds;
    study->times.device += device_seconds(study->set.device, seconds);
    if (lipsc_team_leads(study)) lipsc_sweep_outcome(&s);
    if (s.status) *err = s.err;
    return (lipsc_status)s.status;
}

lipsc_status lipsc_study_run(lipsc_study *study, lipsc_error *err) {
    lipsc_error why = {.text = ""};
    lipsc_status status = run_once(study, &why);
    if (lipsc_study_falls_back(study, status, &why)) status = run_once(study, &why);
    if (status && err) *err = why;
    return status;
}
