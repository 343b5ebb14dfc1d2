/* text.c - growing byte strings, lists of ids, the characters of UTF-8, their classes and
 * their normal forms.
 *
 * Classes are utf8proc's, with the differences that Hugging Face tokenizers has
 * (unicode_tables.h).  A normal form decomposes each character, puts marks in the order of
 * their combining classes, composes.  utf8proc decomposes and composes.  The order is made
 * here, because utf8proc's takes time quadratic in the number of marks in a row. */
#include "token/text.h"

#include "token/unicode_tables.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

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

/* ---- Classes of characters --------------------------------------------------- */

static int in_ranges(const code_range *ranges, size_t count, uint32_t code) {
    size_t low = 0, high = count;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (code > ranges[mid].last)
            low = mid + 1;
        else if (code < ranges[mid].first)
            high = mid;
        else
            return 1;
    }
    return 0;
}
#define IN(ranges, code) in_ranges(ranges, sizeof(ranges) / sizeof((ranges)[0]), code)

static int category(uint32_t code) {
    return (int)utf8proc_category((utf8proc_int32_t)code);
}

static int category_between(uint32_t code, int first, int last) {
    const int c = category(code);
    return c >= first && c <= last;
}

int lipsc_is_space(uint32_t code) {
    if (code < 0x80) return code == ' ' || (code >= '\t' && code <= '\r');
    return code == 0x85 || code == 0xa0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 ||
           code == 0x202f || code == 0x205f || code == 0x3000;
}

int lipsc_is_punctuation(uint32_t code) {
    if (code < 0x80)
        return (code >= '!' && code <= '/') || (code >= ':' && code <= '@') ||
               (code >= '[' && code <= '`') || (code >= '{' && code <= '~');
    if (IN(punctuation_also, code)) return 1;
    return category_between(code, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO) &&
           !IN(punctuation_not, code);
}

int lipsc_is_control(uint32_t code) {
    if (code < 0x80)
        return (code < ' ' && code != '\t' && code != '\n' && code != '\r') || code == 0x7f;
    const int c = category(code);
    return (c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF ||
            c == UTF8PROC_CATEGORY_CO) &&
           !IN(other_not, code);
}

int lipsc_is_nonspacing(uint32_t code) {
    if (code < 0x300) return 0;
    if (IN(nonspacing_also, code)) return 1;
    return category(code) == UTF8PROC_CATEGORY_MN && !IN(nonspacing_not, code);
}

int lipsc_is_mark(uint32_t code) {
    if (code < 0x300) return 0;
    if (IN(mark_also, code)) return 1;
    return category_between(code, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME) &&
           !IN(mark_not, code);
}

int lipsc_is_numeric(uint32_t code) {
    if (code < 0x80) return code >= '0' && code <= '9';
    return category_between(code, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO) ||
           IN(numeric_also, code);
}

int lipsc_is_ideograph(uint32_t code) {
    return (code >= 0x4e00 && code <= 0x9fff) || (code >= 0x3400 && code <= 0x4dbf) ||
           (code >= 0x20000 && code <= 0x2a6df) || (code >= 0x2a700 && code <= 0x2b73f) ||
           (code >= 0x2b740 && code <= 0x2b81f) || (code >= 0x2b920 && code <= 0x2ceaf) ||
           (code >= 0xf900 && code <= 0xfaff) || (code >= 0x2f800 && code <= 0x2fa1f);
}

int lipsc_is_inert(uint32_t code) { return code >= 0x300 && IN(inert, code); }

/* The single mappings are those of Unicode 17, the one special case without a condition is
 * that of U+0130. */
size_t lipsc_lowercase(uint32_t code, uint32_t out[2]) {
    static const struct {
        uint32_t first, last, lower;
    } later[] = {
        {0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x0264}, {0xA7CC, 0xA7CC, 0xA7CD},
        {0xA7CE, 0xA7CE, 0xA7CF},    {0xA7D2, 0xA7D2, 0xA7D3}, {0xA7D4, 0xA7D4, 0xA7D5},
        {0xA7DA, 0xA7DA, 0xA7DB},    {0xA7DC, 0xA7DC, 0x019B}, {0x10D50, 0x10D65, 0x10D70},
        {0x16EA0, 0x16EB8, 0x16EBB},
    };
    out[0] = code;
    if (code < 0x80) {
        if (code >= 'A' && code <= 'Z') out[0] = code + 32;
        return 1;
    }
    if (code == 0x130) {
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++)
        if (code >= later[i].first && code <= later[i].last) {
            out[0] = later[i].lower + (code - later[i].first);
            return 1;
        }
    out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)code);
    return 1;
}

