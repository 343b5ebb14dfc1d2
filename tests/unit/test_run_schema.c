/* test_run_schema.c - what a run file brings with it, views and triggers, is not run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "run/run.h"

static const char path[] = "schema.db";

static lipsc_status open_run(lipsc_run **run, lipsc_error *err) {
    json_t *settings = json_pack("{s:i}", "seed", 1);
    static const char *const fields[] = {"n"};
    const lipsc_run_options options = {
        .command = "measure", .settings = settings, .field_count = 1, .fields = fields};
    const lipsc_status status = lipsc_run_open(path, &options, run, err);
    json_decref(settings);
    return status;
}

static void put(lipsc_run *run, const char *key) {
    json_t *row = json_pack("{s:i}", "n", 1);
    assert_int_equal(lipsc_run_put(run, key, row, NULL), LIPSC_OK);
    json_decref(row);
}

/* A sound run of one cell, and then this. */
static void made_with(const char *sql) {
    lipsc_run *run;
    sqlite3 *db;
    remove(path);
    assert_int_equal(open_run(&run, NULL), LIPSC_OK);
    put(run, "first");
    lipsc_run_close(run);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void refused(const char *reason) {
    lipsc_error err = {.text = ""};
    json_t *head, *rows;
    alarm(60); /* these views have no end */
    assert_int_not_equal(lipsc_run_read(path, &head, &rows, &err), LIPSC_OK);
    alarm(0);
    if (!strstr(err.text, reason)) fail_msg("'%s' is not in '%s'", reason, err.text);
}

static void test_views(void **state) {
    (void)state;
    made_with(
        "DROP TABLE cells; CREATE VIEW cells AS WITH RECURSIVE c(x) AS (SELECT 1 UNION "
        "ALL SELECT x + 1 FROM c) SELECT x AS key, '{}' AS row FROM c");
    refused("cannot read: ");
    made_with("ALTER TABLE run RENAME TO was; CREATE VIEW run AS WITH RECURSIVE c(x) AS "
              "(SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT * FROM was WHERE "
              "(SELECT max(x) FROM c)");
    refused("cannot read: ");
    assert_int_equal(remove(path), 0);
}

static void test_triggers(void **state) {
    (void)state;
    lipsc_run *run;
    int there;
    made_with("CREATE TRIGGER gone AFTER INSERT ON cells BEGIN DELETE FROM cells; END");
    assert_int_equal(open_run(&run, NULL), LIPSC_OK);
    put(run, "second");
    assert_int_equal(lipsc_run_has(run, "first", &there, NULL), LIPSC_OK);
    assert_true(there);
    assert_int_equal(lipsc_run_has(run, "second", &there, NULL), LIPSC_OK);
    assert_true(there);
    lipsc_run_close(run);
    assert_int_equal(remove(path), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_triggers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
