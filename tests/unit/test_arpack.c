/* test_arpack.c - the solver against ARPACK (dsaupd on A^T A) on an operator too large
 * for a dense SVD: a grid operator that exists only as a function. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <arpack/arpack.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "lipscope.h"

enum { SIDE = 80, N = SIDE * SIDE, M = N + SIDE, VALUES = 4, BASIS = 30 };

/* y = [D x; row sums of x / 10] with D a first-order recurrence along the grid and random
 * coefficients: not symmetric, not square, no closed form. */
typedef struct {
    double diagonal[N], right[N], down[N];
} grid;

static void grid_apply(const grid *g, int trans, const double *x, double *y) {
    memset(y, 0, (trans ? N : M) * sizeof *y);
    for (size_t i = 0; i < N; i++) {
        const size_t to_right = i + 1, below = i + SIDE, row = N + i / SIDE;
        if (!trans) {
            y[i] += g->diagonal[i] * x[i];
            if (to_right < N) y[i] += g->right[i] * x[to_right];
            if (below < N) y[i] += g->down[i] * x[below];
            y[row] += 0.1 * x[i];
        } else {
            y[i] += g->diagonal[i] * x[i] + 0.1 * x[row];
            if (to_right < N) y[to_right] += g->right[i] * x[i];
            if (below < N) y[below] += g->down[i] * x[i];
        }
    }
}

static int apply(void *ctx, int trans, size_t k, const double *x, double *y) {
    const size_t in = trans ? M : N, out = trans ? N : M;
    for (size_t j = 0; j < k; j++) grid_apply(ctx, trans, x + j * in, y + j * out);
    return 0;
}

static grid *grid_new(uint64_t seed) {
    grid *g = malloc(sizeof *g);
    assert_non_null(g);
    for (uint64_t i = 0; i < N; i++) {
        /* a few strong places give separated largest values */
        g->diagonal[i] = lipsc_rng_normal(seed, i) * (i % 1601 == 7 ? 3.0 : 1.0);
        g->right[i] = lipsc_rng_normal(seed + 1, i);
        g->down[i] = lipsc_rng_normal(seed + 2, i);
    }
    return g;
}

/* The largest singular values by ARPACK, descending. */
static void by_arpack(const grid *g, double *sigma) {
    enum { WORK = BASIS * (BASIS + 8) };
    double *resid = malloc(N * sizeof *resid), *basis = malloc(N * BASIS * sizeof *basis);
    double *workd = malloc(3 * N * sizeof *workd), *w = malloc(M * sizeof *w);
    double workl[WORK], values[VALUES];
    a_int iparam[11] = {1, 0, 1000, 1, 0, 0, 1}, ipntr[14] = {0}, select[BASIS] = {0};
    a_int ido = 0, info = 0;
    assert_true(resid && basis && workd && w);
    for (;;) {
        dsaupd_c(&ido, "I", N, "LA", VALUES, 1e-13, resid, BASIS, basis, N, iparam, ipntr,
                 workd, workl, WORK, &info);
        if (ido != 1 && ido != -1) break;
        grid_apply(g, 0, workd + ipntr[0] - 1, w);
        grid_apply(g, 1, w, workd + ipntr[1] - 1);
    }
    assert_int_equal(info, 0);
    dseupd_c(0, "A", select, values, basis, N, 0.0, "I", N, "LA", VALUES, 1e-13, resid,
             BASIS, basis, N, iparam, ipntr, workd, workl, WORK, &info);
    assert_int_equal(info, 0);
    for (size_t i = 0; i < VALUES; i++) sigma[i] = sqrt(values[VALUES - 1 - i]);
    free(resid);
    free(basis);
    free(workd);
    free(w);
}

static void test_largest_values(void **state) {
    (void)state;
    for (uint64_t seed = 10; seed <= 40; seed += 10) {
        grid *g = grid_new(seed);
        double want[VALUES], got[VALUES];
        by_arpack(g, want);
        const lipsc_op op = {M, N, apply, g};
        for (size_t count = 1; count <= VALUES; count += VALUES - 1)
            for (size_t basis = 0; basis <= 14; basis += 14) {
                lipsc_svd_settings set;
                lipsc_svd_info info;
                lipsc_svd_defaults(&set);
                set.count = count;
                set.basis = basis;
                assert_int_equal(lipsc_svd(&op, &set, got, NULL, NULL, &info), LIPSC_OK);
                if (basis && count > 1) assert_true(info.restarts > 0);
                /* both have residuals below 1e-8, so errors far below rounding of A^T A */
                for (size_t i = 0; i < count; i++)
                    assert_true(fabs(got[i] - want[i]) < 1e-12 * want[0]);
            }
        free(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_largest_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
