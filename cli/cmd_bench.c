/* cmd_bench.c - lipscope bench: the speed of the products beside the machine's own sgemm.
 *
 * A pair is J x followed by J^T y, on vectors that stay in the back end.  Useful work of
 * a pair, for each direction in the block:
 *
 *     16 n d^2 + 16 n^2 d  floating-point operations, the second term halved when causal
 *
 * Recomputed scores do not count.  Samples of sgemm and of pairs alternate, so that a
 * noisy moment of the machine meets both; medians are compared.  With a bias or a cap of
 * the scores the layer without them is timed in turn as well. */
#include <math.h>
#include <stdlib.h>

#include "args.h"
#include "attn/attn.h"
#include "core/clock.h"
#include "core/median.h"
#include "core/mem.h"
#include "interrupt.h"
#include "linalg/dense.h"
#include "names.h"
#include "progress.h"
#include "sample.h"

typedef struct {
    cli_common common;
    cli_sizes lengths;
    int dtype, mask; /* places in the choices below */
    size_t block, batch, repeats;
    int bias; /* place in its choices: a lipsc_bias_rule */
    double soft_cap;
} settings;

#define AT(member) .offset = offsetof(settings, member)

enum { F32 = 0, F64 = 1, NONE = 0, CAUSAL = 1, BOTH = 2 };

static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "What is measured"},
    {.kind = CLI_SIZES,
     .name = "lengths",
     .value = "LIST",
     .min = 1,
     .max = 1e8,
     AT(lengths),
     .help = "numbers of tokens: a list such as 64,256, or a range such as 64:4096:x2 "
             "(default 64,128,256,512,1024,4096)"},
    {.kind = CLI_SIZES,
     .name = "length",
     .value = "LIST",
     .min = 1,
     .max = 1e8,
     AT(lengths)},
    {.kind = CLI_CHOICE,
     .name = "dtype",
     .value = "T",
     .wanted = "f32|f64|both",
     AT(dtype),
     .help = "f32, f64 or both (default f32)"},
    {.kind = CLI_CHOICE,
     .name = "mask",
     .value = "M",
     .wanted = "none|causal|both",
     AT(mask),
     .help = "none, causal or both (default both)"},
    {.kind = CLI_SIZE,
     .name = "block",
     .value = "B",
     .min = 1,
     .max = 1024,
     AT(block),
     .help = "directions per product (default 1)"},
    {.kind = CLI_SIZE,
     .name = "batch",
     .value = "K",
     .min = 1,
     .max = 1024,
     AT(batch),
     .help = "windows of that many tokens at once (default 1)"},
    {.kind = CLI_CHOICE,
     .name = "bias",
     .value = "RULE",
     .wanted = "none|linear|buckets",
     AT(bias),
     .help = "a bias of the scores by distance: none, linear (ALiBi) or buckets (T5) "
             "(default none)"},
    {.kind = CLI_REAL,
     .name = "soft-cap",
     .value = "C",
     .min = 0,
     .max = 1e6,
     AT(soft_cap),
     .help = "scores capped by C tanh(s / C) (default 0: not capped)"},
    CLI_THREADS_OPTION(settings),
    {.kind = CLI_SIZE,
     .name = "repeats",
     .value = "R",
     .min = 1,
     .max = 1000,
     AT(repeats),
     .help = "samples of each, the median counts (default 7)"},
    CLI_OUTPUT_OPTIONS(settings),
};

static const lipsc_column columns[] = {
    {"n", LIPSC_COLUMN_INTEGER},
    {"mask", LIPSC_COLUMN_STRING},
    {"dtype", LIPSC_COLUMN_STRING},
    {"threads", LIPSC_COLUMN_INTEGER},
    {"block", LIPSC_COLUMN_INTEGER},
    {"batch", LIPSC_COLUMN_INTEGER},
    {"ms_per_pair", LIPSC_COLUMN_REAL},
    {"gflops", LIPSC_COLUMN_REAL},
    {"sgemm_gflops", LIPSC_COLUMN_REAL},
    {"fraction", LIPSC_COLUMN_REAL},
    {"peak_bytes", LIPSC_COLUMN_INTEGER},
    {"of_plain", LIPSC_COLUMN_REAL}}; /* the last one only with a bias or a cap */

static int plain(const settings *s) {
    return s->bias == LIPSC_BIAS_NONE && !(s->soft_cap > 0.0);
}

