/* demo_model.c - rows of a measurement to medians over windows, and these to lines. */
#include "demo.h"
#include "core/extreme.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/median.h"
#include "core/mem.h"
#include "run/growth.h"

/* Medians of `count` rows that share layer and length; values: room for as many. */
static lipsc_status read_windows(size_t count, const lipsc_row *const *rows, double *values,
                                 demo_model *out) {
    const size_t n = rows[0]->n, layer = rows[0]->layer;
    size_t at = 0;
    while (at < out->length_count && out->lengths[at] != n) at++;
    if (at == DEMO_LENGTHS) return LIPSC_E_RANGE;
    if (at == out->length_count) out->lengths[out->length_count++] = n;
    if (!out->layer_count || out->layers[out->layer_count - 1].layer != layer) {
        if (out->layer_count == DEMO_LAYERS) return LIPSC_E_RANGE;
        out->layers[out->layer_count++] =
            (demo_layer){.layer = layer, .exponent = NAN, .low = NAN, .high = NAN};
    }
    demo_layer *to = &out->layers[out->layer_count - 1];
    for (size_t i = 0; i < count; i++) values[i] = rows[i]->sigma;
    to->sigma[at] = lipsc_median(count, values);
    for (size_t i = 0; i < count; i++) values[i] = rows[i]->upper;
    to->proved = lipsc_median(count, values); /* rows are sorted: the longest comes last */
    return LIPSC_OK;
}

static void read_extremes(size_t count, const lipsc_row *const *rows, demo_model *out) {
    out->tightest = INFINITY;
    for (size_t i = 0; i < count; i++) {
        const double sigma = rows[i]->sigma;
        const double ratio = rows[i]->upper / sigma;
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

static void read_fits(const lipsc_growths *laws, demo_model *out) {
    for (size_t f = 0; f < laws->count; f++) {
        const lipsc_growth *fit = &laws->at[f];
        if (strcmp(fit->against, "n")) continue;
        for (size_t i = 0; i < out->layer_count; i++) {
            demo_layer *to = &out->layers[i];
            if (to->layer != fit->layer) continue;
            to->exponent = fit->exponent;
            to->low = fit->exponent_low;
            to->high = fit->exponent_high;
            to->law = fit->law > 0;
        }
    }
}

lipsc_status demo_model_read(lipsc_study *study, demo_model *out) {
    size_t count;
    const lipsc_row *const *rows = lipsc_study_rows(study, &count);
    double *values = lipsc_alloc(count, sizeof *values);
    lipsc_growths laws = {0};
    lipsc_status status = rows && values ? LIPSC_OK : LIPSC_E_NOMEM;
    *out = (demo_model){.rows = count};
    if (!status) status = lipsc_study_fits(study, &laws, NULL);
    for (size_t at = 0, next; at < count && !status; at = next) {
        for (next = at + 1; next < count; next++)
            if (rows[next]->n != rows[at]->n || rows[next]->layer != rows[at]->layer) break;
        status = read_windows(next - at, rows + at, values, out);
    }
    if (!status) {
        read_extremes(count, rows, out);
        read_fits(&laws, out);
    }
    lipsc_growths_free(&laws);
    lipsc_release(values);
    return status;
}

/* With `decimals`, or "-" for what is not a number; no "-0.00". */
static const char *number(double x, int decimals, char room[32]) {
    if (!isfinite(x)) return "-";
    snprintf(room, 32, "%.*f", decimals, fabs(x) < 0.5 * pow(10, -decimals) ? 0.0 : x);
    return room;
}

static void print_layer(const demo_model *m, const demo_layer *layer, const demo_style *s) {
    char room[32], high[32], interval[80];
    printf("%6zu", layer->layer);
    for (size_t i = 0; i < m->length_count; i++) {
        const int last = i + 1 == m->length_count;
        printf(" %s%7s%s", last ? s->strong : "", number(layer->sigma[i], 3, room),
               last ? s->plain : "");
    }
    printf("  %s%5s%s%c", s->accent, number(layer->exponent, 2, room), s->plain,
           layer->law ? ' ' : '*');
    snprintf(interval, sizeof interval, "(%s, %s)", number(layer->low, 2, room),
             number(layer->high, 2, high));
    printf(" %s%-14s%s", s->faint, interval, s->plain);
    printf(" %8s\n", number(layer->proved, 3, room));
}

void demo_model_print(const demo_model *m, const demo_style *s) {
    printf("%s%6s", s->faint, "layer");
    for (size_t i = 0; i < m->length_count; i++) {
        char length[24];
        snprintf(length, sizeof length, i ? "%zu" : "n = %zu", m->lengths[i]);
        printf(" %7s", length);
    }
    printf("  %5s  %-14s %8s%s\n", "e", "(95 %)", "proved", s->plain);
    for (size_t l = 0; l < m->layer_count; l++) print_layer(m, &m->layers[l], s);
}
