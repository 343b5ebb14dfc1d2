/* reproduce_print.c - what `reproduce` leaves behind: a folder with tables and a page, and
 * on standard output paragraphs and the closing table. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "reproduce.h"
#include "screen.h"

/* ---- The folder ---------------------------------------------------------------------- */

int reproduce_folder(const cli_command *self, const char *path) {
    struct stat info;
    if (!mkdir(path, 0777)) return CLI_RUN;
    const int why = errno;
    if (!stat(path, &info) && S_ISDIR(info.st_mode)) return CLI_RUN;
    return cli_failure(self, "%s: cannot make this folder: %s", path,
                       why == EEXIST ? "a file of that name is there" : strerror(why));
}

/* ---- Rows to tables ------------------------------------------------------------------ */

/* Of the cells, more than which would say nothing here. */
static const lipsc_column curve_columns[] = {
    {"experiment", LIPSC_COLUMN_STRING}, {"model", LIPSC_COLUMN_STRING},
    {"layer", LIPSC_COLUMN_INTEGER},     {"map", LIPSC_COLUMN_STRING},
    {"mask", LIPSC_COLUMN_STRING},       {"n", LIPSC_COLUMN_INTEGER},
    {"window", LIPSC_COLUMN_INTEGER},    {"sigma", LIPSC_COLUMN_REAL},
    {"released", LIPSC_COLUMN_REAL},     {"upper", LIPSC_COLUMN_REAL},
    {"radius_rms", LIPSC_COLUMN_REAL},   {"radius_max", LIPSC_COLUMN_REAL},
    {"residual", LIPSC_COLUMN_REAL},     {"converged", LIPSC_COLUMN_BOOL},
    {"start", LIPSC_COLUMN_INTEGER}};

/* Records of `size` bytes each, all of their fields or some columns. */
typedef struct {
    const char *file;
    lipsc_fields fields;
    size_t count, size;
    const void *records;
    size_t column_count; /* 0: all */
    const lipsc_column *columns;
} sheet;

static lipsc_status print(FILE *to, lipsc_format format, const sheet *s,
                          const lipsc_claims *fits, lipsc_error *err) {
    enum { MOST = 24 };
    lipsc_column all[MOST];
    size_t count = s->column_count;
    if (!count) count = lipsc_table_columns(s->fields, LIPSC_CLAIM_SAYS, format, all);
    lipsc_table *t = lipsc_table_new("reproduce", format, LIPSC_LAYOUT_WIDE, to, count,
                                     s->column_count ? s->columns : all);
    if (!t) return LIPSC_E_NOMEM;
    for (size_t i = 0; i < s->count; i++)
        lipsc_table_record(t, s->fields, (const char *)s->records + i * s->size);
    if (fits)
        lipsc_table_list(t, "fits", lipsc_claim_fit_fields(), fits->fit_count,
                         sizeof *fits->fits, fits->fits);
    const lipsc_status status = lipsc_table_end(t, err);
    lipsc_table_free(t);
    return status;
}

static int write_table(const cli_command *self, const char *folder, const sheet *s) {
    char path[4400];
    lipsc_error err = {.text = "out of memory"};
    snprintf(path, sizeof path, "%s/%s", folder, s->file);
    FILE *to = fopen(path, "wb");
    if (!to) return cli_failure(self, "%s: cannot write it: %s", path, strerror(errno));
    lipsc_status status = print(to, LIPSC_FORMAT_TSV, s, NULL, &err);
    if (fclose(to) && !status) {
        status = LIPSC_E_IO;
        snprintf(err.text, sizeof err.text, "cannot write it");
    }
    return status ? cli_failure(self, "%s: %s", path, err.text) : CLI_RUN;
}

static int write_page(const cli_command *self, const char *folder, const char *run) {
    char page[4400];
    lipsc_error err;
    snprintf(page, sizeof page, "%s/report.html", folder);
    return lipsc_report_is_built() && lipsc_report_write(1, &run, page, &err)
               ? cli_failure(self, "%s", err.text)
               : CLI_RUN;
}

/* ---- For people ---------------------------------------------------------------------- */

static size_t count_lines(const lipsc_claims *c, lipsc_claim_source source,
                          const char *holds) {
    size_t count = 0;
    for (size_t i = 0; i < c->line_count; i++)
        count += !strcmp(c->lines[i].source, lipsc_claim_source_name(source)) &&
                 !strcmp(c->lines[i].holds, holds);
    return count;
}

