/* run.h - the run file: one SQLite database that keeps what a long run has finished.
 *
 * A cell is a text key with a row.  Each is stored in a transaction of its own: the process
 * may be killed at any moment and every cell stored before is there.  The same settings
 * open the file again; other ones are refused, because rows that were not computed alike
 * must not stand in one file.
 *
 *     table run      one row: schema, version, created, command, command_line, settings
 *     table cells    key, created, version, row (JSON)
 *     table windows  model_hash, text_hash, special, start, n, after, tokens (JSON): the
 *                    texts of the longest window of this start; one of n tokens has the
 *                    first n - after of them and the last `after`
 *     view results   key and the fields of the rows as columns, for people with SQL
 *
 * study.h writes such files; these functions are for whoever reads them, and for programs
 * with a loop of their own. */
#ifndef LIPSCOPE_RUN_H
#define LIPSCOPE_RUN_H

#include "lipscope/row.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Reading ----------------------------------------------------------------------- */

typedef struct {
    size_t count;
    const lipsc_row *rows;    /* in the order of their keys                              */
    const char *command;      /* that made it: "measure"                                 */
    const char *command_line; /* as typed, or NULL                                      */
    const char *created, *version;
    const char *settings; /* all that decided the values, a JSON object as text        */
    uint64_t seed;        /* of the settings, or 1                                     */
    void *storage;
} lipsc_rows_file;

/* All that a run file holds at one moment.  Only looks: another process may be writing.  A
 * row that cannot be read is an error.  Of an attack's rows, which are no rows of cells, n
 * and sigma are taken.  Close it either way. */
LIPSC_API lipsc_status lipsc_rows_file_open(const char *path, lipsc_rows_file *out,
                                            lipsc_error *err);
LIPSC_API void lipsc_rows_file_close(lipsc_rows_file *file);

/* ---- Writing ----------------------------------------------------------------------- */

typedef struct lipsc_run lipsc_run;

/* Opens or creates.  settings: a JSON object as text, all that decides the values. Refused,
 * with the file left as it was: a file that is no run file, one of a newer schema, of
 * another command or other settings (the sentence names the setting and both values), one
 * that cannot be written, and one that another process has open: a lock on PATH-lock says
 * so, which the system takes back however a process ends. */
LIPSC_API lipsc_status lipsc_run_begin(const char *path, const char *command,
                                       const char *command_line, const char *settings,
                                       lipsc_run **out, lipsc_error *err);
LIPSC_API void lipsc_run_close(lipsc_run *run);

/* Cells that are stored. */
LIPSC_API lipsc_status lipsc_run_count(lipsc_run *run, size_t *count, lipsc_error *err);

/* Stores a cell, or replaces the one of the same key.  When it returns LIPSC_OK the cell
 * survives the end of this process; when it fails (a full disk) nothing has changed. */
LIPSC_API lipsc_status lipsc_run_put_row(lipsc_run *run, const char *key,
                                         const lipsc_row *row, lipsc_error *err);

/* *there, and *row when the cell is stored; its texts and lists go into the pool. */
LIPSC_API lipsc_status lipsc_run_get_row(lipsc_run *run, const char *key, lipsc_pool *pool,
                                         int *there, lipsc_row *row, lipsc_error *err);

/* ---- Joining ----------------------------------------------------------------------- */

typedef struct {
    size_t added;  /* cells that were not there */
    size_t shared; /* cells that several files, or the result before, had alike */
} lipsc_merged;

/* Joins the cells of `count` run files in the run file `out`, which is made, or is one of
 * the same settings and is added to.  Files of other commands, settings or newer schemas
 * are refused, damaged ones too, and a cell that two files know differently (but for its
 * seconds and the version): nothing of `out` has changed then.  line: as typed, for a new
 * file; may be NULL. */
LIPSC_API lipsc_status lipsc_run_merge(size_t count, const char *const *paths,
                                       const char *out, const char *line,
                                       lipsc_merged *merged, lipsc_error *err);

#ifdef __cplusplus
}
#endif
#endif
