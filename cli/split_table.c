/* split_table.c - moving, splitting and teleporting constants, on standard output: a
 * sentence for people, then the row. */
#include "split_table.h"

#include <math.h>

#include "rows.h"
#include "screen.h"

#define SPLIT_LIST(X)                                                                      \
    X(move, REAL, 0, 1, "", "atoms move, each in one piece")                               \
    X(split, REAL, 0, 1, "", "atoms are split and all parts move")                         \
    X(teleport, REAL, 0, 1, "", "a part of one atom goes far away")                        \
    X(move_atom, COUNT, 0, 1, "", "that takes the largest part in the motion")             \
    X(split_atom, COUNT, 0, 1, "", "that is split")                                        \
    X(teleport_atom, COUNT, 0, 1, "", "of which a part goes away")                         \
    X(move_measured, REAL, 0, 1, "", "ratio of exact distances of a pair that shows move") \
    X(split_measured, REAL, 0, 1, "", "the same of split")                                 \
    X(teleport_measured, REAL, 0, 1, "", "the same of teleport")                           \
    X(halves, REAL, 0, 1, "", "two halves of one atom move apart")                         \
    X(halves_measured, REAL, 0, 1, "", "the same of halves")                               \
    X(teleport_kind, TEXT, 0, 1, "", "lower: found by search")                             \
    X(teleport_upper, REAL, 0, 1, "", "proved to be above teleport")                       \
    X(duplicate, REAL, 0, 1, "", "causal: sigma after every token was written twice")      \
    X(distance, TEXT, 0, 1, "", "W2, or d2 with times")                                    \
    X(map, TEXT, 0, 1, "", "attention or heads")                                           \
    X(mask, TEXT, 0, 1, "", "who sees whom")                                               \
    X(n, COUNT, 0, 1, "", "of the measure")                                                \
    X(atoms, COUNT, 0, 1, "", "different ones")                                            \
    X(d, COUNT, 0, 1, "", "their width")                                                   \
    X(step, REAL, 0, 1, "", "of the finite perturbations")                                 \
    X(residual, REAL, 0, 1, "", "the larger of move and halves")                           \
    X(converged, FLAG, 0, 1, "", "both meet the tolerance")                                \
    X(half, REALS, 0, 1, "", "direction of one half; null: long, and the file has it")     \
    X(target, REALS, 0, 1, "", "where the part goes; null as half")                        \
    X(seconds, REAL, 0, 1, "s", "of the search")

typedef struct {
    SPLIT_LIST(LIPSC_FIELD_MEMBER)
} record;
static const lipsc_field fields[] = {SPLIT_LIST(LIPSC_FIELD_ENTRY)};

static record row_of(const layer_source *from, double step, int vectors,
                     const lipsc_slopes *found) {
    const double move = found->move_residual, halves = found->halves_residual;
    return (record){.move = found->move,
                    .split = found->split,
                    .teleport = found->teleport,
                    .move_atom = found->move_atom,
                    .split_atom = found->split_atom,
                    .teleport_atom = found->teleport_atom,
                    .move_measured = found->move_measured,
                    .split_measured = found->split_measured,
                    .teleport_measured = found->teleport_measured,
                    .halves = found->halves,
                    .halves_measured = found->halves_measured,
                    .teleport_kind = "lower",
                    .teleport_upper = found->teleport_cover,
                    .duplicate = found->duplicate,
                    .distance = found->masked ? "d2" : "W2",
                    .map = layer_source_map(from),
                    .mask = layer_source_mask(from),
                    .n = found->n,
                    .atoms = found->atoms,
                    .d = found->d,
                    .step = step,
                    .residual = isnan(move) || move > halves ? move : halves,
                    .converged = found->converged,
                    .half = {found->d, vectors ? found->half : NULL},
                    .target = {found->d, vectors ? found->target : NULL},
                    .seconds = found->seconds};
}

/* For people, above the row: which of the three drives the image away fastest. */
static void say(const lipsc_slopes *found) {
    const cli_screen screen = cli_screen_open();
    char move[CLI_NUMBER], split[CLI_NUMBER], far[CLI_NUMBER], ratio[CLI_NUMBER];
    cli_say(
        &screen,
        "Moving atoms a little moves the image up to %s times as far, splitting one up to "
        "%s times, carrying mass far away %s times at least (%s): splitting is %s times "
        "moving.",
        cli_digits(found->move, 3, move), cli_digits(found->split, 3, split),
        cli_digits(found->teleport, 3, far), found->masked ? "d2" : "W2",
        cli_digits(found->split / found->move, 3, ratio));
    putchar('\n');
}

int split_print(const cli_command *self, const cli_common *common, const layer_source *from,
                double step, const lipsc_slopes *found) {
    enum { SHOWN = 16 }; /* longer vectors are in the file of -o only */
    const int vectors = common->format == LIPSC_FORMAT_JSON || found->d <= SHOWN;
    const record row = row_of(from, step, vectors, found);
    cli_rows rows;
    if (common->format == LIPSC_FORMAT_TABLE) say(found);
    cli_rows_begin(&rows, self, common, LIPSC_LAYOUT_UPRIGHT, CLI_FIELDS(fields), 0);
    cli_rows_add(&rows, &row);
    return cli_rows_end(&rows);
}
