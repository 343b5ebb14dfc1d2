/* sweep.c - computes the cells that have no row yet and stores each when finished.
 *
 * Windows go through the model together, a few layers at a time, as many as needs.c has
 * room for: the weights of these are made ready once for all windows, and of a window on
 * its way only its residual stream is kept.  The forward pass of a window is thus made
 * once and shared by its layers and heads.
 *
 * Products of short windows are too small to feed several threads, so cells are spread over
 * the threads, one thread each; what remains of windows whose pair of products alone is
 * large is computed one after the other, with the threads inside the products.  No sum
 * depends on the number of threads, so neither do the results. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/mem.h"
#include "study/needs.h"
#include "study/study.h"

/* From here on (about 20 ms a pair) a product keeps all threads busy by itself. */
static const double large_pair = 2e9;
/* Up to here (below a millisecond) a second thread costs more than it brings. */
static const double small_pair = 5e7;

/* Cells first .. first+count-1 share a window and a length. */
typedef struct {
    size_t first, count;
    size_t last; /* layer of its last open cell */
    double cost; /* of one pair of products     */
    int alone;   /* all threads work for it     */
    lipsc_acts *acts;
} group;

/* Layers from .. to-1, which all windows pass before the next. */
typedef struct {
    size_t from, to;
} span;

typedef struct {
    lipsc_study *study;
    double begin;
    size_t done, open;           /* cells of this run: finished, and all of them */
    double done_cost, open_cost; /* the same in operations                       */
    study_kind kind;
    int status; /* lipsc_status of the first failure, which ends it     */
    lipsc_error err;
} sweep;

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

