/* cmd_bounds.c - lipscope bounds: every bound of the zoo beside the exact value. */
#include "bounds.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "interrupt.h"
#include "progress.h"

#define AT(member) .offset = offsetof(bounds_settings, member)

static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "A layer file"},
    CLI_LAYER_OPTIONS(bounds_settings),

    {.kind = CLI_GROUP, .name = "A model"},
    CLI_ONE_LAYER_OPTIONS(bounds_settings),
    CLI_ONE_HEAD_OPTION(bounds_settings),
    CLI_SOURCE_OPTIONS(bounds_settings),
    {.kind = CLI_SIZE,
     .name = "length",
     .value = "N",
     .min = 1,
     .max = 1e8,
     AT(length),
     .help = "tokens of the window (default 64)"},
    {.kind = CLI_SIZE, .name = "lengths", .min = 1, .max = 1e8, AT(length)},
    CLI_WINDOW_OPTION(bounds_settings),
    CLI_MAP_OPTION(bounds_settings),
    CLI_MASK_OPTION(bounds_settings),
    CLI_PART_OPTION(bounds_settings),
    {.kind = CLI_SEED,
     .name = "seed",
     .value = "N",
     AT(seed),
     .help = "seed of random models (default 1)"},

    {.kind = CLI_GROUP, .name = "The bounds"},
    {.kind = CLI_TEXT,
     .name = "radius",
     .value = "R",
     AT(radius),
     .help = "radius of the ball, or layernorm: that of the norm in front of the layer "
             "(default: the longest token)"},
    {.kind = CLI_REAL,
     .name = "p",
     .value = "P",
     .min = 1,
     .max = 1e6,
     AT(p),
     .wanted = "a number from 1 on",
     .help = "of the norms Wp and dp (default 4)"},
    {.kind = CLI_REAL,
     .name = "around",
     .value = "R",
     .min = 0,
     .max = DBL_MAX,
     AT(around),
     .wanted = "a number that is not negative",
     .help = "also bound sigma at every input whose tokens lie within R of these"},
    CLI_RELATIVE_OPTION(bounds_settings, "--around"),
    {.kind = CLI_REAL,
     .name = "below",
     .value = "S",
     .min = 0,
     .max = DBL_MAX,
     AT(below),
     .wanted = "a positive number",
     .help =
         "find the largest R for which sigma is proved to stay below S, and take it for "
         "--around"},
    CLI_THREADS_OPTION(bounds_settings),
    CLI_OUTPUT_OPTIONS(bounds_settings),
};

static const lipsc_column columns[] = {
    {"name", LIPSC_COLUMN_STRING},   {"source", LIPSC_COLUMN_STRING},
    {"kind", LIPSC_COLUMN_STRING},   {"norm", LIPSC_COLUMN_STRING},
    {"domain", LIPSC_COLUMN_STRING}, {"radius", LIPSC_COLUMN_REAL},
    {"value", LIPSC_COLUMN_REAL},    {"log_value", LIPSC_COLUMN_REAL},
    {"sigma", LIPSC_COLUMN_REAL},    {"ratio", LIPSC_COLUMN_REAL},
    {"refused", LIPSC_COLUMN_STRING}};

static void fill_row(lipsc_table *t, const lipsc_zoo_case *zoo, const lipsc_zoo_row *row) {
    const double sigma = row->sigma;
    lipsc_table_row(t);
    lipsc_table_string(t, "name", row->rule->name);
    lipsc_table_string(t, "source", row->rule->source);
    lipsc_table_string(t, "kind", lipsc_bound_kind_name(row->rule->kind));
    lipsc_table_string(t, "norm", lipsc_bound_norm_name(row->norm));
    lipsc_table_string(t, "domain", lipsc_bound_domain_name(row->rule->domain));
    if (row->rule->domain == LIPSC_DOMAIN_BALL) lipsc_table_real(t, "radius", zoo->radius);
    lipsc_table_real(t, "value", row->value);
    lipsc_table_real(t, "log_value", row->log_value);
    lipsc_table_real(t, "sigma", sigma);
    if (row->comparable && sigma > 0.0 && !*row->refused)
        lipsc_table_real(t, "ratio",
                         isnan(row->log_value) ? 0.0 : exp(row->log_value - log(sigma)));
    if (*row->refused) lipsc_table_string(t, "refused", row->refused);
}

