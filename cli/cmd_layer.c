/* cmd_layer.c - lipscope layer: the largest singular value of one layer at its input. */
#include <float.h>
#include <math.h>
#include <stdint.h>

#include "args.h"
#include "attn/attn.h"
#include "certify.h"
#include "core/clock.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "interrupt.h"
#include "study/save.h"
#include "names.h"
#include "progress.h"
#include "value/value.h"

typedef struct {
    cli_common common;
    size_t num_heads, kv_heads, sliding, count, max_products;
    int causal, dtype, solver, upper, as_released;
    double scale, tol, probability, max_sigma;
    uint64_t seed;
    const char *save_direction;
    cli_certify certify;
} settings;

#define AT(member) .offset = offsetof(settings, member)

static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "The layer"},
    CLI_LAYER_OPTIONS(settings),

    {.kind = CLI_GROUP, .name = "The solve"},
    {.kind = CLI_CHOICE,
     .name = "dtype",
     .value = "T",
     .wanted = "f64|f32",
     AT(dtype),
     .help = "precision of the products: f64 or f32 (default f64); the value is "
             "re-evaluated in double either way"},
    {.kind = CLI_REAL,
     .name = "tol",
     .value = "T",
     .min = DBL_MIN,
     .max = DBL_MAX,
     AT(tol),
     .wanted = "a positive number",
     .help = "residual to stop at (default 1e-8 in f64, 1e-2 in f32)"},
    CLI_SOLVER_OPTION(settings),
    {.kind = CLI_SIZE,
     .name = "max-products",
     .value = "N",
     .min = 1,
     .max = 1e9,
     AT(max_products),
     .help = "pairs of products at most (default 1000)"},
    {.kind = CLI_SEED,
     .name = "seed",
     .value = "N",
     AT(seed),
     .help = "seed of the start vector (default 1)"},
    CLI_THREADS_OPTION(settings),

    {.kind = CLI_GROUP, .name = "What is told"},
    CLI_COUNT_OPTION(settings),
    {.kind = CLI_FLAG, .name = "upper", AT(upper), .help = "a proved upper bound as well"},
    CLI_CERTIFY_OPTIONS(settings),
    CLI_PROBABILITY_OPTION(settings),
    {.kind = CLI_FLAG,
     .name = "as-released",
     AT(as_released),
     .help = "|J^T f(X)|^(1/2) as well, what the paper's scripts return"},
    {.kind = CLI_TEXT,
     .name = "save-direction",
     .value = "FILE",
     AT(save_direction),
     .help = "write the direction that reaches the value, for `lipscope check`"},
    {.kind = CLI_REAL,
     .name = "max-sigma",
     .value = "S",
     .min = 0,
     .max = DBL_MAX,
     AT(max_sigma),
     .wanted = "a number that is not negative",
     .help = "exit 4 when sigma is larger"},
    CLI_OUTPUT_OPTIONS(settings),
};

/* What one run found. */
typedef struct {
    double *sigma; /* (count) */
    double *v;     /* the first direction, or NULL */
    lipsc_svd_info info;
    double upper, released, seconds;
    cli_certified certified;
} result;

static lipsc_svd_settings solve_settings(const settings *s, cli_progress *progress) {
    lipsc_svd_settings set;
    lipsc_svd_defaults(&set);
    set.method = (lipsc_method)s->solver;
    set.tol = s->tol;
    /* A residual of 1e-2, the default in f32, may leave an error that a table shows: unless
     * a tolerance was asked for, the solve goes on until the error is estimated to be
     * below its digits. */
    if (s->tol == 0.0 && s->dtype == LIPSC_F32) set.value_tol = 1e-6;
    if (s->max_products) set.max_products = (long)s->max_products;
    set.count = s->count ? s->count : 1;
    set.seed = s->seed;
    set.probability = s->probability;
    set.stop = cli_interrupted;
    set.progress = cli_progress_solve;
    set.ctx = progress;
    return set;
}

static lipsc_status save(const settings *s, const lipsc_layer_file *file,
                         const lipsc_attn *attn, const result *r, const double *u,
                         lipsc_error *err) {
    lipsc_layer_record record = lipsc_layer_record_of(&attn->layer, &attn->input);
    lipsc_save_origin(&record, file);
    record.dtype = lipsc_dtype_name(attn->dtype);
    record.sigma = r->sigma;
    record.u = u;
    record.v = r->v;
    return lipsc_layer_write(s->save_direction, &record, err);
}

