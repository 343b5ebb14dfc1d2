/* config.c - reads config.json: sizes, options, and the refusal of what is not supported.
 *
 * Where a field is absent, the value is the one that the published code of the family
 * takes; a size that decides the shapes must be there.  transformers 5 and 4 write some
 * fields differently (rope_parameters or rope_theta with rope_scaling): both are read. */
#include "model/config.h"

#include "core/error.h"
#include "core/mem.h"
#include "io/show.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_SIZE = 1 << 28, MOST_LAYERS = 1 << 16 };

/* Remembers the first thing that went wrong; what is read afterwards does not matter. */
typedef struct {
    char file[LIPSC_SHOWN_PATH];
    json_t *root;
    lipsc_status status;
    lipsc_error *err;
} reader;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void
wrong(reader *r, const char *format, ...) {
    char reason[300];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    if (!r->status)
        r->status = lipsc_fail(r->err, LIPSC_E_FORMAT, "%s: %s", r->file, reason);
}

/* A value as JSON, short. */
static void show_value(const json_t *value, char shown[LIPSC_SHOWN_NAME]) {
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    lipsc_show_name(text ? text : "?", shown);
    if (text) free(text);
}

static void unsupported(reader *r, const char *key, const json_t *value) {
    char shown[LIPSC_SHOWN_NAME];
    show_value(value, shown);
    wrong(r, "field '%s' is %s, which is not supported", key, shown);
}

static void not_a(reader *r, const char *key, const json_t *value, const char *what) {
    char shown[LIPSC_SHOWN_NAME];
    if (!value) {
        wrong(r, "field '%s' is missing", key);
        return;
    }
    show_value(value, shown);
    wrong(r, "field '%s' is %s, not %s", key, shown, what);
}

/* NULL when absent or null. */
static json_t *get(reader *r, const char *key) {
    json_t *value = json_object_get(r->root, key);
    return json_is_null(value) ? NULL : value;
}

/* ---- Kinds of fields -------------------------------------------------------------------
 */

static size_t as_size(reader *r, const char *key, const json_t *value) {
    if (!json_is_integer(value) || json_integer_value(value) <= 0) {
        not_a(r, key, value, "a positive whole number");
        return 1;
    }
    if (json_integer_value(value) > LARGEST_SIZE) {
        unsupported(r, key, value);
        return 1;
    }
    return (size_t)json_integer_value(value);
}

static size_t needed_size(reader *r, const char *key) {
    return as_size(r, key, get(r, key));
}

static size_t size_or(reader *r, const char *key, size_t otherwise) {
    json_t *value = get(r, key);
    return value ? as_size(r, key, value) : otherwise;
}

static double number_or(reader *r, const char *key, double otherwise) {
    json_t *value = get(r, key);
    if (!value) return otherwise;
    if (!json_is_number(value) || !isfinite(json_number_value(value)) ||
        json_number_value(value) < 0) {
        not_a(r, key, value, "a number from 0 upwards");
        return otherwise;
    }
    return json_number_value(value);
}

static int flag_or(reader *r, const char *key, int otherwise) {
    json_t *value = get(r, key);
    if (!value) return otherwise;
    if (!json_is_boolean(value)) not_a(r, key, value, "true or false");
    return json_is_true(value);
}

/* 16 or [16, 16] */
static void needed_pair(reader *r, const char *key, size_t pair[2]) {
    json_t *value = get(r, key);
    if (json_is_array(value) && json_array_size(value) == 2) {
        for (size_t i = 0; i < 2; i++) pair[i] = as_size(r, key, json_array_get(value, i));
    } else {
        pair[0] = pair[1] = as_size(r, key, value);
    }
}

/* An id of a token, or none. */
static size_t token_or(reader *r, const char *key, size_t otherwise) {
    json_t *value = json_object_get(r->root, key);
    if (!value) return otherwise;
    if (json_is_null(value)) return LIPSC_NO_TOKEN;
    if (!json_is_integer(value) || json_integer_value(value) > LARGEST_SIZE)
        not_a(r, key, value, "the id of a token");
    return json_integer_value(value) < 0 ? LIPSC_NO_TOKEN
                                         : (size_t)json_integer_value(value);
}

/* ---- What changes the computation and is not here
 * ------------------------------------------ */