/* "theorem of the paper      12 hold, 0 do not, 3 not judged" */
static void print_counts(const lipsc_claims *c) {
    for (int s = 0; s < LIPSC_CLAIM_SOURCES; s++)
        printf("%-21s  %3zu hold, %zu do not, %zu not judged\n",
               lipsc_claim_source_name((lipsc_claim_source)s),
               count_lines(c, (lipsc_claim_source)s, "yes"),
               count_lines(c, (lipsc_claim_source)s, "no"),
               count_lines(c, (lipsc_claim_source)s, "not judged"));
}

/* Three lines for each: one of all columns would be wider than any screen. */
static lipsc_status print_lines(const cli_screen *screen, const lipsc_claims *c) {
    static const cli_grid_column columns[] = {
        {"holds", CLI_LEFT},
        {"section", CLI_LEFT},
        {"claim, source: where it stands -> measured", CLI_LEFT}};
    cli_grid *g = cli_grid_new(sizeof columns / sizeof *columns, columns);
    for (size_t i = 0; i < c->line_count; i++) {
        const lipsc_claim_line *line = &c->lines[i];
        cli_grid_text(g, "%s", line->holds);
        cli_grid_text(g, "%s", line->section);
        cli_grid_text(g, "%s", line->claim);
        for (int empty = 0; empty < 2; empty++) cli_grid_text(g, "%s", "");
        cli_grid_text(g, "%s: %s", line->source, line->origin);
        for (int empty = 0; empty < 2; empty++) cli_grid_text(g, "%s", "");
        cli_grid_text(g, "-> %s", line->measured);
    }
    const lipsc_status status = cli_grid_print(screen, g, 1);
    cli_grid_free(g);
    return status;
}

static lipsc_status print_people(const reproduce_settings *s, const lipsc_claims *c) {
    const cli_screen screen = cli_screen_open();
    for (size_t i = 0; i < c->line_count; i++) {
        if (!c->lines[i].says) continue;
        cli_say(&screen, "%s", c->lines[i].says);
        putchar('\n');
    }
    const lipsc_status status = print_lines(&screen, c);
    putchar('\n');
    print_counts(c);
    if (s->set.quick)
        cli_say(&screen,
                "The quick form shows that everything runs and draws no conclusions: `no` "
                "is a counterexample, nothing is confirmed.");
    cli_say(&screen,
            "In %s: report.html, claims.tsv, fits.tsv, curves.tsv, constructions.tsv.",
            s->out);
    return status;
}

static int conclude(const cli_command *self, const reproduce_settings *s,
                    const lipsc_claims *c) {
    size_t failed = 0;
    for (size_t i = 0; i < c->line_count; i++) {
        const lipsc_claim_line *line = &c->lines[i];
        if (!strcmp(line->source, lipsc_claim_source_name(LIPSC_CLAIM_PAPER_FIGURE)) ||
            strcmp(line->holds, "no"))
            continue;
        cli_failure(self, "%s does not hold: %s (%s)", line->name, line->claim,
                    line->measured);
        failed++;
    }
    if (failed) return CLI_FAILED;
    if (!c->loose) return CLI_DONE;
    if (!s->common.quiet) cli_failure(self, "%zu values did not converge", c->loose);
    return CLI_NOT_CONVERGED;
}

int reproduce_print(const cli_command *self, const reproduce_settings *s,
                    const lipsc_claims *c) {
    const lipsc_format format = (lipsc_format)s->common.format;
    const sheet sheets[] = {{"claims.tsv", lipsc_claim_line_fields(), c->line_count,
                             sizeof *c->lines, c->lines, 0, NULL},
                            {"curves.tsv", lipsc_row_fields(), c->curve_count,
                             sizeof *c->curves, c->curves,
                             sizeof curve_columns / sizeof *curve_columns, curve_columns},
                            {"constructions.tsv", lipsc_claim_worst_fields(),
                             c->worst_count, sizeof *c->worst, c->worst, 0, NULL},
                            {"fits.tsv", lipsc_claim_fit_fields(), c->fit_count,
                             sizeof *c->fits, c->fits, 0, NULL}};
    const size_t files = c->fit_count ? 4 : 3; /* no fits without the part on text */
    lipsc_error err = {.text = "out of memory"};
    int code = CLI_RUN;
    for (size_t i = 0; i < files && code == CLI_RUN; i++)
        code = write_table(self, s->out, &sheets[i]);
    if (code != CLI_RUN) return code;
    if (format == LIPSC_FORMAT_TABLE ? print_people(s, c)
                                     : print(stdout, format, &sheets[0], c, &err))
        return cli_failure(self, "%s", err.text);
    const int verdict = conclude(self, s, c);
    code = write_page(self, s->out, s->set.run_file);
    return code == CLI_RUN ? verdict : code;
}
