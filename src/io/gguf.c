/* gguf.c - the header of a GGUF file -> checked notes and tensor spans.
 * By hand because it is small and must be fuzzed; the format has no C library of its own.
 */
#include "io/gguf.h"

#include "core/error.h"
#include "core/mem.h"
#include "io/mapfile.h"
#include "io/show.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 512, ALIGNMENT = 32, NESTING = 4 };

enum { /* types of notes */
       U8,
       I8,
       U16,
       I16,
       U32,
       I32,
       F32,
       TRUTH,
       STRING,
       ARRAY,
       U64,
       I64,
       F64,
       KINDS
};

static const size_t kind_bytes[KINDS] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

typedef struct {
    char *key;
    uint32_t kind;
    const uint8_t *value; /* checked to its last byte */
} note;

struct lipsc_gguf {
    lipsc_mapfile map; /* empty when the bytes are the caller's */
    char path[LIPSC_SHOWN_PATH];
    note *notes;
    size_t note_count;
    lipsc_gguf_tensor *tensors;
    char **names;
    size_t count;
};

/* ---- Bytes --------------------------------------------------------------------------- */

static uint64_t little(const uint8_t *p, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) value |= (uint64_t)p[i] << 8 * i;
    return value;
}

/* What is left to read; a failed take leaves it where it was. */
typedef struct {
    const uint8_t *start, *at, *end;
} reader;

static size_t left(const reader *r) { return (size_t)(r->end - r->at); }

static int take(reader *r, size_t bytes, uint64_t *out) {
    if (left(r) < bytes) return 0;
    *out = little(r->at, bytes);
    r->at += bytes;
    return 1;
}

static int take_text(reader *r, lipsc_gguf_text *out) {
    uint64_t size;
    const uint8_t *begin = r->at;
    if (!take(r, 8, &size) || size > left(r)) {
        r->at = begin;
        return 0;
    }
    *out = (lipsc_gguf_text){(const char *)r->at, (size_t)size};
    r->at += size;
    return 1;
}

static const char no_memory[] = "out of memory"; /* the one reason that is not the file's */

static lipsc_status fail(const lipsc_gguf *g, const reader *r, const char *reason,
                         lipsc_error *err) {
    if (reason == no_memory)
        return lipsc_fail(err, LIPSC_E_NOMEM, "%s: %s", g->path, reason);
    return lipsc_fail_at(err, LIPSC_E_FORMAT, (uint64_t)(r->at - r->start), "%s: %s",
                         g->path, reason);
}

/* A key or a tensor's name as a C string; the reason, or NULL. */
static const char *take_name(reader *r, char **out) {
    lipsc_gguf_text text;
    if (!take_text(r, &text)) return "ends inside a name";
    if (text.size == 0 || text.size >= NAME) return "holds a name of no sensible length";
    if (memchr(text.bytes, '\0', text.size)) return "holds a name with a NUL";
    *out = lipsc_alloc(text.size + 1, 1);
    if (!*out) return no_memory;
    memcpy(*out, text.bytes, text.size);
    (*out)[text.size] = '\0';
    return NULL;
}

/* ---- Notes --------------------------------------------------------------------------- */

/* Steps over a value of that kind; the reason, or NULL. */
static const char *skip_value(reader *r, uint64_t kind, int depth) {
    lipsc_gguf_text text;
    uint64_t of, count;
    size_t bytes;
    if (kind >= KINDS) return "holds a note of an unknown type";
    if (kind == STRING) return take_text(r, &text) ? NULL : "ends inside a note";
    if (kind != ARRAY) {
        if (left(r) < kind_bytes[kind]) return "ends inside a note";
        r->at += kind_bytes[kind];
        return NULL;
    }
    if (depth == NESTING) return "holds arrays within arrays too deep";
    if (!take(r, 4, &of) || !take(r, 8, &count)) return "ends inside a note";
    if (of >= KINDS) return "holds a note of an unknown type";
    if (of != STRING && of != ARRAY) {
        if (count > SIZE_MAX || !lipsc_mul_size((size_t)count, kind_bytes[of], &bytes) ||
            bytes > left(r))
            return "ends inside a note";
        r->at += bytes;
        return NULL;
    }
    for (uint64_t i = 0; i < count; i++) { /* each takes at least eight bytes */
        const char *reason = skip_value(r, of, depth + 1);
        if (reason) return reason;
    }
    return NULL;
}

