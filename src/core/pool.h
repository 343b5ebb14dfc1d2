/* pool.h - texts and lists that many rows share, freed together.
 *
 * One thread at a time. */
#ifndef LIPSC_CORE_POOL_H
#define LIPSC_CORE_POOL_H

#include <stddef.h>

typedef struct lipsc_pool_block lipsc_pool_block;
typedef struct {
    lipsc_pool_block *newest; /* {NULL}: empty */
} lipsc_pool;

/* Copies, valid until the pool is freed; NULL when memory is short.  A text that is in the
 * newest block already, as most fields of a row are, is not stored twice. */
const char *lipsc_pool_text(lipsc_pool *pool, const char *text);
const double *lipsc_pool_reals(lipsc_pool *pool, size_t count, const double *values);
void lipsc_pool_free(lipsc_pool *pool); /* and empties it */

#endif
