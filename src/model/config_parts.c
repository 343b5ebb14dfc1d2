/* config_parts.c - models that hold a text and an image part: which object of config.json
 * describes the one that was asked for, and what the published code takes where it leaves
 * fields out. */
#include "model/config_reader.h"

#include <string.h>

#include "core/error.h"
#include "core/json.h"

#define SIGLIP_SIZES                                                           \
    "\"hidden_size\":768,\"intermediate_size\":3072,\"num_hidden_layers\":12," \
    "\"num_attention_heads\":12"
#define SIGLIP_VISION                                       \
    "{\"model_type\":\"siglip_vision_model\"," SIGLIP_SIZES \
    ",\"num_channels\":3,\"image_size\":224,\"patch_size\":16}"

/* text and vision: the fields of a part as they are where they are absent; NULL: that part
 * is not supported. */
static const struct {
    const char *name, *usual[LIPSC_PARTS];
    const char *refused; /* a field that is read of such a part alone, not here */
} wrappers[] = {
    {.name = "clip",
     .usual = {[LIPSC_PART_TEXT] =
                   "{\"model_type\":\"clip_text_model\",\"vocab_size\":49408,"
                   "\"hidden_size\":512,\"intermediate_size\":2048,"
                   "\"num_hidden_layers\":12,\"num_attention_heads\":8,"
                   "\"max_position_embeddings\":77}",
               [LIPSC_PART_VISION] =
                   "{\"model_type\":\"clip_vision_model\"," SIGLIP_SIZES
                   ",\"num_channels\":3,\"image_size\":224,\"patch_size\":32}"}},
    {.name = "siglip",
     .usual = {[LIPSC_PART_TEXT] =
                   "{\"model_type\":\"siglip_text_model\",\"vocab_size\":32000,"
                   "\"max_position_embeddings\":64," SIGLIP_SIZES "}",
               [LIPSC_PART_VISION] = SIGLIP_VISION}},
    {.name = "siglip2",
     .usual = {[LIPSC_PART_TEXT] =
                   "{\"model_type\":\"siglip2_text_model\",\"vocab_size\":32000,"
                   "\"max_position_embeddings\":64," SIGLIP_SIZES "}"}},
    {.name = "mistral3",
     .usual = {[LIPSC_PART_TEXT] =
                   "{\"model_type\":\"mistral\",\"vocab_size\":32000,"
                   "\"hidden_size\":4096,\"intermediate_size\":14336,"
                   "\"num_hidden_layers\":32,\"num_attention_heads\":32,"
                   "\"num_key_value_heads\":8,\"max_position_embeddings\":131072}"},
     .refused = "layer_types"},
    {.name = "gemma3",
     .usual = {[LIPSC_PART_TEXT] =
                   "{\"model_type\":\"gemma3_text\",\"vocab_size\":262208,"
                   "\"hidden_size\":2304,\"intermediate_size\":9216,"
                   "\"num_hidden_layers\":26,\"num_attention_heads\":8,"
                   "\"num_key_value_heads\":4,\"max_position_embeddings\":131072}",
               [LIPSC_PART_VISION] = SIGLIP_VISION}}};

enum { WRAPPERS = sizeof wrappers / sizeof wrappers[0] };

static const char *const objects[] = {
    [LIPSC_PART_TEXT] = "text_config", [LIPSC_PART_VISION] = "vision_config"};
static const char *const repeated[] = {
    [LIPSC_PART_TEXT] = "text_config_dict", [LIPSC_PART_VISION] = "vision_config_dict"};
static const char *const words[] = {
    [LIPSC_PART_TEXT] = "text", [LIPSC_PART_VISION] = "vision"};

const char *lipsc_config_wrapper(size_t i) {
    return i < WRAPPERS ? wrappers[i].name : NULL;
}

/* Old files say things twice; where they differ, transformers takes all of the second. */
static void check_repeated(lipsc_reader *r, json_t *part, const char *field) {
    json_t *again = lipsc_read_field(r, field), *value;
    const char *key;
    if (again && !json_is_object(again)) lipsc_read_unsupported(r, field, again);
    json_object_foreach(again, key, value) {
        json_t *first = json_object_get(part, key);
        if (first && !json_equal(first, value)) lipsc_read_unsupported(r, field, again);
    }
}

static void take(lipsc_reader *r, lipsc_part part, const char *usual) {
    json_t *given = lipsc_read_field(r, objects[part]);
    if (given && !json_is_object(given)) {
        lipsc_read_unsupported(r, objects[part], given);
        return;
    }
    int memory;
    json_t *all = lipsc_json_object(usual, &memory);
    check_repeated(r, given, repeated[part]);
    if (memory || (given && json_object_update(all, given)))
        r->status = lipsc_fail(r->err, LIPSC_E_NOMEM, "out of memory for a configuration");
    json_decref(r->root);
    r->root = all;
}

void lipsc_read_part(lipsc_reader *r, lipsc_part part) {
    const char *name = json_string_value(json_object_get(r->root, "model_type"));
    size_t w = 0;
    while (w < WRAPPERS && (!name || strcmp(name, wrappers[w].name))) w++;
    if (w == WRAPPERS && part != LIPSC_PART_WHOLE)
        lipsc_read_wrong(r, "is no model of several parts, so it has no %s part",
                         words[part]);
    else if (w < WRAPPERS && part == LIPSC_PART_WHOLE)
        lipsc_read_wrong(r,
                         "a %s has a text and a vision part: one of them must be chosen "
                         "(part text or vision)",
                         name);
    else if (w < WRAPPERS && !wrappers[w].usual[part])
        lipsc_read_wrong(r, "the %s part of a %s is not supported", words[part], name);
    else if (w < WRAPPERS)
        take(r, part, wrappers[w].usual[part]);
    if (w < WRAPPERS && !r->status && lipsc_read_field(r, wrappers[w].refused))
        lipsc_read_unsupported(r, wrappers[w].refused,
                               lipsc_read_field(r, wrappers[w].refused));
}
