/* safetensors_write.c - named tensors -> a safetensors file, whole or not at all. */
#include "core/error.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/plain.h"
#include "io/replace.h"
#include "io/safetensors.h"
#include "io/show.h"

#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 8 };

typedef struct {
    const char *path; /* as the caller wrote it, for errors */
    const lipsc_st_item *items;
    size_t count;
    char *header; /* the 8 length bytes, the JSON, spaces up to a multiple of ALIGN */
    size_t header_bytes;
} plan;

static size_t item_size(lipsc_dtype dtype) { return dtype == LIPSC_F32 ? 4 : 8; }

/* F64 first, F32 after: every tensor is then aligned to its own size. */
static const lipsc_dtype file_order[2] = {LIPSC_F64, LIPSC_F32};

static lipsc_status fail_item(const char *path, const char *name, const char *reason,
                              lipsc_error *err) {
    char shown_path[LIPSC_SHOWN_PATH], shown_name[LIPSC_SHOWN_NAME];
    lipsc_show_path(path, shown_path);
    lipsc_show_name(name, shown_name);
    return lipsc_fail(err, LIPSC_E_ARG, "%s: tensor '%s' cannot be written: %s", shown_path,
                      shown_name, reason);
}

/* Zeros are left out of the overflow check, as the reader does: what is written here can
 * be read again. */
static int count_of(const lipsc_st_item *item, size_t *count) {
    size_t nonzero = 64; /* bits of the largest entry */
    int empty = 0;
    for (size_t i = 0; i < item->ndim; i++) {
        if (item->shape[i] == 0)
            empty = 1;
        else if (!lipsc_mul_size(nonzero, item->shape[i], &nonzero))
            return 0;
    }
    *count = empty ? 0 : nonzero / 64;
    return 1;
}

static const char *item_problem(const lipsc_st_item *item, size_t at, size_t *end) {
    size_t count;
    if (!count_of(item, &count)) return "its shape overflows";
    const size_t bytes = count * item_size(item->dtype);
    if (bytes > PTRDIFF_MAX - at) return "the file would be too large";
    if (item->dtype == LIPSC_F32)
        for (size_t i = 0; i < count; i++)
            if (isfinite(item->data[i]) && !isfinite((float)item->data[i]))
                return "a value is beyond the range of F32";
    *end = at + bytes;
    return NULL;
}

static int is_utf8(const char *text) {
    uint32_t code;
    for (size_t left = strlen(text), width; left; text += width, left -= width) {
        width = lipsc_utf8_at(text, left, &code);
        if (code == UINT32_MAX) return 0;
    }
    return 1;
}

static lipsc_status fail_memory(lipsc_error *err) {
    return lipsc_fail(err, LIPSC_E_NOMEM, "no memory for the header of a file");
}

/* jansson took no `text`: it is none, or there was no memory. */
static lipsc_status refuse_text(const plan *p, const char *name, const char *text,
                                const char *problem, lipsc_error *err) {
    return is_utf8(text) ? fail_memory(err) : fail_item(p->path, name, problem, err);
}

static json_t *shape_json(const lipsc_st_item *item) {
    json_t *shape = json_array();
    int bad = 0;
    for (size_t i = 0; i < item->ndim; i++)
        bad |= json_array_append_new(shape, json_integer((json_int_t)item->shape[i]));
    if (!bad) return shape;
    json_decref(shape);
    return NULL;
}

/* Adds all items to root; their offsets follow from their order. */
static lipsc_status describe_items(const plan *p, json_t *root, lipsc_error *err) {
    size_t at = 0, end;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < p->count; i++) {
            const lipsc_st_item *item = &p->items[i];
            if (item->dtype != file_order[pass]) continue;
            if (strcmp(item->name, "__metadata__") == 0 ||
                json_object_get(root, item->name))
                return fail_item(p->path, item->name, "the name is taken", err);
            const char *problem = item_problem(item, at, &end);
            if (problem) return fail_item(p->path, item->name, problem, err);
            json_t *entry = json_pack(
                "{s:s, s:o, s:[I, I]}", "dtype", item->dtype == LIPSC_F32 ? "F32" : "F64",
                "shape", shape_json(item), "data_offsets", (json_int_t)at, (json_int_t)end);
            if (json_object_set_new(root, item->name, entry))
                return refuse_text(p, item->name, item->name, "the name is not UTF-8", err);
            at = end;
        }
    return LIPSC_OK;
}

