/* pattern_translate.c - an Oniguruma expression, Ruby syntax, in PCRE2's language.
 *
 * The languages agree on most of what tokenizers use.  Where they do not, this file writes
 * what Oniguruma means: its classes (\s \w \d \h \p{...}, nested brackets), `{n,m}+` as a
 * repeat of a repeat, \v and \uHHHH, (?m) for "dot matches all".  What has no counterpart
 * is refused, never guessed. */
#include "token/pattern_reader.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void write_boundary(pattern_reader *r, int inside) {
    static const char *const parts[2][5] = {
        {"(?:(?<=[", "])(?![", "])|(?<![", "])(?=[", "]))"},
        {"(?:(?<=[", "])(?=[", "])|(?<![", "])(?![", "]))"},
    };
    for (int i = 0; i < 5; i++) {
        if (i) lipsc_set_word(r->out, r->rust_words, 0);
        lipsc_text_put_string(r->out, parts[inside][i]);
    }
}

static void write_literal(pattern_reader *r, uint32_t code) {
    pattern_check_caseless(r, code);
    r->before = code;
    lipsc_set_code(r->out, code);
}

static void write_escape(pattern_reader *r) {
    lipsc_text set = {0};
    uint32_t code;
    int negated;
    r->at++;
    const int c = pattern_peek(r, 0);
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
    if (!pattern_read_set(r, 0, &set, &negated)) {
        if (pattern_read_escaped_code(r, &code)) write_literal(r, code);
        return;
    }
    r->before = 0;
    lipsc_text_put_string(r->out, negated ? "[^" : "[");
    pattern_join(r->out, &set);
    lipsc_text_put_string(r->out, "]");
    lipsc_text_free(&set);
}

/* "(?imx-imx:" or "(?i)": the options in PCRE2's letters. */
static void write_options(pattern_reader *r) {
    int on = 1, caseless = r->caseless;
    char letters[8];
    size_t used = 0;
    r->at += 2;
    for (;; r->at++) {
        const int c = pattern_peek(r, 0);
        if (c == ':' || c == ')') break;
        if ((c != 'i' && c != 'm' && c != '-') || used + 1 > sizeof letters) {
            pattern_refuse(r, "a group of this kind is not supported");
            return;
        }
        if (c == '-') on = 0;
        if (c == 'i') caseless = on;
        letters[used++] = c == 'm' ? 's' : (char)c;
    }
    if (pattern_peek(r, 0) == ')' && !r->fresh) {
        pattern_refuse(r, "(?i) in the middle of a group is not supported");
        return;
    }
    lipsc_text_put_string(r->out, "(?");
    lipsc_text_put(r->out, letters, used);
    lipsc_text_put(r->out, r->source + r->at, 1);
    r->caseless = caseless;
}

static void open_group(pattern_reader *r) {
    static const char *const kinds[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    const pattern_group outer = {r->out->len, r->caseless};
    if (pattern_follows(r, "(*")) pattern_refuse(r, "(* is not supported");
    if (r->depth == PATTERN_DEEPEST) pattern_refuse(r, "groups are nested too deeply");
    if (r->refusal) return;
    if (pattern_peek(r, 1) != '?') { /* nothing refers to what a plain group matched */
        lipsc_text_put_string(r->out, "(?:");
        r->at++;
    } else {
        size_t kind = 0;
        while (kind < COUNT(kinds) && !pattern_follows(r, kinds[kind])) kind++;
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

static void close_group(pattern_reader *r) {
    if (!r->depth) {
        pattern_refuse(r, "a parenthesis closes nothing");
        return;
    }
    const pattern_group g = r->groups[--r->depth];
    lipsc_text_put(r->out, ")", 1);
    r->at++;
    r->caseless = g.caseless;
    r->atom = g.start;
    r->repeated = 0;
    r->fresh = 0;
}

/* {n} {n,} {,m} {n,m} at r->at: its length, 0 when it is a literal brace. */
static size_t read_interval(const pattern_reader *r, unsigned long *low,
                            unsigned long *high, int *fixed) {
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

static void write_quantifier(pattern_reader *r, size_t interval, unsigned long low,
                             unsigned long high, int fixed) {
    char shown[48];
    if (r->atom == SIZE_MAX) {
        pattern_refuse(r, "there is nothing to repeat");
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
        if (pattern_peek(r, 0) == '?' || pattern_peek(r, 0) == '+')
            lipsc_text_put(r->out, r->source + r->at++, 1);
        return;
    }
    r->at += interval;
    if (low > high) {
        pattern_refuse(r, "a repeat runs backwards");
        return;
    }
    if (high == ULONG_MAX)
        snprintf(shown, sizeof shown, "{%lu,}", low);
    else
        snprintf(shown, sizeof shown, "{%lu,%lu}", low, high);
    lipsc_text_put_string(r->out, shown);
    if (pattern_peek(r, 0) == '?' && !fixed) lipsc_text_put(r->out, r->source + r->at++, 1);
}

static void write_next(pattern_reader *r) {
    const int c = pattern_peek(r, 0);
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
        pattern_write_bracket(r);
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
    pattern_reader r = {.source = source,
                        .len = len,
                        .out = out,
                        .rust_words = rust_words,
                        .atom = SIZE_MAX,
                        .fresh = 1};
    while (r.at < r.len && !r.refusal && !out->failed) write_next(&r);
    if (out->failed) return NULL; /* the expression is not to blame */
    if (r.depth) pattern_refuse(&r, "a parenthesis is not closed");
    return r.refusal;
}
