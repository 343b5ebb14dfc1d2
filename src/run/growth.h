/* growth.h - what the rest of the library may do with growth laws beyond lipscope/fit.h. */
#ifndef LIPSC_RUN_GROWTH_H
#define LIPSC_RUN_GROWTH_H

#include "lipscope/fit.h"
#include "row/row.h"

/* The members of one fit, from exponent to refused (NULL: it is not).  slopes: lengths - 1
 * of them, as lipsc_fit_power gives them; kept, not copied. */
void lipsc_growth_set(lipsc_growth *out, const lipsc_fit *fit, const double *slopes,
                      const char *refused);

json_t *lipsc_growths_json(const lipsc_growths *laws); /* NULL when memory is short */

#endif
