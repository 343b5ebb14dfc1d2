/* layer_notes.c - the metadata of a layer file, and the options of a caller beside it.
 *
 * A file that names its schema says all that its layer is: a key that is not known there
 * would be a part of the layer that is left out, and is refused.  Bare files may carry any
 * metadata; keys that are known count there too. */
#include "io/layer_record.h"

#include "core/error.h"
#include "core/json.h"
#include "io/show.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char schema_key[] = "schema", version_key[] = "lipscope";

static lipsc_status refuse_note(const lipsc_st *st, const char *key, const char *wanted,
                                lipsc_error *err) {
    char value[LIPSC_SHOWN_NAME];
    lipsc_show_name(lipsc_st_metadata(st, key), value);
    return lipsc_fail(err, LIPSC_E_FORMAT, "%s: metadata '%s' holds '%s': expected %s",
                      lipsc_st_path(st), key, value, wanted);
}

/* ---- Values ---- */

/* Digits only, below 10^15: every sum and product of two is checked against a tensor. */
static int parse_count(const char *text, size_t *out) {
    size_t value = 0, length = strlen(text);
    if (length == 0 || length > 15) return 0;
    for (; *text; text++) {
        if (*text < '0' || *text > '9') return 0;
        value = 10 * value + (size_t)(*text - '0');
    }
    *out = value;
    return 1;
}

/* A finite number as JSON writes it, whatever the locale. */
static int parse_real(const char *text, double *out, int *memory) {
    json_t *number = lipsc_json_load(text, strlen(text), JSON_DECODE_ANY, NULL, memory);
    const int good = json_is_number(number);
    if (good) *out = json_number_value(number);
    json_decref(number);
    return good && isfinite(*out);
}

static void join(const char *const *names, char *text, size_t room) {
    size_t used = 0;
    for (size_t i = 0; names[i] && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%s",
                                 i == 0         ? ""
                                 : names[i + 1] ? ", "
                                                : " or ",
                                 names[i]);
}

static lipsc_status read_name(const lipsc_st *st, const lipsc_layer_note *note, char *to,
                              lipsc_error *err) {
    const char *text = lipsc_st_metadata(st, note->key);
    char wanted[120];
    for (int i = 0; note->names[i]; i++)
        if (!strcmp(text, note->names[i])) {
            memcpy(to, &i, sizeof i);
            return LIPSC_OK;
        }
    join(note->names, wanted, sizeof wanted);
    return refuse_note(st, note->key, wanted, err);
}

static lipsc_status read_note(const lipsc_st *st, const lipsc_layer_note *note,
                              lipsc_layer_record *record, lipsc_error *err) {
    const char *text = lipsc_st_metadata(st, note->key);
    char *to = (char *)record + note->at;
    size_t count;
    double real = 0.0;
    int good, memory = 0;
    switch (note->kind) {
    case LIPSC_NOTE_TEXT:
        memcpy(to, &text, sizeof text);
        return LIPSC_OK;
    case LIPSC_NOTE_NAME:
        return read_name(st, note, to, err);
    case LIPSC_NOTE_COUNT:
        if (!parse_count(text, &count))
            return refuse_note(st, note->key, "a whole number", err);
        memcpy(to, &count, sizeof count);
        return LIPSC_OK;
    case LIPSC_NOTE_FACTOR:
    case LIPSC_NOTE_POSITIVE:
    default:
        good = parse_real(text, &real, &memory);
        if (memory) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for metadata");
        if (!good || (note->kind == LIPSC_NOTE_FACTOR ? real == 0.0 : real < 0.0))
            return refuse_note(st, note->key,
                               note->kind == LIPSC_NOTE_FACTOR
                                   ? "a number other than zero"
                                   : "a number that is not negative",
                               err);
        memcpy(to, &real, sizeof real);
        return LIPSC_OK;
    }
}

/* ---- What is not known ---- */

static int known_key(const char *key) {
    if (!strcmp(key, schema_key) || !strcmp(key, version_key)) return 1;
    for (size_t i = 0; i < LIPSC_NOTES; i++)
        if (!strcmp(key, lipsc_layer_notes[i].key)) return 1;
    return 0;
}

static int known_tensor(const char *name) {
    for (size_t i = 0; i < LIPSC_TENSORS; i++)
        if (!strcmp(name, lipsc_layer_tensors[i].name)) return 1;
    return 0;
}

static lipsc_status refuse_unknown(const lipsc_st *st, const char *what, const char *name,
                                   lipsc_error *err) {
    char shown[LIPSC_SHOWN_NAME];
    lipsc_show_name(name, shown);
    return lipsc_fail(err, LIPSC_E_FORMAT,
                      "%s: %s '%s' is not known to version %s: without it the layer would "
                      "be another one",
                      lipsc_st_path(st), what, shown, lipsc_version());
}

