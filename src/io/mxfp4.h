/* mxfp4.h - matrices as gpt-oss is published: numbers of four bits in blocks of 32 that
 * share a power of two, and lie along the columns. */
#ifndef LIPSC_IO_MXFP4_H
#define LIPSC_IO_MXFP4_H

#include <stddef.h>
#include <stdint.h>

enum { LIPSC_MXFP4_BLOCK = 32 };

/* count matrices (rows, columns), columns a multiple of 32: blocks (count, rows,
 * columns / 32, 16) bytes with two numbers each, the lower four bits first; scales (count,
 * rows, columns / 32), exponents plus 127. */
typedef struct {
    const uint8_t *blocks, *scales;
    size_t rows, columns;
} lipsc_mxfp4;

/* Entries first .. first+count-1 of the matrices turned round: (count, columns, rows).  As
 * in bfloat16, what is too large is infinite; the scale 255 makes NaN. */
void lipsc_mxfp4_read(const lipsc_mxfp4 *m, size_t first, size_t count, double *out);

#endif
