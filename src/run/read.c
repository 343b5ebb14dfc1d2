/* read.c - a run file that is only looked at: no lock is taken, another process may write.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/json.h"
#include "row/field.h"
#include "run/file.h"

static json_t *column_text(sqlite3_stmt *statement, int at) {
    return lipsc_json_text((const char *)sqlite3_column_text(statement, at));
}

/* Only the command line may be absent. */
static lipsc_status check_head(const lipsc_run *run, const json_t *head, lipsc_error *err) {
    static const char *const needed[] = {"version", "created", "command"};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!json_is_string(json_object_get(head, needed[i])))
            return lipsc_fail(err, LIPSC_E_FORMAT, "%s: not a run file (it has no %s)",
                              run->path, needed[i]);
    if (!json_is_object(json_object_get(head, "settings")))
        return lipsc_fail(err, LIPSC_E_FORMAT, "%s: its settings cannot be read",
                          run->path);
    return LIPSC_OK;
}

lipsc_status lipsc_run_head(lipsc_run *run, json_t **head, lipsc_error *err) {
    static const char *const texts[] = {"version", "created", "command", "command_line"};
    sqlite3_stmt *statement = NULL;
    lipsc_status status = lipsc_run_prepare(
        run, "SELECT version, created, command, command_line, settings, schema FROM run",
        &statement, err);
    if (!status && sqlite3_step(statement) != SQLITE_ROW)
        status = lipsc_fail(err, LIPSC_E_FORMAT, "%s: not a run file (table run is empty)",
                            run->path);
    if (!status) {
        const char *text = (const char *)sqlite3_column_text(statement, 4);
        int bad;
        json_t *settings = lipsc_json_object(text, &bad);
        *head = json_object();
        for (int i = 0; i < 4; i++)
            bad |= json_object_set_new(*head, texts[i], column_text(statement, i));
        bad |= json_object_set_new(*head, "settings", settings ? settings : json_null());
        bad |= json_object_set_new(*head, "schema",
                                   json_integer(sqlite3_column_int64(statement, 5)));
        status = bad || sqlite3_errcode(run->db) == SQLITE_NOMEM
                     ? lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", run->path)
                     : check_head(run, *head, err);
        if (status) json_decref(*head);
        if (status) *head = NULL;
    }
    sqlite3_finalize(statement);
    return status;
}

/* The rows of the windows 0, every, 2 every...; what has no window is kept. */
static lipsc_status read_rows(lipsc_run *run, size_t every, json_t **rows,
                              lipsc_error *err) {
    sqlite3_stmt *statement = NULL;
    int step = SQLITE_DONE;
    lipsc_status status = lipsc_run_prepare(
        run,
        every > 1 ? "SELECT row, key FROM cells WHERE coalesce("
                    "json_extract(row, '$.window'), 0) % ? = 0 ORDER BY key"
                  : "SELECT row, key FROM cells ORDER BY key",
        &statement, err);
    if (!status && every > 1 && sqlite3_bind_int64(statement, 1, (sqlite3_int64)every))
        status = lipsc_run_fail(run, "read", err);
    *rows = json_array();
    while (!status && (step = sqlite3_step(statement)) == SQLITE_ROW) {
        const unsigned char *text = sqlite3_column_text(statement, 0);
        json_t *row;
        status = lipsc_run_cell(run, (const char *)sqlite3_column_text(statement, 1), text,
                                &row, err);
        if (!status && json_array_append_new(*rows, row))
            status = lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", run->path);
    }
    if (!status && step != SQLITE_DONE) status = lipsc_run_fail(run, "read", err);
    sqlite3_finalize(statement);
    return status;
}

/* Whether the file PATH-wal is there: cells that are not yet in the database itself. */
static int has_log(const char *path) {
    char *name = sqlite3_mprintf("%s-wal", path);
    const int there = name && !access(name, F_OK);
    sqlite3_free(name);
    return there;
}

/* Opened for writing although nothing is written: as the last one out SQLite then takes
 * its own files beside the run away again.  In a folder that may not be written it needs
 * to hear that nobody else does either. */
static lipsc_status open_reader(lipsc_run *run, lipsc_error *err) {
    int fresh = 0;
    lipsc_status status = lipsc_run_connect(run, SQLITE_OPEN_READWRITE, err);
    if (!status)
        status =
            lipsc_run_execute(run, "BEGIN", "read", err); /* head and rows of one moment */
    if (!status) status = lipsc_run_recognise(run, &fresh, err);
    if (status == LIPSC_E_IO && !access(run->path, R_OK) && !has_log(run->path)) {
        sqlite3_close(run->db);
        run->db = NULL;
        status = lipsc_run_connect(run, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, err);
        if (!status) status = lipsc_run_recognise(run, &fresh, err);
    }
    if (!status && fresh)
        status =
            lipsc_fail(err, LIPSC_E_FORMAT, "%s: not a run file (it is empty)", run->path);
    return status;
}

lipsc_run *lipsc_run_look(const char *path, lipsc_error *err) {
    lipsc_run *run = lipsc_run_handle(path);
    if (!run) {
        lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", path);
        return NULL;
    }
    if (!open_reader(run, err)) return run;
    lipsc_run_close(run);
    return NULL;
}

/* *every, and what the head says of it. */
static lipsc_status choose(lipsc_run *run, size_t most, json_t *head, size_t *every,
                           lipsc_error *err) {
    size_t count = 0;
    *every = 1;
    if (most == SIZE_MAX) return LIPSC_OK;
    const lipsc_status status = lipsc_run_count(run, &count, err);
    if (status || count <= most) return status;
    *every = (count + most - 1) / most;
    if (!json_object_set_new(head, "cells", json_integer((json_int_t)count)) &&
        !json_object_set_new(head, "every", json_integer((json_int_t)*every)))
        return LIPSC_OK;
    return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", run->path);
}

lipsc_status lipsc_run_read(const char *path, json_t **head, json_t **rows,
                            lipsc_error *err) {
    return lipsc_run_read_some(path, SIZE_MAX, head, rows, err);
}

lipsc_status lipsc_run_read_some(const char *path, size_t most, json_t **head,
                                 json_t **rows, lipsc_error *err) {
    lipsc_error own;
    size_t every = 1;
    if (!err) err = &own;
    *head = *rows = NULL;
    lipsc_run *run = lipsc_run_look(path, err);
    if (!run) return err->code;
    lipsc_status status = lipsc_run_head(run, head, err);
    if (!status) status = choose(run, most, *head, &every, err);
    if (!status) status = read_rows(run, every, rows, err);
    lipsc_run_close(run);
    if (status) {
        json_decref(*head);
        json_decref(*rows);
        *head = *rows = NULL;
    }
    return status;
}

json_t *lipsc_run_settings(const char *path, const char *command) {
    json_t *head = NULL, *settings = NULL;
    lipsc_run *run = access(path, R_OK) ? NULL : lipsc_run_look(path, NULL);
    if (run && !lipsc_run_head(run, &head, NULL)) {
        const char *whose = json_string_value(json_object_get(head, "command"));
        if (whose && !strcmp(whose, command))
            settings = json_incref(json_object_get(head, "settings"));
    }
    json_decref(head);
    lipsc_run_close(run);
    return settings;
}
