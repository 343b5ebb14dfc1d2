/* median.h - the middle of some numbers. */
#ifndef LIPSC_CORE_MEDIAN_H
#define LIPSC_CORE_MEDIAN_H

#include <stddef.h>

/* Of count values, which are sorted on the way; the mean of both middle ones where count is
 * even.  NaN when there are none, or when one of them is. */
double lipsc_median(size_t count, double *values);

#endif
