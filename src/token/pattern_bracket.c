/* pattern_bracket.c - single characters, properties and brackets of an Oniguruma expression
 * in PCRE2's language.
 *
 * A class that holds a negated set, [a\S], becomes an alternative (?:[a]|[^...]), because
 * additions to a property (pattern_tables.h) cannot be taken out of its complement inside
 * brackets. */
#include "token/pattern_reader.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* One bracket: plain = items for a PCRE2 class, inverted = "|[^...]|[^...]". */
typedef struct {
    lipsc_text plain, inverted;
} bracket;

/* After \p or \P. */
static void read_property(pattern_reader *r, lipsc_text *t, int *negated) {
    char name[24];
    size_t used = 0;
    if (pattern_peek(r, 0) != '{') {
        pattern_refuse(r, "\\p needs a name in braces");
        return;
    }
    r->at++;
    if (pattern_peek(r, 0) == '^') {
        *negated = !*negated;
        r->at++;
    }
    while (pattern_peek(r, 0) != '}') {
        if (pattern_peek(r, 0) <= 0 || used + 2 > sizeof name) {
            pattern_refuse(r, "a property of this name is not supported");
            return;
        }
        name[used++] = r->source[r->at++];
    }
    r->at++;
    name[used] = '\0';
    if (r->caseless && lipsc_set_is_cased(name))
        pattern_refuse(r, "a property of upper or lower case inside (?i) is not supported");
    if (!lipsc_set_property(t, name))
        pattern_refuse(r, "a property of this name is not supported");
}

/* ---- Single characters --------------------------------------------------------- */

/* Up to `most` hexadecimal digits; counts them. */
static uint32_t read_hex(pattern_reader *r, int most, int *digits) {
    uint32_t value = 0;
    for (*digits = 0; *digits < most && lipsc_hex_digit(pattern_peek(r, 0)) >= 0; ++*digits)
        value = value << 4 | (uint32_t)lipsc_hex_digit((unsigned char)r->source[r->at++]);
    return value;
}

static uint32_t checked_code(pattern_reader *r, uint32_t code) {
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
        pattern_refuse(r, "it names a character beyond Unicode");
        return 0xfffd;
    }
    return code;
}

/* After the backslash, r->at on the letter: 1 and the character it stands for. */
int pattern_read_escaped_code(pattern_reader *r, uint32_t *code) {
    static const char letters[] = "tnrfvae", codes[] = "\t\n\r\f\v\a\x1b";
    const int c = pattern_peek(r, 0);
    const char *known = c > 0 ? strchr(letters, c) : NULL;
    int digits;
    if (known) {
        *code = (uint32_t)codes[known - letters];
        r->at++;
        return 1;
    }
    if (c == 'x' && pattern_peek(r, 1) == '{') {
        r->at += 2;
        *code = checked_code(r, read_hex(r, 8, &digits));
        if (!digits || pattern_peek(r, 0) != '}') pattern_refuse(r, "\\x{ has no end");
        r->at++;
        return 1;
    }
    if (c == 'x' || c == 'u') {
        r->at++;
        *code = checked_code(r, read_hex(r, c == 'x' ? 2 : 4, &digits));
        if (digits != (c == 'x' ? 2 : 4))
            pattern_refuse(r, "\\x or \\u has too few digits");
        if (c == 'x' && *code > 0x7f)
            pattern_refuse(r, "\\x names a byte, not a character");
        return 1;
    }
    if (c == '0' && !(pattern_peek(r, 1) >= '0' && pattern_peek(r, 1) <= '7')) {
        *code = 0;
        r->at++;
        return 1;
    }
    if (c < 0 || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
        (c >= 'a' && c <= 'z')) {
        pattern_refuse(r, c >= '0' && c <= '9' ? "a back reference is not supported"
                                               : "an escape is not supported");
        return 0;
    }
    size_t width;
    *code = lipsc_utf8_read(r->source + r->at, &width);
    r->at += width;
    return 1;
}

/* Oniguruma also folds several characters into one, "ss" into U+00DF: what could meet that
 * is refused. */
void pattern_check_caseless(pattern_reader *r, uint32_t code) {
    static const char *const joined[] = {"ss", "ff", "fi", "fl", "st"};
    if (!r->caseless) return;
    if (code >= 0x80)
        pattern_refuse(r, "a character beyond ASCII inside (?i) is not supported");
    for (size_t i = 0; i < COUNT(joined); i++)
        if ((r->before | 32) == (uint32_t)joined[i][0] &&
            (code | 32) == (uint32_t)joined[i][1])
            pattern_refuse(r, "letters that fold into one inside (?i) are not supported");
}

/* ---- Brackets -------------------------------------------------------------- */

int pattern_read_set(pattern_reader *r, int in_bracket, lipsc_text *set, int *negated) {
    const int c = pattern_peek(r, 0);
    *negated = c == 'P';
    if (c == 'p' || c == 'P') {
        r->at++;
        read_property(r, set, negated);
        return 1;
    }
    if (!lipsc_set_short(c, r->rust_words, in_bracket, set, negated)) return 0;
    r->at++;
    return 1;
}

