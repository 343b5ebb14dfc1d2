/* config.c - reads config.json by the description of its family: sizes, options, and the
 * refusal of what is not supported.
 *
 * Where a field is absent, the value is the one that the published code of the family
 * takes; a size that decides the shapes must be there. */
#include "model/config_reader.h"

#include "core/error.h"
#include "core/json.h"
#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- What changes the computation and is not here ----------------------------------- */

/* Weights in the one quantisation that the family may be published in. */
static int is_packed(const lipsc_reader *r, const lipsc_family *f) {
    const json_t *method =
        json_object_get(lipsc_read_field(r, "quantization_config"), "quant_method");
    const char *name = json_string_value(method);
    return f->packed && name && !strcmp(name, f->packed);
}

/* The family itself says what this field may be. */
static int knows(const lipsc_family *f, const char *field) {
    if (f->soft_cap.field && !strcmp(f->soft_cap.field, field)) return 1;
    for (size_t i = 0; i < LIPSC_CONDITIONS; i++)
        if (f->when[i].field && !strcmp(f->when[i].field, field)) return 1;
    for (size_t i = 0; i < LIPSC_REFUSALS; i++)
        if (f->only[i].field && !strcmp(f->only[i].field, field)) return 1;
    return 0;
}

static void refuse_unless(lipsc_reader *r, lipsc_condition allowed) {
    json_t *value = lipsc_read_field(r, allowed.field);
    if (value && !lipsc_read_is(r, allowed))
        lipsc_read_unsupported(r, allowed.field, value);
}

static void refuse_unsupported(lipsc_reader *r, const lipsc_family *f) {
    static const lipsc_condition everywhere[] = {
        {"attn_logit_softcapping", "null"},
        {"attn_logit_softcap", "null"},
        {"adapter_fusion", "null"},
        {"add_cross_attention", "false"},
        {"is_encoder_decoder", "false"},
        {"position_embedding_type", "\"absolute\""},
        {"pruned_heads", "{}"},
        {"is_causal", "true"}};
    for (size_t i = 0; i < sizeof everywhere / sizeof everywhere[0]; i++)
        if (!knows(f, everywhere[i].field)) refuse_unless(r, everywhere[i]);
    for (size_t i = 0; i < LIPSC_REFUSALS && f->only[i].field; i++)
        refuse_unless(r, f->only[i]);
    static const lipsc_condition plain = {"quantization_config", "null"};
    if (!is_packed(r, f)) refuse_unless(r, plain);
}

/* ---- Activations -------------------------------------------------------------------- */

static void read_activation(lipsc_reader *r, lipsc_config *c) {
    static const struct {
        const char *name;
        lipsc_activation kind;
    } known[] = {{"gelu", LIPSC_ACT_GELU},
                 {"gelu_python", LIPSC_ACT_GELU},
                 {"gelu_new", LIPSC_ACT_GELU_TANH},
                 {"gelu_pytorch_tanh", LIPSC_ACT_GELU_TANH},
                 {"gelu_python_tanh", LIPSC_ACT_GELU_TANH},
                 {"gelu_accurate", LIPSC_ACT_GELU_TANH},
                 {"gelu_fast", LIPSC_ACT_GELU_FAST},
                 {"bloom_gelu", LIPSC_ACT_GELU_BLOOM},
                 {"quick_gelu", LIPSC_ACT_GELU_QUICK},
                 {"relu", LIPSC_ACT_RELU},
                 {"silu", LIPSC_ACT_SILU},
                 {"swish", LIPSC_ACT_SILU},
                 {"tanh", LIPSC_ACT_TANH},
                 {"sigmoid", LIPSC_ACT_SIGMOID}};
    const char *key = c->family->field.activation;
    json_t *value = lipsc_read_field(r, key);
    const char *name = value ? json_string_value(value) : c->family->activation;
    if (name && c->family->gelu && !strcmp(name, "gelu")) name = c->family->gelu;
    for (size_t i = 0; name && i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(name, known[i].name)) {
            c->activation = known[i].kind;
            return;
        }
    lipsc_read_unsupported(r, key, value);
}

/* ---- Sizes -------------------------------------------------------------------------- */

