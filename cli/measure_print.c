/* measure_print.c - finished cells as rows, with the growth laws fitted to them, and what
 * is said of them. */
#define _POSIX_C_SOURCE 200809L
#include <sys/resource.h>

#include "measure_medians.h"
#include "ranks.h"

enum { MOST = 64 }; /* fields of a row */

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

static lipsc_status print_fits(const cli_command *self, const lipsc_growths *laws,
                               lipsc_error *err) {
    lipsc_column columns[MOST];
    const lipsc_fields fields = lipsc_growth_fields();
    size_t count = lipsc_table_columns(fields, 0, LIPSC_FORMAT_TABLE, columns);
    columns[count++] = (lipsc_column){"verdict", LIPSC_COLUMN_STRING};
    lipsc_table *t = lipsc_table_new(self->name, LIPSC_FORMAT_TABLE, LIPSC_LAYOUT_WIDE,
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
static size_t choose_columns(const measure_settings *s, unsigned parts,
                             lipsc_column *columns) {
    const lipsc_format format = (lipsc_format)s->common.format;
    if (format == LIPSC_FORMAT_TABLE && !s->study.upper && !(s->study.certify > 0.0))
        parts &= ~(unsigned)LIPSC_ROW_UPPER;
    return lipsc_table_columns(lipsc_row_fields(), parts, format, columns);
}

/* What is done with every row: counted, and printed where rows are. */
typedef struct {
    measure_tally *tally;
    double max_sigma;
    lipsc_table *table;         /* where every row is printed; NULL: not  */
    measure_collector *medians; /* where they are                         */
} row_reader;

static void read_row(void *ctx, size_t cell, const lipsc_row *row) {
    const row_reader *r = ctx;
    measure_tally *t = r->tally;
    if (row->sigma > r->max_sigma && (!t->above++ || row->sigma > t->worst_sigma)) {
        t->worst = cell;
        t->worst_sigma = row->sigma;
    }
    t->loose += row->converged != 1;
    t->open += row->certified == 0;
    if (r->table) lipsc_table_record(r->table, lipsc_row_fields(), row);
    if (r->medians) measure_collect(r->medians, row);
}

/* Every row as it comes, and the fits. */
static lipsc_status print_rows(const cli_command *self, const measure_settings *s,
                               unsigned parts, lipsc_study *study, measure_tally *tally,
                               lipsc_error *err) {
    const lipsc_format format = (lipsc_format)s->common.format;
    lipsc_growths laws = {.count = 0};
    lipsc_column columns[MOST];
    const size_t count = choose_columns(s, parts, columns);
    lipsc_table *t =
        lipsc_table_new(self->name, format, LIPSC_LAYOUT_WIDE, stdout, count, columns);
    if (!t) return LIPSC_E_NOMEM;
    row_reader reader = {tally, s->max_sigma, t, NULL};
    lipsc_status status = lipsc_study_each(study, read_row, &reader, &laws, err);
    if (!status) {
        lipsc_table_list(t, "fits", lipsc_growth_fields(), laws.count, sizeof *laws.at,
                         laws.at);
        status = lipsc_table_end(t, err);
    }
    if (!status && format == LIPSC_FORMAT_TABLE && laws.count)
        status = print_fits(self, &laws, err);
    lipsc_table_free(t);
    lipsc_growths_free(&laws);
    return status;
}

/* Medians by layer and length. */
static lipsc_status print_medians(const measure_settings *s, unsigned parts,
                                  lipsc_study *study, measure_tally *tally,
                                  lipsc_error *err) {
    lipsc_growths laws = {.count = 0};
    measure_collector *medians = measure_collector_new(s, study);
    if (!medians) return LIPSC_E_NOMEM;
    row_reader reader = {tally, s->max_sigma, NULL, medians};
    lipsc_status status = lipsc_study_each(study, read_row, &reader, &laws, err);
    if (!status) {
        const measure_medians *of = measure_collected(medians);
        status = of ? measure_table(s, parts, study, of, &laws) : LIPSC_E_NOMEM;
    }
    measure_collector_free(medians);
    lipsc_growths_free(&laws);
    return status;
}

static int prints_rows(const measure_settings *s) {
    return s->common.format != LIPSC_FORMAT_TABLE || s->rows;
}

int measure_print(const cli_command *self, const measure_settings *s, unsigned parts,
                  lipsc_study *study, measure_tally *tally) {
    lipsc_error err = {.text = "out of memory"};
    const lipsc_status status = prints_rows(s)
                                    ? print_rows(self, s, parts, study, tally, &err)
                                    : print_medians(s, parts, study, tally, &err);
    return status ? cli_failure(self, "%s", err.text) : CLI_DONE;
}

/* ---- What is said of them ---------------------------------------------------------- */

size_t measure_finished(const lipsc_study *study) {
    size_t count = 0;
    for (size_t i = 0; i < lipsc_study_count(study); i++)
        count += lipsc_study_cell(study, i).finished != 0;
    return count;
}

/* One line for all cells above --max-sigma, with the worst of them. */
static void say_above(const cli_command *self, const measure_settings *s, const char *model,
                      const lipsc_study *study, const measure_tally *t) {
    char key[LIPSC_CELL_KEY];
    lipsc_study_key(study, t->worst, key);
    cli_failure(self, "%s: sigma %.17g exceeds --max-sigma %.15g (%s; %zu of %zu cells do)",
                model, t->worst_sigma, s->max_sigma, key, t->above,
                lipsc_study_count(study));
}

int measure_verdict(const cli_command *self, const measure_settings *s, const char *model,
                    const lipsc_study *study, const measure_tally *t) {
    const size_t all = lipsc_study_count(study);
    if (t->above) {
        say_above(self, s, model, study, t);
        return CLI_ABOVE_LIMIT;
    }
    if (!t->loose && !t->open) return CLI_DONE;
    if (t->loose && !s->common.quiet)
        cli_failure(self, "%s: %zu of %zu cells did not converge", model, t->loose, all);
    if (t->open && !s->common.quiet)
        cli_failure(self, "%s: %zu of %zu cells have no certificate", model, t->open, all);
    return CLI_NOT_CONVERGED;
}

/* ---- Where the time went ----------------------------------------------------------- */

/* Of the process, mapped files included. */
static long peak_megabytes(void) {
    struct rusage used;
    return getrusage(RUSAGE_SELF, &used) ? 0 : (long)((double)used.ru_maxrss * 1024e-6);
}

void measure_say_times(const cli_command *self, const lipsc_study *study, size_t before,
                       const lipsc_device *device) {
    const lipsc_study_times t = lipsc_study_spent(study);
    const double seconds = t.wall;
    const double busy = t.forward + t.prepare + t.solve + t.extras;
    const size_t computed = measure_finished(study) - before;
    const int threads = lipsc_device_threads(device) * (int)lipsc_ranks_count(cli_ranks());
    char gpu[48] = "";
    if (!computed) return;
    if (isnan(t.device))
        snprintf(gpu, sizeof gpu, "GPU busy: its driver does not say; ");
    else if (t.device > 0.0)
        snprintf(gpu, sizeof gpu, "GPU busy %.0f %%; ", 100.0 * t.device / seconds);
    fprintf(stderr,
            "lipscope %s: %zu cells in %.3f s, %.1f cells/s; %s%d threads busy %.0f %%; "
            "of that products %.1f %%, the rest of the solver %.1f %%, projections and row "
            "statistics %.1f %%, forward pass %.1f %%, extras %.1f %%; %ld MB of memory\n",
            self->name, computed, seconds, (double)computed / seconds, gpu, threads,
            100.0 * busy / (seconds * threads), 100.0 * t.products / busy,
            100.0 * (t.solve - t.products) / busy, 100.0 * t.prepare / busy,
            100.0 * t.forward / busy, 100.0 * t.extras / busy, peak_megabytes());
}