static void refuse_unsupported(reader *r) {
    static const char *const must_be_absent[] = {"attn_logit_softcapping",
                                                 "attn_logit_softcap",
                                                 "quantization_config", "adapter_fusion"};
    static const char *const must_be_false[] = {"add_cross_attention",
                                                "is_encoder_decoder"};
    for (size_t i = 0; i < sizeof must_be_absent / sizeof must_be_absent[0]; i++) {
        json_t *value = get(r, must_be_absent[i]);
        if (value) unsupported(r, must_be_absent[i], value);
    }
    for (size_t i = 0; i < sizeof must_be_false / sizeof must_be_false[0]; i++)
        if (flag_or(r, must_be_false[i], 0))
            unsupported(r, must_be_false[i], get(r, must_be_false[i]));

    json_t *positions = get(r, "position_embedding_type"), *pruned = get(r, "pruned_heads");
    if (positions &&
        (!json_is_string(positions) || strcmp(json_string_value(positions), "absolute")))
        unsupported(r, "position_embedding_type", positions);
    if (pruned && (!json_is_object(pruned) || json_object_size(pruned)))
        unsupported(r, "pruned_heads", pruned);
}

/* ---- Activations
 * ------------------------------------------------------------------------------ */

static void read_activation(reader *r, lipsc_config *c) {
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
                 {"quick_gelu", LIPSC_ACT_GELU_QUICK},
                 {"relu", LIPSC_ACT_RELU},
                 {"silu", LIPSC_ACT_SILU},
                 {"swish", LIPSC_ACT_SILU},
                 {"tanh", LIPSC_ACT_TANH},
                 {"sigmoid", LIPSC_ACT_SIGMOID}};
    const char *key = c->family->field.activation;
    json_t *value = get(r, key);
    const char *name = value ? json_string_value(value) : c->family->activation;
    for (size_t i = 0; name && i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(name, known[i].name)) {
            c->activation = known[i].kind;
            return;
        }
    unsupported(r, key, value);
}

/* ---- Rotary positions
 * --------------------------------------------------------------------------- */

/* An object that may say how angles are made: only the plain way is supported. */
static void check_rope(reader *r, const char *key, json_t *object) {
    if (!json_is_object(object)) {
        unsupported(r, key, object);
        return;
    }
    json_t *type = json_object_get(object, "rope_type");
    if (!type) type = json_object_get(object, "type");
    json_t *part = json_object_get(object, "partial_rotary_factor");
    if (!json_is_string(type) || strcmp(json_string_value(type), "default"))
        unsupported(r, key, object);
    if (part && !json_is_null(part) && json_number_value(part) != 1.0)
        unsupported(r, key, object);
}

static void read_rope(reader *r, lipsc_config *c) {
    json_t *parameters = get(r, "rope_parameters"), *scaling = get(r, "rope_scaling");
    json_t *part = get(r, "partial_rotary_factor");
    c->rope_theta = number_or(r, "rope_theta", 10000.0);
    if (parameters) {
        check_rope(r, "rope_parameters", parameters);
        json_t *theta = json_object_get(parameters, "rope_theta");
        if (theta && json_is_number(theta)) c->rope_theta = json_number_value(theta);
    }
    if (scaling) check_rope(r, "rope_scaling", scaling);
    if (part && json_number_value(part) != 1.0)
        unsupported(r, "partial_rotary_factor", part);
    if (!(c->rope_theta > 0) || !isfinite(c->rope_theta))
        wrong(r, "field 'rope_theta' is not a positive number");
    if (c->head_dim == 0)
        wrong(r, "hidden_size = %zu is below num_attention_heads = %zu", c->d, c->heads);
    if (c->head_dim % 2)
        wrong(r, "a head of %zu components cannot have rotary positions", c->head_dim);
}

/* ---- Sliding windows
 * ------------------------------------------------------------------------------- */

/* mistral: every layer when sliding_window is set (4096 when the field is absent).
 * qwen2, qwen3: with use_sliding_window, the layers from max_window_layers on, or those
 * that layer_types names. */
