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
    lipsc_layer_row_settings set;
    size_t count, max_products;
    double max_sigma;
    cli_certify certify;
} settings;

#define OPTION(...) CLI_OPTION(settings, __VA_ARGS__)

static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "The layer"},
    CLI_LAYER_OPTIONS(settings),

    {.kind = CLI_GROUP, .name = "The solve"},
    OPTION(CHOICE, "dtype", "T", set.dtype, .wanted = "f64|f32",
           .help = "precision of the products: f64 or f32 (default f64); the value is "
                   "re-evaluated in double either way"),
    OPTION(REAL, "tol", "T", set.solve.tol, .wanted = "a positive number", .min = DBL_MIN,
           .max = DBL_MAX,
           .help = "residual to stop at (default 1e-8 in f64, 1e-2 in f32)"),
    CLI_SOLVER_OPTION(settings, set.solve.method),
    CLI_PRODUCTS_OPTION(settings, max_products, ""),
    OPTION(SEED, "seed", "N", set.solve.seed,
           .help = "seed of the start vector (default 1)"),
    CLI_THREADS_OPTION(settings),

    {.kind = CLI_GROUP, .name = "What is told"},
    CLI_COUNT_OPTION(settings, count),
    OPTION(FLAG, "upper", NULL, set.upper, .help = "a proved upper bound as well"),
    CLI_CERTIFY_OPTIONS(settings, certify.eps, certify.seconds, certify.memory),
    CLI_PROBABILITY_OPTION(settings, set.solve.probability),
    CLI_RELEASED_OPTION(settings, set.as_released),
    OPTION(TEXT, "save-direction", "FILE", set.save_direction,
           .help = "write the direction that reaches the value, for `lipscope check`"),
    CLI_MAX_SIGMA_OPTION(settings, "sigma"),
    CLI_OUTPUT_OPTIONS(settings),
};

/* What the options do not fill themselves. */
static void complete(settings *s, lipsc_layer_file *file, const char *path,
                     cli_progress *progress) {
    lipsc_svd_settings *solve = &s->set.solve;
    s->set.name = path;
    s->set.from = s->set.spent = file;
    s->set.sigmas = s->count > 0;
    s->set.device = s->common.device;
    if (s->max_products) solve->max_products = (long)s->max_products;
    if (s->count) solve->count = s->count;
    solve->stop = cli_interrupted;
    solve->progress = cli_progress_solve;
    solve->ctx = progress;
}

/* What the value means for the caller. */
static int verdict(const cli_command *self, const settings *s, lipsc_status status,
                   const lipsc_row *row) {
    if (row->sigma > s->max_sigma) {
        cli_failure(self, "%s: sigma %.17g exceeds --max-sigma %.15g", row->model,
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

static int measure(const cli_command *self, settings *s, const char *path,
                   lipsc_layer_file *file) {
    const unsigned parts = (s->count ? LIPSC_ROW_COUNT : 0u) |
                           (s->set.as_released ? LIPSC_ROW_RELEASED : 0u) |
                           (s->certify.eps > 0.0 ? LIPSC_ROW_CERTIFY : 0u);
    cli_certifier c;
    lipsc_layer_row found;
    lipsc_error err;
    int code;
    if (s->set.as_released && file->input.weights)
        return cli_failure(self, "%s: --as-released has no meaning with tensor 'weights'",
                           path);
    cli_interrupt_begin();
    complete(s, file, path, &c.progress);
    s->set.certify =
        cli_certify_begin(&c, self, &s->certify, &s->common, path, s->set.solve.seed);
    if (!cli_ranks_leads()) { /* one file and one certificate are enough */
        s->set.save_direction = NULL;
        s->set.certify = NULL;
    }
    c.progress.tol = s->set.solve.tol > 0.0      ? s->set.solve.tol
                     : s->set.dtype == LIPSC_F32 ? 1e-2
                                                 : 1e-8;
    if (!s->set.certify) /* which tells its own */
        cli_progress_plan(&c.progress, self,
                          lipsc_layer_row_seconds(&file->layer, &file->input, &s->set));
    const lipsc_status status =
        lipsc_layer_row_find(&file->layer, &file->input, &s->set, &found, &err);
    cli_certify_end(&c, found.certificate, &found.why);
    if (status && status != LIPSC_E_NOCONV && status != LIPSC_E_STOPPED)
        code = cli_failure(self, "%s", err.text);
    else
        code = layer_table_print(self, (lipsc_format)s->common.format, parts, &found.row);
    if (code == CLI_DONE) code = verdict(self, s, status, &found.row);
    lipsc_layer_row_free(&found);
    return code;
}

static int run(const cli_command *self, int argc, char **argv) {
    settings s = {.certify = CLI_CERTIFY_DEFAULTS, .max_sigma = INFINITY};
    lipsc_layer_file file;
    lipsc_error err;
    int operands;
    lipsc_layer_row_defaults(&s.set);
    int code = cli_parse(self, argc, argv, &s, &operands);
    if (code != CLI_RUN) return code;
    const lipsc_layer_options how = cli_layer_file_how(&s.file, 1);
    if (lipsc_layer_file_read(argv[0], &how, &file, &err))
        return cli_failure(self, "%s", err.text);
    code = measure(self, &s, argv[0], &file);
    lipsc_layer_file_free(&file);
    return code;
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
    CLI_TABLE(options),
    .run = run,
    .shares = CLI_SHARES_ROWS,
};
