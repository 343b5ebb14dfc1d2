/* solve.h - one solve: what the three methods share, and what svd.c hands back.
 *
 * A solve does not make its products itself: it says which one it waits for (`wish`), so
 * that those of many solves can be made together. */
#ifndef LIPSC_SVD_SOLVE_H
#define LIPSC_SVD_SOLVE_H

#include "linalg/space.h"
#include "lipscope.h"
#include "svd/orth.h"

typedef struct {
    const lipsc_linop *op;
    const lipsc_space *space; /* of op */
    lipsc_svd_settings set;   /* checked, defaults resolved (basis may still be 0) */
    double eps;               /* of the space's precision                          */
    lipsc_buffer start;       /* one vector of n, |start| = 1, or nowhere          */

    /* the answer: set.count values; vectors beyond `found` are zero */
    size_t found;
    double *sigma, *residual;
    lipsc_buffer u, v; /* v may be the caller's, u has room for two where lean */
    lipsc_buffer t; /* set.block vectors of n: after an evaluation, J^T u - sigma v of the
                     * vectors evaluated last */

    /* the product waited for; wish.k is 0 where there is none */
    int trans;
    lipsc_product wish;
    size_t group; /* first vector of the group that is evaluated */

    int lean; /* lipsc_lanczos_lean */
    long products;
    double product_seconds, own_seconds; /* in products, and in all else */
    int restarts;
    double upper_prob;
    lipsc_status status;
} lipsc_svd_run;

/* The vectors from number i on of an array of vectors of length len. */
lipsc_buffer lipsc_svd_at(const lipsc_svd_run *run, lipsc_buffer vectors, size_t len,
                          size_t i);

/* Waits for y = A x or A^T x. */
void lipsc_svd_wish(lipsc_svd_run *run, int trans, size_t k, lipsc_buffer x,
                    lipsc_buffer y);

/* Counts a wish that has been granted.  A product with A is one pair: every product with
 * A^T in the solvers follows one with A on at least as many vectors, so a lone A rounds up.
 */
void lipsc_svd_count(lipsc_svd_run *run, double seconds);

/* op->apply at once, counted. */
lipsc_status lipsc_svd_apply(lipsc_svd_run *run, int trans, size_t k, lipsc_buffer x,
                             lipsc_buffer y);

/* Reports progress and asks whether to stop: nonzero means stop. */
int lipsc_svd_tell(const lipsc_svd_run *run, double sigma, double residual);

/* From the first `found` vectors of run->v, which are scaled to length one: sigma =
 * |A v|, u = A v / sigma and residual = |A^T u - sigma v| / sigma, which is
 * |A^T A v - sigma^2 v| / sigma^2, all from products made here.  One pair each.
 * LIPSC_E_NONFIN when a product is not finite. */
lipsc_status lipsc_svd_evaluate(lipsc_svd_run *run, size_t found);
/* The same in steps: begin, and next after each wish that was granted, until none is left.
 */
lipsc_status lipsc_svd_evaluate_begin(lipsc_svd_run *run, size_t found);
lipsc_status lipsc_svd_evaluate_next(lipsc_svd_run *run);

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
lipsc_status lipsc_svd_power(lipsc_svd_run *run);
lipsc_status lipsc_svd_dense(lipsc_svd_run *run);

/* Whether memory is so short that Lanczos keeps V and the last vector of U alone: for one
 * value, whose U need not be orthogonal (lanczos_space.c). */
int lipsc_lanczos_lean(const lipsc_svd_run *run);

/* Lanczos in steps: begin, and next after each wish that was granted, with what
 * became of it, until none is left; where next returns something to be made
 * orthonormal, orthed once it is; then end returns what the others return. NULL
 * after begin: no memory. */
typedef struct lipsc_lanczos lipsc_lanczos;
lipsc_lanczos *lipsc_lanczos_begin(lipsc_svd_run *run);
lipsc_orth *lipsc_lanczos_next(lipsc_lanczos *z, lipsc_status made);
void lipsc_lanczos_orthed(lipsc_lanczos *z);
lipsc_status lipsc_lanczos_end(lipsc_lanczos *z);

/* lockstep.c: Lanczos for all runs side by side; fills their status. */
void lipsc_svd_lockstep(size_t count, lipsc_svd_run *runs, lipsc_products *products,
                        int threads);

#endif
