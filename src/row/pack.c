/* pack.c - records as bytes and back, by their list of fields. */
#include "row/pack.h"

#include <stdint.h>
#include <string.h>

#include "core/mem.h"

/* ---- To bytes ----------------------------------------------------------------------- */

static int make_room(lipsc_packet *to, size_t bytes) {
    if (to->bad || bytes <= to->room - to->bytes) return !to->bad;
    const size_t room = 2 * to->room + bytes + 256;
    char *more = room > bytes ? lipsc_alloc(room, 1) : NULL;
    if (!more) {
        to->bad = 1;
        return 0;
    }
    if (to->at) memcpy(more, to->at, to->bytes);
    lipsc_release(to->at);
    to->at = more;
    to->room = room;
    return 1;
}

void lipsc_pack(lipsc_packet *to, size_t bytes, const void *from) {
    if (!bytes || !make_room(to, bytes)) return;
    memcpy(to->at + to->bytes, from, bytes);
    to->bytes += bytes;
}

void lipsc_pack_reals(lipsc_packet *to, size_t count, const double *from) {
    const uint64_t size = from ? count : UINT64_MAX;
    lipsc_pack(to, sizeof size, &size);
    if (from) lipsc_pack(to, count * sizeof *from, from);
}

static void pack_text(lipsc_packet *to, const char *text) {
    const uint64_t size = text ? strlen(text) + 1 : 0;
    lipsc_pack(to, sizeof size, &size);
    if (text) lipsc_pack(to, (size_t)size, text);
}

/* Of a member that is not behind a pointer. */
static size_t size_of(const lipsc_field *f) {
    switch (f->kind) {
    case LIPSC_FIELD_COUNT:
        return sizeof(size_t);
    case LIPSC_FIELD_WHOLE:
        return sizeof(long long);
    case LIPSC_FIELD_REAL:
        return sizeof(double);
    case LIPSC_FIELD_FLAG:
        return sizeof(int);
    default:
        return 0;
    }
}

void lipsc_pack_record(lipsc_packet *to, lipsc_fields fields, const void *record) {
    for (size_t i = 0; i < fields.count; i++) {
        const void *at = (const char *)record + fields.at[i].offset;
        if (fields.at[i].kind == LIPSC_FIELD_TEXT) {
            pack_text(to, *(const char *const *)at);
        } else if (fields.at[i].kind == LIPSC_FIELD_REALS) {
            const lipsc_reals *list = at;
            lipsc_pack_reals(to, list->count, list->at);
        } else {
            lipsc_pack(to, size_of(&fields.at[i]), at);
        }
    }
}

/* ---- And back ----------------------------------------------------------------------- */

void lipsc_unpack(lipsc_unpacking *from, size_t bytes, void *to) {
    if (from->bad || bytes > (size_t)(from->end - from->at)) {
        from->bad = 1;
        memset(to, 0, bytes);
        return;
    }
    memcpy(to, from->at, bytes);
    from->at += bytes;
}

const double *lipsc_unpack_reals(lipsc_unpacking *from, lipsc_pool *pool, size_t *count) {
    uint64_t size;
    const double *out = NULL;
    *count = 0;
    lipsc_unpack(from, sizeof size, &size);
    if (from->bad || size == UINT64_MAX) return NULL;
    if (size > (size_t)(from->end - from->at) / sizeof *out) {
        from->bad = 1;
        return NULL;
    }
    double *aligned = lipsc_alloc((size_t)size, sizeof *aligned);
    if (aligned) {
        lipsc_unpack(from, (size_t)size * sizeof *aligned, aligned);
        out = lipsc_pool_reals(pool, (size_t)size, aligned);
    }
    lipsc_release(aligned);
    from->bad |= !out;
    *count = (size_t)size;
    return out;
}

static const char *unpack_text(lipsc_unpacking *from, lipsc_pool *pool) {
    uint64_t size;
    lipsc_unpack(from, sizeof size, &size);
    if (from->bad || !size) return NULL;
    if (size > (size_t)(from->end - from->at) || from->at[size - 1]) {
        from->bad = 1;
        return NULL;
    }
    const char *text = lipsc_pool_text(pool, from->at);
    from->at += size;
    from->bad |= !text;
    return text;
}

void lipsc_unpack_record(lipsc_unpacking *from, lipsc_fields fields, lipsc_pool *pool,
                         void *record) {
    for (size_t i = 0; i < fields.count; i++) {
        void *at = (char *)record + fields.at[i].offset;
        if (fields.at[i].kind == LIPSC_FIELD_TEXT) {
            *(const char **)at = unpack_text(from, pool);
        } else if (fields.at[i].kind == LIPSC_FIELD_REALS) {
            lipsc_reals *list = at;
            list->at = lipsc_unpack_reals(from, pool, &list->count);
        } else {
            lipsc_unpack(from, size_of(&fields.at[i]), at);
        }
    }
}
