/* upper_prob.c - the bound of Kuczynski and Wozniakowski (docs/maths.md, 7.2).
 *
 * Start vector uniform on the sphere of R^n, k steps of Lanczos on A^T A, theta^2 its
 * largest Ritz value:
 *
 *     Prob( theta^2 < (1 - e) sigma^2 ) <= 1.648 sqrt(n) exp(-sqrt(e) (2k - 1)).
 *
 * Solved for e with 1 - probability on the right.  A block of start vectors only helps:
 * its space contains the space of its first vector, so its theta is at least as large. */
#include "svd/upper_prob.h"

#include <math.h>

double lipsc_svd_upper_prob(double theta, size_t n, size_t steps, double probability) {
    if (steps == 0) return NAN;
    const double root_e =
        log(1.648 * sqrt((double)n) / (1.0 - probability)) / (2.0 * (double)steps - 1.0);
    return root_e < 1.0 ? theta / sqrt(1.0 - root_e * root_e) : NAN;
}
