/* test_words.c - the words of windows: what they read, and how a run file keeps them. */
#define _DEFAULT_SOURCE /* mkdtemp */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "folder.h"
#include "lipscope/study.h"
#include "run/words.h"

static char folder[] = "/tmp/lipscope-words-XXXXXX";

static const char *path_of(const char *name) {
    static char path[4][256];
    static int turn;
    char *to = path[turn++ % 4];
    snprintf(to, sizeof path[0], "%s/%s", folder, name);
    return to;
}

/* ---- What they read ------------------------------------------------------------------ */

/* The words of a window, joined, are the text: byte-level BPE, pieces that mark the space
 * before a word, word pieces. */
static void test_sentences(void **state) {
    (void)state;
    static const char *const kinds[] = {
        LIPSCOPE_SOURCE_DIR "/tests/data/tokenizers/llama3-kind",
        LIPSCOPE_SOURCE_DIR "/tests/data/tokenizers/llama2-kind",
        LIPSCOPE_SOURCE_DIR "/tests/data/models/bert-nano"};
    static const char text[] =
        "the light of the keeper was in the tower and the sea is near";
    for (size_t k = 0; k < 3; k++) {
        lipsc_source source = {.path = "the text"};
        lipsc_error err;
        char joined[1024] = "", *word;
        if (lipsc_tokenizer_open(kinds[k], &source.tokenizer, &err))
            fail_msg("%s", err.text);
        assert_int_equal(lipsc_tokenizer_encode(source.tokenizer, text, strlen(text), 0,
                                                &source.ids, &source.count, &err),
                         LIPSC_OK);
        for (size_t i = 0; i < source.count; i++) {
            assert_int_equal(lipsc_window_word(&source, 0, source.count, i, &word, &err),
                             LIPSC_OK);
            strncat(joined, word, sizeof joined - strlen(joined) - 1);
            lipsc_release(word);
        }
        assert_string_equal(joined, text);
        lipsc_source_free(&source);
    }
    lipsc_source none = {.path = "the ids"};
    lipsc_error err;
    char *word;
    assert_int_equal(lipsc_window_word(&none, 0, 1, 0, &word, &err), LIPSC_E_REFUSED);
}

/* ---- What a study keeps ------------------------------------------------------------- */

static const size_t lengths[] = {4, 8}, layers[] = {0};

static void study_to(const char *path, lipsc_study_settings *s) {
    lipsc_study *study;
    lipsc_error err;
    s->model = "random:gpt2:nano";
    s->lengths = (lipsc_sizes){2, lengths};
    s->layers = (lipsc_sizes){1, layers};
    s->window_count = 2;
    s->run_file = path;
    if (lipsc_study_open(s, &study, &err) || lipsc_study_run(study, &err))
        fail_msg("%s", err.text);
    lipsc_study_close(study);
}

/* Every window that a file has. */
static json_t *windows_of(const char *path) {
    lipsc_rows_file file;
    lipsc_error err;
    json_t *wanted = json_object(), *out;
    size_t left;
    assert_int_equal(lipsc_rows_file_open(path, &file, &err), LIPSC_OK);
    for (size_t i = 0; i < file.count; i++) {
        const lipsc_row *row = &file.rows[i];
        const lipsc_run_window at = {row->model_hash, row->text_hash, row->special,
                                     row->start};
        char key[LIPSC_WINDOW_KEY];
        lipsc_run_window_key(&at, key);
        json_object_set_new(wanted, key, json_true());
    }
    assert_int_equal(lipsc_run_words(path, wanted, 1000, &out, &left, &err), LIPSC_OK);
    assert_int_equal(left, 0);
    json_decref(wanted);
    lipsc_rows_file_close(&file);
    return out;
}

/* The longest window of each start, once: the text itself, from its beginning. */
static void test_text(void **state) {
    (void)state;
    lipsc_study_settings s;
    lipsc_study_defaults(&s);
    s.source.text = "builtin:lighthouse";
    s.details = 1;
    study_to(path_of("text.db"), &s);
    json_t *windows = windows_of(path_of("text.db")), *window, *word;
    char *bytes, joined[1024] = "";
    size_t size, w, i;
    assert_int_equal(json_array_size(windows), 2);
    json_array_foreach(windows, w, window) {
        assert_int_equal(json_array_size(json_object_get(window, "tokens")), 8);
        json_array_foreach(json_object_get(window, "tokens"), i, word)
            strncat(joined, json_string_value(word), sizeof joined - strlen(joined) - 1);
    }
    assert_int_equal(lipsc_bytes_read("builtin:lighthouse", &bytes, &size, NULL), LIPSC_OK);
    assert_memory_equal(joined, bytes, strlen(joined));
    assert_true(strlen(joined) > 16);
    lipsc_release(bytes);
    json_decref(windows);

    lipsc_rows_file file;
    assert_int_equal(lipsc_rows_file_open(path_of("text.db"), &file, NULL), LIPSC_OK);
    for (i = 0; i < file.count; i++)
        assert_int_equal(file.rows[i].influence.count, file.rows[i].n);
    lipsc_rows_file_close(&file);
}

