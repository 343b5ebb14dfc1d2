/* test_no_memory_json.c - every allocation of jansson fails in turn: what reads JSON says
 * that memory ran out, or gives what it always gives; nothing is called wrong or left out.
 */
#define _DEFAULT_SOURCE /* mkdtemp */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "folder.h"
#include "gguf_bytes.h"
#include "lipscope.h"
#include "model/config.h"
#include "run/words.h"

static char folder[] = "/tmp/lipscope-json-XXXXXX";
static long left; /* allocations before the one that fails; negative: none fails */

static void *scarce(size_t size) {
    if (left-- != 0) return malloc(size);
    errno = ENOMEM;
    return NULL;
}

static const char *path_of(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

typedef lipsc_status call(char *answer, size_t room, lipsc_error *err);

/* Whole first, then without the k-th until there are no more. */
static void sweep(call *made) {
    char wanted[2000] = "", answer[2000];
    lipsc_error err;
    long k = 0, refused = 0;
    left = -1;
    assert_int_equal(made(wanted, sizeof wanted, &err), LIPSC_OK);
    for (int done = 0; !done; k++) {
        memset(&err, 0, sizeof err);
        answer[0] = '\0';
        left = k;
        const lipsc_status status = made(answer, sizeof answer, &err);
        done = left >= 0;
        left = -1;
        if (!status) assert_string_equal(answer, wanted);
        if (status && status != LIPSC_E_NOMEM) fail_msg("k = %ld: %s", k, err.text);
        refused += status == LIPSC_E_NOMEM;
    }
    assert_true(refused > 0 && k > refused);
}

/* ---- Words of windows --------------------------------------------------------------- */

static json_t *wanted_windows;

static lipsc_status words(char *answer, size_t room, lipsc_error *err) {
    json_t *out;
    size_t without;
    const lipsc_status status =
        lipsc_run_words(path_of("words.db"), wanted_windows, 100, &out, &without, err);
    const long rest = left; /* what follows is the test's own */
    left = -1;
    char *text = status ? NULL : json_dumps(out, JSON_SORT_KEYS);
    if (text) snprintf(answer, room, "%s, %zu left out", text, without);
    free(text);
    json_decref(status ? NULL : out);
    left = rest;
    return status;
}

static void test_words(void **state) {
    (void)state;
    const lipsc_run_window at = {"m", "t", 0, 0};
    lipsc_run *run = NULL;
    assert_int_equal(
        lipsc_run_begin(path_of("words.db"), "measure", NULL, "{\"seed\": 1}", &run, NULL),
        LIPSC_OK);
    json_t *tokens = json_pack("[s, s, i]", "a", " word of more than sixteen letters", 7);
    assert_int_equal(lipsc_run_put_words(run, &at, 3, 0, tokens, NULL), LIPSC_OK);
    json_decref(tokens);
    lipsc_run_close(run);
    wanted_windows = json_pack("{s:b}", "m t 0 0", 1);
    sweep(words);
    json_decref(wanted_windows);
}

/* ---- The part of a model ------------------------------------------------------------ */

static lipsc_status part(char *answer, size_t room, lipsc_error *err) {
    static const char json[] =
        "{\"model_type\":\"gemma3\",\"text_config\":{\"hidden_size\":8,"
        "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"num_key_value_heads\":1,"
        "\"head_dim\":4,\"intermediate_size\":16,\"vocab_size\":11,"
        "\"query_pre_attn_scalar\":4}}";
    lipsc_config config;
    const lipsc_status status =
        lipsc_config_parse(json, sizeof json - 1, "it", LIPSC_PART_TEXT, &config, err);
    if (status) return status;
    snprintf(answer, room, "%zu %zu %zu %zu %g", config.d, config.layers, config.heads,
             config.vocab, config.scale);
    lipsc_config_free(&config);
    return LIPSC_OK;
}

static void test_part(void **state) {
    (void)state;
    sweep(part);
}

/* ---- The tokenizer of a GGUF file --------------------------------------------------- */

static lipsc_status gguf_words(char *answer, size_t room, lipsc_error *err) {
    lipsc_tokenizer *tokenizer = NULL;
    uint32_t *ids = NULL;
    size_t count = 0, used = 0;
    lipsc_status status = lipsc_tokenizer_open(path_of("words.gguf"), &tokenizer, err);
    if (!status)
        status = lipsc_tokenizer_encode(tokenizer, "abba", 4, 0, &ids, &count, err);
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(answer + used, room - used, " %lu", (unsigned long)ids[i]);
    lipsc_release(ids);
    lipsc_tokenizer_free(tokenizer);
    return status;
}

static void test_gguf_words(void **state) {
    (void)state;
    gguf_bytes g = {.size = 0};
    gguf_note_text(&g, "tokenizer.ggml.model", "llama");
    gguf_note_list(&g, "tokenizer.ggml.tokens", GGUF_STRING, 4);
    gguf_put_text(&g, "<unk>"), gguf_put_text(&g, "a"), gguf_put_text(&g, "b");
    gguf_put_text(&g, "ab");
    gguf_note_list(&g, "tokenizer.ggml.scores", GGUF_FLOAT32, 4);
    for (size_t i = 0; i < 4; i++) {
        const float score = -(float)i;
        gguf_put(&g, &score, 4);
    }
    assert_int_equal(gguf_write(&g, path_of("words.gguf")), 0);
    sweep(gguf_words);
}

/* ---- Settings of a run -------------------------------------------------------------- */

static lipsc_status settings(char *answer, size_t room, lipsc_error *err) {
    lipsc_run *run = NULL;
    remove(path_of("settings.db"));
    const lipsc_status status = lipsc_run_begin(
        path_of("settings.db"), "measure", NULL,
        "{\"seed\": 1, \"text\": \"more than sixteen letters\", \"tol\": 0.5}", &run, err);
    const long rest = left;
    left = -1;
    lipsc_rows_file file;
    if (!status && !lipsc_rows_file_open(path_of("settings.db"), &file, NULL)) {
        snprintf(answer, room, "%s", file.settings);
        lipsc_rows_file_close(&file);
    }
    lipsc_run_close(run);
    left = rest;
    return status;
}

static void test_settings(void **state) {
    (void)state;
    sweep(settings);
}

static int begin(void **state) {
    (void)state;
    left = -1;
    json_set_alloc_funcs(scarce, free);
    return mkdtemp(folder) ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    return folder_drop(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_part),
        cmocka_unit_test(test_gguf_words),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
