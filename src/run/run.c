/* run.c - the run file on SQLite.
 *
 * Write-ahead log with synchronous=NORMAL: a commit is a write to the log without waiting
 * for the disk, so a cell of a millisecond stays cheap; what was committed survives the
 * death of the process, and a power failure may cost the last cells but never the file.
 * People and reports may read while a run writes.
 *
 * An application id and the schema number stand in the header of the file: a database of
 * another program is recognised before anything in it is touched. */
#define _POSIX_C_SOURCE 200809L
#include "run/file.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "core/json.h"
#include "core/mem.h"

enum { BUSY_MS = 5000 };

/* ---- Sentences --------------------------------------------------------------------- */

/* "PATH: cannot DOING: reason", with the system's reason where there is one. */
lipsc_status lipsc_run_fail(const lipsc_run *run, const char *doing, lipsc_error *err) {
    const int seen = errno, code = sqlite3_errcode(run->db) & 0xff;
    int system = sqlite3_system_errno(run->db);
    if (!system) system = seen; /* SQLite does not keep it for its log */
    if (code == SQLITE_NOTADB)
        return lipsc_fail(err, LIPSC_E_FORMAT, "%s: not a run file (no SQLite database)",
                          run->path);
    if (code == SQLITE_CORRUPT)
        return lipsc_fail(err, LIPSC_E_FORMAT, "%s: the database is damaged: %s", run->path,
                          sqlite3_errmsg(run->db));
    if (code == SQLITE_NOMEM)
        return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", run->path);
    const int known = system && (code == SQLITE_IOERR || code == SQLITE_CANTOPEN);
    return lipsc_fail(err, LIPSC_E_IO, "%s: cannot %s: %s", run->path, doing,
                      known ? strerror(system) : sqlite3_errmsg(run->db));
}

static lipsc_status fail_memory(const lipsc_run *run, lipsc_error *err) {
    return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", run->path);
}

/* ---- Small steps with SQLite ------------------------------------------------------- */

lipsc_status lipsc_run_execute(lipsc_run *run, const char *sql, const char *doing,
                               lipsc_error *err) {
    if (sqlite3_exec(run->db, sql, NULL, NULL, NULL) == SQLITE_OK) return LIPSC_OK;
    return lipsc_run_fail(run, doing, err);
}

lipsc_status lipsc_run_prepare(lipsc_run *run, const char *sql, sqlite3_stmt **statement,
                               lipsc_error *err) {
    if (sqlite3_prepare_v2(run->db, sql, -1, statement, NULL) == SQLITE_OK) return LIPSC_OK;
    return lipsc_run_fail(run, "read", err);
}

/* The one integer that a query gives. */
static lipsc_status query_integer(lipsc_run *run, const char *sql, long long *value,
                                  lipsc_error *err) {
    sqlite3_stmt *statement = NULL;
    lipsc_status status = lipsc_run_prepare(run, sql, &statement, err);
    if (!status && sqlite3_step(statement) != SQLITE_ROW)
        status = lipsc_run_fail(run, "read", err);
    if (!status) *value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return status;
}

/* What is not bound is NULL to SQLite, and NULL is another value. */
static int bind_text(sqlite3_stmt *statement, int at, const char *text) {
    return text ? sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC) : SQLITE_OK;
}

static void now_text(char text[32]) { /* UTC, ISO 8601 */
    const time_t now = time(NULL);
    struct tm parts;
    if (!gmtime_r(&now, &parts) || !strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &parts))
        snprintf(text, 32, "unknown");
}

/* JSON of a value with every digit of its numbers; the caller frees it with free. */
static char *dump(const json_t *value, size_t flags) {
    return lipsc_json_dumps(value, flags | JSON_REAL_PRECISION(17) | JSON_ENCODE_ANY);
}

/* ---- A new file -------------------------------------------------------------------- */

/* "CREATE VIEW results AS SELECT key, json_extract(row, '$.n') AS "n", ... FROM cells" */
static char *view_sql(const lipsc_run_options *options) {
    const char *const begin =
        "CREATE VIEW results AS SELECT key, created, version AS lipscope";
    size_t room = strlen(begin) + 64;
    for (size_t i = 0; i < options->field_count; i++)
        room += 2 * strlen(options->fields[i]) + 64;
    char *sql = lipsc_alloc(room, 1);
    if (!sql) return NULL;
    size_t used = (size_t)snprintf(sql, room, "%s", begin);
    for (size_t i = 0; i < options->field_count; i++)
        used += (size_t)snprintf(sql + used, room - used,
                                 ", json_extract(row, '$.%s') AS \"%s\"",
                                 options->fields[i], options->fields[i]);
    snprintf(sql + used, room - used, " FROM cells");
    return sql;
}

