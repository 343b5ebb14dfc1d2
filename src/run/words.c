/* words.c - the table of windows in a run file: texts of tokens. */
#include "run/words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/json.h"
#include "run/file.h"

/* ---- Writing ----------------------------------------------------------------------- */

static const char find_sql[] = "SELECT n FROM windows WHERE model_hash = ? AND "
                               "text_hash = ? AND special = ? AND start = ?";
static const char put_sql[] =
    "INSERT INTO windows (model_hash, text_hash, special, start, n, after, tokens) "
    "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (model_hash, text_hash, special, "
    "start) DO UPDATE SET n = excluded.n, "
    "after = excluded.after, tokens = excluded.tokens WHERE excluded.n > n";

/* The table, which files from before it lack, and what is asked of it often. */
static lipsc_status prepare(lipsc_run *run, lipsc_error *err) {
    if (run->find_words && run->put_words) return LIPSC_OK;
    lipsc_status status = lipsc_run_execute(
        run,
        "CREATE TABLE IF NOT EXISTS windows (model_hash TEXT NOT NULL, text_hash TEXT NOT "
        "NULL, special INTEGER NOT NULL, start INTEGER NOT NULL, n INTEGER NOT NULL, after "
        "INTEGER NOT NULL, tokens TEXT NOT NULL, PRIMARY KEY (model_hash, text_hash, "
        "special, start)) WITHOUT ROWID",
        "store a cell", err);
    if (!status && !run->find_words)
        status = lipsc_run_prepare(run, find_sql, &run->find_words, err);
    if (!status && !run->put_words)
        status = lipsc_run_prepare(run, put_sql, &run->put_words, err);
    return status;
}

/* 0, or what SQLite says. */
static int bind_window(sqlite3_stmt *statement, const lipsc_run_window *at) {
    int bad = sqlite3_bind_text(statement, 1, at->model_hash, -1, SQLITE_STATIC);
    if (!bad) bad = sqlite3_bind_text(statement, 2, at->text_hash, -1, SQLITE_STATIC);
    if (!bad) bad = sqlite3_bind_int(statement, 3, at->special != 0);
    return bad ? bad : sqlite3_bind_int64(statement, 4, (sqlite3_int64)at->start);
}

static void reset(sqlite3_stmt *statement) {
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
}

lipsc_status lipsc_run_has_words(lipsc_run *run, const lipsc_run_window *at, size_t n,
                                 int *there, lipsc_error *err) {
    lipsc_status status = prepare(run, err);
    if (status) return status;
    const int bad = bind_window(run->find_words, at);
    const int step = bad ? bad : sqlite3_step(run->find_words);
    *there =
        step == SQLITE_ROW && sqlite3_column_int64(run->find_words, 0) >= (sqlite3_int64)n;
    if (step != SQLITE_ROW && step != SQLITE_DONE)
        status = lipsc_run_fail(run, "read", err);
    reset(run->find_words);
    return status;
}

lipsc_status lipsc_run_put_words(lipsc_run *run, const lipsc_run_window *at, size_t n,
                                 size_t after, const json_t *tokens, lipsc_error *err) {
    lipsc_status status = prepare(run, err);
    if (status) return status;
    char *text = lipsc_json_dumps(tokens, JSON_COMPACT);
    if (!text) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for words");
    int bad = bind_window(run->put_words, at);
    if (!bad) bad = sqlite3_bind_int64(run->put_words, 5, (sqlite3_int64)n);
    if (!bad) bad = sqlite3_bind_int64(run->put_words, 6, (sqlite3_int64)after);
    if (!bad) bad = sqlite3_bind_text(run->put_words, 7, text, -1, SQLITE_STATIC);
    errno = 0;
    if (bad || sqlite3_step(run->put_words) != SQLITE_DONE)
        status = lipsc_run_fail(run, "store a cell", err);
    reset(run->put_words);
    free(text);
    return status;
}

/* ---- Reading ----------------------------------------------------------------------- */

static lipsc_status has_table(lipsc_run *run, int *there, lipsc_error *err) {
    sqlite3_stmt *statement = NULL;
    const lipsc_status status = lipsc_run_prepare(
        run, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'windows'",
        &statement, err);
    if (status) return status;
    const int step = sqlite3_step(statement);
    *there = step == SQLITE_ROW;
    sqlite3_finalize(statement);
    return step == SQLITE_ROW || step == SQLITE_DONE ? LIPSC_OK
                                                     : lipsc_run_fail(run, "read", err);
}

