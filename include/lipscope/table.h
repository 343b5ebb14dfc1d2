/* table.h - rows of results, printed as a table for people, as TSV or as JSON.
 *
 * A table knows its columns (name and kind) and nothing else of what they mean.  A cell
 * that was never set, or was set to a NaN or an infinity, is null: "-" in a table, empty in
 * TSV, null in JSON.  Numbers do not depend on the locale as long as the program never
 * calls setlocale, which it does not.
 *
 *     table    aligned, 6 significant digits, columns named upper... rounded up, lower down
 *     tsv      one header line, 17 significant digits, lists joined by commas;
 *              backslash, tab and newline in a string become \\ \t \n
 *     json     {"lipscope": VERSION, "schema": 1, "command": NAME, "rows": [...], ...} */
#ifndef LIPSCOPE_TABLE_H
#define LIPSCOPE_TABLE_H

#include <stdio.h>

#include "lipscope/row.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { LIPSC_FORMAT_TABLE = 0, LIPSC_FORMAT_TSV, LIPSC_FORMAT_JSON } lipsc_format;

typedef enum {
    LIPSC_COLUMN_STRING,
    LIPSC_COLUMN_INTEGER,
    LIPSC_COLUMN_REAL,
    LIPSC_COLUMN_BOOL,
    LIPSC_COLUMN_REALS /* a list of reals */
} lipsc_column_kind;

typedef struct {
    const char *name;
    lipsc_column_kind kind;
} lipsc_column;

/* How the format `table` lays rows out; the other formats ignore it. */
typedef enum {
    LIPSC_LAYOUT_WIDE,   /* a line per row under one header line      */
    LIPSC_LAYOUT_UPRIGHT /* a line per cell: for few rows of many columns */
} lipsc_layout;

typedef struct lipsc_table lipsc_table;

/* NULL when memory is short, which the others take: lipsc_table_end then says so.  columns
 * and command are kept, not copied. */
LIPSC_API lipsc_table *lipsc_table_new(const char *command, lipsc_format format,
                                       lipsc_layout layout, FILE *to, size_t count,
                                       const lipsc_column *columns);
LIPSC_API void lipsc_table_free(lipsc_table *table);

/* Begins a row; its cells are null until set.  The setters fill the newest row; a name
 * that is not a column is a mistake of the program and is reported by the end. */
LIPSC_API void lipsc_table_row(lipsc_table *table);
LIPSC_API void lipsc_table_string(lipsc_table *table, const char *column,
                                  const char *value);
LIPSC_API void lipsc_table_integer(lipsc_table *table, const char *column, long long value);
LIPSC_API void lipsc_table_real(lipsc_table *table, const char *column, double value);
LIPSC_API void lipsc_table_bool(lipsc_table *table, const char *column, int value);
LIPSC_API void lipsc_table_reals(lipsc_table *table, const char *column, size_t count,
                                 const double *values);

/* A row from a record: of its fields those that are columns. */
LIPSC_API void lipsc_table_record(lipsc_table *table, lipsc_fields fields,
                                  const void *record);

/* The columns of a table from a list of fields: of every record or of the parts asked for,
 * and for people those that are shown.  columns: room for all of them.  Returns how many.
 */
LIPSC_API size_t lipsc_table_columns(lipsc_fields fields, unsigned parts,
                                     lipsc_format format, lipsc_column *columns);

/* Further members of the JSON object, behind "rows"; the other formats do not show them:
 * the fields of a record one by one, */
LIPSC_API void lipsc_table_members(lipsc_table *table, lipsc_fields fields,
                                   const void *record);
/* one object (NULL: null), */
LIPSC_API void lipsc_table_object(lipsc_table *table, const char *name, lipsc_fields fields,
                                  const void *record);
/* or a list of records of `size` bytes each. */
LIPSC_API void lipsc_table_list(lipsc_table *table, const char *name, lipsc_fields fields,
                                size_t count, size_t size, const void *records);

/* Prints what is ready: rows of `table` and `tsv` need not wait for the end. */
LIPSC_API void lipsc_table_flush(lipsc_table *table);

/* Prints the rest.  LIPSC_E_NOMEM or LIPSC_E_ARG when a cell could not be stored,
 * LIPSC_E_IO when it could not be written. */
LIPSC_API lipsc_status lipsc_table_end(lipsc_table *table, lipsc_error *err);

/* Somebody else's text, with escapes for what would disturb a terminal. */
LIPSC_API void lipsc_put_plain(FILE *to, const char *text);

#ifdef __cplusplus
}
#endif
#endif
