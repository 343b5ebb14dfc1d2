/* demo_model.c - a measured model as lines of a table. */
#include "demo.h"

#include <math.h>
#include <stdio.h>

/* With `decimals`, or "-" for what is not a number; no "-0.00". */
static const char *number(double x, int decimals, char room[32]) {
    if (!isfinite(x)) return "-";
    snprintf(room, 32, "%.*f", decimals, fabs(x) < 0.5 * pow(10, -decimals) ? 0.0 : x);
    return room;
}

static void print_layer(const lipsc_summary *m, const lipsc_layer_summary *layer,
                        const cli_screen *s) {
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
    printf(" %8s\n", number(layer->upper, 3, room));
}

void demo_model_print(const lipsc_summary *m, const cli_screen *s) {
    printf("%s%6s", s->faint, "layer");
    for (size_t i = 0; i < m->length_count; i++) {
        char length[24];
        snprintf(length, sizeof length, i ? "%zu" : "n = %zu", m->lengths[i]);
        printf(" %7s", length);
    }
    printf("  %5s  %-14s %8s%s\n", "e", "(95 %)", "proved", s->plain);
    for (size_t l = 0; l < m->layer_count; l++) print_layer(m, &m->layers[l], s);
}
