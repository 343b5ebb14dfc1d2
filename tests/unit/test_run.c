/* test_run.c - the run file: what it keeps, what it survives, what it refuses. */
#define _DEFAULT_SOURCE /* mkdtemp, seteuid */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "run/run.h"

static char folder[] = "/tmp/lipscope-run-XXXXXX";

static const char *path_of(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static const char *const fields[] = {"layer", "n", "sigma"};

static lipsc_status open_run(const char *path, const char *settings, lipsc_run **run,
                             lipsc_error *err) {
    json_t *object = json_loads(settings, 0, NULL);
    const lipsc_run_options options = {.command = "measure",
                                       .command_line = "lipscope measure m --text t",
                                       .settings = object,
                                       .field_count = 3,
                                       .fields = fields};
    assert_non_null(object);
    lipsc_status status = lipsc_run_open(path, &options, run, err);
    json_decref(object);
    return status;
}

static const char same[] = "{\"model_hash\": \"ab12\", \"seed\": 1, \"tol\": 0.01}";

static json_t *row(int i) {
    return json_pack("{s:i, s:i, s:f, s:n}", "layer", i % 6, "n", i, "sigma", 1.0 / (i + 3),
                     "head");
}

static lipsc_status put(lipsc_run *run, int i, lipsc_error *err) {
    char key[32];
    json_t *object = row(i);
    snprintf(key, sizeof key, "cell-%d", i);
    lipsc_status status = lipsc_run_put(run, key, object, err);
    json_decref(object);
    return status;
}

/* Cell i, when it is there, must be whole and equal to what was put, in every digit. */
static int has(lipsc_run *run, int i) {
    char key[32];
    json_t *stored, *want = row(i);
    lipsc_error err;
    snprintf(key, sizeof key, "cell-%d", i);
    assert_int_equal(lipsc_run_get(run, key, &stored, &err), LIPSC_OK);
    const int there = stored != NULL;
    if (there) assert_true(json_equal(stored, want));
    json_decref(stored);
    json_decref(want);
    return there;
}

static size_t count(lipsc_run *run) {
    size_t cells;
    assert_int_equal(lipsc_run_count(run, &cells, NULL), LIPSC_OK);
    return cells;
}

/* What SQLite itself says of a file: first column of the first row, in static storage. */
static const char *ask(const char *path, const char *sql) {
    static char answer[256];
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    snprintf(answer, sizeof answer, "%s", (const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return answer;
}

static void change(const char *path, const char *sql) {
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void write_bytes(const char *path, const char *bytes, size_t size) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static void test_store_and_resume(void **state) {
    (void)state;
    char path[256], lock[300];
    lipsc_run *run;
    lipsc_error err;
    snprintf(path, sizeof path, "%s", path_of("store.db"));
    snprintf(lock, sizeof lock, "%s-lock", path);
    assert_int_equal(open_run(path, same, &run, &err), LIPSC_OK);
    for (int i = 0; i < 20; i++) assert_int_equal(put(run, i, &err), LIPSC_OK);
    assert_int_equal(put(run, 3, &err), LIPSC_OK); /* replaces */
    assert_int_equal(count(run), 20);
    /* somebody may read while the run goes on */
    assert_string_equal(ask(path, "SELECT count(*) FROM cells"), "20");
    lipsc_run_close(run);
    assert_int_equal(access(lock, F_OK), -1); /* one file remains */

    assert_string_equal(ask(path, "SELECT sigma FROM results WHERE n = 5"), "0.125");
    assert_string_equal(ask(path, "SELECT command FROM run"), "measure");
    assert_string_equal(ask(path, "SELECT schema FROM run"), "1");
    assert_int_equal(open_run(path, same, &run, &err), LIPSC_OK);
    for (int i = 0; i < 20; i++) assert_true(has(run, i));
    assert_false(has(run, 20));
    lipsc_run_close(run);
    lipsc_run_close(NULL);
}

/* More rows than were asked for: every k-th window, with all its lengths, and it is said.
 */
static void test_read_some(void **state) {
    (void)state;
    char path[256], key[48];
    lipsc_run *run;
    lipsc_error err;
    json_t *head, *rows;
    snprintf(path, sizeof path, "%s", path_of("some.db"));
    assert_int_equal(open_run(path, same, &run, &err), LIPSC_OK);
    for (int n = 0; n < 2; n++)
        for (int w = 0; w < 10; w++) {
            json_t *one = json_pack("{s:i, s:i}", "n", n, "window", w);
            snprintf(key, sizeof key, "n=%d window=%d", n, w);
            assert_int_equal(lipsc_run_put(run, key, one, &err), LIPSC_OK);
            json_decref(one);
        }
    lipsc_run_close(run);
    for (size_t most = 1; most <= 21; most++) {
        const int every = (int)((20 + most - 1) / most);
        assert_int_equal(lipsc_run_read_some(path, most, &head, &rows, &err), LIPSC_OK);
        assert_int_equal(json_array_size(rows), 2 * ((9 / every) + 1));
        for (size_t i = 0; i < json_array_size(rows); i++)
            assert_int_equal(
                json_integer_value(json_object_get(json_array_get(rows, i), "window")) %
                    every,
                0);
        if (every > 1) {
            assert_int_equal(json_integer_value(json_object_get(head, "cells")), 20);
            assert_int_equal(json_integer_value(json_object_get(head, "every")), every);
        } else {
            assert_null(json_object_get(head, "every"));
        }
        json_decref(head);
        json_decref(rows);
    }
}

/* For somebody who only looks: while the run goes on, and when it has ended. */
static void test_read(void **state) {
    (void)state;
    char path[256], beside[300];
    lipsc_run *run;
    lipsc_error err;
    json_t *head, *rows;
    snprintf(path, sizeof path, "%s",
             path_of("read ?%#.db")); /* SQLite has names for those */
    assert_int_equal(open_run(path, same, &run, &err), LIPSC_OK);
    for (int i = 0; i < 5; i++) assert_int_equal(put(run, i, &err), LIPSC_OK);
    for (int open = 1; open >= 0; open--) {
        assert_int_equal(lipsc_run_read(path, &head, &rows, &err), LIPSC_OK);
        assert_int_equal(json_array_size(rows), 5);
        for (int i = 0; i < 5; i++) { /* keys cell-0 ... cell-4: in this order */
            json_t *want = row(i);
            assert_true(json_equal(json_array_get(rows, (size_t)i), want));
            json_decref(want);
        }
        assert_string_equal(json_string_value(json_object_get(head, "command")), "measure");
        assert_string_equal(json_string_value(json_object_get(head, "command_line")),
                            "lipscope measure m --text t");
        assert_string_equal(json_string_value(json_object_get(
                                json_object_get(head, "settings"), "model_hash")),
                            "ab12");
        json_decref(head);
        json_decref(rows);
        if (open) { /* the writer was not disturbed */
            assert_int_equal(put(run, 4, &err), LIPSC_OK);
            lipsc_run_close(run);
        }
    }
    snprintf(beside, sizeof beside, "%s-wal", path);
    assert_int_equal(access(beside, F_OK), -1);

    assert_int_equal(lipsc_run_read(path_of("absent.db"), &head, &rows, &err), LIPSC_E_IO);
    assert_null(head);
    assert_null(rows);
    assert_int_equal(access(path_of("absent.db"), F_OK), -1);
    write_bytes(path_of("none.db"), "", 0);
    assert_int_equal(lipsc_run_read(path_of("none.db"), &head, &rows, &err),
                     LIPSC_E_FORMAT);
    change(path, "UPDATE cells SET row = '[1]' WHERE key = 'cell-3'");
    assert_int_equal(lipsc_run_read(path, &head, &rows, &err), LIPSC_E_FORMAT);
    assert_non_null(strstr(err.text, "cell 'cell-3' cannot be read"));
    change(path, "UPDATE run SET settings = '[1'");
    assert_int_equal(lipsc_run_read(path, &head, &rows, &err), LIPSC_E_FORMAT);
    assert_non_null(strstr(err.text, "its settings cannot be read"));
    /* nobody else's database has to know that a command is not NULL */
    change(path, "CREATE TABLE other AS SELECT * FROM run; DROP TABLE run;"
                 "ALTER TABLE other RENAME TO run; UPDATE run SET command = NULL");
    assert_int_equal(lipsc_run_read(path, &head, &rows, &err), LIPSC_E_FORMAT);
    assert_non_null(strstr(err.text, "it has no command"));
    change(path, "DELETE FROM run");
    assert_int_equal(lipsc_run_read(path, &head, &rows, &err), LIPSC_E_FORMAT);
}

/* A child stores cells as fast as it can and tells each one that was stored through a pipe;
 * it is killed without warning.  Every cell it told of must be there. */
static void kill_once(const char *path, int round, int *stored) {
    int pipe_ends[2];
    assert_int_equal(pipe(pipe_ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        lipsc_run *run;
        close(pipe_ends[0]);
        if (open_run(path, same, &run, NULL)) _exit(1);
        for (int i = *stored;; i++) {
            if (put(run, i, NULL)) _exit(2);
            if (write(pipe_ends[1], &i, sizeof i) != sizeof i) _exit(3);
        }
    }
    close(pipe_ends[1]);
    int told = -1, last = -1;
    /* the moment of the kill wanders through a transaction from round to round */
    const int wanted = 5 + 7 * round;
    while (last < *stored + wanted && read(pipe_ends[0], &told, sizeof told) == sizeof told)
        last = told;
    const struct timespec pause = {.tv_nsec = 37000L * round};
    nanosleep(&pause, NULL);
    kill(child, SIGKILL);
    while (read(pipe_ends[0], &told, sizeof told) == sizeof told) last = told;
    close(pipe_ends[0]);
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);

    lipsc_run *run;
    lipsc_error err;
    assert_int_equal(open_run(path, same, &run, &err), LIPSC_OK);
    for (int i = 0; i <= last; i++) assert_true(has(run, i));
    /* at most the one in flight besides */
    assert_in_range(count(run), (size_t)last + 1, (size_t)last + 2);
    *stored = (int)count(run);
    lipsc_run_close(run);
    assert_string_equal(ask(path, "PRAGMA integrity_check"), "ok");
}

static void test_killed(void **state) {
    (void)state;
    char path[256];
    int stored = 0;
    snprintf(path, sizeof path, "%s", path_of("killed.db"));
    for (int round = 0; round < 25; round++) kill_once(path, round, &stored);
    assert_true(stored > 25 * 5);
}

/* Killed anywhere between the first call and the first cell: the file opens as new. */
static void test_killed_while_created(void **state) {
    (void)state;
    for (int round = 0; round < 40; round++) {
        char name[32], path[256];
        lipsc_run *run;
        lipsc_error err;
        snprintf(name, sizeof name, "born-%d.db", round);
        snprintf(path, sizeof path, "%s", path_of(name));
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) _exit(open_run(path, same, &run, NULL) || put(run, 0, NULL));
        const struct timespec pause = {.tv_nsec = 50000L * round};
        nanosleep(&pause, NULL);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        assert_int_equal(open_run(path, same, &run, &err), LIPSC_OK);
        assert_int_equal(put(run, 1, &err), LIPSC_OK);
        lipsc_run_close(run);
    }
}

static void test_two_processes(void **state) {
    (void)state;
    char path[256], want[320];
    lipsc_run *run, *second;
    lipsc_error err;
    snprintf(path, sizeof path, "%s", path_of("two.db"));
    assert_int_equal(open_run(path, same, &run, &err), LIPSC_OK);
    const long parent = (long)getpid();
    const pid_t child = fork();
    if (child == 0) {
        if (open_run(path, same, &second, &err) != LIPSC_E_REFUSED) _exit(1);
        snprintf(want, sizeof want, "%s: in use by another process (process %ld)", path,
                 parent);
        _exit(strcmp(err.text, want) ? 2 : 0);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
    assert_int_equal(put(run, 1, &err), LIPSC_OK); /* the first was not disturbed */
    lipsc_run_close(run);
    assert_int_equal(open_run(path, same, &run, &err), LIPSC_OK); /* free again */
    assert_true(has(run, 1));
    lipsc_run_close(run);
}

static void refused(const char *path, const char *settings, const char *reason) {
    lipsc_run *run;
    lipsc_error err = {.text = ""};
    assert_int_not_equal(open_run(path, settings, &run, &err), LIPSC_OK);
    if (!strstr(err.text, reason)) fail_msg("'%s' does not say '%s'", err.text, reason);
    if (strncmp(err.text, path, strlen(path))) fail_msg("'%s' names no file", err.text);
}

static void test_other_settings(void **state) {
    (void)state;
    char path[256];
    lipsc_run *run;
    lipsc_error err;
    snprintf(path, sizeof path, "%s", path_of("settings.db"));
    assert_int_equal(open_run(path, same, &run, &err), LIPSC_OK);
    assert_int_equal(put(run, 1, &err), LIPSC_OK);
    lipsc_run_close(run);
    refused(path, "{\"model_hash\": \"cd34\", \"seed\": 1, \"tol\": 0.01}",
            "model_hash is \"ab12\" there and \"cd34\" here");
    refused(path, "{\"model_hash\": \"ab12\", \"seed\": 2, \"tol\": 0.01}",
            "seed is 1 there and 2 here");
    refused(path, "{\"model_hash\": \"ab12\", \"seed\": 1, \"tol\": null}", "tol is 0.01");
    refused(path, "{\"model_hash\": \"ab12\", \"seed\": 1}", "and absent here");
    refused(path,
            "{\"model_hash\": \"ab12\", \"seed\": 1, \"tol\": 0.01, \"map\": \"heads\"}",
            "map is absent there and \"heads\" here");
    /* the order of the members says nothing */
    assert_int_equal(open_run(path,
                              "{\"tol\": 0.01, \"seed\": 1, \"model_hash\": \"ab12\"}",
                              &run, &err),
                     LIPSC_OK);
    assert_true(has(run, 1));
    lipsc_run_close(run);
    change(path, "UPDATE run SET command = 'attack'");
    refused(path, same, "a run of the command 'attack', not of 'measure'");
}

static void test_other_files(void **state) {
    (void)state;
    char path[256];
    lipsc_run *run;
    lipsc_error err;
    snprintf(path, sizeof path, "%s", path_of("text"));
    char text[5000];
    memset(text, 'x', sizeof text);
    write_bytes(path, text, sizeof text);
    refused(path, same, "not a run file (no SQLite database)");
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, sizeof text); /* left as it was */

    snprintf(path, sizeof path, "%s", path_of("other.db"));
    change(path, "CREATE TABLE albums (title TEXT)");
    refused(path, same, "a database of another program");
    assert_string_equal(ask(path, "PRAGMA journal_mode"), "delete");
    assert_string_equal(ask(path, "SELECT count(*) FROM sqlite_master"), "1");

    snprintf(path, sizeof path, "%s", path_of("newer.db"));
    assert_int_equal(open_run(path, same, &run, &err), LIPSC_OK);
    lipsc_run_close(run);
    change(path, "PRAGMA user_version = 2");
    refused(path, same, "written by a newer lipscope (schema 2, this one knows 1)");

    snprintf(path, sizeof path, "%s", path_of("half.db")); /* its second half is gone */
    assert_int_equal(open_run(path, same, &run, &err), LIPSC_OK);
    for (int i = 0; i < 200; i++) assert_int_equal(put(run, i, &err), LIPSC_OK);
    lipsc_run_close(run);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, 4096), 0);
    refused(path, same, "");

    refused(path_of("absent/run.db"), same, "No such file or directory");
    refused(folder, same, "");

    /* an empty file, as mktemp makes it, is new; so is a name that SQLite reads otherwise
     */
    snprintf(path, sizeof path, "%s", path_of("empty.db"));
    write_bytes(path, "", 0);
    assert_int_equal(open_run(path, same, &run, &err), LIPSC_OK);
    lipsc_run_close(run);
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(open_run(":memory:", same, &run, &err), LIPSC_OK);
    lipsc_run_close(run);
    assert_int_equal(access(":memory:", F_OK), 0);
}

static void test_read_only(void **state) {
    (void)state;
    char path[256];
    lipsc_run *run;
    lipsc_error err;
    snprintf(path, sizeof path, "%s", path_of("locked/run.db"));
    assert_int_equal(mkdir(path_of("locked"), 0755), 0);
    assert_int_equal(open_run(path, same, &run, &err), LIPSC_OK);
    lipsc_run_close(run);
    assert_int_equal(chmod(folder, 0755), 0);
    const pid_t child = fork();
    if (child == 0) { /* to root nothing is read-only */
        int bad = geteuid() == 0 ? seteuid(65534) : chmod(path_of("locked"), 0555);
        snprintf(path, sizeof path, "%s", path_of("locked/run.db"));
        bad = bad || open_run(path, same, &run, &err) != LIPSC_E_IO;
        _exit(bad || !strstr(err.text, "cannot write beside it: Permission denied"));
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);

    /* the folder can be written, the file cannot */
    assert_int_equal(chmod(path_of("locked"), 0777), 0);
    assert_int_equal(chmod(path_of("locked/run.db"), 0444), 0);
    const pid_t other = fork();
    if (other == 0) {
        int bad = geteuid() == 0 ? seteuid(65534) : 0;
        bad = bad || open_run(path, same, &run, &err) != LIPSC_E_IO;
        _exit(bad || !strstr(err.text, "the file is read-only"));
    }
    assert_int_equal(waitpid(other, &how, 0), other);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

/* A disk that is full after some cells: the failing one is told, the others are kept. */
static void test_full_disk(void **state) {
    (void)state;
    char path[256];
    int pipe_ends[2];
    snprintf(path, sizeof path, "%s", path_of("full.db"));
    assert_int_equal(pipe(pipe_ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        lipsc_run *run;
        lipsc_error err;
        const struct rlimit limit = {200000, 200000};
        signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit then fails with EFBIG */
        if (setrlimit(RLIMIT_FSIZE, &limit) || open_run(path, same, &run, &err)) _exit(1);
        int stored = 0;
        while (!put(run, stored, &err)) stored++;
        const int said = strstr(err.text, "cannot store a cell: File too large") != NULL;
        if (write(pipe_ends[1], &stored, sizeof stored) != sizeof stored) _exit(2);
        lipsc_run_close(run);
        _exit(said ? 0 : 3);
    }
    int how, stored = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
    assert_int_equal(read(pipe_ends[0], &stored, sizeof stored), sizeof stored);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    assert_true(stored > 10);
    lipsc_run *run;
    lipsc_error err;
    assert_int_equal(open_run(path, same, &run, &err), LIPSC_OK);
    for (int i = 0; i < stored; i++) assert_true(has(run, i));
    assert_int_equal(put(run, stored, &err), LIPSC_OK); /* there is room again */
    lipsc_run_close(run);
    assert_string_equal(ask(path, "PRAGMA integrity_check"), "ok");
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "chmod -R u+w %s; rm -rf %s", folder, folder);
    return system(command);
}

/* A setting that came later: files without it count as made with what is said of them. */
static void test_absent_setting(void **state) {
    (void)state;
    const char *path = path_of("first-edition.db");
    lipsc_error err;
    lipsc_run *run;
    assert_null(lipsc_run_settings(path, "measure"));
    assert_int_equal(open_run(path, same, &run, &err), LIPSC_OK);
    lipsc_run_close(run);
    json_t *stored = lipsc_run_settings(path, "measure");
    assert_string_equal(json_string_value(json_object_get(stored, "model_hash")), "ab12");
    json_decref(stored);
    assert_null(lipsc_run_settings(path, "attack"));
    for (int tiled = 0; tiled < 2; tiled++) {
        json_t *settings = json_loads(same, 0, NULL),
               *absent = json_pack("{s:b}", "tiled", 1);
        json_object_set_new(settings, "tiled", json_boolean(tiled));
        const lipsc_run_options options = {
            .command = "measure", .settings = settings, .absent = absent};
        assert_int_equal(lipsc_run_open(path, &options, &run, &err),
                         tiled ? LIPSC_OK : LIPSC_E_REFUSED);
        if (tiled) lipsc_run_close(run);
        if (!tiled) assert_non_null(strstr(err.text, "tiled is true there and false here"));
        json_decref(settings);
        json_decref(absent);
    }
    FILE *diary = fopen(path_of("diary"), "w");
    fputs("dear diary", diary);
    fclose(diary);
    assert_null(lipsc_run_settings(path_of("diary"), "measure"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_absent_setting), cmocka_unit_test(test_store_and_resume),
        cmocka_unit_test(test_read),           cmocka_unit_test(test_read_some),
        cmocka_unit_test(test_killed),         cmocka_unit_test(test_killed_while_created),
        cmocka_unit_test(test_two_processes),  cmocka_unit_test(test_other_settings),
        cmocka_unit_test(test_other_files),    cmocka_unit_test(test_read_only),
        cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
