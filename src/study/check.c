/* check.c - a stored value confirmed without the solver.
 *
 *     sigma = |J v| / |v|       residual = |J^T J v - sigma^2 v| / (sigma^2 |v|)
 *
 * by the definition in plain double loops: two products, no iteration. */
#include "lipscope/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn/attn.h"
#include "core/error.h"
#include "core/mem.h"
#include "core/vector.h"
#include "io/layer_file.h"
#include "io/show.h"
#include "model/ref_map.h"
#include "token/token.h"

typedef lipsc_check_row record;
static const lipsc_field fields[] = {LIPSC_CHECK_LIST(LIPSC_FIELD_ENTRY)};

lipsc_fields lipsc_check_fields(void) {
    return (lipsc_fields){sizeof fields / sizeof *fields, fields};
}

void lipsc_check_defaults(lipsc_check_settings *set) {
    *set = (lipsc_check_settings){.seed = 1};
}

/* Two evaluations in double of the same norm differ by rounding alone, which grows
 * slowly with the size of the layer; 1e-9 leaves room for the largest. */
static const double agreement = 1e-9;

/* The same for activations, which a search in f32 takes from a forward pass in f32: that is
 * off by some 1e-6, and those of another text by about 1. */
static double input_limit(const lipsc_layer_record *stored) {
    return stored->dtype && !strcmp(stored->dtype, "f32") ? 1e-3 : agreement;
}

/* ---- The model ---- */

/* The given model, NULL without one; another than that of the file is refused. */
static lipsc_status open_model(const lipsc_check_settings *set,
                               const lipsc_layer_record *stored, lipsc_checked *out,
                               lipsc_model **model, lipsc_error *err) {
    *model = NULL;
    if (!set->model && stored->map <= LIPSC_FILE_ATTENTION) return LIPSC_OK;
    if (!stored->model_hash)
        return lipsc_fail(err, LIPSC_E_REFUSED,
                          "it does not say of which model its map is");
    lipsc_show_name(stored->model ? stored->model : "the model", out->model);
    if (!set->model) {
        out->needs = LIPSC_CHECK_NEEDS_MODEL;
        return lipsc_fail(err, LIPSC_E_REFUSED,
                          "the map %s is that of a model, which holds its weights",
                          lipsc_layer_maps[stored->map]);
    }
    const lipsc_status status =
        lipsc_model_open_part(set->model, set->part, set->seed, model, err);
    if (status) return status;
    const char *hash = lipsc_model_describe(*model)->hash;
    if (!strcmp(stored->model_hash, hash)) return LIPSC_OK;
    return lipsc_fail(err, LIPSC_E_FORMAT,
                      "%s: is of another model: %s has the hash %.16s..., the file says "
                      "%.16s... (%s)",
                      set->file, set->model, hash, stored->model_hash, out->model);
}

/* A number below `end`, in digits alone. */
static int read_place(const char *text, size_t end, size_t *place) {
    const size_t digits = strspn(text, "0123456789");
    if (!digits || text[digits] || digits > 9) return 0;
    *place = (size_t)strtoul(text, NULL, 10);
    return *place < end;
}

/* The layer that the file names. */
static lipsc_status find_layer(const lipsc_layer_record *stored, size_t layers,
                               size_t *layer, lipsc_error *err) {
    *layer = 0;
    if (stored->map == LIPSC_FILE_MODEL) return LIPSC_OK;
    if (stored->place && read_place(stored->place, layers, layer)) return LIPSC_OK;
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
                                  lipsc_check_row *out, lipsc_error *err) {
    lipsc_acts *acts = NULL;
    size_t layer;
    if (!model || (!stored->ids && !stored->pixels)) return LIPSC_OK;
    lipsc_status status =
        find_layer(stored, lipsc_model_describe(model)->layers, &layer, err);
    if (!status) status = run_window(model, stored, layer + 1, &acts, err);
    if (!status) status = lipsc_acts_ask(acts, layer, err);
    if (status) {
        lipsc_acts_free(acts);
        return status;
    }
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
    if (!status) out->input_error = sqrt(difference) / lipsc_length(count, X);
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
        .map = (lipsc_map_kind)stored->map, .head = -1, .dtype = LIPSC_F64};
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
                            lipsc_check_row *out, lipsc_error *err) {
    const lipsc_layer *layer = &stored->layer;
    const size_t n = stored->input.n, inputs = n * layer->d;
    const size_t outputs = n * (layer->Q ? lipsc_layer_width(layer) : layer->d);
    double *image = lipsc_alloc(outputs, sizeof *image);
    double *back = lipsc_alloc(inputs, sizeof *back);
    lipsc_status status = image && back ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) status = products(model, stored, twice, image, back, err);
    if (!status) {
        const double length = lipsc_length(inputs, stored->v);
        out->sigma = lipsc_length(outputs, image) / length;
        const double square = out->sigma * out->sigma;
        for (size_t i = 0; i < inputs; i++) back[i] -= square * stored->v[i];
        out->residual = lipsc_length(inputs, back) / (square * length);
    }
    lipsc_release(image);
    lipsc_release(back);
    return status;
}

