/* psd.h - the largest eigenvalue of a positive semidefinite matrix, from above. */
#ifndef LIPSC_BOUND_PSD_H
#define LIPSC_BOUND_PSD_H

#include "lipscope.h"

/* *value >= the largest eigenvalue of a (size, size; both triangles; destroyed), rounding
 * included: trace(a^m)^{1/m} with m = 2^squarings at most, fewer where no more than 1e-10
 * is left to gain.  room (size, size).  A number that is not finite is LIPSC_E_RANGE. */
lipsc_status lipsc_psd_norm(size_t size, double *a, int squarings, double *room,
                            double *value);

/* The same by several threads; the same bits. */
lipsc_status lipsc_psd_norm_by(int threads, size_t size, double *a, int squarings,
                               double *room, double *value);

#endif
