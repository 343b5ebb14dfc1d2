/* summary.c - the rows of a study in few numbers: medians over windows, laws, extremes. */
#include <math.h>
#include <string.h>

#include "core/error.h"
#include "core/extreme.h"
#include "core/median.h"
#include "core/mem.h"
#include "lipscope/study.h"

/* Room for as many layers and lengths as there are rows; sigma of a layer follows that of
 * the layer before it. */
static lipsc_status make_room(size_t count, const lipsc_row *const *rows,
                              lipsc_summary *out) {
    size_t cells;
    out->lengths = lipsc_alloc(count, sizeof *out->lengths);
    out->layers = lipsc_alloc_zero(count, sizeof *out->layers);
    if (!out->lengths || !out->layers) return LIPSC_E_NOMEM;
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        while (at < out->length_count && out->lengths[at] != rows[i]->n) at++;
        if (at == out->length_count) out->lengths[out->length_count++] = rows[i]->n;
        if (!i || rows[i]->layer != rows[i - 1]->layer)
            out->layers[out->layer_count++] = (lipsc_layer_summary){
                .layer = rows[i]->layer, .exponent = NAN, .low = NAN, .high = NAN};
    }
    if (!lipsc_mul_size(out->layer_count, out->length_count, &cells)) return LIPSC_E_NOMEM;
    double *sigma = lipsc_alloc(cells, sizeof *sigma);
    if (!sigma) return LIPSC_E_NOMEM;
    for (size_t i = 0; i < cells; i++) sigma[i] = NAN;
    for (size_t l = 0; l < out->layer_count; l++)
        out->layers[l].sigma = sigma + l * out->length_count;
    if (!out->layer_count) lipsc_release(sigma);
    return LIPSC_OK;
}

/* Medians of `count` rows that share layer and length; values: room for as many. */
static void add_windows(size_t count, const lipsc_row *const *rows, double *values,
                        const lipsc_summary *out, lipsc_layer_summary *to) {
    size_t at = 0;
    while (out->lengths[at] != rows[0]->n) at++;
    for (size_t i = 0; i < count; i++) values[i] = rows[i]->sigma;
    to->sigma[at] = lipsc_median(count, values);
    for (size_t i = 0; i < count; i++) values[i] = rows[i]->upper;
    to->upper = lipsc_median(count, values); /* rows are sorted: the longest comes last */
}

static void add_medians(size_t count, const lipsc_row *const *rows, double *values,
                        lipsc_summary *out) {
    lipsc_layer_summary *to = out->layers;
    for (size_t at = 0, next; at < count; at = next) {
        for (next = at + 1; next < count; next++)
            if (rows[next]->n != rows[at]->n || rows[next]->layer != rows[at]->layer) break;
        while (to->layer != rows[at]->layer) to++;
        add_windows(next - at, rows + at, values, out, to);
    }
}

static void add_extremes(size_t count, const lipsc_row *const *rows, lipsc_summary *out) {
    out->tightest = INFINITY;
    for (size_t i = 0; i < count; i++) {
        const double sigma = rows[i]->sigma, ratio = rows[i]->upper / sigma;
        out->not_converged += rows[i]->converged != 1;
        out->tightest = lipsc_min(out->tightest, ratio);
        out->loosest = lipsc_max(out->loosest, ratio);
        if (!(sigma > out->largest)) continue;
        out->largest = sigma;
        out->largest_layer = rows[i]->layer;
        out->largest_n = rows[i]->n;
        out->largest_window = rows[i]->window;
    }
}

static void add_laws(const lipsc_growths *laws, lipsc_summary *out) {
    for (size_t f = 0; f < laws->count; f++) {
        const lipsc_growth *fit = &laws->at[f];
        if (strcmp(fit->against, "n") || fit->text) continue;
        for (size_t i = 0; i < out->layer_count; i++) {
            lipsc_layer_summary *to = &out->layers[i];
            if (to->layer != fit->layer) continue;
            to->exponent = fit->exponent;
            to->low = fit->exponent_low;
            to->high = fit->exponent_high;
            to->law = fit->law > 0;
        }
    }
}

lipsc_status lipsc_study_summary(lipsc_study *study, lipsc_summary *out, lipsc_error *err) {
    size_t count;
    const lipsc_row *const *rows = lipsc_study_rows(study, &count);
    double *values = lipsc_alloc(count, sizeof *values);
    lipsc_growths laws = {0};
    *out = (lipsc_summary){.rows = count};
    for (size_t i = 0; rows && i < count; i++)
        if (rows[i]->head != LIPSC_NONE) {
            lipsc_release(values);
            return lipsc_fail(err, LIPSC_E_ARG, "a summary is of all heads together");
        }
    lipsc_status status = rows && values ? make_room(count, rows, out) : LIPSC_E_NOMEM;
    if (status) lipsc_fail(err, status, "out of memory for a summary");
    if (!status) status = lipsc_study_fits(study, &laws, err);
    if (!status) {
        add_medians(count, rows, values, out);
        add_extremes(count, rows, out);
        add_laws(&laws, out);
    }
    lipsc_growths_free(&laws);
    lipsc_release(values);
    return status;
}

void lipsc_summary_free(lipsc_summary *summary) {
    if (summary->layer_count) lipsc_release(summary->layers[0].sigma);
    lipsc_release(summary->layers);
    lipsc_release(summary->lengths);
    *summary = (lipsc_summary){0};
}
