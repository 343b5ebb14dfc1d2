/* fuzz_tokenizer.c - any bytes as a tokenizer.json and, after the first NUL, as a text:
 * what is accepted must encode the text into ids that exist, or say why not. */
#include "core/mem.h"
#include "token/token.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_sentence(const lipsc_error *err) {
    if (!err->code || !err->text[0] || !memchr(err->text, '\0', sizeof err->text)) abort();
}

static void use(lipsc_tokenizer *tokenizer, const char *text, size_t size) {
    lipsc_error err = {0};
    for (int special = 0; special < 2; special++) {
        uint32_t *ids;
        char *back;
        size_t count, back_size;
        if (lipsc_tokenizer_encode(tokenizer, text, size, special, &ids, &count, &err)) {
            check_sentence(&err);
            continue;
        }
        if (lipsc_tokenizer_decode(tokenizer, ids, count, special, &back, &back_size,
                                   &err) == LIPSC_OK) {
            if (back[back_size] != '\0') abort();
            lipsc_release(back);
        } else {
            check_sentence(&err); /* a post_processor may name ids that no token has */
        }
        lipsc_release(ids);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char usual[] = "It's  caf\xc3\xa9 <s> \xe4\xb8\xad\n 12 \xff";
    const uint8_t *end = memchr(data, '\0', size);
    const size_t json = end ? (size_t)(end - data) : size;
    lipsc_tokenizer *tokenizer = NULL;
    lipsc_error err = {0};
    if (lipsc_tokenizer_parse((const char *)data, json, "fuzz", &tokenizer, &err)) {
        check_sentence(&err);
        if (tokenizer) abort();
        return 0;
    }
    if (end)
        use(tokenizer, (const char *)end + 1, size - json - 1);
    else
        use(tokenizer, usual, sizeof usual - 1);
    lipsc_tokenizer_free(tokenizer);
    return 0;
}
