/* upper_prob.h - how far above the largest Ritz value sigma can be. */
#ifndef LIPSC_SVD_UPPER_PROB_H
#define LIPSC_SVD_UPPER_PROB_H

#include <stddef.h>

/* theta: largest Ritz value (of A, not of A^T A) after `steps` steps of one uninterrupted
 * Krylov space in R^n from a random start.  sigma is below the result with the given
 * probability; NaN when the steps are too few to say anything. */
double lipsc_svd_upper_prob(double theta, size_t n, size_t steps, double probability);

#endif
