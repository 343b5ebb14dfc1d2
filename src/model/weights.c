/* weights.c - a model's weights as the core and the back end want them, made when they are
 * first needed and kept until the model is freed.
 *
 * Attention weights stay in double beside their packed form: a value found in f32 is
 * re-evaluated with them.  Dense layers are kept packed only. */
#define _POSIX_C_SOURCE 200809L /* pthread_mutex_t */
#include "model/state.h"

#include "core/error.h"
#include "core/mem.h"

#include <math.h>
#include <string.h>

static lipsc_status no_memory(const lipsc_model *m, lipsc_error *err) {
    return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory for the weights", m->shown);
}

/* A whole tensor; *out stays NULL when the model has none in that role. */
static lipsc_status load(const lipsc_model *m, lipsc_role role, size_t layer, double **out,
                         lipsc_error *err) {
    lipsc_tensor tensor;
    *out = NULL;
    if (!lipsc_tensor_describe(&m->config, role, layer, &tensor)) return LIPSC_OK;
    double *values = lipsc_alloc(tensor.count, sizeof *values);
    if (!values) return no_memory(m, err);
    const lipsc_status status =
        lipsc_tensors_read(&m->tensors, &tensor, 0, tensor.count, values, err);
    if (status)
        lipsc_release(values);
    else
        *out = values;
    return status;
}

/* ---- Attention
 * ---------------------------------------------------------------------------- */

/* The tensors of one layer's attention in the order of the struct's arrays. */
typedef struct {
    double *Q, *K, *V, *O, *bq, *bk, *bv, *bo, *q_gain, *k_gain;
} arrays;

/* to (rows, columns) = columns first .. first+rows-1 of from (columns, stride), transposed
 */
static void transpose(size_t rows, size_t columns, const double *from, size_t stride,
                      size_t first, double *to) {
    for (size_t c = 0; c < columns; c++)
        for (size_t r = 0; r < rows; r++)
            to[r * columns + c] = from[c * stride + first + r];
}

/* gpt2: c_attn (d, 3 d) holds Q^T, K^T, V^T side by side; c_proj (d, d) is O^T. */
static lipsc_status load_fused(const lipsc_model *m, size_t layer, double *storage,
                               arrays *a, lipsc_error *err) {
    const size_t d = m->config.d;
    double *fused = NULL, *bias = NULL, *out = NULL, *out_bias = NULL;
    lipsc_status status = load(m, LIPSC_QKV, layer, &fused, err);
    if (!status) status = load(m, LIPSC_QKV_BIAS, layer, &bias, err);
    if (!status) status = load(m, LIPSC_OUT, layer, &out, err);
    if (!status) status = load(m, LIPSC_OUT_BIAS, layer, &out_bias, err);
    if (!status) {
        double *matrix[3] = {storage, storage + d * d, storage + 2 * d * d};
        double *vectors = storage + 4 * d * d;
        for (size_t i = 0; i < 3; i++) transpose(d, d, fused, 3 * d, i * d, matrix[i]);
        transpose(d, d, out, d, 0, storage + 3 * d * d);
        memcpy(vectors, bias, 3 * d * sizeof *vectors);
        memcpy(vectors + 3 * d, out_bias, d * sizeof *vectors);
        *a = (arrays){.Q = matrix[0],
                      .K = matrix[1],
                      .V = matrix[2],
                      .O = storage + 3 * d * d,
                      .bq = vectors,
                      .bk = vectors + d,
                      .bv = vectors + 2 * d,
                      .bo = vectors + 3 * d};
    }
    lipsc_release(fused);
    lipsc_release(bias);
    lipsc_release(out);
    lipsc_release(out_bias);
    return status;
}