static void read_heads(lipsc_reader *r, lipsc_config *c) {
    const lipsc_family *f = c->family;
    c->heads = lipsc_read_size(r, f->field.heads);
    c->kv_heads = c->heads;
    if (f->field.kv_heads) {
        /* null means as many as heads, and so does absent in most families */
        if (f->kv_heads_needed && !lipsc_read_present(r, f->field.kv_heads))
            c->kv_heads = lipsc_read_size(r, f->field.kv_heads);
        else
            c->kv_heads = lipsc_read_size_or(r, f->field.kv_heads, c->heads);
    }
    if (lipsc_read_flag(r, f->one_kv_head)) c->kv_heads = 1;
    if (c->heads % c->kv_heads)
        lipsc_read_wrong(r,
                         "num_key_value_heads = %zu does not divide num_attention_heads "
                         "= %zu",
                         c->kv_heads, c->heads);
    if (!f->field.head_dim) {
        json_t *other = lipsc_read_field(r, "head_dim");
        if (other && (!json_is_integer(other) ||
                      json_integer_value(other) != (json_int_t)(c->d / c->heads)))
            lipsc_read_unsupported(r, "head_dim", other);
    }
    if (!f->field.head_dim && c->d % c->heads)
        lipsc_read_wrong(r, "%s = %zu is not a multiple of %s = %zu", f->field.width, c->d,
                         f->field.heads, c->heads);
    c->head_dim = c->d / c->heads;
    if (f->head_dim && !lipsc_read_present(r, f->field.head_dim)) c->head_dim = f->head_dim;
    if (f->field.head_dim)
        c->head_dim = lipsc_read_size_or(r, f->field.head_dim, c->head_dim);
    if (c->head_dim == 0)
        lipsc_read_wrong(r, "%s = %zu is below %s = %zu", f->field.width, c->d,
                         f->field.heads, c->heads);
}

static size_t read_ffn(lipsc_reader *r, const lipsc_config *c) {
    const lipsc_family *f = c->family;
    const int computed = f->ffn_times.field || f->ffn_times.otherwise > 0;
    if (f->field.ffn && (!computed || lipsc_read_field(r, f->field.ffn)))
        return lipsc_read_size(r, f->field.ffn);
    const double width = lipsc_read_number(r, f->ffn_times) * (double)c->d;
    if (width >= 1 && width <= LIPSC_LARGEST_SIZE)
        return f->ffn_thirds ? (size_t)(floor(width) * 2 / 3 + 7) / 8 * 8 : (size_t)width;
    lipsc_read_wrong(r, "field '%s' makes an MLP of width %g, which is not supported",
                     f->ffn_times.field ? f->ffn_times.field : f->field.width, width);
    return 1;
}

static void read_sizes(lipsc_reader *r, lipsc_config *c) {
    const lipsc_family *f = c->family;
    c->layers = lipsc_read_size(r, f->field.layers);
    c->d = lipsc_read_size(r, f->field.width);
    if (c->layers > LIPSC_MOST_LAYERS)
        lipsc_read_wrong(r, "field '%s' is %zu, which is not supported", f->field.layers,
                         c->layers);
    read_heads(r, c);
    if (!f->pixels) c->vocab = lipsc_read_size(r, "vocab_size");
    if (f->tensor[LIPSC_POSITIONS] && !f->pixels)
        c->positions = lipsc_read_size(r, f->field.positions);
    else
        c->positions = lipsc_read_size_or(r, f->field.positions, 0);
    c->ffn = read_ffn(r, c);
    if (f->tensor[LIPSC_TYPES]) c->types = lipsc_read_size(r, "type_vocab_size");
    const lipsc_number eps = {f->field.eps, f->eps};
    c->norm_eps = lipsc_read_number(r, eps);
    const lipsc_number range = {"initializer_range|init_std", 0.02};
    c->initializer_range = lipsc_read_number(r, range);
}

/* ---- The input ---------------------------------------------------------------------- */

