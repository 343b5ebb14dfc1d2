/* merge.c - several run files of one sweep become one, or nothing changes. */
#define _POSIX_C_SOURCE 200809L
#include "lipscope/run.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "core/json.h"
#include "core/mem.h"
#include "run/file.h"
#include "run/words.h"

enum { MOST_FIELDS = 256 };

/* ---- What the inputs say of themselves ---------------------------------------------- */

static lipsc_status check_path(size_t count, const char *const *paths, const char *out,
                               lipsc_error *err) {
    struct stat a, b;
    if (stat(out, &a)) return LIPSC_OK;
    for (size_t i = 0; i < count; i++)
        if (!stat(paths[i], &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
            return lipsc_fail(err, LIPSC_E_ARG, "%s: is both read and written", out);
    return LIPSC_OK;
}

/* The columns of the view `results` behind the three that every run has. */
static lipsc_status read_fields(lipsc_run *run, size_t *count, char **names,
                                lipsc_error *err) {
    sqlite3_stmt *statement = NULL;
    int step = SQLITE_DONE;
    lipsc_status status =
        lipsc_run_prepare(run,
                          "SELECT name FROM pragma_table_info('results') "
                          "WHERE name NOT IN ('key', 'created', 'lipscope') ORDER BY cid",
                          &statement, err);
    while (!status && *count < MOST_FIELDS &&
           (step = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(statement, 0);
        if (!name || strspn(name, "abcdefghijklmnopqrstuvwxyz_0123456789") != strlen(name))
            status = lipsc_fail(err, LIPSC_E_FORMAT, "%s: a field has no proper name",
                                run->path);
        else if (!(names[*count] = sqlite3_mprintf("%s", name)))
            status = lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", run->path);
        else
            ++*count;
    }
    if (!status && step != SQLITE_ROW && step != SQLITE_DONE)
        status = lipsc_run_fail(run, "read", err);
    sqlite3_finalize(statement);
    return status;
}

/* Opens `out` with the command and the settings of the first input. */
static lipsc_status open_like(const char *path, const char *out, const char *line,
                              lipsc_run **run, json_t **head, lipsc_error *err) {
    char *names[MOST_FIELDS];
    size_t fields = 0;
    lipsc_run *first = lipsc_run_look(path, err);
    if (!first) return err->code;
    lipsc_status status = lipsc_run_head(first, head, err);
    if (!status) status = read_fields(first, &fields, names, err);
    lipsc_run_close(first);
    if (!status) {
        const lipsc_run_options how = {
            .command = json_string_value(json_object_get(*head, "command")),
            .command_line = line,
            .settings = json_object_get(*head, "settings"),
            .field_count = fields,
            .fields = (const char *const *)names};
        status = how.command
                     ? lipsc_run_open(out, &how, run, err)
                     : lipsc_fail(err, LIPSC_E_FORMAT, "%s: names no command", path);
    }
    for (size_t i = 0; i < fields; i++) sqlite3_free(names[i]);
    return status;
}

static lipsc_status check_origin(const char *path, const json_t *first,
                                 const char *first_path, lipsc_run *run, lipsc_error *err) {
    json_t *head = NULL, *value;
    const char *name;
    lipsc_status status = lipsc_run_head(run, &head, err);
    if (status) return status;
    const char *a = json_string_value(json_object_get(first, "command")),
               *b = json_string_value(json_object_get(head, "command"));
    json_t *one = json_object_get(first, "settings"),
           *two = json_object_get(head, "settings");
    if (strcmp(a, b ? b : ""))
        status =
            lipsc_fail(err, LIPSC_E_REFUSED, "%s: a run of '%s', but %s is one of '%s'",
                       path, b ? b : "?", first_path, a);
    json_object_foreach(one, name, value) {
        if (status || json_equal(value, json_object_get(two, name)) ||
            !strcmp(name, LIPSC_RUN_TOLD))
            continue;
        status =
            lipsc_fail(err, LIPSC_E_REFUSED, "%s: made with another setting of %s than %s",
                       path, name, first_path);
    }
    json_object_foreach(two, name, value) {
        if (status || json_object_get(one, name) || !strcmp(name, LIPSC_RUN_TOLD)) continue;
        status = lipsc_fail(err, LIPSC_E_REFUSED,
                            "%s: has the setting %s, which %s does not have", path, name,
                            first_path);
    }
    json_decref(head);
    return status;
}

/* ---- Cells -------------------------------------------------------------------------- */

/* Times and versions differ from machine to machine. */
static int same_row(json_t *a, json_t *b) {
    static const char *const apart[] = {"seconds", "version"};
    for (size_t i = 0; i < 2; i++) {
        json_object_del(a, apart[i]);
        json_object_del(b, apart[i]);
    }
    return json_equal(a, b);
}

static lipsc_status put(lipsc_run *out, sqlite3_stmt *from, lipsc_error *err) {
    int step = SQLITE_OK;
    for (int c = 0; c < 4 && !step; c++)
        step = sqlite3_bind_value(out->put, c + 1, sqlite3_column_value(from, c));
    if (!step) step = sqlite3_step(out->put);
    sqlite3_reset(out->put);
    sqlite3_clear_bindings(out->put);
    return step == SQLITE_DONE ? LIPSC_OK : lipsc_run_fail(out, "store a cell", err);
}

static lipsc_status add_cell(lipsc_run *out, const char *path, sqlite3_stmt *from,
                             lipsc_merged *merged, lipsc_error *err) {
    const char *key = (const char *)sqlite3_column_text(from, 0),
               *text = (const char *)sqlite3_column_text(from, 3);
    int memory;
    json_t *row = lipsc_json_object(text, &memory), *there = NULL;
    lipsc_status status =
        memory       ? lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", path)
        : key && row ? lipsc_run_get(out, key, &there, err)
                     : lipsc_fail(err, LIPSC_E_FORMAT, "%s: cell '%.100s' cannot be read",
                                  path, key ? key : "");
    if (!status && there && !same_row(row, there))
        status = lipsc_fail(err, LIPSC_E_REFUSED,
                            "%s: has another value of the cell '%.100s' than the files "
                            "before it",
                            path, key);
    if (!status && there) merged->shared++;
    if (!status && !there) {
        status = put(out, from, err);
        merged->added++;
    }
    json_decref(row);
    json_decref(there);
    return status;
}

static lipsc_status add_file(lipsc_run *out, const char *path, const json_t *head,
                             const char *first, lipsc_merged *merged, lipsc_error *err) {
    sqlite3_stmt *cells = NULL;
    int step = SQLITE_DONE;
    lipsc_run *run = lipsc_run_look(path, err);
    if (!run) return err->code;
    lipsc_status status = check_origin(path, head, first, run, err);
    if (!status)
        status = lipsc_run_prepare(
            run, "SELECT key, created, version, row FROM cells ORDER BY key", &cells, err);
    while (!status && (step = sqlite3_step(cells)) == SQLITE_ROW)
        status = add_cell(out, path, cells, merged, err);
    if (!status && step != SQLITE_DONE) status = lipsc_run_fail(run, "read", err);
    sqlite3_finalize(cells);
    if (!status) status = lipsc_run_copy_words(out, run, err);
    lipsc_run_close(run);
    return status;
}

/* ---- Together ----------------------------------------------------------------------- */

static void remove_run(const char *path) {
    static const char *const ends[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < 3; i++) {
        char *name = sqlite3_mprintf("%s%s", path, ends[i]);
        if (name) unlink(name);
        sqlite3_free(name);
    }
}

lipsc_status lipsc_run_merge(size_t count, const char *const *paths, const char *out,
                             const char *line, lipsc_merged *merged, lipsc_error *err) {
    lipsc_error own;
    lipsc_run *run = NULL;
    json_t *head = NULL;
    if (!err) err = &own;
    if (!count || !paths || !out || !merged)
        return lipsc_fail(err, LIPSC_E_ARG, "a merge needs run files and a result");
    const int fresh = access(out, F_OK) != 0;
    *merged = (lipsc_merged){0};
    lipsc_status status = check_path(count, paths, out, err);
    if (!status) status = open_like(paths[0], out, line, &run, &head, err);
    if (!status) status = lipsc_run_execute(run, "BEGIN IMMEDIATE", "write", err);
    for (size_t i = 0; i < count && !status; i++)
        status = add_file(run, paths[i], head, paths[0], merged, err);
    if (!status) status = lipsc_run_execute(run, "COMMIT", "write", err);
    const int opened = run != NULL;
    lipsc_run_close(run); /* takes back what was not committed */
    if (status && fresh && opened) remove_run(out);
    json_decref(head);
    return status;
}
