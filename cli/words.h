/* words.h - tokens as people read them. */
#ifndef LIPSC_CLI_WORDS_H
#define LIPSC_CLI_WORDS_H

#include "args.h"
#include "lipscope/source.h"
#include "lipscope/tokens.h"

enum { CLI_WORD = 48 };

/* The tokenizer of what is read with this model; NULL: there is none. */
lipsc_tokenizer *cli_words_open(const lipsc_source_options *source, const char *spec);

/* The text of a token in quotes, or its number where there is no tokenizer. */
const char *cli_word(const lipsc_tokenizer *tokenizer, uint32_t id, char word[CLI_WORD]);

#endif
