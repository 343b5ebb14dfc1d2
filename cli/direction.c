/* direction.c - writes and reads direction files. */
#include "direction.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/mem.h"
#include "io/layer_file.h"
#include "io/safetensors.h"
#include "names.h"
#include "numbers.h"

/* ---- Writing ---------------------------------------------------------------------- */

enum { MAX_TENSORS = 16, MAX_NOTES = 8 };

typedef struct {
    lipsc_st_item items[MAX_TENSORS];
    size_t shapes[MAX_TENSORS][2];
    size_t count;
} tensors;

/* columns 0: a vector.  An absent tensor (data NULL) is left out. */
static void add(tensors *t, const char *name, const double *data, size_t rows,
                size_t columns) {
    if (!data) return;
    size_t *shape = t->shapes[t->count];
    shape[0] = rows;
    shape[1] = columns;
    t->items[t->count++] = (lipsc_st_item){.name = name,
                                           .dtype = LIPSC_F64,
                                           .ndim = columns ? 2 : 1,
                                           .shape = shape,
                                           .data = data};
}

lipsc_status cli_direction_write(const char *path, const lipsc_layer *layer,
                                 const lipsc_input *input, lipsc_dtype dtype, double sigma,
                                 const double *u, const double *v, lipsc_error *err) {
    const lipsc_layer *l = layer;
    const size_t n = input->n, width = lipsc_layer_width(l),
                 joined = l->heads * l->value_dim;
    tensors t = {.count = 0};
    add(&t, "X", input->X, n, l->d);
    add(&t, l->K ? "Q" : "A", l->Q, l->heads * l->key_dim, l->d);
    add(&t, "K", l->K, l->kv_heads * l->key_dim, l->d);
    add(&t, "V", l->V, l->kv_heads * l->value_dim, l->d);
    add(&t, "O", l->O, l->out_dim, joined);
    add(&t, l->K ? "bq" : "c", l->bq, l->heads * l->key_dim, 0);
    add(&t, "bk", l->K ? l->bk : NULL, l->kv_heads * l->key_dim, 0);
    add(&t, "bv", l->bv, l->kv_heads * l->value_dim, 0);
    add(&t, "bo", l->O ? l->bo : NULL, l->out_dim, 0);
    add(&t, "weights", input->weights, n, 0);
    add(&t, "times", input->times, n, 0);
    add(&t, "sigma", v ? &sigma : NULL, 1, 0);
    add(&t, "v", v, n, l->d);
    add(&t, "u", u, n, width);

    char heads[24], kv_heads[24], window[24], scale[40];
    snprintf(heads, sizeof heads, "%zu", l->heads);
    snprintf(kv_heads, sizeof kv_heads, "%zu", l->kv_heads);
    snprintf(window, sizeof window, "%zu", l->window);
    snprintf(scale, sizeof scale, "%.17g", l->scale);
    const lipsc_st_note notes[MAX_NOTES] = {
        {"lipscope", lipsc_version()},    {"heads", heads},
        {"kv_heads", kv_heads},           {"scale", scale},
        {"mask", cli_mask_name(l->mask)}, {"window", window},
        {"map", cli_map_name(l)},         {"dtype", cli_dtype_name(dtype)}};
    return lipsc_st_write(path, t.items, t.count, notes, MAX_NOTES, err);
}

const char *cli_direction_beyond(const lipsc_layer *layer) {
    if (layer->rotary_dim) return "rotary positions";
    if (layer->q_gain || layer->k_gain) return "norms of queries and keys";
    return NULL;
}

void cli_direction_how(const char *command, const char *path, const lipsc_layer *layer) {
    const double usual = layer->K ? 1.0 / sqrt((double)layer->key_dim) : 1.0;
    fprintf(stderr, "lipscope %s: read it with: lipscope layer %s --num-heads %zu", command,
            path, layer->heads);
    if (layer->kv_heads != layer->heads)
        fprintf(stderr, " --kv-heads %zu", layer->kv_heads);
    if (layer->mask == LIPSC_MASK_CAUSAL) fputs(" --causal", stderr);
    if (layer->mask == LIPSC_MASK_SLIDING) fprintf(stderr, " --sliding %zu", layer->window);
    if (fabs(layer->scale - usual) > 1e-15 * usual)
        fprintf(stderr, " --scale %.17g", layer->scale);
    fputc('\n', stderr);
}

/* ---- Reading ---------------------------------------------------------------------- */

