/* rows_file.h - what the rest of the library may see of a run file as rows
 * (lipscope/run.h): the JSON that it was read from. */
#ifndef LIPSC_RUN_ROWS_FILE_H
#define LIPSC_RUN_ROWS_FILE_H

#include <jansson.h>

#include "lipscope/run.h"

/* As lipsc_rows_file_open, of at most about `most` rows: lipsc_run_read_some. */
lipsc_status lipsc_rows_file_open_some(const char *path, size_t most, lipsc_rows_file *out,
                                       lipsc_error *err);

/* k where only every k-th window was taken, else 1; and keeps but the windows that are
 * multiples of `every` (what has no window is kept);
 * lipsc_rows_file_stored still counts all. */
size_t lipsc_rows_file_every(const lipsc_rows_file *file);
void lipsc_rows_file_thin(lipsc_rows_file *file, size_t every);

/* As lipsc_run_read gives them; valid as long as the file. */
json_t *lipsc_rows_file_head(const lipsc_rows_file *file);
json_t *lipsc_rows_file_stored(const lipsc_rows_file *file, size_t i);
/* NULL where there is no such setting. */
const json_t *lipsc_rows_file_setting(const lipsc_rows_file *file, const char *name);

#endif
