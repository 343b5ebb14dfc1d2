/* straight.h - whether curves of several starts scatter about one straight line. */
#ifndef LIPSC_RUN_STRAIGHT_H
#define LIPSC_RUN_STRAIGHT_H

#include "lipscope.h"

/* Curves over common places X (lengths), one for each start: row s of `curves` (starts,
 * lengths).  texts: how many groups the starts form, begin (texts + 1) where each begins.
 * Whole texts count as one curve each when `whole_texts`. */
typedef struct {
    size_t lengths, texts;
    const size_t *begin;
    const double *X;
    const double *curves;
    int whole_texts;
} lipsc_straight;

/* P value of Hotelling's test that the mean curve has no part that bends: NaN with too few
 * curves, or when memory is short. */
double lipsc_straight_test(const lipsc_straight *in);

#endif
