/* made.h - a page of rows that no run file holds. */
#ifndef LIPSC_REPORT_MADE_H
#define LIPSC_REPORT_MADE_H

#include <jansson.h>

#include "lipscope/status.h"

/* head: `command`, `command_line` and `settings` as in a run file; it gets the rest of what
 * the page is told of a run.  count: 1 at least. */
lipsc_status lipsc_report_made(json_t *head, size_t count, json_t *const *rows,
                               const char *path, lipsc_error *err);

#endif
