/* changes.h - what differs between the first run of a page and each of the others. */
#ifndef LIPSC_REPORT_CHANGES_H
#define LIPSC_REPORT_CHANGES_H

#include <jansson.h>

#include "lipscope/run.h"

/* A list of the changes of compare.h, each with `of`, the number of the second run.  Runs
 * that have nothing in common have none.  NULL when memory is short. */
json_t *lipsc_report_changes(size_t count, const lipsc_rows_file *files);

#endif
