/* cmd_bench.c - lipscope bench: the speed of the products beside the machine's own sgemm.
 *
 * A pair is J x followed by J^T y, on vectors that stay in the back end.  Useful work of
 * a pair, for each direction in the block:
 *
 *     16 n d^2 + 16 n^2 d  floating-point operations, the second term halved when causal
 *
 * Recomputed scores do not count.  Samples of sgemm and of pairs alternate, so that a
 * noisy moment of the machine meets both; medians are compared. */
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
    size_t block, repeats;
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
    {"n", LIPSC_COLUMN_INTEGER},     {"mask", LIPSC_COLUMN_STRING},
    {"dtype", LIPSC_COLUMN_STRING},  {"threads", LIPSC_COLUMN_INTEGER},
    {"block", LIPSC_COLUMN_INTEGER}, {"ms_per_pair", LIPSC_COLUMN_REAL},
    {"gflops", LIPSC_COLUMN_REAL},   {"sgemm_gflops", LIPSC_COLUMN_REAL},
    {"fraction", LIPSC_COLUMN_REAL}, {"peak_bytes", LIPSC_COLUMN_INTEGER}};

static const double shortest_sample = 0.05; /* seconds: well above the clock's noise */
enum { SGEMM_SIZE = 2048 };

/* One operator with vectors for it. */
typedef struct {
    lipsc_linop op;
    size_t block;
    void *x, *y, *z;
} bed;

static lipsc_status time_pairs(const bed *b, long pairs, double *seconds) {
    const double start = lipsc_seconds();
    for (long i = 0; i < pairs; i++) {
        lipsc_status status = b->op.apply(b->op.ctx, 0, b->block, b->x, b->y);
        if (!status) status = b->op.apply(b->op.ctx, 1, b->block, b->y, b->z);
        if (status) return status;
    }
    *seconds = (lipsc_seconds() - start) / (double)pairs;
    return LIPSC_OK;
}

/* Medians over `repeats` of seconds per pair and of sgemm's GFLOP/s. */
static lipsc_status sample(const bed *b, int threads, size_t repeats, double *seconds,
                           double *sgemm) {
    double *pair = lipsc_alloc(2 * repeats, sizeof *pair);
    if (!pair) return LIPSC_E_NOMEM;
    double *rate = pair + repeats, once;
    lipsc_status status = time_pairs(b, 1, &once); /* warms up */
    if (!status) status = time_pairs(b, 1, &once);
    const long pairs = once < shortest_sample ? (long)ceil(shortest_sample / once) : 1;
    for (size_t r = 0; !status && r < repeats; r++) {
        rate[r] = lipsc_dense_sgemm_rate(SGEMM_SIZE, threads, 1);
        status = time_pairs(b, pairs, &pair[r]);
        if (!status && cli_interrupted(NULL)) status = LIPSC_E_STOPPED;
    }
    if (!status) {
        *seconds = lipsc_median(repeats, pair);
        *sgemm = lipsc_median(repeats, rate);
    }
    lipsc_release(pair);
    return status;
}

static lipsc_status measure(const settings *s, lipsc_attn *attn, double *seconds,
                            double *sgemm) {
    bed b = {.op = lipsc_attn_linop(attn), .block = s->block};
    const lipsc_space *space = b.op.space;
    size_t in, out;
    lipsc_status status = LIPSC_E_NOMEM;
    if (lipsc_mul_size(s->block, b.op.n, &in) && lipsc_mul_size(s->block, b.op.m, &out)) {
        b.x = lipsc_space_alloc(space, in);
        b.y = lipsc_space_alloc(space, out);
        b.z = lipsc_space_alloc(space, in);
    }
    if (b.x && b.y && b.z) {
        status = lipsc_space_random(space, 1, 0, in, b.x);
        if (!status)
            status = sample(&b, lipsc_attn_threads(attn), s->repeats, seconds, sgemm);
    }
    lipsc_space_release(space, b.x);
    lipsc_space_release(space, b.y);
    lipsc_space_release(space, b.z);
    return status;
}

static lipsc_status bench_row(const settings *s, size_t n, lipsc_mask mask,
                              lipsc_dtype dtype, lipsc_table *t, lipsc_error *err) {
    const cli_sample_shape shape = cli_sample_gpt2(n, mask);
    cli_sample layer = cli_sample_new(&shape);
    lipsc_attn *attn = NULL;
    double seconds = NAN, sgemm = NAN;
    lipsc_status status = layer.storage ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status)
        status = lipsc_attn_new(&layer.layer, &layer.input, dtype, (int)s->common.threads,
                                &attn, err);
    if (!status) status = measure(s, attn, &seconds, &sgemm);
    if (!status) {
        const double tokens = (double)n, d = (double)shape.d;
        const double work = 16 * tokens * d * d +
                            (mask == LIPSC_MASK_CAUSAL ? 8 : 16) * tokens * tokens * d;
        const double gflops = 1e-9 * work * (double)s->block / seconds;
        lipsc_table_row(t);
        lipsc_table_integer(t, "n", (long long)n);
        lipsc_table_string(t, "mask", lipsc_mask_name(mask));
        lipsc_table_string(t, "dtype", lipsc_dtype_name(dtype));
        lipsc_table_integer(t, "threads", lipsc_attn_threads(attn));
        lipsc_table_integer(t, "block", (long long)s->block);
        lipsc_table_real(t, "ms_per_pair", 1e3 * seconds);
        lipsc_table_real(t, "gflops", gflops);
        lipsc_table_real(t, "sgemm_gflops", sgemm);
        lipsc_table_real(t, "fraction", gflops / sgemm);
        lipsc_table_integer(t, "peak_bytes", (long long)lipsc_attn_bytes(attn));
    }
    lipsc_attn_free(attn);
    cli_sample_free(&layer);
    return status;
}

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
    lipsc_table_member(t, "isa", lipsc_json_text(lipsc_cpu_isa()));
    lipsc_table_member(t, "repeats", json_integer((json_int_t)s->repeats));
    if (lipsc_table_end(t, &err)) return cli_failure(self, "%s", err.text);
    if (status) return cli_failure(self, "interrupted");
    return CLI_DONE;
}

static int run(const cli_command *self, int argc, char **argv) {
    settings s = {.mask = BOTH, .block = 1, .repeats = 7};
    int operands;
    int code = cli_sizes_parse("64,128,256,512,1024,4096", 1, 4096, &s.lengths)
                   ? cli_failure(self, "%s", lipsc_strerror(LIPSC_E_NOMEM))
                   : cli_parse(self, argc, argv, &s, &operands);
    if (code == CLI_RUN) {
        lipsc_table *t =
            lipsc_table_new(self->name, (lipsc_format)s.common.format, LIPSC_LAYOUT_WIDE,
                            stdout, sizeof columns / sizeof *columns, columns);
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
        "12 heads).  `fraction` is useful work per second over that of a 2048^3 sgemm\n"
        "with the same threads; `peak_bytes` is what the products need beyond\n"
        "weights, input and vectors.",
    .example = "  $ lipscope bench --lengths 64:1024:x2 --mask causal\n",
    .option_count = sizeof options / sizeof *options,
    .options = options,
    .run = run,
};
