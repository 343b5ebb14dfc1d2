/* merge.h - several run files of one sweep become one. */
#ifndef LIPSC_RUN_MERGE_H
#define LIPSC_RUN_MERGE_H

#include "lipscope.h"

typedef struct {
    size_t added;  /* cells that were not there */
    size_t shared; /* cells that several files, or the result before, had alike */
} lipsc_merged;

/* Joins the cells of `count` run files in the run file `out`, which is made, or is one of
 * the same settings and is added to.  Files of other commands, settings or newer schemas
 * are refused, damaged ones too, and a cell that two files know differently (but for its
 * seconds and the version): nothing of `out` has changed then.  line: as typed, for a new
 * file; may be NULL. */
lipsc_status lipsc_run_merge(size_t count, const char *const *paths, const char *out,
                             const char *line, lipsc_merged *merged, lipsc_error *err);

#endif
