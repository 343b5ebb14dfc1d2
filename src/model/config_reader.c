/* config_reader.c - fields of a config.json, one kind at a time. */
#include "model/config_reader.h"

#include "core/error.h"
#include "core/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lipsc_read_wrong(lipsc_reader *r, const char *format, ...) {
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
    char *text = value ? lipsc_json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    lipsc_show_name(text ? text : "?", shown);
    if (text) free(text);
}

/* ---- Spellings ---------------------------------------------------------------------- */

/* The next of the spellings into name; NULL behind the last. */
static const char *next_name(const char *names, char name[LIPSC_SHOWN_NAME]) {
    const size_t length = strcspn(names, "|");
    snprintf(name, LIPSC_SHOWN_NAME, "%.*s", (int)length, names);
    return names[length] ? names + length + 1 : NULL;
}

/* The spelling that the file has, or the first. */
static json_t *find(const lipsc_reader *r, const char *names, char name[LIPSC_SHOWN_NAME]) {
    for (const char *rest = names; rest;) {
        rest = next_name(rest, name);
        json_t *value = json_object_get(r->root, name);
        if (value && !json_is_null(value)) return value;
    }
    next_name(names, name);
    return NULL;
}

json_t *lipsc_read_field(const lipsc_reader *r, const char *names) {
    char name[LIPSC_SHOWN_NAME];
    return names ? find(r, names, name) : NULL;
}

int lipsc_read_present(const lipsc_reader *r, const char *names) {
    char name[LIPSC_SHOWN_NAME];
    for (const char *rest = names; rest;) {
        rest = next_name(rest, name);
        if (json_object_get(r->root, name)) return 1;
    }
    return 0;
}

/* ---- What is wrong ------------------------------------------------------------------ */

void lipsc_read_unsupported(lipsc_reader *r, const char *key, const json_t *value) {
    char shown[LIPSC_SHOWN_NAME];
    show_value(value, shown);
    lipsc_read_wrong(r, "field '%s' is %s, which is not supported", key, shown);
}

void lipsc_read_not_a(lipsc_reader *r, const char *key, const json_t *value,
                      const char *what) {
    char shown[LIPSC_SHOWN_NAME];
    if (!value) {
        lipsc_read_wrong(r, "field '%s' is missing", key);
        return;
    }
    show_value(value, shown);
    lipsc_read_wrong(r, "field '%s' is %s, not %s", key, shown, what);
}

/* ---- Kinds of fields ---------------------------------------------------------------- */

static size_t as_size(lipsc_reader *r, const char *key, const json_t *value) {
    if (!json_is_integer(value) || json_integer_value(value) <= 0) {
        lipsc_read_not_a(r, key, value, "a positive whole number");
        return 1;
    }
    if (json_integer_value(value) > LIPSC_LARGEST_SIZE) {
        lipsc_read_unsupported(r, key, value);
        return 1;
    }
    return (size_t)json_integer_value(value);
}

size_t lipsc_read_size(lipsc_reader *r, const char *names) {
    char name[LIPSC_SHOWN_NAME];
    json_t *value = find(r, names, name);
    return as_size(r, name, value);
}

size_t lipsc_read_size_or(lipsc_reader *r, const char *names, size_t otherwise) {
    return lipsc_read_field(r, names) ? lipsc_read_size(r, names) : otherwise;
}

double lipsc_read_number(lipsc_reader *r, lipsc_number number) {
    char name[LIPSC_SHOWN_NAME];
    json_t *value = number.field ? find(r, number.field, name) : NULL;
    if (!value) return number.otherwise;
    if (!json_is_number(value) || !isfinite(json_number_value(value)) ||
        json_number_value(value) < 0) {
        lipsc_read_not_a(r, name, value, "a number from 0 upwards");
        return number.otherwise;
    }
    return json_number_value(value);
}

size_t lipsc_read_count(lipsc_reader *r, lipsc_number number) {
    const double count = lipsc_read_number(r, number);
    if (count <= LIPSC_LARGEST_SIZE && floor(count) == count) return (size_t)count;
    char name[LIPSC_SHOWN_NAME];
    json_t *value = find(r, number.field, name);
    lipsc_read_unsupported(r, name, value);
    return 1;
}

int lipsc_read_flag(lipsc_reader *r, lipsc_flag flag) {
    if (!flag.field) return flag.otherwise;
    const int turned = *flag.field == '!';
    char name[LIPSC_SHOWN_NAME];
    json_t *value = find(r, flag.field + turned, name);
    /* null is false, a field that is not there what the published code takes */
    if (!value) return lipsc_read_present(r, flag.field + turned) ? turned : flag.otherwise;
    if (!json_is_boolean(value)) lipsc_read_not_a(r, name, value, "true or false");
    return json_is_true(value) != turned;
}

void lipsc_read_pair(lipsc_reader *r, const char *names, size_t pair[2]) {
    char name[LIPSC_SHOWN_NAME];
    json_t *value = find(r, names, name);
    if (json_is_array(value) && json_array_size(value) == 2) {
        for (size_t i = 0; i < 2; i++) pair[i] = as_size(r, name, json_array_get(value, i));
    } else {
        pair[0] = pair[1] = as_size(r, name, value);
    }
}

size_t lipsc_read_token(lipsc_reader *r, const char *names, size_t otherwise) {
    json_t *value = json_object_get(r->root, names);
    if (!value) return otherwise;
    if (json_is_null(value)) return LIPSC_NO_TOKEN;
    if (!json_is_integer(value) || json_integer_value(value) > LIPSC_LARGEST_SIZE)
        lipsc_read_not_a(r, names, value, "the id of a token");
    return json_integer_value(value) < 0 ? LIPSC_NO_TOKEN
                                         : (size_t)json_integer_value(value);
}

int lipsc_read_is(const lipsc_reader *r, lipsc_condition condition) {
    json_t *value = lipsc_read_field(r, condition.field);
    if (!value) return !strcmp(condition.is, "null");
    char *text = lipsc_json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    const int same = text && !strcmp(text, condition.is);
    if (text) free(text);
    return same;
}
