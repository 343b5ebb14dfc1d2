/* cmd_check.c - lipscope check: confirms a stored value without the solver.
 *
 *     sigma = |J v| / |v|       residual = |J^T J v - sigma^2 v| / (sigma^2 |v|)
 *
 * by the definition in plain double loops: two products, no iteration.  Heads and attention
 * from the file alone; of the maps behind them the file holds where and which way, and the
 * model, told by its hash, the rest. */
#include <math.h>
#include <string.h>

#include "args.h"
#include "attn/attn.h"
#include "certify.h"
#include "core/error.h"
#include "core/mem.h"
#include "interrupt.h"
#include "io/layer_file.h"
#include "io/show.h"
#include "model/ref_map.h"
#include "names.h"
#include "source.h"
#include "token/token.h"

typedef struct {
    cli_common common;
    cli_certify certify;
    const char *model;
    int part;
    uint64_t seed;
} settings;

static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "The model"},
    {.kind = CLI_TEXT,
     .name = "model",
     .value = "MODEL",
     .offset = offsetof(settings, model),
     .help = "the model that the file names, for maps behind attention"},
    CLI_PART_OPTION(settings),
    {.kind = CLI_SEED,
     .name = "seed",
     .value = "N",
     .offset = offsetof(settings, seed),
     .help = "seed of random models (default 1)"},
    {.kind = CLI_GROUP, .name = "What is told"},
    CLI_CERTIFY_OPTIONS(settings),
    CLI_OUTPUT_OPTIONS(settings)};

/* Two evaluations in double of the same norm differ by rounding alone, which grows
 * slowly with the size of the layer; 1e-9 leaves room for the largest. */
static const double agreement = 1e-9;

/* The same for activations, which a search in f32 takes from a forward pass in f32: that is
 * off by some 1e-6, and those of another text by about 1. */
static double input_limit(const lipsc_layer_record *stored) {
    return stored->dtype && !strcmp(stored->dtype, "f32") ? 1e-3 : agreement;
}

typedef struct {
    double sigma, residual;
    double input_error; /* |X - X of the model| / |X|; NaN: not compared */
    cli_certified certified;
} confirmed;

