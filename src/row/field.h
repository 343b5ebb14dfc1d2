/* field.h - records, which a list of fields describes, on their way to and from JSON.
 *
 * Whatever shows, stores, reads or documents a record goes through such a list and knows
 * nothing of the struct: tables, TSV, JSON, the run file and its view, docs/row.md. */
#ifndef LIPSC_ROW_FIELD_H
#define LIPSC_ROW_FIELD_H

#include <jansson.h>

#include "core/pool.h"
#include "lipscope/row.h"

/* names: room for all of them. */
void lipsc_fields_names(lipsc_fields fields, const char **names);

/* The member as JSON, null where it is empty; NULL when memory is short. */
json_t *lipsc_field_json(const lipsc_field *field, const void *record);

/* The same of the member with this name; NULL when there is none. */
json_t *lipsc_fields_get(lipsc_fields fields, const void *record, const char *name);

/* The members of the parts asked for, as an object in the order of the list; NULL when
 * memory is short. */
json_t *lipsc_fields_json(lipsc_fields fields, const void *record, unsigned parts);

/* Back: members that the object lacks are empty, *parts are those of which a member is
 * there.  Texts and lists go into the pool.  LIPSC_E_FORMAT, with the name, for a value
 * that is not of its field's kind; members that are not in the list are ignored. */
lipsc_status lipsc_fields_read(lipsc_fields fields, const json_t *object, lipsc_pool *pool,
                               void *record, unsigned *parts, lipsc_error *err);

/* A text as JSON; bytes that are not UTF-8 become U+FFFD.  NULL gives null. */
json_t *lipsc_json_text(const char *text);
/* null where it is not finite */
json_t *lipsc_json_real(double x);

#endif
