/* growth.h - rows of sigma in their order, and the growth laws fitted to them. */
#ifndef LIPSC_RUN_GROWTH_H
#define LIPSC_RUN_GROWTH_H

#include <jansson.h>

#include "lipscope.h"

/* By layer, head, length n, window; null comes first, so all heads before single ones. */
void lipsc_rows_sort(size_t count, json_t **rows);

/* For each layer and head of the sorted rows the laws sigma ~ coefficient x^exponent
 * against n and against the radius: an array of objects layer, head, map, against,
 * exponent, exponent_low, exponent_high, coefficient, lengths.  What cannot be fitted is
 * left out.  NULL when memory is short; json_decref it. */
json_t *lipsc_rows_fit(size_t count, json_t *const *rows, uint64_t seed);

#endif
