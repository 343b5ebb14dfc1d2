/* golden.h - small layers whose values are known to twelve digits (docs/maths.md). */
#ifndef LIPSC_CLI_GOLDEN_H
#define LIPSC_CLI_GOLDEN_H

#include "lipscope.h"

enum { CLI_GOLDEN_COUNT = 8 };

typedef struct {
    const char *name;
    double sigma; /* the known value */
    lipsc_layer layer;
    lipsc_input input;
    double X[20], weights[10], A[9], V[9]; /* what layer and input point to */
} cli_golden;

/* Number `which`, below CLI_GOLDEN_COUNT.  *golden must not be copied. */
void cli_golden_make(int which, cli_golden *golden);

/* One outlier at -R, n - 1 tokens at +R, one dimension, scores -x_i x_j: the input that
 * makes attention grow like sqrt(n) (docs/maths.md 5.1).  X (n) is the caller's. */
void cli_golden_outlier(size_t n, double R, double *X, lipsc_layer *layer,
                        lipsc_input *input);

#endif
