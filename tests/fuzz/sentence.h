/* sentence.h - whatever is refused has a code and a sentence. */
#ifndef LIPSC_FUZZ_SENTENCE_H
#define LIPSC_FUZZ_SENTENCE_H

#include <stdlib.h>
#include <string.h>

#include "lipscope.h"

static void check_sentence(const lipsc_error *err) {
    if (!err->code || !err->text[0] || !memchr(err->text, '\0', sizeof err->text)) abort();
}

#endif