static double norm(size_t count, const double *x) {
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

/* ---- The model ---- */

/* "FILE cannot be checked: REASON", and the exit status of its own. */
static int unchecked(const cli_command *self, const char *path, const char *reason) {
    cli_failure(self, "%s: cannot be checked: %s", path, reason);
    return CLI_UNCHECKED;
}

/* The model of --model, NULL without it; another one than that of the file is refused. */
static int open_model(const cli_command *self, const settings *s, const char *path,
                      const lipsc_layer_record *stored, lipsc_model **model) {
    lipsc_error err;
    char reason[300], name[LIPSC_SHOWN_NAME];
    *model = NULL;
    if (!s->model && stored->map <= LIPSC_FILE_ATTENTION) return CLI_RUN;
    if (!stored->model_hash)
        return unchecked(self, path, "it does not say of which model its map is");
    lipsc_show_name(stored->model ? stored->model : "the model", name);
    if (!s->model) {
        snprintf(
            reason, sizeof reason,
            "the map %s is that of a model, which holds its weights; give it: --model %s",
            lipsc_layer_maps[stored->map], name);
        return unchecked(self, path, reason);
    }
    if (lipsc_model_open_part(s->model, (lipsc_part)s->part, s->seed, model, &err))
        return cli_failure(self, "%s", err.text);
    if (!strcmp(stored->model_hash, lipsc_model_describe(*model)->hash)) return CLI_RUN;
    return cli_failure(self,
                       "%s: is of another model: %s has the hash %.16s..., the file says "
                       "%.16s... (%s)",
                       path, s->model, lipsc_model_describe(*model)->hash,
                       stored->model_hash, name);
}

/* The layer that the file names. */
static lipsc_status find_layer(const lipsc_layer_record *stored, size_t layers,
                               size_t *layer, lipsc_error *err) {
    *layer = 0;
    if (stored->map == LIPSC_FILE_MODEL) return LIPSC_OK;
    if (stored->place && !cli_number_size(stored->place, 0, layers - 1, layer))
        return LIPSC_OK;
    return lipsc_fail(err, LIPSC_E_FORMAT, "metadata 'layer' names no layer of the model");
}

static lipsc_status find_mask(const lipsc_layer_record *stored, lipsc_mask *mask,
                              lipsc_error *err) {
    for (int i = LIPSC_MASK_NONE; i <= LIPSC_MASK_CAUSAL; i++)
        if (!strcmp(stored->mask_override, lipsc_layer_masks[i])) {
            *mask = (lipsc_mask)i;
            return LIPSC_OK;
        }
    return lipsc_fail(err, LIPSC_E_FORMAT,
                      "metadata 'mask_override' is neither none nor causal");
}

/* The activations of the stored ids or image, up to the input of block `through` - 1. */
static lipsc_status run_window(lipsc_model *model, const lipsc_layer_record *stored,
                               size_t through, lipsc_acts **acts, lipsc_error *err) {
    const size_t n = stored->input.n;
    if (stored->pixels)
        return lipsc_acts_new_pixels(model, LIPSC_F64, NULL, stored->pixel_shape,
                                     stored->pixels, through, acts, err);
    char hash[65];
    uint32_t *ids = lipsc_alloc(n, sizeof *ids);
    if (!ids) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for ids");
    for (size_t i = 0; i < n; i++) ids[i] = (uint32_t)stored->ids[i];
    lipsc_ids_hash(n, ids, hash);
    const int same = stored->ids_hash && !strcmp(hash, stored->ids_hash);
    const lipsc_status status =
        same ? lipsc_acts_new(model, LIPSC_F64, NULL, n, ids, through, acts, err)
             : lipsc_fail(err, LIPSC_E_FORMAT,
                          "its ids are not those of metadata 'ids_hash'");
    lipsc_release(ids);
    return status;
}

/* X is what the model gives at the stored ids.  Without ids (an attack) nothing is said. */
static lipsc_status compare_input(lipsc_model *model, const lipsc_layer_record *stored,
                                  confirmed *out, lipsc_error *err) {
    lipsc_acts *acts = NULL;
    size_t layer;
    if (!model || (!stored->ids && !stored->pixels)) return LIPSC_OK;
    lipsc_status status =
        find_layer(stored, lipsc_model_describe(model)->layers, &layer, err);
    if (!status) status = run_window(model, stored, layer + 1, &acts, err);
    if (status) return status;
    const double *X = stored->input.X;
    const double *given = stored->map <= LIPSC_FILE_ATTENTION
                              ? lipsc_acts_attention_input(acts, layer)
                              : lipsc_acts_block_input(acts, layer);
    const size_t count = stored->input.n * stored->layer.d;
    double difference = 0.0;
    if (lipsc_acts_length(acts) != stored->input.n ||
        lipsc_model_describe(model)->d != stored->layer.d)
        status = lipsc_fail(err, LIPSC_E_FORMAT, "X has not the size of the model's");
    for (size_t i = 0; !status && i < count; i++)
        difference += (X[i] - given[i]) * (X[i] - given[i]);
    if (!status) out->input_error = sqrt(difference) / norm(count, X);
    if (!status && !(out->input_error <= input_limit(stored)))
        status = lipsc_fail(err, LIPSC_E_FORMAT,
                            "X is not what the model gives at the stored tokens: off by "
                            "%.3g of it",
                            out->input_error);
    lipsc_acts_free(acts);
    return status;
}

/* ---- The value ---- */

/* The map that the file names; how->mask_override points to *mask. */
static lipsc_status map_of(lipsc_model *model, const lipsc_layer_record *stored,
                           lipsc_mask *mask, lipsc_map_options *how, lipsc_error *err) {
    *how = (lipsc_map_options){
        .map = (lipsc_map_kind)stored->map, .head = -1, .dtype = LIPSC_F64, .threads = 1};
    const lipsc_status status =
        find_layer(stored, lipsc_model_describe(model)->layers, &how->layer, err);
    if (status) return status;
    if (lipsc_model_describe(model)->d != stored->layer.d)
        return lipsc_fail(err, LIPSC_E_FORMAT, "X has not the width of the model");
    if (!stored->mask_override) return LIPSC_OK;
    how->mask_override = mask;
    return find_mask(stored, mask, err);
}

/* image = J v, back = J^T J v; twice: of a layer, with projections in twice the precision
 */
static lipsc_status products(lipsc_model *model, const lipsc_layer_record *stored,
                             int twice, double *image, double *back, lipsc_error *err) {
    const lipsc_layer *layer = &stored->layer;
    const lipsc_input *input = &stored->input;
    if (stored->map <= LIPSC_FILE_ATTENTION) {
        lipsc_status (*const apply)(const lipsc_layer *, const lipsc_input *, int, size_t,
                                    const double *, double *, lipsc_error *) =
            twice ? lipsc_ref_apply_twice : lipsc_ref_apply;
        const lipsc_status status = apply(layer, input, 0, 1, stored->v, image, err);
        return status ? status : apply(layer, input, 1, 1, image, back, err);
    }
    lipsc_map_options how;
    lipsc_mask mask;
    lipsc_status status = map_of(model, stored, &mask, &how, err);
    if (!status)
        status = lipsc_model_ref_gram(model, &how, input->n, input->X, stored->v, image,
                                      back, err);
    return status;
}

static lipsc_status confirm(lipsc_model *model, const lipsc_layer_record *stored, int twice,
                            confirmed *out, lipsc_error *err) {
    const lipsc_layer *layer = &stored->layer;
    const size_t n = stored->input.n, inputs = n * layer->d;
    const size_t outputs = n * (layer->Q ? lipsc_layer_width(layer) : layer->d);
    double *image = lipsc_alloc(outputs, sizeof *image);
    double *back = lipsc_alloc(inputs, sizeof *back);
    lipsc_status status = image && back ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) status = products(model, stored, twice, image, back, err);
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

/* false for a NaN, which a zero direction gives */
static int agrees(const lipsc_layer_record *stored, const confirmed *found) {
    return fabs(*stored->sigma - found->sigma) <= agreement * found->sigma;
}

/* ---- An upper bound beside it; this takes products with every unit vector ---- */

static lipsc_status certify_layer(const lipsc_layer_record *stored,
                                  const lipsc_certify_settings *set, lipsc_certificate *out,
                                  lipsc_error *err) {
    lipsc_attn *attn;
    lipsc_status status =
        lipsc_attn_new(&stored->layer, &stored->input, LIPSC_F64, NULL, &attn, err);
    if (status) return status;
    status = lipsc_attn_certify(attn, stored->v, set, out, err);
    lipsc_attn_free(attn);
    return status;
}

static lipsc_status certify_map(lipsc_model *model, const lipsc_layer_record *stored,
                                const lipsc_certify_settings *set, lipsc_certificate *out,
                                lipsc_error *err) {
    lipsc_map_options how;
    lipsc_mask mask;
    lipsc_map *map;
    lipsc_status status = map_of(model, stored, &mask, &how, err);
    if (!status)
        status = lipsc_map_new_at(model, stored->input.n, stored->input.X, &how, &map, err);
    if (status) return status;
    status = lipsc_map_certify(map, stored->v, set, out, err);
    lipsc_map_free(map);
    return status;
}

static lipsc_status certify(const cli_command *self, const settings *s, const char *path,
                            lipsc_model *model, const lipsc_layer_record *stored,
                            cli_certified *out, lipsc_error *err) {
    cli_certifier c;
    cli_interrupt_begin();
    cli_certify_begin(&c, self, &s->certify, &s->common, path, 0.0, NAN, 1);
    const lipsc_status status = stored->map <= LIPSC_FILE_ATTENTION
                                    ? certify_layer(stored, &c.set, &out->found, err)
                                    : certify_map(model, stored, &c.set, &out->found, err);
    return cli_certify_end(&c, status, err, out);
}

static int print(const cli_command *self, const settings *s, const char *path,
                 const lipsc_layer_record *stored, const confirmed *found, int agree) {
    lipsc_column columns[11 + CLI_CERTIFY_COLUMNS] = {
        {"file", LIPSC_COLUMN_STRING},   {"n", LIPSC_COLUMN_INTEGER},
        {"map", LIPSC_COLUMN_STRING},    {"mask", LIPSC_COLUMN_STRING},
        {"stored", LIPSC_COLUMN_REAL},   {"sigma", LIPSC_COLUMN_REAL},
        {"residual", LIPSC_COLUMN_REAL}, {"agree", LIPSC_COLUMN_BOOL}};
    const int certified = s->certify.eps > 0.0;
    size_t count = 8;
    if (s->model) columns[count++] = (lipsc_column){"input_error", LIPSC_COLUMN_REAL};
    if (certified) {
        columns[count++] = (lipsc_column){"lower", LIPSC_COLUMN_REAL};
        columns[count++] = (lipsc_column){"upper", LIPSC_COLUMN_REAL};
        count += cli_certify_columns(columns + count);
    }
    lipsc_error err;
    lipsc_table *t = lipsc_table_new(self->name, (lipsc_format)s->common.format,
                                     LIPSC_LAYOUT_UPRIGHT, stdout, count, columns);
    if (!t) return cli_failure(self, "%s", lipsc_strerror(LIPSC_E_NOMEM));
    lipsc_table_row(t);
    lipsc_table_string(t, "file", path);
    lipsc_table_integer(t, "n", (long long)stored->input.n);
    lipsc_table_string(t, "map", lipsc_layer_maps[stored->map]);
    if (stored->layer.Q)
        lipsc_table_string(t, "mask", lipsc_mask_name(stored->layer.mask));
    else if (stored->mask_override)
        lipsc_table_string(t, "mask", stored->mask_override);
    lipsc_table_real(t, "stored", *stored->sigma);
    lipsc_table_real(t, "sigma", found->sigma);
    lipsc_table_real(t, "residual", found->residual);
    lipsc_table_bool(t, "agree", agree);
    if (s->model) lipsc_table_real(t, "input_error", found->input_error);
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
                       *stored->sigma, found->sigma);
}

