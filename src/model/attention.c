/* attention.c - the attention of one layer out of its tensors, as the core takes it: from
 * fused or separate matrices, made ready for rotations of halves, one head or all. */
#include "model/state.h"

#include "core/error.h"
#include "core/mem.h"

#include <math.h>
#include <string.h>

/* ---- Tensors ------------------------------------------------------------------------ */

/* Where the arrays of one layer's attention go. */
typedef struct {
    double *Q, *K, *V, *O, *bq, *bk, *bv, *bo, *q_gain, *k_gain, *sinks, *score_bias;
} arrays;

/* to (rows, columns) = from (columns, rows) transposed */
static void transpose(size_t rows, size_t columns, const double *from, double *to) {
    for (size_t c = 0; c < columns; c++)
        for (size_t r = 0; r < rows; r++) to[r * columns + c] = from[c * rows + r];
}

/* A dense weight as (out, in), whatever it is stored as. */
static lipsc_status load_dense(const lipsc_model *m, lipsc_role role, size_t layer,
                               size_t out, size_t in, double **weight, lipsc_error *err) {
    lipsc_status status = lipsc_model_load(m, role, layer, weight, err);
    if (status || !*weight || !m->config.family->transposed) return status;
    double *turned = lipsc_alloc(out * in, sizeof *turned);
    if (turned) transpose(out, in, *weight, turned);
    lipsc_release(*weight);
    *weight = turned;
    return turned ? LIPSC_OK : lipsc_short_of_weights(m, err);
}

/* Rows of queries, keys and values taken from one matrix (rows, columns). */
static void split_qkv(const lipsc_config *c, size_t columns, const double *from, double *q,
                      double *k, double *v) {
    const size_t head = c->head_dim * columns, kv = c->kv_heads;
    const size_t share = c->heads / kv;
    const int groups = c->family->qkv == LIPSC_QKV_GROUPS;
    for (size_t g = 0; g < kv; g++) {
        const size_t first = groups ? g * (share + 2) : g * share;
        const size_t key = groups ? first + share : c->heads + g;
        const size_t value = groups ? first + share + 1 : c->heads + kv + g;
        memcpy(q + g * share * head, from + first * head, share * head * sizeof *q);
        memcpy(k + g * head, from + key * head, head * sizeof *k);
        memcpy(v + g * head, from + value * head, head * sizeof *v);
    }
}

static lipsc_status load_fused(const lipsc_model *m, size_t layer, const arrays *a,
                               lipsc_error *err) {
    const lipsc_config *c = &m->config;
    double *weight = NULL, *bias = NULL;
    lipsc_status status =
        load_dense(m, LIPSC_QKV, layer, (c->heads + 2 * c->kv_heads) * c->head_dim, c->d,
                   &weight, err);
    if (!status) status = lipsc_model_load(m, LIPSC_QKV_BIAS, layer, &bias, err);
    if (!status) split_qkv(c, c->d, weight, a->Q, a->K, a->V);
    if (!status && bias) split_qkv(c, 1, bias, a->bq, a->bk, a->bv);
    lipsc_release(weight);
    lipsc_release(bias);
    return status;
}

static lipsc_status load_into(const lipsc_model *m, lipsc_role role, size_t layer,
                              size_t out, size_t in, double *to, lipsc_error *err) {
    double *values = NULL;
    lipsc_status status = in > 1 ? load_dense(m, role, layer, out, in, &values, err)
                                 : lipsc_model_load(m, role, layer, &values, err);
    if (!status && values) memcpy(to, values, out * in * sizeof *to);
    lipsc_release(values);
    return status;
}

/* The table (buckets, heads) head by head. */
static lipsc_status load_buckets(const lipsc_model *m, double *to, lipsc_error *err) {
    double *table = NULL;
    const lipsc_status status = lipsc_model_load(m, LIPSC_SCORE_BIAS, 0, &table, err);
    if (!status) transpose(m->config.heads, m->config.buckets, table, to);
    lipsc_release(table);
    return status;
}

/* The slopes of ALiBi as bloom makes them: powers of 2^(-8 / p), p the largest power of two
 * up to the number of heads; what is left takes the odd powers of the root of that. */
static void set_slopes(size_t heads, double *to) {
    size_t power = 1;
    while (2 * power <= heads) power *= 2;
    for (size_t h = 0; h < heads; h++)
        to[h] = h < power ? exp2(-8 * (double)(h + 1) / (double)power)
                          : exp2(-4 * (double)(2 * (h - power) + 1) / (double)power);
}

