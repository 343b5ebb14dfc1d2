/* print.h - what the three printers know of a table. */
#ifndef LIPSC_OUT_PRINT_H
#define LIPSC_OUT_PRINT_H

#include "out/table.h"

struct lipsc_table {
    const char *command;
    lipsc_format format;
    lipsc_layout layout;
    FILE *to;
    size_t count;
    const lipsc_column *columns;
    json_t *rows;    /* array of objects, members in the order of the columns */
    json_t *members; /* further members of the JSON object                     */
    size_t *width;   /* (count) of the format `table`                          */
    size_t printed;  /* rows that are out already                              */
    int header_out;
    lipsc_status status;
};

/* Both print the rows that are not out yet, the header first.  more: further rows may
 * come, so columns are made wide enough for any number. */
void lipsc_print_table(lipsc_table *table, int more);
void lipsc_print_tsv(lipsc_table *table);
void lipsc_print_json(lipsc_table *table);

#endif