/* The other families store every matrix on its own, (out, in). */
static lipsc_status load_separate(const lipsc_model *m, size_t layer, double *storage,
                                  arrays *a, lipsc_error *err) {
    memset(a, 0, sizeof *a);
    const struct {
        lipsc_role role;
        double **to;
    } parts[] = {{LIPSC_QUERY, &a->Q},           {LIPSC_KEY, &a->K},
                 {LIPSC_VALUE, &a->V},           {LIPSC_OUT, &a->O},
                 {LIPSC_QUERY_BIAS, &a->bq},     {LIPSC_KEY_BIAS, &a->bk},
                 {LIPSC_VALUE_BIAS, &a->bv},     {LIPSC_OUT_BIAS, &a->bo},
                 {LIPSC_QUERY_NORM, &a->q_gain}, {LIPSC_KEY_NORM, &a->k_gain}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        lipsc_tensor tensor;
        if (!lipsc_tensor_describe(&m->config, parts[i].role, layer, &tensor)) continue;
        const lipsc_status status =
            lipsc_tensors_read(&m->tensors, &tensor, 0, tensor.count, storage, err);
        if (status) return status;
        *parts[i].to = storage;
        storage += tensor.count;
    }
    return LIPSC_OK;
}

static lipsc_status load_attention(lipsc_model *m, size_t layer, lipsc_error *err) {
    const lipsc_config *c = &m->config;
    lipsc_block *block = &m->blocks[layer];
    if (block->layer.Q) return LIPSC_OK;
    if (!block->has_attention)
        return lipsc_fail(err, LIPSC_E_ARG, "%s: does not hold the attention of layer %zu",
                          m->shown, layer);
    size_t count = 0;
    lipsc_tensor tensor;
    for (int role = LIPSC_QKV; role < LIPSC_MLP_ROLES; role++)
        if (lipsc_tensor_describe(c, (lipsc_role)role, layer, &tensor))
            count += tensor.count;
    double *storage = lipsc_alloc(count, sizeof *storage);
    arrays a;
    lipsc_status status = LIPSC_OK;
    if (!block->packed)
        block->packed = lipsc_alloc_zero(2 * (c->heads + 1), sizeof *block->packed);
    if (!block->out_slices)
        block->out_slices = lipsc_alloc_zero(c->heads, sizeof *block->out_slices);
    if (!storage || !block->packed || !block->out_slices)
        status = no_memory(m, err);
    else if (c->family->tensor[LIPSC_QKV])
        status = load_fused(m, layer, storage, &a, err);
    else
        status = load_separate(m, layer, storage, &a, err);
    if (status) {
        lipsc_release(storage);
        return status;
    }
    block->storage = storage;

    lipsc_layer *l = &block->layer;
    lipsc_layer_defaults(l);
    l->d = l->out_dim = c->d;
    l->heads = c->heads;
    l->kv_heads = c->kv_heads;
    l->key_dim = l->value_dim = c->head_dim;
    l->Q = a.Q, l->K = a.K, l->V = a.V, l->O = a.O;
    l->bq = a.bq, l->bk = a.bk, l->bv = a.bv, l->bo = a.bo;
    l->q_gain = a.q_gain, l->k_gain = a.k_gain;
    l->norm_eps = c->norm_eps;
    l->scale = c->unscaled ? 1.0 : 1.0 / sqrt((double)c->head_dim);
    if (c->scale_by_layer) l->scale /= (double)(layer + 1);
    l->window = c->window;
    if (m->rotary_freq) {
        l->rotary_dim = c->head_dim;
        l->rotary_freq = m->rotary_freq;
    }
    return lipsc_model_mask(m, layer, NULL, &l->mask, err);
}

/* One query head with its key/value head and its columns of O. */
static lipsc_status select_head(lipsc_model *m, size_t layer, size_t head, int with_output,
                                lipsc_layer *out, lipsc_error *err) {
    lipsc_block *block = &m->blocks[layer];
    const lipsc_layer *all = &block->layer;
    const size_t k = all->key_dim, d = all->d, H = all->heads;
    const size_t g = head * all->kv_heads / H;
    *out = *all;
    out->heads = out->kv_heads = 1;
    out->Q = all->Q + head * k * d;
    out->K = all->K + g * k * d;
    out->V = all->V + g * k * d;
    if (all->bq) out->bq = all->bq + head * k;
    if (all->bk) out->bk = all->bk + g * k;
    if (all->bv) out->bv = all->bv + g * k;
    if (!with_output) return LIPSC_OK;
    if (!block->out_slices[head]) {
        double *slice = lipsc_alloc(d * k, sizeof *slice);
        if (!slice) return no_memory(m, err);
        for (size_t r = 0; r < d; r++)
            memcpy(slice + r * k, all->O + r * H * k + head * k, k * sizeof *slice);
        block->out_slices[head] = slice;
    }
    out->O = block->out_slices[head];
    return LIPSC_OK;
}