static void read_windows(reader *r, lipsc_config *c) {
    const int mistral = !strcmp(c->family->name, "mistral");
    const int qwen = !strncmp(c->family->name, "qwen", 4);
    if (!mistral && !qwen) {
        if (c->family->rotary && flag_or(r, "use_sliding_window", 0))
            unsupported(r, "use_sliding_window", get(r, "use_sliding_window"));
        return;
    }
    const int absent = !json_object_get(r->root, "sliding_window");
    const int used = mistral || flag_or(r, "use_sliding_window", 0);
    if (used && (absent || get(r, "sliding_window")))
        c->window = size_or(r, "sliding_window", 4096);
    size_t first = 0;
    if (qwen) {
        json_t *value = get(r, "max_window_layers");
        if (value && (!json_is_integer(value) || json_integer_value(value) < 0))
            not_a(r, "max_window_layers", value, "a whole number");
        first = value ? (size_t)json_integer_value(value) : 28;
    }
    for (size_t l = 0; c->sliding && l < c->layers; l++)
        c->sliding[l] = c->window && l >= first;

    json_t *types = get(r, "layer_types");
    if (types && (!json_is_array(types) || json_array_size(types) != c->layers)) {
        wrong(r, "field 'layer_types' is not a list of %zu names", c->layers);
        return;
    }
    for (size_t l = 0; types && c->sliding && l < c->layers; l++) {
        json_t *type = json_array_get(types, l);
        const char *name = json_string_value(type);
        const int sliding = name && !strcmp(name, "sliding_attention");
        if (!sliding && (!name || strcmp(name, "full_attention")))
            unsupported(r, "layer_types", type);
        if (sliding && !c->window)
            wrong(r, "layer %zu has sliding attention, but there is no sliding_window", l);
        if (qwen) c->sliding[l] = (unsigned char)sliding;
    }
}

/* ---- The families
 * ------------------------------------------------------------------------------------- */

static void read_gpt2(reader *r, lipsc_config *c) {
    c->ffn = size_or(r, c->family->field.ffn, 4 * c->d);
    c->unscaled = !flag_or(r, "scale_attn_weights", 1);
    c->scale_by_layer = flag_or(r, "scale_attn_by_inverse_layer_idx", 0);
    c->qkv_bias = c->out_bias = c->mlp_bias = 1;
}

static void read_encoder(reader *r, lipsc_config *c) {
    c->qkv_bias = c->out_bias = c->mlp_bias = 1;
    if (c->family->tensor[LIPSC_TYPES]) {
        c->types = needed_size(r, "type_vocab_size");
        c->causal = flag_or(r, "is_decoder", 0);
    }
    c->pad = token_or(r, "pad_token_id", c->family->position_after_pad ? 1 : 0);
    c->sinusoidal = flag_or(r, "sinusoidal_pos_embds", 0);
    if (c->family->position_after_pad &&
        (c->pad == LIPSC_NO_TOKEN || c->pad + 1 >= c->positions))
        wrong(r, "field 'pad_token_id' leaves no room for positions, which begin after it");
}

static void read_llama(reader *r, lipsc_config *c) {
    const int llama = !strcmp(c->family->name, "llama");
    const int qwen2 = !strcmp(c->family->name, "qwen2");
    const int qwen3 = !strcmp(c->family->name, "qwen3");
    /* null means as many as heads; absent means that only in llama */
    if (llama || json_is_null(json_object_get(r->root, "num_key_value_heads")))
        c->kv_heads = size_or(r, "num_key_value_heads", c->heads);
    else
        c->kv_heads = needed_size(r, "num_key_value_heads");
    if (qwen3 && !json_object_get(r->root, "head_dim"))
        c->head_dim = 128;
    else
        c->head_dim = size_or(r, "head_dim", c->d / c->heads);
    const int bias = llama || qwen3 ? flag_or(r, "attention_bias", 0) : 0;
    c->qkv_bias = bias || qwen2;
    c->out_bias = bias;
    c->mlp_bias = llama && flag_or(r, "mlp_bias", 0);
    c->pad = token_or(r, "pad_token_id", LIPSC_NO_TOKEN);
    if (!flag_or(r, "is_causal", 1)) unsupported(r, "is_causal", get(r, "is_causal"));
    if (c->heads % c->kv_heads)
        wrong(r, "num_key_value_heads = %zu does not divide num_attention_heads = %zu",
              c->kv_heads, c->heads);
    read_rope(r, c);
}

static void read_vit(reader *r, lipsc_config *c) {
    c->qkv_bias = flag_or(r, "qkv_bias", 1);
    c->out_bias = c->mlp_bias = 1;
    c->channels = size_or(r, "num_channels", 3);
    needed_pair(r, "image_size", c->image);
    needed_pair(r, "patch_size", c->patch);
    for (size_t i = 0; i < 2; i++)
        if (c->patch[i] > c->image[i])
            wrong(r, "patch_size %zu is larger than image_size %zu", c->patch[i],
                  c->image[i]);
    size_t patches;
    if (!lipsc_mul_size(c->image[0] / c->patch[0], c->image[1] / c->patch[1], &patches) ||
        patches >= LARGEST_SIZE)
        wrong(r, "image_size and patch_size make too many patches");
    else
        c->positions = patches + 1;
}

