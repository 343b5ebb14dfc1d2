/* cmd_check.c - lipscope check: confirms a stored value without the solver.
 *
 *     sigma = |J v| / |v|       residual = |J^T J v - sigma^2 v| / (sigma^2 |v|)
 *
 * by the definition in plain double loops: two products, no iteration. */
#include <math.h>

#include "args.h"
#include "certify.h"
#include "core/mem.h"
#include "direction.h"
#include "interrupt.h"
#include "names.h"

typedef struct {
    cli_common common;
    cli_certify certify;
} settings;

static const cli_option options[] = {{.kind = CLI_GROUP, .name = "What is told"},
                                     CLI_CERTIFY_OPTIONS(settings),
                                     CLI_OUTPUT_OPTIONS(settings)};

/* Two evaluations in double of the same norm differ by rounding alone, which grows
 * slowly with the size of the layer; 1e-9 leaves room for the largest. */
static const double agreement = 1e-9;

typedef struct {
    double sigma, residual;
    cli_certified certified;
} confirmed;

static double norm(size_t count, const double *x) {
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

static lipsc_status confirm(const cli_direction *stored, confirmed *out, lipsc_error *err) {
    const lipsc_layer *layer = &stored->file.layer;
    const lipsc_input *input = &stored->file.input;
    const size_t inputs = input->n * layer->d;
    const size_t outputs = input->n * lipsc_layer_width(layer);
    double *image = lipsc_alloc(outputs, sizeof *image);
    double *back = lipsc_alloc(inputs, sizeof *back);
    lipsc_status status = image && back ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) status = lipsc_ref_apply(layer, input, 0, 1, stored->v, image, err);
    if (!status) status = lipsc_ref_apply(layer, input, 1, 1, image, back, err);
    if (!status) {
        const double length = norm(inputs, stored->v);
        out->sigma = norm(outputs, image) / length;
        const double square = out->sigma * out->sigma;
        for (size_t i = 0; i < inputs; i++) back[i] -= square * stored->v[i];
        out->residual = norm(inputs, back) / (square * length);
    }
    lipsc_release(image);
    lipsc_release(back);
    return status;
}

/* An upper bound beside it; this takes products with every unit vector. */
static lipsc_status certify(const cli_command *self, const settings *s, const char *path,
                            const cli_direction *stored, cli_certified *out,
                            lipsc_error *err) {
    lipsc_attn *attn;
    cli_certifier c;
    lipsc_status status =
        lipsc_attn_new(&stored->file.layer, &stored->file.input, LIPSC_F64, 0, &attn, err);
    if (status) return status;
    cli_interrupt_begin();
    cli_certify_begin(&c, self, &s->certify, &s->common, path, 0.0, NAN, 1);
    status = lipsc_attn_certify(attn, stored->v, &c.set, &out->found, err);
    status = cli_certify_end(&c, status, err, out);
    lipsc_attn_free(attn);
    return status;
}

static int print(const cli_command *self, const settings *s, const char *path,
                 const cli_direction *stored, const confirmed *found, int agree) {
    lipsc_column columns[10 + CLI_CERTIFY_COLUMNS] = {
        {"file", LIPSC_COLUMN_STRING},   {"n", LIPSC_COLUMN_INTEGER},
        {"map", LIPSC_COLUMN_STRING},    {"mask", LIPSC_COLUMN_STRING},
        {"stored", LIPSC_COLUMN_REAL},   {"sigma", LIPSC_COLUMN_REAL},
        {"residual", LIPSC_COLUMN_REAL}, {"agree", LIPSC_COLUMN_BOOL},
        {"lower", LIPSC_COLUMN_REAL},    {"upper", LIPSC_COLUMN_REAL}};
    const int certified = s->certify.eps > 0.0;
    size_t count = 8;
    if (certified) count = 10 + cli_certify_columns(columns + 10);
    lipsc_error err;
    lipsc_table *t = lipsc_table_new(self->name, (lipsc_format)s->common.format,
                                     LIPSC_LAYOUT_UPRIGHT, stdout, count, columns);
    if (!t) return cli_failure(self, "%s", lipsc_strerror(LIPSC_E_NOMEM));
    lipsc_table_row(t);
    lipsc_table_string(t, "file", path);
    lipsc_table_integer(t, "n", (long long)stored->file.input.n);
    lipsc_table_string(t, "map", cli_map_name(&stored->file.layer));
    lipsc_table_string(t, "mask", cli_mask_name(stored->file.layer.mask));
    lipsc_table_real(t, "stored", stored->sigma);
    lipsc_table_real(t, "sigma", found->sigma);
    lipsc_table_real(t, "residual", found->residual);
    lipsc_table_bool(t, "agree", agree);
    if (certified) {
        lipsc_table_real(t, "lower", found->certified.found.lower);
        lipsc_table_real(t, "upper", found->certified.found.upper);
        cli_certify_fill(t, &found->certified);
    }
    const lipsc_status status = lipsc_table_end(t, &err);
    lipsc_table_free(t);
    if (status) return cli_failure(self, "%s", err.text);
    if (agree)
        return certified && !found->certified.found.certified ? CLI_NOT_CONVERGED
                                                              : CLI_DONE;
    return cli_failure(self, "%s: the stored sigma %.17g is not confirmed: %.17g", path,
                       stored->sigma, found->sigma);
}

static int run(const cli_command *self, int argc, char **argv) {
    settings s = {.certify = CLI_CERTIFY_DEFAULTS};
    int operands;
    int code = cli_parse(self, argc, argv, &s, &operands);
    if (code != CLI_RUN) return code;
    cli_direction stored;
    confirmed found;
    lipsc_error err = {.text = ""};
    if (cli_direction_read(argv[0], &stored, &err))
        return cli_failure(self, "%s", err.text);
    lipsc_status status = confirm(&stored, &found, &err);
    if (!status && s.certify.eps > 0.0)
        status = certify(self, &s, argv[0], &stored, &found.certified, &err);
    if (status) {
        code = cli_failure(self, "%s: %s", argv[0],
                           *err.text ? err.text : lipsc_strerror(status));
    } else {
        /* false for a NaN, which a zero direction gives */
        const int agree = fabs(stored.sigma - found.sigma) <= agreement * found.sigma;
        code = print(self, &s, argv[0], &stored, &found, agree);
    }
    cli_direction_free(&stored);
    return code;
}

const cli_command cli_cmd_check = {
    .name = "check",
    .operands = "FILE",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "confirm a stored value independently of the solver",
    .about =
        "Re-computes sigma and its residual from the direction stored in FILE, which\n"
        "`lipscope layer --save-direction FILE` has written, by the definition of\n"
        "attention in plain double loops.  Exit 1 when the values differ by more than\n"
        "1e-9 of sigma.",
    .example = "  $ lipscope layer layer.safetensors --save-direction top.safetensors\n"
               "  $ lipscope check top.safetensors\n",
    .option_count = sizeof options / sizeof *options,
    .options = options,
    .run = run,
};
