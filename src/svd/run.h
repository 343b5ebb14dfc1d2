/* run.h - one solve: what the three methods share, and what svd.c hands back. */
#ifndef LIPSC_SVD_RUN_H
#define LIPSC_SVD_RUN_H

#include "linalg/space.h"
#include "lipscope.h"

typedef struct {
    const lipsc_linop *op;
    const lipsc_space *space; /* of op */
    lipsc_svd_settings set;   /* checked, defaults resolved (basis may still be 0) */
    double eps;               /* of the space's precision                          */
    const void *start;        /* one vector of n, |start| = 1, or NULL             */

    /* the answer: set.count values; vectors beyond `found` are zero */
    size_t found;
    double *sigma, *residual;
    void *u, *v; /* back-end memory */
    void *t;     /* set.block vectors of n: after an evaluation, J^T u - sigma v of the
                  * vectors evaluated last */

    long products;
    double product_seconds;
    int restarts;
    double upper_prob;
} lipsc_svd_run;

/* The vector number i of an array of vectors of length len. */
void *lipsc_svd_at(const lipsc_svd_run *run, void *vectors, size_t len, size_t i);

/* op->apply, counted.  A product with A is one pair: every product with A^T in the
 * solvers follows one with A on at least as many vectors, so a lone A rounds up. */
lipsc_status lipsc_svd_apply(lipsc_svd_run *run, int trans, size_t k, const void *x,
                             void *y);

/* Reports progress and asks whether to stop: nonzero means stop. */
int lipsc_svd_tell(const lipsc_svd_run *run, double sigma, double residual);

/* From the first `found` vectors of run->v, which are scaled to length one: sigma =
 * |A v|, u = A v / sigma and residual = |A^T u - sigma v| / sigma, which is
 * |A^T A v - sigma^2 v| / sigma^2, all from products made here.  One pair each.
 * LIPSC_E_NONFIN when a product is not finite. */
lipsc_status lipsc_svd_evaluate(lipsc_svd_run *run, size_t found);

/* Estimated relative error of a value: with rho its residual and `below` the largest
 * value outside the set asked for (NaN: not known), the eigenvalue sigma^2 of A^T A is
 * within rho sigma^2, and by Kato and Temple within rho^2 sigma^2 / gap where gap is
 * 1 - (below / sigma)^2.  Half of that for sigma.  An estimate, because `below` is
 * itself one. */
double lipsc_svd_value_error(double sigma, double residual, double below);

/* The stop rule for `count` values with `tol` in place of set.tol. */
typedef enum { LIPSC_ESTIMATED, LIPSC_EVALUATED } lipsc_svd_source;
int lipsc_svd_meets(const lipsc_svd_run *run, lipsc_svd_source source, double tol,
                    const double *sigma, const double *residual, double below);

/* The methods: fill the answer of run and return LIPSC_OK, LIPSC_E_NOCONV,
 * LIPSC_E_STOPPED, or what failed. */
lipsc_status lipsc_svd_lanczos(lipsc_svd_run *run);
lipsc_status lipsc_svd_power(lipsc_svd_run *run);
lipsc_status lipsc_svd_dense(lipsc_svd_run *run);

#endif
