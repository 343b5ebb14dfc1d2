/* test_tokens.c - real tokenizers against tokens.json, ids and texts by Hugging Face
 * tokenizers, and against the first ids of alice29.txt in the reference files. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp, symlink */
#include "../model/token_files.h"

#define MODELS     LIPSC_SHARED_DIR "/models/"
#define REFERENCES LIPSC_SHARED_DIR "/references/"

static void need(const char *path) {
    if (access(path, R_OK) == 0) return;
    print_message("skipped: no %s\n", path);
    skip();
}

static void test_tokens_json(void **state) {
    (void)state;
    static const char *const names[][2] = {
        {MODELS "gpt2-tokenizer", "gpt2"},
        {MODELS "all-MiniLM-L6-v2", "minilm"},
        {MODELS "gpt2-nano", "gpt2-nano"},
        {MODELS "tokenizer-llama2-kind", "llama2-kind"},
        {MODELS "tokenizer-llama3-kind", "llama3-kind"},
    };
    need(REFERENCES "tokens.json");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        need(names[i][0]);
        check_strings(REFERENCES "tokens.json", names[i][0], names[i][1]);
    }
}

static void test_older_files(void **state) {
    (void)state;
    static const char *const bpe[] = {"vocab.json", "merges.txt", NULL};
    static const char *const wordpiece[] = {"vocab.txt", "tokenizer_config.json", NULL};
    need(MODELS "gpt2-tokenizer/merges.txt");
    need(MODELS "gpt2-nano/merges.txt");
    need(MODELS "all-MiniLM-L6-v2/vocab.txt");
    check_older_files(REFERENCES "tokens.json", MODELS "gpt2-tokenizer", bpe, "gpt2");
    check_older_files(REFERENCES "tokens.json", MODELS "gpt2-nano", bpe, "gpt2-nano");
    check_older_files(REFERENCES "tokens.json", MODELS "all-MiniLM-L6-v2", wordpiece,
                      "minilm");
}

static void test_alice(void **state) {
    (void)state;
    static const char *const names[] = {"gpt2-nano", "all-MiniLM-L6-v2"};
    const char *text = LIPSC_SHARED_DIR "/texts/alice29.txt";
    need(text);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[1024];
        lipsc_mapfile map;
        snprintf(path, sizeof path, "%s%s.json", REFERENCES, names[i]);
        need(path);
        json_t *root = json_load_file(path, 0, NULL);
        snprintf(path, sizeof path, "%s%s", MODELS, names[i]);
        lipsc_tokenizer *tokenizer = opened(path);
        assert_int_equal(lipsc_mapfile_open(text, &map, NULL), LIPSC_OK);
        assert_true(json_array_size(json_object_get(root, "ids")) > 0);
        check_ids(tokenizer, (const char *)map.data, map.size, 0,
                  json_object_get(root, "ids"), 0);
        lipsc_mapfile_close(&map);
        lipsc_tokenizer_free(tokenizer);
        json_decref(root);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens_json),
        cmocka_unit_test(test_older_files),
        cmocka_unit_test(test_alice),
    };
    return cmocka_run_group_tests_name("tokens", tests, NULL, NULL);
}
