/* row.h - rows on their way to and from JSON. */
#ifndef LIPSC_ROW_ROW_H
#define LIPSC_ROW_ROW_H

#include "row/field.h"

/* -1, 0 or 1; LIPSC_NONE comes first. */
int lipsc_place_order(size_t a, size_t b);

/* A stored row.  Rows of the first edition do not say where their window starts: they were
 * tiled. */
lipsc_status lipsc_row_read(const json_t *object, lipsc_pool *pool, lipsc_row *row,
                            lipsc_error *err);
json_t *lipsc_row_json(const lipsc_row *row); /* NULL when memory is short */

#endif
