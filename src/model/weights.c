/* weights.c - a model's weights as the core and the back end want them, made when they are
 * first needed; hold.c says how long they stay.
 *
 * Attention weights stay in double beside their packed form: a value found in f32 is
 * re-evaluated with them.  Dense layers are kept packed only. */
#define _POSIX_C_SOURCE 200809L /* pthread_mutex_t */
#include "model/state.h"

#include "attn/norms.h"
#include "core/error.h"
#include "core/mem.h"

#include <string.h>

lipsc_status lipsc_short_of_weights(const lipsc_model *m, lipsc_error *err) {
    return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory for the weights", m->shown);
}

lipsc_status lipsc_short_of_tokens(const lipsc_model *m, size_t n, lipsc_error *err) {
    return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory for %zu tokens", m->shown, n);
}

/* count numbers of a tensor, the first of them at `from`; *out stays NULL on failure. */
static lipsc_status read_numbers(const lipsc_model *m, const lipsc_tensor *tensor,
                                 size_t from, size_t count, double **out,
                                 lipsc_error *err) {
    double *values = lipsc_alloc(count, sizeof *values);
    if (!values) return lipsc_short_of_weights(m, err);
    const lipsc_status status =
        lipsc_tensors_read(&m->tensors, tensor, from, count, values, err);
    if (status)
        lipsc_release(values);
    else
        *out = values;
    return status;
}

lipsc_status lipsc_model_load(const lipsc_model *m, lipsc_role role, size_t layer,
                              double **out, lipsc_error *err) {
    lipsc_tensor tensor;
    *out = NULL;
    if (!lipsc_tensor_describe(&m->config, role, layer, &tensor)) return LIPSC_OK;
    return read_numbers(m, &tensor, 0, tensor.count, out, err);
}

/* ---- Attention ---------------------------------------------------------------------- */

lipsc_status lipsc_model_layer(lipsc_model *m, size_t layer, long head, lipsc_map_kind map,
                               const lipsc_mask *mask_override, lipsc_layer *out,
                               lipsc_error *err) {
    pthread_mutex_lock(&m->lock);
    lipsc_status status =
        lipsc_attention_layer(m, layer, head, map != LIPSC_MAP_HEADS, out, err);
    if (!status) m->blocks[layer].holders++; /* for good */
    pthread_mutex_unlock(&m->lock);
    if (!status) status = lipsc_model_mask(m, layer, mask_override, &out->mask, err);
    return status;
}

/* Both ways round, in both precisions: a value that f32 found is judged in double. */
static uint64_t packed_bytes(const lipsc_layer *l) {
    const uint64_t key = l->key_dim * (l->heads + l->kv_heads);
    const uint64_t value = l->value_dim * (l->kv_heads + (l->O ? l->heads : 0));
    return 2 * (sizeof(float) + sizeof(double)) * l->d * (key + value);
}

/* Of a block's packed attention; head -1: all of them. */
static size_t packed_slot(long head, int with_output) {
    return 2 * (size_t)(head + 1) + (with_output != 0);
}

lipsc_status lipsc_model_packed(lipsc_model *m, size_t layer, long head, int with_output,
                                lipsc_packed **out, lipsc_error *err) {
    lipsc_layer l;
    pthread_mutex_lock(&m->lock);
    lipsc_status status = lipsc_attention_layer(m, layer, head, with_output, &l, err);
    if (!status) {
        lipsc_packed **slot = &m->blocks[layer].packed[packed_slot(head, with_output)];
        if (!*slot) {
            status = lipsc_packed_new(&l, 0, slot, err);
            lipsc_model_count(m, layer, packed_bytes(&l));
        }
        *out = *slot;
    }
    pthread_mutex_unlock(&m->lock);
    return status;
}

/* ---- Dense layers ------------------------------------------------------------------- */

/* Up or gate as a part of one matrix: the gate's rows come first. */
static lipsc_status load_half(const lipsc_model *m, lipsc_role role, size_t layer, int up,
                              double **out, lipsc_error *err) {
    lipsc_tensor tensor;
    *out = NULL;
    if (!lipsc_tensor_describe(&m->config, role, layer, &tensor)) return LIPSC_OK;
    const size_t half = tensor.count / 2;
    return read_numbers(m, &tensor, up ? half : 0, half, out, err);
}