/* The solve itself, and the direction when it is to be saved.  *err says why not. */
static lipsc_status solve(const settings *s, const lipsc_layer_file *file, lipsc_attn *attn,
                          result *r, cli_progress *progress, lipsc_error *err) {
    const lipsc_svd_settings set = solve_settings(s, progress);
    const size_t width = lipsc_layer_width(&attn->layer);
    double *u = NULL;
    lipsc_status status = LIPSC_OK;
    if (s->save_direction || s->certify.eps > 0.0) {
        size_t rows;
        if (lipsc_mul_size(set.count, attn->input.n, &rows)) {
            u = lipsc_alloc(rows, width * sizeof *u);
            r->v = lipsc_alloc(rows, attn->layer.d * sizeof *r->v);
        }
        if (!u || !r->v) status = LIPSC_E_NOMEM;
    }
    if (!status) status = lipsc_attn_sigma(attn, &set, r->sigma, u, r->v, &r->info);
    cli_progress_end(progress);
    const int usable =
        status == LIPSC_OK || status == LIPSC_E_NOCONV || status == LIPSC_E_STOPPED;
    if (!usable) snprintf(err->text, sizeof err->text, "%s", lipsc_strerror(status));
    if (usable && s->save_direction) {
        const lipsc_status saved = save(s, file, attn, r, u, err);
        if (saved) status = saved;
    }
    lipsc_release(u);
    return status;
}

static lipsc_status certify(const cli_command *self, const settings *s, const char *path,
                            lipsc_attn *attn, result *r, lipsc_error *err) {
    cli_certifier c;
    cli_certify_begin(&c, self, &s->certify, &s->common, path, r->info.lower, r->upper,
                      s->seed);
    const lipsc_status status =
        lipsc_attn_certify(attn, r->v, &c.set, &r->certified.found, err);
    r->upper = r->certified.found.upper;
    return cli_certify_end(&c, status, err, &r->certified);
}

static void fill_row(lipsc_table *t, const settings *s, const char *path,
                     const lipsc_attn *attn, const result *r) {
    const lipsc_layer *layer = &attn->layer;
    double sum = 0.0, largest = 0.0;
    for (size_t i = 0; i < attn->input.n; i++) {
        double square = 0.0;
        for (size_t c = 0; c < layer->d; c++) {
            const double x = attn->input.X[i * layer->d + c];
            square += x * x;
        }
        sum += square;
        largest = lipsc_max(largest, square);
    }
    lipsc_table_row(t);
    lipsc_table_string(t, "model", path);
    lipsc_table_string(t, "architecture", "layer");
    lipsc_table_string(t, "map", cli_map_name(layer));
    lipsc_table_string(t, "mask", lipsc_mask_name(layer->mask));
    lipsc_table_integer(t, "n", (long long)attn->input.n);
    lipsc_table_real(t, "sigma", r->sigma[0]);
    lipsc_table_real(t, "lower", r->info.lower);
    lipsc_table_real(t, "upper", r->upper);
    lipsc_table_real(t, "upper_prob", r->info.upper_prob);
    lipsc_table_real(t, "probability", r->info.probability);
    lipsc_table_real(t, "residual", r->info.residual);
    lipsc_table_integer(t, "products", r->info.products);
    lipsc_table_bool(t, "converged", r->info.converged);
    lipsc_table_string(t, "dtype", lipsc_dtype_name(attn->dtype));
    lipsc_table_real(t, "radius_rms", sqrt(sum / (double)attn->input.n));
    lipsc_table_real(t, "radius_max", sqrt(largest));
    lipsc_table_real(t, "seconds", r->seconds);
    if (*r->info.unknown) lipsc_table_string(t, "rounding", r->info.unknown);
    if (s->count) lipsc_table_reals(t, "sigmas", s->count, r->sigma);
    if (s->as_released) lipsc_table_real(t, "released", r->released);
    if (s->certify.eps > 0.0) cli_certify_fill(t, &r->certified);
}

static int print(const cli_command *self, const settings *s, const char *path,
                 const lipsc_attn *attn, const result *r) {
    lipsc_column columns[23 + CLI_CERTIFY_COLUMNS] = {
        {"model", LIPSC_COLUMN_STRING},     {"architecture", LIPSC_COLUMN_STRING},
        {"layer", LIPSC_COLUMN_INTEGER},    {"head", LIPSC_COLUMN_INTEGER},
        {"map", LIPSC_COLUMN_STRING},       {"mask", LIPSC_COLUMN_STRING},
        {"n", LIPSC_COLUMN_INTEGER},        {"window", LIPSC_COLUMN_INTEGER},
        {"sigma", LIPSC_COLUMN_REAL},       {"lower", LIPSC_COLUMN_REAL},
        {"upper", LIPSC_COLUMN_REAL},       {"upper_prob", LIPSC_COLUMN_REAL},
        {"probability", LIPSC_COLUMN_REAL}, {"residual", LIPSC_COLUMN_REAL},
        {"products", LIPSC_COLUMN_INTEGER}, {"converged", LIPSC_COLUMN_BOOL},
        {"dtype", LIPSC_COLUMN_STRING},     {"radius_rms", LIPSC_COLUMN_REAL},
        {"radius_max", LIPSC_COLUMN_REAL},  {"seconds", LIPSC_COLUMN_REAL},
        {"rounding", LIPSC_COLUMN_STRING}};
    size_t count = 21;
    if (s->count) columns[count++] = (lipsc_column){"sigmas", LIPSC_COLUMN_REALS};
    if (s->as_released) columns[count++] = (lipsc_column){"released", LIPSC_COLUMN_REAL};
    if (s->certify.eps > 0.0) count += cli_certify_columns(columns + count);
    lipsc_error err;
    lipsc_table *t = lipsc_table_new(self->name, (lipsc_format)s->common.format,
                                     LIPSC_LAYOUT_UPRIGHT, stdout, count, columns);
    if (!t) return cli_failure(self, "%s", lipsc_strerror(LIPSC_E_NOMEM));
    fill_row(t, s, path, attn, r);
    const lipsc_status status = lipsc_table_end(t, &err);
    lipsc_table_free(t);
    return status ? cli_failure(self, "%s", err.text) : CLI_DONE;
}

