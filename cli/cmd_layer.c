/* cmd_layer.c - lipscope layer: the largest singular value of one layer at its input. */
#include <float.h>
#include <math.h>

#include "args.h"
#include "certify.h"
#include "interrupt.h"
#include "layer_table.h"
#include "place.h"
#include "ranks.h"

typedef struct {
    cli_common common;
    cli_layer_file file;
    size_t count, max_products;
    int dtype, solver, upper, as_released;
    double tol, probability, max_sigma;
    uint64_t seed;
    const char *save_direction;
    cli_certify certify;
} settings;

#define OPTION(...) CLI_OPTION(settings, __VA_ARGS__)

static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "The layer"},
    CLI_LAYER_OPTIONS(settings),

    {.kind = CLI_GROUP, .name = "The solve"},
    OPTION(CHOICE, "dtype", "T", dtype, .wanted = "f64|f32",
           .help = "precision of the products: f64 or f32 (default f64); the value is "
                   "re-evaluated in double either way"),
    OPTION(REAL, "tol", "T", tol, .wanted = "a positive number", .min = DBL_MIN,
           .max = DBL_MAX,
           .help = "residual to stop at (default 1e-8 in f64, 1e-2 in f32)"),
    CLI_SOLVER_OPTION(settings),
    OPTION(SIZE, "max-products", "N", max_products, .min = 1, .max = 1e9,
           .help = "pairs of products at most (default 1000)"),
    OPTION(SEED, "seed", "N", seed, .help = "seed of the start vector (default 1)"),
    CLI_THREADS_OPTION(settings),

    {.kind = CLI_GROUP, .name = "What is told"},
    CLI_COUNT_OPTION(settings),
    OPTION(FLAG, "upper", NULL, upper, .help = "a proved upper bound as well"),
    CLI_CERTIFY_OPTIONS(settings),
    CLI_PROBABILITY_OPTION(settings),
    OPTION(FLAG, "as-released", NULL, as_released,
           .help = "|J^T f(X)|^(1/2) as well, what the paper's scripts return"),
    OPTION(TEXT, "save-direction", "FILE", save_direction,
           .help = "write the direction that reaches the value, for `lipscope check`"),
    OPTION(REAL, "max-sigma", "S", max_sigma, .wanted = "a number that is not negative",
           .min = 0, .max = DBL_MAX, .help = "exit 4 when sigma is larger"),
    CLI_OUTPUT_OPTIONS(settings),
};

static lipsc_layer_row_settings ask(const settings *s, const lipsc_layer_file *file,
                                    const char *path, cli_certifier *c) {
    lipsc_layer_row_settings set;
    lipsc_layer_row_defaults(&set);
    set.name = path;
    set.dtype = (lipsc_dtype)s->dtype;
    set.solve.method = (lipsc_method)s->solver;
    set.solve.tol = s->tol;
    if (s->max_products) set.solve.max_products = (long)s->max_products;
    if (s->count) set.solve.count = s->count;
    set.solve.seed = s->seed;
    set.solve.probability = s->probability;
    set.solve.stop = cli_interrupted;
    set.solve.progress = cli_progress_solve;
    set.solve.ctx = &c->progress;
    set.sigmas = s->count > 0;
    set.upper = s->upper;
    set.as_released = s->as_released;
    set.save_direction = s->save_direction;
    set.from = file;
    set.device = s->common.device;
    return set;
}

/* What the value means for the caller. */
static int verdict(const cli_command *self, const settings *s, lipsc_status status,
                   const lipsc_row *row) {
    if (row->sigma > s->max_sigma) {
        cli_failure(self, "%s: sigma %.17g exceeds --max-sigma %.17g", row->model,
                    row->sigma, s->max_sigma);
        return CLI_ABOVE_LIMIT;
    }
    if (status == LIPSC_OK && row->converged)
        return row->certified ? CLI_DONE : CLI_NOT_CONVERGED; /* said already */
    if (!s->common.quiet)
        cli_failure(self, "%s: %s: residual %.2e after %lld products", row->model,
                    status == LIPSC_E_STOPPED ? "interrupted" : "not converged",
                    row->residual, row->products);
    return CLI_NOT_CONVERGED;
}

static int measure(const cli_command *self, const settings *s, const char *path,
                   const lipsc_layer_file *file) {
    cli_certifier c;
    lipsc_layer_row found;
    lipsc_error err;
    if (s->as_released && file->input.weights)
        return cli_failure(self, "%s: --as-released has no meaning with tensor 'weights'",
                           path);
    cli_interrupt_begin();
    lipsc_layer_row_settings set = ask(s, file, path, &c);
    set.certify = cli_certify_begin(&c, self, &s->certify, &s->common, path, s->seed);
    if (!cli_ranks_leads()) { /* one file and one certificate are enough */
        set.save_direction = NULL;
        set.certify = NULL;
    }
    const lipsc_status status =
        lipsc_layer_row_find(&file->layer, &file->input, &set, &found, &err);
    cli_certify_end(&c, found.certificate, &found.why);
    int code;
    if (status && status != LIPSC_E_NOCONV && status != LIPSC_E_STOPPED) {
        code = cli_failure(self, "%s", err.text);
    } else {
        const unsigned parts = (s->count ? LIPSC_ROW_COUNT : 0u) |
                               (s->as_released ? LIPSC_ROW_RELEASED : 0u) |
                               (s->certify.eps > 0.0 ? LIPSC_ROW_CERTIFY : 0u);
        code = layer_table_print(self, (lipsc_format)s->common.format, parts, &found.row);
        if (code == CLI_DONE) code = verdict(self, s, status, &found.row);
    }
    lipsc_layer_row_free(&found);
    return code;
}

static int run(const cli_command *self, int argc, char **argv) {
    lipsc_svd_settings defaults;
    lipsc_svd_defaults(&defaults);
    settings s = {.certify = CLI_CERTIFY_DEFAULTS,
                  .max_sigma = INFINITY,
                  .probability = defaults.probability,
                  .seed = defaults.seed};
    int operands;
    const int code = cli_parse(self, argc, argv, &s, &operands);
    if (code != CLI_RUN) return code;
    const lipsc_layer_options how = cli_layer_file_how(&s.file, 1);
    lipsc_layer_file file;
    lipsc_error err;
    if (lipsc_layer_file_read(argv[0], &how, &file, &err))
        return cli_failure(self, "%s", err.text);
    const int result = measure(self, &s, argv[0], &file);
    lipsc_layer_file_free(&file);
    return result;
}

const cli_command cli_cmd_layer = {
    .name = "layer",
    .operands = "FILE",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "sigma of one attention layer that is given as tensors",
    .about =
        "The largest singular value of the Jacobian of one attention layer at its\n"
        "input: how far a small change of the tokens can be stretched.  FILE is a\n"
        "safetensors file with X, Q, K, V (or A, V) and optionally O, bq, bk, bv, bo,\n"
        "c, weights, times.  Files of `export`, `attack` and --save-direction describe\n"
        "their layer themselves: they need none of the options under 'The layer', and one\n"
        "that contradicts the file is refused.",
    .example = "  $ lipscope layer layer.safetensors --num-heads 12 --causal --upper\n"
               "  # that file is written in Python by safetensors.numpy.save_file(\n"
               "  #   {\"X\": x, \"Q\": wq, \"K\": wk, \"V\": wv, \"O\": wo}, "
               "\"layer.safetensors\")\n"
               "  $ lipscope layer attack.safetensors\n",
    .option_count = sizeof options / sizeof *options,
    .options = options,
    .run = run,
    .shares = CLI_SHARES_ROWS,
};
