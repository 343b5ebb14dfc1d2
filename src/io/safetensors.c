/* safetensors.c - header of a safetensors file -> list of checked tensor spans.
 * By hand because it is small and must be fuzzed; the JSON itself is jansson's. */
#include "io/safetensors.h"

#include "core/error.h"
#include "core/json.h"
#include "core/mem.h"
#include "io/mapfile.h"
#include "io/show.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX = 8, HEADER_LIMIT = 100000000 }; /* the limit of the format's own reader */

struct lipsc_st {
    lipsc_mapfile map; /* empty when the bytes are the caller's */
    char path[LIPSC_SHOWN_PATH];
    json_t *header; /* owns names and metadata */
    lipsc_st_tensor *tensors;
    size_t count;
    size_t *shapes; /* all shapes, one after the other */
};

static const struct dtype {
    const char *name;
    lipsc_st_type type;
    unsigned bits;
} dtypes[] = {
    {"F64", LIPSC_ST_F64, 64},          {"F32", LIPSC_ST_F32, 32},
    {"F16", LIPSC_ST_F16, 16},          {"BF16", LIPSC_ST_BF16, 16},
    {"I64", LIPSC_ST_OTHER, 64},        {"U64", LIPSC_ST_OTHER, 64},
    {"C64", LIPSC_ST_OTHER, 64},        {"I32", LIPSC_ST_OTHER, 32},
    {"U32", LIPSC_ST_OTHER, 32},        {"I16", LIPSC_ST_OTHER, 16},
    {"U16", LIPSC_ST_OTHER, 16},        {"I8", LIPSC_ST_OTHER, 8},
    {"U8", LIPSC_ST_OTHER, 8},          {"BOOL", LIPSC_ST_OTHER, 8},
    {"F8_E5M2", LIPSC_ST_OTHER, 8},     {"F8_E4M3", LIPSC_ST_OTHER, 8},
    {"F8_E8M0", LIPSC_ST_OTHER, 8},     {"F8_E4M3FNUZ", LIPSC_ST_OTHER, 8},
    {"F8_E5M2FNUZ", LIPSC_ST_OTHER, 8}, {"F6_E2M3", LIPSC_ST_OTHER, 6},
    {"F6_E3M2", LIPSC_ST_OTHER, 6},     {"F4", LIPSC_ST_OTHER, 4},
};

static const struct dtype *find_dtype(const char *name) {
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (strcmp(dtypes[i].name, name) == 0) return &dtypes[i];
    return NULL;
}

static lipsc_status fail_tensor(const lipsc_st *st, const char *name, uint64_t offset,
                                const char *reason, lipsc_error *err) {
    char shown[LIPSC_SHOWN_NAME];
    lipsc_show_name(name, shown);
    return lipsc_fail_at(err, LIPSC_E_FORMAT, offset, "%s: tensor '%s': %s", st->path,
                         shown, reason);
}

static int is_size(const json_t *value, size_t *out) {
    if (!json_is_integer(value)) return 0;
    const json_int_t integer = json_integer_value(value);
    if (integer < 0 || (uintmax_t)integer > SIZE_MAX) return 0;
    *out = (size_t)integer;
    return 1;
}

/* Reads one entry of the header into *t, its shape into the free end of the pool.
 * The reason, or NULL when its span lies inside the data and fits its shape. */
static const char *read_entry(const json_t *entry, const uint8_t *data, size_t data_bytes,
                              size_t *shape, lipsc_st_tensor *t) {
    if (!json_is_object(entry)) return "its entry is not a JSON object";
    const json_t *dtype_json = json_object_get(entry, "dtype");
    const json_t *shape_json = json_object_get(entry, "shape");
    const json_t *offsets = json_object_get(entry, "data_offsets");
    if (!dtype_json) return "dtype is missing";
    if (!shape_json) return "shape is missing";
    if (!offsets) return "data_offsets is missing";
    if (!json_is_string(dtype_json)) return "dtype is not a string";
    const struct dtype *dtype = find_dtype(json_string_value(dtype_json));
    if (!dtype) return "unknown dtype";

    /* Zeros are left out of the overflow check, so that a product of any part of the
     * shape is safe later on. */
    if (!json_is_array(shape_json)) return "shape is not an array";
    size_t nonzero = 1, bits;
    int empty = 0;
    t->ndim = json_array_size(shape_json);
    for (size_t i = 0; i < t->ndim; i++) {
        if (!is_size(json_array_get(shape_json, i), &shape[i]))
            return "shape holds something else than a size";
        if (shape[i] == 0)
            empty = 1;
        else if (!lipsc_mul_size(nonzero, shape[i], &nonzero))
            return "shape overflows";
    }
    if (!lipsc_mul_size(nonzero, dtype->bits, &bits)) return "shape overflows";

    size_t begin, end;
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !is_size(json_array_get(offsets, 0), &begin) ||
        !is_size(json_array_get(offsets, 1), &end))
        return "data_offsets is not a pair of sizes";
    if (begin > end || end > data_bytes) return "data_offsets lie outside the file";
    t->count = empty ? 0 : nonzero;
    if (empty) bits = 0;
    if (bits % 8 != 0 || bits / 8 != end - begin) return "shape and offsets disagree";

    t->dtype = dtype->name;
    t->type = dtype->type;
    t->shape = shape;
    t->data = data + begin;
    t->bytes = end - begin;
    return NULL;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const lipsc_st_tensor *)a)->name, ((const lipsc_st_tensor *)b)->name);
}

