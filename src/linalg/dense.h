/* dense.h - small dense problems by LAPACK: the only door to it.
 * Matrices are column-major here, as LAPACK wants them. */
#ifndef LIPSC_LINALG_DENSE_H
#define LIPSC_LINALG_DENSE_H

#include "lipscope.h"

/* a (m x n, destroyed) = U diag(s) V^T with r = min(m, n): s (r) descending, u (m x r)
 * or NULL, vt (r x n) or NULL. */
lipsc_status lipsc_dense_svd(size_t m, size_t n, double *a, double *s, double *u,
                             double *vt);

/* Largest singular value of a (m x n, column-major, leading dimension m; kept). */
lipsc_status lipsc_dense_norm(size_t m, size_t n, const double *a, double *norm);

/* Symmetric a (n x n, both triangles, destroyed: eigenvectors in its columns when
 * vectors is nonzero); w (n) ascending. */
lipsc_status lipsc_dense_eigen(size_t n, double *a, double *w, int vectors);

/* The Cholesky factorisation of a, of which only the lower triangle is read (n x n,
 * destroyed).  *definite 0: a pivot was not positive. */
lipsc_status lipsc_dense_cholesky(size_t n, double *a, int *definite);

/* a (m x n) = q r with q (m x m) orthogonal: a becomes r, zero below its diagonal. */
lipsc_status lipsc_dense_qr(size_t m, size_t n, double *a, double *q);

/* c (m x n) = alpha op(a) op(b) + beta c, through cblas; trans flags 0 or 1. */
void lipsc_dense_gemm(int ta, int tb, size_t m, size_t n, size_t k, double alpha,
                      const double *a, size_t lda, const double *b, size_t ldb, double beta,
                      double *c, size_t ldc);

/* c (m x n) = a b, or c += a b with add, in f32; every size fits into an int. */
void lipsc_dense_sgemm(size_t m, size_t n, size_t k, const float *a, size_t lda,
                       const float *b, size_t ldb, int add, float *c, size_t ldc);

/* GFLOP/s of this machine's own single-precision product of size^3: the yardstick of
 * bench.  Median of `repeats`. */
double lipsc_dense_sgemm_rate(size_t size, int threads, int repeats);

#endif
