/* fuzz_vocab.c - any bytes as the files of a tokenizer without a tokenizer.json.  They are
 * cut at NUL: vocab.txt (empty: there is none), vocab.json, merges.txt, options, a text. */
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "folder.h"
#include "sentence.h"
#include "token/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(lipsc_tokenizer *tokenizer, const char *text, size_t size) {
    uint32_t *ids;
    size_t count, back_size;
    char *back;
    lipsc_error err = {0};
    if (lipsc_tokenizer_encode(tokenizer, text, size, 1, &ids, &count, &err)) {
        check_sentence(&err);
        return;
    }
    for (size_t i = 0; i < count; i++)
        if (ids[i] >= lipsc_tokenizer_vocab_size(tokenizer)) abort();
    if (lipsc_tokenizer_decode(tokenizer, ids, count, 0, &back, &back_size, &err))
        check_sentence(&err);
    else
        lipsc_release(back);
    lipsc_release(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"vocab.txt", "vocab.json", "merges.txt",
                                        "tokenizer_config.json"};
    lipsc_tokenizer *tokenizer = NULL;
    lipsc_error err = {0};
    for (int i = 0; i < 4; i++) {
        const uint8_t *end = size ? memchr(data, '\0', size) : NULL;
        const size_t part = end ? (size_t)(end - data) : size;
        if (part)
            folder_put(names[i], data, part);
        else
            folder_remove(names[i]);
        data = end ? end + 1 : data + size;
        size = end ? size - part - 1 : 0;
    }
    if (lipsc_tokenizer_read(FOLDER, &tokenizer, &err))
        check_sentence(&err);
    else
        use(tokenizer, (const char *)data, size);
    lipsc_tokenizer_free(tokenizer);
    return 0;
}
