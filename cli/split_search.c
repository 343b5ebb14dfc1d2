/* split_search.c - for each radius the pair of measures on the ball that attention drives
 * apart most, as far as a search finds it, beside the bound for all of them. */
#include "split_search.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "interrupt.h"
#include "measure_write.h"

static const lipsc_column columns[] = {
    {"radius", LIPSC_COLUMN_REAL},       {"a", LIPSC_COLUMN_REAL},
    {"construction", LIPSC_COLUMN_REAL}, {"promised", LIPSC_COLUMN_REAL},
    {"best", LIPSC_COLUMN_REAL},         {"measured", LIPSC_COLUMN_REAL},
    {"atoms", LIPSC_COLUMN_INTEGER},     {"upper", LIPSC_COLUMN_REAL},
    {"log_upper", LIPSC_COLUMN_REAL},    {"ratio", LIPSC_COLUMN_REAL},
    {"growth", LIPSC_COLUMN_REAL},       {"distance", LIPSC_COLUMN_STRING}};

/* growth is d ln(best) / d radius since the row before: for e^{c R} it would not change. */
static void fill_row(lipsc_table *t, double radius, const lipsc_pairs *found, double growth,
                     int masked) {
    lipsc_table_row(t);
    lipsc_table_real(t, "radius", radius);
    lipsc_table_real(t, "a", found->a);
    lipsc_table_real(t, "construction", found->construction);
    lipsc_table_real(t, "promised", found->promised);
    lipsc_table_real(t, "best", found->best);
    lipsc_table_real(t, "measured", found->measured);
    lipsc_table_integer(t, "atoms", (long long)found->measure.measure.n);
    lipsc_table_real(t, "upper", found->upper);
    lipsc_table_real(t, "log_upper", found->log_upper);
    lipsc_table_real(t, "ratio", found->best * exp(-found->log_upper));
    lipsc_table_real(t, "growth", growth);
    lipsc_table_string(t, "distance", masked ? "d2" : "W2");
}

/* The next number of the list at *at, which moves behind it.  0: not a positive number. */
static int next_radius(const char **at, double *radius) {
    char word[64];
    const size_t length = strcspn(*at, ",");
    if (length == 0 || length >= sizeof word) return 0;
    memcpy(word, *at, length);
    word[length] = '\0';
    *at += length;
    if (**at == ',') *at += 1;
    return !cli_number_real(word, DBL_MIN, DBL_MAX, radius);
}

static int search(const cli_command *self, const layer_settings *s,
                  const layer_source *from, const char *radii, lipsc_pairs_settings *set,
                  const char *out, lipsc_table *t) {
    double last_radius = NAN, last_log = NAN;
    const int masked = from->layer.mask != LIPSC_MASK_NONE;
    for (const char *at = radii; *at;) {
        lipsc_pairs found;
        lipsc_error err;
        if (!next_radius(&at, &set->radius))
            return cli_wrong_use(self,
                                 "--search %s: expected positive numbers separated by "
                                 "commas",
                                 radii);
        const lipsc_status status = lipsc_pairs_find(&from->layer, set, &found, &err);
        if (status)
            return cli_failure(self, "%s: radius %.6g: %s", from->name, set->radius,
                               err.text);
        const double now = log(found.best);
        fill_row(t, set->radius, &found, (now - last_log) / (set->radius - last_radius),
                 masked);
        if (s->common.format != LIPSC_FORMAT_TABLE) lipsc_table_flush(t);
        last_radius = set->radius;
        last_log = now;
        const int failed =
            out && !*at &&
            cli_measure_write(out, &found.measure.measure, NULL, 0, NULL, 0, &err);
        lipsc_pairs_free(&found);
        if (failed) return cli_failure(self, "%s", err.text);
    }
    return CLI_DONE;
}

int split_search(const cli_command *self, const layer_settings *s, const char *radii,
                 size_t atoms, double step, const char *out) {
    lipsc_pairs_settings set;
    layer_source from;
    lipsc_error err;
    lipsc_pairs_defaults(&set);
    if (atoms) set.atoms = atoms;
    if (step > 0.0) set.step = step;
    set.device = s->common.device;
    set.seed = s->seed;
    set.stop = cli_interrupted;
    int code = layer_source_open(self, s, 0, &from);
    lipsc_table *t = NULL;
    if (code == CLI_RUN &&
        !(t = lipsc_table_new(self->name, (lipsc_format)s->common.format, LIPSC_LAYOUT_WIDE,
                              stdout, sizeof columns / sizeof *columns, columns)))
        code = cli_failure(self, "%s", lipsc_strerror(LIPSC_E_NOMEM));
    if (code == CLI_RUN) {
        cli_interrupt_begin();
        code = search(self, s, &from, radii, &set, out, t);
        if (code == CLI_DONE && lipsc_table_end(t, &err))
            code = cli_failure(self, "%s", err.text);
    }
    lipsc_table_free(t);
    layer_source_close(&from);
    return code;
}