lipsc_status lipsc_model_load_mlp(const lipsc_model *m, size_t layer, int what, int bias,
                                  double **out, lipsc_error *err) {
    static const lipsc_role weight[] = {LIPSC_UP, LIPSC_GATE, LIPSC_DOWN};
    const lipsc_role role = (lipsc_role)(weight[what] + bias);
    if (m->config.family->tensor[LIPSC_GATE_UP] && what != LIPSC_DENSE_DOWN)
        return load_half(m, (lipsc_role)(LIPSC_GATE_UP + bias), layer,
                         what == LIPSC_DENSE_UP, out, err);
    return lipsc_model_load(m, role, layer, out, err);
}

static uint64_t dense_bytes(const lipsc_model *m, size_t in, size_t out,
                            lipsc_dtype dtype) {
    return (uint64_t)in * out * lipsc_device_space(m->home, dtype)->item;
}

static uint64_t dense_numbers(const lipsc_model *m) {
    return (uint64_t)m->config.d * m->config.ffn;
}

/* A dense map of the MLP: which of the file, towards the output or back, and its widths. */
typedef struct {
    int what, back;
    size_t in, out;
} dense_shape;

static dense_shape shape_of(const lipsc_config *c, lipsc_dense which) {
    const int back = which >= LIPSC_DENSE_UP_BACK;
    const int what = back ? (int)which - LIPSC_DENSE_UP_BACK : (int)which;
    /* towards the output: d -> ffn, or for `down` ffn -> d */
    const int narrows = (what == LIPSC_DENSE_DOWN) != back;
    return (dense_shape){what, back, narrows ? c->ffn : c->d, narrows ? c->d : c->ffn};
}

/* w: its numbers, if they have been read, which are then freed. */
static lipsc_status make_dense(const lipsc_model *m, size_t layer, lipsc_dense which,
                               lipsc_dtype dtype, double *w, void **out, lipsc_error *err) {
    const lipsc_config *c = &m->config;
    const dense_shape of = shape_of(c, which);
    double *b = NULL;
    lipsc_status status =
        w ? LIPSC_OK : lipsc_model_load_mlp(m, layer, of.what, 0, &w, err);
    if (!status && !of.back) status = lipsc_model_load_mlp(m, layer, of.what, 1, &b, err);
    if (!status)
        status = lipsc_device_table(m->home)->linear_new(m->home, of.in, of.out, w,
                                                         c->family->transposed != of.back,
                                                         b, dtype, out, err);
    lipsc_release(w);
    lipsc_release(b);
    return status;
}

double *lipsc_model_take_ahead(lipsc_model *m, lipsc_block *block, int what) {
    double *w = block->ahead[what];
    block->ahead[what] = NULL;
    if (w) m->ahead -= dense_numbers(m) * sizeof *w;
    return w;
}

/* The lock is held. */
static double *take_ahead(lipsc_model *m, size_t layer, lipsc_dense which) {
    return lipsc_model_take_ahead(m, &m->blocks[layer], shape_of(&m->config, which).what);
}

lipsc_status lipsc_model_dense(lipsc_model *m, size_t layer, lipsc_dense which,
                               lipsc_dtype dtype, const void **out, lipsc_error *err) {
    lipsc_status status = LIPSC_OK;
    pthread_mutex_lock(&m->lock);
    void **slot = &m->blocks[layer].dense[dtype][which];
    if (!*slot) {
        double *w = take_ahead(m, layer, which);
        status = make_dense(m, layer, which, dtype, w, slot, err);
        if (!status)
            lipsc_model_count(m, layer, dense_bytes(m, m->config.d, m->config.ffn, dtype));
    }
    *out = *slot;
    pthread_mutex_unlock(&m->lock);
    return status;
}

/* The same in advance, without the lock while it is made. */
static void warm_dense(lipsc_model *m, size_t layer, lipsc_dense which, lipsc_dtype dtype) {
    void **slot = &m->blocks[layer].dense[dtype][which], *made = NULL;
    pthread_mutex_lock(&m->lock);
    const int wanted = !*slot;
    double *w = wanted ? take_ahead(m, layer, which) : NULL;
    pthread_mutex_unlock(&m->lock);
    if (!wanted || make_dense(m, layer, which, dtype, w, &made, NULL)) return;
    pthread_mutex_lock(&m->lock);
    if (!*slot) {
        *slot = made;
        made = NULL;
        lipsc_model_count(m, layer, dense_bytes(m, m->config.d, m->config.ffn, dtype));
    }
    w = take_ahead(m, layer, which); /* read while it was made */
    pthread_mutex_unlock(&m->lock);
    lipsc_release(w);
    lipsc_device_table(m->home)->linear_free(m->home, made); /* somebody was faster */
}

