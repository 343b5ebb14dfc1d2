/* growth.h - rows of sigma in their order, and the growth laws fitted to them. */
#ifndef LIPSC_RUN_GROWTH_H
#define LIPSC_RUN_GROWTH_H

#include <jansson.h>

#include "lipscope.h"
#include "run/fit.h"

/* By layer, head, length n, window; null comes first, so all heads before single ones. */
void lipsc_rows_sort(size_t count, json_t **rows);

/* For each layer and head of the sorted rows the laws sigma ~ coefficient x^exponent
 * against n and against the radius: an array of objects
 *
 *     layer, head, map, against (n|radius)
 *     text                            null: all texts of the rows together
 *     exponent, exponent_low, exponent_high, coefficient   (fit.h)
 *     lengths, starts, texts          how many entered
 *     law, lack_of_fit, slopes        whether a straight line fits, and what says so
 *     refused                         why there is no exponent, null where there is one
 *
 * With several texts (text_hash) those of each text follow the joint ones.  Windows that
 * begin at the same token are one start; tiled ones do so too rarely for an interval.
 * Fewer than three lengths: nothing.  NULL when memory is short; json_decref it. */
json_t *lipsc_rows_fit(size_t count, json_t *const *rows, uint64_t seed);

/* The fields of one fit, from exponent to refused (NULL: it is not), into an object.
 * slopes: lengths - 1 of them, as lipsc_fit_power gives them. */
void lipsc_fit_set(json_t *out, const lipsc_fit *fit, const double *slopes,
                   const char *refused);

/* The verdict on a fit of lipsc_rows_fit in a few words: "power law"; "no power law", with
 * "shown" behind it where there are too few starts for a test; or why there is no
 * exponent. */
const char *lipsc_fit_verdict(const json_t *fit);

#endif