static void read_text(lipsc_reader *r, lipsc_config *c) {
    const lipsc_family *f = c->family;
    const lipsc_flag dropout = {f->mask_dropout, 0}, sines = {"sinusoidal_pos_embds", 0};
    c->pad = f->pad_fixed ? f->pad : lipsc_read_token(r, "pad_token_id", f->pad);
    c->sinusoidal = lipsc_read_flag(r, sines);
    c->mask_dropout = lipsc_read_flag(r, dropout);
    c->mask_token = lipsc_read_token(r, "mask_token_id", LIPSC_NO_TOKEN);
    if (f->position_after_pad && (c->pad == LIPSC_NO_TOKEN || c->pad + 1 >= c->positions))
        lipsc_read_wrong(r, "field 'pad_token_id' leaves no room for positions, which "
                            "begin after it");
    const lipsc_number times = {f->embed_multiplier, 1};
    c->embed_factor = lipsc_read_number(r, times);
    if (f->embed_root) c->embed_factor *= sqrt((double)c->d);
    c->embed_width = lipsc_read_size_or(r, f->embed_width, c->d);
    c->embed_projected = c->embed_width != c->d || f->embed_projected;
    if (c->embed_projected && !f->tensor[LIPSC_EMBED_PROJECT])
        lipsc_read_unsupported(r, f->embed_width, lipsc_read_field(r, f->embed_width));
}

static void read_image(lipsc_reader *r, lipsc_config *c) {
    const lipsc_family *f = c->family;
    c->embed_factor = 1;
    c->embed_width = c->d;
    c->channels = lipsc_read_size_or(r, "num_channels", 3);
    lipsc_read_pair(r, "image_size", c->image);
    lipsc_read_pair(r, "patch_size", c->patch);
    for (size_t i = 0; i < 2; i++)
        if (c->patch[i] > c->image[i])
            lipsc_read_wrong(r, "patch_size %zu is larger than image_size %zu", c->patch[i],
                             c->image[i]);
    size_t patches, area, inner;
    if (!lipsc_mul_size(c->image[0] / c->patch[0], c->image[1] / c->patch[1], &patches) ||
        patches >= LIPSC_LARGEST_SIZE)
        lipsc_read_wrong(r, "image_size and patch_size make too many patches");
    else
        c->positions = patches + (f->tensor[LIPSC_CLASS_TOKEN] != NULL) +
                       (f->tensor[LIPSC_DISTILLATION_TOKEN] != NULL);
    if (!lipsc_mul_size(c->patch[0], c->patch[1], &area) || area > LIPSC_LARGEST_SIZE ||
        !lipsc_mul_size(area, c->channels, &inner) || inner > LIPSC_LARGEST_SIZE)
        lipsc_read_wrong(r, "field 'patch_size' makes patches that are too large");
}

/* ---- The block ---------------------------------------------------------------------- */

static void read_scale(lipsc_reader *r, lipsc_config *c) {
    const lipsc_family *f = c->family;
    const lipsc_number factor = {f->scale, 1};
    double under = lipsc_read_number(r, f->scale_root);
    if (under == 0 && !lipsc_read_field(r, f->scale_root.field))
        under = (double)c->head_dim;
    c->scale = lipsc_read_flag(r, f->unscaled) ? 1 : 1 / sqrt(under);
    if (f->scale) c->scale = lipsc_read_number(r, factor);
    if (!(c->scale > 0) || !isfinite(c->scale))
        lipsc_read_wrong(r, "field '%s' makes scores that are all zero",
                         f->scale ? f->scale : f->scale_root.field);
    c->scale_by_layer = lipsc_read_flag(r, f->scale_by_layer);
}

/* null: none.  A cap of zero would make every score zero. */
static double read_soft_cap(lipsc_reader *r, lipsc_number cap) {
    json_t *value = lipsc_read_field(r, cap.field);
    if (!value && lipsc_read_present(r, cap.field)) return 0;
    const double number = lipsc_read_number(r, cap);
    if (value && number == 0) lipsc_read_unsupported(r, cap.field, value);
    return number;
}

static void read_scores(lipsc_reader *r, lipsc_config *c) {
    const lipsc_family *f = c->family;
    c->soft_cap = read_soft_cap(r, f->soft_cap);
    c->alibi = lipsc_read_flag(r, f->alibi);
    if (!f->tensor[LIPSC_SCORE_BIAS]) return;
    c->buckets = lipsc_read_count(r, f->buckets);
    c->bucket_distance = lipsc_read_count(r, f->bucket_distance);
    if (c->buckets < 4 || c->buckets % 4 || c->bucket_distance <= c->buckets / 4)
        lipsc_read_wrong(r, "%zu buckets up to a distance of %zu are not supported",
                         c->buckets, c->bucket_distance);
}