/* The layer itself; the lock is held. */
static lipsc_status make_layer(lipsc_model *m, size_t layer, long head, int with_output,
                               lipsc_layer *out, lipsc_error *err) {
    if (layer >= m->config.layers)
        return lipsc_fail(err, LIPSC_E_ARG, "%s: has %zu layers, so there is no layer %zu",
                          m->shown, m->config.layers, layer);
    if (head >= 0 && (size_t)head >= m->config.heads)
        return lipsc_fail(err, LIPSC_E_ARG, "%s: has %zu heads, so there is no head %ld",
                          m->shown, m->config.heads, head);
    lipsc_status status = load_attention(m, layer, err);
    if (status) return status;
    *out = m->blocks[layer].layer;
    if (head >= 0) status = select_head(m, layer, (size_t)head, with_output, out, err);
    if (!with_output) {
        out->O = out->bo = NULL;
        out->out_dim = 0;
    }
    return status;
}

lipsc_status lipsc_model_layer(lipsc_model *m, size_t layer, long head, lipsc_map_kind map,
                               const lipsc_mask *mask_override, lipsc_layer *out,
                               lipsc_error *err) {
    pthread_mutex_lock(&m->lock);
    lipsc_status status = make_layer(m, layer, head, map != LIPSC_MAP_HEADS, out, err);
    pthread_mutex_unlock(&m->lock);
    if (!status) status = lipsc_model_mask(m, layer, mask_override, &out->mask, err);
    return status;
}

lipsc_status lipsc_model_packed(lipsc_model *m, size_t layer, long head, int with_output,
                                lipsc_packed **out, lipsc_error *err) {
    lipsc_layer l;
    pthread_mutex_lock(&m->lock);
    lipsc_status status = make_layer(m, layer, head, with_output, &l, err);
    if (!status) {
        lipsc_packed **slot =
            &m->blocks[layer].packed[2 * (size_t)(head + 1) + (with_output != 0)];
        if (!*slot) status = lipsc_packed_new(&l, 0, slot, err);
        *out = *slot;
    }
    pthread_mutex_unlock(&m->lock);
    return status;
}

/* ---- Dense layers
 * --------------------------------------------------------------------------- */

static lipsc_status make_dense(lipsc_model *m, size_t layer, lipsc_dense which,
                               lipsc_dtype dtype, void **out, lipsc_error *err) {
    static const lipsc_role weight[] = {LIPSC_UP, LIPSC_GATE, LIPSC_DOWN};
    static const lipsc_role bias[] = {LIPSC_UP_BIAS, LIPSC_GATE_BIAS, LIPSC_DOWN_BIAS};
    const lipsc_config *c = &m->config;
    const int back = which >= LIPSC_DENSE_UP_BACK;
    const int what = back ? (int)which - LIPSC_DENSE_UP_BACK : (int)which;
    const int down = what == LIPSC_DENSE_DOWN;
    /* towards the output: d -> ffn, or for `down` ffn -> d */
    const size_t in = down != back ? c->ffn : c->d, output = down != back ? c->d : c->ffn;
    double *w = NULL, *b = NULL;
    lipsc_status status = load(m, weight[what], layer, &w, err);
    if (!status && !back) status = load(m, bias[what], layer, &b, err);
    if (!status)
        status = m->backend->linear_new(in, output, w, c->family->transposed != back, b,
                                        dtype, out, err);
    lipsc_release(w);
    lipsc_release(b);
    return status;
}

lipsc_status lipsc_model_dense(lipsc_model *m, size_t layer, lipsc_dense which,
                               lipsc_dtype dtype, const void **out, lipsc_error *err) {
    lipsc_status status = LIPSC_OK;
    pthread_mutex_lock(&m->lock);
    void **slot = &m->blocks[layer].dense[dtype][which];
    if (!*slot) status = make_dense(m, layer, which, dtype, slot, err);
    *out = *slot;
    pthread_mutex_unlock(&m->lock);
    return status;
}

/* ---- Norms
 * ------------------------------------------------------------------------------------ */

