/* field.h - what a record is made of: a list of fields that describes a struct.
 *
 * Whatever shows, stores, reads or documents a record goes through such a list and knows
 * nothing of the struct: tables, TSV, JSON, the run file and its view, docs/row.md.
 *
 * A member that has no value holds its kind's empty value, and is null in JSON:
 *
 *     TEXT   const char *    NULL
 *     COUNT  size_t          LIPSC_NONE
 *     WHOLE  long long       LIPSC_NO_WHOLE
 *     REAL   double          not finite
 *     FLAG   int             negative
 *     REALS  lipsc_reals     .at NULL; items that are not finite are null in the list */
#ifndef LIPSC_ROW_FIELD_H
#define LIPSC_ROW_FIELD_H

#include <jansson.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "core/pool.h"
#include "lipscope.h"

#define LIPSC_NONE     SIZE_MAX
#define LIPSC_NO_WHOLE LLONG_MIN

typedef struct {
    size_t count;
    const double *at;
} lipsc_reals;

typedef enum {
    LIPSC_FIELD_TEXT,
    LIPSC_FIELD_COUNT,
    LIPSC_FIELD_WHOLE,
    LIPSC_FIELD_REAL,
    LIPSC_FIELD_FLAG,
    LIPSC_FIELD_REALS
} lipsc_field_kind;

typedef struct {
    const char *name;
    lipsc_field_kind kind;
    size_t offset;    /* of the member in its struct                                    */
    unsigned part;    /* 0: in every record, else the bit of the part that it belongs to */
    int shown;        /* in tables for people, which have no room for what is the same in
                       * every row or said twice                                        */
    const char *unit; /* "", or what its numbers count                                */
    const char *says; /* one line on what it is                                       */
} lipsc_field;

typedef struct {
    size_t count;
    const lipsc_field *at;
} lipsc_fields;

/* A list of fields is a macro of lines X(member, kind, part, shown, unit, what it says).
 * LIPSC_FIELD_MEMBER makes the struct of it, LIPSC_FIELD_ENTRY the list, in a file where
 * `record` is that struct. */
typedef const char *lipsc_type_TEXT;
typedef size_t lipsc_type_COUNT;
typedef long long lipsc_type_WHOLE;
typedef double lipsc_type_REAL;
typedef int lipsc_type_FLAG;
typedef lipsc_reals lipsc_type_REALS;
#define LIPSC_FIELD_MEMBER(name, kind, part, shown, unit, says) lipsc_type_##kind name;
#define LIPSC_FIELD_ENTRY(name, kind, part, shown, unit, says) \
    {#name, LIPSC_FIELD_##kind, offsetof(record, name), part, shown, unit, says},

/* names: room for all of them. */
void lipsc_fields_names(lipsc_fields fields, const char **names);

/* Every member empty. */
void lipsc_fields_clear(lipsc_fields fields, void *record);

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