static lipsc_status load_parts(const lipsc_model *m, size_t layer, const arrays *a,
                               lipsc_error *err) {
    const lipsc_config *c = &m->config;
    const size_t d = c->d, q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    const int whole = c->family->norm_whole;
    const struct {
        lipsc_role role;
        double *to;
        size_t out, in;
    } parts[] = {{LIPSC_QUERY, a->Q, q, d},
                 {LIPSC_KEY, a->K, kv, d},
                 {LIPSC_VALUE, a->V, kv, d},
                 {LIPSC_QUERY_BIAS, a->bq, q, 1},
                 {LIPSC_KEY_BIAS, a->bk, kv, 1},
                 {LIPSC_VALUE_BIAS, a->bv, kv, 1},
                 {LIPSC_OUT, a->O, d, q},
                 {LIPSC_OUT_BIAS, a->bo, d, 1},
                 {LIPSC_QUERY_NORM, a->q_gain, whole ? q : c->head_dim, 1},
                 {LIPSC_KEY_NORM, a->k_gain, whole ? kv : c->head_dim, 1},
                 {LIPSC_SINKS, a->sinks, c->heads, 1}};
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; !status && i < sizeof parts / sizeof parts[0]; i++)
        status =
            load_into(m, parts[i].role, layer, parts[i].out, parts[i].in, parts[i].to, err);
    if (!status && c->family->tensor[LIPSC_QKV]) status = load_fused(m, layer, a, err);
    if (!status && c->buckets) status = load_buckets(m, a->score_bias, err);
    if (!status && c->alibi) set_slopes(c->heads, a->score_bias);
    return status;
}

/* Cuts storage into the arrays that this family has; with base NULL it only counts. */
static size_t place(const lipsc_config *c, double *base, arrays *a) {
    const lipsc_family *f = c->family;
    const size_t d = c->d, q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    const int qkv_bias =
        c->qkv_bias && (f->tensor[LIPSC_QKV_BIAS] || f->tensor[LIPSC_QUERY_BIAS]);
    const int out_bias = c->out_bias && f->tensor[LIPSC_OUT_BIAS];
    const struct {
        double **to;
        size_t count;
    } parts[] = {{&a->Q, q * d},
                 {&a->K, kv * d},
                 {&a->V, kv * d},
                 {&a->O, q * d},
                 {&a->bq, qkv_bias ? q : 0},
                 {&a->bk, qkv_bias ? kv : 0},
                 {&a->bv, qkv_bias ? kv : 0},
                 {&a->bo, out_bias ? d : 0},
                 {&a->q_gain, !f->tensor[LIPSC_QUERY_NORM] ? 0
                              : f->norm_whole              ? q
                                                           : c->head_dim},
                 {&a->k_gain, !f->tensor[LIPSC_KEY_NORM] ? 0
                              : f->norm_whole            ? kv
                                                         : c->head_dim},
                 {&a->sinks, f->tensor[LIPSC_SINKS] ? c->heads : 0},
                 {&a->score_bias, c->alibi ? c->heads : c->heads * c->buckets}};
    size_t used = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        *parts[i].to = base && parts[i].count ? base + used : NULL;
        used += parts[i].count;
    }
    return used;
}

/* ---- Rotary positions --------------------------------------------------------------- */

/* Component 2 l goes to l and 2 l + 1 to l + dim / 2, for rows of `columns` numbers: the
 * scores do not change when queries and keys change their order together. */
static void separate_pairs(size_t dim, size_t columns, double *head, double *scratch) {
    memcpy(scratch, head, dim * columns * sizeof *head);
    for (size_t l = 0; l < dim; l++)
        memcpy(head + (l / 2 + l % 2 * (dim / 2)) * columns, scratch + l * columns,
               columns * sizeof *head);
}

/* One matrix, bias or gain of `heads` heads made ready for rotations of halves by sines
 * and cosines without a factor. */
static void prepare_turns(const lipsc_config *c, const lipsc_rope *rope, size_t heads,
                          size_t columns, int scaled, double *all, double *scratch) {
    for (size_t h = 0; all && h < heads; h++) {
        double *head = all + h * c->head_dim * columns;
        if (c->family->rotary == LIPSC_ROTARY_PAIRS)
            separate_pairs(rope->dim, columns, head, scratch);
        for (size_t e = 0; scaled && e < rope->dim * columns; e++) head[e] *= rope->factor;
    }
}

