/* model.h - the models that turn a word into token ids. */
#ifndef LIPSC_TOKEN_MODEL_H
#define LIPSC_TOKEN_MODEL_H

#include "token/fields.h"
#include "token/text.h"
#include "token/vocab.h"

typedef struct lipsc_bpe lipsc_bpe;

/* object: the `model` of a tokenizer.json, of type BPE.  vocab stays the caller's, who
 * keeps it at least as long. */
lipsc_status lipsc_bpe_read(const lipsc_place *place, json_t *object,
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

lipsc_status lipsc_wordpiece_read(const lipsc_place *place, json_t *object,
                                  const lipsc_vocab *vocab, lipsc_wordpiece *out);
void lipsc_wordpiece_free(lipsc_wordpiece *wordpiece);
lipsc_status lipsc_wordpiece_encode(lipsc_wordpiece *wordpiece, const char *word,
                                    size_t len, lipsc_ids *ids, lipsc_error *err);

#endif
