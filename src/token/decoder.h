/* decoder.h - tokens back to text. */
#ifndef LIPSC_TOKEN_DECODER_H
#define LIPSC_TOKEN_DECODER_H

#include "token/fields.h"
#include "token/text.h"

/* Strings one after the other. */
typedef struct {
    lipsc_text bytes;
    size_t *ends;
    size_t count, room;
    int failed;
} lipsc_strings;

void lipsc_strings_end(lipsc_strings *list); /* what was put into bytes is one string */
void lipsc_strings_free(lipsc_strings *list);

typedef struct lipsc_decoder lipsc_decoder;

/* object may be NULL or null: tokens are joined with spaces. */
lipsc_status lipsc_decoder_read(const lipsc_place *place, json_t *object,
                                lipsc_decoder **out);
void lipsc_decoder_free(lipsc_decoder *decoder); /* NULL does nothing */

/* Replaces the tokens by the pieces of the text. */
lipsc_status lipsc_decoder_apply(const lipsc_decoder *decoder, lipsc_strings *tokens,
                                 lipsc_error *err);

#endif