static int read_bracket(pattern_reader *r, bracket *b, size_t depth);

/* An escape inside a bracket: 1 when it is one character, which could begin a range. */
static int read_bracket_escape(pattern_reader *r, bracket *b, uint32_t *code) {
    lipsc_text set = {0};
    int negated;
    if (pattern_peek(r, 0) == 'b') {
        r->at++;
        *code = '\b';
        return 1;
    }
    if (!pattern_read_set(r, 1, &set, &negated)) return pattern_read_escaped_code(r, code);
    if (negated) {
        lipsc_text_put_string(&b->inverted, "|[^");
        pattern_join(&b->inverted, &set);
        lipsc_text_put_string(&b->inverted, "]");
    } else {
        pattern_join(&b->plain, &set);
    }
    lipsc_text_free(&set);
    return 0;
}

/* A bracket inside a bracket: its characters join the outer ones. */
static void read_inner_bracket(pattern_reader *r, bracket *b, size_t depth) {
    bracket inner = {0};
    if (pattern_peek(r, 1) == ':') {
        pattern_refuse(r, "a POSIX bracket is not supported");
        return;
    }
    r->at++;
    const int negated = read_bracket(r, &inner, depth + 1);
    if (negated && inner.inverted.len) {
        pattern_refuse(r, "a negated set in a negated inner bracket is not supported");
    } else if (negated) {
        lipsc_text_put_string(&b->inverted, "|[^");
        pattern_join(&b->inverted, &inner.plain);
        lipsc_text_put_string(&b->inverted, "]");
    } else {
        pattern_join(&b->plain, &inner.plain);
        pattern_join(&b->inverted, &inner.inverted);
    }
    if (inner.inverted.failed) b->inverted.failed = 1; /* empty, it counted as none */
    lipsc_text_free(&inner.plain);
    lipsc_text_free(&inner.inverted);
}

/* One character of a bracket, plain or escaped: 1 and the character, 0 for a set. */
static int read_bracket_item(pattern_reader *r, bracket *b, uint32_t *code) {
    size_t width;
    if (pattern_peek(r, 0) == '\\') {
        r->at++;
        return read_bracket_escape(r, b, code);
    }
    *code = lipsc_utf8_read(r->source + r->at, &width);
    r->at += width;
    return 1;
}

/* After "[", to beyond "]".  Returns whether it began with ^. */
static int read_bracket(pattern_reader *r, bracket *b, size_t depth) {
    int negated = 0, first = 1;
    if (depth > PATTERN_DEEPEST) {
        pattern_refuse(r, "brackets are nested too deeply");
        return 0;
    }
    if (pattern_peek(r, 0) == '^') {
        negated = 1;
        r->at++;
    }
    for (; !r->refusal; first = 0) {
        uint32_t code = 0, last;
        if (pattern_peek(r, 0) < 0) pattern_refuse(r, "a bracket has no end");
        if (r->refusal) break;
        if (pattern_peek(r, 0) == ']') {
            if (first) pattern_refuse(r, "a bracket is empty");
            r->at++;
            break;
        }
        if (pattern_follows(r, "&&")) {
            pattern_refuse(r, "an intersection of brackets is not supported");
            break;
        }
        if (pattern_peek(r, 0) == '[') {
            read_inner_bracket(r, b, depth);
            continue;
        }
        if (!read_bracket_item(r, b, &code)) continue;
        last = code;
        if (pattern_peek(r, 0) == '-' && pattern_peek(r, 1) >= 0 &&
            pattern_peek(r, 1) != ']') {
            r->at++;
            if (pattern_peek(r, 0) == '[' || !read_bracket_item(r, b, &last))
                pattern_refuse(r, "a range has no end");
            if (last < code) pattern_refuse(r, "a range runs backwards");
        }
        if (r->caseless && last >= 0x80)
            pattern_refuse(r, "a character beyond ASCII inside (?i) is not supported");
        lipsc_set_range(&b->plain, code, last);
    }
    return negated;
}

void pattern_write_bracket(pattern_reader *r) {
    bracket b = {0};
    lipsc_text *out = r->out;
    r->at++;
    const int negated = read_bracket(r, &b, 0);
    if (b.plain.failed || b.inverted.failed) out->failed = 1;
    if (!b.inverted.len) {
        lipsc_text_put_string(out, negated ? "[^" : "[");
        lipsc_text_put(out, b.plain.data, b.plain.len);
        lipsc_text_put_string(out, "]");
    } else {
        lipsc_text_put_string(out, negated ? "(?:(?!" : "(?:");
        if (b.plain.len) {
            lipsc_text_put_string(out, "[");
            lipsc_text_put(out, b.plain.data, b.plain.len);
            lipsc_text_put_string(out, "]");
        }
        lipsc_text_put(out, b.inverted.data + !b.plain.len, b.inverted.len - !b.plain.len);
        lipsc_text_put_string(out, negated ? ")(?s:.))" : ")");
    }
    lipsc_text_free(&b.plain);
    lipsc_text_free(&b.inverted);
}