static const char *read_note(reader *r, note *out) {
    uint64_t kind;
    const char *reason = take_name(r, &out->key);
    if (reason) return reason;
    if (!take(r, 4, &kind)) return "ends inside a note";
    out->kind = (uint32_t)kind;
    out->value = r->at;
    return skip_value(r, kind, 0);
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const note *)a)->key, ((const note *)b)->key);
}

static const note *find_note(const lipsc_gguf *g, const char *key) {
    const note wanted = {.key = (char *)(uintptr_t)key};
    return g->note_count ? bsearch(&wanted, g->notes, g->note_count, sizeof wanted, by_key)
                         : NULL;
}

static int number(uint32_t kind, const uint8_t *p, double *out) {
    const uint64_t bits = kind < KINDS ? little(p, kind_bytes[kind]) : 0;
    float single;
    switch (kind) {
    case U8:
    case U16:
    case U32:
    case U64:
    case TRUTH:
        *out = (double)bits;
        return 1;
    case I8:
        *out = (int8_t)bits;
        return 1;
    case I16:
        *out = (int16_t)bits;
        return 1;
    case I32:
        *out = (int32_t)bits;
        return 1;
    case I64:
        *out = (double)(int64_t)bits;
        return 1;
    case F32: {
        const uint32_t low = (uint32_t)bits;
        memcpy(&single, &low, sizeof single);
        *out = single;
        return 1;
    }
    case F64:
        memcpy(out, &bits, sizeof *out);
        return 1;
    default:
        return 0;
    }
}

/* Written and read in one locale, whichever that is. */
static double shortest_decimal(double single) {
    char text[32];
    double value = single;
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, single);
        value = strtod(text, NULL);
        if ((float)value == (float)single) break;
    }
    return value;
}

int lipsc_gguf_number(const lipsc_gguf *g, const char *key, double *out) {
    const note *found = find_note(g, key);
    if (!found || !number(found->kind, found->value, out)) return 0;
    if (found->kind == F32 && isfinite(*out)) *out = shortest_decimal(*out);
    return 1;
}

const char *lipsc_gguf_key(const lipsc_gguf *g, size_t i) {
    return i < g->note_count ? g->notes[i].key : NULL;
}

int lipsc_gguf_string(const lipsc_gguf *g, const char *key, lipsc_gguf_text *out) {
    const note *found = find_note(g, key);
    if (!found || found->kind != STRING) return 0;
    *out =
        (lipsc_gguf_text){(const char *)found->value + 8, (size_t)little(found->value, 8)};
    return 1;
}

int lipsc_gguf_array(const lipsc_gguf *g, const char *key, lipsc_gguf_list *out) {
    const note *found = find_note(g, key);
    if (!found || found->kind != ARRAY) return 0;
    *out = (lipsc_gguf_list){(uint32_t)little(found->value, 4),
                             (size_t)little(found->value + 4, 8), found->value + 12};
    return 1;
}

int lipsc_gguf_next_number(lipsc_gguf_list *list, double *out) {
    if (!list->left || !number(list->type, list->at, out)) return 0;
    list->left--;
    list->at += kind_bytes[list->type];
    return 1;
}

int lipsc_gguf_next_string(lipsc_gguf_list *list, lipsc_gguf_text *out) {
    if (!list->left || list->type != STRING) return 0;
    *out = (lipsc_gguf_text){(const char *)list->at + 8, (size_t)little(list->at, 8)};
    list->left--;
    list->at += 8 + out->size;
    return 1;
}

/* ---- Tensors ------------------------------------------------------------------------- */

static lipsc_status fail_tensor(const lipsc_gguf *g, const lipsc_gguf_tensor *t,
                                uint64_t offset, const char *reason, lipsc_error *err) {
    char shown[LIPSC_SHOWN_NAME];
    lipsc_show_name(t->name, shown);
    return lipsc_fail_at(err, LIPSC_E_FORMAT, offset, "%s: tensor '%s': %s", g->path, shown,
                         reason);
}

