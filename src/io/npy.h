/* npy.h - a matrix from the bytes of a .npy file, as numpy.save writes it. */
#ifndef LIPSC_IO_NPY_H
#define LIPSC_IO_NPY_H

#include "lipscope.h"

/* 1 when the bytes begin like a .npy file. */
int lipsc_npy_recognised(const uint8_t *bytes, size_t length);

/* Versions 1 to 3; f4 and f8 in either byte order, C or Fortran order, one dimension (a
 * column) or two.  values (rows, columns) row-major, to be released.  shown is the path as
 * it stands in sentences. */
lipsc_status lipsc_npy_parse(const uint8_t *bytes, size_t length, const char *shown,
                             size_t *rows, size_t *columns, double **values,
                             lipsc_error *err);

#endif
