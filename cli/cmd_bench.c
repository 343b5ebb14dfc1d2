/* cmd_bench.c - lipscope bench: the speed of the products beside the machine's own sgemm.
 */
#include "bench_table.h"
#include "interrupt.h"
#include "progress.h"
#include "ranks.h"

typedef struct {
    cli_common common;
    cli_sizes lengths;
    int dtype, mask; /* places in the choices below */
    lipsc_bench_settings set;
    int mpi;
} settings;

#define OPTION(...) CLI_OPTION(settings, __VA_ARGS__)

enum { F32 = 0, F64 = 1, NONE = 0, CAUSAL = 1, BOTH = 2 };

static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "What is measured"},
    OPTION(SIZES, "lengths", "LIST", lengths, .min = 1, .max = 1e8,
           .help =
               "numbers of tokens: a list such as 64,256, or a range such as 64:4096:x2 "
               "(default 64,128,256,512,1024,4096)"),
    OPTION(SIZES, "length", "LIST", lengths, .min = 1, .max = 1e8),
    OPTION(CHOICE, "dtype", "T", dtype, .wanted = "f32|f64|both",
           .help = "f32, f64 or both (default f32)"),
    OPTION(CHOICE, "mask", "M", mask, .wanted = "none|causal|both",
           .help = "none, causal or both (default both)"),
    OPTION(SIZE, "block", "B", set.block, .min = 1, .max = 1024,
           .help = "directions per product (default 1)"),
    OPTION(SIZE, "batch", "K", set.batch, .min = 1, .max = 1024,
           .help = "windows of that many tokens at once (default 1)"),
    OPTION(CHOICE, "bias", "RULE", set.bias, .wanted = "none|linear|buckets",
           .help = "a bias of the scores by distance: none, linear (ALiBi) or buckets (T5) "
                   "(default none)"),
    OPTION(REAL, "soft-cap", "C", set.soft_cap, .min = 0, .max = 1e6,
           .help = "scores capped by C tanh(s / C) (default 0: not capped)"),
    OPTION(FLAG, "mpi", NULL, mpi,
           .help = "one input, and a sweep, shared by the ranks of mpirun, beside one "
                   "process with "
                   "all their threads and beside the model of docs/scaling.md"),
    CLI_THREADS_OPTION(settings),
    OPTION(SIZE, "repeats", "R", set.repeats, .min = 1, .max = 1000,
           .help = "samples of each, the median counts (default 7)"),
    CLI_OUTPUT_OPTIONS(settings),
};

static int plain(const settings *s) {
    return s->set.bias == LIPSC_BIAS_NONE && !(s->set.soft_cap > 0.0);
}

static lipsc_status bench_row(const settings *s, const lipsc_bench_settings *set,
                              bench_table *to, lipsc_error *err) {
    cli_progress progress;
    lipsc_bench_row row;
    cli_progress_begin(&progress, &s->common);
    cli_progress_say(&progress, "n %zu, mask %s, %zu samples", set->n,
                     lipsc_mask_name(set->mask), set->repeats);
    const lipsc_status status = lipsc_bench(set, &row, err);
    cli_progress_end(&progress);
    if (!status) bench_table_row(to, &row);
    return status;
}

/* What several ranks bring to a sweep. */
static lipsc_status bench_sweep(const settings *s, bench_table *to, lipsc_error *err) {
    cli_progress progress;
    lipsc_bench_row row;
    cli_progress_begin(&progress, &s->common);
    cli_progress_say(&progress, "a sweep, %zu samples", s->set.repeats);
    const lipsc_status status = lipsc_bench_sweep(&s->set, &row, err);
    cli_progress_end(&progress);
    if (!status) bench_table_row(to, &row);
    return status;
}

/* Every length, precision and mask that was asked for. */
static lipsc_status bench(const settings *s, bench_table *to, lipsc_error *err) {
    lipsc_bench_settings set = s->set;
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; !status && i < s->lengths.count; i++)
        for (int type = F32; !status && type <= F64; type++)
            for (int mask = NONE; !status && mask <= CAUSAL; mask++) {
                if ((s->dtype != BOTH && s->dtype != type) ||
                    (s->mask != BOTH && s->mask != mask))
                    continue;
                set.n = s->lengths.items[i];
                set.dtype = type == F32 ? LIPSC_F32 : LIPSC_F64;
                set.mask = mask == CAUSAL ? LIPSC_MASK_CAUSAL : LIPSC_MASK_NONE;
                status = bench_row(s, &set, to, err);
            }
    return status || !s->mpi ? status : bench_sweep(s, to, err);
}

static int bench_and_print(const cli_command *self, settings *s) {
    bench_table to;
    lipsc_error err = {.text = ""};
    s->set.device = s->common.device;
    s->set.ranks = s->mpi ? cli_ranks() : NULL;
    s->set.stop = cli_interrupted;
    bench_table_begin(&to, self, &s->common, s->set.repeats,
                      (plain(s) ? 0u : LIPSC_BENCH_FEATURES) |
                          (s->mpi ? LIPSC_BENCH_RANKS : 0u));
    cli_interrupt_begin();
    const lipsc_status status = bench(s, &to, &err);
    const int failed = status && status != LIPSC_E_STOPPED;
    const int code = bench_table_end(&to, !failed);
    if (failed) return cli_failure(self, "%s", err.text);
    return status && code == CLI_DONE ? cli_failure(self, "interrupted") : code;
}

static int run(const cli_command *self, int argc, char **argv) {
    settings s = {.mask = BOTH};
    int operands;
    lipsc_bench_defaults(&s.set);
    int code = cli_sizes_parse("64,128,256,512,1024,4096", 1, 4096, &s.lengths)
                   ? cli_failure(self, "%s", lipsc_strerror(LIPSC_E_NOMEM))
                   : cli_parse(self, argc, argv, &s, &operands);
    if (code == CLI_RUN && s.mpi && !cli_ranks())
        code = cli_wrong_use(self, "--mpi: start it by mpirun -n K");
    if (code == CLI_RUN && s.mpi && !plain(&s))
        code = cli_wrong_use(self, "--mpi goes with neither --bias nor --soft-cap");
    if (code == CLI_RUN) code = bench_and_print(self, &s);
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
        "the layer with them.  Under mpirun one input is shared by all ranks; --mpi adds\n"
        "how they compare with one process that has the threads of all (`of ideal`) and\n"
        "with what a model predicts from a rank alone and the link (`of model`), and\n"
        "times a small sweep in the same way.",
    .example = "  $ lipscope bench --lengths 64:1024:x2 --mask causal\n"
               "  $ lipscope bench --lengths 8:64:x2 --batch 16\n",
    CLI_TABLE(options),
    .run = run,
    .shares = CLI_SHARES_ROWS,
};
