/* mem.h - allocation with checked products and 64-byte alignment. */
#ifndef LIPSC_CORE_MEM_H
#define LIPSC_CORE_MEM_H

#include <stddef.h>

#include "lipscope/status.h" /* lipsc_release */

/* count * size bytes, aligned to 64, contents undefined.  NULL when the product
 * overflows or memory is short; never NULL for a zero product.  Free with
 * lipsc_release (or free: the memory is malloc's). */
void *lipsc_alloc(size_t count, size_t size);
void *lipsc_alloc_zero(size_t count, size_t size);

/* One block of zeros for `count` arrays of doubles: *arrays[k] has sizes[k] of them.  The
 * block, or NULL when memory is short. */
double *lipsc_alloc_arrays(size_t count, double **const *arrays, const size_t *sizes);

/* 1 and *product = a * b, or 0 when that overflows. */
int lipsc_mul_size(size_t a, size_t b, size_t *product);

#endif