static lipsc_status prepare_rotary(const lipsc_model *m, const lipsc_rope *rope,
                                   const arrays *a, lipsc_error *err) {
    const lipsc_config *c = &m->config;
    if (rope->factor == 1 && c->family->rotary == LIPSC_ROTARY_HALVES) return LIPSC_OK;
    double *scratch = lipsc_alloc(rope->dim, c->d * sizeof *scratch);
    if (!scratch) return lipsc_short_of_weights(m, err);
    /* behind a norm the factor belongs to its gain */
    const int whole = c->family->norm_whole;
    prepare_turns(c, rope, c->heads, c->d, !a->q_gain, a->Q, scratch);
    prepare_turns(c, rope, c->heads, 1, !a->q_gain, a->bq, scratch);
    prepare_turns(c, rope, whole ? c->heads : 1, 1, 1, a->q_gain, scratch);
    prepare_turns(c, rope, c->kv_heads, c->d, !a->k_gain, a->K, scratch);
    prepare_turns(c, rope, c->kv_heads, 1, !a->k_gain, a->bk, scratch);
    prepare_turns(c, rope, whole ? c->kv_heads : 1, 1, 1, a->k_gain, scratch);
    lipsc_release(scratch);
    return LIPSC_OK;
}

/* ---- The layer ---------------------------------------------------------------------- */

static void fill_layer(const lipsc_config *c, size_t layer, const arrays *a,
                       lipsc_layer *l) {
    lipsc_layer_defaults(l);
    l->d = l->out_dim = c->d;
    l->heads = c->heads;
    l->kv_heads = c->kv_heads;
    l->key_dim = l->value_dim = c->head_dim;
    l->Q = a->Q, l->K = a->K, l->V = a->V, l->O = a->O;
    l->bq = a->bq, l->bk = a->bk, l->bv = a->bv, l->bo = a->bo;
    l->q_gain = a->q_gain, l->k_gain = a->k_gain;
    l->norm_whole = c->family->norm_whole;
    l->norm_eps = c->norm_eps;
    l->scale = c->scale / (c->scale_by_layer ? (double)(layer + 1) : 1);
    l->mask = lipsc_config_mask(c, layer);
    l->window = c->window;
    l->soft_cap = c->soft_cap;
    l->sinks = a->sinks;
    l->score_bias = a->score_bias;
    l->bias_rule = c->alibi     ? LIPSC_BIAS_LINEAR
                   : c->buckets ? LIPSC_BIAS_BUCKETS
                                : LIPSC_BIAS_NONE;
    l->bias_buckets = c->buckets;
    l->bias_distance = c->bucket_distance;
    const lipsc_rope *rope = &c->rope[c->sliding[layer]];
    if (!c->unturned[layer] && rope->dim) {
        l->rotary_dim = rope->dim;
        l->rotary_freq = rope->freq;
    }
}

static lipsc_status make_room(const lipsc_model *m, lipsc_block *block, lipsc_error *err) {
    const size_t heads = m->config.heads;
    if (!block->packed)
        block->packed = lipsc_alloc_zero(2 * (heads + 1), sizeof *block->packed);
    if (!block->out_slices)
        block->out_slices = lipsc_alloc_zero(2 * heads, sizeof *block->out_slices);
    return block->packed && block->out_slices ? LIPSC_OK : lipsc_short_of_weights(m, err);
}

/* The numbers of a layer's attention: *storage, into which *a points. */
static lipsc_status read_attention(const lipsc_model *m, size_t layer, double **storage,
                                   arrays *a, lipsc_error *err) {
    const lipsc_config *c = &m->config;
    *storage = lipsc_alloc(place(c, NULL, a), sizeof **storage);
    if (!*storage) return lipsc_short_of_weights(m, err);
    place(c, *storage, a);
    lipsc_status status = load_parts(m, layer, a, err);
    if (!status && !c->unturned[layer] && c->rope[c->sliding[layer]].dim)
        status = prepare_rotary(m, &c->rope[c->sliding[layer]], a, err);
    if (status) lipsc_release(*storage);
    return status;
}