static json_t *regime_json(const lipsc_regime *regime) {
    return json_pack("{s:o, s:o, s:o, s:o, s:s, s:o, s:s, s:I}", "a",
                     lipsc_json_real(regime->a), "delta", lipsc_json_real(regime->delta),
                     "crossover", lipsc_json_real(exp(regime->log_crossover)),
                     "log_crossover", lipsc_json_real(regime->log_crossover), "name",
                     regime->name, "spread", lipsc_json_real(regime->spread), "input",
                     regime->input, "head", (json_int_t)regime->head);
}

/* For people: the same in a sentence under the table. */
static void say_regime(const lipsc_regime *regime, size_t n) {
    printf(
        "\nregime %s: head %zu has a = %.6g, Delta = %.6g; growth like sqrt(n) must stop "
        "near n = ",
        regime->name, regime->head, regime->a, regime->delta);
    if (regime->log_crossover < 700.0)
        printf("%.6g", exp(regime->log_crossover));
    else
        printf("e^%.6g", regime->log_crossover);
    printf(" (here n = %zu)\nthis input %s: scores in a row of that head differ by at most "
           "%.6g\n",
           n, regime->input, regime->spread);
}

/* Whether the row of the neighbourhood stands before this one. */
static int before(const bounds_around *around, const lipsc_zoo_row *row) {
    return *row->refused || row->rule->kind != LIPSC_KIND_UPPER || !row->comparable ||
           log(around->found.value) <= row->log_value;
}

static void fill_rows(lipsc_table *t, const lipsc_zoo_case *zoo, const lipsc_zoo_row *rows,
                      const bounds_around *around) {
    int open = around->asked;
    const lipsc_zoo_row *data = rows; /* a row in the norm of sigma */
    while (data->rule->norm != LIPSC_NORM_OF_SIGMA) data++;
    for (size_t r = 0; r < lipsc_zoo_count; r++) {
        if (open && before(around, &rows[r])) {
            bounds_around_row(around, lipsc_bound_norm_name(data->norm), data->sigma, t);
            open = 0;
        }
        fill_row(t, zoo, &rows[r]);
    }
}

static int print(const cli_command *self, const bounds_settings *s,
                 const lipsc_zoo_case *zoo, const lipsc_zoo_row *rows,
                 const bounds_around *around) {
    lipsc_error err;
    lipsc_table *t =
        lipsc_table_new(self->name, (lipsc_format)s->common.format, LIPSC_LAYOUT_WIDE,
                        stdout, sizeof columns / sizeof *columns, columns);
    if (!t) return cli_failure(self, "%s", lipsc_strerror(LIPSC_E_NOMEM));
    fill_rows(t, zoo, rows, around);
    lipsc_regime regime;
    lipsc_status status = lipsc_zoo_regime(zoo, &regime, &err);
    const int has_regime = status == LIPSC_OK;
    if (status && status != LIPSC_E_REFUSED && status != LIPSC_E_RANGE) {
        lipsc_table_free(t);
        return cli_failure(self, "%s", err.text);
    }
    lipsc_table_member(t, "regime", has_regime ? regime_json(&regime) : json_null());
    lipsc_table_member(t, "n", json_integer((json_int_t)zoo->n));
    lipsc_table_member(t, "special", json_boolean(s->source.special));
    lipsc_table_member(t, "radius", lipsc_json_real(zoo->radius));
    lipsc_table_member(t, "p", lipsc_json_real(zoo->p));
    lipsc_table_member(t, "around", bounds_around_json(s, around));
    status = lipsc_table_end(t, &err);
    lipsc_table_free(t);
    if (status) return cli_failure(self, "%s", err.text);
    if (s->common.format != LIPSC_FORMAT_TABLE) return CLI_DONE;
    if (has_regime) say_regime(&regime, zoo->n);
    bounds_around_say(s, around);
    return CLI_DONE;
}

