/* layer_table.c - the row of one layer, with a sentence for people above it. */
#include "layer_table.h"

#include <math.h>

#include "screen.h"

/* For people, above the row. */
static void say(const lipsc_row *row) {
    const cli_screen screen = cli_screen_open();
    char sigma[CLI_NUMBER], most[CLI_NUMBER], bound[120] = "";
    if (isfinite(row->upper))
        snprintf(bound, sizeof bound,
                 "; it is proved that none comes out more than %s times",
                 cli_digits_up(row->upper, most));
    cli_say(
        &screen,
        "sigma is %s: some small change of these %zu tokens comes out that many times as "
        "large%s.",
        cli_digits(row->sigma, 4, sigma), row->n, bound);
    putchar('\n');
}

int layer_table_print(const cli_command *self, lipsc_format format, unsigned parts,
                      const lipsc_row *row) {
    enum { MOST = 32 };
    lipsc_column columns[MOST] = {
        {"model", LIPSC_COLUMN_STRING},     {"architecture", LIPSC_COLUMN_STRING},
        {"layer", LIPSC_COLUMN_INTEGER},    {"head", LIPSC_COLUMN_INTEGER},
        {"map", LIPSC_COLUMN_STRING},       {"mask", LIPSC_COLUMN_STRING},
        {"n", LIPSC_COLUMN_INTEGER},        {"window", LIPSC_COLUMN_INTEGER},
        {"sigma", LIPSC_COLUMN_REAL},       {"lower", LIPSC_COLUMN_REAL},
        {"upper", LIPSC_COLUMN_REAL},       {"upper_prob", LIPSC_COLUMN_REAL},
        {"probability", LIPSC_COLUMN_REAL}, {"residual", LIPSC_COLUMN_REAL},
        {"products", LIPSC_COLUMN_INTEGER}, {"converged", LIPSC_COLUMN_BOOL},
        {"dtype", LIPSC_COLUMN_STRING},     {"radius_rms", LIPSC_COLUMN_REAL},
        {"radius_max", LIPSC_COLUMN_REAL},  {"seconds", LIPSC_COLUMN_REAL},
        {"rounding", LIPSC_COLUMN_STRING}};
    size_t count = 21;
    if (parts & LIPSC_ROW_COUNT)
        columns[count++] = (lipsc_column){"sigmas", LIPSC_COLUMN_REALS};
    if (parts & LIPSC_ROW_RELEASED)
        columns[count++] = (lipsc_column){"released", LIPSC_COLUMN_REAL};
    if (parts & LIPSC_ROW_CERTIFY) {
        columns[count++] = (lipsc_column){"certified", LIPSC_COLUMN_BOOL};
        columns[count++] = (lipsc_column){"certificate", LIPSC_COLUMN_STRING};
        columns[count++] = (lipsc_column){"certify_products", LIPSC_COLUMN_INTEGER};
    }
    lipsc_error err;
    if (format == LIPSC_FORMAT_TABLE) say(row);
    lipsc_table *t =
        lipsc_table_new(self->name, format, LIPSC_LAYOUT_UPRIGHT, stdout, count, columns);
    if (!t) return cli_failure(self, "%s", lipsc_strerror(LIPSC_E_NOMEM));
    lipsc_table_record(t, lipsc_row_fields(), row);
    const lipsc_status status = lipsc_table_end(t, &err);
    lipsc_table_free(t);
    return status ? cli_failure(self, "%s", err.text) : CLI_DONE;
}
