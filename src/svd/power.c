/* power.c - power iteration on A^T A for the largest singular value: the baseline.
 *
 * v <- A^T A v / |A^T A v|, one pair per step.  Every step is a full evaluation, so the
 * value and the residual are the true ones of v at any moment.  Nothing is known of the
 * second value here: the estimated error of the value is half the residual. */
#include <math.h>

#include "svd/solve.h"

lipsc_status lipsc_svd_power(lipsc_svd_run *run) {
    const lipsc_space *space = run->space;
    const size_t n = run->op->n;
    const double one = 1.0;
    if (run->set.count != 1) return LIPSC_E_ARG;

    lipsc_status status = lipsc_space_random(space, run->set.seed, 0, n, run->v);
    for (;;) {
        if (!status) status = lipsc_svd_evaluate(run, 1);
        if (status) return status;
        const int stop = lipsc_svd_tell(run, run->sigma[0], run->residual[0]);
        if (lipsc_svd_meets(run, LIPSC_EVALUATED, run->set.tol, run->sigma, run->residual,
                            NAN))
            return LIPSC_OK;
        if (stop) return LIPSC_E_STOPPED;
        if (run->products >= run->set.max_products) return LIPSC_E_NOCONV;
        /* A^T u = (A^T u - sigma v) + sigma v; evaluation makes it a unit vector */
        status = lipsc_space_scale(space, n, run->sigma[0], run->v);
        if (!status)
            status = lipsc_space_combine(space, n, 1, run->t, 1, &one, 1.0, run->v);
    }
}
