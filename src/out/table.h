/* table.h - a table with a member that is JSON already. */
#ifndef LIPSC_OUT_TABLE_H
#define LIPSC_OUT_TABLE_H

#include <jansson.h>

#include "lipscope/table.h"
#include "row/field.h"

/* A further member of the JSON object; takes over the reference. */
void lipsc_table_member(lipsc_table *table, const char *name, json_t *value);

#endif
