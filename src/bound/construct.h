/* construct.h - the constructions of lipscope/construct.h, one by one, from what is known
 * of their head. */
#ifndef LIPSC_BOUND_CONSTRUCT_H
#define LIPSC_BOUND_CONSTRUCT_H

#include "attn/attn.h"
#include "bound/facts.h"

/* Delta* = max over |x| <= R (sphere nonzero: |x| = R) of R |w| - w.x, w = A x + c: the
 * outlier stands at R w/|w|.  x (d) reaches it. */
lipsc_status lipsc_best_delta(const lipsc_head_facts *f, double R, int sphere, double *x,
                              double *delta);

/* Each needs n >= 2 tokens in the ball of radius R (two outliers and linear-in-a: 3) and
 * returns LIPSC_E_REFUSED with the reason where it has no answer.  Free *out on success. */

/* 5.1: one outlier, n - 1 equal tokens, the best Delta; no real eigenvalue is needed.
 * masked: the same, outlier first, with a causal mask (5.4).  sphere: 5.5. */
lipsc_status lipsc_construct_outlier(const lipsc_head_facts *f, double R, size_t n,
                                     int masked, int sphere, lipsc_worst *out,
                                     lipsc_error *err);
/* The authors' rule with a real eigenvector u of A, or -u (sign -1): a different input
 * when there is a query bias. */
lipsc_status lipsc_construct_eigenvector(const lipsc_head_facts *f, double R, size_t n,
                                         int sign, int masked, lipsc_worst *out,
                                         lipsc_error *err);
/* The bulk moved inwards until Delta suits n. */
lipsc_status lipsc_construct_adapted(const lipsc_head_facts *f, double R, size_t n,
                                     int masked, lipsc_worst *out, lipsc_error *err);
/* 5.2: two outliers c +- b with b orthogonal to w.  along: |c| / R in [0, 1), NaN: the best
 * one; with sphere 0 is taken. */
lipsc_status lipsc_construct_two(const lipsc_head_facts *f, double R, size_t n,
                                 double along, int sphere, lipsc_worst *out,
                                 lipsc_error *err);
/* 5.2 (L4): equally many tokens at Ru and -Ru, the rest at 0, last. */
lipsc_status lipsc_construct_linear(const lipsc_head_facts *f, double R, size_t n,
                                    lipsc_worst *out, lipsc_error *err);
/* 5.3: two Diracs with masses in the ratio e^{-Delta} / z*. */
lipsc_status lipsc_construct_diracs(const lipsc_head_facts *f, double R, lipsc_worst *out,
                                    lipsc_error *err);
/* 5.4: outliers at every time scale, two atoms in each of `fibres` cells of [0,1] that grow
 * by `growth`; promised is the limit of many fibres. */
lipsc_status lipsc_construct_scales(const lipsc_head_facts *f, double R, size_t fibres,
                                    double growth, lipsc_worst *out, lipsc_error *err);

/* lipsc_worst_reach that ends when `asked` is told to stop; NULL: nobody is. */
lipsc_status lipsc_worst_reach_until(const lipsc_layer *layer, const lipsc_worst *worst,
                                     const lipsc_device *device, const lipsc_attn *asked,
                                     double *sigma, lipsc_error *err);

/* max over z > 0 of phi(z) = sqrt(z)/(1+z) (1 + z Delta/(1+z)); *z the place. */
double lipsc_best_phi(double delta, double *z);

#endif
