/* measure_sweep.c - computes the cells that have no row yet and stores each when finished.
 *
 * Windows go through the model together, a few layers at a time, as many as fit into
 * `weights_room`: the weights of these are made ready once for all windows, and of a window
 * on its way only its residual stream is kept.  The forward pass of a window is thus made
 * once and shared by its layers and heads.
 *
 * Products of short windows are too small to feed several threads, so cells are spread over
 * the threads, one thread each; what remains of windows whose pair of products alone is
 * large is computed one after the other, with the threads inside the products.  No sum
 * depends on the number of threads, so neither do the results. */
#include "measure.h"

#include <malloc.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "interrupt.h"
#include "progress.h"

/* From here on (about 20 ms a pair) a product keeps all threads busy by itself. */
static const double large_pair = 2e9;
/* Up to here (below a millisecond) a second thread costs more than it brings. */
static const double small_pair = 5e7;

/* Bytes: of weights that are ready at a time, one layer at least; of the residual streams
 * of windows that go together, one at least; of the vectors of all threads side by side. */
static const double weights_room = 192e6, streams_room = 256e6, vectors_room = 1e9;

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
    measure_job *job;
    cli_progress progress;
    double begin;
    size_t done, open;           /* cells of this run: finished, and all of them */
    double done_cost, open_cost; /* the same in operations                       */
    int status;                  /* lipsc_status of the first failure, which ends it */
    lipsc_error err;
} sweep;

static int ended(sweep *s) {
    int status;
#pragma omp atomic read
    status = s->status;
    return status != LIPSC_OK;
}

static void fail(sweep *s, lipsc_status status, const lipsc_error *err) {
#pragma omp critical(measure_finish)
    if (s->status == LIPSC_OK) {
        s->err = *err;
#pragma omp atomic write
        s->status = (int)status;
    }
}

static void show_progress(sweep *s) {
    const double elapsed = lipsc_seconds() - s->begin;
    const double left = elapsed * (s->open_cost - s->done_cost) / s->done_cost;
    const size_t before = s->job->cell_count - s->open;
    char time_left[32];
    if (left < 100.0)
        snprintf(time_left, sizeof time_left, "%.0f s", left);
    else if (left < 6000.0)
        snprintf(time_left, sizeof time_left, "%.0f min", left / 60.0);
    else
        snprintf(time_left, sizeof time_left, "%.1f h", left / 3600.0);
    cli_progress_say(&s->progress, "%zu of %zu cells  %.3g cells/s  %s left",
                     before + s->done, s->job->cell_count, (double)s->done / elapsed,
                     time_left);
}

static lipsc_status store(measure_job *job, const measure_cell *cell, lipsc_error *err) {
    char key[MEASURE_KEY];
    json_t *row = lipsc_row_json(cell->row);
    if (!row) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a row");
    measure_key(job, cell, key);
    const lipsc_status status = lipsc_run_put(job->run, key, row, err);
    json_decref(row);
    return status;
}

static void finish(sweep *s, measure_cell *cell, const lipsc_row *row,
                   const measure_times *times) {
    measure_job *job = s->job;
    lipsc_error err;
    lipsc_status status;
#pragma omp critical(measure_finish)
    {
        status = measure_keep(job, cell, row, &err);
        if (job->run && !status && !cell->passing) status = store(job, cell, &err);
        job->times.prepare += times->prepare;
        job->times.solve += times->solve;
        job->times.extras += times->extras;
        job->times.products += times->products;
        s->done++;
        s->done_cost += cell->cost;
        show_progress(s);
    }
    if (status) fail(s, status, &err);
}

/* Runs the window through the layers of the span, or as far as a cell needs it. */
static lipsc_status pass_span(sweep *s, group *g, span at, int threads, lipsc_error *err) {
    measure_job *job = s->job;
    lipsc_status status = LIPSC_OK;
    if (!g->acts) status = measure_window(job, &job->cells[g->first], &g->acts, err);
    if (!status && job->set->map != LIPSC_MAP_MODEL)
        status = lipsc_acts_pass(job->model, g->acts, threads,
                                 g->last < at.to ? g->last : at.to, err);
    if (!status && g->last < at.to)
        status = lipsc_acts_attend(job->model, g->acts, threads, err);
    return status;
}