static lipsc_status describe_notes(const plan *p, json_t *root, const lipsc_st_note *notes,
                                   size_t count, lipsc_error *err) {
    if (count == 0) return LIPSC_OK;
    json_t *metadata = json_object();
    if (json_object_set_new(root, "__metadata__", metadata)) return fail_memory(err);
    for (size_t i = 0; i < count; i++)
        if (json_object_set_new(metadata, notes[i].key, json_string(notes[i].text))) {
            const char *text = is_utf8(notes[i].key) ? notes[i].text : notes[i].key;
            return refuse_text(p, "__metadata__", text, "a note is not UTF-8", err);
        }
    return LIPSC_OK;
}

static lipsc_status render_header(plan *p, const json_t *root, lipsc_error *err) {
    char *json = lipsc_json_dumps(root, JSON_COMPACT);
    const size_t length = json ? strlen(json) : 0;
    const size_t padded = (length + ALIGN - 1) / ALIGN * ALIGN;
    p->header = json ? lipsc_alloc(8 + padded, 1) : NULL;
    if (p->header) {
        for (int i = 0; i < 8; i++)
            p->header[i] = (char)((uint64_t)padded >> (8 * i) & 0xff);
        memcpy(p->header + 8, json, length);
        memset(p->header + 8 + length, ' ', padded - length);
        p->header_bytes = 8 + padded;
    }
    free(json);
    if (p->header) return LIPSC_OK;
    return fail_memory(err);
}

static void encode(double value, lipsc_dtype dtype, uint8_t *to) {
    uint64_t bits;
    if (dtype == LIPSC_F32) {
        const float single = (float)value;
        uint32_t bits32;
        memcpy(&bits32, &single, sizeof bits32);
        bits = bits32;
    } else {
        memcpy(&bits, &value, sizeof bits);
    }
    for (size_t i = 0; i < item_size(dtype); i++) to[i] = (uint8_t)(bits >> (8 * i));
}

static int write_item(int fd, const lipsc_st_item *item) {
    enum { CHUNK = 1024 };
    uint8_t bytes[CHUNK * 8];
    const size_t size = item_size(item->dtype);
    size_t count = 0;
    count_of(item, &count); /* checked by item_problem */
    for (size_t done = 0; done < count;) {
        const size_t now = count - done < CHUNK ? count - done : CHUNK;
        for (size_t i = 0; i < now; i++)
            encode(item->data[done + i], item->dtype, bytes + i * size);
        if (lipsc_write_all(fd, bytes, now * size)) return -1;
        done += now;
    }
    return 0;
}

static int write_content(int fd, const void *ctx) {
    const plan *p = ctx;
    if (lipsc_write_all(fd, p->header, p->header_bytes)) return -1;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < p->count; i++)
            if (p->items[i].dtype == file_order[pass] && write_item(fd, &p->items[i]))
                return -1;
    return 0;
}

lipsc_status lipsc_st_write(const char *path, const lipsc_st_item *items, size_t item_count,
                            const lipsc_st_note *metadata, size_t note_count,
                            lipsc_error *err) {
    plan p = {.path = path, .items = items, .count = item_count};
    json_t *root = json_object();
    if (!root) return lipsc_fail(err, LIPSC_E_NOMEM, "no memory for the header of a file");
    lipsc_status status = describe_notes(&p, root, metadata, note_count, err);
    if (!status) status = describe_items(&p, root, err);
    if (!status) status = render_header(&p, root, err);
    if (!status) status = lipsc_file_replace(path, write_content, &p, err);
    lipsc_release(p.header);
    json_decref(root);
    return status;
}