/* Name, shape, type, and the offset among the data; the reason, or NULL. */
static const char *read_tensor(reader *r, char **name, lipsc_gguf_tensor *t) {
    uint64_t ndim, type, size;
    const char *reason = take_name(r, name);
    if (reason) return reason;
    t->name = *name;
    if (!take(r, 4, &ndim)) return "ends inside a tensor's entry";
    if (ndim > LIPSC_GGUF_DIMS) return "holds a tensor of more than four dimensions";
    t->ndim = (size_t)ndim;
    t->count = 1;
    for (size_t i = 0; i < t->ndim; i++) {
        if (!take(r, 8, &size)) return "ends inside a tensor's entry";
        if (size == 0 || size > SIZE_MAX ||
            !lipsc_mul_size(t->count, (size_t)size, &t->count))
            return "holds a tensor whose shape overflows or is empty";
        t->shape[t->ndim - 1 - i] = (size_t)size;
    }
    if (!take(r, 4, &type) || !take(r, 8, &t->offset))
        return "ends inside a tensor's entry";
    t->type_id = (uint32_t)type;
    t->type = lipsc_quant_of(t->type_id);
    return NULL;
}

/* From the offset among the data to the data; the reason, or NULL. */
static const char *place_tensor(lipsc_gguf_tensor *t, const reader *data,
                                size_t alignment) {
    const size_t row = t->ndim ? t->shape[t->ndim - 1] : 1;
    const uint64_t begin = t->offset;
    t->offset += (uint64_t)(data->at - data->start);
    if (begin % alignment) return "its offset is not aligned";
    if (begin > left(data)) return "its offset lies outside the file";
    t->data = data->at + begin;
    if (!t->type) return NULL;
    if (row % t->type->values) return "a row is no whole number of blocks of its type";
    if (!lipsc_mul_size(t->count / t->type->values, t->type->bytes, &t->bytes) ||
        t->bytes > left(data) - begin)
        return "its data ends outside the file";
    return NULL;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const lipsc_gguf_tensor *)a)->name,
                  ((const lipsc_gguf_tensor *)b)->name);
}

size_t lipsc_gguf_count(const lipsc_gguf *g) { return g->count; }

const lipsc_gguf_tensor *lipsc_gguf_at(const lipsc_gguf *g, size_t i) {
    return i < g->count ? &g->tensors[i] : NULL;
}

const lipsc_gguf_tensor *lipsc_gguf_find(const lipsc_gguf *g, const char *name) {
    const lipsc_gguf_tensor wanted = {.name = name};
    return g->count ? bsearch(&wanted, g->tensors, g->count, sizeof wanted, by_name) : NULL;
}

lipsc_status lipsc_gguf_read(const lipsc_gguf *g, const lipsc_gguf_tensor *t, size_t first,
                             size_t count, double *out, lipsc_error *err) {
    char reason[96];
    if (first > t->count || count > t->count - first)
        return lipsc_fail(err, LIPSC_E_ARG, "%s: tensor entries out of range", g->path);
    if (t->type && t->type->unpack) {
        lipsc_quant_read(t->type, t->data, first, count, out);
        return LIPSC_OK;
    }
    if (t->type)
        snprintf(reason, sizeof reason, "its type %s is not one that can be read",
                 t->type->name);
    else
        snprintf(reason, sizeof reason, "its type has the unknown number %u",
                 (unsigned)t->type_id);
    return fail_tensor(g, t, t->offset, reason, err);
}

/* ---- The whole file ------------------------------------------------------------------ */

static lipsc_status read_notes(lipsc_gguf *g, reader *r, uint64_t count, lipsc_error *err) {
    if (count > left(r) / 13) return fail(g, r, "has fewer notes than it says", err);
    g->notes = lipsc_alloc_zero((size_t)count, sizeof *g->notes);
    if (!g->notes) return fail(g, r, no_memory, err);
    for (uint64_t i = 0; i < count; i++) {
        const char *reason = read_note(r, &g->notes[g->note_count]);
        g->note_count += g->notes[g->note_count].key != NULL;
        if (reason) return fail(g, r, reason, err);
    }
    qsort(g->notes, g->note_count, sizeof *g->notes, by_key);
    for (size_t i = 1; i < g->note_count; i++)
        if (!by_key(&g->notes[i - 1], &g->notes[i]))
            return fail(g, r, "has two notes of one key", err);
    return LIPSC_OK;
}

static lipsc_status read_tensors(lipsc_gguf *g, reader *r, uint64_t count,
                                 lipsc_error *err) {
    if (count > left(r) / 25) return fail(g, r, "has fewer tensors than it says", err);
    g->tensors = lipsc_alloc_zero((size_t)count, sizeof *g->tensors);
    g->names = lipsc_alloc_zero((size_t)count, sizeof *g->names);
    if (!g->tensors || !g->names) return fail(g, r, no_memory, err);
    for (uint64_t i = 0; i < count; i++) {
        const char *reason = read_tensor(r, &g->names[g->count], &g->tensors[g->count]);
        g->count += g->names[g->count] != NULL;
        if (reason) return fail(g, r, reason, err);
    }
    return LIPSC_OK;
}

