/* distance_table.c - how far two measures are apart, on standard output: a sentence for
 * people, then the row. */
#include "distance_table.h"

#include <math.h>

#include "rows.h"
#include "screen.h"

typedef distance_row record;

static const lipsc_field fields[] = {DISTANCE_LIST(LIPSC_FIELD_ENTRY)};

static void say(const lipsc_distance *found, const lipsc_ratio *ratio) {
    const cli_screen screen = cli_screen_open();
    char distance[CLI_NUMBER], after[CLI_NUMBER], times[CLI_NUMBER];
    cli_say(&screen, "The measures are %s apart (%s with p = %g, %s).",
            cli_digits(found->distance, 4, distance), found->conditional ? "d_p" : "W_p",
            found->p, found->method);
    if (ratio)
        cli_say(&screen, "Their images are %s apart, %s times as far.",
                cli_digits(ratio->after, 4, after), cli_digits(ratio->ratio, 4, times));
    putchar('\n');
}

static int print(const cli_command *self, const cli_common *common, unsigned parts,
                 const distance_row *row) {
    cli_rows rows;
    cli_rows_begin(&rows, self, common, LIPSC_LAYOUT_UPRIGHT, CLI_FIELDS(fields), parts);
    cli_rows_add(&rows, row);
    return cli_rows_end(&rows);
}

int distance_print(const cli_command *self, const cli_common *common,
                   const lipsc_measure *a, const lipsc_measure *b,
                   const lipsc_distance *found, const lipsc_ratio *ratio) {
    const distance_row row = {.p = found->p,
                              .distance = found->distance,
                              .cost = found->cost,
                              .gap = found->gap,
                              .conditional = found->conditional,
                              .method = found->method,
                              .image_distance = ratio ? ratio->after : NAN,
                              .ratio = ratio ? ratio->ratio : NAN,
                              .image_gap = ratio ? ratio->gap_after : NAN,
                              .image_method = ratio ? ratio->method_after : NULL,
                              .epsilon = found->epsilon > 0 ? found->epsilon : NAN,
                              .imbalance = found->imbalance,
                              .n = a->n,
                              .m = b->n,
                              .d = a->d,
                              .seconds = found->seconds};
    if (common->format == LIPSC_FORMAT_TABLE) say(found, ratio);
    return print(self, common, DISTANCE_ATOMS, &row);
}

int distance_print_gaussian(const cli_command *self, const cli_common *common,
                            const distance_row *row) {
    return print(self, common, 0, row);
}
