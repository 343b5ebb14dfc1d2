/* sinkhorn.h - the Sinkhorn divergence: an approximation of the cost for large measures. */
#ifndef LIPSC_OT_SINKHORN_H
#define LIPSC_OT_SINKHORN_H

#include "ot/cost.h"

/* value = OT_e(a,b) - OT_e(a,a)/2 - OT_e(b,b)/2 with the entropic cost
 *     OT_e(a,b) = min over couplings P of sum P c + e KL(P | a x b),
 * and the potentials f (n), g (m) of OT_e(a,b), less those of the other two: the value is
 * sum a f + sum b g.  Points (n,d) and (m,d) with costs in [0, 1].  LIPSC_E_NOCONV when
 * the marginals are still off by 1e-6 after the last iteration: what was reached. */
lipsc_status lipsc_ot_sinkhorn(const lipsc_ot_cost *cost, const double *a, const double *b,
                               double epsilon, double *f, double *g, double *value);

#endif
