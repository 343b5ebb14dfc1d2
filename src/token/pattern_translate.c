/* pattern_translate.c - an Oniguruma expression, Ruby syntax, in PCRE2's language.
 *
 * The languages agree on most of what tokenizers use.  Where they do not, this file writes
 * what Oniguruma means: its classes (\s \w \d \h \p{...}, nested brackets), `{n,m}+` as a
 * repeat of a repeat, \v and \uHHHH, (?m) for "dot matches all".  What has no counterpart
 * is refused, never guessed.
 *
 * A class that holds a negated set, [a\S], becomes an alternative (?:[a]|[^...]), because
 * additions to a property (pattern_tables.h) cannot be taken out of its complement inside
 * brackets. */
#include "token/pattern.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
enum { DEEPEST = 64 };

typedef struct {
    size_t start; /* of the group in the output */
    int caseless; /* outside it */
} group;

typedef struct {
    const char *source;
    size_t len, at;
    lipsc_text *out;
    const char *refusal;
    int rust_words, caseless;
    uint32_t before; /* the literal character just read, 0: something else */
    group groups[DEEPEST];
    size_t depth;
    /* What a quantifier would repeat begins here in the output; SIZE_MAX: nothing. */
    size_t atom;
    int repeated; /* it has its quantifier already */
    int fresh;    /* nothing yet in this group: (?i) may stand here */
} reader;

/* One bracket: plain = items for a PCRE2 class, inverted = "|[^...]|[^...]". */
typedef struct {
    lipsc_text plain, inverted;
} bracket;

/* A part that was written apart, and whether it is whole. */
static void join(lipsc_text *to, const lipsc_text *part) {
    lipsc_text_put(to, part->data, part->len);
    if (part->failed) to->failed = 1;
}

static void refuse(reader *r, const char *why) {
    if (!r->refusal) r->refusal = why;
}

static int peek(const reader *r, size_t ahead) {
    return r->at + ahead < r->len ? (unsigned char)r->source[r->at + ahead] : -1;
}

static int follows(const reader *r, const char *word) {
    const size_t n = strlen(word);
    return r->len - r->at >= n && !memcmp(r->source + r->at, word, n);
}

/* After \p or \P. */
static void read_property(reader *r, lipsc_text *t, int *negated) {
    char name[24];
    size_t used = 0;
    if (peek(r, 0) != '{') {
        refuse(r, "\\p needs a name in braces");
        return;
    }
    r->at++;
    if (peek(r, 0) == '^') {
        *negated = !*negated;
        r->at++;
    }
    while (peek(r, 0) != '}') {
        if (peek(r, 0) <= 0 || used + 2 > sizeof name) {
            refuse(r, "a property of this name is not supported");
            return;
        }
        name[used++] = r->source[r->at++];
    }
    r->at++;
    name[used] = '\0';
    if (r->caseless && lipsc_set_is_cased(name))
        refuse(r, "a property of upper or lower case inside (?i) is not supported");
    if (!lipsc_set_property(t, name)) refuse(r, "a property of this name is not supported");
}

/* ---- Single characters --------------------------------------------------------- */

/* Up to `most` hexadecimal digits; counts them. */
static uint32_t read_hex(reader *r, int most, int *digits) {
    uint32_t value = 0;
    for (*digits = 0; *digits < most && lipsc_hex_digit(peek(r, 0)) >= 0; ++*digits)
        value = value << 4 | (uint32_t)lipsc_hex_digit((unsigned char)r->source[r->at++]);
    return value;
}

static uint32_t checked_code(reader *r, uint32_t code) {
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
        refuse(r, "it names a character beyond Unicode");
        return 0xfffd;
    }
    return code;
}

