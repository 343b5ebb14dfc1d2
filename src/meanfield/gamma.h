/* gamma.h - Gamma at any point, for any law of tokens whose tilted mean is known: inside
 * measure/ only. */
#ifndef LIPSC_MEANFIELD_GAMMA_H
#define LIPSC_MEANFIELD_GAMMA_H

#include "lipscope.h"

/* mean (d) = E[ y e^{w.y} ] / E[ e^{w.y} ] over the tokens y that point `at` sees; linear
 * nonzero: only the part of it that is linear in w. */
typedef lipsc_status (*lipsc_tilt)(const void *law, size_t at, const double *w, int linear,
                                   double *mean);

/* Gamma(x) = O [V_h mean(w_h(x)) + bv_h; ...] + bo with w_h = scale K^T (Q x + bq), for
 * count points x (count, d): y (count, width).  linear: all biases are left out.  layer is
 * resolved.  LIPSC_E_REFUSED with rotary positions and query/key norms, where scores are
 * not of the form w.y. */
lipsc_status lipsc_gamma(const lipsc_layer *layer, lipsc_tilt tilt, const void *law,
                         int linear, size_t count, const double *x, double *y,
                         lipsc_error *err);

#endif
