/* bench.c - the speed of the products beside the machine's own sgemm. */
#include <math.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/median.h"
#include "core/mem.h"
#include "linalg/dense.h"
#include "lipscope/trial.h"
#include "trial/cost.h"
#include "trial/pairs.h"

typedef lipsc_bench_row record;
static const lipsc_field fields[] = {LIPSC_BENCH_LIST(LIPSC_FIELD_ENTRY)};

lipsc_fields lipsc_bench_fields(void) {
    return (lipsc_fields){sizeof fields / sizeof *fields, fields};
}

void lipsc_bench_defaults(lipsc_bench_settings *set) {
    *set = (lipsc_bench_settings){
        .n = 256, .dtype = LIPSC_F32, .block = 1, .batch = 1, .repeats = 7};
}

static int plain(const lipsc_bench_settings *s) {
    return s->bias == LIPSC_BIAS_NONE && !(s->soft_cap > 0.0);
}

/* Whether the same is timed in one process with the threads of all, in turn. */
static int shared(const lipsc_bench_settings *s) { return lipsc_ranks_count(s->ranks) > 1; }

static const double shortest_sample = 0.05; /* seconds: well above the clock's noise */
static const double warm_itself = 1.0;      /* seconds, of which the first are no matter */
enum { SGEMM_SIZE = 2048 };

typedef struct {
    const lipsc_bed *of;
    long pairs;
    double *seconds;
} errand;

static lipsc_status run_errand(void *ctx) {
    const errand *e = ctx;
    return lipsc_time_pairs(e->of, e->pairs, e->seconds);
}

/* The same by one of the ranks; the others have no seconds. */
static lipsc_status time_other(const lipsc_bench_settings *s, const lipsc_bed *other,
                               long pairs, double *seconds) {
    return lipsc_device_alone(s->device, run_errand, &(errand){other, pairs, seconds});
}

/* Medians over the samples. */
typedef struct {
    double seconds; /* per pair                                                         */
    double sgemm;   /* GFLOP/s, of all ranks                                            */
    double other;   /* of a pair of the other windows; NaN: not timed                   */
    double ratio;   /* time of these over that of a pair, sample by sample              */
    lipsc_rank_cost cost;
} timing;

static lipsc_status sample(const lipsc_bench_settings *s, const lipsc_bed *b,
                           const lipsc_bed *other, int threads, timing *out) {
    const size_t repeats = s->repeats;
    double *pair = lipsc_alloc(4 * repeats, sizeof *pair);
    if (!pair) return LIPSC_E_NOMEM;
    double *rate = pair + repeats, *without = rate + repeats, *ratio = without + repeats;
    double once = shortest_sample, first = NAN;
    lipsc_status status = lipsc_time_pairs(b, 1, &once); /* warms up */
    const int is_short = lipsc_device_largest(s->device, once) < warm_itself;
    if (!status && other && is_short) status = time_other(s, other, 1, &first);
    if (!status && is_short) status = lipsc_time_pairs(b, 1, &once);
    once = lipsc_device_largest(s->device, once);
    const long pairs = once < shortest_sample ? (long)ceil(shortest_sample / once) : 1;
    for (size_t r = 0; !status && r < repeats; r++) {
        without[r] = NAN;
        rate[r] =
            lipsc_device_total(s->device, lipsc_dense_sgemm_rate(SGEMM_SIZE, threads, 1));
        if (other) status = time_other(s, other, pairs, &without[r]);
        if (!status && shared(s)) lipsc_ranks_begin_together(s);
        if (!status) status = lipsc_time_pairs(b, pairs, &pair[r]);
        if (!status) ratio[r] = without[r] / pair[r];
        if (!status && lipsc_bench_stops(s)) status = LIPSC_E_STOPPED;
    }
    if (!status)
        *out = (timing){.seconds = lipsc_median(repeats, pair),
                        .sgemm = lipsc_median(repeats, rate),
                        .other = other ? lipsc_median(repeats, without) : NAN,
                        .ratio = other ? lipsc_median(repeats, ratio) : NAN};
    lipsc_release(pair);
    return status;
}

/* other: NULL, or what is timed in turn; empty on ranks that do not lead */
static lipsc_status measure(const lipsc_bench_settings *s, const lipsc_windows *on,
                            const lipsc_windows *other, timing *out) {
    lipsc_bed b, reference = {.on = other};
    const int both = other && other->attn;
    lipsc_status status = lipsc_bed_new(s, on, &b);
    if (both) {
        const lipsc_status failed = lipsc_bed_new(s, other, &reference);
        if (!status) status = failed;
    }
    if (lipsc_device_largest(s->device, status) > 0.0 && !status) status = LIPSC_E_NOMEM;
    if (!status)
        status = sample(s, &b, other ? &reference : NULL, lipsc_windows_threads(on), out);
    lipsc_bed_free(&b);
    if (both) lipsc_bed_free(&reference);
    return status;
}

enum { BUCKETS = 32, BUCKET_DISTANCE = 128 };

/* Slopes as ALiBi has them, or a table as T5 has one; table (heads * BUCKETS). */
static void add_features(const lipsc_bench_settings *s, lipsc_layer *layer, double *table) {
    layer->soft_cap = s->soft_cap;
    if (s->bias == LIPSC_BIAS_NONE) return;
    layer->bias_rule = (lipsc_bias_rule)s->bias;
    layer->score_bias = table;
    for (size_t i = 0; i < layer->heads * BUCKETS; i++)
        table[i] = s->bias == LIPSC_BIAS_LINEAR ? exp2(-(double)(i % layer->heads + 1))
                                                : sin((double)i);
    if (s->bias != LIPSC_BIAS_BUCKETS) return;
    layer->bias_buckets = BUCKETS;
    layer->bias_distance = BUCKET_DISTANCE;
}

