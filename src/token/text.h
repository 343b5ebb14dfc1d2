/* text.h - growing byte strings, lists of ids, the characters of UTF-8, their classes and
 * their normal forms as Hugging Face tokenizers has them. */
#ifndef LIPSC_TOKEN_TEXT_H
#define LIPSC_TOKEN_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* All growing things here start as zeros.  When memory runs out they set failed and ignore
 * what follows, so that a caller checks once, at the end. */
typedef struct {
    char *data;
    size_t len, room;
    int failed;
} lipsc_text;

typedef struct {
    uint32_t *data;
    size_t count, room;
    int failed;
} lipsc_ids;

/* Room for `need` items of `size` bytes, at least doubling.  1, or 0 and nothing changed.
 */
int lipsc_grow(void **data, size_t *room, size_t need, size_t size);

void lipsc_text_put(lipsc_text *t, const char *bytes, size_t len);
void lipsc_text_put_string(lipsc_text *t, const char *string);
void lipsc_text_put_code(lipsc_text *t, uint32_t code);
/* bytes with U+FFFD for each maximal ill-formed part (Unicode 15, table 3-8). */
void lipsc_text_put_repaired(lipsc_text *t, const char *bytes, size_t len);
/* How many bytes stand in such parts. */
size_t lipsc_utf8_malformed(const char *bytes, size_t len);
/* bytes in front of what stands at `at`. */
void lipsc_text_insert(lipsc_text *t, size_t at, const char *bytes, size_t len);
/* A part of t itself again at its end. */
void lipsc_text_repeat(lipsc_text *t, size_t begin, size_t len);
void lipsc_text_free(lipsc_text *t);

void lipsc_ids_put(lipsc_ids *list, uint32_t id);
void lipsc_ids_put_all(lipsc_ids *list, const uint32_t *ids, size_t count);
void lipsc_ids_free(lipsc_ids *list);

/* The character that begins at `at` of well-formed UTF-8, and its width in bytes. */
uint32_t lipsc_utf8_read(const char *at, size_t *width);
/* The start of the character that ends before `at`, which is beyond `begin`. */
const char *lipsc_utf8_before(const char *begin, const char *at);
size_t lipsc_utf8_count(const char *bytes, size_t len);
size_t lipsc_utf8_write(uint32_t code, char out[4]); /* its width */
/* The bytes of well-formed UTF-8 at the beginning. */
size_t lipsc_utf8_sound(const char *bytes, size_t len);

uint64_t lipsc_hash(const char *bytes, size_t len);

/* ---- Classes and normal forms ------------------------------------------------ */

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

/* The value of a hexadecimal digit; -1: it is none. */
int lipsc_hex_digit(int c);

#endif