static lipsc_status copy_all(lipsc_run *to, lipsc_run *from, sqlite3_stmt *rows,
                             lipsc_error *err) {
    int step;
    while ((step = sqlite3_step(rows)) == SQLITE_ROW) {
        int bad = SQLITE_OK;
        for (int c = 0; c < 7 && !bad; c++)
            bad = sqlite3_bind_value(to->put_words, c + 1, sqlite3_column_value(rows, c));
        if (!bad) bad = sqlite3_step(to->put_words);
        reset(to->put_words);
        if (bad != SQLITE_DONE) return lipsc_run_fail(to, "store a cell", err);
    }
    return step == SQLITE_DONE ? LIPSC_OK : lipsc_run_fail(from, "read", err);
}

lipsc_status lipsc_run_copy_words(lipsc_run *to, lipsc_run *from, lipsc_error *err) {
    sqlite3_stmt *rows = NULL;
    int there = 0;
    lipsc_status status = has_table(from, &there, err);
    if (status || !there) return status;
    status = prepare(to, err);
    if (!status)
        status =
            lipsc_run_prepare(from,
                              "SELECT model_hash, text_hash, special, start, n, after, "
                              "tokens FROM windows",
                              &rows, err);
    if (!status) status = copy_all(to, from, rows, err);
    sqlite3_finalize(rows);
    return status;
}

void lipsc_run_window_key(const lipsc_run_window *at, char key[LIPSC_WINDOW_KEY]) {
    snprintf(key, LIPSC_WINDOW_KEY, "%.64s %.64s %d %zu", at->model_hash, at->text_hash,
             at->special != 0, at->start);
}

/* A list of texts and whole numbers, or NULL: words are no reason to refuse a page. */
static json_t *read_tokens(const char *text, size_t n, int *memory) {
    json_t *list = text ? lipsc_json_load(text, strlen(text), 0, NULL, memory) : NULL;
    json_t *item;
    size_t i;
    int good = json_is_array(list) && json_array_size(list) == n;
    json_array_foreach(list, i, item) good &= json_is_string(item) || json_is_integer(item);
    if (good) return list;
    json_decref(list);
    return NULL;
}

/* Adds the window at which the statement stands, where it is wanted and there is room. */
static lipsc_status add_window(sqlite3_stmt *rows, const json_t *wanted, size_t *room,
                               json_t *out, size_t *left, lipsc_error *err) {
    const lipsc_run_window at = {.model_hash = (const char *)sqlite3_column_text(rows, 0),
                                 .text_hash = (const char *)sqlite3_column_text(rows, 1),
                                 .special = sqlite3_column_int(rows, 2),
                                 .start = (size_t)sqlite3_column_int64(rows, 3)};
    const sqlite3_int64 n = sqlite3_column_int64(rows, 4),
                        after = sqlite3_column_int64(rows, 5);
    char key[LIPSC_WINDOW_KEY];
    if (!at.model_hash || !at.text_hash || n < 1 || after < 0 || after > n) return LIPSC_OK;
    lipsc_run_window_key(&at, key);
    if (!json_object_get(wanted, key)) return LIPSC_OK;
    if ((size_t)n > *room) {
        ++*left;
        return LIPSC_OK;
    }
    int memory = 0;
    json_t *tokens =
        read_tokens((const char *)sqlite3_column_text(rows, 6), (size_t)n, &memory);
    if (memory) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for words");
    if (!tokens) return LIPSC_OK;
    *room -= (size_t)n;
    json_t *one =
        json_pack("{s:s, s:s, s:b, s:I, s:I, s:o}", "model_hash", at.model_hash,
                  "text_hash", at.text_hash, "special", at.special, "start",
                  (json_int_t)at.start, "after", (json_int_t)after, "tokens", tokens);
    return one && !json_array_append_new(out, one)
               ? LIPSC_OK
               : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for words");
}

lipsc_status lipsc_run_words(const char *path, const json_t *wanted, size_t most,
                             json_t **out, size_t *left, lipsc_error *err) {
    lipsc_error own;
    sqlite3_stmt *rows = NULL;
    int there = 0, step = SQLITE_DONE;
    if (!err) err = &own;
    *left = 0;
    *out = json_array();
    lipsc_run *run = lipsc_run_look(path, err);
    lipsc_status status = !run ? err->code : has_table(run, &there, err);
    if (!status && there)
        status =
            lipsc_run_prepare(run,
                              "SELECT model_hash, text_hash, special, start, n, after, "
                              "tokens FROM windows ORDER BY start",
                              &rows, err);
    while (!status && rows && (step = sqlite3_step(rows)) == SQLITE_ROW)
        status = add_window(rows, wanted, &most, *out, left, err);
    if (!status && step != SQLITE_DONE) status = lipsc_run_fail(run, "read", err);
    sqlite3_finalize(rows);
    lipsc_run_close(run);
    if (!status && *out) return LIPSC_OK;
    json_decref(*out);
    *out = NULL;
    return status ? status : lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", path);
}
