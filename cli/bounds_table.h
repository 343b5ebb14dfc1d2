/* bounds_table.h - bounds for people, grouped by what they hold for. */
#ifndef LIPSC_CLI_BOUNDS_TABLE_H
#define LIPSC_CLI_BOUNDS_TABLE_H

#include "lipscope/bound.h"

/* what: the layer in words.  LIPSC_E_NOMEM. */
lipsc_status bounds_table(const lipsc_bounds *bounds, const char *what);

#endif
