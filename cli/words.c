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

/* How the control characters of text are written; others are spaces.  One line, and no
 * control of the terminal: two tokens of white space still look different. */
static char letter_of(unsigned char c) {
    return c == '\n' ? 'n' : c == '\t' ? 't' : c == '\r' ? 'r' : 0;
}

/* Writes whole characters while they fit in `room`; returns how many bytes it read. */
static size_t write_visible(const char *text, size_t size, char *to, size_t room) {
    size_t at = 0, used = 0, whole_at = 0, whole = 0;
    for (; at < size; at++) {
        const unsigned char c = (unsigned char)text[at];
        const char letter = letter_of(c);
        if ((c & 0xC0) != 0x80) whole_at = at, whole = used;
        if (used + 1 + (letter != 0) > room) break;
        if (letter) to[used++] = '\\';
        to[used++] = letter ? letter : c < 32 || c == 127 ? ' ' : (char)c;
    }
    if (at == size) whole_at = at, whole = used;
    to[whole] = 0;
    return whole_at;
}

const char *cli_word(const lipsc_tokenizer *tokenizer, uint32_t id, char word[CLI_WORD]) {
    char *bytes = NULL, shown[CLI_WORD];
    size_t size = 0;
    snprintf(word, CLI_WORD, "%lu", (unsigned long)id);
    if (!tokenizer || lipsc_tokenizer_decode(tokenizer, &id, 1, 0, &bytes, &size, NULL))
        return word;
    const size_t read = write_visible(bytes, size, shown, CLI_WORD - 6);
    snprintf(word, CLI_WORD, "\"%.*s%s\"", CLI_WORD - 6, shown, read < size ? "..." : "");
    lipsc_release(bytes);
    return word;
}
