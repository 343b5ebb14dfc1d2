/* run.h - the run file with rows of any kind, as JSON (lipscope/run.h has those of cells).
 */
#ifndef LIPSC_RUN_RUN_H
#define LIPSC_RUN_RUN_H

#include <jansson.h>

#include "lipscope/run.h"

/* Names a setting that decides no value, an object: files that differ in it go together. */
#define LIPSC_RUN_TOLD "told"

typedef struct {
    const char *command;       /* "measure"                                          */
    const char *command_line;  /* as typed, for people; NULL: not known               */
    const json_t *settings;    /* object: all that decides the values, and under      */
                               /* LIPSC_RUN_TOLD what is kept for people              */
    const json_t *absent;      /* NULL, or settings that older files lack, with what */
                               /* those were made with                               */
    size_t field_count;        /* of a row, for the view `results`                   */
    const char *const *fields; /* letters, digits and underscores                    */
} lipsc_run_options;

/* Opens or creates.  Refused, with the file left as it was: a file that is no run file,
 * one of a newer schema, of another command or other settings (the sentence names the
 * setting and both values), one that cannot be written, and one that another process has
 * open: a lock on PATH-lock says so, which the system takes back however a process ends. */
lipsc_status lipsc_run_open(const char *path, const lipsc_run_options *options,
                            lipsc_run **out, lipsc_error *err);

/* The settings of the run file at path (json_decref them), before it is opened: some may be
 * taken over.  NULL when there is no such file or it is no run file of this command, which
 * lipsc_run_open then says. */
json_t *lipsc_run_settings(const char *path, const char *command);

/* lipsc_run_put_row of any object. */
lipsc_status lipsc_run_put(lipsc_run *run, const char *key, const json_t *row,
                           lipsc_error *err);

/* *row is the stored row (json_decref it), or NULL when there is no such cell. */
lipsc_status lipsc_run_get(lipsc_run *run, const char *key, json_t **row, lipsc_error *err);
/* Whether it is there, without reading it. */
lipsc_status lipsc_run_has(lipsc_run *run, const char *key, int *there, lipsc_error *err);

/* All that a run file holds at one moment, for somebody who only looks: no lock is taken,
 * and another process may be writing.  *head is an object with version, created, command,
 * command_line (or null), settings and schema, *rows an array of the rows in the order of
 * their keys; json_decref both. */
lipsc_status lipsc_run_read(const char *path, json_t **head, json_t **rows,
                            lipsc_error *err);
/* The same of at most about `most` rows: where there are more, the rows of every k-th
 * window, with all their lengths and layers; *head then also has cells, the number of all,
 * and every, the k. */
lipsc_status lipsc_run_read_some(const char *path, size_t most, json_t **head,
                                 json_t **rows, lipsc_error *err);

#endif