static int by_span(const void *a, const void *b) {
    const lipsc_st_tensor *s = a, *t = b;
    if (s->offset != t->offset) return s->offset < t->offset ? -1 : 1;
    return (s->bytes > t->bytes) - (s->bytes < t->bytes); /* empty ones first */
}

/* Sorts by span: each tensor must begin where the one before it ended. */
static lipsc_status check_cover(const lipsc_st *st, uint64_t data_start, uint64_t file_end,
                                lipsc_error *err) {
    uint64_t at = data_start;
    qsort(st->tensors, st->count, sizeof *st->tensors, by_span);
    for (size_t i = 0; i < st->count; i++) {
        const lipsc_st_tensor *t = &st->tensors[i];
        if (t->offset < at)
            return fail_tensor(st, t->name, t->offset, "overlaps another tensor", err);
        if (t->offset > at)
            return fail_tensor(st, t->name, at, "has unused bytes before it", err);
        at += t->bytes;
    }
    if (at != file_end)
        return lipsc_fail_at(err, LIPSC_E_FORMAT, at,
                             "%s: %llu bytes after the last tensor belong to none",
                             st->path, (unsigned long long)(file_end - at));
    return LIPSC_OK;
}

static lipsc_status check_metadata(const lipsc_st *st, lipsc_error *err) {
    json_t *metadata = json_object_get(st->header, "__metadata__");
    const char *key;
    json_t *value;
    if (!metadata) return LIPSC_OK;
    if (!json_is_object(metadata))
        return lipsc_fail(err, LIPSC_E_FORMAT, "%s: __metadata__ is not a JSON object",
                          st->path);
    json_object_foreach(metadata, key, value) {
        if (json_is_string(value)) continue;
        char shown[LIPSC_SHOWN_NAME];
        lipsc_show_name(key, shown);
        return lipsc_fail(err, LIPSC_E_FORMAT, "%s: __metadata__ '%s' is not a string",
                          st->path, shown);
    }
    return LIPSC_OK;
}

static lipsc_status read_entries(lipsc_st *st, const uint8_t *bytes, size_t length,
                                 size_t data_start, lipsc_error *err) {
    size_t dims = 0, used = 0;
    const char *name;
    json_t *entry;
    json_object_foreach(st->header, name, entry) dims +=
        json_array_size(json_object_get(entry, "shape")); /* 0 for another type */
    st->tensors = lipsc_alloc(json_object_size(st->header), sizeof *st->tensors);
    st->shapes = lipsc_alloc(dims, sizeof *st->shapes);
    if (!st->tensors || !st->shapes)
        return lipsc_fail(err, LIPSC_E_NOMEM, "%s: no memory for its header", st->path);

    json_object_foreach(st->header, name, entry) {
        if (strcmp(name, "__metadata__") == 0) continue;
        lipsc_st_tensor *t = &st->tensors[st->count];
        const char *reason = read_entry(entry, bytes + data_start, length - data_start,
                                        st->shapes + used, t);
        if (reason) return fail_tensor(st, name, 0, reason, err);
        t->name = name;
        t->offset = (uint64_t)(t->data - bytes);
        used += t->ndim;
        st->count++;
    }
    return LIPSC_OK;
}

