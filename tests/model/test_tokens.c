/* test_tokens.c - tokenizers of four kinds against Hugging Face tokenizers. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp, symlink */
#include "token_files.h"

#define ANSWERS LIPSC_TEST_DATA "/references/tokens.json"
#define NANO    LIPSC_DATA_DIR "/gpt2-nano"
#define BERT    LIPSC_TEST_DATA "/models/bert-nano"

static void test_tokenizer_json(void **state) {
    (void)state;
    check_strings(ANSWERS, NANO, "gpt2-nano");
    check_strings(ANSWERS, BERT, "bert-nano");
    check_strings(ANSWERS, LIPSC_TEST_DATA "/tokenizers/llama2-kind", "llama2-kind");
    check_strings(ANSWERS, LIPSC_TEST_DATA "/tokenizers/llama3-kind", "llama3-kind");
}

static void test_older_files(void **state) {
    (void)state;
    static const char *const bpe[] = {"vocab.json", "merges.txt", NULL};
    static const char *const wordpiece[] = {"vocab.txt", "tokenizer_config.json", NULL};
    check_older_files(ANSWERS, NANO, bpe, "gpt2-nano");
    check_older_files(ANSWERS, BERT, wordpiece, "bert-nano");
}

/* The first ids of a whole text. */
static void test_text(void **state) {
    (void)state;
    static const char *const models[][2] = {
        {NANO, LIPSC_TEST_DATA "/references/gpt2-nano.json"},
        {BERT, LIPSC_TEST_DATA "/references/bert-nano.json"}};
    for (size_t i = 0; i < 2; i++) {
        lipsc_mapfile map;
        json_t *root = json_load_file(models[i][1], 0, NULL);
        json_t *ids = json_object_get(root, "ids");
        lipsc_tokenizer *tokenizer = opened(models[i][0]);
        assert_int_equal(
            lipsc_mapfile_open(LIPSC_DATA_DIR "/text/lighthouse.txt", &map, NULL),
            LIPSC_OK);
        assert_true(json_array_size(ids) > 0);
        check_ids(tokenizer, (const char *)map.data, map.size, 0, ids, 0);
        lipsc_mapfile_close(&map);
        lipsc_tokenizer_free(tokenizer);
        json_decref(root);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokenizer_json),
        cmocka_unit_test(test_older_files),
        cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests_name("tokens", tests, NULL, NULL);
}