static int bound(const cli_command *self, const bounds_settings *s, const char *what,
                 const bounds_source *source) {
    cli_progress progress;
    lipsc_svd_settings set;
    lipsc_svd_info info;
    lipsc_error err = {.text = ""};
    double sigma = NAN;
    cli_progress_begin(&progress, &s->common);
    cli_interrupt_begin();
    lipsc_svd_defaults(&set);
    if (source->attn->dtype == LIPSC_F32) set.tol = 1e-3; /* six digits of sigma */
    set.stop = cli_interrupted;
    set.progress = cli_progress_solve;
    set.ctx = &progress;
    const lipsc_status solved =
        lipsc_attn_sigma(source->attn, &set, &sigma, NULL, NULL, &info);
    cli_progress_end(&progress);
    if (solved && solved != LIPSC_E_NOCONV)
        return cli_failure(self, "%s: %s", what, lipsc_strerror(solved));

    lipsc_zoo_case zoo;
    bounds_around around = {0};
    lipsc_zoo_row *rows = lipsc_alloc(lipsc_zoo_count, sizeof *rows);
    lipsc_status status = rows ? LIPSC_OK : LIPSC_E_NOMEM;
    memset(&zoo, 0, sizeof zoo);
    if (!status)
        status = lipsc_zoo_case_make(source->attn, source->radius, s->p,
                                     source->has_norm ? &source->norm : NULL, &zoo, &err);
    if (!status) status = bounds_around_find(s, source, &zoo, &around, &err);
    if (!status) status = lipsc_zoo_evaluate_all(&zoo, sigma, rows);
    int code = status ? cli_failure(self, "%s: %s", what,
                                    *err.text ? err.text : lipsc_strerror(status))
                      : print(self, s, &zoo, rows, &around);
    lipsc_zoo_case_free(&zoo);
    lipsc_release(rows);
    if (code == CLI_DONE && solved == LIPSC_E_NOCONV) {
        if (!s->common.quiet)
            cli_failure(self, "%s: sigma not converged: residual %.2e after %ld products",
                        what, info.residual, info.products);
        code = CLI_NOT_CONVERGED;
    }
    return code;
}

static int run(const cli_command *self, int argc, char **argv) {
    bounds_settings s = {
        .scale = NAN, .map = 1, .seed = 1, .p = 4.0, .around = NAN, .below = NAN};
    int operands;
    int code = cli_parse(self, argc, argv, &s, &operands);
    if (code != CLI_RUN) return code;
    if (s.scale == 0.0) /* would mean "default" to the library */
        return cli_wrong_use(self, "invalid value '0' for '--scale': expected a number "
                                   "other than zero");
    code = bounds_around_check(self, &s);
    if (code != CLI_RUN) return code;
    bounds_source source;
    code = bounds_source_open(self, &s, argv[0], &source);
    if (code == CLI_RUN) code = bound(self, &s, argv[0], &source);
    bounds_source_close(&source);
    return code;
}

const cli_command cli_cmd_bounds = {
    .name = "bounds",
    .operands = "MODEL|FILE",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "every bound of the zoo beside the exact value",
    .about =
        "All upper and lower bounds of the largest singular value of one attention\n"
        "layer: at its input, over all inputs in a ball, over all inputs.  Upper bounds\n"
        "come first, tightest first; a bound whose hypotheses do not hold is refused\n"
        "with the reason.  FILE is a layer file as `lipscope layer` reads it.  `ratio`\n"
        "is value / sigma, where sigma is the constant in the norm of the bound.",
    .example = "  $ lipscope bounds layer.safetensors --num-heads 12 --causal\n"
               "  $ lipscope bounds gpt2/ --text alice.txt --layers 3 --length 64\n"
               "  $ lipscope bounds layer.safetensors --around 0.001 --relative\n",
    .option_count = sizeof options / sizeof *options,
    .options = options,
    .run = run,
};
