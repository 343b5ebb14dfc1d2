/* packed.c - a layer's weights made ready for a back end once, shared by many inputs. */
#define _POSIX_C_SOURCE 200809L /* pthread_mutex_t */
#include "attn/arena.h"
#include "attn/attn.h"
#include "attn/norms.h"
#include "core/error.h"

#include <pthread.h>

struct lipsc_packed {
    lipsc_layer layer;
    void *storage; /* the arrays of layer, or NULL when they are the caller's */
    const lipsc_backend *backend;
    pthread_mutex_t lock;    /* of weights and norms */
    void *weights[2];        /* of the back end, by precision, made when first asked for */
    lipsc_head_norms *norms; /* (heads) or NULL: the same                        */
};

/* Lays out, and with a base copies, the arrays of a checked layer. */
static void place(lipsc_arena *a, const lipsc_layer *from, lipsc_layer *l) {
    *l = *from;
    l->Q = lipsc_arena_copy(a, l->heads * l->key_dim * l->d, from->Q);
    l->K = lipsc_arena_copy(a, l->kv_heads * l->key_dim * l->d, from->K);
    l->V = lipsc_arena_copy(a, l->kv_heads * l->value_dim * l->d, from->V);
    l->O = lipsc_arena_copy(a, l->out_dim * l->heads * l->value_dim, from->O);
    l->bq = lipsc_arena_copy(a, l->heads * l->key_dim, from->bq);
    l->bk = lipsc_arena_copy(a, l->kv_heads * l->key_dim, from->bk);
    l->bv = lipsc_arena_copy(a, l->kv_heads * l->value_dim, from->bv);
    l->bo = lipsc_arena_copy(a, l->out_dim, from->bo);
    l->rotary_freq =
        lipsc_arena_copy(a, l->rotary_dim / 2, l->rotary_dim ? from->rotary_freq : NULL);
    l->score_bias = lipsc_arena_copy(
        a, l->heads * (l->bias_rule == LIPSC_BIAS_BUCKETS ? l->bias_buckets : 1),
        l->bias_rule != LIPSC_BIAS_NONE ? from->score_bias : NULL);
    l->sinks = lipsc_arena_copy(a, l->heads, from->sinks);
    const size_t q_heads = l->norm_whole ? l->heads : 1;
    const size_t k_heads = l->norm_whole ? l->kv_heads : 1;
    l->q_gain = lipsc_arena_copy(a, q_heads * l->key_dim, from->q_gain);
    l->k_gain = lipsc_arena_copy(a, k_heads * l->key_dim, from->k_gain);
}

static lipsc_status copy_arrays(lipsc_packed *packed, const lipsc_layer *resolved,
                                lipsc_error *err) {
    lipsc_arena a = {0};
    place(&a, resolved, &packed->layer);
    if (a.overflow) return lipsc_fail(err, LIPSC_E_RANGE, "the layer is too large");
    packed->storage = lipsc_alloc(a.used, 1);
    if (!packed->storage)
        return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a layer");
    a = (lipsc_arena){.base = packed->storage};
    place(&a, resolved, &packed->layer);
    return LIPSC_OK;
}

lipsc_status lipsc_packed_new(const lipsc_layer *layer, int copy, lipsc_packed **out,
                              lipsc_error *err) {
    lipsc_layer resolved;
    lipsc_status status = lipsc_layer_check(layer, &resolved, err);
    if (status) return status;
    lipsc_packed *packed = lipsc_alloc_zero(1, sizeof *packed);
    if (!packed || pthread_mutex_init(&packed->lock, NULL)) {
        lipsc_release(packed);
        return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a layer");
    }
    packed->backend = lipsc_backend_best();
    packed->layer = resolved;
    if (copy) status = copy_arrays(packed, &resolved, err);
    if (status)
        lipsc_packed_free(packed);
    else
        *out = packed;
    return status;
}

void lipsc_packed_free(lipsc_packed *packed) {
    if (!packed) return;
    for (int t = 0; t < 2; t++)
        if (packed->weights[t]) packed->backend->weights_free(packed->weights[t]);
    pthread_mutex_destroy(&packed->lock);
    lipsc_release(packed->norms);
    lipsc_release(packed->storage);
    lipsc_release(packed);
}

const lipsc_layer *lipsc_packed_layer(const lipsc_packed *packed) { return &packed->layer; }

const lipsc_backend *lipsc_packed_backend(const lipsc_packed *packed) {
    return packed->backend;
}

lipsc_status lipsc_packed_weights(lipsc_packed *packed, lipsc_dtype dtype,
                                  const void **weights, lipsc_error *err) {
    lipsc_status status = LIPSC_OK;
    pthread_mutex_lock(&packed->lock);
    if (!packed->weights[dtype])
        status = packed->backend->weights_new(&packed->layer, dtype,
                                              &packed->weights[dtype], err);
    *weights = packed->weights[dtype];
    pthread_mutex_unlock(&packed->lock);
    return status;
}

lipsc_status lipsc_packed_norms(lipsc_packed *packed, const lipsc_head_norms **norms) {
    lipsc_status status = LIPSC_OK;
    pthread_mutex_lock(&packed->lock);
    if (!packed->norms) {
        lipsc_head_norms *made = lipsc_alloc(packed->layer.heads, sizeof *made);
        status = made ? lipsc_layer_norms(&packed->layer, made) : LIPSC_E_NOMEM;
        if (status)
            lipsc_release(made);
        else
            packed->norms = made;
    }
    *norms = packed->norms;
    pthread_mutex_unlock(&packed->lock);
    return status;
}