/* The lock is held, and the block has no attention yet. */
static lipsc_status install(lipsc_model *m, size_t layer, double *storage, const arrays *a,
                            lipsc_error *err) {
    lipsc_block *block = &m->blocks[layer];
    arrays sizes;
    const lipsc_status status = make_room(m, block, err);
    if (status) {
        lipsc_release(storage);
        return status;
    }
    block->storage = storage;
    lipsc_model_count(m, layer, place(&m->config, NULL, &sizes) * sizeof *storage);
    fill_layer(&m->config, layer, a, &block->layer);
    return LIPSC_OK;
}

static lipsc_status load_attention(lipsc_model *m, size_t layer, lipsc_error *err) {
    arrays a;
    double *storage;
    if (m->blocks[layer].layer.Q) return LIPSC_OK;
    if (!m->blocks[layer].has_attention)
        return lipsc_fail(err, LIPSC_E_ARG, "%s: does not hold the attention of layer %zu",
                          m->shown, layer);
    const lipsc_status status = read_attention(m, layer, &storage, &a, err);
    return status ? status : install(m, layer, storage, &a, err);
}

void lipsc_attention_warm(lipsc_model *m, size_t layer) {
    const lipsc_block *block = &m->blocks[layer];
    arrays a;
    double *storage;
    pthread_mutex_lock(&m->lock);
    const int wanted = block->has_attention && !block->layer.Q;
    pthread_mutex_unlock(&m->lock);
    if (!wanted || read_attention(m, layer, &storage, &a, NULL)) return;
    pthread_mutex_lock(&m->lock);
    if (block->layer.Q)
        lipsc_release(storage); /* somebody was faster */
    else
        (void)!install(m, layer, storage, &a, NULL);
    pthread_mutex_unlock(&m->lock);
}

/* ---- One head ----------------------------------------------------------------------- */

/* O of one head: its columns (d, k); among all heads, (rows, H k) with zeros elsewhere, or
 * without an output projection the head's own components (k, H k). */
static lipsc_status make_slice(const lipsc_model *m, const lipsc_layer *all, size_t head,
                               int with_output, double **slice, lipsc_error *err) {
    const size_t k = all->value_dim, d = all->d, H = all->heads;
    const int among = all->norm_whole;
    const size_t rows = with_output ? d : k, columns = among ? H * k : k;
    if (*slice) return LIPSC_OK;
    *slice = lipsc_alloc_zero(rows * columns, sizeof **slice);
    if (!*slice) return lipsc_short_of_weights(m, err);
    for (size_t r = 0; r < rows; r++) {
        double *to = *slice + r * columns + (among ? head * k : 0);
        if (with_output)
            memcpy(to, all->O + r * H * k + head * k, k * sizeof *to);
        else
            to[r] = 1;
    }
    return LIPSC_OK;
}

/* One query head with its key/value head and its columns of O.  Where norms span the heads,
 * all of them stay and O keeps one. */
static lipsc_status select_head(lipsc_model *m, size_t layer, size_t head, int with_output,
                                lipsc_layer *out, lipsc_error *err) {
    lipsc_block *block = &m->blocks[layer];
    const lipsc_layer *all = &block->layer;
    const size_t k = all->key_dim, d = all->d, H = all->heads;
    const size_t g = head * all->kv_heads / H;
    double **slice = &block->out_slices[2 * head + (with_output != 0)];
    lipsc_status status = LIPSC_OK;
    *out = *all;
    if (with_output || all->norm_whole)
        status = make_slice(m, all, head, with_output, slice, err);
    if (!with_output) out->bo = NULL;
    out->O = *slice;
    out->out_dim = with_output ? d : k;
    if (status || all->norm_whole) return status;
    out->heads = out->kv_heads = 1;
    out->Q = all->Q + head * k * d;
    out->K = all->K + g * k * d;
    out->V = all->V + g * k * d;
    if (all->sinks) out->sinks = all->sinks + head;
    if (all->score_bias)
        out->score_bias =
            all->score_bias +
            head * (all->bias_rule == LIPSC_BIAS_BUCKETS ? all->bias_buckets : 1);
    if (all->bq) out->bq = all->bq + head * k;
    if (all->bk) out->bk = all->bk + g * k;
    if (all->bv) out->bv = all->bv + g * k;
    return LIPSC_OK;
}

lipsc_status lipsc_attention_layer(lipsc_model *m, size_t layer, long head, int with_output,
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
    if (head >= 0) return select_head(m, layer, (size_t)head, with_output, out, err);
    if (!with_output) {
        out->O = out->bo = NULL;
        out->out_dim = 0;
    }
    return status;
}
