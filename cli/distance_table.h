/* distance_table.h - how far two measures are apart, on standard output. */
#ifndef LIPSC_CLI_DISTANCE_TABLE_H
#define LIPSC_CLI_DISTANCE_TABLE_H

#include "args.h"

enum { DISTANCE_ATOMS = 1 }; /* of measures with atoms, not of Gaussians */

/* X(member, kind, part, shown, unit, what it says) */
#define DISTANCE_LIST(X)                                                                \
    X(p, REAL, 0, 1, "", "exponent of the cost")                                        \
    X(distance, REAL, 0, 1, "", "W_p, or d_p where conditional")                        \
    X(cost, REAL, 0, 1, "", "distance^p; null: too large for a double")                 \
    X(gap, REAL, 0, 1, "", "cost less what the potentials prove; null: nothing proved") \
    X(conditional, FLAG, 0, 1, "", "mass stayed at its time")                           \
    X(method, TEXT, 0, 1, "", "how it was found")                                       \
    X(image_distance, REAL, 0, 1, "", "between the images; null: no layer was given")   \
    X(ratio, REAL, 0, 1, "", "image_distance / distance")                               \
    X(image_gap, REAL, DISTANCE_ATOMS, 1, "", "as gap, of the images")                  \
    X(image_method, TEXT, DISTANCE_ATOMS, 1, "", "as method, of the images")            \
    X(epsilon, REAL, DISTANCE_ATOMS, 1, "", "of an approximation; null: exact")         \
    X(imbalance, REAL, DISTANCE_ATOMS, 1, "", "of the plan and the weights")            \
    X(n, COUNT, DISTANCE_ATOMS, 1, "", "atoms of the first")                            \
    X(m, COUNT, DISTANCE_ATOMS, 1, "", "atoms of the second")                           \
    X(d, COUNT, 0, 1, "", "width of the points")                                        \
    X(seconds, REAL, DISTANCE_ATOMS, 1, "s", "of the solve")

typedef struct {
    DISTANCE_LIST(LIPSC_FIELD_MEMBER)
} distance_row;

/* ratio: NULL where no layer was given.  The exit code. */
int distance_print(const cli_command *self, const cli_common *common,
                   const lipsc_measure *a, const lipsc_measure *b,
                   const lipsc_distance *found, const lipsc_ratio *ratio);
/* In closed form. */
int distance_print_gaussian(const cli_command *self, const cli_common *common,
                            const distance_row *row);

#endif
