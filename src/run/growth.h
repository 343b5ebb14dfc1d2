/* growth.h - what the rest of the library may do with growth laws beyond lipscope/fit.h. */
#ifndef LIPSC_RUN_GROWTH_H
#define LIPSC_RUN_GROWTH_H

#include <stdint.h>

#include "lipscope/fit.h"
#include "row/row.h"

/* The members of one fit, from exponent to refused (NULL: it is not).  slopes: lengths - 1
 * of them, as lipsc_fit_power gives them; kept, not copied. */
void lipsc_growth_set(lipsc_growth *out, const lipsc_fit *fit, const double *slopes,
                      const char *refused);

/* The laws of rows that come one by one, sorted by layer and head: of each only the point
 * is kept, and of these one curve.  Begin with {.out = ..., .seed = ...}; the end frees it,
 * after a failure too. */
typedef struct {
    lipsc_growths *out;
    uint64_t seed;
    size_t count, room; /* of the curve on its way: */
    struct lipsc_growth_seen *seen;
    size_t layer, head;
    const char *map;
    size_t texts, text_room;
    const char **hashes; /* (texts) */
} lipsc_fitter;

lipsc_status lipsc_fitter_add(lipsc_fitter *fitter, const lipsc_row *row);
lipsc_status lipsc_fitter_end(lipsc_fitter *fitter);

json_t *lipsc_growths_json(const lipsc_growths *laws); /* NULL when memory is short */

#endif
