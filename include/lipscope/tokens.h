/* tokens.h - text to token ids and back, equal to Hugging Face tokenizers 0.23 id by id.
 *
 * A text is its bytes: malformed UTF-8 becomes U+FFFD, one for each maximal ill-formed
 * part, as Python's errors="replace" does; NUL, carriage returns and a byte order mark are
 * characters like any other.  What a file asks for and these functions cannot do is refused
 * by name when it is opened.  `truncation` and `padding` are ignored. */
#ifndef LIPSCOPE_TOKENS_H
#define LIPSCOPE_TOKENS_H

#include "lipscope/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Holds a cache of words: two threads may use two tokenizers at once, never one. */
typedef struct lipsc_tokenizer lipsc_tokenizer;

/* spec: a model as in lipsc_model_open, whose tokenizer lies beside its weights; or a GGUF
 * file, a tokenizer.json, or a folder with tokenizer.json, or vocab.json and merges.txt
 * (byte-level BPE), or vocab.txt (WordPiece); the first of these found is read.  Without
 * tokenizer.json the options are those in tokenizer_config.json, where there is one.
 * random:FAMILY has the tokenizer that comes with the library.  LIPSC_E_IO: there are no
 * such files. */
LIPSC_API lipsc_status lipsc_tokenizer_open(const char *spec, lipsc_tokenizer **out,
                                            lipsc_error *err);

/* The bytes of a tokenizer.json.  name stands for the file in sentences. */
LIPSC_API lipsc_status lipsc_tokenizer_parse(const char *json, size_t size,
                                             const char *name, lipsc_tokenizer **out,
                                             lipsc_error *err);
LIPSC_API void lipsc_tokenizer_free(lipsc_tokenizer *tokenizer);

/* *ids (free with lipsc_release) is never NULL on success, also for an empty text.
 * special adds what the file's post_processor adds around one text, [CLS] and [SEP] for
 * instance.  Special tokens written out in the text are recognised either way. */
LIPSC_API lipsc_status lipsc_tokenizer_encode(lipsc_tokenizer *tokenizer, const char *bytes,
                                              size_t size, int special, uint32_t **ids,
                                              size_t *count, lipsc_error *err);

/* *bytes (free with lipsc_release) is valid UTF-8, ended by a NUL that *size does not
 * count. An id that no token has is an error. */
LIPSC_API lipsc_status lipsc_tokenizer_decode(const lipsc_tokenizer *tokenizer,
                                              const uint32_t *ids, size_t count,
                                              int skip_special, char **bytes, size_t *size,
                                              lipsc_error *err);

/* What `special` adds: *ids (free with lipsc_release; never NULL on success) are *before
 * ids in front of the text, then *after behind it.  LIPSC_E_REFUSED where the text does not
 * stand there exactly once. */
LIPSC_API lipsc_status lipsc_tokenizer_around(const lipsc_tokenizer *tokenizer,
                                              uint32_t **ids, size_t *before, size_t *after,
                                              lipsc_error *err);

/* Bytes of a text that are read as U+FFFD: those in no well-formed character. */
LIPSC_API size_t lipsc_tokenizer_malformed(const char *bytes, size_t size);

/* The largest id plus one: the rows an embedding must have.  Ids in between may be free. */
LIPSC_API size_t lipsc_tokenizer_vocab_size(const lipsc_tokenizer *tokenizer);

/* 1 and *id, or 0 when there is no such token. */
LIPSC_API int lipsc_tokenizer_find(const lipsc_tokenizer *tokenizer, const char *token,
                                   size_t size, uint32_t *id);
/* The token as the vocabulary writes it, not ended by a NUL, or NULL when id has none.
 * Valid until the tokenizer is freed. */
LIPSC_API const char *lipsc_tokenizer_token(const lipsc_tokenizer *tokenizer, uint32_t id,
                                            size_t *size);

/* ---- Texts and ids in files -------------------------------------------------------- */

/* A whole file, standard input when path is "-", or the text builtin:lighthouse that comes
 * with the library.  *bytes (free with lipsc_release) is never NULL on success. */
LIPSC_API lipsc_status lipsc_bytes_read(const char *path, char **bytes, size_t *size,
                                        lipsc_error *err);

/* Whole numbers separated by white space, by commas, or in one JSON list.  name: the file,
 * in sentences; *ids as above. */
LIPSC_API lipsc_status lipsc_ids_parse(const char *name, const char *bytes, size_t size,
                                       uint32_t **ids, size_t *count, lipsc_error *err);

/* The ids of a file; path as in lipsc_bytes_read. */
LIPSC_API lipsc_status lipsc_ids_read(const char *path, uint32_t **ids, size_t *count,
                                      lipsc_error *err);

#ifdef __cplusplus
}
#endif
#endif
