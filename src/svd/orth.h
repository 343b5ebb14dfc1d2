/* orth.h - a block of vectors made orthonormal to a basis and among itself. */
#ifndef LIPSC_SVD_ORTH_H
#define LIPSC_SVD_ORTH_H

#include "linalg/space.h"

/* Q: j orthonormal vectors of length len; X: k vectors stored right behind them.
 * Afterwards X holds *rank orthonormal vectors, orthogonal to Q, with
 *
 *     X_in = Q C + X_out R,
 *
 * C (j x k) above R (*rank x k) in coef, whose columns are ldc >= j + k apart.
 * On entry rows known .. j-1 of coef hold what the caller knows of Q^T X from earlier
 * products; it is subtracted first, which saves a pass over Q (known == j: nothing).
 * Vectors of Q before number `from` are taken to be orthogonal to what is left then: no
 * pass is made over them. A vector whose rest is below 16 eps *scale is rounding and
 * dropped; *scale grows to the largest length met.  work: (j + k + 1) * k numbers. */
typedef struct {
    const lipsc_space *space;
    double eps;
    size_t len, from, j;
    lipsc_buffer q;
    size_t k, known;
    double *scale, *coef;
    size_t ldc;
    double *work;
    size_t *rank;
    lipsc_status status;   /* of one of several: what became of it */
    double before, length; /* while it is worked on: of the vector */
} lipsc_orth;

/* LIPSC_E_NONFIN when X is not finite. */
lipsc_status lipsc_svd_orth(const lipsc_orth *o);

/* Whether the sums of several can be made together in this space. */
int lipsc_svd_sums_together(const lipsc_space *space);
/* All of them, in one space; fills their status.  Each finds what it finds
 * alone, as far as the space's sums do. */
void lipsc_svd_orths(size_t count, lipsc_orth *const *orth);

#endif