static int check(const cli_command *self, const settings *s, const char *path,
                 const lipsc_layer_record *stored) {
    confirmed found = {.input_error = NAN};
    lipsc_error err = {.text = ""};
    lipsc_model *model;
    int code = open_model(self, s, path, stored, &model);
    if (code == CLI_RUN) {
        lipsc_status status = compare_input(model, stored, &found, &err);
        if (!status) status = confirm(model, stored, 0, &found, &err);
        if (!status && !agrees(stored, &found) && stored->map <= LIPSC_FILE_ATTENTION)
            status = confirm(model, stored, 1, &found, &err); /* it may cancel */
        if (!status && s->certify.eps > 0.0)
            status = certify(self, s, path, model, stored, &found.certified, &err);
        code = status == LIPSC_E_REFUSED ? unchecked(self, path, err.text)
               : status                  ? cli_failure(self, "%s: %s", path,
                                      *err.text ? err.text : lipsc_strerror(status))
                        : print(self, s, path, stored, &found, agrees(stored, &found));
    }
    lipsc_model_free(model);
    return code;
}

static int run(const cli_command *self, int argc, char **argv) {
    settings s = {.certify = CLI_CERTIFY_DEFAULTS, .seed = 1};
    int operands;
    int code = cli_parse(self, argc, argv, &s, &operands);
    if (code != CLI_RUN) return code;
    lipsc_st *st;
    lipsc_layer_file file;
    lipsc_error err;
    if (lipsc_st_open(argv[0], &st, &err)) return cli_failure(self, "%s", err.text);
    if (!lipsc_st_find(st, "v")) {
        lipsc_st_free(st);
        return unchecked(self, argv[0],
                         "it holds no direction (tensors sigma and v); `lipscope layer "
                         "FILE --save-direction OUT` makes one");
    }
    const lipsc_status status = lipsc_layer_whole_from_st(st, &file, &err);
    lipsc_st_free(st);
    if (status) return cli_failure(self, "%s", err.text);
    code = check(self, &s, argv[0], lipsc_layer_file_record(&file));
    lipsc_layer_file_free(&file);
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
        "--save-direction of `layer` and `measure`, or `attack`, has written, by the\n"
        "definition in plain double loops.  Directions of the maps heads and attention\n"
        "need nothing else; those of norm-attention, residual, block and model need the\n"
        "model (--model), told by its hash, and then the stored tokens are run through\n"
        "it to see that X comes from them.  Exit 1 when the values differ by more than\n"
        "1e-9 of sigma, 5 when the file cannot be checked.",
    .example = "  $ lipscope layer layer.safetensors --save-direction top.safetensors\n"
               "  $ lipscope check top.safetensors\n"
               "  $ lipscope check block.safetensors --model gpt2/\n",
    .option_count = sizeof options / sizeof *options,
    .options = options,
    .run = run,
};
