/* unicode.h - character classes and normal forms as Hugging Face tokenizers has them. */
#ifndef LIPSC_TOKEN_UNICODE_H
#define LIPSC_TOKEN_UNICODE_H

#include "token/text.h"

int lipsc_is_space(uint32_t code);       /* White_Space                                */
int lipsc_is_punctuation(uint32_t code); /* ASCII symbols, or category P               */
int lipsc_is_control(uint32_t code);     /* Cc, Cf or Co, but not tab and line ends    */
int lipsc_is_nonspacing(uint32_t code);  /* Mn                                         */
int lipsc_is_mark(uint32_t code);        /* Mn, Mc or Me                               */
int lipsc_is_numeric(uint32_t code);     /* Nd, Nl or No                               */
int lipsc_is_ideograph(uint32_t code);   /* BERT's blocks of Chinese characters        */

/* Writes the one or two characters and returns how many.  Character by character, so a
 * final sigma is like any other. */
size_t lipsc_lowercase(uint32_t code, uint32_t out[2]);

/* Bits: compose or not, compatibility or not. */
typedef enum { LIPSC_NFD = 0, LIPSC_NFC = 1, LIPSC_NFKD = 2, LIPSC_NFKC = 3 } lipsc_form;
void lipsc_normal_form(lipsc_text *out, const char *bytes, size_t len, lipsc_form form);

/* A character that took part in normal forms only after the version of Unicode that
 * Hugging Face's tables are from: it stays, and nothing moves or joins across it. */
int lipsc_is_inert(uint32_t code);

#endif
