/* parts.h - the parts of a tokenizer, in the order in which a text meets them: each is read
 * from its object of a tokenizer.json, and applied. */
#ifndef LIPSC_TOKEN_PARTS_H
#define LIPSC_TOKEN_PARTS_H

#include "token/fields.h"
#include "token/pattern.h"
#include "token/text.h"
#include "token/token.h"

#include <jansson.h>

/* ---- Tokens and their ids, both ways ----------------------------------------- */

typedef struct lipsc_vocab lipsc_vocab;

/* From {"token": id, ...}.  Ids may leave gaps; two tokens of one id are refused. */
lipsc_status lipsc_vocab_read(const lipsc_json_place *place, json_t *object,
                              lipsc_vocab **out);
void lipsc_vocab_free(lipsc_vocab *vocab); /* NULL does nothing */

size_t lipsc_vocab_count(const lipsc_vocab *vocab);
size_t lipsc_vocab_end(const lipsc_vocab *vocab);     /* largest id + 1, 0 when empty */
size_t lipsc_vocab_longest(const lipsc_vocab *vocab); /* bytes of the longest token */

int lipsc_vocab_find(const lipsc_vocab *vocab, const char *token, size_t len, uint32_t *id);
/* NULL when no token has this id. */
const char *lipsc_vocab_token(const lipsc_vocab *vocab, uint32_t id, size_t *len);

/* ---- What is done to a text before it is cut --------------------------------- */

typedef struct lipsc_normalizer lipsc_normalizer;

/* object may be NULL or null: nothing is done. */
lipsc_status lipsc_normalizer_read(const lipsc_json_place *place, json_t *object,
                                   lipsc_normalizer **out);
void lipsc_normalizer_free(lipsc_normalizer *normalizer); /* NULL does nothing */

/* Replaces *text.  *origin: how many bytes at its beginning stem from the first character
 * of the whole input; 0 when text begins later there. */
lipsc_status lipsc_normalizer_apply(lipsc_normalizer *normalizer, lipsc_text *text,
                                    size_t *origin, lipsc_error *err);

/* ---- Pieces: runs of bytes or, where an added token was found, already ids ---- */

typedef struct {
    size_t begin, len; /* in the bytes of the list it belongs to */
    size_t origin;     /* how many of them stem from the first character of the input */
    int is_token;
    uint32_t id;
} lipsc_piece;

typedef struct {
    lipsc_text bytes; /* only ever grows, so pieces may share what they do not change */
    lipsc_piece *data;
    size_t count, room;
    int failed;
} lipsc_pieces;

/* Where the delimiters of a split go. */
typedef enum {
    LIPSC_REMOVED,
    LIPSC_ISOLATED,
    LIPSC_MERGED_WITH_PREVIOUS,
    LIPSC_MERGED_WITH_NEXT,
    LIPSC_CONTIGUOUS
} lipsc_behavior;

void lipsc_pieces_put(lipsc_pieces *pieces,
                      lipsc_piece piece); /* an empty one is dropped */
/* piece cut as spans say, offsets in which count from its beginning. */
void lipsc_pieces_put_split(lipsc_pieces *pieces, const lipsc_piece *piece,
                            const lipsc_spans *spans, lipsc_behavior behavior);
void lipsc_pieces_free(lipsc_pieces *pieces);

/* ---- Added tokens: written out in a text they are tokens whatever the model says ---- */

typedef struct lipsc_added lipsc_added;

/* list may be NULL: none.  A token that vocab has keeps its id there; the others get the
 * next ones, the ids of the file notwithstanding, as they do at Hugging Face. */
lipsc_status lipsc_added_read(const lipsc_json_place *place, json_t *list,
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

/* ---- Words ------------------------------------------------------------------- */

typedef struct lipsc_pretokenizer lipsc_pretokenizer;

/* object may be NULL or null: nothing is cut. */
lipsc_status lipsc_pretokenizer_read(const lipsc_json_place *place, json_t *object,
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
lipsc_status lipsc_metaspace_read(const lipsc_json_place *place, json_t *object,
                                  uint32_t *replacement, lipsc_prepend *prepend,
                                  int *split);

/* GPT-2's printable stand-in for a byte, and back: -1 when code is none. */
uint32_t lipsc_byte_to_code(unsigned char byte);
int lipsc_code_to_byte(uint32_t code);

/* ---- Models: a word into ids ------------------------------------------------- */

typedef struct lipsc_bpe lipsc_bpe;

/* object: the `model` of a tokenizer.json, of type BPE.  vocab stays the caller's, who
 * keeps it at least as long. */
lipsc_status lipsc_bpe_read(const lipsc_json_place *place, json_t *object,
                            const lipsc_vocab *vocab, lipsc_bpe **out);
void lipsc_bpe_free(lipsc_bpe *bpe); /* NULL does nothing */
lipsc_status lipsc_bpe_encode(lipsc_bpe *bpe, const char *word, size_t len, lipsc_ids *ids,
                              lipsc_error *err);

typedef struct {
    const lipsc_vocab *vocab;
    lipsc_text unknown, prefix;
    size_t most_characters;
    lipsc_text buffer;
} lipsc_wordpiece;

lipsc_status lipsc_wordpiece_read(const lipsc_json_place *place, json_t *object,
                                  const lipsc_vocab *vocab, lipsc_wordpiece *out);
void lipsc_wordpiece_free(lipsc_wordpiece *wordpiece);
lipsc_status lipsc_wordpiece_encode(lipsc_wordpiece *wordpiece, const char *word,
                                    size_t len, lipsc_ids *ids, lipsc_error *err);

/* ---- The tokens that a model expects around a text --------------------------- */

typedef struct {
    int is_text; /* the text itself; otherwise ids that are put in */
    lipsc_ids ids;
} lipsc_post_part;

typedef struct {
    lipsc_post_part *parts;
    size_t count, room;
    int given; /* 0: the text alone */
} lipsc_postprocessor;

/* object may be NULL or null. */
lipsc_status lipsc_postprocessor_read(const lipsc_json_place *place, json_t *object,
                                      lipsc_postprocessor *out);
void lipsc_postprocessor_free(lipsc_postprocessor *post);

/* Appends to out what becomes of one text. */
void lipsc_postprocessor_apply(const lipsc_postprocessor *post, const lipsc_ids *text,
                               int special, lipsc_ids *out);

/* ---- Tokens back to text ----------------------------------------------------- */

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
lipsc_status lipsc_decoder_read(const lipsc_json_place *place, json_t *object,
                                lipsc_decoder **out);
void lipsc_decoder_free(lipsc_decoder *decoder); /* NULL does nothing */

/* Replaces the tokens by the pieces of the text. */
lipsc_status lipsc_decoder_apply(const lipsc_decoder *decoder, lipsc_strings *tokens,
                                 lipsc_error *err);

/* ---- All of them together ---------------------------------------------------- */

/* file: as it is shown in sentences. */
lipsc_status lipsc_json_read(const char *json, size_t size, const char *file, json_t **out,
                             lipsc_error *err);
/* root stays the caller's. */
lipsc_status lipsc_tokenizer_assemble(json_t *root, const char *file, lipsc_tokenizer **out,
                                      lipsc_error *err);

#endif
