/* rows.h - records on standard output in the format that was asked for: their columns come
 * from their list of fields.
 *
 *     cli_rows rows;
 *     cli_rows_begin(&rows, self, &common, LIPSC_LAYOUT_WIDE, lipsc_change_fields(), 0);
 *     for (size_t i = 0; i < count; i++) cli_rows_add(&rows, &changes[i]);
 *     return cli_rows_end(&rows); */
#ifndef LIPSC_CLI_ROWS_H
#define LIPSC_CLI_ROWS_H

#include "args.h"

enum { CLI_MOST_COLUMNS = 64 };

typedef struct {
    const cli_command *self;
    lipsc_fields fields;
    lipsc_table *table; /* takes further members of the JSON object */
    lipsc_column columns[CLI_MOST_COLUMNS];
} cli_rows;

/* parts: of the fields, as lipsc_table_columns takes them. */
void cli_rows_begin(cli_rows *rows, const cli_command *self, const cli_common *common,
                    lipsc_layout layout, lipsc_fields fields, unsigned parts);
void cli_rows_add(cli_rows *rows, const void *record);
/* Prints them.  CLI_DONE, or CLI_FAILED after a sentence. */
int cli_rows_end(cli_rows *rows);

/* A list of fields that stands in the file, with its number. */
#define CLI_FIELDS(list) ((lipsc_fields){sizeof(list) / sizeof *(list), list})

#endif