/* The data begins at the next multiple of the alignment. */
static lipsc_status place_tensors(lipsc_gguf *g, reader *r, lipsc_error *err) {
    double alignment = ALIGNMENT;
    if (lipsc_gguf_number(g, "general.alignment", &alignment) &&
        !(alignment >= 1 && alignment <= 65536 && alignment == (double)(size_t)alignment))
        return fail(g, r, "general.alignment is no sensible number", err);
    const size_t unit = (size_t)alignment, used = (size_t)(r->at - r->start);
    const size_t gap = (unit - used % unit) % unit;
    r->at += gap < left(r) ? gap : left(r);
    for (size_t i = 0; i < g->count; i++) {
        const char *reason = place_tensor(&g->tensors[i], r, unit);
        if (reason)
            return fail_tensor(g, &g->tensors[i], g->tensors[i].offset, reason, err);
    }
    if (g->count) qsort(g->tensors, g->count, sizeof *g->tensors, by_name);
    for (size_t i = 1; i < g->count; i++)
        if (!by_name(&g->tensors[i - 1], &g->tensors[i]))
            return fail_tensor(g, &g->tensors[i], 0, "stands there twice", err);
    return LIPSC_OK;
}

static lipsc_status read_all(lipsc_gguf *g, const uint8_t *bytes, size_t length,
                             lipsc_error *err) {
    reader r = {bytes, bytes, bytes + length};
    uint64_t version, tensors, notes;
    if (length < 24 || memcmp(bytes, "GGUF", 4))
        return fail(g, &r, "is not a GGUF file", err);
    r.at += 4;
    take(&r, 4, &version);
    if (version == 0x02000000 || version == 0x03000000)
        return fail(g, &r, "is a big-endian GGUF file, which is not read", err);
    if (version != 2 && version != 3)
        return fail(g, &r, "is a GGUF file of another version than 2 or 3", err);
    take(&r, 8, &tensors);
    take(&r, 8, &notes);
    lipsc_status status = read_notes(g, &r, notes, err);
    if (!status) status = read_tensors(g, &r, tensors, err);
    return status ? status : place_tensors(g, &r, err);
}

lipsc_status lipsc_gguf_parse(const uint8_t *bytes, size_t length,
                              const char *name_for_errors, lipsc_gguf **out,
                              lipsc_error *err) {
    lipsc_gguf *g = lipsc_alloc_zero(1, sizeof *g);
    if (!g) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a GGUF file");
    lipsc_show_path(name_for_errors, g->path);
    const lipsc_status status = read_all(g, bytes, length, err);
    if (status)
        lipsc_gguf_free(g);
    else
        *out = g;
    return status;
}

lipsc_status lipsc_gguf_open(const char *path, lipsc_gguf **out, lipsc_error *err) {
    lipsc_mapfile map;
    lipsc_status status = lipsc_mapfile_open(path, &map, err);
    if (status) return status;
    status = lipsc_gguf_parse(map.data, map.size, path, out, err);
    if (status)
        lipsc_mapfile_close(&map);
    else
        (*out)->map = map;
    return status;
}

void lipsc_gguf_free(lipsc_gguf *g) {
    if (!g) return;
    for (size_t i = 0; i < g->note_count; i++) lipsc_release(g->notes[i].key);
    for (size_t i = 0; g->names && i < g->count; i++) lipsc_release(g->names[i]);
    lipsc_release(g->notes);
    lipsc_release(g->names);
    lipsc_release(g->tensors);
    if (g->map.data) lipsc_mapfile_close(&g->map);
    lipsc_release(g);
}

void lipsc_gguf_forget(const lipsc_gguf *g, const lipsc_gguf_tensor *tensor) {
    lipsc_mapfile_forget(&g->map, tensor->data, tensor->bytes);
}

int lipsc_gguf_recognised(const char *path) {
    lipsc_mapfile map;
    if (lipsc_mapfile_open(path, &map, NULL)) return 0;
    const int recognised = map.size >= 4 && !memcmp(map.data, "GGUF", 4);
    lipsc_mapfile_close(&map);
    return recognised;
}

const char *lipsc_gguf_path(const lipsc_gguf *g) { return g->path; }