/* After the backslash, r->at on the letter: 1 and the character it stands for. */
static int read_escaped_code(reader *r, uint32_t *code) {
    static const char letters[] = "tnrfvae", codes[] = "\t\n\r\f\v\a\x1b";
    const int c = peek(r, 0);
    const char *known = c > 0 ? strchr(letters, c) : NULL;
    int digits;
    if (known) {
        *code = (uint32_t)codes[known - letters];
        r->at++;
        return 1;
    }
    if (c == 'x' && peek(r, 1) == '{') {
        r->at += 2;
        *code = checked_code(r, read_hex(r, 8, &digits));
        if (!digits || peek(r, 0) != '}') refuse(r, "\\x{ has no end");
        r->at++;
        return 1;
    }
    if (c == 'x' || c == 'u') {
        r->at++;
        *code = checked_code(r, read_hex(r, c == 'x' ? 2 : 4, &digits));
        if (digits != (c == 'x' ? 2 : 4)) refuse(r, "\\x or \\u has too few digits");
        if (c == 'x' && *code > 0x7f) refuse(r, "\\x names a byte, not a character");
        return 1;
    }
    if (c == '0' && !(peek(r, 1) >= '0' && peek(r, 1) <= '7')) {
        *code = 0;
        r->at++;
        return 1;
    }
    if (c < 0 || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
        (c >= 'a' && c <= 'z')) {
        refuse(r, c >= '0' && c <= '9' ? "a back reference is not supported"
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
static void check_caseless(reader *r, uint32_t code) {
    static const char *const joined[] = {"ss", "ff", "fi", "fl", "st"};
    if (!r->caseless) return;
    if (code >= 0x80) refuse(r, "a character beyond ASCII inside (?i) is not supported");
    for (size_t i = 0; i < COUNT(joined); i++)
        if ((r->before | 32) == (uint32_t)joined[i][0] &&
            (code | 32) == (uint32_t)joined[i][1])
            refuse(r, "letters that fold into one inside (?i) are not supported");
}

/* ---- Brackets -------------------------------------------------------------- */

static int read_bracket(reader *r, bracket *b, size_t depth);

/* An escape inside a bracket: 1 when it is one character, which could begin a range. */
static int read_bracket_escape(reader *r, bracket *b, uint32_t *code) {
    lipsc_text set = {0};
    int negated = 0;
    const int c = peek(r, 0);
    if (c == 'b') {
        r->at++;
        *code = '\b';
        return 1;
    }
    if (c == 'p' || c == 'P') {
        r->at++;
        negated = c == 'P';
        read_property(r, &set, &negated);
    } else if (lipsc_set_short(c, r->rust_words, 1, &set, &negated)) {
        r->at++;
    } else {
        return read_escaped_code(r, code);
    }
    if (negated) {
        lipsc_text_put_string(&b->inverted, "|[^");
        join(&b->inverted, &set);
        lipsc_text_put_string(&b->inverted, "]");
    } else {
        join(&b->plain, &set);
    }
    lipsc_text_free(&set);
    return 0;
}

/* A bracket inside a bracket: its characters join the outer ones. */
static void read_inner_bracket(reader *r, bracket *b, size_t depth) {
    bracket inner = {0};
    if (peek(r, 1) == ':') {
        refuse(r, "a POSIX bracket is not supported");
        return;
    }
    r->at++;
    const int negated = read_bracket(r, &inner, depth + 1);
    if (negated && inner.inverted.len) {
        refuse(r, "a negated set in a negated inner bracket is not supported");
    } else if (negated) {
        lipsc_text_put_string(&b->inverted, "|[^");
        join(&b->inverted, &inner.plain);
        lipsc_text_put_string(&b->inverted, "]");
    } else {
        join(&b->plain, &inner.plain);
        join(&b->inverted, &inner.inverted);
    }
    if (inner.inverted.failed) b->inverted.failed = 1; /* empty, it counted as none */
    lipsc_text_free(&inner.plain);
    lipsc_text_free(&inner.inverted);
}

/* One character of a bracket, plain or escaped: 1 and the character, 0 for a set. */
static int read_bracket_item(reader *r, bracket *b, uint32_t *code) {
    size_t width;
    if (peek(r, 0) == '\\') {
        r->at++;
        return read_bracket_escape(r, b, code);
    }
    *code = lipsc_utf8_read(r->source + r->at, &width);
    r->at += width;
    return 1;
}

/* After "[", to beyond "]".  Returns whether it began with ^. */
static int read_bracket(reader *r, bracket *b, size_t depth) {
    int negated = 0, first = 1;
    if (depth > DEEPEST) {
        refuse(r, "brackets are nested too deeply");
        return 0;
    }
    if (peek(r, 0) == '^') {
        negated = 1;
        r->at++;
    }
    for (; !r->refusal; first = 0) {
        uint32_t code = 0, last;
        if (peek(r, 0) < 0) refuse(r, "a bracket has no end");
        if (r->refusal) break;
        if (peek(r, 0) == ']') {
            if (first) refuse(r, "a bracket is empty");
            r->at++;
            break;
        }
        if (follows(r, "&&")) {
            refuse(r, "an intersection of brackets is not supported");
            break;
        }
        if (peek(r, 0) == '[') {
            read_inner_bracket(r, b, depth);
            continue;
        }
        if (!read_bracket_item(r, b, &code)) continue;
        last = code;
        if (peek(r, 0) == '-' && peek(r, 1) >= 0 && peek(r, 1) != ']') {
            r->at++;
            if (peek(r, 0) == '[' || !read_bracket_item(r, b, &last))
                refuse(r, "a range has no end");
            if (last < code) refuse(r, "a range runs backwards");
        }
        if (r->caseless && last >= 0x80)
            refuse(r, "a character beyond ASCII inside (?i) is not supported");
        lipsc_set_range(&b->plain, code, last);
    }
    return negated;
}

static void write_bracket(reader *r) {
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

/* ---- The rest -------------------------------------------------------------- */

static void write_boundary(reader *r, int inside) {
    static const char *const parts[2][5] = {
        {"(?:(?<=[", "])(?![", "])|(?<![", "])(?=[", "]))"},
        {"(?:(?<=[", "])(?=[", "])|(?<![", "])(?![", "]))"},
    };
    for (int i = 0; i < 5; i++) {
        if (i) lipsc_set_word(r->out, r->rust_words, 0);
        lipsc_text_put_string(r->out, parts[inside][i]);
    }
}

static void write_literal(reader *r, uint32_t code) {
    check_caseless(r, code);
    r->before = code;
    lipsc_set_code(r->out, code);
}

static void write_escape(reader *r) {
    lipsc_text set = {0};
    uint32_t code;
    int negated = 0;
    r->at++;
    const int c = peek(r, 0);
    if (c == 'A' || c == 'z' || c == 'Z') {
        const char anchor[2] = {'\\', (char)c};
        lipsc_text_put(r->out, anchor, 2);
        r->at++;
        return;
    }
    if (c == 'b' || c == 'B') {
        write_boundary(r, c == 'B');
        r->at++;
        return;
    }
    if (c == 'p' || c == 'P') {
        r->at++;
        negated = c == 'P';
        read_property(r, &set, &negated);
    } else if (lipsc_set_short(c, r->rust_words, 0, &set, &negated)) {
        r->at++;
    } else {
        if (read_escaped_code(r, &code)) write_literal(r, code);
        return;
    }
    r->before = 0;
    lipsc_text_put_string(r->out, negated ? "[^" : "[");
    join(r->out, &set);
    lipsc_text_put_string(r->out, "]");
    lipsc_text_free(&set);
}

/* "(?imx-imx:" or "(?i)": the options in PCRE2's letters. */
static void write_options(reader *r) {
    int on = 1, caseless = r->caseless;
    char letters[8];
    size_t used = 0;
    r->at += 2;
    for (;; r->at++) {
        const int c = peek(r, 0);
        if (c == ':' || c == ')') break;
        if ((c != 'i' && c != 'm' && c != '-') || used + 1 > sizeof letters) {
            refuse(r, "a group of this kind is not supported");
            return;
        }
        if (c == '-') on = 0;
        if (c == 'i') caseless = on;
        letters[used++] = c == 'm' ? 's' : (char)c;
    }
    if (peek(r, 0) == ')' && !r->fresh) {
        refuse(r, "(?i) in the middle of a group is not supported");
        return;
    }
    lipsc_text_put_string(r->out, "(?");
    lipsc_text_put(r->out, letters, used);
    lipsc_text_put(r->out, r->source + r->at, 1);
    r->caseless = caseless;
}

static void open_group(reader *r) {
    static const char *const kinds[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    const group outer = {r->out->len, r->caseless};
    if (follows(r, "(*")) refuse(r, "(* is not supported");
    if (r->depth == DEEPEST) refuse(r, "groups are nested too deeply");
    if (r->refusal) return;
    if (peek(r, 1) != '?') { /* nothing refers to what a plain group matched */
        lipsc_text_put_string(r->out, "(?:");
        r->at++;
    } else {
        size_t kind = 0;
        while (kind < COUNT(kinds) && !follows(r, kinds[kind])) kind++;
        if (kind < COUNT(kinds)) {
            lipsc_text_put_string(r->out, kinds[kind]);
            r->at += strlen(kinds[kind]);
        } else {
            write_options(r);
            if (r->refusal) return;
            if (r->source[r->at++] == ')') return; /* holds to the end of this group */
        }
    }
    r->groups[r->depth++] = outer;
    r->atom = SIZE_MAX;
    r->fresh = 1;
}

static void close_group(reader *r) {
    if (!r->depth) {
        refuse(r, "a parenthesis closes nothing");
        return;
    }
    const group g = r->groups[--r->depth];
    lipsc_text_put(r->out, ")", 1);
    r->at++;
    r->caseless = g.caseless;
    r->atom = g.start;
    r->repeated = 0;
    r->fresh = 0;
}

/* {n} {n,} {,m} {n,m} at r->at: its length, 0 when it is a literal brace. */
static size_t read_interval(const reader *r, unsigned long *low, unsigned long *high,
                            int *fixed) {
    size_t at = r->at + 1, digits = 0, more = 0;
    *low = *high = 0;
    *fixed = 0;
    for (; at < r->len && r->source[at] >= '0' && r->source[at] <= '9' && digits < 6; at++)
        *low = *low * 10 + (unsigned long)(r->source[at] - '0'), digits++;
    if (at < r->len && r->source[at] == '}' && digits) {
        *high = *low;
        *fixed = 1;
        return at + 1 - r->at;
    }
    if (at >= r->len || r->source[at] != ',') return 0;
    for (at++; at < r->len && r->source[at] >= '0' && r->source[at] <= '9' && more < 6;
         at++)
        *high = *high * 10 + (unsigned long)(r->source[at] - '0'), more++;
    if (at >= r->len || r->source[at] != '}' || !(digits || more)) return 0;
    if (!more) *high = ULONG_MAX;
    return at + 1 - r->at;
}

static void write_quantifier(reader *r, size_t interval, unsigned long low,
                             unsigned long high, int fixed) {
    char shown[48];
    if (r->atom == SIZE_MAX) {
        refuse(r, "there is nothing to repeat");
        return;
    }
    if (r->repeated) { /* a repeat of a repeat */
        lipsc_text_insert(r->out, r->atom, "(?:", 3);
        lipsc_text_put(r->out, ")", 1);
    }
    r->repeated = 1;
    r->before = 0;
    if (!interval) {
        lipsc_text_put(r->out, r->source + r->at++, 1);
        if (peek(r, 0) == '?' || peek(r, 0) == '+')
            lipsc_text_put(r->out, r->source + r->at++, 1);
        return;
    }
    r->at += interval;
    if (low > high) {
        refuse(r, "a repeat runs backwards");
        return;
    }
    if (high == ULONG_MAX)
        snprintf(shown, sizeof shown, "{%lu,}", low);
    else
        snprintf(shown, sizeof shown, "{%lu,%lu}", low, high);
    lipsc_text_put_string(r->out, shown);
    if (peek(r, 0) == '?' && !fixed) lipsc_text_put(r->out, r->source + r->at++, 1);
}

static void write_next(reader *r) {
    const int c = peek(r, 0);
    unsigned long low = 0, high = 0;
    int fixed = 0;
    const size_t interval = c == '{' ? read_interval(r, &low, &high, &fixed) : 0;
    if (c == '*' || c == '+' || c == '?' || interval) {
        write_quantifier(r, interval, low, high, fixed);
        return;
    }
    const size_t start = r->out->len;
    if (c == '(') {
        r->before = 0;
        open_group(r);
        return;
    }
    if (c == ')') {
        r->before = 0;
        close_group(r);
        return;
    }
    r->fresh = 0;
    r->atom = start;
    r->repeated = 0;
    if (c == '[') {
        r->before = 0;
        write_bracket(r);
    } else if (c == '\\') {
        write_escape(r);
    } else if (c == '.' || c == '^' || c == '$' || c == '|') {
        if (c == '|') r->atom = SIZE_MAX;
        r->before = 0;
        lipsc_text_put(r->out, r->source + r->at++, 1);
    } else {
        size_t width;
        const uint32_t code = lipsc_utf8_read(r->source + r->at, &width);
        r->at += width;
        write_literal(r, code);
    }
}

const char *lipsc_pattern_translate(const char *source, size_t len, int rust_words,
                                    lipsc_text *out) {
    reader r = {.source = source,
                .len = len,
                .out = out,
                .rust_words = rust_words,
                .atom = SIZE_MAX,
                .fresh = 1};
    while (r.at < r.len && !r.refusal && !out->failed) write_next(&r);
    if (out->failed) return NULL; /* the expression is not to blame */
    if (r.depth) refuse(&r, "a parenthesis is not closed");
    return r.refusal;
}
