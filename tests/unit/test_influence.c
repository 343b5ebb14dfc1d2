/* test_influence.c - the token and the pair that matter most, against LAPACK's norms of all
 * blocks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "matrix_op.h"
#include "value/influence.h"
#include "value/sink.h"

static lipsc_status apply(void *ctx, int trans, size_t k, lipsc_buffer x, lipsc_buffer y) {
    return matrix_apply(ctx, trans, k, x.at, y.at) ? LIPSC_E_CALLBACK : LIPSC_OK;
}

static lipsc_linop linop(test_matrix *t) {
    return (lipsc_linop){.m = t->m,
                         .n = t->n,
                         .space = lipsc_space_host(LIPSC_F64),
                         .apply = apply,
                         .ctx = t};
}

/* Largest singular value of rows r .. r+h-1 and columns c .. c+w-1, by LAPACK. */
static double block_norm(const test_matrix *t, size_t r, size_t h, size_t c, size_t w) {
    test_matrix part = matrix_zero(h, w);
    for (size_t j = 0; j < w; j++)
        memcpy(part.a + j * h, t->a + (c + j) * t->m + r, h * sizeof *part.a);
    double *s = matrix_values(&part), norm = s[0];
    free(s);
    matrix_free(&part);
    return norm;
}

/* Norms are lower bounds, found to 1e-6: the square of the residual asked for. */
static void near(double value, double want, double tolerance) {
    if (!(fabs(value - want) <= tolerance * fabs(want)))
        fail_msg("%.17g is not within %g of %.17g", value, tolerance, want);
}

/* 12 tokens, 3 numbers in and 4 out, random blocks, of which one column and one block of
 * another column are made strong enough for the probes to tell. */
static void test_blocks(void **state) {
    (void)state;
    enum { TOKENS = 12, IN = 3, OUT = 4 };
    for (uint64_t seed = 1; seed <= 20; seed++) {
        test_matrix t = matrix_random(TOKENS * OUT, TOKENS * IN, seed);
        const size_t strong = seed % TOKENS, from = (seed + 5) % TOKENS,
                     to = (3 * seed) % TOKENS;
        for (size_t c = strong * IN; c < (strong + 1) * IN; c++)
            for (size_t r = 0; r < t.m; r++) t.a[c * t.m + r] *= 5.0;
        for (size_t c = from * IN; c < (from + 1) * IN; c++)
            for (size_t r = to * OUT; r < (to + 1) * OUT; r++) t.a[c * t.m + r] *= 25.0;

        size_t token = 0, pair_to = 0, pair_from = 0;
        double best = 0.0, best_pair = 0.0;
        for (size_t j = 0; j < TOKENS; j++) {
            const double column = block_norm(&t, 0, t.m, j * IN, IN);
            if (column > best) best = column, token = j;
            for (size_t i = 0; i < TOKENS; i++) {
                const double block = block_norm(&t, i * OUT, OUT, j * IN, IN);
                if (block > best_pair) best_pair = block, pair_to = i, pair_from = j;
            }
        }
        lipsc_influence found;
        const lipsc_linop op = linop(&t);
        const long before = t.calls;
        assert_int_equal(lipsc_influence_find(&op, TOKENS, seed, NULL, NULL, NULL, &found),
                         LIPSC_OK);
        /* 4 calls with probes, one for each token, and two groups of solves side by side
         * with at most IN steps: one after the other they would be four times as many */
        assert_true(t.calls - before <= 4 + TOKENS + 2 * (2 * IN + 4));
        near(found.token_norm, block_norm(&t, 0, t.m, found.token * IN, IN), 1e-6);
        near(found.pair_norm,
             block_norm(&t, found.pair_to * OUT, OUT, found.pair_from * IN, IN), 1e-6);
        assert_int_equal(found.token, token);
        assert_int_equal(found.pair_to, pair_to);
        assert_int_equal(found.pair_from, pair_from);
        matrix_free(&t);
    }
}

/* Estimates of what every token does, against the Frobenius norms of the columns.  With 32
 * probes the square of a column of rank 1 has a relative deviation of 1/4, of higher rank
 * less: none of 240 is off by five of them, and their mean is that much closer to 1. */
