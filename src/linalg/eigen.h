/* eigen.h - real eigenpairs of a general real matrix by LAPACK. */
#ifndef LIPSC_LINALG_EIGEN_H
#define LIPSC_LINALG_EIGEN_H

#include "lipscope.h"

/* The real eigenvalues of a (n x n, column-major, destroyed), *count of them in lambda
 * (room for n) with unit eigenvectors in the columns of vectors (n x n).  An eigenvalue
 * counts as real when LAPACK says so: its imaginary part is exactly zero. */
lipsc_status lipsc_real_eigenpairs(size_t n, double *a, size_t *count, double *lambda,
                                   double *vectors);

#endif