static void read_sizes(reader *r, lipsc_config *c) {
    const lipsc_family *f = c->family;
    c->layers = needed_size(r, f->field.layers);
    c->d = needed_size(r, f->field.width);
    c->heads = needed_size(r, f->field.heads);
    c->kv_heads = c->heads;
    if (c->layers > MOST_LAYERS)
        wrong(r, "field '%s' is %zu, which is not supported", f->field.layers, c->layers);
    /* with rotary positions head_dim may be a field of its own: see read_llama */
    if (!f->rotary && c->d % c->heads)
        wrong(r, "%s = %zu is not a multiple of %s = %zu", f->field.width, c->d,
              f->field.heads, c->heads);
    c->head_dim = c->d / c->heads;
    if (!f->pixels) c->vocab = needed_size(r, "vocab_size");
    if (f->rotary)
        c->positions = size_or(r, f->field.positions, 0);
    else if (!f->pixels)
        c->positions = needed_size(r, f->field.positions);
    if (!f->transposed) c->ffn = needed_size(r, f->field.ffn); /* gpt2: may be null */
    c->norm_eps = f->field.eps ? number_or(r, f->field.eps, f->eps) : f->eps;
    c->initializer_range = number_or(r, "initializer_range", 0.02);
}

/* Widths of the dense layers stay below LARGEST_SIZE, so that a tensor's size is exact. */
static void check_products(reader *r, const lipsc_config *c) {
    size_t heads, patch, area;
    if (!lipsc_mul_size(c->heads, c->head_dim, &heads) || heads > LARGEST_SIZE)
        wrong(r, "%zu heads of %zu components are too many", c->heads, c->head_dim);
    if (c->family->pixels &&
        (!lipsc_mul_size(c->patch[0], c->patch[1], &area) || area > LARGEST_SIZE ||
         !lipsc_mul_size(area, c->channels, &patch) || patch > LARGEST_SIZE))
        wrong(r, "field 'patch_size' makes patches that are too large");
}

static void read_fields(reader *r, lipsc_config *c) {
    json_t *type = json_object_get(r->root, "model_type");
    if (!json_is_string(type)) {
        not_a(r, "model_type", type, "a name");
        return;
    }
    c->family = lipsc_family_find(json_string_value(type));
    if (!c->family) {
        unsupported(r, "model_type", type);
        return;
    }
    c->causal = c->family->causal;
    c->pad = LIPSC_NO_TOKEN;
    read_sizes(r, c);
    if (!r->status) refuse_unsupported(r);
    if (!r->status) read_activation(r, c);
    if (r->status) return;
    if (c->family->transposed)
        read_gpt2(r, c);
    else if (c->family->rotary)
        read_llama(r, c);
    else if (c->family->pixels)
        read_vit(r, c);
    else
        read_encoder(r, c);
    if (!r->status) check_products(r, c);
    if (r->status) return;
    c->sliding = lipsc_alloc_zero(c->layers, 1);
    if (!c->sliding)
        r->status = lipsc_fail(r->err, LIPSC_E_NOMEM, "out of memory for a configuration");
    read_windows(r, c);
}

lipsc_status lipsc_config_parse(const char *json, size_t size, const char *name,
                                lipsc_config *out, lipsc_error *err) {
    reader r = {.err = err};
    json_error_t bad;
    lipsc_show_path(name, r.file);
    r.root = json_loadb(json, size, JSON_REJECT_DUPLICATES, &bad);
    if (!r.root) {
        char reason[LIPSC_SHOWN_NAME];
        lipsc_show_name(bad.text, reason);
        return lipsc_fail_at(err, LIPSC_E_FORMAT, (uint64_t)bad.position,
                             "%s: not valid JSON at line %d: %s", r.file, bad.line, reason);
    }
    lipsc_config config = {0};
    if (json_is_object(r.root))
        read_fields(&r, &config);
    else
        wrong(&r, "is not a JSON object");
    json_decref(r.root);
    if (r.status)
        lipsc_config_free(&config);
    else
        *out = config;
    return r.status;
}

void lipsc_config_free(lipsc_config *config) {
    lipsc_release(config->sliding);
    config->sliding = NULL;
}