static void test_strengths(void **state) {
    (void)state;
    enum { TOKENS = 12, IN = 3, OUT = 4, SEEDS = 20 };
    double sum = 0.0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        test_matrix t = matrix_random(TOKENS * OUT, TOKENS * IN, 1000 + seed);
        double found[TOKENS];
        lipsc_influence best;
        const lipsc_linop op = linop(&t);
        for (size_t e = 0; e < t.m * IN; e++) t.a[5 * IN * t.m + e] *= 7.0;
        assert_int_equal(lipsc_influence_find(&op, TOKENS, seed, NULL, NULL, found, &best),
                         LIPSC_OK);
        for (size_t j = 0; j < TOKENS; j++) {
            double square = 0.0;
            for (size_t e = j * IN * t.m; e < (j + 1) * IN * t.m; e++)
                square += t.a[e] * t.a[e];
            const double ratio = found[j] * found[j] / square;
            assert_true(fabs(ratio - 1.0) < 5.0 / 4.0);
            sum += ratio / (TOKENS * SEEDS);
        }
        matrix_free(&t);
    }
    assert_true(fabs(sum - 1.0) < 4.0 / 4.0 / sqrt(TOKENS * SEEDS));
}

static void test_wrong_sizes(void **state) {
    (void)state;
    test_matrix t = matrix_random(10, 10, 1);
    lipsc_influence found;
    const lipsc_linop op = linop(&t);
    assert_int_equal(lipsc_influence_find(&op, 3, 1, NULL, NULL, NULL, &found),
                     LIPSC_E_ARG);
    assert_int_equal(lipsc_influence_find(&op, 0, 1, NULL, NULL, NULL, &found),
                     LIPSC_E_ARG);
    /* one token: the only column and the only block are the matrix */
    double *s = matrix_values(&t);
    assert_int_equal(lipsc_influence_find(&op, 1, 1, NULL, NULL, NULL, &found), LIPSC_OK);
    near(found.token_norm, s[0], 1e-6);
    near(found.pair_norm, s[0], 1e-6);
    free(s);
    t.fail_at = t.calls + 2;
    assert_int_not_equal(lipsc_influence_find(&op, 1, 1, NULL, NULL, NULL, &found),
                         LIPSC_OK);
    matrix_free(&t);
}

/* One token alone and all others, against LAPACK; the first, one inside, the last, and one
 * token in all. */
static void test_sink(void **state) {
    (void)state;
    enum { TOKENS = 9, IN = 3, OUT = 2 };
    const size_t places[] = {0, 4, TOKENS - 1};
    for (size_t p = 0; p < 3; p++) {
        const size_t token = places[p];
        test_matrix t = matrix_random(TOKENS * OUT, TOKENS * IN, 40 + p);
        test_matrix rest = matrix_zero(t.m, t.n - IN);
        for (size_t c = 0, to = 0; c < t.n; c++)
            if (c / IN != token)
                memcpy(rest.a + to++ * t.m, t.a + c * t.m, t.m * sizeof *t.a);
        lipsc_sink_share found;
        const lipsc_linop op = linop(&t);
        assert_int_equal(lipsc_sink_share_find(&op, TOKENS, token, 1, NULL, NULL, &found),
                         LIPSC_OK);
        near(found.alone, block_norm(&t, 0, t.m, token * IN, IN), 1e-5);
        near(found.rest, block_norm(&rest, 0, rest.m, 0, rest.n), 1e-5);
        assert_int_equal(lipsc_sink_share_find(&op, 1, 0, 1, NULL, NULL, &found), LIPSC_OK);
        near(found.alone, block_norm(&t, 0, t.m, 0, t.n), 1e-5);
        assert_true(found.rest == 0.0);
        assert_int_equal(lipsc_sink_share_find(&op, TOKENS, TOKENS, 1, NULL, NULL, &found),
                         LIPSC_E_ARG);
        matrix_free(&rest);
        matrix_free(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_sink),
        cmocka_unit_test(test_strengths),
        cmocka_unit_test(test_wrong_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
