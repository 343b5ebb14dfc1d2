/* added.h - added tokens: written out in a text they are tokens whatever the model says. */
#ifndef LIPSC_TOKEN_ADDED_H
#define LIPSC_TOKEN_ADDED_H

#include "token/fields.h"
#include "token/normalizer.h"
#include "token/pieces.h"
#include "token/vocab.h"

typedef struct lipsc_added lipsc_added;

/* list may be NULL: none.  A token that vocab has keeps its id there; the others get the
 * next ones, the ids of the file notwithstanding, as they do at Hugging Face. */
lipsc_status lipsc_added_read(const lipsc_place *place, json_t *list,
                              const lipsc_vocab *vocab, lipsc_normalizer *normalizer,
                              lipsc_added **out);
void lipsc_added_free(lipsc_added *added); /* NULL does nothing */

size_t lipsc_added_end(const lipsc_added *added); /* largest id + 1, 0 when empty */
int lipsc_added_find(const lipsc_added *added, const char *token, size_t len, uint32_t *id);
/* As a decoder sees it, that is normalized when the token is; NULL when id has none. */
const char *lipsc_added_token(const lipsc_added *added, uint32_t id, size_t *len);
int lipsc_added_is_special(const lipsc_added *added, const char *token, size_t len);

/* Appends text to pieces, cut at the tokens that are looked for before (normalized 0) or
 * after (1) a text is normalized.  origin as in lipsc_normalizer_apply. */
void lipsc_added_cut(lipsc_added *added, int normalized, const char *text, size_t len,
                     size_t origin, lipsc_pieces *pieces);

#endif