static void compute_window(sweep *s, group *g, span at, int threads) {
    lipsc_error err;
    if (ended(s) || cli_interrupted(NULL)) return;
    const double begin = lipsc_seconds();
    const lipsc_status status = pass_span(s, g, at, threads, &err);
    if (status) fail(s, status, &err);
#pragma omp atomic
    s->job->times.forward += threads * (lipsc_seconds() - begin);
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

static void compute_cell(sweep *s, const group *g, measure_cell *cell, int threads) {
    lipsc_error err = {.text = "interrupted"};
    lipsc_row row;
    measure_room room = {.sigmas = NULL};
    measure_times times = {0};
    if (ended(s) || cell->row || !g->acts) return;
    lipsc_status status = LIPSC_E_STOPPED;
    if (!cli_interrupted(NULL))
        status = measure_compute(s->job, cell, g->acts, threads, &times, &room, &row, &err);
    if (status)
        fail(s, status, &err);
    else
        finish(s, cell, &row, &times);
    lipsc_release(room.sigmas);
}

static int is_open(const measure_cell *cell, span at) {
    return !cell->row &&
           (cell->layer == MEASURE_NONE || (cell->layer >= at.from && cell->layer < at.to));
}

/* A thread that has run a window takes its cells first, so that values come early; a thread
 * without a window helps another. */
static void run_group(sweep *s, group *g, span at) {
    compute_window(s, g, at, 1);
    for (size_t i = 0; i < g->count; i++) {
        measure_cell *cell = &s->job->cells[g->first + i];
        if (!is_open(cell, at)) continue;
#pragma omp task firstprivate(cell)
        compute_cell(s, g, cell, 1);
    }
#pragma omp taskwait
    leave_span(g, at);
}

/* One thread for each cell of groups that are not alone. */
static void run_side_by_side(sweep *s, size_t count, group *groups, span at) {
#pragma omp parallel num_threads(s->job->threads)
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
    const double together = s->job->set->certify.eps > 0.0 ? 32.0 : 1.0; /* vectors */
    const int threads = together * g->cost < small_pair ? 1 : s->job->threads;
    omp_set_num_threads(threads);
    compute_window(s, g, at, threads);
    for (size_t i = 0; i < g->count; i++)
        if (is_open(&s->job->cells[g->first + i], at))
            compute_cell(s, g, &s->job->cells[g->first + i], threads);
    leave_span(g, at);
}

/* ---- Which windows and layers go together -------------------------------------------- */

/* The groups in which a cell is open; how many.  groups: room for all cells. */
static size_t find_groups(const measure_job *job, group *groups) {
    size_t found = 0;
    for (size_t at = 0, count; at < job->cell_count; at += count) {
        const measure_cell *first = &job->cells[at];
        group g = {.first = at, .cost = first->cost};
        int open = 0;
        for (count = 0; at + count < job->cell_count; count++) {
            const measure_cell *cell = &first[count];
            if (cell->n != first->n || cell->window != first->window) break;
            if (cell->row) continue;
            open = 1;
            if (cell->layer != MEASURE_NONE && cell->layer > g.last) g.last = cell->layer;
        }
        g.count = count;
        if (open) groups[found++] = g;
    }
    return found;
}

static int longest_first(const void *a, const void *b) {
    const group *g = a, *h = b;
    if (g->cost != h->cost) return g->cost < h->cost ? 1 : -1;
    return g->first < h->first ? -1 : g->first > h->first;
}

static double stream_bytes(const sweep *s, const group *g) {
    return (double)s->job->cells[g->first].n * (double)s->job->info->d * sizeof(double);
}

/* A solve keeps some fifty vectors. */
static double vector_bytes(const sweep *s, const group *g) {
    return 50.0 * stream_bytes(s, g);
}

/* Which groups get all threads: of large ones what does not fill the threads one by one, or
 * all where that many do not fit into memory. */
static void choose_alone(const sweep *s, size_t count, group *groups) {
    const size_t threads = (size_t)s->job->threads;
    size_t large = 0;
    double longest = 0.0;
    for (size_t i = 0; i < count; i++) {
        groups[i].alone = groups[i].cost >= large_pair;
        large += (size_t)groups[i].alone;
        longest = lipsc_max(longest, vector_bytes(s, &groups[i]));
    }
    if ((double)threads * longest > vectors_room) return;
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
            open += !groups[i].alone && is_open(&s->job->cells[groups[i].first + c], at);
    return open;
}

static void run_span(sweep *s, size_t count, group *groups, span at) {
    choose_alone(s, count, groups);
    /* a certificate keeps all threads busy, and may need much memory */
    const int all_alone = s->job->set->certify.eps > 0.0 ||
                          count_shared(s, count, groups, at) < (size_t)s->job->threads;
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

/* As many layers as may be ready at a time; the map of all of them needs them all. */
static size_t span_layers(const measure_job *job) {
    if (job->set->map == LIPSC_MAP_MODEL) return job->info->layers;
    const double bytes = (double)lipsc_model_block_bytes(
        job->model, (lipsc_map_kind)job->set->map, job->dtype);
    return bytes < weights_room ? (size_t)(weights_room / bytes) : 1;
}

/* Windows that go through the model together. */
static void run_together(sweep *s, size_t count, group *groups) {
    lipsc_model *model = s->job->model;
    const size_t layers = s->job->info->layers, step = span_layers(s->job);
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
    for (size_t i = 0, next; i < count && !ended(s) && !cli_interrupted(NULL); i = next) {
        double bytes = stream_bytes(s, &groups[i]);
        for (next = i + 1; next < count; next++) {
            bytes += stream_bytes(s, &groups[next]);
            if (bytes > streams_room) break;
        }
        run_together(s, next - i, groups + i);
        for (size_t g = i; g < next; g++) lipsc_acts_free(groups[g].acts);
    }
}

/* glibc hands every array above 128 KiB back to the system, which clears its pages anew for
 * the next cell: 4 % of the time of a sweep over short windows. */
static void keep_memory(void) {
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

lipsc_status measure_sweep(measure_job *job, lipsc_error *err) {
    sweep s = {.job = job, .begin = lipsc_seconds()};
    for (size_t i = 0; i < job->cell_count; i++)
        if (!job->cells[i].row) {
            s.open++;
            s.open_cost += job->cells[i].cost;
        }
    group *groups = lipsc_alloc(job->cell_count, sizeof *groups);
    if (!groups) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a sweep");
    keep_memory();
    cli_progress_begin(&s.progress, &job->set->common);
    run_groups(&s, find_groups(job, groups), groups);
    cli_progress_end(&s.progress);
    lipsc_release(groups);
    if (s.status == LIPSC_OK && s.done < s.open) s.status = LIPSC_E_STOPPED;
    if (s.status) *err = s.err;
    return (lipsc_status)s.status;
}
