/* measure_print.c - finished cells as rows, with the growth laws fitted to them. */
#include "measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "run/growth.h"

/* ---- Columns ----------------------------------------------------------------------- */

/* Where a column appears: always, or when asked for; `people` those that a table shows,
 * which has no room for what is the same in every row or said twice. */
typedef struct {
    lipsc_column column;
    int people;
    enum { ALWAYS, COUNT, RELEASED, DETAILS, UPPER, CERTIFY } when;
} field;

static const field fields[] = {
    {{"model", LIPSC_COLUMN_STRING}, 0, ALWAYS},
    {{"architecture", LIPSC_COLUMN_STRING}, 0, ALWAYS},
    {{"layer", LIPSC_COLUMN_INTEGER}, 1, ALWAYS},
    {{"head", LIPSC_COLUMN_INTEGER}, 1, ALWAYS},
    {{"map", LIPSC_COLUMN_STRING}, 1, ALWAYS},
    {{"mask", LIPSC_COLUMN_STRING}, 1, ALWAYS},
    {{"n", LIPSC_COLUMN_INTEGER}, 1, ALWAYS},
    {{"window", LIPSC_COLUMN_INTEGER}, 1, ALWAYS},
    {{"sigma", LIPSC_COLUMN_REAL}, 1, ALWAYS},
    {{"lower", LIPSC_COLUMN_REAL}, 0, ALWAYS},
    {{"upper", LIPSC_COLUMN_REAL}, 1, UPPER},
    {{"upper_prob", LIPSC_COLUMN_REAL}, 1, ALWAYS},
    {{"probability", LIPSC_COLUMN_REAL}, 0, ALWAYS},
    {{"residual", LIPSC_COLUMN_REAL}, 1, ALWAYS},
    {{"products", LIPSC_COLUMN_INTEGER}, 1, ALWAYS},
    {{"converged", LIPSC_COLUMN_BOOL}, 1, ALWAYS},
    {{"dtype", LIPSC_COLUMN_STRING}, 1, ALWAYS},
    {{"radius_rms", LIPSC_COLUMN_REAL}, 1, ALWAYS},
    {{"radius_max", LIPSC_COLUMN_REAL}, 1, ALWAYS},
    {{"seconds", LIPSC_COLUMN_REAL}, 1, ALWAYS},
    {{"start", LIPSC_COLUMN_INTEGER}, 0, ALWAYS},
    {{"rounding", LIPSC_COLUMN_STRING}, 0, ALWAYS},
    {{"routing_gap", LIPSC_COLUMN_REAL}, 0, ALWAYS},
    {{"sigmas", LIPSC_COLUMN_REALS}, 1, COUNT},
    {{"released", LIPSC_COLUMN_REAL}, 1, RELEASED},
    {{"entropy", LIPSC_COLUMN_REAL}, 1, DETAILS},
    {{"sink", LIPSC_COLUMN_REAL}, 1, DETAILS},
    {{"sink_token", LIPSC_COLUMN_INTEGER}, 1, DETAILS},
    {{"token", LIPSC_COLUMN_INTEGER}, 1, DETAILS},
    {{"token_norm", LIPSC_COLUMN_REAL}, 1, DETAILS},
    {{"pair_from", LIPSC_COLUMN_INTEGER}, 1, DETAILS},
    {{"pair_to", LIPSC_COLUMN_INTEGER}, 1, DETAILS},
    {{"pair_norm", LIPSC_COLUMN_REAL}, 1, DETAILS},
    {{"certified", LIPSC_COLUMN_BOOL}, 1, CERTIFY},
    {{"certificate", LIPSC_COLUMN_STRING}, 1, CERTIFY},
    {{"certify_products", LIPSC_COLUMN_INTEGER}, 0, CERTIFY},
    {{"version", LIPSC_COLUMN_STRING}, 0, ALWAYS},
    {{"model_hash", LIPSC_COLUMN_STRING}, 0, ALWAYS},
    {{"text_hash", LIPSC_COLUMN_STRING}, 0, ALWAYS},
    {{"seed", LIPSC_COLUMN_INTEGER}, 0, ALWAYS},
    {{"tol", LIPSC_COLUMN_REAL}, 0, ALWAYS},
};
enum { FIELDS = sizeof fields / sizeof *fields };

/* For the run file: all of them, whatever this call asks for. */
size_t measure_field_names(const char *names[MEASURE_FIELDS]) {
    _Static_assert((int)FIELDS <= (int)MEASURE_FIELDS, "room for all names");
    for (size_t f = 0; f < FIELDS; f++) names[f] = fields[f].column.name;
    return FIELDS;
}

static size_t choose_columns(const measure_settings *s, lipsc_column *columns) {
    const int people = s->common.format == LIPSC_FORMAT_TABLE;
    size_t count = 0;
    for (size_t f = 0; f < FIELDS; f++) {
        const int asked[] = {[ALWAYS] = 1,
                             [COUNT] = s->count > 0,
                             [RELEASED] = s->as_released,
                             [DETAILS] = s->details,
                             [UPPER] = s->upper || s->certify.eps > 0.0 || !people,
                             [CERTIFY] = s->certify.eps > 0.0};
        if (asked[fields[f].when] && (!people || fields[f].people))
            columns[count++] = fields[f].column;
    }
    return count;
}