/* What the value means for the caller. */
static int verdict(const cli_command *self, const settings *s, const char *path,
                   lipsc_status status, const result *r) {
    if (r->sigma[0] > s->max_sigma) {
        cli_failure(self, "%s: sigma %.17g exceeds --max-sigma %.17g", path, r->sigma[0],
                    s->max_sigma);
        return CLI_ABOVE_LIMIT;
    }
    const int certified = !(s->certify.eps > 0.0) || r->certified.found.certified;
    if (status == LIPSC_OK && r->info.converged)
        return certified ? CLI_DONE : CLI_NOT_CONVERGED; /* said already */
    if (!s->common.quiet)
        cli_failure(self, "%s: %s: residual %.2e after %ld products", path,
                    status == LIPSC_E_STOPPED ? "interrupted" : "not converged",
                    r->info.residual, r->info.products);
    return CLI_NOT_CONVERGED;
}

static int measure(const cli_command *self, const settings *s, const char *path,
                   lipsc_layer_file *file) {
    const double start = lipsc_seconds();
    cli_progress progress;
    lipsc_error err = {.text = ""};
    lipsc_attn *attn = NULL;
    result r = {.upper = NAN, .released = NAN};
    lipsc_upper upper;
    int code = CLI_FAILED;

    if (s->as_released && file->input.weights)
        return cli_failure(self, "%s: --as-released has no meaning with tensor 'weights'",
                           path);
    cli_progress_begin(&progress, &s->common);
    cli_interrupt_begin();
    r.sigma = lipsc_alloc_zero(s->count ? s->count : 1, sizeof *r.sigma);
    lipsc_status status = r.sigma ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status)
        status = lipsc_attn_new(&file->layer, &file->input, (lipsc_dtype)s->dtype,
                                s->common.device, &attn, &err);
    if (!status) status = solve(s, file, attn, &r, &progress, &err);
    const int usable =
        status == LIPSC_OK || status == LIPSC_E_NOCONV || status == LIPSC_E_STOPPED;
    lipsc_status more = LIPSC_OK;
    if (usable && s->upper && !*r.info.unknown) {
        more = lipsc_attn_upper(attn, &upper, &err);
        if (!more) r.upper = upper.value;
    }
    if (usable && !more && s->as_released) more = lipsc_attn_released(attn, &r.released);
    if (usable && !more && s->certify.eps > 0.0)
        more = certify(self, s, path, attn, &r, &err);
    if (more == LIPSC_E_STOPPED) status = more, more = LIPSC_OK;
    r.seconds = lipsc_seconds() - start;
    if (!usable || more) {
        if (!usable) more = status;
        cli_failure(self, "%s: %s", path, *err.text ? err.text : lipsc_strerror(more));
    } else {
        code = print(self, s, path, attn, &r);
        if (code == CLI_DONE) code = verdict(self, s, path, status, &r);
    }
    lipsc_attn_free(attn);
    lipsc_release(r.sigma);
    lipsc_release(r.v);
    return code;
}

static int run(const cli_command *self, int argc, char **argv) {
    lipsc_svd_settings defaults;
    lipsc_svd_defaults(&defaults);
    settings s = {.certify = CLI_CERTIFY_DEFAULTS,
                  .scale = NAN,
                  .max_sigma = INFINITY,
                  .probability = defaults.probability,
                  .seed = defaults.seed};
    int operands;
    const int code = cli_parse(self, argc, argv, &s, &operands);
    if (code != CLI_RUN) return code;
    if (s.scale == 0.0) /* would mean "default" to the library */
        return cli_wrong_use(self, "invalid value '0' for '--scale': expected a number "
                                   "other than zero");
    const lipsc_layer_options how = {
        .heads = s.num_heads,
        .kv_heads = s.kv_heads,
        .scale = isnan(s.scale) ? 0.0 : s.scale,
        .mask = s.sliding ? LIPSC_MASK_SLIDING
                          : (s.causal ? LIPSC_MASK_CAUSAL : LIPSC_MASK_NONE),
        .window = s.sliding,
        .need_input = 1};
    lipsc_layer_file file;
    lipsc_error err;
    if (lipsc_layer_file_read(argv[0], &how, &file, &err))
        return cli_failure(self, "%s", err.text);
    const int result_code = measure(self, &s, argv[0], &file);
    lipsc_layer_file_free(&file);
    return result_code;
}

const cli_command cli_cmd_layer = {
    .name = "layer",
    .operands = "FILE",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "largest singular value of one attention layer given as tensors",
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
};
