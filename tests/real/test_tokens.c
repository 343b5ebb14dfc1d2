/* test_tokens.c - real tokenizers against tokens.json, ids and texts by Hugging Face
 * tokenizers, and against the first ids of alice29.txt in the reference files. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp, symlink */
#include "core/mem.h"
#include "io/mapfile.h"
#include "token/token.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define MODELS     LIPSC_SHARED_DIR "/models/"
#define REFERENCES LIPSC_SHARED_DIR "/references/"

static void need(const char *path) {
    if (access(path, R_OK) == 0) return;
    print_message("skipped: no %s\n", path);
    skip();
}

static lipsc_tokenizer *opened(const char *dir) {
    lipsc_tokenizer *tokenizer = NULL;
    lipsc_error err = {0};
    if (lipsc_tokenizer_open(dir, &tokenizer, &err)) fail_msg("%s", err.text);
    return tokenizer;
}

/* want: a list of ids, all of them or only the first. */
static void check_ids(lipsc_tokenizer *tokenizer, const char *text, size_t size,
                      int special, json_t *want, int all) {
    uint32_t *ids;
    size_t count;
    lipsc_error err = {0};
    if (lipsc_tokenizer_encode(tokenizer, text, size, special, &ids, &count, &err))
        fail_msg("%s", err.text);
    if (all) assert_int_equal(count, json_array_size(want));
    assert_true(count >= json_array_size(want));
    for (size_t i = 0; i < json_array_size(want); i++)
        assert_int_equal(ids[i], json_integer_value(json_array_get(want, i)));
    lipsc_release(ids);
}

static void check_text(const lipsc_tokenizer *tokenizer, json_t *ids, json_t *want) {
    const size_t count = json_array_size(ids);
    uint32_t *list = lipsc_alloc(count, sizeof *list);
    char *text;
    size_t size;
    assert_non_null(list);
    for (size_t i = 0; i < count; i++)
        list[i] = (uint32_t)json_integer_value(json_array_get(ids, i));
    assert_int_equal(lipsc_tokenizer_decode(tokenizer, list, count, 0, &text, &size, NULL),
                     LIPSC_OK);
    assert_int_equal(size, json_string_length(want));
    assert_memory_equal(text, json_string_value(want), size);
    lipsc_release(text);
    lipsc_release(list);
}

/* All strings of tokens.json under one of its names. */
static void check_strings(const char *dir, const char *name) {
    json_t *root = json_load_file(REFERENCES "tokens.json", 0, NULL);
    json_t *strings = json_object_get(root, "strings"),
           *answers = json_object_get(root, name);
    json_t *ids = json_object_get(answers, "ids");
    json_t *special = json_object_get(answers, "ids_with_special");
    json_t *decoded = json_object_get(answers, "decoded"), *string;
    lipsc_tokenizer *tokenizer = opened(dir);
    size_t i;
    assert_true(json_array_size(strings) > 0);
    assert_int_equal(json_array_size(ids), json_array_size(strings));
    json_array_foreach(strings, i, string) {
        const char *text = json_string_value(string);
        const size_t size = json_string_length(string);
        check_ids(tokenizer, text, size, 0, json_array_get(ids, i), 1);
        check_ids(tokenizer, text, size, 1, json_array_get(special, i), 1);
        if (decoded)
            check_text(tokenizer, json_array_get(ids, i), json_array_get(decoded, i));
    }
    lipsc_tokenizer_free(tokenizer);
    json_decref(root);
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
        check_strings(names[i][0], names[i][1]);
    }
}

/* The same answers from a folder that has only the older files. */
static void check_older_files(const char *model, const char *const *files,
                              const char *name) {
    char dir[] = "/tmp/lipscope-tokens-XXXXXX", from[1024], to[1024];
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; files[i]; i++) {
        snprintf(from, sizeof from, "%s/%s", model, files[i]);
        snprintf(to, sizeof to, "%s/%s", dir, files[i]);
        assert_int_equal(symlink(from, to), 0);
    }
    check_strings(dir, name);
    for (size_t i = 0; files[i]; i++) {
        snprintf(to, sizeof to, "%s/%s", dir, files[i]);
        unlink(to);
    }
    rmdir(dir);
}

static void test_older_files(void **state) {
    (void)state;
    static const char *const bpe[] = {"vocab.json", "merges.txt", NULL};
    static const char *const wordpiece[] = {"vocab.txt", "tokenizer_config.json", NULL};
    need(MODELS "gpt2-tokenizer/merges.txt");
    need(MODELS "gpt2-nano/merges.txt");
    need(MODELS "all-MiniLM-L6-v2/vocab.txt");
    check_older_files(MODELS "gpt2-tokenizer", bpe, "gpt2");
    check_older_files(MODELS "gpt2-nano", bpe, "gpt2-nano");
    check_older_files(MODELS "all-MiniLM-L6-v2", wordpiece, "minilm");
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