/* Keeps the row with what stands in its room. */
static lipsc_status keep(lipsc_study *study, study_cell *cell, const lipsc_row *row,
                         lipsc_error *err) {
    lipsc_row *kept = &study->rows[cell - study->cells];
    *kept = *row;
    if (row->rounding) kept->rounding = lipsc_pool_text(&study->pool, row->rounding);
    if (row->sigmas.at)
        kept->sigmas.at = lipsc_pool_reals(&study->pool, row->sigmas.count, row->sigmas.at);
    if ((row->rounding && !kept->rounding) || (row->sigmas.at && !kept->sigmas.at))
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

static void finish(sweep *s, study_cell *cell, const lipsc_row *row,
                   const lipsc_study_times *times) {
    lipsc_study *study = s->study;
    lipsc_error err;
    lipsc_status status;
#pragma omp critical(study_finish)
    {
        status = keep(study, cell, row, &err);
        if (study->run && !status && !cell->passing)
            status = lipsc_study_store(study, cell, &err);
        if (!status && study->set.row) study->set.row(study->set.ctx, cell->row);
        add_times(&study->times, times);
        s->done++;
        s->done_cost += cell->cost;
        tell_progress(s);
    }
    if (status) fail(s, status, &err);
}

/* Runs the window through the layers of the span, or as far as a cell needs it. */
static lipsc_status pass_span(sweep *s, group *g, span at, int threads, lipsc_error *err) {
    lipsc_study *study = s->study;
    const study_cell *first = &study->cells[g->first];
    lipsc_status status = LIPSC_OK;
    if (!g->acts)
        status = lipsc_window_begin(&study->source, first->start, first->n, study->model,
                                    study->set.dtype, &g->acts, err);
    if (!status && study->set.map != LIPSC_MAP_MODEL)
        status = lipsc_acts_pass(study->model, g->acts, threads,
                                 g->last < at.to ? g->last : at.to, err);
    if (!status && g->last < at.to)
        status = lipsc_acts_attend(study->model, g->acts, threads, err);
    return status;
}

static void compute_window(sweep *s, group *g, span at, int threads) {
    lipsc_error err;
    if (ended(s) || lipsc_study_stopped(s->study)) return;
    const double begin = lipsc_seconds();
    const lipsc_status status = pass_span(s, g, at, threads, &err);
    if (status) fail(s, status, &err);
#pragma omp atomic
    s->study->times.forward += threads * (lipsc_seconds() - begin);
}

/* Behind the cells of a span. */
static void leave_span(group *g, span at) {
    if (!g->acts) return;
    if (g->last >= at.to) {
        lipsc_acts_forget(g->acts);
        return;
    }
    lipsc_acts_free(g->acts);
    g->acts = NULL;
}

static void compute_cell(sweep *s, const group *g, study_cell *cell, int threads) {
    lipsc_error err = {.text = "interrupted"};
    lipsc_row row;
    study_room room = {.sigmas = NULL};
    lipsc_study_times times = {0};
    if (ended(s) || cell->row || !g->acts) return;
    lipsc_status status = LIPSC_E_STOPPED;
    if (!lipsc_study_stopped(s->study))
        status = lipsc_study_compute(s->study, cell, g->acts, threads, &times, &room, &row,
                                     &err);
    if (status)
        fail(s, status, &err);
    else
        finish(s, cell, &row, &times);
    lipsc_release(room.sigmas);
}

static int is_open(const study_cell *cell, span at) {
    return !cell->row &&
           (cell->layer == LIPSC_NONE || (cell->layer >= at.from && cell->layer < at.to));
}

/* A thread that has run a window takes its cells first, so that values come early; a thread
 * without a window helps another. */
static void run_group(sweep *s, group *g, span at) {
    compute_window(s, g, at, 1);
    for (size_t i = 0; i < g->count; i++) {
        study_cell *cell = &s->study->cells[g->first + i];
        if (!is_open(cell, at)) continue;
#pragma omp task firstprivate(cell)
        compute_cell(s, g, cell, 1);
    }
#pragma omp taskwait
    leave_span(g, at);
}

/* One thread for each cell of groups that are not alone. */
static void run_side_by_side(sweep *s, size_t count, group *groups, span at) {
#pragma omp parallel num_threads(s->study->threads)
    {
        omp_set_num_threads(1); /* of regions inside, vector sums for instance */
#pragma omp single
        for (size_t i = 0; i < count; i++) {
            group *g = &groups[i];
            if (g->alone) continue;
#pragma omp task firstprivate(g)
            run_group(s, g, at);
        }
    }
}

/* All threads inside each product, unless it is too small for more than one. */
static void run_in_turn(sweep *s, group *g, span at) {
    const double together = s->study->set.certify > 0.0 ? 32.0 : 1.0; /* vectors */
    const int threads = together * g->cost < small_pair ? 1 : s->study->threads;
    omp_set_num_threads(threads);
    compute_window(s, g, at, threads);
    for (size_t i = 0; i < g->count; i++)
        if (is_open(&s->study->cells[g->first + i], at))
            compute_cell(s, g, &s->study->cells[g->first + i], threads);
    leave_span(g, at);
}

/* ---- Which windows and layers go together -------------------------------------------- */

/* The groups in which a cell is open; how many.  groups: room for all cells. */
static size_t find_groups(const lipsc_study *study, group *groups) {
    size_t found = 0;
    for (size_t at = 0, count; at < study->cell_count; at += count) {
        const study_cell *first = &study->cells[at];
        group g = {.first = at, .cost = first->cost};
        int open = 0;
        for (count = 0; at + count < study->cell_count; count++) {
            const study_cell *cell = &first[count];
            if (cell->n != first->n || cell->window != first->window) break;
            if (cell->row) continue;
            open = 1;
            if (cell->layer != LIPSC_NONE && cell->layer > g.last) g.last = cell->layer;
        }
        g.count = count;
        if (open) groups[found++] = g;
    }
    return found;
}

static size_t length(const sweep *s, const group *g) { return s->study->cells[g->first].n; }

static int longest_first(const void *a, const void *b) {
    const group *g = a, *h = b;
    if (g->cost != h->cost) return g->cost < h->cost ? 1 : -1;
    return g->first < h->first ? -1 : g->first > h->first;
}

/* Which groups get all threads: of large ones what does not fill the threads one by one, or
 * all where that many do not fit into memory. */
static void choose_alone(const sweep *s, size_t count, group *groups) {
    const size_t threads = (size_t)s->study->threads;
    size_t large = 0, longest = 0;
    for (size_t i = 0; i < count; i++) {
        groups[i].alone = groups[i].cost >= large_pair;
        large += (size_t)groups[i].alone;
        if (length(s, &groups[i]) > longest) longest = length(s, &groups[i]);
    }
    if (!lipsc_study_side_by_side(&s->kind, longest)) return;
    size_t shared = large - large % threads;
    for (size_t i = 0; i < count && shared; i++) {
        shared -= (size_t)groups[i].alone;
        groups[i].alone = 0;
    }
}

static size_t count_shared(const sweep *s, size_t count, const group *groups, span at) {
    size_t open = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < groups[i].count; c++)
            open += !groups[i].alone && is_open(&s->study->cells[groups[i].first + c], at);
    return open;
}

static void run_span(sweep *s, size_t count, group *groups, span at) {
    choose_alone(s, count, groups);
    /* a certificate keeps all threads busy, and may need much memory */
    const int all_alone = s->study->set.certify > 0.0 ||
                          count_shared(s, count, groups, at) < (size_t)s->study->threads;
    if (!all_alone) run_side_by_side(s, count, groups, at);
    for (size_t i = 0; i < count; i++)
        if (all_alone || groups[i].alone) run_in_turn(s, &groups[i], at);
}

/* Groups that are through go behind the others, whose number is returned. */
static size_t move_through(size_t count, group *groups, span at) {
    size_t left = 0;
    for (size_t i = 0; i < count; i++)
        if (groups[i].last >= at.from) {
            const group moved = groups[left];
            groups[left++] = groups[i];
            groups[i] = moved;
        }
    return left;
}

