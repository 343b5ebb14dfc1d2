/* measure_sweep.c - computes the cells that have no row yet and stores each when finished.
 *
 * The forward pass of a window is made once and shared by its layers and heads.  Products
 * of short windows are too small to feed several threads, so cells are then spread over
 * the threads, one thread each; where one pair of products alone is large, cells come one
 * after the other and the threads work inside the products.  No sum depends on the number
 * of threads, so neither do the results. */
#include "measure.h"

#include <malloc.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/mem.h"
#include "interrupt.h"
#include "progress.h"

/* From here on (about 20 ms a pair) a product keeps all threads busy by itself. */
static const double large_pair = 2e9;
/* Up to here (below a millisecond) a second thread costs more than it brings. */
static const double small_pair = 5e7;

/* Cells first .. first+count-1 share a window and a length. */
typedef struct {
    size_t first, count;
    lipsc_acts *acts;
} group;

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

static void compute_window(sweep *s, group *g, int threads) {
    lipsc_error err;
    if (ended(s) || cli_interrupted(NULL)) return;
    const double begin = lipsc_seconds();
    const lipsc_status status =
        measure_window(s->job, &s->job->cells[g->first], threads, &g->acts, &err);
    if (status) fail(s, status, &err);
#pragma omp atomic
    s->job->times.forward += threads * (lipsc_seconds() - begin);
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

/* A thread that has run a window takes its cells first, so that values come early and no
 * more than `threads` windows are in memory; a thread without a window helps another. */
static void run_group(sweep *s, group *g) {
    compute_window(s, g, 1);
    for (size_t i = 0; i < g->count; i++) {
        measure_cell *cell = &s->job->cells[g->first + i];
#pragma omp task firstprivate(cell)
        compute_cell(s, g, cell, 1);
    }
#pragma omp taskwait
    lipsc_acts_free(g->acts);
}

/* One thread for each cell. */
static void run_side_by_side(sweep *s, size_t count, group *groups) {
#pragma omp parallel num_threads(s->job->threads)
    {
        omp_set_num_threads(1); /* of regions inside, vector sums for instance */
#pragma omp single
        for (size_t i = 0; i < count; i++) {
            group *g = &groups[i];
#pragma omp task firstprivate(g)
            run_group(s, g);
        }
    }
}

/* All threads inside each product, unless it is too small for more than one. */
static void run_in_turn(sweep *s, group *g) {
    const double together = s->job->set->certify.eps > 0.0 ? 32.0 : 1.0; /* vectors */
    const double cost = together * s->job->cells[g->first].cost;
    const int threads = cost < small_pair ? 1 : s->job->threads;
    omp_set_num_threads(threads);
    compute_window(s, g, threads);
    for (size_t i = 0; i < g->count; i++)
        compute_cell(s, g, &s->job->cells[g->first + i], threads);
    lipsc_acts_free(g->acts);
}

/* The groups in which a cell is open; how many.  groups: room for all cells. */
static size_t find_groups(const measure_job *job, group *groups) {
    size_t found = 0;
    for (size_t at = 0, count; at < job->cell_count; at += count) {
        const measure_cell *first = &job->cells[at];
        int open = 0;
        for (count = 0; at + count < job->cell_count; count++) {
            if (first[count].n != first->n || first[count].window != first->window) break;
            open |= !first[count].row;
        }
        if (open) groups[found++] = (group){.first = at, .count = count};
    }
    return found;
}

static void run_groups(sweep *s, size_t count, group *groups) {
    for (size_t i = 0, next; i < count && !ended(s) && !cli_interrupted(NULL); i = next) {
        size_t cells = groups[i].count;
        /* a certificate keeps all threads busy, and may need much memory */
        const int large = s->job->cells[groups[i].first].cost >= large_pair ||
                          s->job->set->certify.eps > 0.0;
        for (next = i + 1; next < count && !large; next++) {
            if (s->job->cells[groups[next].first].cost >= large_pair) break;
            cells += groups[next].count;
        }
        if (large || cells < (size_t)s->job->threads)
            while (i < next) run_in_turn(s, &groups[i++]);
        else
            run_side_by_side(s, next - i, groups + i);
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
