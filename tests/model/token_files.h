/* token_files.h - a tokenizer's files against a file of answers: ids and texts by Hugging
 * Face tokenizers. */
#ifndef LIPSC_TESTS_TOKEN_FILES_H
#define LIPSC_TESTS_TOKEN_FILES_H

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

static inline lipsc_tokenizer *opened(const char *dir) {
    lipsc_tokenizer *tokenizer = NULL;
    lipsc_error err = {0};
    if (lipsc_tokenizer_open(dir, &tokenizer, &err)) fail_msg("%s", err.text);
    return tokenizer;
}

/* want: a list of ids, all of them or only the first. */
static inline void check_ids(lipsc_tokenizer *tokenizer, const char *text, size_t size,
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

static inline void check_text(const lipsc_tokenizer *tokenizer, json_t *ids, json_t *want) {
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

/* All strings of the file of answers under one of its names. */
static inline void check_strings(const char *answers_file, const char *dir,
                                 const char *name) {
    json_t *root = json_load_file(answers_file, 0, NULL);
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

/* The same answers from a folder that has only the older files. */
static inline void check_older_files(const char *answers_file, const char *model,
                                     const char *const *files, const char *name) {
    char dir[] = "/tmp/lipscope-tokens-XXXXXX", from[1024], to[1024];
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; files[i]; i++) {
        snprintf(from, sizeof from, "%s/%s", model, files[i]);
        snprintf(to, sizeof to, "%s/%s", dir, files[i]);
        assert_int_equal(symlink(from, to), 0);
    }
    check_strings(answers_file, dir, name);
    for (size_t i = 0; files[i]; i++) {
        snprintf(to, sizeof to, "%s/%s", dir, files[i]);
        unlink(to);
    }
    rmdir(dir);
}

#endif
