/* bench.c - the speed of the products beside the machine's own sgemm. */
#include <math.h>

#include "attn/attn.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/median.h"
#include "core/mem.h"
#include "linalg/dense.h"
#include "lipscope/trial.h"
#include "trial/sample.h"

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

/* Windows of one layer, one after the other. */
typedef struct {
    size_t count;
    lipsc_packed *packed;
    lipsc_attn **attn;
} windows;

static void windows_free(windows *w) {
    for (size_t i = 0; w->attn && i < w->count; i++) lipsc_attn_free(w->attn[i]);
    lipsc_release(w->attn);
    lipsc_packed_free(w->packed);
}

/* sample: as many tokens as the windows have together */
static lipsc_status windows_new(const lipsc_bench_settings *s, const lipsc_sample *sample,
                                const lipsc_device *device, windows *w, lipsc_error *err) {
    lipsc_input *input = lipsc_alloc(s->batch, sizeof *input);
    *w = (windows){.count = s->batch, .attn = lipsc_alloc_zero(s->batch, sizeof *w->attn)};
    lipsc_status status = input && w->attn ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t i = 0; !status && i < s->batch; i++)
        input[i] =
            (lipsc_input){.n = s->n, .X = sample->input.X + i * s->n * sample->layer.d};
    if (!status) status = lipsc_packed_new(&sample->layer, 1, &w->packed, err);
    if (!status)
        status = lipsc_attn_batch_at(w->packed, NULL, s->batch, input, s->dtype, device,
                                     w->attn, err);
    lipsc_release(input);
    return status;
}

/* Windows with vectors for them. */
typedef struct {
    const windows *on;
    lipsc_linop op; /* of each window */
    lipsc_product *there, *back;
    void *x, *y, *z;
} bed;

static lipsc_status time_pairs(const bed *b, long pairs, double *seconds) {
    const double start = lipsc_seconds();
    for (long i = 0; i < pairs; i++) {
        lipsc_status status = lipsc_attn_products(0, b->on->count, b->there);
        if (!status) status = lipsc_attn_products(1, b->on->count, b->back);
        if (status) return status;
    }
    *seconds = (lipsc_seconds() - start) / (double)pairs;
    return LIPSC_OK;
}

typedef struct {
    const bed *of;
    long pairs;
    double *seconds;
} errand;

static lipsc_status run_errand(void *ctx) {
    const errand *e = ctx;
    return time_pairs(e->of, e->pairs, e->seconds);
}

/* The same by one of the ranks; the others have no seconds. */
static lipsc_status time_other(const lipsc_bench_settings *s, const bed *other, long pairs,
                               double *seconds) {
    return lipsc_device_alone(s->device, run_errand, &(errand){other, pairs, seconds});
}

/* Medians over the samples. */
typedef struct {
    double seconds; /* per pair                                                         */
    double sgemm;   /* GFLOP/s                                                          */
    double other;   /* of a pair of the other windows; NaN: not timed                   */
    double ratio;   /* time of these over that of a pair, sample by sample              */
    double latency, byte; /* seconds of the shortest message of the ranks, and of a byte */
} timing;

/* All ranks stop, or none. */
static int shall_stop(const lipsc_bench_settings *s) {
    return lipsc_device_largest(s->device, s->stop && s->stop(s->ctx)) > 0.0;
}

static lipsc_status sample(const lipsc_bench_settings *s, const bed *b, const bed *other,
                           int threads, timing *out) {
    const size_t repeats = s->repeats;
    double *pair = lipsc_alloc(4 * repeats, sizeof *pair);
    if (!pair) return LIPSC_E_NOMEM;
    double *rate = pair + repeats, *without = rate + repeats, *ratio = without + repeats;
    double once = shortest_sample, first = NAN;
    lipsc_status status = time_pairs(b, 1, &once); /* warms up */
    const int is_short = lipsc_device_largest(s->device, once) < warm_itself;
    if (!status && other && is_short) status = time_other(s, other, 1, &first);
    if (!status && is_short) status = time_pairs(b, 1, &once);
    once = lipsc_device_largest(s->device, once);
    const long pairs = once < shortest_sample ? (long)ceil(shortest_sample / once) : 1;
    for (size_t r = 0; !status && r < repeats; r++) {
        without[r] = NAN;
        rate[r] = lipsc_dense_sgemm_rate(SGEMM_SIZE, threads, 1);
        if (other) status = time_other(s, other, pairs, &without[r]);
        if (!status) status = time_pairs(b, pairs, &pair[r]);
        if (!status) ratio[r] = without[r] / pair[r];
        if (!status && shall_stop(s)) status = LIPSC_E_STOPPED;
    }
    if (!status)
        *out = (timing){.seconds = lipsc_median(repeats, pair),
                        .sgemm = lipsc_median(repeats, rate),
                        .other = other ? lipsc_median(repeats, without) : NAN,
                        .ratio = other ? lipsc_median(repeats, ratio) : NAN};
    lipsc_release(pair);
    return status;
}

static void bed_free(bed *b) {
    const lipsc_space *space = b->op.space;
    lipsc_release(b->there);
    lipsc_space_release(space, b->x);
    lipsc_space_release(space, b->y);
    lipsc_space_release(space, b->z);
}

