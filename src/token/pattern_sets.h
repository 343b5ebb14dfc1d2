/* pattern_sets.h - sets of characters as items of a PCRE2 bracket. */
#ifndef LIPSC_TOKEN_PATTERN_SETS_H
#define LIPSC_TOKEN_PATTERN_SETS_H

#include "token/text.h"

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
