/* reproduce/print.c - what `reproduce` leaves behind: tables in its folder, a report, and
 * on standard output paragraphs and the closing table. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "out/table.h"
#include "reproduce.h"

/* ---- Rows to tables ------------------------------------------------------------------ */

#define COUNT(array) (sizeof array / sizeof *array)

static const lipsc_column line_columns[] = {
    {"section", LIPSC_COLUMN_STRING}, {"name", LIPSC_COLUMN_STRING},
    {"source", LIPSC_COLUMN_STRING},  {"claim", LIPSC_COLUMN_STRING},
    {"origin", LIPSC_COLUMN_STRING},  {"measured", LIPSC_COLUMN_STRING},
    {"holds", LIPSC_COLUMN_STRING},   {"hypothesis", LIPSC_COLUMN_STRING},
    {"unmet", LIPSC_COLUMN_STRING},   {"promised", LIPSC_COLUMN_REAL},
    {"value", LIPSC_COLUMN_REAL},     {"says", LIPSC_COLUMN_STRING}};

static const lipsc_column curve_columns[] = {
    {"experiment", LIPSC_COLUMN_STRING}, {"model", LIPSC_COLUMN_STRING},
    {"layer", LIPSC_COLUMN_INTEGER},     {"map", LIPSC_COLUMN_STRING},
    {"mask", LIPSC_COLUMN_STRING},       {"n", LIPSC_COLUMN_INTEGER},
    {"window", LIPSC_COLUMN_INTEGER},    {"sigma", LIPSC_COLUMN_REAL},
    {"released", LIPSC_COLUMN_REAL},     {"upper", LIPSC_COLUMN_REAL},
    {"radius_rms", LIPSC_COLUMN_REAL},   {"radius_max", LIPSC_COLUMN_REAL},
    {"residual", LIPSC_COLUMN_REAL},     {"converged", LIPSC_COLUMN_BOOL},
    {"start", LIPSC_COLUMN_INTEGER}};

static const lipsc_column worst_columns[] = {
    {"experiment", LIPSC_COLUMN_STRING}, {"mask", LIPSC_COLUMN_STRING},
    {"radius", LIPSC_COLUMN_REAL},       {"n", LIPSC_COLUMN_INTEGER},
    {"sigma", LIPSC_COLUMN_REAL},        {"best_construction", LIPSC_COLUMN_REAL},
    {"upper", LIPSC_COLUMN_REAL},        {"upper_paper", LIPSC_COLUMN_REAL}};

static const lipsc_column fit_columns[] = {
    {"experiment", LIPSC_COLUMN_STRING},  {"model", LIPSC_COLUMN_STRING},
    {"map", LIPSC_COLUMN_STRING},         {"layer", LIPSC_COLUMN_INTEGER},
    {"value", LIPSC_COLUMN_STRING},       {"against", LIPSC_COLUMN_STRING},
    {"exponent", LIPSC_COLUMN_REAL},      {"exponent_low", LIPSC_COLUMN_REAL},
    {"exponent_high", LIPSC_COLUMN_REAL}, {"coefficient", LIPSC_COLUMN_REAL},
    {"law", LIPSC_COLUMN_BOOL},           {"lack_of_fit", LIPSC_COLUMN_REAL},
    {"lengths", LIPSC_COLUMN_INTEGER},    {"starts", LIPSC_COLUMN_INTEGER}};

static void fill(lipsc_table *t, const lipsc_column *column, const json_t *value) {
    if (column->kind == LIPSC_COLUMN_STRING && json_is_string(value))
        lipsc_table_string(t, column->name, json_string_value(value));
    if (column->kind == LIPSC_COLUMN_INTEGER && json_is_integer(value))
        lipsc_table_integer(t, column->name, json_integer_value(value));
    if (column->kind == LIPSC_COLUMN_REAL && json_is_number(value))
        lipsc_table_real(t, column->name, json_number_value(value));
    if (column->kind == LIPSC_COLUMN_BOOL && json_is_boolean(value))
        lipsc_table_bool(t, column->name, json_is_true(value));
}

/* The rows that have the field `with`; fits may be NULL. */
static lipsc_status print(FILE *to, lipsc_format format, size_t columns,
                          const lipsc_column *column, const json_t *rows, const char *with,
                          json_t *fits, lipsc_error *err) {
    lipsc_table *t =
        lipsc_table_new("reproduce", format, LIPSC_LAYOUT_WIDE, to, columns, column);
    const json_t *row;
    size_t i;
    if (!t) return LIPSC_E_NOMEM;
    json_array_foreach(rows, i, row) {
        if (with && !json_object_get(row, with)) continue;
        lipsc_table_row(t);
        for (size_t c = 0; c < columns; c++)
            fill(t, &column[c], json_object_get(row, column[c].name));
    }
    if (fits) lipsc_table_member(t, "fits", json_incref(fits));
    const lipsc_status status = lipsc_table_end(t, err);
    lipsc_table_free(t);
    return status;
}

static int write_table(repro *r, const char *name, size_t columns,
                       const lipsc_column *column, const json_t *rows, const char *with) {
    char path[4400];
    lipsc_error err = {.text = "out of memory"};
    snprintf(path, sizeof path, "%s/%s", r->set->out, name);
    FILE *to = fopen(path, "wb");
    if (!to) return cli_failure(r->self, "%s: cannot write it: %s", path, strerror(errno));
    lipsc_status status =
        print(to, LIPSC_FORMAT_TSV, columns, column, rows, with, NULL, &err);
    if (fclose(to) && !status) {
        status = LIPSC_E_IO;
        snprintf(err.text, sizeof err.text, "cannot write it");
    }
    return status ? cli_failure(r->self, "%s: %s", path, err.text) : CLI_RUN;
}

