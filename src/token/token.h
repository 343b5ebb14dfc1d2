/* token.h - what the rest of the library may do with a tokenizer beyond lipscope/tokens.h.
 */
#ifndef LIPSC_TOKEN_TOKEN_H
#define LIPSC_TOKEN_TOKEN_H

#include "io/gguf.h"
#include "lipscope/tokens.h"

/* lipsc_tokenizer_open of files that lie there: open.c finds them. */
lipsc_status lipsc_tokenizer_read(const char *path, lipsc_tokenizer **out,
                                  lipsc_error *err);

/* The tokenizer that a GGUF file holds. */
lipsc_status lipsc_tokenizer_from_gguf(const lipsc_gguf *gguf, lipsc_tokenizer **out,
                                       lipsc_error *err);

/* SHA-256 of ids, 32 bits each, little-endian. */
void lipsc_ids_hash(size_t count, const uint32_t *ids, char hash[65]);

#endif
