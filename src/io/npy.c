/* npy.c - a matrix from the bytes of a .npy file.
 *
 * The format: \x93NUMPY, version (two bytes), header length (2 bytes little-endian in
 * version 1, 4 in 2 and 3), and a Python dictionary with exactly three entries
 *     {'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }
 * padded with spaces, then the numbers. */
#include "io/npy.h"

#include "core/error.h"
#include "core/mem.h"

#include <string.h>

static const char magic[] = "\x93NUMPY";
enum { MAGIC = 6, FIXED = 8 };

int lipsc_npy_recognised(const uint8_t *bytes, size_t length) {
    return length >= MAGIC && !memcmp(bytes, magic, MAGIC);
}

typedef struct {
    const char *at, *end; /* what is left of the header */
    int has_descr, has_order, has_shape;
    size_t width; /* bytes of a number */
    int big_endian, fortran;
    size_t ndim, shape[2];
} header;

static void skip_space(header *h) {
    while (h->at < h->end && (*h->at == ' ' || *h->at == '\n' || *h->at == '\t')) h->at++;
}

/* The next character, if it is this one. */
static int take(header *h, char c) {
    skip_space(h);
    if (h->at == h->end || *h->at != c) return 0;
    h->at++;
    return 1;
}

static int take_word(header *h, const char *word) {
    const size_t length = strlen(word);
    skip_space(h);
    if ((size_t)(h->end - h->at) < length || memcmp(h->at, word, length)) return 0;
    h->at += length;
    return 1;
}

/* A quoted text without escapes: its begin and length. */
static int take_text(header *h, const char **text, size_t *length) {
    skip_space(h);
    if (h->at == h->end || (*h->at != '\'' && *h->at != '"')) return 0;
    const char quote = *h->at++;
    *text = h->at;
    while (h->at < h->end && *h->at != quote && *h->at != '\\') h->at++;
    if (h->at == h->end || *h->at != quote) return 0;
    *length = (size_t)(h->at++ - *text);
    return 1;
}

static int take_size(header *h, size_t *out) {
    skip_space(h);
    size_t value = 0;
    const char *first = h->at;
    for (; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++) {
        const size_t digit = (size_t)(*h->at - '0');
        if (value > (SIZE_MAX - digit) / 10) return 0;
        value = value * 10 + digit;
    }
    *out = value;
    return h->at > first;
}

/* NULL, or what is wrong. */
static const char *take_descr(header *h) {
    const char *text;
    size_t length;
    static const char only[] = "only numbers of type f4 and f8 can be read";
    if (!take_text(h, &text, &length) || length != 3 || text[1] != 'f') return only;
    if (text[2] != '4' && text[2] != '8') return only;
    if (text[0] != '<' && text[0] != '>' && text[0] != '=') return only;
    h->big_endian = text[0] == '>';
    h->width = text[2] == '4' ? 4 : 8;
    return NULL;
}

static const char *take_shape(header *h) {
    static const char wrong[] = "the shape must have one or two dimensions";
    if (!take(h, '(')) return wrong;
    while (!take(h, ')')) {
        if (h->ndim == 2 || !take_size(h, &h->shape[h->ndim])) return wrong;
        h->ndim++;
        if (take(h, ',')) continue;
        if (!take(h, ')')) return wrong;
        break;
    }
    if (h->ndim == 0) return wrong;
    if (h->ndim == 1) h->shape[1] = 1;
    return NULL;
}

static const char *take_entry(header *h) {
    static const char wrong[] = "the header is not a dictionary of descr, fortran_order "
                                "and shape";
    const char *key;
    size_t length;
    if (!take_text(h, &key, &length) || !take(h, ':')) return wrong;
    if (length == 5 && !memcmp(key, "descr", 5) && !h->has_descr++) return take_descr(h);
    if (length == 5 && !memcmp(key, "shape", 5) && !h->has_shape++) return take_shape(h);
    if (length == 13 && !memcmp(key, "fortran_order", 13) && !h->has_order++) {
        if (take_word(h, "False")) return NULL;
        h->fortran = 1;
        return take_word(h, "True") ? NULL : wrong;
    }
    return wrong;
}

static const char *read_header(header *h) {
    static const char wrong[] = "the header is not a dictionary of descr, fortran_order "
                                "and shape";
    if (!take(h, '{')) return wrong;
    while (!take(h, '}')) {
        const char *reason = take_entry(h);
        if (reason) return reason;
        if (take(h, ',')) continue;
        if (!take(h, '}')) return wrong;
        break;
    }
    skip_space(h);
    return h->at == h->end && h->has_descr && h->has_order && h->has_shape ? NULL : wrong;
}

static double number_at(const uint8_t *from, size_t width, int big_endian) {
    uint64_t bits = 0;
    for (size_t k = 0; k < width; k++)
        bits |= (uint64_t)from[big_endian ? width - 1 - k : k] << 8 * k;
    if (width == 8) {
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    const uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

/* Where the header begins and ends; NULL, or what is wrong. */
static const char *find_header(const uint8_t *bytes, size_t length, size_t *begin,
                               size_t *end) {
    if (!lipsc_npy_recognised(bytes, length)) return "this is not a .npy file";
    if (length < FIXED) return "the file ends within its header";
    const size_t field = bytes[6] == 1 ? 2 : 4;
    if (bytes[6] < 1 || bytes[6] > 3) return "only versions 1, 2 and 3 can be read";
    if (length < FIXED + field) return "the file ends within its header";
    size_t size = 0;
    for (size_t k = 0; k < field; k++) size |= (size_t)bytes[FIXED + k] << 8 * k;
    *begin = FIXED + field;
    if (size > length - *begin) return "the file ends within its header";
    *end = *begin + size;
    return NULL;
}

lipsc_status lipsc_npy_parse(const uint8_t *bytes, size_t length, const char *shown,
                             size_t *rows, size_t *columns, double **values,
                             lipsc_error *err) {
    size_t begin = 0, end = 0, count, size;
    header h = {0};
    const char *reason = find_header(bytes, length, &begin, &end);
    if (!reason) {
        h.at = (const char *)bytes + begin;
        h.end = (const char *)bytes + end;
        reason = read_header(&h);
    }
    if (!reason && (!lipsc_mul_size(h.shape[0], h.shape[1], &count) ||
                    !lipsc_mul_size(count, h.width, &size) || size != length - end))
        reason = "the shape and the length of the file disagree";
    if (reason) return lipsc_fail(err, LIPSC_E_FORMAT, "%s: %s", shown, reason);

    double *out = lipsc_alloc(count, sizeof *out);
    if (!out) return lipsc_fail(err, LIPSC_E_NOMEM, "%s: no memory for its numbers", shown);
    for (size_t i = 0, k = 0; i < h.shape[0]; i++)
        for (size_t j = 0; j < h.shape[1]; j++, k++) {
            const size_t at = h.fortran ? j * h.shape[0] + i : k;
            out[k] = number_at(bytes + end + at * h.width, h.width, h.big_endian);
        }
    *rows = h.shape[0];
    *columns = h.shape[1];
    *values = out;
    return LIPSC_OK;
}