static void read_experts(lipsc_reader *r, lipsc_config *c) {
    const lipsc_family *f = c->family;
    if (!f->experts) return;
    c->experts = lipsc_read_size(r, f->experts);
    c->experts_used = lipsc_read_size(r, f->experts_used);
    c->glu_alpha = lipsc_read_number(r, f->glu_alpha);
    c->glu_limit = lipsc_read_number(r, f->glu_limit);
    if (f->glu_limit.field && !(c->glu_limit > 0))
        lipsc_read_unsupported(r, f->glu_limit.field,
                               lipsc_read_field(r, f->glu_limit.field));
    if (c->experts > LIPSC_MOST_LAYERS || c->experts_used > c->experts)
        lipsc_read_wrong(r, "%zu experts, %zu for each token, are not supported",
                         c->experts, c->experts_used);
}

/* Behind the last hidden state: sigma does not depend on it, so nothing is refused here. */
static void read_output(lipsc_reader *r, lipsc_config *c) {
    const json_t *tied = lipsc_read_field(r, "tie_word_embeddings");
    const json_t *cap = lipsc_read_field(r, "final_logit_softcapping");
    c->tied = !tied || json_is_true(tied);
    c->logit_cap = !cap ? 0 : json_is_number(cap) ? json_number_value(cap) : -1;
}

static void read_block(lipsc_reader *r, lipsc_config *c) {
    const lipsc_family *f = c->family;
    read_output(r, c);
    c->causal = lipsc_read_flag(r, f->causal);
    c->parallel = lipsc_read_flag(r, f->parallel);
    c->norm_last = lipsc_read_flag(r, f->norm_last);
    c->qkv_bias = lipsc_read_flag(r, f->qkv_bias);
    c->out_bias = lipsc_read_flag(r, f->out_bias);
    c->mlp_bias = lipsc_read_flag(r, f->mlp_bias);
    const lipsc_number times = {f->residual_multiplier, 1};
    c->residual_factor = lipsc_read_number(r, times);
    read_scale(r, c);
    read_scores(r, c);
    read_experts(r, c);
}

/* Widths of the dense layers stay below LIPSC_LARGEST_SIZE, so that a tensor's size is
 * exact. */
static void check_products(lipsc_reader *r, const lipsc_config *c) {
    size_t heads;
    if (!lipsc_mul_size(c->heads, c->head_dim, &heads) || heads > LIPSC_LARGEST_SIZE)
        lipsc_read_wrong(r, "%zu heads of %zu components are too many", c->heads,
                         c->head_dim);
}

/* ---- All of it ---------------------------------------------------------------------- */

static int applies(const lipsc_reader *r, const lipsc_family *f, const char *name) {
    if (strcmp(f->name, name)) return 0;
    for (size_t i = 0; i < LIPSC_CONDITIONS && f->when[i].field; i++)
        if (!lipsc_read_is(r, f->when[i])) return 0;
    return 1;
}

static void find_family(lipsc_reader *r, lipsc_config *c) {
    json_t *type = json_object_get(r->root, "model_type");
    const char *name = json_string_value(type);
    if (!name) {
        lipsc_read_not_a(r, "model_type", type, "a name");
        return;
    }
    const lipsc_family *f;
    for (size_t i = 0; (f = lipsc_family_at(i)); i++)
        if (applies(r, f, name)) {
            c->family = f;
            return;
        }
    char shown[LIPSC_SHOWN_NAME], names[LIPSC_FAMILY_NAMES];
    const lipsc_family unknown = {.name = name};
    const int gguf = lipsc_family_shown(&unknown) != name;
    lipsc_show_name(lipsc_family_shown(&unknown), shown);
    lipsc_config_families(gguf, names);
    r->status = lipsc_fail(
        r->err, LIPSC_E_FORMAT,
        "%s: %s is \"%s\", which is not supported; from Python, lipscope.jacobian(model, "
        "\"path.to.attention\", ids) measures any model of PyTorch; supported are: %s",
        r->file, gguf ? "general.architecture" : "field 'model_type'", shown, names);
}