static void fill_cell(lipsc_table *t, const lipsc_column *column, const json_t *value) {
    switch (column->kind) {
    case LIPSC_COLUMN_STRING:
        lipsc_table_string(t, column->name, json_string_value(value));
        break;
    case LIPSC_COLUMN_INTEGER:
        if (json_is_integer(value))
            lipsc_table_integer(t, column->name, json_integer_value(value));
        break;
    case LIPSC_COLUMN_REAL:
        if (json_is_number(value))
            lipsc_table_real(t, column->name, json_number_value(value));
        break;
    case LIPSC_COLUMN_BOOL:
        lipsc_table_bool(t, column->name, json_is_true(value));
        break;
    case LIPSC_COLUMN_REALS: {
        const size_t count = json_array_size(value);
        double *list = lipsc_alloc(count, sizeof *list);
        for (size_t i = 0; list && i < count; i++) {
            const json_t *item = json_array_get(value, i);
            list[i] = json_is_number(item) ? json_number_value(item) : NAN;
        }
        if (list) lipsc_table_reals(t, column->name, count, list);
        lipsc_release(list);
        break;
    }
    }
}

/* ---- Fits -------------------------------------------------------------------------- */

static const lipsc_column fit_columns[] = {
    {"layer", LIPSC_COLUMN_INTEGER},     {"head", LIPSC_COLUMN_INTEGER},
    {"against", LIPSC_COLUMN_STRING},    {"exponent", LIPSC_COLUMN_REAL},
    {"exponent_low", LIPSC_COLUMN_REAL}, {"exponent_high", LIPSC_COLUMN_REAL},
    {"coefficient", LIPSC_COLUMN_REAL},  {"lengths", LIPSC_COLUMN_INTEGER},
    {"starts", LIPSC_COLUMN_INTEGER},    {"lack_of_fit", LIPSC_COLUMN_REAL},
    {"slopes", LIPSC_COLUMN_REALS},      {"verdict", LIPSC_COLUMN_STRING}};
enum { FIT_COLUMNS = sizeof fit_columns / sizeof *fit_columns };

static void fill_fit(lipsc_table *t, const json_t *fit) {
    lipsc_table_row(t);
    for (size_t c = 0; c < FIT_COLUMNS; c++) {
        const json_t *value = json_object_get(fit, fit_columns[c].name);
        if (value && !json_is_null(value)) fill_cell(t, &fit_columns[c], value);
    }
    lipsc_table_string(t, "verdict", lipsc_fit_verdict(fit));
}

/* What the columns mean, and why there is no interval. */
static void say_fits(const json_t *fits) {
    const json_t *first = json_array_get(fits, 0);
    const json_int_t starts = json_integer_value(json_object_get(first, "starts"));
    printf("\nexponent: the slope of ln(median sigma) against ln x over these lengths, "
           "with its 95 %% interval\n");
    if (starts < LIPSC_FIT_STARTS)
        printf("no intervals and no test of straightness: %lld starts have every "
               "length, they need %d\n",
               (long long)starts, LIPSC_FIT_STARTS);
}

static lipsc_status print_fits(const measure_job *job, const json_t *fits,
                               lipsc_error *err) {
    lipsc_table *t = lipsc_table_new(job->self->name, LIPSC_FORMAT_TABLE, LIPSC_LAYOUT_WIDE,
                                     stdout, FIT_COLUMNS, fit_columns);
    if (!t) return LIPSC_E_NOMEM;
    for (size_t i = 0; i < json_array_size(fits); i++) fill_fit(t, json_array_get(fits, i));
    say_fits(fits);
    const lipsc_status status = lipsc_table_end(t, err);
    lipsc_table_free(t);
    return status;
}

/* ---- Together ---------------------------------------------------------------------- */

static int print(const measure_job *job, size_t row_count, json_t *const *rows) {
    const lipsc_format format = (lipsc_format)job->set->common.format;
    lipsc_column columns[FIELDS];
    lipsc_error err = {.text = "out of memory"};
    const size_t count = choose_columns(job->set, columns);
    json_t *fits = lipsc_rows_fit(row_count, rows, job->set->seed);
    lipsc_table *t =
        lipsc_table_new(job->self->name, format, LIPSC_LAYOUT_WIDE, stdout, count, columns);
    lipsc_status status = t && fits ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t i = 0; i < row_count && !status; i++) {
        lipsc_table_row(t);
        for (size_t c = 0; c < count; c++)
            fill_cell(t, &columns[c], json_object_get(rows[i], columns[c].name));
    }
    if (!status) {
        lipsc_table_member(t, "fits", json_incref(fits));
        status = lipsc_table_end(t, &err);
    }
    if (!status && format == LIPSC_FORMAT_TABLE && json_array_size(fits))
        status = print_fits(job, fits, &err);
    json_decref(fits);
    lipsc_table_free(t);
    return status ? cli_failure(job->self, "%s", err.text) : CLI_DONE;
}

int measure_print(const measure_job *job) {
    json_t **rows = lipsc_alloc(job->cell_count, sizeof *rows);
    size_t count = 0;
    if (!rows) return cli_failure(job->self, "out of memory");
    for (size_t i = 0; i < job->cell_count; i++)
        if (job->cells[i].row) rows[count++] = job->cells[i].row;
    lipsc_rows_sort(count, rows);
    const int code = print(job, count, rows);
    lipsc_release(rows);
    return code;
}