static const double shortest_sample = 0.05; /* seconds: well above the clock's noise */
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
static lipsc_status windows_new(const settings *s, size_t n, const cli_sample *sample,
                                lipsc_dtype dtype, windows *w, lipsc_error *err) {
    lipsc_input *input = lipsc_alloc(s->batch, sizeof *input);
    *w = (windows){.count = s->batch, .attn = lipsc_alloc_zero(s->batch, sizeof *w->attn)};
    lipsc_status status = input && w->attn ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t i = 0; !status && i < s->batch; i++)
        input[i] = (lipsc_input){.n = n, .X = sample->input.X + i * n * sample->layer.d};
    if (!status) status = lipsc_packed_new(&sample->layer, 1, &w->packed, err);
    if (!status)
        status = lipsc_attn_batch_at(w->packed, NULL, s->batch, input, dtype,
                                     s->common.device, w->attn, err);
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

/* Medians over the samples. */
typedef struct {
    double seconds;  /* per pair                                                       */
    double sgemm;    /* GFLOP/s                                                        */
    double of_plain; /* time of the plain layer over that of this one; NaN: not timed  */
} timing;

static lipsc_status sample(const bed *b, const bed *other, int threads, size_t repeats,
                           timing *out) {
    double *pair = lipsc_alloc(3 * repeats, sizeof *pair);
    if (!pair) return LIPSC_E_NOMEM;
    double *rate = pair + repeats, *ratio = rate + repeats;
    double once = shortest_sample, without = NAN;
    lipsc_status status = time_pairs(b, 1, &once); /* warms up */
    if (!status && other) status = time_pairs(other, 1, &without);
    if (!status) status = time_pairs(b, 1, &once);
    const long pairs = once < shortest_sample ? (long)ceil(shortest_sample / once) : 1;
    for (size_t r = 0; !status && r < repeats; r++) {
        rate[r] = lipsc_dense_sgemm_rate(SGEMM_SIZE, threads, 1);
        if (other) status = time_pairs(other, pairs, &without);
        if (!status) status = time_pairs(b, pairs, &pair[r]);
        if (!status && other) ratio[r] = without / pair[r];
        if (!status && cli_interrupted(NULL)) status = LIPSC_E_STOPPED;
    }
    if (!status)
        *out = (timing){.seconds = lipsc_median(repeats, pair),
                        .sgemm = lipsc_median(repeats, rate),
                        .of_plain = other ? lipsc_median(repeats, ratio) : NAN};
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

static lipsc_status bed_new(const settings *s, const windows *on, bed *b) {
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

/* other: NULL, or the plain layer */
static lipsc_status measure(const settings *s, const windows *on, const windows *other,
                            timing *out) {
    bed b, reference;
    lipsc_status status = bed_new(s, on, &b);
    if (other) {
        const lipsc_status failed = bed_new(s, other, &reference);
        if (!status) status = failed;
    }
    if (!status)
        status = sample(&b, other ? &reference : NULL, threads_of(on), s->repeats, out);
    bed_free(&b);
    if (other) bed_free(&reference);
    return status;
}

enum { BUCKETS = 32, BUCKET_DISTANCE = 128 };

/* Slopes as ALiBi has them, or a table as T5 has one; table (heads * BUCKETS). */
static void add_features(const settings *s, lipsc_layer *layer, double *table) {
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

static void print_row(const settings *s, size_t n, const cli_sample_shape *shape,
                      lipsc_dtype dtype, const windows *on, const timing *found,
                      lipsc_table *t) {
    const double tokens = (double)n, d = (double)shape->d;
    const double scores = shape->mask == LIPSC_MASK_CAUSAL ? 8 : 16;
    const double work = 16 * tokens * d * d + scores * tokens * tokens * d;
    const double gflops = 1e-9 * work * (double)(s->block * s->batch) / found->seconds;
    lipsc_table_row(t);
    lipsc_table_integer(t, "n", (long long)n);
    lipsc_table_string(t, "mask", lipsc_mask_name(shape->mask));
    lipsc_table_string(t, "dtype", lipsc_dtype_name(dtype));
    lipsc_table_integer(t, "threads", threads_of(on));
    lipsc_table_integer(t, "block", (long long)s->block);
    lipsc_table_integer(t, "batch", (long long)s->batch);
    lipsc_table_real(t, "ms_per_pair", 1e3 * found->seconds);
    lipsc_table_real(t, "gflops", gflops);
    lipsc_table_real(t, "sgemm_gflops", found->sgemm);
    lipsc_table_real(t, "fraction", gflops / found->sgemm);
    lipsc_table_integer(t, "peak_bytes", (long long)lipsc_attn_bytes(on->attn[0]));
    if (!plain(s)) lipsc_table_real(t, "of_plain", found->of_plain);
}

static lipsc_status bench_row(const settings *s, size_t n, lipsc_mask mask,
                              lipsc_dtype dtype, lipsc_table *t, lipsc_error *err) {
    const cli_sample_shape shape = cli_sample_gpt2(n * s->batch, mask);
    cli_sample layer = cli_sample_new(&shape);
    double *table = lipsc_alloc(shape.heads * BUCKETS, sizeof *table);
    windows on = {0}, other = {0};
    timing found = {.seconds = NAN};
    lipsc_status status = layer.storage && table ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status && !plain(s)) status = windows_new(s, n, &layer, dtype, &other, err);
    if (!status) {
        add_features(s, &layer.layer, table);
        status = windows_new(s, n, &layer, dtype, &on, err);
    }
    if (!status) status = measure(s, &on, plain(s) ? NULL : &other, &found);
    if (!status) print_row(s, n, &shape, dtype, &on, &found, t);
    windows_free(&on);
    windows_free(&other);
    lipsc_release(table);
    cli_sample_free(&layer);
    return status;
}

/* Members of the JSON object behind the rows. */
#define BENCH_LIST(X)                                         \
    X(isa, TEXT, 0, 0, "", "instruction set of the products") \
    X(repeats, COUNT, 0, 0, "", "each figure is the median of so many")

typedef struct {
    BENCH_LIST(LIPSC_FIELD_MEMBER)
} record;
static const lipsc_field fields[] = {BENCH_LIST(LIPSC_FIELD_ENTRY)};

static int bench(const cli_command *self, const settings *s, lipsc_table *t) {
    cli_progress progress;
    lipsc_error err = {.text = ""};
    lipsc_status status = LIPSC_OK;
    cli_progress_begin(&progress, &s->common);
    cli_interrupt_begin();
    for (size_t i = 0; !status && i < s->lengths.count; i++)
        for (int type = F32; !status && type <= F64; type++)
            for (int mask = NONE; !status && mask <= CAUSAL; mask++) {
                if ((s->dtype != BOTH && s->dtype != type) ||
                    (s->mask != BOTH && s->mask != mask))
                    continue;
                cli_progress_say(&progress, "n %zu, mask %s, %zu samples",
                                 s->lengths.items[i], mask == CAUSAL ? "causal" : "none",
                                 s->repeats);
                status = bench_row(s, s->lengths.items[i],
                                   mask == CAUSAL ? LIPSC_MASK_CAUSAL : LIPSC_MASK_NONE,
                                   type == F32 ? LIPSC_F32 : LIPSC_F64, t, &err);
                cli_progress_end(&progress);
                if (!status) lipsc_table_flush(t);
            }
    if (status && status != LIPSC_E_STOPPED)
        return cli_failure(self, "%s", *err.text ? err.text : lipsc_strerror(status));
    lipsc_table_members(t, (lipsc_fields){sizeof fields / sizeof *fields, fields},
                        &(record){lipsc_cpu_isa(), s->repeats});
    if (lipsc_table_end(t, &err)) return cli_failure(self, "%s", err.text);
    if (status) return cli_failure(self, "interrupted");
    return CLI_DONE;
}

static int run(const cli_command *self, int argc, char **argv) {
    settings s = {.mask = BOTH, .block = 1, .batch = 1, .repeats = 7};
    int operands;
    int code = cli_sizes_parse("64,128,256,512,1024,4096", 1, 4096, &s.lengths)
                   ? cli_failure(self, "%s", lipsc_strerror(LIPSC_E_NOMEM))
                   : cli_parse(self, argc, argv, &s, &operands);
    if (code == CLI_RUN) {
        lipsc_table *t = lipsc_table_new(
            self->name, (lipsc_format)s.common.format, LIPSC_LAYOUT_WIDE, stdout,
            sizeof columns / sizeof *columns - (plain(&s) ? 1 : 0), columns);
        code =
            t ? bench(self, &s, t) : cli_failure(self, "%s", lipsc_strerror(LIPSC_E_NOMEM));
        lipsc_table_free(t);
    }
    cli_sizes_free(&s.lengths);
    return code;
}

const cli_command cli_cmd_bench = {
    .name = "bench",
    .operands = "",
    .summary = "speed of the products beside this machine's own sgemm",
    .about =
        "Times pairs of products (J, J^T) for a random layer of GPT-2's size (d 768,\n"
        "12 heads), `batch` windows at a time.  `fraction` is useful work per second\n"
        "over that of a 2048^3 sgemm with the same threads; `peak_bytes` is what the\n"
        "products need beyond weights, input and vectors.  With --bias or --soft-cap\n"
        "the layer without them is timed in turn: `of_plain` is its time over that of\n"
        "the layer with them.",
    .example = "  $ lipscope bench --lengths 64:1024:x2 --mask causal\n"
               "  $ lipscope bench --lengths 8:64:x2 --batch 16\n",
    .option_count = sizeof options / sizeof *options,
    .options = options,
    .run = run,
};
