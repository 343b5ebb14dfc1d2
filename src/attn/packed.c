/* packed.c - a layer's weights made ready for a device once, shared by many inputs. */
#define _POSIX_C_SOURCE 200809L /* pthread_mutex_t */
#include "attn/arena.h"
#include "attn/attn.h"
#include "attn/norms.h"
#include "attn/turned.h"
#include "core/error.h"

#include <pthread.h>

/* Weights on one device in one precision. */
typedef struct made {
    const lipsc_device *home;
    lipsc_dtype dtype;
    void *weights;
    struct made *next;
} made;

struct lipsc_packed {
    lipsc_layer layer;
    void *storage;           /* the arrays of layer, or NULL when they are the caller's */
    pthread_mutex_t lock;    /* of made, norms and turned */
    made *made;              /* when first asked for                             */
    lipsc_head_norms *norms; /* (heads) or NULL: the same                        */
    lipsc_turned *turned;    /* the same                                         */
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
    for (made *m = packed->made, *next; m; m = next) {
        next = m->next;
        lipsc_device_table(m->home)->weights_free(m->home, m->weights);
        lipsc_release(m);
    }
    lipsc_turned_free(packed->turned);
    pthread_mutex_destroy(&packed->lock);
    lipsc_release(packed->norms);
    lipsc_release(packed->storage);
    lipsc_release(packed);
}

const lipsc_layer *lipsc_packed_layer(const lipsc_packed *packed) { return &packed->layer; }

/* The lock is held. */
static lipsc_status make_weights(lipsc_packed *packed, const lipsc_device *home,
                                 lipsc_dtype dtype, made **out, lipsc_error *err) {
    made *m = lipsc_alloc(1, sizeof *m);
    if (!m) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a layer");
    *m = (made){.home = home, .dtype = dtype, .next = packed->made};
    const lipsc_status status = lipsc_device_table(home)->weights_new(
        home, &packed->layer, dtype, &m->weights, err);
    if (status)
        lipsc_release(m);
    else
        *out = packed->made = m;
    return status;
}

lipsc_status lipsc_packed_weights(lipsc_packed *packed, const lipsc_device *device,
                                  lipsc_dtype dtype, const void **weights,
                                  lipsc_error *err) {
    const lipsc_device *home = lipsc_device_home(device);
    lipsc_status status = LIPSC_OK;
    pthread_mutex_lock(&packed->lock);
    made *m = packed->made;
    while (m && (m->home != home || m->dtype != dtype)) m = m->next;
    if (!m) status = make_weights(packed, home, dtype, &m, err);
    if (!status) *weights = m->weights;
    pthread_mutex_unlock(&packed->lock);
    return status;
}

lipsc_status lipsc_packed_norms(lipsc_packed *packed, const lipsc_head_norms **norms) {
    lipsc_status status = LIPSC_OK;
    pthread_mutex_lock(&packed->lock);
    if (!packed->norms) {
        lipsc_head_norms *norms_made = lipsc_alloc(packed->layer.heads, sizeof *norms_made);
        status = norms_made ? lipsc_layer_norms(&packed->layer, norms_made) : LIPSC_E_NOMEM;
        if (status)
            lipsc_release(norms_made);
        else
            packed->norms = norms_made;
    }
    *norms = packed->norms;
    pthread_mutex_unlock(&packed->lock);
    return status;
}

lipsc_status lipsc_packed_turned(lipsc_packed *packed, const lipsc_turned **turned,
                                 lipsc_error *err) {
    lipsc_status status = LIPSC_OK;
    pthread_mutex_lock(&packed->lock);
    if (!packed->turned) status = lipsc_turned_new(&packed->layer, &packed->turned, err);
    *turned = packed->turned;
    pthread_mutex_unlock(&packed->lock);
    return status;
}
