/* test_no_memory_models.c - tokenizers and configurations where memory runs out, that of
 * PCRE2 among it: the seeds of the fuzzers. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "no_memory.h"

#include "io/gguf.h"
#include "model/config.h"
#include "model/gguf_config.h"
#include "token/token.h"

pcre2_match_context *__real_pcre2_match_context_create_8(pcre2_general_context *c);
pcre2_match_data *__real_pcre2_match_data_create_8(uint32_t n, pcre2_general_context *c);
pcre2_match_context *__wrap_pcre2_match_context_create_8(pcre2_general_context *c);
pcre2_match_data *__wrap_pcre2_match_data_create_8(uint32_t n, pcre2_general_context *c);
pcre2_match_context *__wrap_pcre2_match_context_create_8(pcre2_general_context *c) {
    return due() ? NULL : __real_pcre2_match_context_create_8(c);
}
pcre2_match_data *__wrap_pcre2_match_data_create_8(uint32_t n, pcre2_general_context *c) {
    return due() ? NULL : __real_pcre2_match_data_create_8(n, c);
}

static void use(lipsc_tokenizer *tokenizer, answer *a) {
    static const char text[] = "It's  caf\xc3\xa9 <s> \xe4\xb8\xad\n 12";
    uint32_t *ids = NULL;
    char *back = NULL;
    size_t count, size;
    a->status =
        lipsc_tokenizer_encode(tokenizer, text, sizeof text - 1, 1, &ids, &count, &a->err);
    if (!a->status) {
        for (size_t i = 0; i < count; i++) a->value = a->value * 31 + ids[i];
        a->status = lipsc_tokenizer_decode(tokenizer, ids, count, 0, &back, &size, &a->err);
        if (!a->status) a->value += (double)size;
    }
    lipsc_release(ids);
    lipsc_release(back);
}

static void tokenizer(const given *g, answer *a) {
    const uint8_t *end = memchr(g->bytes, '\0', g->size);
    lipsc_tokenizer *t = NULL;
    lipsc_gguf *gguf = NULL;
    if (g->size > 4 && !memcmp(g->bytes, "GGUF", 4)) {
        a->status = lipsc_gguf_parse(g->bytes, g->size, "it", &gguf, &a->err);
        if (!a->status) a->status = lipsc_tokenizer_from_gguf(gguf, &t, &a->err);
    } else {
        const size_t size = end ? (size_t)(end - g->bytes) : g->size;
        a->status = lipsc_tokenizer_parse((const char *)g->bytes, size, "it", &t, &a->err);
    }
    if (!a->status) use(t, a);
    lipsc_tokenizer_free(t);
    lipsc_gguf_free(gguf);
}

static void config(const given *g, answer *a) {
    lipsc_config c;
    lipsc_gguf *gguf = NULL;
    char *json = NULL;
    const char *text = (const char *)g->bytes;
    size_t size = g->size;
    if (g->size > 4 && !memcmp(g->bytes, "GGUF", 4)) {
        a->status = lipsc_gguf_parse(g->bytes, g->size, "it", &gguf, &a->err);
        if (!a->status) a->status = lipsc_gguf_config(gguf, &json, &a->err);
        text = json;
        size = json ? strlen(json) : 0;
    }
    if (!a->status)
        a->status = lipsc_config_parse(text, size, "it", LIPSC_PART_WHOLE, &c, &a->err);
    if (!a->status) {
        a->value = (double)(c.layers * c.d * c.heads * c.ffn);
        lipsc_config_free(&c);
    }
    free(json);
    lipsc_gguf_free(gguf);
}

static void gguf(const given *g, answer *a) {
    lipsc_gguf *file = NULL;
    a->status = lipsc_gguf_parse(g->bytes, g->size, "it", &file, &a->err);
    if (!a->status) a->value = (double)lipsc_gguf_count(file);
    lipsc_gguf_free(file);
}

static void test_tokenizers(void **state) {
    (void)state;
    sweep_seeds("tokenizer", tokenizer);
}

static void test_configs(void **state) {
    (void)state;
    sweep_seeds("config", config);
}

static void test_gguf(void **state) {
    (void)state;
    sweep_seeds("gguf", gguf);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokenizers),
        cmocka_unit_test(test_configs),
        cmocka_unit_test(test_gguf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
