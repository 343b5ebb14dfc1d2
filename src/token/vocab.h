/* vocab.h - tokens and their ids, both ways. */
#ifndef LIPSC_TOKEN_VOCAB_H
#define LIPSC_TOKEN_VOCAB_H

#include "token/fields.h"

typedef struct lipsc_vocab lipsc_vocab;

/* From {"token": id, ...}.  Ids may leave gaps; two tokens of one id are refused. */
lipsc_status lipsc_vocab_read(const lipsc_place *place, json_t *object, lipsc_vocab **out);
void lipsc_vocab_free(lipsc_vocab *vocab); /* NULL does nothing */

size_t lipsc_vocab_count(const lipsc_vocab *vocab);
size_t lipsc_vocab_end(const lipsc_vocab *vocab);     /* largest id + 1, 0 when empty */
size_t lipsc_vocab_longest(const lipsc_vocab *vocab); /* bytes of the longest token */

int lipsc_vocab_find(const lipsc_vocab *vocab, const char *token, size_t len, uint32_t *id);
/* NULL when no token has this id. */
const char *lipsc_vocab_token(const lipsc_vocab *vocab, uint32_t id, size_t *len);

#endif