/* All heads with their output: checked without the lock, for which others wait. */
static lipsc_packed *warm_packed(lipsc_model *m, size_t layer) {
    lipsc_layer l;
    lipsc_packed *made = NULL, *packed;
    pthread_mutex_lock(&m->lock);
    lipsc_status status = lipsc_attention_layer(m, layer, -1, 1, &l, NULL);
    packed = status ? NULL : m->blocks[layer].packed[packed_slot(-1, 1)];
    pthread_mutex_unlock(&m->lock);
    if (!status && !packed) status = lipsc_packed_new(&l, 0, &made, NULL);
    if (status || packed) return packed;
    pthread_mutex_lock(&m->lock);
    lipsc_packed **slot = &m->blocks[layer].packed[packed_slot(-1, 1)];
    if (!*slot) {
        *slot = made;
        made = NULL;
        lipsc_model_count(m, layer, packed_bytes(&l));
    }
    packed = *slot;
    pthread_mutex_unlock(&m->lock);
    lipsc_packed_free(made); /* somebody was faster */
    return packed;
}

/* What of attention is the host's, the norms that values are judged with among it. */
static lipsc_packed *prepare_attention(lipsc_model *m, size_t layer) {
    const lipsc_head_norms *norms;
    lipsc_attention_warm(m, layer);
    lipsc_packed *packed = warm_packed(m, layer);
    if (packed) (void)!lipsc_packed_norms(packed, &norms);
    return packed;
}

static void warm_attention(lipsc_model *m, size_t layer, lipsc_dtype dtype,
                           const lipsc_device *device) {
    const void *made;
    lipsc_packed *packed = prepare_attention(m, layer);
    if (packed && !lipsc_packed_weights(packed, device, dtype, &made, NULL))
        (void)!lipsc_packed_weights(packed, device, LIPSC_F64, &made, NULL);
}

static int has_dense(const lipsc_model *m, lipsc_dense which) {
    return !m->config.experts &&
           (lipsc_config_gated(&m->config) || which != LIPSC_DENSE_GATE);
}

static const lipsc_dense dense_of_part[] = {LIPSC_DENSE_UP, LIPSC_DENSE_GATE,
                                            LIPSC_DENSE_DOWN};

void lipsc_model_warm(lipsc_model *m, size_t layer, int part, lipsc_dtype dtype,
                      const lipsc_device *device) {
    if (part == 0)
        warm_attention(m, layer, dtype, device);
    else if (has_dense(m, dense_of_part[part - 1]))
        warm_dense(m, layer, dense_of_part[part - 1], dtype);
}

/* ---- Ahead of a device -------------------------------------------------------------- */

static const uint64_t most_ahead = UINT64_C(512) << 20; /* bytes of dense layers */

/* The lock is held: whether nobody has read it, or made anything of it. */
static int is_unread(const lipsc_block *block, lipsc_dense which) {
    return !block->ahead[which] && !block->dense[LIPSC_F32][which] &&
           !block->dense[LIPSC_F64][which];
}

/* Whether there is room for it; the room is then taken. */
static int begin_ahead(lipsc_model *m, size_t layer, lipsc_dense which) {
    const uint64_t bytes = dense_numbers(m) * sizeof(double);
    pthread_mutex_lock(&m->lock);
    const int wanted =
        is_unread(&m->blocks[layer], which) && m->ahead + bytes <= most_ahead;
    if (wanted) m->ahead += bytes;
    pthread_mutex_unlock(&m->lock);
    return wanted;
}

static void read_dense(lipsc_model *m, size_t layer, lipsc_dense which) {
    double *w = NULL;
    if (!begin_ahead(m, layer, which)) return;
    if (lipsc_model_load_mlp(m, layer, which, 0, &w, NULL)) w = NULL;
    pthread_mutex_lock(&m->lock);
    lipsc_block *block = &m->blocks[layer];
    if (w && is_unread(block, which)) {
        block->ahead[which] = w;
        w = NULL;
    } else {
        m->ahead -= dense_numbers(m) * sizeof *w;
    }
    pthread_mutex_unlock(&m->lock);
    lipsc_release(w);
}

void lipsc_model_read(lipsc_model *m, size_t layer, int part) {
    if (part == 0)
        (void)!prepare_attention(m, layer);
    else if (has_dense(m, dense_of_part[part - 1]))
        read_dense(m, layer, dense_of_part[part - 1]);
}

/* ---- Experts ------------------------------------------------------------------------ */

