/* text.c - growing byte strings, lists of ids, and the characters of UTF-8. */
#include "token/text.h"

#include <stdlib.h>
#include <string.h>

int lipsc_grow(void **data, size_t *room, size_t need, size_t size) {
    if (need <= *room) return 1;
    size_t wanted = *room < SIZE_MAX / 2 ? *room * 2 : need;
    if (wanted < need) wanted = need;
    if (wanted < 16) wanted = 16;
    if (wanted > (size_t)PTRDIFF_MAX / size) return 0;
    void *moved = realloc(*data, wanted * size);
    if (!moved) return 0;
    *data = moved;
    *room = wanted;
    return 1;
}

static int text_room(lipsc_text *t, size_t more) {
    void *data = t->data;
    if (t->failed || more > SIZE_MAX - t->len ||
        !lipsc_grow(&data, &t->room, t->len + more, 1)) {
        t->failed = 1;
        return 0;
    }
    t->data = data;
    return 1;
}

void lipsc_text_put(lipsc_text *t, const char *bytes, size_t len) {
    if (!text_room(t, len) || !len) return;
    memcpy(t->data + t->len, bytes, len);
    t->len += len;
}

void lipsc_text_put_string(lipsc_text *t, const char *string) {
    lipsc_text_put(t, string, strlen(string));
}

void lipsc_text_put_code(lipsc_text *t, uint32_t code) {
    if (!text_room(t, 4)) return;
    t->len += lipsc_utf8_write(code, t->data + t->len);
}

void lipsc_text_insert(lipsc_text *t, size_t at, const char *bytes, size_t len) {
    if (!text_room(t, len) || !len) return;
    memmove(t->data + at + len, t->data + at, t->len - at);
    memcpy(t->data + at, bytes, len);
    t->len += len;
}

void lipsc_text_repeat(lipsc_text *t, size_t begin, size_t len) {
    if (!text_room(t, len) || !len) return;
    memcpy(t->data + t->len, t->data + begin, len);
    t->len += len;
}

void lipsc_text_free(lipsc_text *t) {
    free(t->data);
    *t = (lipsc_text){0};
}

void lipsc_ids_put_all(lipsc_ids *list, const uint32_t *ids, size_t count) {
    void *data = list->data;
    if (list->failed || count > SIZE_MAX - list->count ||
        !lipsc_grow(&data, &list->room, list->count + count, sizeof *ids)) {
        list->failed = 1;
        return;
    }
    list->data = data;
    if (count) memcpy(list->data + list->count, ids, count * sizeof *ids);
    list->count += count;
}

void lipsc_ids_put(lipsc_ids *list, uint32_t id) { lipsc_ids_put_all(list, &id, 1); }

void lipsc_ids_free(lipsc_ids *list) {
    free(list->data);
    *list = (lipsc_ids){0};
}

uint32_t lipsc_utf8_read(const char *at, size_t *width) {
    const unsigned char *b = (const unsigned char *)at;
    if (b[0] < 0x80) {
        *width = 1;
        return b[0];
    }
    if (b[0] < 0xe0) {
        *width = 2;
        return (uint32_t)(b[0] & 0x1f) << 6 | (b[1] & 0x3f);
    }
    if (b[0] < 0xf0) {
        *width = 3;
        return (uint32_t)(b[0] & 0x0f) << 12 | (uint32_t)(b[1] & 0x3f) << 6 | (b[2] & 0x3f);
    }
    *width = 4;
    return (uint32_t)(b[0] & 0x07) << 18 | (uint32_t)(b[1] & 0x3f) << 12 |
           (uint32_t)(b[2] & 0x3f) << 6 | (b[3] & 0x3f);
}

const char *lipsc_utf8_before(const char *begin, const char *at) {
    do at--;
    while (at > begin && ((unsigned char)*at & 0xc0) == 0x80);
    return at;
}

size_t lipsc_utf8_count(const char *bytes, size_t len) {
    size_t count = 0;
    for (size_t i = 0; i < len; i++) count += ((unsigned char)bytes[i] & 0xc0) != 0x80;
    return count;
}

size_t lipsc_utf8_write(uint32_t code, char out[4]) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

/* The bytes at the beginning of b that could be, or are, the beginning of one character; at
 * least 1.  *whole says whether they are all of it.  Only the second byte's range depends
 * on the first: it excludes overlong forms, surrogates and what lies beyond U+10FFFF. */
static size_t one_character(const unsigned char *b, size_t len, int *whole) {
    size_t want;
    unsigned char low = 0x80, high = 0xbf;
    *whole = 0;
    if (b[0] < 0x80) {
        *whole = 1;
        return 1;
    }
    if (b[0] < 0xc2 || b[0] > 0xf4) return 1;
    want = b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : 4;
    if (b[0] == 0xe0) low = 0xa0;
    if (b[0] == 0xed) high = 0x9f;
    if (b[0] == 0xf0) low = 0x90;
    if (b[0] == 0xf4) high = 0x8f;
    for (size_t i = 1; i < want; i++) {
        if (i == len || b[i] < low || b[i] > high) return i;
        low = 0x80;
        high = 0xbf;
    }
    *whole = 1;
    return want;
}

size_t lipsc_utf8_sound(const char *bytes, size_t len) {
    size_t at = 0;
    while (at < len) {
        int whole;
        const size_t width =
            one_character((const unsigned char *)bytes + at, len - at, &whole);
        if (!whole) break;
        at += width;
    }
    return at;
}

void lipsc_text_put_repaired(lipsc_text *t, const char *bytes, size_t len) {
    size_t at = 0;
    while (at < len) {
        const size_t sound = lipsc_utf8_sound(bytes + at, len - at);
        int whole;
        lipsc_text_put(t, bytes + at, sound);
        at += sound;
        if (at == len) break;
        at += one_character((const unsigned char *)bytes + at, len - at, &whole);
        lipsc_text_put_code(t, 0xfffd);
    }
}

size_t lipsc_utf8_malformed(const char *bytes, size_t len) {
    size_t at = 0, count = 0;
    while ((at += lipsc_utf8_sound(bytes + at, len - at)) < len) {
        int whole;
        const size_t width =
            one_character((const unsigned char *)bytes + at, len - at, &whole);
        at += width;
        count += width;
    }
    return count;
}

/* FNV-1a over bytes, then a mix: the low bits choose the slot of a table. */
uint64_t lipsc_hash(const char *bytes, size_t len) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < len; i++) h = (h ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return (h ^ h >> 29) * 0xbf58476d1ce4e5b9u;
}
