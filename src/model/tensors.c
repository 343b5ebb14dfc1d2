/* tensors.c - the tensors that a configuration asks for: names, shapes, and how random ones
 * begin, which follows the published initialisation of each family: normal with deviation
 * initializer_range, biases zero, norms one, the embedding of the padding token zero; gpt2
 * divides the deviation of its two projections into the residual stream by
 * sqrt(2 layers). */
#include "model/tensors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Names and shapes --------------------------------------------------------------- */

/* '#' -> layer, '@' -> expert */
static void make_name(const char *pattern, size_t layer, size_t expert, char *name,
                      size_t size) {
    size_t used = 0;
    for (*name = 0; *pattern && used + 1 < size; pattern++)
        used += (size_t)(*pattern == '#' || *pattern == '@'
                             ? snprintf(name + used, size - used, "%zu",
                                        *pattern == '#' ? layer : expert)
                             : snprintf(name + used, size - used, "%c", *pattern));
}

/* The bias of a norm stands behind its gain. */
static int has_norm(const lipsc_config *c, size_t layer, lipsc_role role) {
    lipsc_role gain;
    for (int place = 0; place < LIPSC_NORM_COUNT; place++)
        if (lipsc_config_norm(c, layer, (lipsc_norm_place)place, &gain) &&
            (role == gain || role == gain + 1))
            return 1;
    return 0;
}

static int has_role(const lipsc_config *c, lipsc_role role, size_t layer) {
    switch (role) {
    case LIPSC_EMBED_PROJECT:
    case LIPSC_EMBED_PROJECT_BIAS:
        return c->embed_projected;
    case LIPSC_SCORE_BIAS:
        return c->buckets > 0;
    case LIPSC_FINAL_NORM:
    case LIPSC_FINAL_NORM_BIAS:
        return !c->norm_last;
    case LIPSC_QKV_BIAS:
    case LIPSC_QUERY_BIAS:
    case LIPSC_KEY_BIAS:
    case LIPSC_VALUE_BIAS:
        return c->qkv_bias;
    case LIPSC_OUT_BIAS:
        return c->out_bias;
    case LIPSC_GATE_UP_BIAS:
    case LIPSC_UP_BIAS:
    case LIPSC_GATE_BIAS:
    case LIPSC_DOWN_BIAS:
        return c->mlp_bias;
    default:
        return role < LIPSC_ATTN_NORM || role > LIPSC_MLP_SUM_NORM_BIAS ||
               has_norm(c, layer, role);
    }
}

/* A dense layer's weight is (out, in), or (in, out) where the family says so. */
static void dense_shape(const lipsc_config *c, lipsc_tensor *t, size_t out, size_t in) {
    t->ndim = 2;
    t->shape[0] = c->family->transposed ? in : out;
    t->shape[1] = c->family->transposed ? out : in;
}

static void matrix_shape(lipsc_tensor *t, size_t rows, size_t columns) {
    t->ndim = 2;
    t->shape[0] = rows;
    t->shape[1] = columns;
}

static void set_shape(const lipsc_config *c, lipsc_role role, lipsc_tensor *t) {
    const size_t d = c->d, q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    const int whole = c->family->norm_whole;
    t->ndim = 1;
    t->shape[0] = d; /* most vectors: norms and biases of the residual stream */
    switch (role) {
    case LIPSC_TOKENS:
        matrix_shape(t, c->vocab, c->embed_width);
        break;
    case LIPSC_TYPES:
        matrix_shape(t, c->types, c->embed_width);
        break;
    case LIPSC_POSITIONS:
        matrix_shape(t, c->positions + c->family->position_offset,
                     c->family->position_last ? d : c->embed_width);
        break;
    case LIPSC_EMBED_NORM:
    case LIPSC_EMBED_NORM_BIAS:
        t->shape[0] = c->embed_width;
        break;
    case LIPSC_EMBED_PROJECT:
        dense_shape(c, t, d, c->embed_width);
        break;
    case LIPSC_PATCH:
        t->ndim = 4;
        t->shape[1] = c->channels;
        t->shape[2] = c->patch[0];
        t->shape[3] = c->patch[1];
        break;
    case LIPSC_QKV:
        dense_shape(c, t, q + 2 * kv, d);
        break;
    case LIPSC_QKV_BIAS:
        t->shape[0] = q + 2 * kv;
        break;
    case LIPSC_QUERY:
        dense_shape(c, t, q, d);
        break;
    case LIPSC_QUERY_BIAS:
        t->shape[0] = q;
        break;
    case LIPSC_KEY:
    case LIPSC_VALUE:
        dense_shape(c, t, kv, d);
        break;
    case LIPSC_KEY_BIAS:
    case LIPSC_VALUE_BIAS:
        t->shape[0] = kv;
        break;
    case LIPSC_OUT:
        dense_shape(c, t, d, q);
        break;
    case LIPSC_SCORE_BIAS:
        matrix_shape(t, c->buckets, c->heads);
        break;
    case LIPSC_SINKS:
        t->shape[0] = c->heads;
        break;
    case LIPSC_ROUTER:
        matrix_shape(t, c->experts, d);
        break;
    case LIPSC_ROUTER_BIAS:
        t->shape[0] = c->experts;
        break;
    case LIPSC_QUERY_NORM:
        t->shape[0] = whole ? q : c->head_dim;
        break;
    case LIPSC_KEY_NORM:
        t->shape[0] = whole ? kv : c->head_dim;
        break;
    case LIPSC_GATE_UP:
        dense_shape(c, t, 2 * c->ffn, d);
        break;
    case LIPSC_GATE_UP_BIAS:
        t->shape[0] = 2 * c->ffn;
        break;
    case LIPSC_UP:
    case LIPSC_GATE:
        dense_shape(c, t, c->ffn, d);
        break;
    case LIPSC_UP_BIAS:
    case LIPSC_GATE_BIAS:
        t->shape[0] = c->ffn;
        break;
    case LIPSC_DOWN:
        dense_shape(c, t, d, c->ffn);
        break;
    default:
        break;
    }
    t->count = 1;
    for (size_t i = 0; i < t->ndim; i++) t->count *= t->shape[i];
}

