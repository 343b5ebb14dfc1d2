/* straight.h - whether a curve with noise is straight: its parts that bend, and their test.
 */
#ifndef LIPSC_RUN_STRAIGHT_H
#define LIPSC_RUN_STRAIGHT_H

#include "lipscope.h"

enum { LIPSC_BENDS = 2 /* at most: polynomials of degree 2 and 3 */ };

/* Orthonormal polynomials of degree 2, 3, ... at the places X, rows of P (LIPSC_BENDS,
 * count): a straight line has no part along them.  How many there are; room:
 * for (LIPSC_BENDS + 2) count numbers. */
size_t lipsc_bends(size_t count, const double *X, double *room, double **P);

/* P value of parts z (q) that are 0 but for noise whose covariance S (q, q; lower part,
 * overwritten) was estimated with so many degrees of freedom. */
double lipsc_bend_test(size_t q, const double *z, double S[LIPSC_BENDS][LIPSC_BENDS],
                       double freedom);

#endif
