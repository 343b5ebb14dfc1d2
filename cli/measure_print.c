/* measure_print.c - finished cells as rows, with the growth laws fitted to them. */
#include "measure.h"

#include "core/mem.h"
#include "out/table.h"
#include "run/growth.h"

enum { MOST = MEASURE_FIELDS };

/* ---- Fits -------------------------------------------------------------------------- */

/* What the columns mean, and why there is no interval. */
static void say_fits(const lipsc_growths *laws) {
    const size_t starts = laws->at[0].starts;
    printf("\nexponent: the slope of ln(median sigma) against ln x over these lengths, "
           "with its 95 %% interval\n");
    if (starts < LIPSC_FIT_STARTS)
        printf("no intervals and no test of straightness: %zu starts have every "
               "length, they need %d\n",
               starts, LIPSC_FIT_STARTS);
}

static lipsc_status print_fits(const measure_job *job, const lipsc_growths *laws,
                               lipsc_error *err) {
    lipsc_column columns[MOST];
    const lipsc_fields fields = lipsc_growth_fields();
    size_t count = lipsc_table_columns(fields, 0, LIPSC_FORMAT_TABLE, columns);
    columns[count++] = (lipsc_column){"verdict", LIPSC_COLUMN_STRING};
    lipsc_table *t = lipsc_table_new(job->self->name, LIPSC_FORMAT_TABLE, LIPSC_LAYOUT_WIDE,
                                     stdout, count, columns);
    if (!t) return LIPSC_E_NOMEM;
    for (size_t i = 0; i < laws->count; i++) {
        lipsc_table_record(t, fields, &laws->at[i]);
        lipsc_table_string(t, "verdict", lipsc_growth_verdict(&laws->at[i]));
    }
    say_fits(laws);
    const lipsc_status status = lipsc_table_end(t, err);
    lipsc_table_free(t);
    return status;
}

/* ---- Together ---------------------------------------------------------------------- */

/* What is asked for: a table has no room for a column that is empty. */
static size_t choose_columns(const measure_settings *s, lipsc_column *columns) {
    const lipsc_format format = (lipsc_format)s->common.format;
    unsigned parts = measure_parts(s);
    if (format == LIPSC_FORMAT_TABLE && !s->upper && !(s->certify.eps > 0.0))
        parts &= ~(unsigned)LIPSC_PART_UPPER;
    return lipsc_table_columns(lipsc_row_fields(), parts, format, columns);
}

static int print(const measure_job *job, size_t row_count, const lipsc_row *const *rows) {
    const lipsc_format format = (lipsc_format)job->set->common.format;
    lipsc_column columns[MOST];
    lipsc_error err = {.text = "out of memory"};
    lipsc_growths laws;
    const size_t count = choose_columns(job->set, columns);
    lipsc_table *t =
        lipsc_table_new(job->self->name, format, LIPSC_LAYOUT_WIDE, stdout, count, columns);
    lipsc_status status = lipsc_rows_fit(row_count, rows, job->set->seed, &laws);
    if (!t) status = LIPSC_E_NOMEM;
    for (size_t i = 0; i < row_count && !status; i++)
        lipsc_table_record(t, lipsc_row_fields(), rows[i]);
    if (!status) {
        lipsc_table_member(t, "fits", lipsc_growths_json(&laws));
        status = lipsc_table_end(t, &err);
    }
    if (!status && format == LIPSC_FORMAT_TABLE && laws.count)
        status = print_fits(job, &laws, &err);
    lipsc_growths_free(&laws);
    lipsc_table_free(t);
    return status ? cli_failure(job->self, "%s", err.text) : CLI_DONE;
}

int measure_print(const measure_job *job) {
    const lipsc_row **rows = lipsc_alloc(job->cell_count, sizeof *rows);
    size_t count = 0;
    if (!rows) return cli_failure(job->self, "out of memory");
    for (size_t i = 0; i < job->cell_count; i++)
        if (job->cells[i].row) rows[count++] = job->cells[i].row;
    lipsc_rows_sort(count, rows);
    const int code = print(job, count, rows);
    lipsc_release(rows);
    return code;
}
