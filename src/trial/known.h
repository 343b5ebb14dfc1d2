/* known.h - small layers whose values are known to twelve digits (docs/maths.md). */
#ifndef LIPSC_TRIAL_KNOWN_H
#define LIPSC_TRIAL_KNOWN_H

#include "lipscope.h"

enum { LIPSC_KNOWN_COUNT = 8 };

typedef struct {
    const char *name;
    double sigma; /* the known value */
    lipsc_layer layer;
    lipsc_input input;
    double X[20], weights[10], A[9], V[9]; /* what layer and input point to */
} lipsc_known;

/* Number `which`, below LIPSC_KNOWN_COUNT.  *known must not be copied. */
void lipsc_known_make(int which, lipsc_known *known);

#endif
