/* plain.c - somebody else's text on a terminal. */
#include <string.h>

#include "core/plain.h"
#include "lipscope/table.h"

void lipsc_put_plain(FILE *to, const char *text) {
    while (*text) {
        uint32_t code;
        size_t width = lipsc_utf8_at(text, strlen(text), &code);
        const int plain = *text == '\n' || !lipsc_hostile_at(text, strlen(text));
        for (; width; width--, text++)
            fprintf(to, plain ? "%c" : "\\x%02x", (unsigned char)*text);
    }
}
