/* layer_write.c - a record as a layer file: the tables say what and under which name. */
#include "io/layer_record.h"

#include "core/error.h"
#include "core/json.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whoever adds a member to lipsc_layer adds its line to a list of layer_record.h; a layer
 * that is written without it would read back as another one. */
_Static_assert(sizeof(void *) != 8 || sizeof(lipsc_layer) == 232,
               "lipsc_layer has a member that layer files do not know");

lipsc_layer_record lipsc_layer_record_of(const lipsc_layer *layer,
                                         const lipsc_input *input) {
    return (lipsc_layer_record){.layer = *layer,
                                .input = *input,
                                .map = layer->O ? LIPSC_FILE_ATTENTION : LIPSC_FILE_HEADS};
}

static const void *pointer_at(const lipsc_layer_record *record, size_t at) {
    const void *pointer;
    memcpy(&pointer, (const char *)record + at, sizeof pointer);
    return pointer;
}

/* What a layer carries along without using it is no part of its description. */
static lipsc_layer_record only_used(const lipsc_layer_record *record) {
    lipsc_layer_record r = *record;
    if (!lipsc_mask_has_window(r.layer.mask)) r.layer.window = 0;
    if (!r.layer.q_gain && !r.layer.k_gain) {
        r.layer.norm_eps = 0.0;
        r.layer.norm_whole = 0;
    }
    if (r.layer.bias_rule == LIPSC_BIAS_NONE) r.layer.score_bias = NULL;
    if (r.layer.bias_rule != LIPSC_BIAS_BUCKETS)
        r.layer.bias_buckets = r.layer.bias_distance = 0;
    if (!r.layer.rotary_dim) r.layer.rotary_freq = r.input.positions = NULL;
    if (!r.layer.K) r.layer.bk = NULL;
    if (!r.layer.O) r.layer.bo = NULL;
    return r;
}

/* ---- Tensors ---- */

typedef struct {
    lipsc_st_item items[LIPSC_TENSORS];
    size_t shapes[LIPSC_TENSORS][3];
    size_t count;
} items;

static int is_written(const lipsc_layer_record *record, const lipsc_layer_tensor *tensor) {
    const int with_A = record->layer.Q && !record->layer.K;
    return pointer_at(record, tensor->at) &&
           !(tensor->use == LIPSC_FOR_LAYER_A && !with_A) &&
           !(tensor->use == LIPSC_FOR_LAYER_QK && with_A);
}

static void add_tensor(items *to, const lipsc_layer_record *record,
                       const size_t size[LIPSC_EXTENTS], const lipsc_layer_tensor *tensor) {
    size_t *shape = to->shapes[to->count];
    size_t ndim = tensor->columns == LIPSC_VECTOR ? 1 : 2;
    shape[0] = size[tensor->rows];
    if (ndim == 2) shape[1] = size[tensor->columns];
    if (tensor->rows == LIPSC_PIXEL_SHAPE) {
        ndim = 3;
        memcpy(shape, record->pixel_shape, sizeof record->pixel_shape);
    }
    to->items[to->count++] = (lipsc_st_item){.name = tensor->name,
                                             .dtype = LIPSC_F64,
                                             .ndim = ndim,
                                             .shape = shape,
                                             .data = pointer_at(record, tensor->at)};
}

/* ---- Metadata ---- */

#define TEXT_OF(x)     #x
#define SCHEMA_TEXT(x) TEXT_OF(x)

enum { NOTE_ROOM = 40, OWN_NOTES = 2 };

typedef struct {
    lipsc_st_note notes[LIPSC_NOTES + OWN_NOTES];
    char texts[LIPSC_NOTES][NOTE_ROOM];
    size_t count;
} notes;

/* 17 digits with a point, whatever the locale: jansson's writing.  0: no memory. */
static int real_text(double value, char text[NOTE_ROOM]) {
    json_t *number = json_real(value);
    char *dumped =
        number ? lipsc_json_dumps(number, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17)) : NULL;
    if (dumped) snprintf(text, NOTE_ROOM, "%s", dumped);
    free(dumped);
    json_decref(number);
    return dumped != NULL;
}

/* The value as text, NULL where there is nothing to say; *ok 0: no memory. */
static const char *note_text(const lipsc_layer_record *record, const lipsc_layer_note *note,
                             char text[NOTE_ROOM], int *ok) {
    const char *at = (const char *)record + note->at;
    size_t count;
    double real;
    int place;
    switch (note->kind) {
    case LIPSC_NOTE_TEXT:
        return pointer_at(record, note->at);
    case LIPSC_NOTE_COUNT:
        memcpy(&count, at, sizeof count);
        snprintf(text, NOTE_ROOM, "%zu", count);
        return count ? text : NULL;
    case LIPSC_NOTE_NAME:
        memcpy(&place, at, sizeof place);
        return note->names[place];
    case LIPSC_NOTE_FACTOR:
    case LIPSC_NOTE_POSITIVE:
    default:
        memcpy(&real, at, sizeof real);
        if (real == 0.0) return NULL;
        *ok = real_text(real, text) && *ok;
        return text;
    }
}

static int make_notes(const lipsc_layer_record *record, notes *out) {
    static const char schema[] = SCHEMA_TEXT(LIPSC_SCHEMA);
    int ok = 1;
    out->notes[0] = (lipsc_st_note){"lipscope", lipsc_version()};
    out->notes[1] = (lipsc_st_note){"schema", schema};
    out->count = OWN_NOTES;
    for (size_t i = 0; i < LIPSC_NOTES; i++) {
        const lipsc_layer_note *note = &lipsc_layer_notes[i];
        if (!pointer_at(record, note->with)) continue;
        const char *text = note_text(record, note, out->texts[i], &ok);
        if (text) out->notes[out->count++] = (lipsc_st_note){note->key, text};
    }
    return ok;
}

lipsc_status lipsc_layer_write(const char *path, const lipsc_layer_record *record,
                               lipsc_error *err) {
    const lipsc_layer_record used = only_used(record);
    size_t size[LIPSC_EXTENTS];
    items all = {.count = 0};
    notes said;
    lipsc_layer_sizes(&used, size);
    for (size_t i = 0; i < LIPSC_TENSORS; i++)
        if (is_written(&used, &lipsc_layer_tensors[i]))
            add_tensor(&all, &used, size, &lipsc_layer_tensors[i]);
    if (!make_notes(&used, &said))
        return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for metadata");
    return lipsc_st_write(path, all.items, all.count, said.notes, said.count, err);
}
