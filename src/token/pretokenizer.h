/* pretokenizer.h - cuts a normalized text into words. */
#ifndef LIPSC_TOKEN_PRETOKENIZER_H
#define LIPSC_TOKEN_PRETOKENIZER_H

#include "token/fields.h"
#include "token/pieces.h"

typedef struct lipsc_pretokenizer lipsc_pretokenizer;

/* object may be NULL or null: nothing is cut. */
lipsc_status lipsc_pretokenizer_read(const lipsc_place *place, json_t *object,
                                     lipsc_pretokenizer **out);
void lipsc_pretokenizer_free(lipsc_pretokenizer *pretokenizer); /* NULL does nothing */

/* Replaces the pieces that are no tokens yet. */
lipsc_status lipsc_pretokenizer_apply(lipsc_pretokenizer *pretokenizer,
                                      lipsc_pieces *pieces, lipsc_error *err);

/* How metaspaces are put in front of a piece. */
typedef enum {
    LIPSC_PREPEND_ALWAYS,
    LIPSC_PREPEND_FIRST,
    LIPSC_PREPEND_NEVER
} lipsc_prepend;
/* The fields that Metaspace has as a pre-tokenizer and as a decoder. */
lipsc_status lipsc_metaspace_read(const lipsc_place *place, json_t *object,
                                  uint32_t *replacement, lipsc_prepend *prepend,
                                  int *split);

/* GPT-2's printable stand-in for a byte, and back: -1 when code is none. */
uint32_t lipsc_byte_to_code(unsigned char byte);
int lipsc_code_to_byte(uint32_t code);

#endif