/* Ids have words where the model has a tokenizer, else they stand for themselves. */
static void test_ids(void **state) {
    (void)state;
    static const uint32_t ids[] = {5, 9, 13, 2, 77, 5, 40, 8, 21, 34, 3, 17, 9, 9, 60, 11};
    lipsc_study_settings s;
    lipsc_study_defaults(&s);
    s.source.id_list = ids;
    s.source.id_count = sizeof ids / sizeof *ids;
    s.source.tokenizer = "no/such/tokenizer";
    study_to(path_of("ids.db"), &s);
    json_t *windows = windows_of(path_of("ids.db")), *word;
    size_t i;
    assert_int_equal(json_array_size(windows), 2);
    json_array_foreach(json_object_get(json_array_get(windows, 0), "tokens"), i, word)
        assert_int_equal(json_integer_value(word), ids[i]);
    json_decref(windows);
}

/* ---- The table ---------------------------------------------------------------------- */

static lipsc_run *begin(const char *path) {
    lipsc_run *run;
    lipsc_error err;
    if (lipsc_run_begin(path, "measure", NULL, "{\"seed\": 1}", &run, &err))
        fail_msg("%s", err.text);
    return run;
}

static json_t *ask(const char *path, size_t most, size_t *left) {
    json_t *wanted = json_pack("{s:b, s:b}", "m t 0 0", 1, "m t 0 8", 1), *out;
    assert_int_equal(lipsc_run_words(path, wanted, most, &out, left, NULL), LIPSC_OK);
    json_decref(wanted);
    return out;
}

static void put(lipsc_run *run, size_t start, const char *list) {
    const lipsc_run_window at = {"m", "t", 0, start};
    json_t *tokens = json_loads(list, 0, NULL);
    assert_int_equal(
        lipsc_run_put_words(run, &at, json_array_size(tokens), 0, tokens, NULL), LIPSC_OK);
    json_decref(tokens);
}

/* Longer windows replace shorter ones of the same start and never the other way round. */
static void test_longest(void **state) {
    (void)state;
    const lipsc_run_window at = {"m", "t", 0, 0};
    const char *path = path_of("longest.db");
    lipsc_run *run = begin(path);
    int there;
    size_t left;
    assert_int_equal(lipsc_run_has_words(run, &at, 1, &there, NULL), LIPSC_OK);
    assert_false(there);
    put(run, 0, "[\"a\", \" b\", \" c\"]");
    put(run, 0, "[\"a\"]");
    put(run, 8, "[\"x\", 7]");
    assert_int_equal(lipsc_run_has_words(run, &at, 3, &there, NULL), LIPSC_OK);
    assert_true(there);
    assert_int_equal(lipsc_run_has_words(run, &at, 4, &there, NULL), LIPSC_OK);
    assert_false(there);
    lipsc_run_close(run);
    json_t *all = ask(path, 5, &left);
    assert_int_equal(json_array_size(all), 2);
    assert_int_equal(json_array_size(json_object_get(json_array_get(all, 0), "tokens")), 3);
    assert_int_equal(left, 0);
    json_decref(all);
    all = ask(path, 4, &left); /* room for one */
    assert_int_equal(json_array_size(all), 1);
    assert_int_equal(left, 1);
    json_decref(all);
}

/* A file without the table has no words; a list that is none is left out. */
static void test_absent_and_wrong(void **state) {
    (void)state;
    static const char *const wrong[] = {"[\"a\"", "{}", "[\"a\", \"b\", \"c\"]",
                                        "[\"a\", null]", "[\"a\", [1]]"};
    const char *path = path_of("absent.db");
    size_t left;
    lipsc_run_close(begin(path));
    json_t *all = ask(path, 100, &left);
    assert_int_equal(json_array_size(all), 0);
    json_decref(all);
    lipsc_run *run = begin(path);
    put(run, 0, "[\"a\", \"b\"]");
    lipsc_run_close(run);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sqlite3 *db;
        char *sql = sqlite3_mprintf("UPDATE windows SET tokens = %Q", wrong[i]);
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
        sqlite3_free(sql);
        sqlite3_close(db);
        all = ask(path, 100, &left);
        assert_int_equal(json_array_size(all), 0);
        json_decref(all);
    }
}

/* The parts of a sweep bring their words along. */
static void test_merge(void **state) {
    (void)state;
    const char *const paths[] = {path_of("one.db"), path_of("two.db")};
    const char *out = path_of("both.db");
    lipsc_merged merged;
    size_t left;
    for (size_t i = 0; i < 2; i++) {
        lipsc_run *run = begin(paths[i]);
        put(run, 8 * i, i ? "[\"x\", \"y\"]" : "[\"a\", \"b\", \"c\"]");
        if (i) put(run, 0, "[\"a\"]");
        lipsc_run_close(run);
    }
    assert_int_equal(lipsc_run_merge(2, paths, out, NULL, &merged, NULL), LIPSC_OK);
    json_t *all = ask(out, 100, &left);
    assert_int_equal(json_array_size(all), 2);
    assert_int_equal(json_array_size(json_object_get(json_array_get(all, 0), "tokens")), 3);
    json_decref(all);
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int drop_folder(void **state) {
    (void)state;
    return folder_drop(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sentences), cmocka_unit_test(test_text),
        cmocka_unit_test(test_ids),       cmocka_unit_test(test_longest),
        cmocka_unit_test(test_merge),     cmocka_unit_test(test_absent_and_wrong),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
