/* rows_file.h - a run file as rows: what report and compare work with. */
#ifndef LIPSC_RUN_ROWS_FILE_H
#define LIPSC_RUN_ROWS_FILE_H

#include "row/row.h"

typedef struct {
    json_t *head;   /* as lipsc_run_read gives it  */
    json_t *stored; /* the rows as they are stored */
    size_t count;
    lipsc_row *rows; /* (count) the same as structs */
    lipsc_pool pool;
} lipsc_rows_file;

/* Only looks: another process may be writing.  A row that cannot be read is an error.  Of
 * an attack's rows, which are no rows of cells, n and sigma are taken.  Close it either
 * way. */
lipsc_status lipsc_rows_file_open(const char *path, lipsc_rows_file *out, lipsc_error *err);
void lipsc_rows_file_close(lipsc_rows_file *file);

uint64_t lipsc_rows_file_seed(const lipsc_rows_file *file); /* of its settings, or 1 */

#endif