static lipsc_status insert_run(lipsc_run *run, const lipsc_run_options *options,
                               lipsc_error *err) {
    sqlite3_stmt *statement = NULL;
    char created[32], *settings = dump(options->settings, JSON_SORT_KEYS);
    if (!settings) return fail_memory(run, err);
    lipsc_status status =
        lipsc_run_prepare(run,
                          "INSERT INTO run (id, schema, version, created, command,"
                          " command_line, settings) VALUES (1, ?, ?, ?, ?, ?, ?)",
                          &statement, err);
    if (!status) {
        now_text(created);
        int bad = sqlite3_bind_int(statement, 1, LIPSC_SCHEMA);
        if (!bad) bad = bind_text(statement, 2, lipsc_version());
        if (!bad) bad = bind_text(statement, 3, created);
        if (!bad) bad = bind_text(statement, 4, options->command);
        if (!bad) bad = bind_text(statement, 5, options->command_line);
        if (!bad) bad = bind_text(statement, 6, settings);
        if (bad || sqlite3_step(statement) != SQLITE_DONE)
            status = lipsc_run_fail(run, "create the run file", err);
    }
    sqlite3_finalize(statement);
    free(settings);
    return status;
}

/* All or nothing: a process killed in here leaves a file that counts as new. */
static lipsc_status create(lipsc_run *run, const lipsc_run_options *options,
                           lipsc_error *err) {
    static const char doing[] = "create the run file";
    char head[64], *view = view_sql(options);
    if (!view) return fail_memory(run, err);
    lipsc_status status = lipsc_run_execute(run, "BEGIN IMMEDIATE", doing, err);
    if (!status) {
        status = lipsc_run_execute(
            run,
            "CREATE TABLE run (id INTEGER PRIMARY KEY CHECK (id = 1),"
            " schema INTEGER NOT NULL, version TEXT NOT NULL,"
            " created TEXT NOT NULL, command TEXT NOT NULL, command_line TEXT,"
            " settings TEXT NOT NULL);"
            "CREATE TABLE cells (key TEXT PRIMARY KEY, created TEXT NOT NULL,"
            " version TEXT NOT NULL, row TEXT NOT NULL) WITHOUT ROWID",
            doing, err);
        if (!status) status = lipsc_run_execute(run, view, doing, err);
        if (!status) status = insert_run(run, options, err);
        snprintf(head, sizeof head, "PRAGMA application_id = %d", LIPSC_RUN_ID);
        if (!status) status = lipsc_run_execute(run, head, doing, err);
        snprintf(head, sizeof head, "PRAGMA user_version = %d", LIPSC_SCHEMA);
        if (!status) status = lipsc_run_execute(run, head, doing, err);
        if (!status) status = lipsc_run_execute(run, "COMMIT", doing, err);
        if (status) sqlite3_exec(run->db, "ROLLBACK", NULL, NULL, NULL);
    }
    lipsc_release(view);
    return status;
}

/* ---- An older file ----------------------------------------------------------------- */

/* The first setting that differs, with what each side says of it. */
static lipsc_status refuse_setting(const lipsc_run *run, const char *name,
                                   const json_t *stored, const json_t *asked,
                                   lipsc_error *err) {
    char *there = stored ? dump(stored, 0) : NULL, *here = asked ? dump(asked, 0) : NULL;
    lipsc_status status =
        lipsc_fail(err, LIPSC_E_REFUSED,
                   "%s: made with another setting: %s is %.100s there and %.100s here; use "
                   "another run "
                   "file",
                   run->path, name, there ? there : "absent", here ? here : "absent");
    free(there);
    free(here);
    return status;
}

static lipsc_status compare_settings(const lipsc_run *run, json_t *stored,
                                     const lipsc_run_options *options, lipsc_error *err) {
    const char *name;
    json_t *value;
    /* jansson only reads through this pointer */
    json_object_foreach((json_t *)options->settings, name, value) {
        const json_t *there = json_object_get(stored, name);
        if (!strcmp(name, LIPSC_RUN_TOLD)) continue;
        if (!there) there = json_object_get(options->absent, name);
        if (!there || !json_equal(there, value))
            return refuse_setting(run, name, there, value, err);
    }
    json_object_foreach(stored, name, value) {
        if (!json_object_get(options->settings, name) && strcmp(name, LIPSC_RUN_TOLD))
            return refuse_setting(run, name, value, NULL, err);
    }
    return LIPSC_OK;
}

