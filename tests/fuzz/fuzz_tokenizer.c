/* fuzz_tokenizer.c - any bytes as a tokenizer.json and, after the first NUL, as a text, or
 * as a GGUF file with a tokenizer: what is accepted must encode the text into ids that
 * exist, or say why not. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "sentence.h"
#include "token/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A regular expression gives up after 10,000 steps, not ten million, and leaves PCRE2's
 * fast path beyond 16 KiB of stack, not 8 MiB: what follows is the same, and sooner. */
pcre2_match_context *__real_pcre2_match_context_create_8(pcre2_general_context *general);
pcre2_match_context *__wrap_pcre2_match_context_create_8(pcre2_general_context *general);
pcre2_jit_stack *__real_pcre2_jit_stack_create_8(size_t start, size_t most,
                                                 pcre2_general_context *general);
pcre2_jit_stack *__wrap_pcre2_jit_stack_create_8(size_t start, size_t most,
                                                 pcre2_general_context *general);

pcre2_match_context *__wrap_pcre2_match_context_create_8(pcre2_general_context *general) {
    pcre2_match_context *context = __real_pcre2_match_context_create_8(general);
    if (context) pcre2_set_match_limit(context, 10000);
    return context;
}

pcre2_jit_stack *__wrap_pcre2_jit_stack_create_8(size_t start, size_t most,
                                                 pcre2_general_context *general) {
    (void)start, (void)most;
    return __real_pcre2_jit_stack_create_8(1 << 13, 1 << 14, general);
}

/* What else is asked of a tokenizer. */
static void ask(lipsc_tokenizer *tokenizer) {
    uint32_t *ids, id;
    size_t before, after;
    lipsc_error err = {0};
    if (lipsc_tokenizer_around(tokenizer, &ids, &before, &after, &err))
        check_sentence(&err);
    else
        lipsc_release(ids);
    if (lipsc_tokenizer_find(tokenizer, "<s>", 3, &id) &&
        id >= lipsc_tokenizer_vocab_size(tokenizer))
        abort();
}

static void use(lipsc_tokenizer *tokenizer, const char *text, size_t size) {
    const int special = size & 1;
    uint32_t *ids;
    char *back;
    size_t count, back_size;
    lipsc_error err = {0};
    ask(tokenizer);
    if (lipsc_tokenizer_malformed(text, size) > size) abort();
    if (lipsc_tokenizer_encode(tokenizer, text, size, special, &ids, &count, &err)) {
        check_sentence(&err);
        return;
    }
    if (lipsc_tokenizer_decode(tokenizer, ids, count, special, &back, &back_size, &err) ==
        LIPSC_OK) {
        if (back[back_size] != '\0') abort();
        lipsc_release(back);
    } else {
        check_sentence(&err); /* a post_processor may name ids that no token has */
    }
    lipsc_release(ids);
}

static const char usual[] = "It's  caf\xc3\xa9 <s> \xe4\xb8\xad\n 12 \xff";

static int from_gguf(const uint8_t *data, size_t size) {
    lipsc_gguf *gguf = NULL;
    lipsc_tokenizer *tokenizer = NULL;
    lipsc_error err = {0};
    if (lipsc_gguf_parse(data, size, "fuzz", &gguf, &err) ||
        lipsc_tokenizer_from_gguf(gguf, &tokenizer, &err)) {
        check_sentence(&err);
        if (tokenizer) abort();
    } else {
        use(tokenizer, usual, sizeof usual - 1);
    }
    lipsc_gguf_free(gguf);
    lipsc_tokenizer_free(tokenizer);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size >= 4 && !memcmp(data, "GGUF", 4)) return from_gguf(data, size);
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
