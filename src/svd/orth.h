/* orth.h - a block of vectors made orthonormal to a basis and among itself. */
#ifndef LIPSC_SVD_ORTH_H
#define LIPSC_SVD_ORTH_H

#include "linalg/space.h"

/* Q: j orthonormal vectors of length len; X: k vectors stored right behind them.
 * On return X holds *rank orthonormal vectors, orthogonal to Q, with
 *
 *     X_in = Q C + X_out R,
 *
 * C (j x k) above R (*rank x k) in coef, whose columns are ldc >= j + k apart.
 * On entry rows known .. j-1 of coef hold what the caller knows of Q^T X from earlier
 * products; it is subtracted first, which saves a pass over Q (known == j: nothing).
 * A vector whose rest is below 16 eps *scale is rounding and dropped; *scale grows to
 * the largest length met.  work: (j + k + 1) * k numbers.
 * LIPSC_E_NONFIN when X is not finite. */
lipsc_status lipsc_svd_orth(const lipsc_space *space, double eps, size_t len, size_t j,
                            void *q, size_t k, size_t known, double *scale, double *coef,
                            size_t ldc, double *work, size_t *rank);

#endif
