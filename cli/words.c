/* words.c - tokens as people read them. */
#include "words.h"

#include <string.h>

lipsc_tokenizer *cli_words_open(const lipsc_source_options *source, const char *spec) {
    lipsc_tokenizer *tokenizer = NULL;
    if (source->pixels) return NULL;
    const lipsc_status status = lipsc_tokenizer_open(
        source->tokenizer ? source->tokenizer : spec, &tokenizer, NULL);
    return status ? NULL : tokenizer;
}

/* Bytes of the first whole characters that fit in `room`. */
static size_t cut(const char *text, size_t size, size_t room) {
    if (size <= room) return size;
    while (room && ((unsigned char)text[room] & 0xC0) == 0x80) room--;
    return room;
}

const char *cli_word(const lipsc_tokenizer *tokenizer, uint32_t id, char word[CLI_WORD]) {
    char *bytes = NULL;
    size_t size = 0;
    snprintf(word, CLI_WORD, "%lu", (unsigned long)id);
    if (!tokenizer || lipsc_tokenizer_decode(tokenizer, &id, 1, 0, &bytes, &size, NULL))
        return word;
    const size_t shown = cut(bytes, size, CLI_WORD - 6);
    snprintf(word, CLI_WORD, "\"%.*s%s\"", (int)shown, bytes, shown < size ? "..." : "");
    for (char *c = word; *c; c++) /* one line, and no control of the terminal */
        if ((unsigned char)*c < 32 || (unsigned char)*c == 127) *c = ' ';
    lipsc_release(bytes);
    return word;
}
