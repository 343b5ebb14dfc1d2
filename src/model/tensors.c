/* tensors.c - a model's numbers by role: from its files, or made at random.
 *
 * Random weights follow the published initialisation of each family: normal with deviation
 * initializer_range, biases zero, norms one, the embedding of the padding token zero; gpt2
 * divides the deviation of its two projections into the residual stream by
 * sqrt(2 layers).  The i-th number of a tensor depends on the seed, the name and i alone,
 * and is rounded to float, as a saved checkpoint would hold it. */
#include "model/tensors.h"

#include "core/error.h"
#include "core/rng.h"
#include "io/mxfp4.h"
#include "io/show.h"

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

/* ---- From files --------------------------------------------------------------------- */

/* Under one of the family's prefixes, or as it is. */
static int find_part(const lipsc_tensors *t, const lipsc_tensor *tensor, const char *suffix,
                     lipsc_stored *found) {
    char name[sizeof tensor->name + 48];
    const char *const *prefix = t->config->family->prefix;
    for (size_t p = 0; p < LIPSC_PREFIXES && prefix[p]; p++) {
        snprintf(name, sizeof name, "%s%s%s", prefix[p], tensor->name, suffix);
        if (lipsc_checkpoint_find(t->files, name, found)) return 1;
    }
    snprintf(name, sizeof name, "%s%s", tensor->name, suffix);
    return lipsc_checkpoint_find(t->files, name, found);
}

static int find(const lipsc_tensors *t, const lipsc_tensor *tensor, lipsc_stored *found) {
    return find_part(t, tensor, "", found);
}

/* The weights of all experts in four bits: NAME_blocks and NAME_scales. */
typedef struct {
    lipsc_stored blocks, scales;
} packed_pair;

static int find_packed(const lipsc_tensors *t, const lipsc_tensor *tensor,
                       packed_pair *found) {
    return tensor->ndim == 3 && find_part(t, tensor, "_blocks", &found->blocks) &&
           find_part(t, tensor, "_scales", &found->scales);
}

void lipsc_tensors_forget(const lipsc_tensors *t, const lipsc_tensor *tensor) {
    lipsc_stored found;
    if (t->files && find(t, tensor, &found)) lipsc_stored_forget(&found);
}

int lipsc_tensors_has(const lipsc_tensors *t, const lipsc_tensor *tensor) {
    lipsc_stored found;
    packed_pair packed;
    return !t->files || find(t, tensor, &found) || find_packed(t, tensor, &packed);
}

/* Leading ones do not count: (1, n, d) is (n, d). */
static int same_shape(const lipsc_stored *found, const lipsc_tensor *tensor) {
    size_t extra = 0;
    while (extra < found->ndim && found->ndim - extra > tensor->ndim &&
           found->shape[extra] == 1)
        extra++;
    int same = found->ndim - extra == tensor->ndim;
    for (size_t i = 0; same && i < tensor->ndim; i++)
        same = found->shape[extra + i] == tensor->shape[i];
    return same;
}

static lipsc_status check_shape(const lipsc_stored *found, const lipsc_tensor *tensor,
                                const char *suffix, lipsc_error *err) {
    if (same_shape(found, tensor)) return LIPSC_OK;
    char stored[LIPSC_SHOWN_SHAPE], needed[LIPSC_SHOWN_SHAPE];
    lipsc_show_shape(found->ndim, found->shape, stored);
    lipsc_show_shape(tensor->ndim, tensor->shape, needed);
    return lipsc_fail(err, LIPSC_E_FORMAT,
                      "%s: tensor '%s%s' has shape %s, but config.json makes it %s",
                      found->file, tensor->name, suffix, stored, needed);
}

/* tensor is (experts, in, out); blocks are (experts, out, in / 32, 16). */
static lipsc_status check_packed(const packed_pair *packed, const lipsc_tensor *tensor,
                                 lipsc_error *err) {
    const lipsc_stored *parts[] = {&packed->blocks, &packed->scales};
    for (size_t i = 0; i < 2; i++)
        if (strcmp(parts[i]->dtype, "U8") || !parts[i]->in_st)
            return lipsc_fail(
                err, LIPSC_E_FORMAT, "%s: tensor '%s%s' has dtype %s, but U8 is needed",
                parts[i]->file, tensor->name, i ? "_scales" : "_blocks", parts[i]->dtype);
    if (tensor->shape[1] % LIPSC_MXFP4_BLOCK)
        return lipsc_fail(err, LIPSC_E_FORMAT,
                          "%s: tensor '%s' has %zu columns, which are no blocks of %d",
                          packed->blocks.file, tensor->name, tensor->shape[1],
                          LIPSC_MXFP4_BLOCK);
    lipsc_tensor needed = *tensor;
    needed.ndim = 4;
    needed.shape[1] = tensor->shape[2];
    needed.shape[2] = tensor->shape[1] / LIPSC_MXFP4_BLOCK;
    needed.shape[3] = LIPSC_MXFP4_BLOCK / 2;
    lipsc_status status = check_shape(&packed->blocks, &needed, "_blocks", err);
    needed.ndim = 3;
    return status ? status : check_shape(&packed->scales, &needed, "_scales", err);
}

