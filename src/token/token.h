/* token.h - text to token ids and back, equal to Hugging Face tokenizers 0.23 id by id.
 *
 * A text is its bytes: malformed UTF-8 becomes U+FFFD, one for each maximal ill-formed
 * part, as Python's errors="replace" does; NUL, carriage returns and a byte order mark are
 * characters like any other.  What a file asks for and these functions cannot do is refused
 * by name when it is opened.  `truncation` and `padding` are ignored. */
#ifndef LIPSC_TOKEN_TOKEN_H
#define LIPSC_TOKEN_TOKEN_H

#include "io/gguf.h"
#include "lipscope.h"

/* Holds a cache of words: two threads may use two tokenizers at once, never one. */
typedef struct lipsc_tokenizer lipsc_tokenizer;

/* dir is a GGUF file or a tokenizer.json, or holds tokenizer.json, or vocab.json and
 * merges.txt (byte-level BPE), or vocab.txt (WordPiece); the first of these found is read.
 * Without tokenizer.json the options are those in tokenizer_config.json, where there is
 * one. */
lipsc_status lipsc_tokenizer_open(const char *dir, lipsc_tokenizer **out, lipsc_error *err);

/* The bytes of a tokenizer.json.  name stands for the file in sentences. */
lipsc_status lipsc_tokenizer_parse(const char *json, size_t size, const char *name,
                                   lipsc_tokenizer **out, lipsc_error *err);

/* The tokenizer that a GGUF file holds. */
lipsc_status lipsc_tokenizer_from_gguf(const lipsc_gguf *gguf, lipsc_tokenizer **out,
                                       lipsc_error *err);

void lipsc_tokenizer_free(lipsc_tokenizer *tokenizer); /* NULL does nothing */

/* *ids (free with lipsc_release) is never NULL on success, also for an empty text.
 * special adds what the file's post_processor adds around one text, [CLS] and [SEP] for
 * instance.  Special tokens written out in the text are recognised either way. */
lipsc_status lipsc_tokenizer_encode(lipsc_tokenizer *tokenizer, const char *bytes,
                                    size_t size, int special, uint32_t **ids, size_t *count,
                                    lipsc_error *err);

/* What `special` adds: *ids (free with lipsc_release; never NULL on success) are *before
 * ids in front of the text, then *after behind it.  LIPSC_E_REFUSED where the text does not
 * stand there exactly once. */
lipsc_status lipsc_tokenizer_around(const lipsc_tokenizer *tokenizer, uint32_t **ids,
                                    size_t *before, size_t *after, lipsc_error *err);

/* Bytes of a text that are read as U+FFFD: those in no well-formed character. */
size_t lipsc_tokenizer_malformed(const char *bytes, size_t size);

/* *bytes (free with lipsc_release) is valid UTF-8, ended by a NUL that *size does not
 * count. An id that no token has is an error. */
lipsc_status lipsc_tokenizer_decode(const lipsc_tokenizer *tokenizer, const uint32_t *ids,
                                    size_t count, int skip_special, char **bytes,
                                    size_t *size, lipsc_error *err);

/* The largest id plus one: the rows an embedding must have.  Ids in between may be free. */
size_t lipsc_tokenizer_vocab_size(const lipsc_tokenizer *tokenizer);

/* 1 and *id, or 0 when there is no such token. */
int lipsc_tokenizer_find(const lipsc_tokenizer *tokenizer, const char *token, size_t size,
                         uint32_t *id);
/* The token as the vocabulary writes it, not ended by a NUL, or NULL when id has none.
 * Valid until the tokenizer is freed. */
const char *lipsc_tokenizer_token(const lipsc_tokenizer *tokenizer, uint32_t id,
                                  size_t *size);

#endif
