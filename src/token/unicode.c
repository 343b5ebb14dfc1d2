/* unicode.c - character classes and normal forms: utf8proc's, with the differences that
 * Hugging Face tokenizers has (unicode_tables.h). */
#include "token/unicode.h"

#include "token/unicode_tables.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

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