/* ---- Lines in their order ------------------------------------------------------------ */

static int by_order(const void *a, const void *b) {
    const json_int_t x = json_integer_value(json_object_get(*(json_t *const *)a, "order"));
    const json_int_t y = json_integer_value(json_object_get(*(json_t *const *)b, "order"));
    return (x > y) - (x < y);
}

static json_t *lines_of(const json_t *rows) {
    const size_t all = json_array_size(rows);
    json_t **found = lipsc_alloc(all, sizeof *found), *lines = json_array();
    size_t count = 0;
    for (size_t i = 0; found && i < all; i++)
        if (json_object_get(json_array_get(rows, i), "claim"))
            found[count++] = json_array_get(rows, i);
    if (count) qsort(found, count, sizeof *found, by_order);
    for (size_t i = 0; i < count; i++) json_array_append(lines, found[i]);
    lipsc_release(found);
    return lines;
}

static const char *text(const json_t *row, const char *name) {
    const char *value = json_string_value(json_object_get(row, name));
    return value ? value : "";
}

static size_t count_lines(const json_t *lines, repro_source source, const char *holds) {
    size_t count = 0, i;
    const json_t *line;
    json_array_foreach(lines, i, line) count +=
        !strcmp(text(line, "source"), repro_source_name(source)) &&
        !strcmp(text(line, "holds"), holds);
    return count;
}

/* ---- For people ---------------------------------------------------------------------- */

static void paragraph(const char *words) {
    int at = 0;
    while (*words) {
        const int length = (int)strcspn(words, " ");
        if (at && at + 1 + length > 79) {
            putchar('\n');
            at = 0;
        }
        at += printf("%s%.*s", at ? " " : "", length, words);
        words += length;
        words += strspn(words, " ");
    }
    printf("\n\n");
}

/* "theorem of the paper      12 hold, 0 do not, 3 not judged" */
static void print_counts(const json_t *lines) {
    for (int s = REPRO_PAPER_THEOREM; s <= REPRO_REGRESSION; s++)
        printf("%-21s  %3zu hold, %zu do not, %zu not judged\n",
               repro_source_name((repro_source)s),
               count_lines(lines, (repro_source)s, "yes"),
               count_lines(lines, (repro_source)s, "no"),
               count_lines(lines, (repro_source)s, "not judged"));
}

/* Two lines for each: one of all columns would be wider than any screen. */
static void print_people(repro *r, const json_t *lines) {
    const json_t *line;
    size_t i;
    json_array_foreach(lines, i, line) {
        if (*text(line, "says")) paragraph(text(line, "says"));
    }
    printf("%-10s  %-7s  %-21s  claim\n%-10s  %-7s  %-21s  where it stands -> measured\n\n",
           "holds", "section", "source", "", "", "");
    json_array_foreach(lines, i, line) {
        printf("%-10s  %-7s  %-21s  %s\n", text(line, "holds"), text(line, "section"),
               text(line, "source"), text(line, "claim"));
        printf("%-10s  %-7s  %-21s  %s -> %s\n", "", "", "", text(line, "origin"),
               text(line, "measured"));
    }
    putchar('\n');
    print_counts(lines);
    if (r->set->quick)
        printf(
            "The quick form shows that everything runs and draws no conclusions: `no` is a "
            "counterexample, nothing is confirmed.\n");
    printf("In %s: report.html, claims.tsv, fits.tsv, curves.tsv, constructions.tsv.\n",
           r->set->out);
}

static int conclude(repro *r, const json_t *lines) {
    const json_t *line;
    size_t i, failed = 0;
    json_array_foreach(lines, i, line) {
        if (!strcmp(text(line, "source"), repro_source_name(REPRO_PAPER_FIGURE)) ||
            strcmp(text(line, "holds"), "no"))
            continue;
        cli_failure(r->self, "%s does not hold: %s (%s)", text(line, "name"),
                    text(line, "claim"), text(line, "measured"));
        failed++;
    }
    if (failed) return CLI_FAILED;
    if (!r->loose) return CLI_DONE;
    if (!r->set->common.quiet) cli_failure(r->self, "%d values did not converge", r->loose);
    return CLI_NOT_CONVERGED;
}

int repro_print(repro *r, const json_t *rows) {
    const lipsc_format format = (lipsc_format)r->set->common.format;
    lipsc_error err = {.text = "out of memory"};
    json_t *lines = lines_of(rows);
    int code = write_table(r, "claims.tsv", COUNT(line_columns), line_columns, lines, NULL);
    if (code == CLI_RUN)
        code = write_table(r, "curves.tsv", COUNT(curve_columns), curve_columns, rows,
                           "converged");
    if (code == CLI_RUN)
        code = write_table(r, "constructions.tsv", COUNT(worst_columns), worst_columns,
                           rows, "best_construction");
    if (code == CLI_RUN && json_array_size(r->fits)) /* none without the part `text` */
        code = write_table(r, "fits.tsv", COUNT(fit_columns), fit_columns, r->fits, NULL);
    if (code == CLI_RUN) {
        lipsc_status status = LIPSC_OK;
        if (format == LIPSC_FORMAT_TABLE)
            print_people(r, lines);
        else
            status = print(stdout, format, COUNT(line_columns), line_columns, lines, NULL,
                           r->fits, &err);
        code = status ? cli_failure(r->self, "%s", err.text) : conclude(r, lines);
    }
    json_decref(lines);
    return code;
}