/* false for a NaN, which a zero direction gives */
static int agrees(const lipsc_check_row *row) {
    return fabs(row->stored - row->sigma) <= agreement * row->sigma;
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

static lipsc_status certify(lipsc_model *model, const lipsc_layer_record *stored,
                            const lipsc_certify_settings *how, lipsc_checked *out,
                            lipsc_error *err) {
    lipsc_certify_settings set = *how, defaults;
    lipsc_certificate found = {.lower = NAN, .upper = NAN};
    lipsc_certify_defaults(&defaults);
    set.lower = defaults.lower; /* the direction's own */
    set.upper = defaults.upper;
    const lipsc_status status = stored->map <= LIPSC_FILE_ATTENTION
                                    ? certify_layer(stored, &set, &found, &out->why)
                                    : certify_map(model, stored, &set, &found, &out->why);
    if (status && status != LIPSC_E_NOCONV && status != LIPSC_E_REFUSED) {
        if (err) *err = out->why;
        return status;
    }
    out->certificate = status;
    out->row.lower = found.lower;
    out->row.upper = found.upper;
    out->row.certified = found.certified;
    out->row.certificate = found.rung;
    out->row.certify_products = found.products;
    return LIPSC_OK;
}

/* ---- Together ---- */

static void describe(const lipsc_layer_record *stored, lipsc_check_row *row) {
    row->n = stored->input.n;
    row->map = lipsc_layer_maps[stored->map];
    row->mask =
        stored->layer.Q ? lipsc_mask_name(stored->layer.mask) : stored->mask_override;
    row->stored = *stored->sigma;
}

static lipsc_status find(lipsc_model *model, const lipsc_layer_record *stored,
                         const lipsc_check_settings *set, lipsc_checked *out,
                         lipsc_error *err) {
    lipsc_check_row *row = &out->row;
    describe(stored, row);
    lipsc_status status = compare_input(model, stored, row, err);
    if (!status) status = confirm(model, stored, 0, row, err);
    if (!status && !agrees(row) && stored->map <= LIPSC_FILE_ATTENTION)
        status = confirm(model, stored, 1, row, err); /* it may cancel */
    if (!status && set->certify) status = certify(model, stored, set->certify, out, err);
    row->agree = agrees(row);
    return status;
}

/* "FILE: REASON", or "FILE: cannot be checked: REASON". */
static lipsc_status blame(const char *file, lipsc_status status, const lipsc_error *why,
                          lipsc_error *err) {
    const char *reason = *why->text ? why->text : lipsc_strerror(status);
    return lipsc_fail(err, status, "%s: %s%s", file,
                      status == LIPSC_E_REFUSED ? "cannot be checked: " : "", reason);
}

static lipsc_status read_file(const char *path, lipsc_checked *out, lipsc_error *err) {
    lipsc_st *st;
    lipsc_status status = lipsc_st_open(path, &st, err);
    if (status) return status;
    lipsc_layer_file *file = lipsc_alloc_zero(1, sizeof *file);
    if (!lipsc_st_find(st, "v")) {
        const lipsc_error why = {.text = "it holds no direction (tensors sigma and v)"};
        out->needs = LIPSC_CHECK_NEEDS_DIRECTION;
        status = blame(path, LIPSC_E_REFUSED, &why, err);
    } else {
        status = file ? lipsc_layer_whole_from_st(st, file, err)
                      : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory");
    }
    lipsc_st_free(st);
    if (status)
        lipsc_release(file);
    else
        out->storage = file;
    return status;
}

lipsc_status lipsc_check(const lipsc_check_settings *set, lipsc_checked *out,
                         lipsc_error *err) {
    lipsc_error why = {.text = ""};
    lipsc_model *model;
    memset(out, 0, sizeof *out);
    lipsc_fields_clear(lipsc_check_fields(), &out->row);
    out->row.file = set->file;
    lipsc_status status = read_file(set->file, out, err);
    if (status) return status;
    const lipsc_layer_record *stored = lipsc_layer_file_record(out->storage);
    status = open_model(set, stored, out, &model, &why);
    if (status == LIPSC_E_REFUSED)
        blame(set->file, status, &why, err);
    else if (status)
        lipsc_fail(err, status, "%s", why.text);
    if (!status) {
        status = find(model, stored, set, out, &why);
        if (status) blame(set->file, status, &why, err);
    }
    lipsc_model_free(model);
    return status;
}

void lipsc_checked_free(lipsc_checked *checked) {
    if (checked->storage) lipsc_layer_file_free(checked->storage);
    lipsc_release(checked->storage);
    checked->storage = NULL;
}
