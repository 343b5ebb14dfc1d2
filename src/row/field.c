/* field.c - records from and to JSON by their list of fields. */
#include "row/field.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/mem.h"
#include "core/plain.h"

/* ---- Members ------------------------------------------------------------------------ */

static const void *member(const lipsc_field *f, const void *record) {
    return (const char *)record + f->offset;
}

void lipsc_fields_names(lipsc_fields fields, const char **names) {
    for (size_t i = 0; i < fields.count; i++) names[i] = fields.at[i].name;
}

void lipsc_fields_clear(lipsc_fields fields, void *record) {
    for (size_t i = 0; i < fields.count; i++) {
        void *at = (char *)record + fields.at[i].offset;
        switch (fields.at[i].kind) {
        case LIPSC_FIELD_TEXT:
            *(const char **)at = NULL;
            break;
        case LIPSC_FIELD_COUNT:
            *(size_t *)at = LIPSC_NONE;
            break;
        case LIPSC_FIELD_WHOLE:
            *(long long *)at = LIPSC_NO_WHOLE;
            break;
        case LIPSC_FIELD_REAL:
            *(double *)at = NAN;
            break;
        case LIPSC_FIELD_FLAG:
            *(int *)at = -1;
            break;
        case LIPSC_FIELD_REALS:
            *(lipsc_reals *)at = (lipsc_reals){0, NULL};
            break;
        }
    }
}

/* ---- To JSON ------------------------------------------------------------------------ */

json_t *lipsc_json_text(const char *text) {
    if (!text) return json_null();
    json_t *whole = json_string(text);
    if (whole) return whole;
    char *clean = malloc(3 * strlen(text) + 1); /* U+FFFD has three bytes */
    if (!clean) return NULL;
    char *end = clean;
    for (size_t left = strlen(text), width; left; text += width, left -= width) {
        uint32_t code;
        width = lipsc_utf8_at(text, left, &code);
        const int good = code != UINT32_MAX;
        memcpy(end, good ? text : "\xEF\xBF\xBD", good ? width : 3);
        end += good ? width : 3;
    }
    *end = '\0';
    whole = json_string(clean);
    free(clean);
    return whole;
}

json_t *lipsc_json_real(double x) { return isfinite(x) ? json_real(x) : json_null(); }

static json_t *list_json(const lipsc_reals *list) {
    if (!list->at) return json_null();
    json_t *out = json_array();
    for (size_t i = 0; out && i < list->count; i++)
        if (json_array_append_new(out, lipsc_json_real(list->at[i]))) {
            json_decref(out);
            out = NULL;
        }
    return out;
}

json_t *lipsc_field_json(const lipsc_field *f, const void *record) {
    const void *at = member(f, record);
    switch (f->kind) {
    case LIPSC_FIELD_TEXT:
        return lipsc_json_text(*(const char *const *)at);
    case LIPSC_FIELD_COUNT: {
        const size_t x = *(const size_t *)at;
        return x == LIPSC_NONE ? json_null() : json_integer((json_int_t)x);
    }
    case LIPSC_FIELD_WHOLE: {
        const long long x = *(const long long *)at;
        return x == LIPSC_NO_WHOLE ? json_null() : json_integer(x);
    }
    case LIPSC_FIELD_REAL:
        return lipsc_json_real(*(const double *)at);
    case LIPSC_FIELD_FLAG: {
        const int x = *(const int *)at;
        return x < 0 ? json_null() : json_boolean(x);
    }
    case LIPSC_FIELD_REALS:
        return list_json(at);
    }
    return NULL;
}

json_t *lipsc_fields_get(lipsc_fields fields, const void *record, const char *name) {
    for (size_t i = 0; i < fields.count; i++)
        if (!strcmp(fields.at[i].name, name))
            return lipsc_field_json(&fields.at[i], record);
    return NULL;
}

json_t *lipsc_fields_json(lipsc_fields fields, const void *record, unsigned parts) {
    json_t *out = json_object();
    for (size_t i = 0; out && i < fields.count; i++) {
        const lipsc_field *f = &fields.at[i];
        if (f->part && !(f->part & parts)) continue;
        if (json_object_set_new(out, f->name, lipsc_field_json(f, record))) {
            json_decref(out);
            out = NULL;
        }
    }
    return out;
}

/* ---- And back ----------------------------------------------------------------------- */

static int read_list(const json_t *value, lipsc_pool *pool, lipsc_reals *list,
                     int *short_of_memory) {
    const size_t count = json_array_size(value);
    double *items = lipsc_alloc(count, sizeof *items);
    int good = json_is_array(value) && items;
    for (size_t i = 0; good && i < count; i++) {
        const json_t *item = json_array_get(value, i);
        good = json_is_number(item) || json_is_null(item);
        items[i] = json_is_number(item) ? json_number_value(item) : NAN;
    }
    if (good) *list = (lipsc_reals){count, lipsc_pool_reals(pool, count, items)};
    *short_of_memory = !items || (good && !list->at);
    lipsc_release(items);
    return good && !*short_of_memory;
}

/* 0: not of this kind, or memory is short. */
static int read_member(const lipsc_field *f, const json_t *value, lipsc_pool *pool,
                       void *at, int *short_of_memory) {
    switch (f->kind) {
    case LIPSC_FIELD_TEXT:
        if (!json_is_string(value)) return 0;
        *(const char **)at = lipsc_pool_text(pool, json_string_value(value));
        *short_of_memory = !*(const char **)at;
        return !*short_of_memory;
    case LIPSC_FIELD_COUNT:
        if (!json_is_integer(value) || json_integer_value(value) < 0) return 0;
        *(size_t *)at = (size_t)json_integer_value(value);
        return 1;
    case LIPSC_FIELD_WHOLE:
        if (!json_is_integer(value)) return 0;
        *(long long *)at = json_integer_value(value);
        return 1;
    case LIPSC_FIELD_REAL:
        if (!json_is_number(value)) return 0;
        *(double *)at = json_number_value(value);
        return 1;
    case LIPSC_FIELD_FLAG:
        if (!json_is_boolean(value)) return 0;
        *(int *)at = json_is_true(value);
        return 1;
    case LIPSC_FIELD_REALS:
        return read_list(value, pool, at, short_of_memory);
    }
    return 0;
}

lipsc_status lipsc_fields_read(lipsc_fields fields, const json_t *object, lipsc_pool *pool,
                               void *record, unsigned *parts, lipsc_error *err) {
    lipsc_fields_clear(fields, record);
    *parts = 0;
    for (size_t i = 0; i < fields.count; i++) {
        const lipsc_field *f = &fields.at[i];
        const json_t *value = json_object_get(object, f->name);
        int short_of_memory = 0;
        if (!value) continue;
        *parts |= f->part;
        if (json_is_null(value)) continue;
        if (read_member(f, value, pool, (char *)record + f->offset, &short_of_memory))
            continue;
        return short_of_memory
                   ? lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a row")
                   : lipsc_fail(err, LIPSC_E_FORMAT,
                                "the field '%s' of a row is not what it should be",
                                f->name);
    }
    return LIPSC_OK;
}