static lipsc_status load_header(lipsc_st *st, const uint8_t *bytes, size_t length,
                                size_t *data_start, lipsc_error *err) {
    if (length < PREFIX)
        return lipsc_fail(err, LIPSC_E_FORMAT,
                          "%s: %zu bytes are too few for a safetensors file", st->path,
                          length);
    uint64_t header_bytes = 0;
    for (int i = 0; i < PREFIX; i++) header_bytes |= (uint64_t)bytes[i] << (8 * i);
    if (header_bytes > length - PREFIX)
        return lipsc_fail(err, LIPSC_E_FORMAT,
                          "%s: truncated or not a safetensors file: its first 8 bytes "
                          "announce a header of %llu bytes, but only %zu follow",
                          st->path, (unsigned long long)header_bytes, length - PREFIX);
    if (header_bytes > HEADER_LIMIT)
        return lipsc_fail(err, LIPSC_E_FORMAT,
                          "%s: a header of %llu bytes is beyond the limit of %d", st->path,
                          (unsigned long long)header_bytes, (int)HEADER_LIMIT);
    if (header_bytes == 0 || bytes[PREFIX] != '{')
        return lipsc_fail_at(err, LIPSC_E_FORMAT, PREFIX,
                             "%s: the header is not a JSON object", st->path);

    json_error_t bad;
    *data_start = PREFIX + (size_t)header_bytes;
    int memory;
    st->header = lipsc_json_load((const char *)bytes + PREFIX, (size_t)header_bytes,
                                 JSON_REJECT_DUPLICATES, &bad, &memory);
    if (memory) return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", st->path);
    if (!st->header) {
        char reason[LIPSC_SHOWN_NAME];
        lipsc_show_name(bad.text, reason);
        return lipsc_fail_at(err, LIPSC_E_FORMAT, PREFIX + (uint64_t)bad.position,
                             "%s: the header is not valid JSON at byte %d: %s", st->path,
                             PREFIX + bad.position, reason);
    }
    return LIPSC_OK;
}

static lipsc_status fill(lipsc_st *st, const uint8_t *bytes, size_t length,
                         lipsc_error *err) {
    size_t data_start;
    lipsc_status status = load_header(st, bytes, length, &data_start, err);
    if (!status) status = check_metadata(st, err);
    if (!status) status = read_entries(st, bytes, length, data_start, err);
    if (!status) status = check_cover(st, data_start, length, err);
    if (!status) qsort(st->tensors, st->count, sizeof *st->tensors, by_name);
    return status;
}

lipsc_status lipsc_st_parse(const uint8_t *bytes, size_t length,
                            const char *name_for_errors, lipsc_st **out, lipsc_error *err) {
    lipsc_st *st = lipsc_alloc_zero(1, sizeof *st);
    if (!st) return lipsc_fail(err, LIPSC_E_NOMEM, "no memory for a file's header");
    lipsc_show_path(name_for_errors, st->path);
    const lipsc_status status = fill(st, bytes, length, err);
    if (status)
        lipsc_st_free(st);
    else
        *out = st;
    return status;
}

lipsc_status lipsc_st_open(const char *path, lipsc_st **out, lipsc_error *err) {
    lipsc_mapfile map;
    lipsc_status status = lipsc_mapfile_open(path, &map, err);
    if (status) return status;
    status = lipsc_st_parse(map.data, map.size, path, out, err);
    if (status)
        lipsc_mapfile_close(&map);
    else
        (*out)->map = map;
    return status;
}

void lipsc_st_free(lipsc_st *st) {
    if (!st) return;
    lipsc_mapfile_close(&st->map);
    json_decref(st->header);
    lipsc_release(st->tensors);
    lipsc_release(st->shapes);
    lipsc_release(st);
}

void lipsc_st_forget(const lipsc_st *st, const lipsc_st_tensor *tensor) {
    lipsc_mapfile_forget(&st->map, tensor->data, tensor->bytes);
}

size_t lipsc_st_count(const lipsc_st *st) { return st->count; }

const lipsc_st_tensor *lipsc_st_at(const lipsc_st *st, size_t i) { return &st->tensors[i]; }

const lipsc_st_tensor *lipsc_st_find(const lipsc_st *st, const char *name) {
    const lipsc_st_tensor key = {.name = name};
    return bsearch(&key, st->tensors, st->count, sizeof key, by_name);
}

const char *lipsc_st_metadata(const lipsc_st *st, const char *key) {
    return json_string_value(
        json_object_get(json_object_get(st->header, "__metadata__"), key));
}

const char *lipsc_st_metadata_other(const lipsc_st *st, int (*known)(const char *key)) {
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(st->header, "__metadata__"), key, value) {
        if (!known(key)) return key;
    }
    return NULL;
}

const char *lipsc_st_path(const lipsc_st *st) { return st->path; }