/* Windows that go through the model together. */
static void run_together(sweep *s, size_t count, group *groups) {
    lipsc_model *model = s->study->model;
    const size_t layers = s->study->info->layers, step = lipsc_study_layers_ready(&s->kind);
    size_t last = 0;
    for (size_t i = 0; i < count; i++)
        if (groups[i].last > last) last = groups[i].last;
    if (step < layers) qsort(groups, count, sizeof *groups, longest_first);
    for (span at = {0}; at.from <= last; at.from = at.to) {
        at.to = layers - at.from > step ? at.from + step : layers;
        for (size_t l = at.from; l < at.to; l++) lipsc_model_hold(model, l);
        count = move_through(count, groups, at);
        run_span(s, count, groups, at);
        for (size_t l = at.from; l < at.to; l++) lipsc_model_let_go(model, l);
    }
}

static void run_groups(sweep *s, size_t count, group *groups) {
    for (size_t i = 0, next; i < count && !ended(s) && !lipsc_study_stopped(s->study);
         i = next) {
        double bytes = 0.0;
        for (next = i; next < count; next++) {
            bytes += lipsc_study_stream_bytes(s->study->model, length(s, &groups[next]));
            if (next > i && bytes > lipsc_study_streams_room) break;
        }
        run_together(s, next - i, groups + i);
        for (size_t g = i; g < next; g++) lipsc_acts_free(groups[g].acts);
    }
}

/* ---- What it will take ----------------------------------------------------------------
 */

/* Pairs of products of most cells, all else that a cell costs included. */
static const double pairs_of_cell = 12.0;
/* Operations of a second or so: shorter sweeps are not worth a trial of the speed. */
static const double short_sweep = 1e11;

/* Operations of the forward passes. */
static double forward_cost(const sweep *s, size_t count, const group *groups) {
    const lipsc_model_info *info = s->study->info;
    const double d = (double)info->d, numbers = d * (4.0 * d + 3.0 * (double)info->ffn);
    double sum = 0.0;
    for (size_t i = 0; i < count; i++)
        sum += 2.0 * numbers * (double)length(s, &groups[i]) * (double)groups[i].last;
    return sum;
}

static double seconds_of(const sweep *s, double operations) {
    const lipsc_study *study = s->study;
    if (study->set.certify > 0.0) return NAN;
    if (operations < short_sweep) return operations / short_sweep;
    return operations / (lipsc_study_speed(study->set.dtype) * study->threads);
}

static double bytes_of(const sweep *s, size_t count, const group *groups) {
    double streams = 0.0;
    size_t longest = 0;
    for (size_t i = 0; i < count; i++) {
        streams += lipsc_study_stream_bytes(s->study->model, length(s, &groups[i]));
        if (length(s, &groups[i]) > longest) longest = length(s, &groups[i]);
    }
    return lipsc_study_sweep_bytes(&s->kind, longest, streams);
}

/* ---- Together -------------------------------------------------------------------------
 */

/* An allocator that hands arrays above 128 KiB back to the system has the pages of every
 * cell cleared anew, 4 % of a sweep over short windows.  glibc's learns from what is freed:
 * up to this size it keeps memory from now on. */
static void teach_allocator(void) { lipsc_release(lipsc_alloc(30 << 20, 1)); }

static sweep begin(lipsc_study *study) {
    sweep s = {.study = study,
               .kind = {.model = study->model,
                        .map = study->set.map,
                        .dtype = study->set.dtype,
                        .threads = study->threads}};
    for (size_t i = 0; i < study->cell_count; i++)
        if (!study->cells[i].row) {
            s.open++;
            s.open_cost += study->cells[i].cost;
        }
    return s;
}

lipsc_study_cost lipsc_study_needs(lipsc_study *study) {
    const sweep s = begin(study);
    lipsc_study_cost needs = {.cells = s.open, .seconds = NAN, .bytes = NAN};
    group *groups = lipsc_alloc(study->cell_count, sizeof *groups);
    if (!groups) return needs;
    const size_t count = find_groups(study, groups);
    needs.seconds =
        seconds_of(&s, pairs_of_cell * s.open_cost + forward_cost(&s, count, groups));
    needs.bytes = bytes_of(&s, count, groups);
    lipsc_release(groups);
    return needs;
}

lipsc_status lipsc_study_run(lipsc_study *study, lipsc_error *err) {
    sweep s = begin(study);
    const int before = omp_get_max_threads(); /* of the caller, set back at the end */
    group *groups = lipsc_alloc(study->cell_count, sizeof *groups);
    if (!groups) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a study");
    const size_t count = find_groups(study, groups);
    teach_allocator();
    s.begin = lipsc_seconds();
    run_groups(&s, count, groups);
    lipsc_release(groups);
    omp_set_num_threads(before);
    if (s.status == LIPSC_OK && s.done < s.open)
        s.status = (int)lipsc_fail(&s.err, LIPSC_E_STOPPED, "interrupted");
    if (s.status && err) *err = s.err;
    return (lipsc_status)s.status;
}
