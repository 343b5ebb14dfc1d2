/* cost.c - what a pair of products of several ranks takes, by what each of them takes alone
 * and what they tell each other. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "trial/cost.h"

#include <math.h>
#include <time.h>

#include "core/error.h"
#include "core/extreme.h"
#include "core/median.h"
#include "core/mem.h"
#include "trial/pairs.h"

/* Tokens of the two inputs: the work at the first is mostly by tokens, at the second mostly
 * by meetings. */
enum { FEW = 512, MANY = 4 * FEW };

void lipsc_ranks_begin_together(const lipsc_bench_settings *s) {
    const struct timespec moment = {.tv_nsec = 20000000};
    nanosleep(&moment, NULL);
    lipsc_device_largest(s->device, 0.0);
}

int lipsc_bench_stops(const lipsc_bench_settings *s) {
    return lipsc_device_largest(s->device, s->stop && s->stop(s->ctx)) > 0.0;
}

/* ---- A rank alone ------------------------------------------------------------------- */

/* An input of so many tokens on the device of this rank. */
typedef struct {
    lipsc_bench_settings set;
    lipsc_sample sample;
    lipsc_windows windows;
    lipsc_bed bed;
} solo;

static lipsc_status solo_new(const lipsc_bench_settings *s, size_t n, solo *one,
                             lipsc_error *err) {
    const lipsc_sample_shape shape = lipsc_sample_gpt2(n, s->mask);
    const lipsc_device *own = lipsc_device_table(s->device)->own(s->device);
    *one = (solo){.set = *s, .sample = lipsc_sample_new(&shape)};
    one->set.n = n;
    one->set.batch = one->set.block = 1;
    lipsc_status status = one->sample.storage ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status)
        status = lipsc_windows_new(&one->set, &one->sample, own, &one->windows, err);
    return status ? status : lipsc_bed_new(&one->set, &one->windows, &one->bed);
}

static void solo_free(solo *one) {
    if (one->bed.on) lipsc_bed_free(&one->bed);
    lipsc_windows_free(&one->windows);
    lipsc_sample_free(&one->sample);
}

/* The median of what the slowest rank takes, while all do the same. */
static lipsc_status time_solo(const lipsc_bench_settings *s, const solo *one,
                              double *seconds) {
    double *sample = lipsc_alloc(s->repeats, sizeof *sample), first;
    const int room = lipsc_device_largest(s->device, !sample) > 0.0;
    lipsc_status status = room ? LIPSC_E_NOMEM : lipsc_time_pairs(&one->bed, 1, &first);
    for (size_t r = 0; r < s->repeats && !status; r++) {
        lipsc_ranks_begin_together(s);
        status = lipsc_time_pairs(&one->bed, 1, &sample[r]);
        sample[r] = lipsc_device_largest(s->device, sample[r]);
        if (!status && lipsc_bench_stops(s)) status = LIPSC_E_STOPPED;
    }
    if (!status) *seconds = lipsc_median(s->repeats, sample);
    lipsc_release(sample);
    return status;
}

static lipsc_status time_length(const lipsc_bench_settings *s, size_t n, double *seconds,
                                lipsc_error *err) {
    solo one;
    lipsc_status status = solo_new(s, n, &one, err);
    if (lipsc_device_largest(s->device, status) > 0.0 && !status) status = LIPSC_E_NOMEM;
    if (!status) status = time_solo(s, &one, seconds);
    solo_free(&one);
    return status;
}

/* ---- The model ---------------------------------------------------------------------- */

/* Noise may not make a part of the work less than nothing. */
static void solve(double few, double many, lipsc_rank_cost *out) {
    const double n = FEW, times = (double)MANY / FEW;
    const double square = (many - times * few) / (times * times - times);
    out->meeting = lipsc_max(square, 0.0) / (n * n);
    out->token = lipsc_max(few / n - n * out->meeting, 0.0);
}

lipsc_status lipsc_rank_cost_find(const lipsc_bench_settings *s, lipsc_rank_cost *out,
                                  lipsc_error *err) {
    double few = NAN, many = NAN;
    lipsc_status status = time_length(s, FEW, &few, err);
    if (!status) status = time_length(s, MANY, &many, err);
    if (!status) status = lipsc_device_table(s->device)->link(s->device, &out->link);
    if (!status) solve(few, many, out);
    return status;
}

/* Of keys and values of all key heads and of both their directions, what comes from other
 * ranks in J x, and the same in J^T x, where sums go back (backend/ranks/product.c). */
static double talk(const lipsc_bench_settings *s, const lipsc_link *link) {
    const lipsc_sample_shape shape = lipsc_sample_gpt2(s->n, s->mask);
    const double ranks = (double)lipsc_ranks_count(s->ranks),
                 heads = (double)shape.kv_heads;
    const double item = s->dtype == LIPSC_F32 ? sizeof(float) : sizeof(double);
    const double array =
        heads * (double)(shape.key_dim + shape.value_dim) / 2.0 * (double)s->n * item;
    const double calls =
        8.0 * lipsc_max(lipsc_min(ranks, heads), array / (double)link->message);
    return calls * link->latency + 8.0 * array * (ranks - 1.0) / ranks * link->byte;
}

double lipsc_rank_cost_predict(const lipsc_bench_settings *s, const lipsc_rank_cost *cost) {
    const double n = (double)s->n, ranks = (double)lipsc_ranks_count(s->ranks);
    const double work = (n * cost->token + n * n * cost->meeting) / ranks;
    return (double)(s->block * s->batch) * (work + talk(s, &cost->link));
}
