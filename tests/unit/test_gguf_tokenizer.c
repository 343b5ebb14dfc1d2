/* test_gguf_tokenizer.c - tokenizers inside GGUF files against the ids of Hugging Face
 * tokenizers and of sentencepiece (tools/make_gguf_tokenizers.py wrote both). */
#include "core/mem.h"
#include "gguf_bytes.h"
#include "token/token.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define FOLDER LIPSC_TEST_DATA "/gguf/"

static void check_text(lipsc_tokenizer *tokenizer, json_t *text, json_t *want) {
    uint32_t *ids;
    size_t count;
    assert_int_equal(lipsc_tokenizer_encode(tokenizer, json_string_value(text),
                                            json_string_length(text), 0, &ids, &count,
                                            NULL),
                     LIPSC_OK);
    assert_int_equal(count, json_array_size(want));
    for (size_t i = 0; i < count; i++)
        assert_int_equal(ids[i], json_integer_value(json_array_get(want, i)));
    lipsc_release(ids);
}

static void test_ids(void **state) {
    (void)state;
    json_error_t bad;
    json_t *root = json_load_file(FOLDER "tokenizers.json", 0, &bad);
    json_t *texts = json_object_get(root, "texts"), *answers;
    const char *file;
    assert_non_null(root);
    assert_int_equal(json_object_size(json_object_get(root, "ids")), 7);
    json_object_foreach(json_object_get(root, "ids"), file, answers) {
        char path[512];
        lipsc_tokenizer *tokenizer;
        lipsc_error err;
        snprintf(path, sizeof path, FOLDER "%s", file);
        assert_int_equal(lipsc_tokenizer_open(path, &tokenizer, &err), LIPSC_OK);
        assert_int_equal(json_array_size(answers), json_array_size(texts));
        for (size_t t = 0; t < json_array_size(texts); t++)
            check_text(tokenizer, json_array_get(texts, t), json_array_get(answers, t));
        lipsc_tokenizer_free(tokenizer);
    }
    json_decref(root);
}

/* The first and the last id of "a" with special tokens. */
static void check_ends(const char *path, uint32_t first, size_t more) {
    lipsc_tokenizer *tokenizer;
    uint32_t *plain, *special;
    size_t few, many;
    assert_int_equal(lipsc_tokenizer_open(path, &tokenizer, NULL), LIPSC_OK);
    lipsc_tokenizer_encode(tokenizer, "a", 1, 0, &plain, &few, NULL);
    lipsc_tokenizer_encode(tokenizer, "a", 1, 1, &special, &many, NULL);
    assert_int_equal(many, few + more);
    assert_int_equal(special[0], first);
    lipsc_release(plain);
    lipsc_release(special);
    lipsc_tokenizer_free(tokenizer);
}

static void test_special(void **state) {
    (void)state;
    check_ends(FOLDER "qwen2.gguf", 0, 1);
    check_ends(FOLDER "sentencepiece.gguf", 1, 1);
    check_ends(FOLDER "uncased.gguf", 2, 2);
}

/* A file with tensors only says that it has no tokenizer. */
static void test_absent(void **state) {
    (void)state;
    lipsc_tokenizer *tokenizer;
    lipsc_error err;
    assert_int_equal(lipsc_tokenizer_open(FOLDER "blocks.gguf", &tokenizer, &err),
                     LIPSC_E_FORMAT);
    assert_non_null(strstr(err.text, "has no tokenizer"));
}

/* Notes that make no tokenizer, each with the sentence that says why. */
static void refused(const gguf_bytes *g, const char *reason) {
    static const char path[] = "refused.gguf";
    lipsc_tokenizer *tokenizer = NULL;
    lipsc_error err = {.text = ""};
    assert_int_equal(gguf_write(g, path), 0);
    assert_int_equal(lipsc_tokenizer_open(path, &tokenizer, &err), LIPSC_E_FORMAT);
    if (!strstr(err.text, reason)) fail_msg("'%s' is not in '%s'", reason, err.text);
    assert_int_equal(remove(path), 0);
}