static lipsc_status bad_note(const lipsc_st *st, const char *key, lipsc_error *err) {
    const char *text = lipsc_st_metadata(st, key);
    if (!text)
        return lipsc_fail(err, LIPSC_E_FORMAT,
                          "%s: metadata '%s' is missing: not a file of --save-direction",
                          lipsc_st_path(st), key);
    return lipsc_fail(err, LIPSC_E_FORMAT, "%s: metadata '%s' holds an invalid value",
                      lipsc_st_path(st), key);
}

/* A note as a whole number; 0 when it is missing or wrong. */
static int note_size(const lipsc_st *st, const char *key, size_t min, size_t *out) {
    const char *text = lipsc_st_metadata(st, key);
    return text && !cli_number_size(text, min, SIZE_MAX, out);
}

static lipsc_status read_options(const lipsc_st *st, lipsc_layer_options *options,
                                 lipsc_error *err) {
    *options = (lipsc_layer_options){.need_input = 1};
    if (!note_size(st, "heads", 1, &options->heads)) return bad_note(st, "heads", err);
    if (!note_size(st, "kv_heads", 1, &options->kv_heads))
        return bad_note(st, "kv_heads", err);
    if (!note_size(st, "window", 0, &options->window)) return bad_note(st, "window", err);
    const char *scale = lipsc_st_metadata(st, "scale");
    if (!scale || cli_number_real(scale, -HUGE_VAL, HUGE_VAL, &options->scale) ||
        options->scale == 0.0)
        return bad_note(st, "scale", err);
    const char *mask = lipsc_st_metadata(st, "mask");
    for (int m = LIPSC_MASK_NONE; mask && m <= LIPSC_MASK_TIMES; m++)
        if (!strcmp(mask, cli_mask_name((lipsc_mask)m))) {
            options->mask = (lipsc_mask)m;
            return LIPSC_OK;
        }
    return bad_note(st, "mask", err);
}

/* A tensor of rows * columns finite numbers into *out, which the caller frees. */
static lipsc_status read_tensor(const lipsc_st *st, const char *name, size_t rows,
                                size_t columns, double **out, lipsc_error *err) {
    const lipsc_st_tensor *tensor = lipsc_st_find(st, name);
    if (!tensor)
        return lipsc_fail(err, LIPSC_E_FORMAT,
                          "%s: tensor '%s' is missing: not a file of --save-direction",
                          lipsc_st_path(st), name);
    const int fits = columns ? tensor->ndim == 2 && tensor->shape[0] == rows &&
                                   tensor->shape[1] == columns
                             : tensor->ndim == 1 && tensor->shape[0] == rows;
    if (!fits)
        return lipsc_fail(err, LIPSC_E_FORMAT, "%s: tensor '%s' does not fit the layer",
                          lipsc_st_path(st), name);
    *out = lipsc_alloc(tensor->count, sizeof **out);
    if (!*out) return lipsc_fail(err, LIPSC_E_NOMEM, "no memory for tensor '%s'", name);
    lipsc_status status = lipsc_st_read_f64(st, tensor, 0, tensor->count, *out, err);
    for (size_t i = 0; !status && i < tensor->count; i++)
        if (!isfinite((*out)[i]))
            status = lipsc_fail(err, LIPSC_E_NONFIN,
                                "%s: tensor '%s' holds a NaN or an infinity",
                                lipsc_st_path(st), name);
    return status;
}

lipsc_status cli_direction_read(const char *path, cli_direction *out, lipsc_error *err) {
    lipsc_st *st;
    lipsc_layer_options options;
    double *sigma = NULL;
    *out = (cli_direction){0};
    lipsc_status status = lipsc_st_open(path, &st, err);
    if (status) return status;
    status = read_options(st, &options, err);
    if (!status) status = lipsc_layer_from_st(st, &options, &out->file, err);
    if (!status) status = read_tensor(st, "sigma", 1, 0, &sigma, err);
    if (!status)
        status = read_tensor(st, "v", out->file.input.n, out->file.layer.d, &out->v, err);
    if (!status)
        out->sigma = sigma[0];
    else
        cli_direction_free(out);
    lipsc_release(sigma);
    lipsc_st_free(st);
    return status;
}

void cli_direction_free(cli_direction *direction) {
    lipsc_layer_file_free(&direction->file);
    lipsc_release(direction->v);
    direction->v = NULL;
}
