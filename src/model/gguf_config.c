/* gguf_config.c - the notes of a GGUF file as a configuration. */
#include "model/gguf_config.h"

#include "core/error.h"
#include "core/json.h"
#include "io/show.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ARCHITECTURE = 64, KEY = 256 };

typedef struct {
    const lipsc_gguf *gguf;
    char name[ARCHITECTURE]; /* "llama" */
    json_t *root;
} notes;

static void put(json_t *object, const char *key, double value) {
    const int whole = value == floor(value) && fabs(value) < 1e15;
    json_object_set_new(object, key,
                        whole ? json_integer((json_int_t)value) : json_real(value));
}

/* 1 and the number that the architecture notes under that key, or 0. */
static int noted(const notes *n, const char *key, double *value) {
    char full[KEY];
    snprintf(full, sizeof full, "%s.%s", n->name, key);
    return lipsc_gguf_number(n->gguf, full, value);
}

/* Without a note the published code's own number would hold: one that is none is refused.
 */
static lipsc_status put_numbers(const notes *n, lipsc_error *err) {
    const size_t prefix = strlen(n->name);
    char shown[LIPSC_SHOWN_NAME];
    const char *key;
    double value;
    for (size_t i = 0; (key = lipsc_gguf_key(n->gguf, i)); i++) {
        if (strncmp(key, n->name, prefix) || key[prefix] != '.' ||
            !lipsc_gguf_number(n->gguf, key, &value))
            continue;
        lipsc_show_name(key, shown);
        if (!isfinite(value))
            return lipsc_fail(err, LIPSC_E_NONFIN, "%s: its note '%s' is not finite",
                              lipsc_gguf_path(n->gguf), shown);
        put(n->root, key + prefix + 1, value);
    }
    return LIPSC_OK;
}

/* Lists of one number per layer: all equal means that number. */
static void put_lists(const notes *n) {
    const size_t prefix = strlen(n->name);
    lipsc_gguf_list list;
    const char *key;
    double value;
    for (size_t i = 0; (key = lipsc_gguf_key(n->gguf, i)); i++) {
        if (strncmp(key, n->name, prefix) || key[prefix] != '.' ||
            !lipsc_gguf_array(n->gguf, key, &list))
            continue;
        json_t *array = json_array();
        int equal = 1;
        while (lipsc_gguf_next_number(&list, &value)) {
            json_array_append_new(array, json_real(value));
            equal = equal && value == json_real_value(json_array_get(array, 0));
        }
        if (equal && json_array_size(array))
            put(n->root, key + prefix + 1, json_real_value(json_array_get(array, 0)));
        else
            json_object_set(n->root, key + prefix + 1, array);
        json_decref(array);
    }
}

static void put_rows(const notes *n, const char *tensor, const char *key) {
    const lipsc_gguf_tensor *found = lipsc_gguf_find(n->gguf, tensor);
    if (found && found->ndim == 2) put(n->root, key, (double)found->shape[0]);
}

static void put_presence(const notes *n) {
    static const char first[] = "blk.0.";
    for (size_t i = 0; i < lipsc_gguf_count(n->gguf); i++) {
        const char *name = lipsc_gguf_at(n->gguf, i)->name;
        char key[KEY];
        if (strncmp(name, first, sizeof first - 1)) continue;
        snprintf(key, sizeof key, "has:%s", name + sizeof first - 1);
        json_object_set_new(n->root, key, json_true());
    }
}

/* ---- Rotary positions ---------------------------------------------------------------- */

/* The entries of a tensor as a list; nothing when it is absent. */
static lipsc_status put_factors(const notes *n, const char *tensor, json_t *object,
                                const char *key, lipsc_error *err) {
    double values[1024];
    const lipsc_gguf_tensor *found = lipsc_gguf_find(n->gguf, tensor);
    if (!found) return LIPSC_OK;
    if (found->count > sizeof values / sizeof values[0])
        return lipsc_fail(err, LIPSC_E_FORMAT, "%s: tensor '%s' is too long",
                          lipsc_gguf_path(n->gguf), tensor);
    const lipsc_status status =
        lipsc_gguf_read(n->gguf, found, 0, found->count, values, err);
    if (status) return status;
    json_t *list = json_array();
    for (size_t i = 0; i < found->count; i++)
        json_array_append_new(list, json_real(values[i]));
    json_object_set_new(object, key, list);
    return LIPSC_OK;
}