/* One expert's numbers out of its own tensor, or out of the one of all experts. */
static lipsc_status load_expert(const lipsc_model *m, lipsc_role role, size_t layer,
                                size_t expert, double **out, lipsc_error *err) {
    const lipsc_config *c = &m->config;
    lipsc_tensor tensor;
    *out = NULL;
    if (!lipsc_tensor_expert(c, role, layer, expert, &tensor)) return LIPSC_OK;
    const int own = lipsc_tensor_is_own(c, role);
    const size_t count = own ? tensor.count : tensor.count / c->experts;
    return read_numbers(m, &tensor, own ? 0 : expert * count, count, out, err);
}

/* Every second number, in place: gate and up alternate. */
static void take_alternate(size_t count, int odd, double *x) {
    for (size_t i = 0; i < count; i++) x[i] = x[2 * i + (size_t)odd];
}

lipsc_status lipsc_model_load_expert(const lipsc_model *m, size_t layer, size_t expert,
                                     int what, int bias, double **out, int *transposed,
                                     lipsc_error *err) {
    static const lipsc_role roles[] = {LIPSC_UP, LIPSC_GATE, LIPSC_DOWN};
    const lipsc_config *c = &m->config;
    const int fused = c->family->tensor[LIPSC_GATE_UP] && what != LIPSC_DENSE_DOWN;
    const lipsc_role role = (lipsc_role)((fused ? LIPSC_GATE_UP : roles[what]) + bias);
    *transposed = !lipsc_tensor_is_own(c, role) && !c->family->experts_rows;
    const lipsc_status status = load_expert(m, role, layer, expert, out, err);
    if (!status && *out && fused)
        take_alternate(bias ? c->ffn : c->ffn * c->d, what == LIPSC_DENSE_UP, *out);
    return status;
}

static lipsc_status make_router(lipsc_model *m, size_t layer, int back, lipsc_dtype dtype,
                                void **out, lipsc_error *err) {
    const size_t d = m->config.d, experts = m->config.experts;
    double *w = NULL, *b = NULL;
    lipsc_status status = lipsc_model_load(m, LIPSC_ROUTER, layer, &w, err);
    if (!status && !back) status = lipsc_model_load(m, LIPSC_ROUTER_BIAS, layer, &b, err);
    if (!status)
        status = lipsc_device_table(m->home)->linear_new(
            m->home, back ? experts : d, back ? d : experts, w, back, b, dtype, out, err);
    lipsc_release(w);
    lipsc_release(b);
    return status;
}

static lipsc_status make_expert(lipsc_model *m, size_t layer, lipsc_dense which,
                                size_t expert, lipsc_dtype dtype, void **out,
                                lipsc_error *err) {
    const dense_shape of = shape_of(&m->config, which);
    double *w = NULL, *b = NULL;
    int transposed = 0, ignored;
    lipsc_status status =
        lipsc_model_load_expert(m, layer, expert, of.what, 0, &w, &transposed, err);
    if (!status && !of.back)
        status = lipsc_model_load_expert(m, layer, expert, of.what, 1, &b, &ignored, err);
    if (!status)
        status = lipsc_device_table(m->home)->linear_new(
            m->home, of.in, of.out, w, transposed != of.back, b, dtype, out, err);
    if (!status) lipsc_model_count(m, layer, dense_bytes(m, of.in, of.out, dtype));
    lipsc_release(w);
    lipsc_release(b);
    return status;
}

lipsc_status lipsc_model_expert(lipsc_model *m, size_t layer, lipsc_dense which,
                                size_t expert, lipsc_dtype dtype, const void **out,
                                lipsc_error *err) {
    lipsc_status status = LIPSC_OK;
    pthread_mutex_lock(&m->lock);
    void ***slots = &m->blocks[layer].experts[dtype];
    if (!*slots)
        *slots =
            lipsc_alloc_zero(m->config.experts * LIPSC_DENSE_OF_EXPERT, sizeof **slots);
    void **slot = *slots ? *slots + expert * LIPSC_DENSE_OF_EXPERT + which : NULL;
    if (!slot)
        status = lipsc_short_of_weights(m, err);
    else if (!*slot && which >= LIPSC_ROUTER_FORTH)
        status = make_router(m, layer, which == LIPSC_ROUTER_BACK, dtype, slot, err);
    else if (!*slot)
        status = make_expert(m, layer, which, expert, dtype, slot, err);
    *out = slot ? *slot : NULL;
    pthread_mutex_unlock(&m->lock);
    return status;
}

/* ---- Norms -------------------------------------------------------------------------- */

