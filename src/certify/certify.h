/* certify.h - the rungs of a certificate: proofs that no singular value exceeds a number.
 *
 *     certify.c   chooses the rung, tells its price, climbs
 *     product.c   products with the scaled operator: counted, timed, stopped
 *     moments.c   traces of powers of J^T J, by unit vectors
 *     deflate.c   what Ritz vectors and such traces prove together
 *     dense.c     the assembled matrix: one Cholesky factorisation proves it
 *     below.c     a Cholesky factorisation as a proof
 *
 * The mathematics is in docs/maths.md 7.8.  Nothing here knows of attention, nor where the
 * vectors are: they are touched through their space alone (linalg/space.h).  Everything is
 * scaled by a power of two so that sigma is about 1: squares neither overflow nor vanish.
 */
#ifndef LIPSC_CERTIFY_CERTIFY_H
#define LIPSC_CERTIFY_CERTIFY_H

#include <float.h>

#include "linalg/space.h"
#include "lipscope.h"

/* The singular values' powers: sum of sigma^(2p) for p = 1 .. LIPSC_MOST_POWER. */
enum { LIPSC_MOST_POWER = 8, LIPSC_CERTIFY_BLOCK = 32 };

/* One certificate in the making.  J is the operator over `scale`. */
typedef struct {
    const lipsc_linop *op; /* in f64, vectors whole                               */
    const lipsc_certify_settings *set;
    double scale; /* a power of two                                               */
    double eta;   /* |fl(J x) - J x| <= eta |x|, and of J^T                       */
    double goal;  /* what sigma shall be proved not to exceed                     */
    double upper; /* least proved bound of sigma so far                           */
    int flip;     /* 1: J^T has fewer columns, unit vectors are taken on its side */
    size_t side;  /* min(m, n)                                                    */
    size_t applied[2];
    double product_seconds;
    /* of the work that is shown with its time left */
    double begin, done, total;
} lipsc_certifier;

/* Upwards and downwards by `count` roundings, with room for that of the result. */
static inline double lipsc_up(double x, size_t count) {
    return x * (1.0 + ((double)count + 4.0) * DBL_EPSILON);
}
static inline double lipsc_down(double x, size_t count) {
    return x * (1.0 - ((double)count + 4.0) * DBL_EPSILON);
}

/* ---- certify.c ---- */

/* lipsc_certify by one way alone: moments up to a power of at least 1, or one of these. */
enum { LIPSC_ANY_WAY = -1, LIPSC_CHOLESKY_WAY = 0 };
lipsc_status lipsc_certify_by(const lipsc_op *op, const double *v,
                              const lipsc_certify_settings *set, int way,
                              lipsc_certificate *out, lipsc_error *err);
/* lipsc_certify of an operator in f64 on vectors of any device, which are whole; v is in
 * host memory. */
lipsc_status lipsc_certify_linop(const lipsc_linop *op, const double *v,
                                 const lipsc_certify_settings *set, int way,
                                 lipsc_certificate *out, lipsc_error *err);

/* ---- product.c ---- */

size_t lipsc_certify_length(const lipsc_certifier *c, int trans, int image);
/* y = J x or J^T x for k vectors, *square (or NULL) the sum of its squares, whose relative
 * error is that of one rounding per element; LIPSC_E_STOPPED when asked to stop,
 * LIPSC_E_NONFIN. */
lipsc_status lipsc_certify_apply(lipsc_certifier *c, int trans, size_t k, lipsc_buffer x,
                                 lipsc_buffer y, double *square);
/* k vectors of length len, and the sum of their squares as above. */
lipsc_status lipsc_certify_vectors(const lipsc_certifier *c, size_t len, size_t k,
                                   lipsc_buffer *out);
lipsc_status lipsc_certify_square(const lipsc_certifier *c, size_t len, size_t k,
                                  lipsc_buffer x, double *square);
/* Unit vectors of the shorter side, any LIPSC_CERTIFY_BLOCK that follow each other: one
 * array, of which they are a view. */
lipsc_status lipsc_units_new(const lipsc_certifier *c, lipsc_buffer *units);
lipsc_buffer lipsc_units_from(const lipsc_certifier *c, lipsc_buffer units, size_t first);
/* Tells how much of the work that was announced is done. */
void lipsc_certify_tell(lipsc_certifier *c, double done);
/* of host numbers; relative error: count roundings */
double lipsc_sum_squares(size_t count, const double *x);

/* ---- below.c ---- */

/* Success of a Cholesky factorisation of order n proves that no eigenvalue is below minus
 * this, where the trace is at most `trace`. */
double lipsc_cholesky_margin(size_t n, double trace);
/* *bound is proved to be at least the largest eigenvalue of the symmetric matrix a (n x n,
 * column-major, kept), within about 1e-9 of it; infinity when that fails. */
lipsc_status lipsc_eigen_below(size_t n, const double *a, double *bound);

/* ---- moments.c ---- */

/* root[p]: above (sum of sigma^(2p))^(1/2); infinity for p that were not asked for. */
typedef struct {
    double root[LIPSC_MOST_POWER + 1];
} lipsc_moments;

lipsc_status lipsc_moments_find(lipsc_certifier *c, int power, lipsc_moments *out);
/* What they prove of sigma alone. */
double lipsc_moments_bound(const lipsc_moments *moments);

/* ---- deflate.c ---- */

/* k Ritz vectors and what products with them gave. */
typedef struct {
    size_t k;
    const lipsc_space *space;
    lipsc_buffer V, W,
        R;           /* (n, k), (m, k) = J V, (n, k) = J^T W - V (W^T W); column-major    */
    double W_square; /* sum of squares of W                                              */
    double defect;   /* above |V^T V - I|                                              */
    double size;     /* above |V|_F                                                    */
    double *value;   /* (k) |J v_i|, descending                                        */
    double W_error, R_error;           /* Frobenius, above                               */
    double kept[LIPSC_MOST_POWER + 1]; /* below the root of the part of the p-th moment
                                        * that the vectors hold, for p up to `powers`    */
    int powers;
} lipsc_ritz;

lipsc_status lipsc_ritz_find(lipsc_certifier *c, size_t k, lipsc_ritz *out, long *products);
lipsc_status lipsc_ritz_powers(lipsc_certifier *c, int power, double norm,
                               lipsc_ritz *ritz);
void lipsc_ritz_free(lipsc_ritz *ritz);
/* estimate[p]: of the p-th moment of what is orthogonal to the vectors, for planning. */
lipsc_status lipsc_ritz_rest(lipsc_certifier *c, const lipsc_ritz *ritz, int power,
                             double *estimate);
/* *bound: proved to be at least sigma, where it is at most c->goal; infinity otherwise. */
lipsc_status lipsc_ritz_prove(const lipsc_certifier *c, const lipsc_ritz *ritz,
                              const lipsc_moments *moments, double *bound);

/* ---- dense.c ---- */

size_t lipsc_dense_proof_bytes(const lipsc_certifier *c); /* SIZE_MAX: cannot be counted */
/* *bound as in lipsc_ritz_prove, or c->goal itself. */
lipsc_status lipsc_dense_prove(lipsc_certifier *c, double *bound);

#endif
