/* normalizer.h - what is done to a text before it is cut into words. */
#ifndef LIPSC_TOKEN_NORMALIZER_H
#define LIPSC_TOKEN_NORMALIZER_H

#include "token/fields.h"
#include "token/text.h"

typedef struct lipsc_normalizer lipsc_normalizer;

/* object may be NULL or null: nothing is done. */
lipsc_status lipsc_normalizer_read(const lipsc_place *place, json_t *object,
                                   lipsc_normalizer **out);
void lipsc_normalizer_free(lipsc_normalizer *normalizer); /* NULL does nothing */

/* Replaces *text.  *origin: how many bytes at its beginning stem from the first character
 * of the whole input; 0 when text begins later there. */
lipsc_status lipsc_normalizer_apply(lipsc_normalizer *normalizer, lipsc_text *text,
                                    size_t *origin, lipsc_error *err);

#endif