/* The bias is the role after the gain's. */
static lipsc_status make_norm(lipsc_model *m, lipsc_role gain, size_t layer,
                              lipsc_dtype dtype, lipsc_norm *out, lipsc_error *err) {
    const lipsc_space *space = lipsc_device_space(m->home, dtype);
    const size_t d = m->config.d;
    double *g = NULL, *b = NULL;
    lipsc_norm norm = {0};
    lipsc_status status = lipsc_model_load(m, gain, layer, &g, err);
    if (!status) status = lipsc_model_load(m, (lipsc_role)(gain + 1), layer, &b, err);
    if (!status) {
        norm.gain = lipsc_space_alloc(space, d);
        if (b) norm.bias = lipsc_space_alloc(space, d);
        if (!norm.gain.at || (b && !norm.bias.at)) status = lipsc_short_of_weights(m, err);
    }
    if (!status) status = lipsc_space_upload(space, d, g, norm.gain);
    if (!status && b) status = lipsc_space_upload(space, d, b, norm.bias);
    if (!status) {
        *out = norm;
    } else {
        lipsc_space_release(space, norm.gain);
        lipsc_space_release(space, norm.bias);
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
    if (!slot->gain.at) status = make_norm(m, gain, layer, dtype, slot, err);
    pthread_mutex_unlock(&m->lock);
    *out = slot;
    return status;
}

lipsc_status lipsc_model_norm(lipsc_model *m, size_t layer, lipsc_norm_place place,
                              lipsc_dtype dtype, const lipsc_norm **out, lipsc_error *err) {
    lipsc_role role;
    *out = NULL;
    if (!lipsc_config_norm(&m->config, layer, place, &role)) return LIPSC_OK;
    return get_norm(m, role, layer, dtype, &m->blocks[layer].norm[dtype][place], out, err);
}

/* The factor of each component of what attention or the MLP adds. */
static lipsc_status make_factor(lipsc_model *m, size_t layer, lipsc_role role,
                                lipsc_dtype dtype, lipsc_buffer *out, lipsc_error *err) {
    const lipsc_space *space = lipsc_device_space(m->home, dtype);
    const size_t d = m->config.d;
    double *values = NULL;
    lipsc_status status = lipsc_model_load(m, role, layer, &values, err);
    if (!status && !values) {
        values = lipsc_alloc(d, sizeof *values);
        if (!values) return lipsc_short_of_weights(m, err);
        for (size_t c = 0; c < d; c++) values[c] = 1;
    }
    if (!status) {
        for (size_t c = 0; c < d; c++) values[c] *= m->config.residual_factor;
        *out = lipsc_space_alloc(space, d);
        status = out->at ? lipsc_space_upload(space, d, values, *out)
                         : lipsc_short_of_weights(m, err);
    }
    lipsc_release(values);
    return status;
}

lipsc_status lipsc_model_factor(lipsc_model *m, size_t layer, lipsc_branch branch,
                                lipsc_dtype dtype, lipsc_buffer *out, lipsc_error *err) {
    const lipsc_role role =
        branch == LIPSC_BRANCH_ATTN ? LIPSC_ATTN_SCALE : LIPSC_MLP_SCALE;
    lipsc_status status = LIPSC_OK;
    *out = LIPSC_NOWHERE;
    if (!m->config.family->tensor[role] && m->config.residual_factor == 1) return LIPSC_OK;
    pthread_mutex_lock(&m->lock);
    lipsc_buffer *slot = &m->blocks[layer].factor[dtype][branch];
    if (!slot->at) status = make_factor(m, layer, role, dtype, slot, err);
    *out = *slot;
    pthread_mutex_unlock(&m->lock);
    return status;
}

lipsc_status lipsc_model_embed_norm(lipsc_model *m, lipsc_dtype dtype,
                                    const lipsc_norm **out, lipsc_error *err) {
    *out = NULL;
    if (!m->config.family->tensor[LIPSC_EMBED_NORM] || m->config.embed_projected)
        return LIPSC_OK;
    return get_norm(m, LIPSC_EMBED_NORM, 0, dtype, &m->embed_norm[dtype], out, err);
}

lipsc_status lipsc_model_final_norm(lipsc_model *m, lipsc_dtype dtype,
                                    const lipsc_norm **out, lipsc_error *err) {
    *out = NULL;
    if (!m->config.family->tensor[LIPSC_FINAL_NORM] || m->config.norm_last) return LIPSC_OK;
    return get_norm(m, LIPSC_FINAL_NORM, 0, dtype, &m->final_norm[dtype], out, err);
}