static lipsc_status compare(lipsc_run *run, const lipsc_run_options *options,
                            lipsc_error *err) {
    sqlite3_stmt *statement = NULL;
    lipsc_status status =
        lipsc_run_prepare(run, "SELECT command, settings FROM run", &statement, err);
    if (!status && sqlite3_step(statement) != SQLITE_ROW)
        status = lipsc_fail(err, LIPSC_E_FORMAT, "%s: not a run file (table run is empty)",
                            run->path);
    if (!status) {
        const char *command = (const char *)sqlite3_column_text(statement, 0);
        const char *text = (const char *)sqlite3_column_text(statement, 1);
        int memory;
        json_t *stored = lipsc_json_object(text, &memory);
        if (memory || sqlite3_errcode(run->db) == SQLITE_NOMEM)
            status = fail_memory(run, err);
        else if (!command || !stored)
            status =
                lipsc_fail(err, LIPSC_E_FORMAT,
                           "%s: not a run file (its settings cannot be read)", run->path);
        else if (strcmp(command, options->command))
            status = lipsc_fail(err, LIPSC_E_REFUSED,
                                "%s: a run of the command '%s', not of '%s'", run->path,
                                command, options->command);
        else
            status = compare_settings(run, stored, options, err);
        json_decref(stored);
    }
    sqlite3_finalize(statement);
    return status;
}

/* *fresh: an empty database, to be made ours. */
lipsc_status lipsc_run_recognise(lipsc_run *run, int *fresh, lipsc_error *err) {
    long long id = 0, schema = 0, objects = 0;
    lipsc_status status = query_integer(run, "PRAGMA application_id", &id, err);
    if (!status) status = query_integer(run, "PRAGMA user_version", &schema, err);
    if (!status)
        status = query_integer(run, "SELECT count(*) FROM sqlite_master", &objects, err);
    if (status) return status;
    *fresh = id == 0 && objects == 0;
    if (!*fresh && id != LIPSC_RUN_ID)
        return lipsc_fail(err, LIPSC_E_FORMAT, "%s: a database of another program",
                          run->path);
    if (schema > LIPSC_SCHEMA)
        return lipsc_fail(
            err, LIPSC_E_FORMAT,
            "%s: written by a newer lipscope (schema %lld, this one knows %d)", run->path,
            schema, LIPSC_SCHEMA);
    return LIPSC_OK;
}

/* ---- The handle -------------------------------------------------------------------- */

/* "file:PATH?immutable=1", for a finished run where nothing may be written beside it. */
static char *immutable_name(const char *path) {
    sqlite3_str *name = sqlite3_str_new(NULL);
    sqlite3_str_appendall(name, *path == '/' ? "file:" : "file:./");
    for (; *path; path++) {
        if (strchr("%?#", *path))
            sqlite3_str_appendf(name, "%%%02x", *path);
        else
            sqlite3_str_append(name, path, 1);
    }
    sqlite3_str_appendall(name, "?immutable=1");
    return sqlite3_str_finish(name);
}

