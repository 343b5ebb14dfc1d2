/* lanczos.c - the steps of one Lanczos solve: which product it waits for, when it stops.
 *
 * The residuals are estimated without a product (lanczos_space.c).  When the estimates meet
 * the tolerance the answer is evaluated by products made for that purpose; if these
 * disagree (rounding), the solve goes on. */
#include "svd/lanczos.h"

#include <math.h>

#include "core/extreme.h"
#include "core/mem.h"
#include "svd/upper_prob.h"

/* Begins to evaluate the answer of the space as it stands; before the first step, of its
 * start vectors. */
static lipsc_status evaluate(lanczos *z) {
    lipsc_svd_run *run = z->run;
    const size_t found = min_size(run->set.count, z->jv ? z->jv : z->next);
    const lipsc_status status =
        z->jv ? lipsc_space_combine(run->space, z->n, z->jv, z->V, found,
                                    lipsc_lanczos_best(z, found), 0.0, run->v)
              : lipsc_space_copy(run->space, found * z->n, z->V, run->v);
    z->evaluated = 1;
    z->at = EVALUATE;
    return status ? status : lipsc_svd_evaluate_begin(run, found);
}

/* The largest Ritz value outside the set asked for. */
static double value_below(const lanczos *z) {
    const size_t count = z->run->set.count;
    return count < z->jv ? z->theta[count] : NAN;
}

static int estimates_meet(const lanczos *z) {
    return z->jv >= z->run->set.count && z->steps >= z->hold &&
           lipsc_svd_meets(z->run, LIPSC_ESTIMATED, z->tol, z->theta, z->estimate,
                           value_below(z));
}

/* A start vector almost orthogonal to the top singular vector makes the next one look
 * converged for a while: after six steps a residual of 1e-2 has been seen at a value 5 %
 * too low.  From ten steps on, 7.2 bounds the chance of that. */
enum { FIRST_TRUSTED_STEP = 10 };

/* No more steps: an answer that is not evaluated yet will be. */
static lipsc_status finish(lanczos *z, lipsc_status outcome) {
    z->ends = 1;
    z->outcome = outcome;
    z->run->wish.k = 0;
    return z->evaluated ? LIPSC_OK : evaluate(z);
}

static lipsc_status begin_step(lanczos *z) {
    lipsc_svd_run *run = z->run;
    /* one pair per value stays in reserve for the evaluation */
    if (run->products + (long)(z->next + run->set.count) > run->set.max_products)
        return finish(z, LIPSC_E_NOCONV);
    lipsc_status status = LIPSC_OK;
    if (z->jv + z->next > z->cap) status = lipsc_lanczos_restart(z);
    if (!status && run->lean && z->ju)
        status = lipsc_space_copy(run->space, z->m, lipsc_lanczos_column(z, z->U, z->m, 1),
                                  z->U);
    z->newest = z->ju;
    z->at = EXTEND_U;
    lipsc_svd_wish(run, 0, z->next, lipsc_lanczos_column(z, z->V, z->n, z->jv),
                   lipsc_lanczos_u(z, z->ju));
    return status;
}

static lipsc_status end_step(lanczos *z) {
    const lipsc_status status = lipsc_lanczos_conclude(z);
    if (status) return status;
    z->stop = lipsc_svd_tell(z->run, z->theta[0], z->estimate[0]);
    if (z->next == 0 || estimates_meet(z)) return evaluate(z);
    return z->stop ? finish(z, LIPSC_E_STOPPED) : begin_step(z);
}

static lipsc_status end_evaluation(lanczos *z) {
    lipsc_svd_run *run = z->run;
    if (z->ends) return LIPSC_OK;
    if (lipsc_svd_meets(run, LIPSC_EVALUATED, run->set.tol, run->sigma, run->residual,
                        value_below(z)))
        return finish(z, LIPSC_OK);
    if (z->next == 0) return finish(z, LIPSC_E_NOCONV); /* rounding forbids more */
    z->tol *= 0.25;
    z->stop = lipsc_svd_tell(run, run->sigma[0], run->residual[0]) || z->stop;
    return z->stop ? finish(z, LIPSC_E_STOPPED) : begin_step(z);
}

/* A product is made. */
static lipsc_status go_on(lanczos *z) {
    lipsc_svd_run *run = z->run;
    if (z->at == EXTEND_U) {
        lipsc_lanczos_ask_u(z);
        return LIPSC_OK;
    }
    if (z->at == EXTEND_V) {
        lipsc_lanczos_ask_v(z);
        return LIPSC_OK;
    }
    const lipsc_status status = lipsc_svd_evaluate_next(run);
    return status || run->wish.k ? status : end_evaluation(z);
}

/* And what it gave is orthonormal. */
static lipsc_status take_block(lanczos *z) {
    if (z->orth.status) return z->orth.status;
    if (z->at == EXTEND_V) {
        lipsc_lanczos_extend_v(z);
        return end_step(z);
    }
    lipsc_lanczos_extend_u(z);
    if (z->rank == 0) return end_step(z);
    z->at = EXTEND_V;
    lipsc_svd_wish(z->run, 1, z->rank, lipsc_lanczos_u(z, z->s_from),
                   lipsc_lanczos_column(z, z->V, z->n, z->jv));
    return LIPSC_OK;
}

static void fail(lanczos *z, lipsc_status status) {
    z->outcome = status;
    z->run->wish.k = 0;
}

lipsc_orth *lipsc_lanczos_next(lipsc_lanczos *z, lipsc_status made) {
    z->waits = 0;
    const lipsc_status status = made ? made : go_on(z);
    if (status) fail(z, status);
    return z->waits ? &z->orth : NULL;
}

void lipsc_lanczos_orthed(lipsc_lanczos *z) {
    const lipsc_status status = take_block(z);
    if (status) fail(z, status);
}

lipsc_lanczos *lipsc_lanczos_begin(lipsc_svd_run *run) {
    lanczos *z = lipsc_alloc_zero(1, sizeof *z);
    if (!z) return NULL;
    *z = (lanczos){.run = run, .m = run->op->m, .n = run->op->n, .block = run->set.block};
    z->tol = run->set.tol;
    z->hold = run->start.at ? 0 : FIRST_TRUSTED_STEP;
    lipsc_status status = lipsc_lanczos_open(z);
    if (!status) status = lipsc_lanczos_start(z);
    if (!status) status = begin_step(z);
    if (status) fail(z, status);
    return z;
}

lipsc_status lipsc_lanczos_end(lipsc_lanczos *z) {
    lipsc_svd_run *run = z->run;
    const lipsc_status outcome = z->outcome;
    if (z->exhausted)
        run->upper_prob = 0.0; /* below sigma: sigma itself is reported */
    else if (z->first_steps && !run->start.at)
        run->upper_prob = lipsc_svd_upper_prob(z->first_theta, z->n, z->first_steps,
                                               run->set.probability);
    lipsc_lanczos_close(z);
    lipsc_release(z);
    return outcome;
}