static void read_fields(lipsc_reader *r, lipsc_config *c) {
    find_family(r, c);
    if (!r->status) read_sizes(r, c);
    if (!r->status) refuse_unsupported(r, c->family);
    if (!r->status) read_activation(r, c);
    if (!r->status) c->family->pixels ? read_image(r, c) : read_text(r, c);
    if (!r->status) read_block(r, c);
    if (!r->status) check_products(r, c);
    if (r->status) return;
    c->sliding = lipsc_alloc_zero(c->layers, 1);
    c->unturned = lipsc_alloc_zero(c->layers, 1);
    if (!c->sliding || !c->unturned)
        r->status = lipsc_fail(r->err, LIPSC_E_NOMEM, "out of memory for a configuration");
    if (!r->status) lipsc_read_rope(r, c);
    if (!r->status) lipsc_read_windows(r, c);
}

lipsc_status lipsc_config_parse(const char *json, size_t size, const char *name,
                                lipsc_part part, lipsc_config *out, lipsc_error *err) {
    lipsc_reader r = {.err = err};
    json_error_t bad;
    lipsc_show_path(name, r.file);
    int memory;
    r.root = lipsc_json_load(json, size, JSON_REJECT_DUPLICATES, &bad, &memory);
    if (memory) return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", r.file);
    if (!r.root) {
        char reason[LIPSC_SHOWN_NAME];
        lipsc_show_name(bad.text, reason);
        return lipsc_fail_at(err, LIPSC_E_FORMAT, (uint64_t)bad.position,
                             "%s: not valid JSON at line %d: %s", r.file, bad.line, reason);
    }
    lipsc_config config = {0};
    if (json_is_object(r.root))
        lipsc_read_part(&r, part);
    else
        lipsc_read_wrong(&r, "is not a JSON object");
    if (!r.status) read_fields(&r, &config);
    json_decref(r.root);
    if (r.status)
        lipsc_config_free(&config);
    else
        *out = config;
    return r.status;
}

void lipsc_config_free(lipsc_config *config) {
    lipsc_release(config->sliding);
    lipsc_release(config->unturned);
    for (int kind = 0; kind < LIPSC_LAYER_KINDS; kind++) {
        lipsc_release(config->rope[kind].freq);
        config->rope[kind].freq = NULL;
    }
    config->sliding = config->unturned = NULL;
}

int lipsc_config_norm(const lipsc_config *c, size_t layer, lipsc_norm_place place,
                      lipsc_role *gain) {
    int from = (int)place;
    if (c->norm_last) { /* the two norms in front have moved behind the sums */
        if (place == LIPSC_NORM_ATTN || place == LIPSC_NORM_MLP) return 0;
        if (place == LIPSC_NORM_ATTN_SUM) from = LIPSC_NORM_ATTN;
        if (place == LIPSC_NORM_MLP_SUM) from = LIPSC_NORM_MLP;
    }
    if (place == LIPSC_NORM_ATTN && layer == 0 && c->family->first_unnormed) return 0;
    if (place == LIPSC_NORM_MLP && c->parallel && c->family->parallel_shares) return 0;
    *gain = (lipsc_role)(LIPSC_ATTN_NORM + 2 * from);
    return c->family->tensor[*gain] != NULL;
}

lipsc_mask lipsc_config_mask(const lipsc_config *c, size_t layer) {
    if (c->sliding[layer])
        return c->family->window_both ? LIPSC_MASK_LOCAL : LIPSC_MASK_SLIDING;
    return c->causal ? LIPSC_MASK_CAUSAL : LIPSC_MASK_NONE;
}

void lipsc_config_families(int gguf, char names[LIPSC_FAMILY_NAMES]) {
    size_t used = 0;
    const lipsc_family *f, *before = NULL;
    for (size_t i = 0; (f = lipsc_family_at(i)) && used < LIPSC_FAMILY_NAMES; i++) {
        const char *shown = lipsc_family_shown(f);
        if ((shown != f->name) != gguf || (before && !strcmp(before->name, f->name)))
            continue;
        used += (size_t)snprintf(names + used, LIPSC_FAMILY_NAMES - used, "%s%s",
                                 before ? ", " : "", shown);
        before = f;
    }
    const char *wrapper;
    for (size_t i = 0;
         !gguf && (wrapper = lipsc_config_wrapper(i)) && used < LIPSC_FAMILY_NAMES; i++)
        used += (size_t)snprintf(names + used, LIPSC_FAMILY_NAMES - used, ", %s", wrapper);
}