static void put_type(const notes *n, json_t *object) {
    char key[KEY];
    lipsc_gguf_text type;
    snprintf(key, sizeof key, "%s.rope.scaling.type", n->name);
    if (lipsc_gguf_string(n->gguf, key, &type) &&
        !(type.size == 4 && !memcmp(type.bytes, "none", 4)))
        json_object_set_new(object, "rope_type", json_stringn(type.bytes, type.size));
}

static lipsc_status put_rope(const notes *n, lipsc_error *err) {
    static const char *const names[][2] = {
        {"rope.scaling.factor", "factor"},
        {"rope.scaling.original_context_length", "original_max_position_embeddings"},
        {"rope.scaling.attn_factor", "attention_factor"},
        {"rope.scaling.yarn_beta_fast", "beta_fast"},
        {"rope.scaling.yarn_beta_slow", "beta_slow"}};
    json_t *object = json_object();
    double value;
    put_type(n, object);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (noted(n, names[i][0], &value)) put(object, names[i][1], value);
    lipsc_status status = put_factors(n, "rope_freqs.weight", object, "factors", err);
    if (!status)
        status = put_factors(n, "rope_factors_short.weight", object, "short_factor", err);
    if (json_object_get(object, "factors"))
        json_object_set_new(object, "rope_type", json_string("factors"));
    if (json_object_get(object, "short_factor"))
        json_object_set_new(object, "rope_type", json_string("longrope"));
    /* gpt-oss does not round where its stretching begins and ends; no file says so */
    if (!strcmp(n->name, "gpt-oss")) json_object_set_new(object, "truncate", json_false());
    if (!status && json_object_get(object, "rope_type"))
        json_object_set(n->root, "rope_parameters", object);
    json_decref(object);
    return status;
}

/* ---- What the format leaves out ------------------------------------------------------ */

/* The largest Gemmas divide their scores by the root of width / heads, not of the width of
 * a head; the file does not say so, only its number of blocks tells. */
static void put_scale(const notes *n) {
    double blocks = 0, width, heads;
    noted(n, "block_count", &blocks);
    const int large = (!strcmp(n->name, "gemma2") && blocks == 46) ||
                      (!strcmp(n->name, "gemma3") && blocks == 62);
    if (large && noted(n, "embedding_length", &width) &&
        noted(n, "attention.head_count", &heads) && heads > 0)
        put(n->root, "scale_root", width / heads);
}

lipsc_status lipsc_gguf_config(const lipsc_gguf *gguf, char **json, lipsc_error *err) {
    lipsc_json_begin();
    notes n = {.gguf = gguf, .root = json_object()};
    lipsc_gguf_text name;
    char type[ARCHITECTURE + 8];
    if (!lipsc_gguf_string(gguf, "general.architecture", &name) ||
        name.size >= ARCHITECTURE || memchr(name.bytes, '\0', name.size)) {
        json_decref(n.root);
        return lipsc_fail(err, LIPSC_E_FORMAT, "%s: has no general.architecture",
                          lipsc_gguf_path(gguf));
    }
    snprintf(n.name, sizeof n.name, "%.*s", (int)name.size, name.bytes);
    snprintf(type, sizeof type, "gguf:%s", n.name);
    lipsc_status status = put_numbers(&n, err);
    put_lists(&n);
    put_rows(&n, "token_embd.weight", "vocab_size");
    put_rows(&n, "token_types.weight", "type_vocab_size");
    put_presence(&n);
    put_scale(&n);
    if (!status) status = put_rope(&n, err);
    json_object_set_new(n.root, "model_type", json_string(type));
    *json = status ? NULL : lipsc_json_dumps(n.root, JSON_REAL_PRECISION(17));
    json_decref(n.root);
    if (!status && lipsc_json_incomplete()) {
        free(*json);
        *json = NULL;
        return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", lipsc_gguf_path(gguf));
    }
    if (status || *json) return status;
    return lipsc_fail(err, LIPSC_E_FORMAT, "%s: its notes make no configuration",
                      lipsc_gguf_path(gguf));
}