static void test_refused(void **state) {
    (void)state;
    gguf_bytes start = {.size = 0}, g;
    gguf_note_list(&start, "tokenizer.ggml.tokens", GGUF_STRING, 2);
    gguf_put_text(&start, "a");
    g = start;
    gguf_put_text(&g, "\xff");
    gguf_note_text(&g, "tokenizer.ggml.model", "llama");
    refused(&g, "entry 1 of tokenizer.ggml.tokens is no UTF-8 text");
    gguf_put_text(&start, "b");
    g = start;
    gguf_note_text(&g, "tokenizer.ggml.model", "llama");
    refused(&g, "has no tokenizer.ggml.scores, so its merges are not known");
    g = start;
    gguf_note_text(&g, "tokenizer.ggml.model", "unheard");
    refused(&g, "tokenizer.ggml.model is none of gpt2, llama, bert");
    g = start;
    gguf_note_text(&g, "tokenizer.ggml.model", "gpt2");
    gguf_note_text(&g, "tokenizer.ggml.pre", "unheard");
    refused(&g, "tokenizer.ggml.pre is 'unheard', a way to cut words that is not known");
    g = start;
    gguf_note(&g, "general.alignment", GGUF_UINT32);
    gguf_put_u32(&g, 0);
    refused(&g, "general.alignment is no sensible number");
}

/* "a", "b" and "ab" with their scores; the first of them, and how many there are. */
static gguf_bytes with_scores(float first, uint64_t count) {
    gguf_bytes g = {.size = 0};
    gguf_note_text(&g, "tokenizer.ggml.model", "llama");
    gguf_note_list(&g, "tokenizer.ggml.tokens", GGUF_STRING, 3);
    gguf_put_text(&g, "a");
    gguf_put_text(&g, "b");
    gguf_put_text(&g, "ab");
    gguf_note_list(&g, "tokenizer.ggml.scores", GGUF_FLOAT32, count);
    for (uint64_t i = 0; i < count; i++) {
        const float score = i ? -(float)i : first;
        gguf_put(&g, &score, sizeof score);
    }
    return g;
}

/* Lists that do not say something of every token would leave out merges or special tokens
 * without a word, and a score that is NaN has no place in an order. */
static void test_lists(void **state) {
    (void)state;
    static const char scores[] = "tokenizer.ggml.scores is not one number for each token";
    static const char kinds[] =
        "tokenizer.ggml.token_type is not one number for each token";
    gguf_bytes g = with_scores(0, 3);
    lipsc_tokenizer *tokenizer = NULL;
    assert_int_equal(gguf_write(&g, "lists.gguf"), 0);
    assert_int_equal(lipsc_tokenizer_open("lists.gguf", &tokenizer, NULL), LIPSC_OK);
    lipsc_tokenizer_free(tokenizer);
    assert_int_equal(remove("lists.gguf"), 0);
    g = with_scores(NAN, 3);
    refused(&g, scores);
    g = with_scores(0, 2);
    refused(&g, scores);
    g = with_scores(0, 4);
    refused(&g, scores);
    g = with_scores(0, 4); /* the one too many is no number either */
    const float nan = NAN;
    memcpy(g.at + g.size - sizeof nan, &nan, sizeof nan);
    refused(&g, scores);
    g = with_scores(0, 3);
    gguf_note_list(&g, "tokenizer.ggml.token_type", GGUF_UINT32, 2);
    gguf_put_u32(&g, 1);
    gguf_put_u32(&g, 1);
    refused(&g, kinds);
    g = with_scores(0, 3);
    gguf_note_list(&g, "tokenizer.ggml.token_type", GGUF_STRING, 3);
    for (int i = 0; i < 3; i++) gguf_put_text(&g, "1");
    refused(&g, kinds);
    g = (gguf_bytes){.size = 0};
    gguf_note_text(&g, "tokenizer.ggml.model", "gpt2");
    gguf_note_text(&g, "tokenizer.ggml.pre", "gpt-2");
    gguf_note_list(&g, "tokenizer.ggml.tokens", GGUF_STRING, 1);
    gguf_put_text(&g, "a");
    gguf_note_list(&g, "tokenizer.ggml.merges", GGUF_UINT32, 1);
    gguf_put_u32(&g, 0);
    refused(&g, "tokenizer.ggml.merges is no list of texts");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),    cmocka_unit_test(test_special),
        cmocka_unit_test(test_absent), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
