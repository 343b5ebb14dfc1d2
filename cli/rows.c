/* rows.c - records on standard output in the format that was asked for. */
#include "rows.h"

void cli_rows_begin(cli_rows *rows, const cli_command *self, const cli_common *common,
                    lipsc_layout layout, lipsc_fields fields, unsigned parts) {
    const lipsc_format format = (lipsc_format)common->format;
    const size_t count = lipsc_table_columns(fields, parts, format, rows->columns);
    rows->self = self;
    rows->fields = fields;
    rows->table = lipsc_table_new(self->name, format, layout, stdout, count, rows->columns);
}

void cli_rows_add(cli_rows *rows, const void *record) {
    lipsc_table_record(rows->table, rows->fields, record);
}

int cli_rows_end(cli_rows *rows) {
    lipsc_error err;
    const lipsc_status status = lipsc_table_end(rows->table, &err);
    lipsc_table_free(rows->table);
    return status ? cli_failure(rows->self, "%s", err.text) : CLI_DONE;
}
