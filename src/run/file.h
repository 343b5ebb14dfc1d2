/* file.h - what the files that work on a run file share; run.c says how it is kept. */
#ifndef LIPSC_RUN_FILE_H
#define LIPSC_RUN_FILE_H

#include <jansson.h>
#include <sqlite3.h>

#include "run/lock.h"
#include "run/run.h"

enum { LIPSC_RUN_ID = 0x4c697053 /* "LipS" */ };

struct lipsc_run {
    sqlite3 *db;
    sqlite3_stmt *put, *get;
    sqlite3_stmt *find_words, *put_words; /* words.c; NULL before they are needed */
    lipsc_lock lock;
    char *path;
};

/* Nothing is open yet; lipsc_run_close frees it.  NULL when memory is short. */
lipsc_run *lipsc_run_handle(const char *path);
/* flags of sqlite3_open_v2; with SQLITE_OPEN_URI as a file that nobody writes. */
lipsc_status lipsc_run_connect(lipsc_run *run, int flags, lipsc_error *err);
/* A run file of a schema that is known, or *fresh: an empty database. */
lipsc_status lipsc_run_recognise(lipsc_run *run, int *fresh, lipsc_error *err);

lipsc_status lipsc_run_execute(lipsc_run *run, const char *sql, const char *doing,
                               lipsc_error *err);
/* The row of a cell from its text, as SQLite gives it: NULL also when memory ran out. */
lipsc_status lipsc_run_cell(lipsc_run *run, const char *key, const unsigned char *text,
                            json_t **row, lipsc_error *err);
lipsc_status lipsc_run_prepare(lipsc_run *run, const char *sql, sqlite3_stmt **statement,
                               lipsc_error *err);
/* "PATH: cannot DOING: reason", with the system's reason where there is one. */
lipsc_status lipsc_run_fail(const lipsc_run *run, const char *doing, lipsc_error *err);

/* A run file that is only looked at, as it is at this moment; NULL on failure. */
lipsc_run *lipsc_run_look(const char *path, lipsc_error *err);
/* The object of lipsc_run_read. */
lipsc_status lipsc_run_head(lipsc_run *run, json_t **head, lipsc_error *err);

#endif
