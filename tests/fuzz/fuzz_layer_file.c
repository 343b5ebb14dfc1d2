/* fuzz_layer_file.c - any bytes as a layer file, under several options: what is accepted
 * must have every value in place, and finite. */
#include "io/layer_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_values(const double *values, size_t rows, size_t columns) {
    if (!values) return;
    for (size_t i = 0; i < rows * columns; i++)
        if (!isfinite(values[i])) abort();
}

static void check_layer(const lipsc_layer_file *f, const lipsc_layer_options *options) {
    const lipsc_layer *l = &f->layer;
    const lipsc_input *in = &f->input;
    if (!l->Q || !l->V || !l->d || !l->heads || !l->kv_heads || !l->key_dim ||
        !l->value_dim || l->heads % l->kv_heads)
        abort();
    if (options->need_input && (!in->X || !in->n)) abort();
    if (in->X && (l->mask == LIPSC_MASK_TIMES) != (in->times != NULL)) abort();
    if (l->mask == LIPSC_MASK_SLIDING && !l->window) abort();
    if (!isfinite(l->scale) || !(l->norm_eps >= 0) || l->rotary_dim > l->key_dim) abort();
    check_values(l->Q, l->heads * l->key_dim, l->d);
    check_values(l->K, l->kv_heads * l->key_dim, l->d);
    check_values(l->V, l->kv_heads * l->value_dim, l->d);
    check_values(l->O, l->out_dim, l->heads * l->value_dim);
    check_values(l->bq, l->heads, l->key_dim);
    check_values(l->bk, l->kv_heads, l->key_dim);
    check_values(l->bv, l->kv_heads, l->value_dim);
    check_values(l->bo, l->out_dim, 1);
    check_values(in->X, in->n, l->d);
    check_values(in->weights, in->n, 1);
    check_values(in->times, in->n, 1);
    check_values(in->positions, in->n, 1);
    check_values(l->rotary_freq, l->rotary_dim / 2, 1);
    check_values(l->q_gain, l->key_dim, l->norm_whole ? l->heads : 1);
    check_values(l->k_gain, l->key_dim, l->norm_whole ? l->kv_heads : 1);
}

/* The whole file as `check` reads it. */
static void check_whole(const lipsc_st *st) {
    lipsc_layer_file file;
    lipsc_error err = {.code = LIPSC_OK};
    if (lipsc_layer_whole_from_st(st, &file, &err)) {
        if (!err.code || strncmp(err.text, "fuzz: ", 6) != 0) abort();
        return;
    }
    const lipsc_layer_record *r = lipsc_layer_file_record(&file);
    if (!r->input.X || (r->v && !r->sigma)) abort();
    if (r->map > LIPSC_FILE_ATTENTION ? r->layer.Q != NULL : !r->layer.Q) abort();
    check_values(r->v, r->input.n, r->layer.d);
    check_values(r->ids, r->input.n, 1);
    check_values(r->pixels, r->pixel_shape[0] * r->pixel_shape[1], r->pixel_shape[2]);
    lipsc_layer_file_free(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const lipsc_layer_options options[] = {
        {.need_input = 1},
        {.heads = 4, .kv_heads = 2},
        {.heads = 2, .mask = LIPSC_MASK_CAUSAL},
        {.mask = LIPSC_MASK_SLIDING, .window = 2, .scale = 0.5},
        {.mask = LIPSC_MASK_TIMES},
    };
    lipsc_st *st;
    if (lipsc_st_parse(data, size, "fuzz", &st, NULL)) return 0;
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        lipsc_layer_file file;
        lipsc_error err;
        memset(&err, 0, sizeof err);
        if (lipsc_layer_from_st(st, &options[i], &file, &err) == LIPSC_OK) {
            check_layer(&file, &options[i]);
            lipsc_layer_file_free(&file);
        } else if (!err.code || strncmp(err.text, "fuzz: ", 6) != 0) {
            abort();
        }
    }
    check_whole(st);
    lipsc_st_free(st);
    return 0;
}
