/* postprocessor.c - what is put around the ids of a text: a template, a list of ids and of
 * places where the text goes. */
#include "token/parts.h"

#include <stdlib.h>
#include <string.h>

typedef enum { TEMPLATE, BERT, ROBERTA, BYTE_LEVEL } kind;

static const char *const kind_names[] = {"TemplateProcessing", "BertProcessing",
                                         "RobertaProcessing", "ByteLevel", NULL};

void lipsc_postprocessor_free(lipsc_postprocessor *post) {
    for (size_t i = 0; i < post->count; i++) lipsc_ids_free(&post->parts[i].ids);
    free(post->parts);
    *post = (lipsc_postprocessor){0};
}

static lipsc_post_part *add_part(lipsc_postprocessor *post, int is_text) {
    void *parts = post->parts;
    if (!lipsc_grow(&parts, &post->room, post->count + 1, sizeof *post->parts)) return NULL;
    post->parts = parts;
    post->parts[post->count] = (lipsc_post_part){.is_text = is_text};
    return &post->parts[post->count++];
}

/* ["[SEP]", 102] */
static lipsc_status read_pair(const lipsc_json_place *place, json_t *object,
                              const char *key, lipsc_postprocessor *post) {
    json_t *pair = json_object_get(object, key);
    uint32_t id;
    if (json_array_size(pair) != 2 || !json_is_string(json_array_get(pair, 0)))
        return lipsc_place_fail(place, "field '%s' is not a token and its id", key);
    const lipsc_status status = lipsc_value_id(place, json_array_get(pair, 1), key, &id);
    if (status) return status;
    lipsc_post_part *part = add_part(post, 0);
    if (!part) return lipsc_place_nomem(place);
    lipsc_ids_put(&part->ids, id);
    return part->ids.failed ? lipsc_place_nomem(place) : LIPSC_OK;
}

static lipsc_status read_special(const lipsc_json_place *place, json_t *tokens,
                                 json_t *piece, lipsc_postprocessor *post) {
    char shown[LIPSC_SHOWN_NAME];
    const char *name;
    size_t len, i;
    json_t *ids, *value;
    lipsc_status status = lipsc_field_string(place, piece, "id", &name, &len);
    if (status) return status;
    json_t *known = json_object_get(tokens, name);
    if (!known) {
        lipsc_show_name(name, shown);
        return lipsc_place_fail(place,
                                "uses the token '%s', which special_tokens does not "
                                "have",
                                shown);
    }
    status = lipsc_field_array(place, known, "ids", &ids);
    if (status) return status;
    lipsc_post_part *part = add_part(post, 0);
    if (!part) return lipsc_place_nomem(place);
    json_array_foreach(ids, i, value) {
        uint32_t id;
        status = lipsc_value_id(place, value, name, &id);
        if (status) return status;
        lipsc_ids_put(&part->ids, id);
    }
    return part->ids.failed ? lipsc_place_nomem(place) : LIPSC_OK;
}

static lipsc_status read_template(const lipsc_json_place *place, json_t *object,
                                  lipsc_postprocessor *post) {
    json_t *single, *piece, *tokens = json_object_get(object, "special_tokens");
    size_t i;
    lipsc_status status = lipsc_field_array(place, object, "single", &single);
    if (status) return status;
    json_array_foreach(single, i, piece) {
        json_t *sequence = json_object_get(piece, "Sequence");
        json_t *special = json_object_get(piece, "SpecialToken");
        const char *which = json_string_value(json_object_get(sequence, "id"));
        if (special && !sequence) {
            status = read_special(place, tokens, special, post);
            if (status) return status;
        } else if (which && !special && !strcmp(which, "A")) {
            if (!add_part(post, 1)) return lipsc_place_nomem(place);
        } else {
            return lipsc_place_fail(place, "has a piece that is neither sequence A nor a "
                                           "special token");
        }
    }
    return LIPSC_OK;
}

static lipsc_status read_step(const lipsc_json_place *place, json_t *object,
                              void *context) {
    lipsc_postprocessor *post = context;
    int index;
    lipsc_status status = lipsc_field_type(place, object, kind_names, &index);
    if (status || index == BYTE_LEVEL) return status; /* that one only moves offsets */
    if (post->given)
        return lipsc_place_fail(place, "with two parts that add tokens is not supported");
    post->given = 1;
    if (index == TEMPLATE) return read_template(place, object, post);
    status = read_pair(place, object, "cls", post);
    if (!status && !add_part(post, 1)) status = lipsc_place_nomem(place);
    return status ? status : read_pair(place, object, "sep", post);
}

lipsc_status lipsc_postprocessor_read(const lipsc_json_place *place, json_t *object,
                                      lipsc_postprocessor *out) {
    if (!object || json_is_null(object)) return LIPSC_OK;
    return lipsc_each_part(place, object, "processors", read_step, out);
}

void lipsc_postprocessor_apply(const lipsc_postprocessor *post, const lipsc_ids *text,
                               int special, lipsc_ids *out) {
    if (!post->given) lipsc_ids_put_all(out, text->data, text->count);
    for (size_t i = 0; i < post->count; i++) {
        const lipsc_post_part *part = &post->parts[i];
        if (part->is_text)
            lipsc_ids_put_all(out, text->data, text->count);
        else if (special)
            lipsc_ids_put_all(out, part->ids.data, part->ids.count);
    }
}
