/* push_table.c - the image of a measure, on standard output: a sentence for people, then
 * the row. */
#include "push_table.h"

#include <math.h>

#include "rows.h"
#include "screen.h"

#define PUSH_LIST(X)                                                           \
    X(n, COUNT, 0, 1, "", "atoms of the measure")                              \
    X(d, COUNT, 0, 1, "", "their width")                                       \
    X(atoms, COUNT, 0, 1, "", "of the image")                                  \
    X(width, COUNT, 0, 1, "", "their width")                                   \
    X(map, TEXT, 0, 1, "", "attention or heads")                               \
    X(mask, TEXT, 0, 1, "", "who sees whom")                                   \
    X(radius, REAL, 0, 1, "", "the longest atom of the measure")               \
    X(image_radius, REAL, 0, 1, "", "the longest of the image")                \
    X(image, TEXT, 0, 1, "", "the file that holds the image")                  \
    X(seconds, REAL, 0, 1, "s", "of the map and the file")                     \
    X(lengths, REALS, 0, 1, "tokens", "of samples of a Gaussian or a mixture") \
    X(errors, REALS, 0, 1, "", "how far their maps are from the limit")        \
    X(exponent, REAL, 0, 1, "", "slope of ln error on ln n")

typedef struct {
    PUSH_LIST(LIPSC_FIELD_MEMBER)
} record;
static const lipsc_field fields[] = {PUSH_LIST(LIPSC_FIELD_ENTRY)};

static double farthest(const lipsc_measure *mu) {
    double largest = 0.0;
    for (size_t i = 0; i < mu->n; i++) {
        double length = 0.0;
        for (size_t c = 0; c < mu->d; c++)
            length = hypot(length, mu->points[i * mu->d + c]);
        if (!(length <= largest) && !isnan(largest)) largest = length; /* a NaN stays */
    }
    return largest;
}

static void say(const record *row) {
    const cli_screen screen = cli_screen_open();
    char before[CLI_NUMBER], after[CLI_NUMBER];
    cli_say(&screen, "%zu atom%s within %s of 0 went to %zu within %s.", row->n,
            row->n == 1 ? "" : "s", cli_digits_up(row->radius, before), row->atoms,
            cli_digits_up(row->image_radius, after));
    putchar('\n');
}

int push_print(const cli_command *self, const cli_common *common, const layer_source *from,
               const lipsc_measure *image, const char *file, double seconds,
               const gauss_rate *rate) {
    const lipsc_measure *mu = &from->mu.measure;
    const record row = {.n = mu->n,
                        .d = mu->d,
                        .atoms = image->n,
                        .width = image->d,
                        .map = layer_source_map(from),
                        .mask = layer_source_mask(from),
                        .radius = farthest(mu),
                        .image_radius = farthest(image),
                        .image = file,
                        .seconds = seconds,
                        .lengths = {rate ? GAUSS_LENGTHS : 0, rate ? rate->lengths : NULL},
                        .errors = {rate ? GAUSS_LENGTHS : 0, rate ? rate->errors : NULL},
                        .exponent = rate ? rate->exponent : NAN};
    cli_rows rows;
    if (common->format == LIPSC_FORMAT_TABLE) say(&row);
    cli_rows_begin(&rows, self, common, LIPSC_LAYOUT_UPRIGHT, CLI_FIELDS(fields), 0);
    cli_rows_add(&rows, &row);
    return cli_rows_end(&rows);
}
