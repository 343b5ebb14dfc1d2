/* fields.c - reads the fields of a JSON object, with a sentence for each that is wrong. */
#include "token/fields.h"

#include "core/error.h"
#include "token/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

lipsc_status lipsc_place_fail(const lipsc_json_place *place, const char *format, ...) {
    char reason[300];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    return lipsc_fail(place->err, LIPSC_E_FORMAT, "%s: %s %s", place->file, place->part,
                      reason);
}

lipsc_status lipsc_place_nomem(const lipsc_json_place *place) {
    return lipsc_fail(place->err, LIPSC_E_NOMEM, "%s: out of memory", place->file);
}

void lipsc_show_token(const char *token, size_t len, char shown[LIPSC_SHOWN_NAME]) {
    char name[LIPSC_SHOWN_NAME] = {0}; /* more than is shown */
    memcpy(name, token, len < sizeof name - 1 ? len : sizeof name - 1);
    lipsc_show_name(name, shown);
}

/* "field 'x' is missing", or is not what it should be. */
static lipsc_status wrong_field(const lipsc_json_place *place, json_t *value,
                                const char *key, const char *should) {
    if (!value) return lipsc_place_fail(place, "has no field '%s'", key);
    return lipsc_place_fail(place, "field '%s' is not %s", key, should);
}

lipsc_status lipsc_field_string(const lipsc_json_place *place, json_t *object,
                                const char *key, const char **value, size_t *len) {
    json_t *field = json_object_get(object, key);
    if (!json_is_string(field)) return wrong_field(place, field, key, "a string");
    *value = json_string_value(field);
    *len = json_string_length(field);
    return LIPSC_OK;
}

lipsc_status lipsc_field_string_or_null(const lipsc_json_place *place, json_t *object,
                                        const char *key, const char **value, size_t *len) {
    json_t *field = json_object_get(object, key);
    if (!field || json_is_null(field)) {
        *value = NULL;
        *len = 0;
        return LIPSC_OK;
    }
    return lipsc_field_string(place, object, key, value, len);
}

lipsc_status lipsc_field_character(const lipsc_json_place *place, json_t *object,
                                   const char *key, uint32_t *value) {
    const char *string = "";
    size_t len = 0, width = 0;
    const lipsc_status status = lipsc_field_string(place, object, key, &string, &len);
    if (status) return status;
    if (len) *value = lipsc_utf8_read(string, &width);
    if (!len || width != len)
        return lipsc_place_fail(place, "field '%s' is not one character", key);
    return LIPSC_OK;
}

lipsc_status lipsc_field_bool(const lipsc_json_place *place, json_t *object,
                              const char *key, int *value) {
    json_t *field = json_object_get(object, key);
    if (!json_is_boolean(field)) return wrong_field(place, field, key, "true or false");
    *value = json_is_true(field);
    return LIPSC_OK;
}

lipsc_status lipsc_field_bool_or(const lipsc_json_place *place, json_t *object,
                                 const char *key, int *value) {
    json_t *field = json_object_get(object, key);
    if (!field || json_is_null(field)) return LIPSC_OK;
    return lipsc_field_bool(place, object, key, value);
}

lipsc_status lipsc_field_size(const lipsc_json_place *place, json_t *object,
                              const char *key, size_t *value) {
    json_t *field = json_object_get(object, key);
    if (!json_is_integer(field) || json_integer_value(field) < 0)
        return wrong_field(place, field, key, "a whole number");
    *value = (size_t)json_integer_value(field);
    return LIPSC_OK;
}

lipsc_status lipsc_field_array(const lipsc_json_place *place, json_t *object,
                               const char *key, json_t **value) {
    json_t *field = json_object_get(object, key);
    if (!json_is_array(field)) return wrong_field(place, field, key, "a list");
    *value = field;
    return LIPSC_OK;
}

lipsc_status lipsc_value_id(const lipsc_json_place *place, json_t *value, const char *what,
                            uint32_t *id) {
    char shown[LIPSC_SHOWN_NAME];
    if (json_is_integer(value) && json_integer_value(value) >= 0 &&
        json_integer_value(value) <= INT32_MAX) {
        *id = (uint32_t)json_integer_value(value);
        return LIPSC_OK;
    }
    lipsc_show_name(what, shown);
    return lipsc_place_fail(place, "gives '%s' an id that is not a whole number below 2^31",
                            shown);
}

lipsc_status lipsc_field_type(const lipsc_json_place *place, json_t *object,
                              const char *const *names, int *index) {
    char shown[LIPSC_SHOWN_NAME];
    const char *type = "";
    size_t len = 0;
    if (!json_is_object(object)) return lipsc_place_fail(place, "is not an object");
    const lipsc_status status = lipsc_field_string(place, object, "type", &type, &len);
    if (status) return status;
    for (*index = 0; names[*index]; ++*index)
        if (!strcmp(type, names[*index])) return LIPSC_OK;
    lipsc_show_name(type, shown);
    return lipsc_place_fail(place, "type '%s' is not supported", shown);
}

lipsc_status lipsc_each_part(const lipsc_json_place *place, json_t *object,
                             const char *members, lipsc_part_fn read, void *context) {
    json_t *type = json_object_get(object, "type"), *list, *member;
    lipsc_status status = LIPSC_OK;
    size_t i;
    if (!json_is_string(type) || strcmp(json_string_value(type), "Sequence"))
        return read(place, object, context);
    status = lipsc_field_array(place, object, members, &list);
    if (status) return status;
    json_array_foreach(list, i, member) {
        status = lipsc_each_part(place, member, members, read, context);
        if (status) return status;
    }
    return LIPSC_OK;
}

typedef struct {
    const char *const *kinds;
    lipsc_step_fn read;
    lipsc_steps *steps;
} step_reader;

static lipsc_status read_step(const lipsc_json_place *place, json_t *object,
                              void *context) {
    const step_reader *reader = context;
    lipsc_steps *steps = reader->steps;
    int kind;
    const lipsc_status status = lipsc_field_type(place, object, reader->kinds, &kind);
    if (status) return status;
    if (!lipsc_grow(&steps->at, &steps->room, steps->count + 1, steps->size))
        return lipsc_place_nomem(place);
    char *step = (char *)steps->at + steps->count++ * steps->size;
    memset(step, 0, steps->size);
    return reader->read(place, object, kind, step);
}

lipsc_status lipsc_steps_read(const lipsc_json_place *place, json_t *object,
                              const char *members, const char *const *kinds,
                              lipsc_step_fn read, lipsc_steps *out) {
    step_reader reader = {kinds, read, out};
    if (!object || json_is_null(object)) return LIPSC_OK;
    return lipsc_each_part(place, object, members, read_step, &reader);
}

lipsc_status lipsc_field_text(const lipsc_json_place *place, json_t *object,
                              const char *key, lipsc_text *out) {
    const char *value = NULL;
    size_t len = 0;
    const lipsc_status status = lipsc_field_string(place, object, key, &value, &len);
    if (status) return status;
    lipsc_text_put(out, value, len);
    return out->failed ? lipsc_place_nomem(place) : LIPSC_OK;
}
