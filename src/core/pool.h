/* pool.h - texts and lists that many rows share, freed together (lipscope/row.h). */
#ifndef LIPSC_CORE_POOL_H
#define LIPSC_CORE_POOL_H

#include "lipscope/row.h"

/* Copies, valid until the pool is freed; NULL when memory is short.  A text that is in the
 * newest block already, as most fields of a row are, is not stored twice. */
const char *lipsc_pool_text(lipsc_pool *pool, const char *text);
const double *lipsc_pool_reals(lipsc_pool *pool, size_t count, const double *values);

#endif
