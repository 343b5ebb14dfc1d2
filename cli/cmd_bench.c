/* cmd_bench.c - lipscope bench: the speed of the products beside the machine's own sgemm.
 */
#include "args.h"
#include "bench_table.h"
#include "interrupt.h"
#include "progress.h"
#include "ranks.h"

typedef struct {
    cli_common common;
    cli_sizes lengths;
    int dtype, mask; /* places in the choices below */
    size_t block, batch, repeats;
    int bias; /* place in its choices: a lipsc_bias_rule */
    double soft_cap;
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
    OPTION(SIZE, "block", "B", block, .min = 1, .max = 1024,
           .help = "directions per product (default 1)"),
    OPTION(SIZE, "batch", "K", batch, .min = 1, .max = 1024,
           .help = "windows of that many tokens at once (default 1)"),
    OPTION(CHOICE, "bias", "RULE", bias, .wanted = "none|linear|buckets",
           .help = "a bias of the scores by distance: none, linear (ALiBi) or buckets (T5) "
                   "(default none)"),
    OPTION(REAL, "soft-cap", "C", soft_cap, .min = 0, .max = 1e6,
           .help = "scores capped by C tanh(s / C) (default 0: not capped)"),
    OPTION(FLAG, "mpi", NULL, mpi,
           .help =
               "one input shared by the ranks of mpirun, beside one process with all their "
               "threads"),
    CLI_THREADS_OPTION(settings),
    OPTION(SIZE, "repeats", "R", repeats, .min = 1, .max = 1000,
           .help = "samples of each, the median counts (default 7)"),
    CLI_OUTPUT_OPTIONS(settings),
};

static int plain(const settings *s) {
    return s->bias == LIPSC_BIAS_NONE && !(s->soft_cap > 0.0);
}

static unsigned parts_of(const settings *s) {
    return (plain(s) ? 0u : LIPSC_BENCH_FEATURES) | (s->mpi ? LIPSC_BENCH_RANKS : 0u);
}

/* Members of the JSON object behind the rows. */
#define BENCH_LIST(X)                                         \
    X(isa, TEXT, 0, 0, "", "instruction set of the products") \
    X(repeats, COUNT, 0, 0, "", "each figure is the median of so many")

typedef struct {
    BENCH_LIST(LIPSC_FIELD_MEMBER)
} record;
static const lipsc_field fields[] = {BENCH_LIST(LIPSC_FIELD_ENTRY)};

static lipsc_bench_settings ask(const settings *s, size_t n, int type, int mask) {
    lipsc_bench_settings set;
    lipsc_bench_defaults(&set);
    set.n = n;
    set.mask = mask == CAUSAL ? LIPSC_MASK_CAUSAL : LIPSC_MASK_NONE;
    set.dtype = type == F32 ? LIPSC_F32 : LIPSC_F64;
    set.block = s->block;
    set.batch = s->batch;
    set.repeats = s->repeats;
    set.bias = (lipsc_bias_rule)s->bias;
    set.soft_cap = s->soft_cap;
    set.device = s->common.device;
    if (s->mpi) set.ranks = cli_ranks();
    set.stop = cli_interrupted;
    return set;
}

/* *first: no row has been printed yet. */
static lipsc_status bench_row(const settings *s, const lipsc_bench_settings *set,
                              lipsc_table *t, int *first, lipsc_error *err) {
    cli_progress progress;
    lipsc_bench_row row;
    cli_progress_begin(&progress, &s->common);
    cli_progress_say(&progress, "n %zu, mask %s, %zu samples", set->n,
                     lipsc_mask_name(set->mask), set->repeats);
    const lipsc_status status = lipsc_bench(set, &row, err);
    cli_progress_end(&progress);
    if (status) return status;
    if (s->common.format == LIPSC_FORMAT_TABLE) {
        bench_table_row(&row, *first, parts_of(s), s->repeats);
    } else {
        lipsc_table_record(t, lipsc_bench_fields(), &row);
        lipsc_table_flush(t);
    }
    *first = 0;
    return LIPSC_OK;
}

static int bench(const cli_command *self, const settings *s, lipsc_table *t) {
    lipsc_error err = {.text = ""};
    lipsc_status status = LIPSC_OK;
    int first = 1;
    cli_interrupt_begin();
    for (size_t i = 0; !status && i < s->lengths.count; i++)
        for (int type = F32; !status && type <= F64; type++)
            for (int mask = NONE; !status && mask <= CAUSAL; mask++) {
                if ((s->dtype != BOTH && s->dtype != type) ||
                    (s->mask != BOTH && s->mask != mask))
                    continue;
                const lipsc_bench_settings set = ask(s, s->lengths.items[i], type, mask);
                status = bench_row(s, &set, t, &first, &err);
            }
    if (status && status != LIPSC_E_STOPPED) return cli_failure(self, "%s", err.text);
    lipsc_table_members(t, (lipsc_fields){sizeof fields / sizeof *fields, fields},
                        &(record){lipsc_cpu_isa(), s->repeats});
    if (s->common.format != LIPSC_FORMAT_TABLE && lipsc_table_end(t, &err))
        return cli_failure(self, "%s", err.text);
    if (status) return cli_failure(self, "interrupted");
    return CLI_DONE;
}

static int run(const cli_command *self, int argc, char **argv) {
    enum { MOST = 24 };
    settings s = {.mask = BOTH, .block = 1, .batch = 1, .repeats = 7};
    lipsc_column columns[MOST];
    int operands;
    int code = cli_sizes_parse("64,128,256,512,1024,4096", 1, 4096, &s.lengths)
                   ? cli_failure(self, "%s", lipsc_strerror(LIPSC_E_NOMEM))
                   : cli_parse(self, argc, argv, &s, &operands);
    if (code == CLI_RUN && s.mpi && !cli_ranks())
        code = cli_wrong_use(self, "--mpi: start it by mpirun -n K");
    if (code == CLI_RUN && s.mpi && !plain(&s))
        code = cli_wrong_use(self, "--mpi goes with neither --bias nor --soft-cap");
    if (code == CLI_RUN) {
        const lipsc_format format = (lipsc_format)s.common.format;
        const size_t count =
            lipsc_table_columns(lipsc_bench_fields(), parts_of(&s), format, columns);
        lipsc_table *t =
            lipsc_table_new(self->name, format, LIPSC_LAYOUT_WIDE, stdout, count, columns);
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
        "the layer with them.  Under mpirun one input is shared by all ranks; --mpi adds\n"
        "how they compare with one process that has the threads of all.",
    .example = "  $ lipscope bench --lengths 64:1024:x2 --mask causal\n"
               "  $ lipscope bench --lengths 8:64:x2 --batch 16\n",
    .option_count = sizeof options / sizeof *options,
    .options = options,
    .run = run,
    .shares = CLI_SHARES_ROWS,
};