/* The bias is the role after the gain's. */
static lipsc_status make_norm(lipsc_model *m, lipsc_role gain, size_t layer,
                              lipsc_dtype dtype, lipsc_norm *out, lipsc_error *err) {
    const lipsc_space *space = m->backend->space(dtype);
    const size_t d = m->config.d;
    double *g = NULL, *b = NULL;
    lipsc_norm norm = {0};
    lipsc_status status = load(m, gain, layer, &g, err);
    if (!status) status = load(m, (lipsc_role)(gain + 1), layer, &b, err);
    if (!status) {
        norm.gain = space->alloc(d);
        if (b) norm.bias = space->alloc(d);
        if (!norm.gain || (b && !norm.bias)) status = no_memory(m, err);
    }
    if (!status) {
        space->upload(d, g, norm.gain);
        if (b) space->upload(d, b, norm.bias);
        *out = norm;
    } else {
        space->release(norm.gain);
        space->release(norm.bias);
    }
    lipsc_release(g);
    lipsc_release(b);
    return status;
}

static lipsc_status get_norm(lipsc_model *m, lipsc_role gain, size_t layer,
                             lipsc_dtype dtype, lipsc_norm *slot, const lipsc_norm **out,
                             lipsc_error *err) {
    lipsc_status status = LIPSC_OK;
    pthread_mutex_lock(&m->lock);
    if (!slot->gain) status = make_norm(m, gain, layer, dtype, slot, err);
    pthread_mutex_unlock(&m->lock);
    *out = slot;
    return status;
}

lipsc_status lipsc_model_norm(lipsc_model *m, size_t layer, lipsc_norm_place place,
                              lipsc_dtype dtype, const lipsc_norm **out, lipsc_error *err) {
    const lipsc_role role = place == LIPSC_NORM_ATTN ? LIPSC_ATTN_NORM : LIPSC_MLP_NORM;
    return get_norm(m, role, layer, dtype, &m->blocks[layer].norm[dtype][place], out, err);
}

lipsc_status lipsc_model_embed_norm(lipsc_model *m, lipsc_dtype dtype,
                                    const lipsc_norm **out, lipsc_error *err) {
    *out = NULL;
    if (!m->config.family->tensor[LIPSC_EMBED_NORM]) return LIPSC_OK;
    return get_norm(m, LIPSC_EMBED_NORM, 0, dtype, &m->embed_norm[dtype], out, err);
}

lipsc_status lipsc_model_final_norm(lipsc_model *m, lipsc_dtype dtype,
                                    const lipsc_norm **out, lipsc_error *err) {
    *out = NULL;
    if (!m->config.family->tensor[LIPSC_FINAL_NORM]) return LIPSC_OK;
    return get_norm(m, LIPSC_FINAL_NORM, 0, dtype, &m->final_norm[dtype], out, err);
}

/* ---- The end
 * ------------------------------------------------------------------------------------ */

static void free_norm(const lipsc_space *space, lipsc_norm *norm) {
    space->release(norm->gain);
    space->release(norm->bias);
}

static void free_block(lipsc_model *m, lipsc_block *block) {
    const size_t heads = m->config.heads;
    for (size_t i = 0; block->packed && i < 2 * (heads + 1); i++)
        lipsc_packed_free(block->packed[i]);
    for (size_t h = 0; block->out_slices && h < heads; h++)
        lipsc_release(block->out_slices[h]);
    for (int t = 0; t < 2; t++) {
        const lipsc_space *space = m->backend->space((lipsc_dtype)t);
        for (int i = 0; i < LIPSC_DENSE_COUNT; i++)
            m->backend->linear_free(block->dense[t][i]);
        for (int i = 0; i < LIPSC_NORM_COUNT; i++) free_norm(space, &block->norm[t][i]);
    }
    lipsc_release(block->packed);
    lipsc_release(block->out_slices);
    lipsc_release(block->storage);
}

void lipsc_model_weights_free(lipsc_model *m) {
    for (size_t l = 0; l < m->config.layers; l++) free_block(m, &m->blocks[l]);
    for (int t = 0; t < 2; t++) {
        free_norm(m->backend->space((lipsc_dtype)t), &m->embed_norm[t]);
        free_norm(m->backend->space((lipsc_dtype)t), &m->final_norm[t]);
    }
}
