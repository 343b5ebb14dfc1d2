/* pattern.h - the regular expressions of tokenizer files: Oniguruma's language, run by
 * PCRE2. */
#ifndef LIPSC_TOKEN_PATTERN_H
#define LIPSC_TOKEN_PATTERN_H

#include "token/fields.h"
#include "token/text.h"

typedef struct lipsc_pattern lipsc_pattern;

typedef enum {
    LIPSC_PATTERN_LITERAL,
    LIPSC_PATTERN_ONIGURUMA,
    LIPSC_PATTERN_RUST /* the same, with the \w of Rust's regular expressions */
} lipsc_pattern_language;

/* A part of a text, and whether the pattern matched it. */
typedef struct {
    size_t begin, end;
    int match;
} lipsc_span;

typedef struct {
    lipsc_span *data;
    size_t count, room;
    int failed;
} lipsc_spans;

void lipsc_spans_put(lipsc_spans *spans, size_t begin, size_t end, int match);
void lipsc_spans_free(lipsc_spans *spans);

/* where begins the sentence of a refusal: "tokenizer.json: pre_tokenizer Split". */
lipsc_status lipsc_pattern_compile(const char *source, size_t len,
                                   lipsc_pattern_language language, const char *where,
                                   lipsc_pattern **out, lipsc_error *err);
/* From the field "pattern" of object: {"String": ...} or {"Regex": ...}. */
lipsc_status lipsc_pattern_read(const lipsc_json_place *place, json_t *object,
                                lipsc_pattern **out);
void lipsc_pattern_free(lipsc_pattern *pattern); /* NULL does nothing */

/* Replaces *spans by the matches and what lies between them, in order, all of text, which
 * is well-formed UTF-8.  An empty match right after a match is passed over. */
lipsc_status lipsc_pattern_spans(lipsc_pattern *pattern, const char *text, size_t len,
                                 lipsc_spans *spans, lipsc_error *err);

/* 1 when the pattern matches at the very beginning of text. */
int lipsc_pattern_begins(lipsc_pattern *pattern, const char *text, size_t len);

/* The same expression in PCRE2's language, for the options PCRE2_UTF, PCRE2_UCP,
 * PCRE2_MULTILINE and newline LF.  NULL, or the reason why it cannot be written there;
 * where out->failed, neither is to be used. */
const char *lipsc_pattern_translate(const char *source, size_t len, int rust_words,
                                    lipsc_text *out);

/* ---- Sets of characters as items of a PCRE2 bracket -------------------------- */

void lipsc_set_code(lipsc_text *t, uint32_t code);
void lipsc_set_range(lipsc_text *t, uint32_t first, uint32_t last);

/* What \w stands for: Oniguruma's, which outside brackets has a few superscripts and
 * fractions more, or Rust's. */
void lipsc_set_word(lipsc_text *t, int rust, int in_bracket);

/* \s \d \w \h and their capitals: 1 and the items, *negated for a capital.  0 for another
 * letter. */
int lipsc_set_short(int letter, int rust, int in_bracket, lipsc_text *t, int *negated);

/* A category or a script: 1 and the items, 0 when the name is not supported. */
int lipsc_set_property(lipsc_text *t, const char *name);
int lipsc_set_is_cased(const char *name); /* a category of upper or lower case */

#endif
