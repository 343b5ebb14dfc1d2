/* svd_answer.h - a solve of a test matrix, and what must hold of every answer. */
#ifndef LIPSC_TEST_SVD_ANSWER_H
#define LIPSC_TEST_SVD_ANSWER_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "matrix_op.h"

enum { MAX_COUNT = 20 };

typedef struct {
    double sigma[MAX_COUNT];
    double *u, *v;
    lipsc_svd_info info;
    lipsc_status status;
} answer;

static lipsc_svd_settings settings(size_t count) {
    lipsc_svd_settings set;
    lipsc_svd_defaults(&set);
    set.count = count;
    return set;
}

static answer solve(test_matrix *t, const lipsc_svd_settings *set) {
    answer r = {.u = test_alloc(t->m * set->count, sizeof(double)),
                .v = test_alloc(t->n * set->count, sizeof(double))};
    lipsc_op op = matrix_op(t);
    r.status = lipsc_svd(&op, set, r.sigma, r.u, r.v, &r.info);
    return r;
}

static void answer_free(answer *r) {
    free(r->u);
    free(r->v);
}

/* Rounding of plain-loop products of length up to a few hundred, relative to |A|.
 * Measured: below 3e-15. */
static const double ROUND = 2e-14;

/* What holds of every answer, converged or not: unit orthogonal vectors, sigma = |A v|
 * largest first, u = A v / sigma, the residual reported is that of v, and sigma is not
 * above the exact value. */
static inline void check_answer(const test_matrix *t, const lipsc_svd_settings *set,
                                const answer *r, const double *exact) {
    const size_t rank = t->m < t->n ? t->m : t->n;
    for (size_t i = 0; i < set->count; i++) {
        const double *v = r->v + i * t->n, *u = r->u + i * t->m;
        if (i >= t->n) {
            assert_true(r->sigma[i] == 0.0 && vector_norm(t->n, v) == 0.0);
            continue;
        }
        double sigma;
        const double residual = matrix_residual(t, v, &sigma);
        if (i < rank) assert_true(fabs(vector_norm(t->n, v) - 1.0) < 1e-14);
        assert_true(fabs(sigma - r->sigma[i]) <= ROUND * exact[0]);
        if (i == 0 && sigma > 0.0) assert_true(fabs(residual - r->info.residual) < ROUND);
        if (i > 0) assert_true(r->sigma[i] <= r->sigma[i - 1]);
        assert_true(r->sigma[i] <= (i < rank ? exact[i] : 0.0) + ROUND * exact[0]);
        if (r->sigma[i] > 1e-3 * exact[0]) {
            double *w = test_alloc(t->m, sizeof *w);
            matrix_times(t, 0, v, w);
            for (size_t l = 0; l < t->m; l++)
                assert_true(fabs(w[l] - sigma * u[l]) <= ROUND * exact[0]);
            free(w);
        }
        for (size_t k = 0; k < i; k++) {
            double dot = 0.0;
            for (size_t l = 0; l < t->n; l++) dot += v[l] * r->v[k * t->n + l];
            assert_true(fabs(dot) < 1e-13);
        }
    }
    assert_true(!(r->info.upper_prob < r->sigma[0]));
    assert_int_equal(r->info.status, r->status);
    assert_int_equal(r->info.converged, r->status == LIPSC_OK);
    assert_true(r->info.products > 0 && r->info.seconds >= 0.0);
}

#endif
