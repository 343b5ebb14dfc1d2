/* measure_sweep.c - computes the cells that have no row yet and stores each when finished.
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
#include "measure.h"

#include <malloc.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/mem.h"
#include "interrupt.h"
#include "needs.h"
#include "progress.h"

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
    measure_job *job;
    cli_progress progress;
    double begin;
    size_t done, open;           /* cells of this run: finished, and all of them */
    double done_cost, open_cost; /* the same in operations                       */
    cli_sweep_kind kind;
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
#pragma omp critical(measure_finish)
    if (s->status == LIPSC_OK) {
        s->err = *err;
#pragma omp atomic write
        s->status = (int)status;
    }
}

static void time_text(double seconds, char text[32]) {
    if (seconds < 100.0)
        snprintf(text, 32, "%.0f s", seconds);
    else if (seconds < 6000.0)
        snprintf(text, 32, "%.0f min", seconds / 60.0);
    else
        snprintf(text, 32, "%.1f h", seconds / 3600.0);
}

static void show_progress(sweep *s) {
    const double elapsed = lipsc_seconds() - s->begin;
    const double left = elapsed * (s->open_cost - s->done_cost) / s->done_cost;
    const size_t before = s->job->cell_count - s->open;
    char time_left[32];
    time_text(left, time_left);
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

static size_t length(const sweep *s, const group *g) { return s->job->cells[g->first].n; }

static int longest_first(const void *a, const void *b) {
    const group *g = a, *h = b;
    if (g->cost != h->cost) return g->cost < h->cost ? 1 : -1;
    return g->first < h->first ? -1 : g->first > h->first;
}

/* Which groups get all threads: of large ones what does not fill the threads one by one, or
 * all where that many do not fit into memory. */
static void choose_alone(const sweep *s, size_t count, group *groups) {
    const size_t threads = (size_t)s->job->threads;
    size_t large = 0, longest = 0;
    for (size_t i = 0; i < count; i++) {
        groups[i].alone = groups[i].cost >= large_pair;
        large += (size_t)groups[i].alone;
        if (length(s, &groups[i]) > longest) longest = length(s, &groups[i]);
    }
    if (!cli_fit_side_by_side(&s->kind, longest)) return;
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

/* Windows that go through the model together. */
static void run_together(sweep *s, size_t count, group *groups) {
    lipsc_model *model = s->job->model;
    const size_t layers = s->job->info->layers, step = cli_layers_ready(&s->kind);
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
        double bytes = 0.0;
        for (next = i; next < count; next++) {
            bytes += cli_stream_bytes(s->job->model, length(s, &groups[next]));
            if (next > i && bytes > cli_streams_room) break;
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

/* ---- What it will take ----------------------------------------------------------------
 */

/* Pairs of products of most cells, all else that a cell costs included. */
static const double pairs_of_cell = 12.0;
/* Shorter sweeps begin without a word. */
static const double long_sweep = 30.0; /* seconds */

/* Operations of the forward passes. */
static double forward_cost(const sweep *s, size_t count, const group *groups) {
    const lipsc_model_info *info = s->job->info;
    const double d = (double)info->d, numbers = d * (4.0 * d + 3.0 * (double)info->ffn);
    double sum = 0.0;
    for (size_t i = 0; i < count; i++)
        sum += 2.0 * numbers * (double)length(s, &groups[i]) * (double)groups[i].last;
    return sum;
}

static void say_needs(const sweep *s, size_t count, const group *groups) {
    const measure_job *job = s->job;
    double streams = 0.0;
    size_t longest = 0;
    char text[32];
    if (job->set->common.quiet || job->set->certify.eps > 0.0) return;
    const double operations = pairs_of_cell * s->open_cost + forward_cost(s, count, groups);
    if (operations < 1e11) return; /* a second or so: not worth a trial */
    const double seconds = operations / (cli_speed(job->dtype) * job->threads);
    if (!(seconds > long_sweep && seconds < 1e12)) return;
    for (size_t i = 0; i < count; i++) {
        streams += cli_stream_bytes(job->model, length(s, &groups[i]));
        if (length(s, &groups[i]) > longest) longest = length(s, &groups[i]);
    }
    time_text(seconds, text);
    fprintf(stderr, "lipscope measure: %zu cells, about %s on %d threads and %.1f GB\n",
            s->open, text, job->threads, cli_sweep_bytes(&s->kind, longest, streams) / 1e9);
}

lipsc_status measure_sweep(measure_job *job, lipsc_error *err) {
    sweep s = {.job = job,
               .kind = {.model = job->model,
                        .map = (lipsc_map_kind)job->set->map,
                        .dtype = job->dtype,
                        .threads = job->threads}};
    for (size_t i = 0; i < job->cell_count; i++)
        if (!job->cells[i].row) {
            s.open++;
            s.open_cost += job->cells[i].cost;
        }
    group *groups = lipsc_alloc(job->cell_count, sizeof *groups);
    if (!groups) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a sweep");
    keep_memory();
    cli_progress_begin(&s.progress, &job->set->common);
    const size_t count = find_groups(job, groups);
    say_needs(&s, count, groups);
    s.begin = lipsc_seconds();
    run_groups(&s, count, groups);
    cli_progress_end(&s.progress);
    lipsc_release(groups);
    if (s.status == LIPSC_OK && s.done < s.open) s.status = LIPSC_E_STOPPED;
    if (s.status) *err = s.err;
    return (lipsc_status)s.status;
}
