/* plain.h - which characters of somebody else's text may not reach a terminal or a page as
 * they are: they could move the cursor, write a reply, or turn the line around. */
#ifndef LIPSC_CORE_PLAIN_H
#define LIPSC_CORE_PLAIN_H

#include <stddef.h>
#include <stdint.h>

/* A control character, a mark of writing direction, a separator of lines. */
static inline int lipsc_is_hostile(uint32_t code) {
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c ||
           code == 0x200e || code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

/* The width in bytes of the character at text, `len` > 0 bytes of which are there, and its
 * code.  A byte that begins no whole character is a character of its own, code UINT32_MAX.
 */
static inline size_t lipsc_utf8_at(const char *text, size_t len, uint32_t *code) {
    const unsigned char *b = (const unsigned char *)text;
    const size_t width = b[0] < 0x80    ? 1
                         : b[0] < 0xc2  ? 0
                         : b[0] < 0xe0  ? 2
                         : b[0] < 0xf0  ? 3
                         : b[0] <= 0xf4 ? 4
                                        : 0;
    uint32_t c = width < 2 ? b[0] : b[0] & (0xffu >> (width + 1));
    size_t i = 1;
    while (i < width && i < len && (b[i] & 0xc0) == 0x80) c = c << 6 | (b[i++] & 0x3f);
    const int whole = width && i == width && !(width == 3 && c < 0x800) &&
                      !(width == 4 && (c < 0x10000 || c > 0x10ffff)) &&
                      !(c >= 0xd800 && c <= 0xdfff);
    *code = whole ? c : UINT32_MAX;
    return whole ? width : 1;
}

/* The bytes of the character at text that must be written as an escape; 0: it may stand as
 * it is. */
static inline size_t lipsc_hostile_at(const char *text, size_t len) {
    uint32_t code;
    const size_t width = lipsc_utf8_at(text, len, &code);
    return code == UINT32_MAX || lipsc_is_hostile(code) ? width : 0;
}

#endif