static lipsc_status check_schema(const lipsc_st *st, lipsc_error *err) {
    const char *schema = lipsc_st_metadata(st, schema_key), *key;
    size_t number;
    if (!schema) return LIPSC_OK;
    if (!parse_count(schema, &number) || number == 0)
        return refuse_note(st, schema_key, "a whole number from 1 on", err);
    if (number > LIPSC_SCHEMA)
        return lipsc_fail(err, LIPSC_E_FORMAT,
                          "%s: is of schema %zu, and version %s reads up to %d",
                          lipsc_st_path(st), number, lipsc_version(), LIPSC_SCHEMA);
    if ((key = lipsc_st_metadata_other(st, known_key)))
        return refuse_unknown(st, "metadata", key, err);
    for (size_t i = 0; i < lipsc_st_count(st); i++)
        if (!known_tensor(lipsc_st_at(st, i)->name))
            return refuse_unknown(st, "tensor", lipsc_st_at(st, i)->name, err);
    return LIPSC_OK;
}

lipsc_status lipsc_layer_read_notes(const lipsc_st *st, lipsc_layer_record *record,
                                    unsigned char said[LIPSC_NOTES], lipsc_error *err) {
    lipsc_status status = check_schema(st, err);
    for (size_t i = 0; !status && i < LIPSC_NOTES; i++) {
        said[i] = lipsc_st_metadata(st, lipsc_layer_notes[i].key) != NULL;
        if (said[i]) status = read_note(st, &lipsc_layer_notes[i], record, err);
    }
    if (!status && said[LIPSC_N_HEADS] && record->layer.heads == 0)
        status = refuse_note(st, "heads", "a whole number from 1 on", err);
    if (!status && said[LIPSC_N_KV_HEADS] && record->layer.kv_heads == 0)
        status = refuse_note(st, "kv_heads", "a whole number from 1 on", err);
    return status;
}

/* ---- Options ---- */

#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
static lipsc_status
contradict(const lipsc_st *st, int which, lipsc_error *err, const char *format, ...) {
    char asked[120], value[LIPSC_SHOWN_NAME];
    const char *key = lipsc_layer_notes[which].key;
    va_list args;
    va_start(args, format);
    vsnprintf(asked, sizeof asked, format, args);
    va_end(args);
    lipsc_show_name(lipsc_st_metadata(st, key), value);
    return lipsc_fail(err, LIPSC_E_ARG,
                      "%s: its metadata says %s %s, but %s was asked for: leave that out",
                      lipsc_st_path(st), key, value, asked);
}

static lipsc_status take_mask(const lipsc_st *st, const lipsc_layer_options *o,
                              const unsigned char *said, lipsc_layer *layer,
                              lipsc_error *err) {
    if (o->mask == LIPSC_MASK_NONE) return LIPSC_OK;
    if (said[LIPSC_N_MASK] && layer->mask != o->mask) {
        if (o->mask == LIPSC_MASK_SLIDING)
            return contradict(st, LIPSC_N_MASK, err, "window %zu", o->window);
        return contradict(st, LIPSC_N_MASK, err, "mask %s", lipsc_layer_masks[o->mask]);
    }
    layer->mask = o->mask;
    if (o->mask != LIPSC_MASK_SLIDING) return LIPSC_OK;
    if (said[LIPSC_N_WINDOW] && layer->window && layer->window != o->window)
        return contradict(st, LIPSC_N_WINDOW, err, "window %zu", o->window);
    layer->window = o->window;
    return LIPSC_OK;
}

lipsc_status lipsc_layer_take_options(const lipsc_st *st, const lipsc_layer_options *o,
                                      const unsigned char said[LIPSC_NOTES],
                                      lipsc_layer_record *record, lipsc_error *err) {
    lipsc_layer *layer = &record->layer;
    if (!isfinite(o->scale))
        return lipsc_fail(err, LIPSC_E_ARG, "%s: the scale must be finite",
                          lipsc_st_path(st));
    if (o->heads && said[LIPSC_N_HEADS] && layer->heads != o->heads)
        return contradict(st, LIPSC_N_HEADS, err, "heads %zu", o->heads);
    if (o->kv_heads && said[LIPSC_N_KV_HEADS] && layer->kv_heads != o->kv_heads)
        return contradict(st, LIPSC_N_KV_HEADS, err, "kv_heads %zu", o->kv_heads);
    if (o->scale != 0.0 && said[LIPSC_N_SCALE] &&
        (layer->scale < o->scale || layer->scale > o->scale))
        return contradict(st, LIPSC_N_SCALE, err, "scale %.17g", o->scale);
    if (o->heads) layer->heads = o->heads;
    if (o->kv_heads) layer->kv_heads = o->kv_heads;
    if (o->scale != 0.0) layer->scale = o->scale;
    if (layer->heads == 0) layer->heads = 1;
    if (layer->kv_heads == 0) layer->kv_heads = layer->heads;
    return take_mask(st, o, said, layer, err);
}
