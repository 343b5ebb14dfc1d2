/* bench_sweep.c - a small study by several ranks, beside one process. */
#include <math.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/median.h"
#include "core/mem.h"
#include "lipscope/study.h"
#include "trial/cost.h"
#include "trial/pairs.h"

static const size_t lengths[] = {32, 64, 128};
enum { WINDOWS = 6 };

/* Medians, in seconds. */
typedef struct {
    double ranks, threads, one, begin; /* one: of each rank by itself, all at once; begin:
                                        * of these, reading the model */
    double ratio;                      /* of threads to ranks, sample by sample */
    size_t cells;
} timing;

/* One run, by whoever calls it. */
typedef struct {
    const lipsc_bench_settings *set;
    lipsc_ranks *ranks; /* NULL: alone */
    int threads;
    double begin, whole; /* seconds */
    size_t cells;
    lipsc_error *err;
} sweep;

static lipsc_status run_on(sweep *w, lipsc_device *device) {
    lipsc_study_settings set;
    lipsc_study *study;
    lipsc_study_defaults(&set);
    set.model = "builtin:gpt2-nano";
    set.source.text = "builtin:lighthouse";
    set.lengths = (lipsc_sizes){sizeof lengths / sizeof *lengths, (size_t *)lengths};
    set.window_count = WINDOWS;
    set.dtype = w->set->dtype;
    set.device = device;
    set.ranks = w->ranks;
    set.stop = w->set->stop;
    set.ctx = w->set->ctx;
    const double start = lipsc_seconds();
    lipsc_status status = lipsc_study_open(&set, &study, w->err);
    if (status) return status;
    w->begin = lipsc_seconds() - start;
    status = lipsc_study_run(study, w->err);
    w->cells = lipsc_study_count(study);
    lipsc_study_close(study);
    w->whole = lipsc_seconds() - start;
    return status;
}

static lipsc_status run_sweep(void *ctx) {
    sweep *w = ctx;
    lipsc_device *device;
    lipsc_status status = lipsc_device_open("cpu", w->threads, &device, w->err);
    if (status) return status;
    status = run_on(w, device);
    lipsc_device_close(device);
    return status;
}

static lipsc_status alone(const lipsc_bench_settings *s, int threads, sweep *w,
                          lipsc_error *err) {
    *w = (sweep){.set = s, .threads = threads, .begin = NAN, .whole = NAN, .err = err};
    return lipsc_device_alone(s->device, run_sweep, w);
}

/* At once: shared by these ranks, or with none by each of all ranks for itself. */
static lipsc_status together(const lipsc_bench_settings *s, lipsc_ranks *ranks, int threads,
                             sweep *w, lipsc_error *err) {
    *w = (sweep){.set = s, .ranks = ranks, .threads = threads, .err = err};
    lipsc_ranks_begin_together(s);
    lipsc_status status = run_sweep(w);
    if (lipsc_device_largest(s->device, status) > 0.0 && !status) status = LIPSC_E_STOPPED;
    return status;
}

enum { FIGURES = 5 }; /* of a sample */

/* figure (FIGURES, repeats) */
static lipsc_status sample(const lipsc_bench_settings *s, double *figure, timing *out,
                           lipsc_error *err) {
    const size_t repeats = s->repeats;
    const int own = lipsc_device_threads(s->device);
    const int all = own * (int)lipsc_ranks_together(s->ranks);
    double *ranks = figure, *threads = ranks + repeats, *one = threads + repeats,
           *begin = one + repeats, *ratio = begin + repeats;
    sweep w;
    lipsc_status status = LIPSC_OK;
    for (size_t r = 0; r < repeats && !status; r++) {
        status = alone(s, all, &w, err);
        threads[r] = w.whole;
        if (!status) status = together(s, s->ranks, own, &w, err);
        ranks[r] = w.whole;
        if (!status) status = together(s, NULL, own, &w, err);
        one[r] = w.whole;
        begin[r] = w.begin;
        ratio[r] = threads[r] / ranks[r];
        if (!status && lipsc_bench_stops(s)) status = LIPSC_E_STOPPED;
    }
    if (!status)
        *out = (timing){lipsc_median(repeats, ranks), lipsc_median(repeats, threads),
                        lipsc_median(repeats, one),   lipsc_median(repeats, begin),
                        lipsc_median(repeats, ratio), w.cells};
    return status;
}

static void fill(const lipsc_bench_settings *s, const timing *found, lipsc_bench_row *row) {
    const double ranks = (double)lipsc_ranks_count(s->ranks),
                 here = (double)lipsc_ranks_together(s->ranks);
    const double predicted = found->begin + (found->one - found->begin) / ranks;
    lipsc_fields_clear(lipsc_bench_fields(), row);
    row->mask = lipsc_mask_name(LIPSC_MASK_CAUSAL);
    row->dtype = lipsc_dtype_name(s->dtype);
    row->threads = lipsc_device_threads(s->device);
    row->ranks = lipsc_ranks_count(s->ranks);
    row->work = "sweep";
    row->cells = found->cells;
    row->ranks_ms = 1e3 * found->ranks;
    row->threads_ms = 1e3 * found->threads;
    row->one_ms = 1e3 * found->one;
    row->efficiency = found->ratio * here / ranks;
    row->predicted_ms = 1e3 * predicted;
    row->of_predicted = found->ranks / predicted;
}

lipsc_status lipsc_bench_sweep(const lipsc_bench_settings *s, lipsc_bench_row *out,
                               lipsc_error *err) {
    timing found = {0};
    lipsc_error why = {.text = ""};
    if (lipsc_ranks_count(s->ranks) < 2 || !s->repeats)
        return lipsc_fail(err, LIPSC_E_ARG,
                          "a sweep is timed by several ranks, at least once");
    double *figure = lipsc_alloc(FIGURES * s->repeats, sizeof *figure);
    lipsc_status status = LIPSC_OK;
    if (lipsc_device_largest(s->device, !figure) > 0.0) status = LIPSC_E_NOMEM;
    if (!status) status = sample(s, figure, &found, &why);
    lipsc_release(figure);
    if (!status) fill(s, &found, out);
    return status ? lipsc_fail(err, status, "%s",
                               *why.text ? why.text : lipsc_strerror(status))
                  : LIPSC_OK;
}