/* ---- Normal forms ------------------------------------------------------------ */

typedef struct {
    utf8proc_int32_t *data;
    size_t count, room;
    int failed;
} codes;

static int codes_room(codes *list, size_t more) {
    void *data = list->data;
    if (list->failed ||
        !lipsc_grow(&data, &list->room, list->count + more, sizeof *list->data))
        list->failed = 1;
    else
        list->data = data;
    return !list->failed;
}

static unsigned combining_class(utf8proc_int32_t code) {
    return code < 0x300 ? 0 : (unsigned)utf8proc_get_property(code)->combining_class;
}

/* Stable, by counting: marks of one class keep their order. */
static int sort_many(utf8proc_int32_t *marks, size_t count) {
    size_t start[257] = {0};
    utf8proc_int32_t *sorted = malloc(count * sizeof *sorted);
    if (!sorted) return 0;
    for (size_t i = 0; i < count; i++) start[(combining_class(marks[i]) & 255) + 1]++;
    for (size_t k = 1; k < 257; k++) start[k] += start[k - 1];
    for (size_t i = 0; i < count; i++)
        sorted[start[combining_class(marks[i]) & 255]++] = marks[i];
    memcpy(marks, sorted, count * sizeof *sorted);
    free(sorted);
    return 1;
}

static void sort_few(utf8proc_int32_t *marks, size_t count) {
    for (size_t i = 1; i < count; i++) {
        const utf8proc_int32_t mark = marks[i];
        size_t j = i;
        for (; j > 0 && combining_class(marks[j - 1]) > combining_class(mark); j--)
            marks[j] = marks[j - 1];
        marks[j] = mark;
    }
}

static void order_marks(codes *list) {
    enum { FEW = 16 };
    for (size_t i = 0; i < list->count; i++) {
        if (!combining_class(list->data[i])) continue;
        size_t end = i + 1;
        while (end < list->count && combining_class(list->data[end])) end++;
        if (end - i <= FEW)
            sort_few(list->data + i, end - i);
        else if (!sort_many(list->data + i, end - i))
            list->failed = 1;
        i = end - 1;
    }
}

static void flush(lipsc_text *out, codes *list, lipsc_form form) {
    if (!list->count) return;
    order_marks(list);
    if (form & 1) {
        const utf8proc_ssize_t composed = utf8proc_normalize_utf32(
            list->data, (utf8proc_ssize_t)list->count, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
        if (composed < 0)
            list->failed = 1;
        else
            list->count = (size_t)composed;
    }
    for (size_t i = 0; i < list->count; i++)
        lipsc_text_put_code(out, (uint32_t)list->data[i]);
    list->count = 0;
}

/* The longest decomposition, of U+FDFA, has 18 characters. */
enum { LONGEST = 32 };

static void decompose(codes *list, uint32_t code, lipsc_form form) {
    if (!codes_room(list, LONGEST)) return;
    if (code < 0x80) {
        list->data[list->count++] = (utf8proc_int32_t)code;
        return;
    }
    const utf8proc_option_t options =
        form & 2 ? UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT : UTF8PROC_DECOMPOSE;
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        (utf8proc_int32_t)code, list->data + list->count, LONGEST, options, NULL);
    if (count < 0 || count > LONGEST)
        list->failed = 1;
    else
        list->count += (size_t)count;
}

/* Below these no character changes or takes part in a change. */
static int unchanged(const char *bytes, size_t len, lipsc_form form) {
    const unsigned char bound = form == LIPSC_NFC ? 0xcc : 0x80; /* 0xcc begins U+0300 */
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)bytes[i] >= bound) return 0;
    return 1;
}

void lipsc_normal_form(lipsc_text *out, const char *bytes, size_t len, lipsc_form form) {
    codes list = {0};
    if (unchanged(bytes, len, form)) {
        lipsc_text_put(out, bytes, len);
        return;
    }
    for (size_t at = 0, width; at < len; at += width) {
        const uint32_t code = lipsc_utf8_read(bytes + at, &width);
        if (lipsc_is_inert(code)) {
            flush(out, &list, form);
            lipsc_text_put_code(out, code);
        } else {
            decompose(&list, code, form);
        }
    }
    flush(out, &list, form);
    if (list.failed) out->failed = 1;
    free(list.data);
}

int lipsc_hex_digit(int c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}