/* Gains are one, whatever they are stored as. */
static int is_gain(lipsc_role role) {
    return role == LIPSC_EMBED_NORM || role == LIPSC_FINAL_NORM ||
           role == LIPSC_QUERY_NORM || role == LIPSC_KEY_NORM ||
           (role >= LIPSC_ATTN_NORM && role <= LIPSC_MLP_SUM_NORM &&
            (role - LIPSC_ATTN_NORM) % 2 == 0);
}

static void set_start(const lipsc_config *c, lipsc_role role, lipsc_tensor *t) {
    t->zero_row = LIPSC_NO_TOKEN;
    t->deviation = t->constant = 0;
    t->offset = is_gain(role) ? c->family->gain_offset : 0;
    if (is_gain(role)) t->constant = 1 - t->offset;
    switch (role) {
    case LIPSC_ATTN_SCALE:
    case LIPSC_MLP_SCALE:
        t->constant = 1;
        break;
    case LIPSC_OUT:
    case LIPSC_DOWN:
        t->deviation = c->initializer_range;
        if (c->family->transposed) t->deviation /= sqrt(2 * (double)c->layers);
        break;
    case LIPSC_TOKENS:
        t->zero_row = c->pad;
        t->deviation = c->initializer_range;
        break;
    case LIPSC_POSITIONS:
        if (c->family->position_after_pad) t->zero_row = c->pad;
        t->deviation = c->initializer_range;
        break;
    case LIPSC_TYPES:
    case LIPSC_CLASS_TOKEN:
    case LIPSC_DISTILLATION_TOKEN:
    case LIPSC_EMBED_PROJECT:
    case LIPSC_PATCH:
    case LIPSC_QKV:
    case LIPSC_QUERY:
    case LIPSC_KEY:
    case LIPSC_VALUE:
    case LIPSC_GATE_UP:
    case LIPSC_UP:
    case LIPSC_GATE:
    case LIPSC_ROUTER:
    case LIPSC_SCORE_BIAS:
    case LIPSC_SINKS:
        t->deviation = c->initializer_range;
        break;
    default: /* biases */
        break;
    }
}

/* All experts in one tensor: one more dimension in front, and weights (in, out) unless the
 * family says otherwise. */
static void stack_experts(const lipsc_config *c, lipsc_tensor *t) {
    const int turned = t->ndim == 2 && !c->family->experts_rows;
    const size_t out = t->shape[0], in = t->ndim == 2 ? t->shape[1] : 0;
    t->ndim++;
    t->shape[0] = c->experts;
    t->shape[1] = turned ? in : out;
    if (t->ndim == 3) t->shape[2] = turned ? out : in;
    t->count *= c->experts;
}

static int of_experts(const lipsc_config *c, lipsc_role role) {
    return c->experts && role >= LIPSC_MLP_ROLES && role < LIPSC_ROUTER;
}

int lipsc_tensor_is_own(const lipsc_config *c, lipsc_role role) {
    const char *pattern = c->family->tensor[role];
    return pattern && of_experts(c, role) && strchr(pattern, '@');
}

size_t lipsc_tensor_copies(const lipsc_config *c, lipsc_role role) {
    return lipsc_tensor_is_own(c, role) ? c->experts : 1;
}

int lipsc_tensor_expert(const lipsc_config *c, lipsc_role role, size_t layer, size_t expert,
                        lipsc_tensor *out) {
    const char *pattern = c->family->tensor[role];
    if (!pattern || !has_role(c, role, layer)) return 0;
    make_name(pattern, layer, expert, out->name, sizeof out->name);
    set_shape(c, role, out);
    if (of_experts(c, role) && !lipsc_tensor_is_own(c, role)) stack_experts(c, out);
    set_start(c, role, out);
    return 1;
}

int lipsc_tensor_describe(const lipsc_config *c, lipsc_role role, size_t layer,
                          lipsc_tensor *out) {
    return lipsc_tensor_expert(c, role, layer, 0, out);
}