lipsc_status lipsc_run_connect(lipsc_run *run, int flags, lipsc_error *err) {
    /* to SQLite ":memory:" and "file:..." are not names of files; to us they are */
    char *name = flags & SQLITE_OPEN_URI
                     ? immutable_name(run->path)
                     : sqlite3_mprintf("%s%s", *run->path == '/' ? "" : "./", run->path);
    /* Cells come from several threads, one at a time under the caller's lock. */
    flags |= SQLITE_OPEN_NOMUTEX;
    const int opened = name ? sqlite3_open_v2(name, &run->db, flags, NULL) : SQLITE_NOMEM;
    sqlite3_free(name);
    if (opened != SQLITE_OK)
        return run->db ? lipsc_run_fail(run, "open", err) : fail_memory(run, err);
    sqlite3_busy_timeout(run->db, BUSY_MS);
    /* A file may be anybody's: in place of tables it could have views without an end. */
    sqlite3_db_config(run->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(run->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    return LIPSC_OK;
}

static lipsc_status open_database(lipsc_run *run, const lipsc_run_options *options,
                                  lipsc_error *err) {
    int fresh = 0;
    lipsc_status status =
        lipsc_run_connect(run, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, err);
    if (!status) status = lipsc_run_recognise(run, &fresh, err);
    if (!status && sqlite3_db_readonly(run->db, "main"))
        status = lipsc_fail(err, LIPSC_E_IO, "%s: the file is read-only", run->path);
    if (!status && !fresh) status = compare(run, options, err);
    if (!status)
        status =
            lipsc_run_execute(run, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL",
                              "open for writing", err);
    if (!status && fresh) status = create(run, options, err);
    if (!status)
        status =
            lipsc_run_prepare(run,
                              "INSERT OR REPLACE INTO cells (key, created, version, row) "
                              "VALUES (?, ?, ?, ?)",
                              &run->put, err);
    if (!status)
        status =
            lipsc_run_prepare(run, "SELECT row FROM cells WHERE key = ?", &run->get, err);
    return status;
}

lipsc_run *lipsc_run_handle(const char *path) {
    lipsc_run *run = lipsc_alloc_zero(1, sizeof *run);
    const size_t room = strlen(path) + 1;
    if (run) {
        run->lock.fd = -1;
        run->path = lipsc_alloc(room, 1);
    }
    if (!run || !run->path) {
        lipsc_run_close(run);
        return NULL;
    }
    memcpy(run->path, path, room);
    return run;
}

lipsc_status lipsc_run_open(const char *path, const lipsc_run_options *options,
                            lipsc_run **out, lipsc_error *err) {
    if (!path || !options || !json_is_object(options->settings) || !out)
        return lipsc_fail(err, LIPSC_E_ARG, "a run needs a path, settings and a result");
    lipsc_run *run = lipsc_run_handle(path);
    if (!run) return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", path);
    lipsc_status status = lipsc_lock_take(path, &run->lock, err);
    if (!status) status = open_database(run, options, err);
    if (status) {
        lipsc_run_close(run);
        return status;
    }
    *out = run;
    return LIPSC_OK;
}

void lipsc_run_close(lipsc_run *run) {
    if (!run) return;
    sqlite3_finalize(run->put);
    sqlite3_finalize(run->get);
    sqlite3_finalize(run->find_words);
    sqlite3_finalize(run->put_words);
    sqlite3_close(run->db); /* the last one folds the log into the file */
    lipsc_lock_drop(&run->lock);
    lipsc_release(run->path);
    lipsc_release(run);
}

lipsc_status lipsc_run_count(lipsc_run *run, size_t *count, lipsc_error *err) {
    long long value = 0;
    lipsc_status status = query_integer(run, "SELECT count(*) FROM cells", &value, err);
    if (!status) *count = (size_t)value;
    return status;
}

lipsc_status lipsc_run_put(lipsc_run *run, const char *key, const json_t *row,
                           lipsc_error *err) {
    char created[32], *text = dump(row, JSON_COMPACT);
    lipsc_status status = LIPSC_OK;
    if (!text) return fail_memory(run, err);
    now_text(created);
    int bad = bind_text(run->put, 1, key);
    if (!bad) bad = bind_text(run->put, 2, created);
    if (!bad) bad = bind_text(run->put, 3, lipsc_version());
    if (!bad) bad = bind_text(run->put, 4, text);
    errno = 0;
    /* outside of BEGIN ... COMMIT every statement is a transaction */
    if (bad || sqlite3_step(run->put) != SQLITE_DONE)
        status = lipsc_run_fail(run, "store a cell", err);
    sqlite3_reset(run->put);
    sqlite3_clear_bindings(run->put);
    free(text);
    return status;
}

lipsc_status lipsc_run_cell(lipsc_run *run, const char *key, const unsigned char *text,
                            json_t **row, lipsc_error *err) {
    int memory;
    const int none = !text && sqlite3_errcode(run->db) == SQLITE_NOMEM;
    *row = lipsc_json_object((const char *)text, &memory);
    if (memory || none) return fail_memory(run, err);
    if (*row) return LIPSC_OK;
    return lipsc_fail(err, LIPSC_E_FORMAT, "%s: cell '%.100s' cannot be read", run->path,
                      key ? key : "");
}

/* *found: whether there is such a cell; *row, or NULL to leave it unread. */
static lipsc_status find(lipsc_run *run, const char *key, int *found, json_t **row,
                         lipsc_error *err) {
    lipsc_status status = LIPSC_OK;
    const int bad = bind_text(run->get, 1, key);
    const int step = bad ? bad : sqlite3_step(run->get);
    *found = step == SQLITE_ROW;
    if (*found && row)
        status = lipsc_run_cell(run, key, sqlite3_column_text(run->get, 0), row, err);
    else if (!*found && step != SQLITE_DONE)
        status = lipsc_run_fail(run, "read", err);
    sqlite3_reset(run->get);
    sqlite3_clear_bindings(run->get);
    return status;
}

lipsc_status lipsc_run_get(lipsc_run *run, const char *key, json_t **row,
                           lipsc_error *err) {
    int found;
    *row = NULL;
    return find(run, key, &found, row, err);
}

lipsc_status lipsc_run_has(lipsc_run *run, const char *key, int *there, lipsc_error *err) {
    return find(run, key, there, NULL, err);
}