/* The part of all ranks that is on one machine. */
static double machine(const lipsc_bench_settings *s) {
    return (double)lipsc_ranks_together(s->ranks) / (double)lipsc_ranks_count(s->ranks);
}

/* What the ranks took, and what they should have. */
static void fill_cost(const lipsc_bench_settings *s, const timing *found,
                      lipsc_bench_row *row) {
    const double predicted = lipsc_rank_cost_predict(s, &found->cost);
    row->work = "input";
    row->cells = LIPSC_NONE;
    row->ranks_ms = 1e3 * found->seconds;
    row->threads_ms = 1e3 * found->other;
    row->one_ms = NAN;
    row->token_us = 1e6 * found->cost.token;
    row->meeting_ns = 1e9 * found->cost.meeting;
    row->latency_us = 1e6 * found->cost.link.latency;
    row->link_gbytes = 1e-9 / found->cost.link.byte;
    row->predicted_ms = 1e3 * predicted;
    row->of_predicted = found->seconds / predicted;
}

static void fill(const lipsc_bench_settings *s, const lipsc_sample_shape *shape,
                 const lipsc_windows *on, const timing *found, lipsc_bench_row *row) {
    const double tokens = (double)s->n, d = (double)shape->d;
    const size_t ranks = lipsc_ranks_count(s->ranks);
    const double scores = s->mask == LIPSC_MASK_CAUSAL ? 8 : 16;
    const double work = 16 * tokens * d * d + scores * tokens * tokens * d;
    const double gflops = 1e-9 * work * (double)(s->block * s->batch) / found->seconds;
    *row = (lipsc_bench_row){.n = s->n,
                             .mask = lipsc_mask_name(s->mask),
                             .dtype = lipsc_dtype_name(s->dtype),
                             .threads = lipsc_windows_threads(on),
                             .block = s->block,
                             .batch = s->batch,
                             .ms_per_pair = 1e3 * found->seconds,
                             .gflops = gflops,
                             .sgemm_gflops = found->sgemm,
                             .fraction = gflops / found->sgemm,
                             .peak_bytes = lipsc_attn_bytes(on->attn[0]),
                             .of_plain = shared(s) ? NAN : found->ratio,
                             .ranks = ranks,
                             .efficiency = shared(s) ? found->ratio * machine(s) : NAN};
    if (shared(s)) fill_cost(s, found, row);
}

typedef struct {
    const lipsc_bench_settings *set;
    const lipsc_sample *sample;
    lipsc_windows *made;
    lipsc_error *err;
} order;

/* In one process with the threads of all ranks of the machine, or on its own GPU. */
static lipsc_status make_other(void *ctx) {
    const order *o = ctx;
    const lipsc_device *shared = o->set->device,
                       *own = lipsc_device_table(shared)->own(shared);
    const int threads =
        lipsc_device_threads(shared) * (int)lipsc_ranks_together(o->set->ranks);
    const lipsc_device *one = own->ops == &lipsc_cpu_ops ? lipsc_cpu_of(threads) : own;
    return lipsc_windows_new(o->set, o->sample, one, o->made, o->err);
}

lipsc_status lipsc_bench(const lipsc_bench_settings *s, lipsc_bench_row *out,
                         lipsc_error *err) {
    size_t tokens;
    if (!s->n || !s->block || !s->batch || !s->repeats || s->mask > LIPSC_MASK_CAUSAL)
        return lipsc_fail(err, LIPSC_E_ARG,
                          "n, block, batch and repeats are at least 1, the mask is none or "
                          "causal");
    if (!lipsc_mul_size(s->n, s->batch, &tokens))
        return lipsc_fail(err, LIPSC_E_RANGE, "too many tokens");
    const lipsc_sample_shape shape = lipsc_sample_gpt2(tokens, s->mask);
    lipsc_sample layer = lipsc_sample_new(&shape);
    double *table = lipsc_alloc(shape.heads * BUCKETS, sizeof *table);
    lipsc_error why = {.text = ""};
    lipsc_windows on = {0}, other = {0};
    timing found = {.seconds = NAN};
    lipsc_status status = layer.storage && table ? LIPSC_OK : LIPSC_E_NOMEM;
    lipsc_device *const device = s->device;
    if (!status && !plain(s) && !shared(s))
        status = lipsc_windows_new(s, &layer, device, &other, &why);
    if (!status) {
        add_features(s, &layer.layer, table);
        status = lipsc_windows_new(s, &layer, device, &on, &why);
    }
    if (!status && shared(s))
        status = lipsc_device_alone(device, make_other, &(order){s, &layer, &other, &why});
    if (!status) status = measure(s, &on, plain(s) && !shared(s) ? NULL : &other, &found);
    if (!status && shared(s)) status = lipsc_rank_cost_find(s, &found.cost, &why);
    if (!status) fill(s, &shape, &on, &found, out);
    lipsc_windows_free(&on);
    lipsc_windows_free(&other);
    lipsc_release(table);
    lipsc_sample_free(&layer);
    return status ? lipsc_fail(err, status, "%s",
                               *why.text ? why.text : lipsc_strerror(status))
                  : LIPSC_OK;
}
