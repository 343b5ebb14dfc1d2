/* pattern_reader.h - where a translation is in its expression, and the parts that all of it
 * shares. */
#ifndef LIPSC_TOKEN_PATTERN_READER_H
#define LIPSC_TOKEN_PATTERN_READER_H

#include <string.h>

#include "token/pattern.h"

enum { PATTERN_DEEPEST = 64 };

typedef struct {
    size_t start; /* of the group in the output */
    int caseless; /* outside it */
} pattern_group;

typedef struct {
    const char *source;
    size_t len, at;
    lipsc_text *out;
    const char *refusal;
    int rust_words, caseless;
    uint32_t before; /* the literal character just read, 0: something else */
    pattern_group groups[PATTERN_DEEPEST];
    size_t depth;
    /* What a quantifier would repeat begins here in the output; SIZE_MAX: nothing. */
    size_t atom;
    int repeated; /* it has its quantifier already */
    int fresh;    /* nothing yet in this group: (?i) may stand here */
} pattern_reader;

/* A part that was written apart, and whether it is whole. */
static inline void pattern_join(lipsc_text *to, const lipsc_text *part) {
    lipsc_text_put(to, part->data, part->len);
    if (part->failed) to->failed = 1;
}

static inline void pattern_refuse(pattern_reader *r, const char *why) {
    if (!r->refusal) r->refusal = why;
}

static inline int pattern_peek(const pattern_reader *r, size_t ahead) {
    return r->at + ahead < r->len ? (unsigned char)r->source[r->at + ahead] : -1;
}

static inline int pattern_follows(const pattern_reader *r, const char *word) {
    const size_t n = strlen(word);
    return r->len - r->at >= n && !memcmp(r->source + r->at, word, n);
}

/* pattern_bracket.c */

/* After the backslash: 1 and a set such as \p{L}, \P{L} or \d; 0: none is there. */
int pattern_read_set(pattern_reader *r, int in_bracket, lipsc_text *set, int *negated);
/* After the backslash, r->at on the letter: 1 and the character it stands for. */
int pattern_read_escaped_code(pattern_reader *r, uint32_t *code);
/* Refuses what could meet a folding of several characters into one. */
void pattern_check_caseless(pattern_reader *r, uint32_t code);
/* r->at on the opening bracket. */
void pattern_write_bracket(pattern_reader *r);

#endif