lipsc_status lipsc_tensors_check(const lipsc_tensors *t, const lipsc_tensor *tensor,
                                 lipsc_error *err) {
    if (!t->files) return LIPSC_OK;
    lipsc_stored found;
    packed_pair packed;
    if (!find(t, tensor, &found)) {
        if (find_packed(t, tensor, &packed)) return check_packed(&packed, tensor, err);
        return lipsc_fail(err, LIPSC_E_FORMAT, "%s: tensor '%s' is missing",
                          lipsc_checkpoint_shown(t->files), tensor->name);
    }
    if (!found.readable)
        return lipsc_fail(
            err, LIPSC_E_FORMAT,
            "%s: tensor '%s' has dtype %s, but F64, F32, F16 or BF16 is needed", found.file,
            tensor->name, found.dtype);
    return check_shape(&found, tensor, "", err);
}

enum { MANY = 1 << 16 }; /* numbers: pages of smaller tensors are not worth a call */

static lipsc_status read_stored(const lipsc_tensors *t, const lipsc_tensor *tensor,
                                size_t first, size_t count, double *out, lipsc_error *err) {
    lipsc_stored found;
    packed_pair packed;
    lipsc_status status = lipsc_tensors_check(t, tensor, err);
    if (status) return status;
    if (find(t, tensor, &found)) {
        status = lipsc_stored_read(&found, first, count, out, err);
    } else {
        find_packed(t, tensor, &packed);
        const lipsc_mxfp4 m = {packed.blocks.in_st->data, packed.scales.in_st->data,
                               tensor->shape[2], tensor->shape[1]};
        lipsc_mxfp4_read(&m, first, count, out);
        found = packed.blocks;
    }
    if (count >= MANY) lipsc_stored_forget(&found);
    if (status) return status;
    for (size_t i = 0; i < count; i++)
        if (!isfinite(out[i]))
            return lipsc_fail(err, LIPSC_E_NONFIN,
                              "%s: tensor '%s': entry %zu is not finite", found.file,
                              tensor->name, first + i);
    return LIPSC_OK;
}

/* ---- At random ---------------------------------------------------------------------- */

/* FNV-1a */
static uint64_t hash_name(const char *name) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return hash;
}

static void make_random(const lipsc_tensors *t, const lipsc_tensor *tensor, size_t first,
                        size_t count, double *out) {
    const uint64_t stream = lipsc_rng_bits(t->seed, hash_name(tensor->name));
    const size_t row = tensor->shape[tensor->ndim - 1];
    const size_t end = first + count;
#pragma omp parallel for schedule(static) if (count > 65536)
    for (size_t j = first / 2; j < (end + 1) / 2; j++) { /* numbers come in pairs */
        double pair[2] = {0.0, 0.0};
        if (tensor->deviation != 0) lipsc_rng_normals(stream, j, pair);
        for (size_t at = 2 * j; at < 2 * j + 2; at++) {
            if (at < first || at >= end) continue;
            const int zero =
                tensor->zero_row != LIPSC_NO_TOKEN && at / row == tensor->zero_row;
            out[at - first] = tensor->deviation == 0 ? tensor->constant
                              : zero                 ? 0.0
                                     : (double)(float)(tensor->deviation * pair[at % 2]);
        }
    }
}

lipsc_status lipsc_tensors_read(const lipsc_tensors *t, const lipsc_tensor *tensor,
                                size_t first, size_t count, double *out, lipsc_error *err) {
    lipsc_status status = LIPSC_OK;
    if (t->files)
        status = read_stored(t, tensor, first, count, out, err);
    else
        make_random(t, tensor, first, count, out);
    for (size_t i = 0; !status && tensor->offset != 0 && i < count; i++)
        out[i] += tensor->offset;
    return status;
}
