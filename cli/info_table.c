/* info_table.c - a model, and the tensors of a file, as tables. */
#include "info_table.h"

#include <string.h>

#include "screen.h"

/* t NULL: memory was short. */
static int finish(const cli_command *self, lipsc_table *t) {
    lipsc_error err;
    if (!t) return cli_failure(self, "%s", lipsc_strerror(LIPSC_E_NOMEM));
    const lipsc_status status = lipsc_table_end(t, &err);
    lipsc_table_free(t);
    return status ? cli_failure(self, "%s", err.text) : CLI_DONE;
}

/* ---- Tensors ------------------------------------------------------------------------ */

static int one_file(const lipsc_stored_rows *rows) {
    for (size_t i = 1; i < rows->count; i++)
        if (strcmp(rows->at[i].file, rows->at[0].file)) return 0;
    return rows->count > 0;
}

/* A file that holds them all is named once. */
static int show_tensors(const cli_command *self, const lipsc_stored_rows *rows) {
    static const cli_grid_column shown[] = {{"tensor", CLI_LEFT},
                                            {"dtype", CLI_LEFT},
                                            {"shape", CLI_LEFT},
                                            {"size", CLI_RIGHT},
                                            {"file", CLI_LEFT}};
    const cli_screen screen = cli_screen_open();
    const int one = one_file(rows);
    cli_grid *g = cli_grid_new(sizeof shown / sizeof *shown - (one ? 1 : 0), shown);
    char size[CLI_NUMBER];
    if (one) cli_say(&screen, "%s: %zu tensors\n", rows->at[0].file, rows->count);
    if (one) putchar('\n');
    for (size_t i = 0; i < rows->count; i++) {
        const lipsc_stored_row *row = &rows->at[i];
        cli_grid_text(g, "%s", row->tensor);
        cli_grid_text(g, "%s", row->dtype);
        cli_grid_text(g, "%s", row->shape);
        cli_grid_text(g, "%s", cli_bytes((double)row->bytes, size));
        if (!one) cli_grid_text(g, "%s", row->file);
    }
    const lipsc_status status = cli_grid_print(&screen, g, 1);
    cli_grid_free(g);
    return status ? cli_failure(self, "%s", lipsc_strerror(status)) : CLI_DONE;
}

int info_tensors_print(const cli_command *self, lipsc_format format,
                       const lipsc_stored_rows *rows) {
    enum { MOST = 8 };
    lipsc_column columns[MOST];
    if (format == LIPSC_FORMAT_TABLE) return show_tensors(self, rows);
    const size_t count = lipsc_table_columns(lipsc_stored_fields(), 0, format, columns);
    lipsc_table *t =
        lipsc_table_new(self->name, format, LIPSC_LAYOUT_WIDE, stdout, count, columns);
    for (size_t i = 0; t && i < rows->count; i++)
        lipsc_table_record(t, lipsc_stored_fields(), &rows->at[i]);
    return finish(self, t);
}

/* ---- The model ---------------------------------------------------------------------- */

/* "3.16 million" */
static const char *many(double count, char text[CLI_NUMBER]) {
    static const char *const names[] = {"", " thousand", " million", " billion",
                                        " trillion"};
    char digits[CLI_NUMBER];
    size_t unit = 0;
    while (count >= 999.5 && unit + 1 < sizeof names / sizeof *names)
        count /= 1000.0, unit++;
    snprintf(text, CLI_NUMBER, "%.19s%s", cli_digits(count, 3, digits), names[unit]);
    return text;
}

/* For people two large numbers are in words. */
typedef struct {
    lipsc_about about;
    const char *parameters, *memory;
} told;

static lipsc_fields in_words(lipsc_field *room) {
    const lipsc_fields all = lipsc_about_fields();
    memcpy(room, all.at, all.count * sizeof *room);
    for (size_t i = 0; i < all.count; i++) {
        const int parameters = !strcmp(room[i].name, "parameters");
        if (!parameters && strcmp(room[i].name, "memory")) continue;
        room[i].kind = LIPSC_FIELD_TEXT;
        room[i].offset = parameters ? offsetof(told, parameters) : offsetof(told, memory);
    }
    return (lipsc_fields){all.count, room};
}

int info_model_print(const cli_command *self, lipsc_format format,
                     const lipsc_about *about) {
    enum { MOST = 32 };
    char many_words[CLI_NUMBER], bytes[CLI_NUMBER];
    lipsc_column columns[MOST];
    lipsc_field room[MOST];
    const told all = {*about, many((double)about->parameters, many_words),
                      cli_bytes((double)about->memory, bytes)};
    const lipsc_fields fields =
        format == LIPSC_FORMAT_TABLE ? in_words(room) : lipsc_about_fields();
    const size_t count = lipsc_table_columns(fields, 0, format, columns);
    lipsc_table *t =
        lipsc_table_new(self->name, format, LIPSC_LAYOUT_UPRIGHT, stdout, count, columns);
    if (t) lipsc_table_record(t, fields, &all);
    return finish(self, t);
}
