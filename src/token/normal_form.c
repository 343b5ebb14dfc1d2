/* normal_form.c - NFC, NFD, NFKC, NFKD.
 *
 * Decompose each character, put marks in the order of their combining classes, compose.
 * utf8proc decomposes and composes.  The order is made here, because utf8proc's takes time
 * quadratic in the number of marks in a row. */
#include "token/unicode.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

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
