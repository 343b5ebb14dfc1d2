/* space.h - vectors that live in a back end's memory and precision.
 *
 * A solver works on blocks of k vectors of length len, stored one after the other
 * (vector j starts at element j * len), and touches them only through this table.
 * Small matrices of coefficients are host doubles, column-major.  Sums are made in
 * double, in an order that does not depend on the number of threads. */
#ifndef LIPSC_LINALG_SPACE_H
#define LIPSC_LINALG_SPACE_H

#include "lipscope.h"

typedef struct lipsc_space {
    lipsc_dtype dtype;
    size_t item; /* bytes of one element */

    void *(*alloc)(size_t elements); /* NULL when memory is short */
    void (*release)(void *p);        /* NULL is fine              */

    /* conversions from and to host doubles */
    void (*upload)(size_t elements, const double *host, void *dst);
    void (*download)(size_t elements, const void *src, double *host);

    void (*copy)(size_t elements, const void *src, void *dst);
    void (*scale)(size_t elements, double s, void *x);

    /* standard normal numbers first .. first+elements-1 of stream `seed` */
    void (*random)(uint64_t seed, uint64_t first, size_t elements, void *dst);

    /* c (ka x kb) = A^T B, A: ka vectors, B: kb vectors */
    void (*gram)(size_t len, size_t ka, const void *a, size_t kb, const void *b, double *c);

    /* B = beta B + A C,  C (ka x kb); beta is 0 (B need not be initialised) or 1 */
    void (*combine)(size_t len, size_t ka, const void *a, size_t kb, const double *c,
                    double beta, void *b);
} lipsc_space;

/* Vectors in host memory; a vector of host doubles is one of the f64 space as it stands. */
const lipsc_space *lipsc_space_host(lipsc_dtype dtype);

/* An operator on such vectors: what a solver sees.
 * trans 0: y (k vectors of m) = A x (k vectors of n); trans 1: the other way. */
typedef struct {
    size_t m, n;
    const lipsc_space *space;
    lipsc_status (*apply)(void *ctx, int trans, size_t k, const void *x, void *y);
    void *ctx;
} lipsc_linop;

#endif