static lipsc_status bed_new(const lipsc_bench_settings *s, const windows *on, bed *b) {
    size_t in, out;
    *b = (bed){.on = on, .op = lipsc_attn_linop(on->attn[0])};
    const lipsc_space *space = b->op.space;
    b->there = lipsc_alloc(2 * on->count, sizeof *b->there);
    if (lipsc_mul_size(on->count * s->block, b->op.n, &in) &&
        lipsc_mul_size(on->count * s->block, b->op.m, &out)) {
        b->x = lipsc_space_alloc(space, in);
        b->y = lipsc_space_alloc(space, out);
        b->z = lipsc_space_alloc(space, in);
    }
    if (!b->there || !b->x || !b->y || !b->z) return LIPSC_E_NOMEM;
    b->back = b->there + on->count;
    for (size_t i = 0; i < on->count; i++) {
        void *x = lipsc_space_at(space, b->x, i * s->block * b->op.n),
             *y = lipsc_space_at(space, b->y, i * s->block * b->op.m),
             *z = lipsc_space_at(space, b->z, i * s->block * b->op.n);
        b->there[i] = (lipsc_product){.of = on->attn[i], .k = s->block, .x = x, .y = y};
        b->back[i] = (lipsc_product){.of = on->attn[i], .k = s->block, .x = y, .y = z};
    }
    return lipsc_space_random(space, 1, 0, in, b->x);
}

/* Threads that the products use. */
static int threads_of(const windows *w) {
    const lipsc_attn *attn = w->attn[0];
    return lipsc_device_useful_threads(attn->device, &attn->layer,
                                       w->count * attn->input.n);
}

/* other: NULL, or what is timed in turn; empty on ranks that do not lead */
static lipsc_status measure(const lipsc_bench_settings *s, const windows *on,
                            const windows *other, timing *out) {
    bed b, reference = {.on = other};
    const int both = other && other->attn;
    lipsc_status status = bed_new(s, on, &b);
    if (both) {
        const lipsc_status failed = bed_new(s, other, &reference);
        if (!status) status = failed;
    }
    if (lipsc_device_largest(s->device, status) > 0.0 && !status) status = LIPSC_E_NOMEM;
    if (!status) status = sample(s, &b, other ? &reference : NULL, threads_of(on), out);
    bed_free(&b);
    if (both) bed_free(&reference);
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

/* What the ranks tell each other in a pair of products: of each key head keys, values and
 * both their directions, there and back (backend/ranks/product.c). */
static double talk(const lipsc_bench_settings *s, const lipsc_sample_shape *shape,
                   const timing *found) {
    const double ranks = (double)lipsc_ranks_count(s->ranks),
                 heads = (double)shape->kv_heads;
    const double item = s->dtype == LIPSC_F32 ? sizeof(float) : sizeof(double);
    const double width = (double)(shape->key_dim + shape->value_dim);
    const double bytes = 4.0 * heads * width * (double)s->n * item * (ranks - 1.0) / ranks;
    return (double)(s->block * s->batch) *
           (8.0 * heads * found->latency + bytes * found->byte);
}

static void fill(const lipsc_bench_settings *s, const lipsc_sample_shape *shape,
                 const windows *on, const timing *found, lipsc_bench_row *row) {
    const double tokens = (double)s->n, d = (double)shape->d;
    const size_t ranks = lipsc_ranks_count(s->ranks);
    const double scores = s->mask == LIPSC_MASK_CAUSAL ? 8 : 16;
    const double work = 16 * tokens * d * d + scores * tokens * tokens * d;
    const double gflops = 1e-9 * work * (double)(s->block * s->batch) / found->seconds;
    *row = (lipsc_bench_row){.n = s->n,
                             .mask = lipsc_mask_name(s->mask),
                             .dtype = lipsc_dtype_name(s->dtype),
                             .threads = threads_of(on),
                             .block = s->block,
                             .batch = s->batch,
                             .ms_per_pair = 1e3 * found->seconds,
                             .gflops = gflops,
                             .sgemm_gflops = found->sgemm,
                             .fraction = gflops / found->sgemm,
                             .peak_bytes = lipsc_attn_bytes(on->attn[0]),
                             .of_plain = shared(s) ? NAN : found->ratio,
                             .ranks = ranks,
                             .efficiency = shared(s) ? found->ratio * machine(s) : NAN,
                             .latency_us = 1e6 * found->latency,
                             .link_gbytes = 1e-9 / found->byte,
                             .predicted_ms =
                                 1e3 * (found->other * machine(s) + talk(s, shape, found))};
}

typedef struct {
    const lipsc_bench_settings *set;
    const lipsc_sample *sample;
    windows *made;
    lipsc_error *err;
} order;

/* In one process with the threads of all ranks of the machine. */
static lipsc_status make_other(void *ctx) {
    const order *o = ctx;
    const int threads =
        lipsc_device_threads(o->set->device) * (int)lipsc_ranks_together(o->set->ranks);
    return windows_new(o->set, o->sample, lipsc_cpu_of(threads), o->made, o->err);
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
    windows on = {0}, other = {0};
    timing found = {.seconds = NAN};
    lipsc_status status = layer.storage && table ? LIPSC_OK : LIPSC_E_NOMEM;
    lipsc_device *const device = s->device;
    if (!status && !plain(s) && !shared(s))
        status = windows_new(s, &layer, device, &other, &why);
    if (!status) {
        add_features(s, &layer.layer, table);
        status = windows_new(s, &layer, device, &on, &why);
    }
    if (!status && shared(s))
        status = lipsc_device_alone(device, make_other, &(order){s, &layer, &other, &why});
    if (!status) status = measure(s, &on, plain(s) && !shared(s) ? NULL : &other, &found);
    if (!status && shared(s))
        status = lipsc_device_table(device)->link(device, &found.latency, &found.byte);
    if (!status) fill(s, &shape, &on, &found, out);
    windows_free(&on);
    windows_free(&other);
    lipsc_release(table);
    lipsc_sample_free(&layer);
    return status ? lipsc_fail(err, status, "%s",
                               *why.text ? why.text : lipsc_strerror(status))
                  : LIPSC_OK;
}
