/* test_lanczos.c - Golub-Kahan-Lanczos and the dense method against LAPACK and spectra
 * known by construction; threads; the probabilistic bound. */
#include <float.h>
#include <omp.h>

#include "linalg/space.h"
#include "svd_answer.h"
#include "svd/solver.h"
#include "svd/upper_prob.h"

/* Solves, checks, and compares with the judge: residual 1e-8 makes the values exact to
 * rounding for separated values, and to 1e-8 in any case. */
static void check_matrix(test_matrix *t, size_t count, lipsc_method method, double room) {
    double *exact = matrix_values(t);
    const size_t rank = t->m < t->n ? t->m : t->n;
    lipsc_svd_settings set = settings(count);
    set.method = method;
    answer r = solve(t, &set);
    assert_int_equal(r.status, LIPSC_OK);
    assert_true(r.info.residual <= 1e-8);
    check_answer(t, &set, &r, exact);
    for (size_t i = 0; i < count; i++)
        assert_true(fabs(r.sigma[i] - (i < rank ? exact[i] : 0.0)) <= room * exact[0]);
    answer_free(&r);
    free(exact);
}

static void test_random_shapes(void **state) {
    (void)state;
    const size_t shapes[][2] = {{1, 1},   {1, 2},    {2, 1},    {1, 50},
                                {50, 1},  {2, 2},    {3, 90},   {90, 3},
                                {20, 20}, {150, 40}, {40, 150}, {120, 120}};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        for (uint64_t seed = 1; seed <= 5; seed++)
            for (size_t count = 1; count <= 5; count += 2)
                for (int dense = 0; dense < 2; dense++) {
                    test_matrix t = matrix_random(shapes[k][0], shapes[k][1], seed);
                    check_matrix(&t, count, dense ? LIPSC_DENSE : LIPSC_LANCZOS, 1e-13);
                    matrix_free(&t);
                }
}

/* Equal and nearly equal values, also at the top, with enough count to see the copies. */
static void test_repeated_values(void **state) {
    (void)state;
    const double sets[][8] = {{3, 3, 3, 3, 3, 3, 3, 3},
                              {3, 3, 3, 2, 2, 2, 1, 1},
                              {2, 2, 1, 1, 1, 1, 0.5, 0.5},
                              {1, 1 - 1e-9, 1 - 2e-9, 1 - 3e-9, 0.5, 0.5, 0.1, 0.1},
                              {5, 1e-3, 1e-3, 1e-3, 1e-3, 0, 0, 0}};
    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++)
        for (uint64_t seed = 1; seed <= 5; seed++)
            for (size_t count = 1; count <= 5; count++) {
                double values[60];
                for (size_t i = 0; i < 60; i++)
                    values[i] = i < 8 ? sets[k][i] : sets[k][7] * (double)(60 - i) / 60.0;
                test_matrix t = matrix_with_values(70, 60, 60, values, 10 * seed);
                /* inside a cluster of width 1e-9 the residual 1e-8 tells nothing apart */
                check_matrix(&t, count, LIPSC_LANCZOS, k == 3 ? 1e-8 : 1e-13);
                matrix_free(&t);
            }
}

/* One start vector sees one copy of each value; the rest must come from fresh ones. */
static void test_copies_with_a_single_vector(void **state) {
    (void)state;
    double values[50];
    for (size_t i = 0; i < 50; i++) values[i] = i < 3 ? 2.0 : 1.0;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        test_matrix t = matrix_with_values(50, 50, 50, values, 10 * seed);
        lipsc_svd_settings set = settings(4);
        set.block = 1;
        answer r = solve(&t, &set);
        assert_int_equal(r.status, LIPSC_OK);
        for (size_t i = 0; i < 4; i++) assert_true(fabs(r.sigma[i] - values[i]) < 1e-13);
        answer_free(&r);
        matrix_free(&t);
    }
}

/* 1e12 down to 1e-12: small values are exact relative to the largest, as LAPACK's. */
static void test_graded(void **state) {
    (void)state;
    double values[25];
    for (size_t i = 0; i < 25; i++) values[i] = pow(10.0, 12.0 - (double)i);
    for (uint64_t seed = 1; seed <= 5; seed++)
        for (size_t count = 1; count <= MAX_COUNT; count += 6) {
            test_matrix t = matrix_with_values(80, 60, 25, values, 10 * seed);
            check_matrix(&t, count, LIPSC_LANCZOS, 1e-14);
            matrix_free(&t);
        }
}

static void test_zero_and_deficient(void **state) {
    (void)state;
    const size_t shapes[][2] = {{1, 1}, {3, 5}, {5, 3}, {60, 60}};
    for (size_t k = 0; k < 4; k++)
        for (int dense = 0; dense < 2; dense++) {
            test_matrix t = matrix_zero(shapes[k][0], shapes[k][1]);
            for (size_t count = 1; count <= 7; count += 3) {
                lipsc_svd_settings set = settings(count);
                set.method = dense ? LIPSC_DENSE : LIPSC_LANCZOS;
                answer r = solve(&t, &set);
                assert_int_equal(r.status, LIPSC_OK);
                for (size_t i = 0; i < count; i++) assert_true(r.sigma[i] == 0.0);
                assert_true(r.info.residual == 0.0);
                assert_true(fabs(vector_norm(t.n, r.v) - 1.0) < 1e-14);
                if (!dense) assert_true(r.info.upper_prob == 0.0);
                answer_free(&r);
            }
            matrix_free(&t);
        }
    const double values[] = {4, 3, 1};
    for (size_t rank = 1; rank <= 3; rank++)
        for (size_t count = 1; count <= 9; count += 2)
            for (size_t block = 0; block <= 3; block++) {
                test_matrix t = matrix_with_values(50, 45, rank, values, 7);
                lipsc_svd_settings set = settings(count);
                set.block = block;
                answer r = solve(&t, &set);
                assert_int_equal(r.status, LIPSC_OK);
                for (size_t i = 0; i < count; i++)
                    assert_true(fabs(r.sigma[i] - (i < rank ? values[i] : 0.0)) < 1e-13);
                answer_free(&r);
                matrix_free(&t);
            }
}

/* A spectrum that falls slowly, and a basis too small to reach the end without restarts. */
static void test_restarts(void **state) {
    (void)state;
    double values[300];
    for (size_t i = 0; i < 300; i++) values[i] = 1.0 / (1.0 + 0.02 * (double)i);
    test_matrix t = matrix_with_values(320, 300, 300, values, 3);
    for (size_t count = 1; count <= 4; count += 3)
        for (size_t block = 1; block <= 4; block++) {
            lipsc_svd_settings set = settings(count);
            set.basis = 1; /* raised to the smallest that works */
            set.block = block;
            answer r = solve(&t, &set);
            assert_int_equal(r.status, LIPSC_OK);
            assert_true(r.info.restarts > 0);
            check_answer(&t, &set, &r, values);
            for (size_t i = 0; i < count; i++)
                assert_true(fabs(r.sigma[i] - values[i]) < 1e-13);
            answer_free(&r);
        }
    matrix_free(&t);
}

/* A spectrum over ten decades, before and after restarts: where no pass is made over U its
 * vectors come to lean on each other, and the value must not show it. */
static void test_graded_restarts(void **state) {
    (void)state;
    double values[120];
    for (size_t i = 0; i < 120; i++)
        values[i] = i < 40 ? 1.0 / (1.0 + 0.01 * (double)i) : pow(10.0, -(double)i / 12.0);
    for (uint64_t seed = 1; seed <= 5; seed++)
        for (size_t block = 1; block <= 2; block++)
            for (size_t basis = 1; basis <= 61; basis += 20) {
                test_matrix t = matrix_with_values(140, 120, 120, values, 10 * seed);
                lipsc_svd_settings set = settings(1);
                set.basis = basis;
                set.block = block;
                answer r = solve(&t, &set);
                assert_int_equal(r.status, LIPSC_OK);
                check_answer(&t, &set, &r, values);
                assert_true(fabs(r.sigma[0] - values[0]) < 1e-13);
                answer_free(&r);
                matrix_free(&t);
            }
}

static void test_value_tol(void **state) {
    (void)state;
    double values[300];
    for (size_t i = 0; i < 300; i++) values[i] = 1.0 / (1.0 + 0.02 * (double)i);
    test_matrix t = matrix_with_values(320, 300, 300, values, 3);
    long before = 0;
    for (double value_tol = 1e-3; value_tol > 1e-13; value_tol *= 1e-3) {
        lipsc_svd_settings set = settings(1);
        set.tol = 0.5;
        set.value_tol = value_tol;
        answer r = solve(&t, &set);
        assert_int_equal(r.status, LIPSC_OK);
        assert_true(1.0 - r.sigma[0] <= value_tol + ROUND);
        assert_true(r.info.products >= before);
        before = r.info.products;
        answer_free(&r);
    }
    matrix_free(&t);
}

/* ---- f32 ---- */

/* Products in f32 with sums in double, as a good f32 back end makes them. */
static lipsc_status apply_f32(void *ctx, int trans, size_t k, lipsc_buffer x,
                              lipsc_buffer y) {
    test_matrix *t = ctx;
    const size_t in = trans ? t->m : t->n, out = trans ? t->n : t->m;
    double *xd = test_alloc(in, sizeof *xd), *yd = test_alloc(out, sizeof *yd);
    for (size_t j = 0; j < k; j++) {
        for (size_t i = 0; i < in; i++) xd[i] = (double)((const float *)x.at)[j * in + i];
        matrix_times(t, trans, xd, yd);
        for (size_t i = 0; i < out; i++) ((float *)y.at)[j * out + i] = (float)yd[i];
    }
    free(xd);
    free(yd);
    return LIPSC_OK;
}

static void test_f32_vectors(void **state) {
    (void)state;
    const size_t shapes[][2] = {{1, 1}, {4, 30}, {30, 4}, {50, 50}, {120, 300}};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        for (uint64_t seed = 1; seed <= 5; seed++)
            for (size_t count = 1; count <= 3; count += 2)
                for (int tight = 0; tight < 2; tight++) {
                    test_matrix t = matrix_random(shapes[k][0], shapes[k][1], seed);
                    double *exact = matrix_values(&t), sigma[3];
                    const size_t rank = t.m < t.n ? t.m : t.n;
                    lipsc_linop op = {.m = t.m,
                                      .n = t.n,
                                      .space = lipsc_space_host(LIPSC_F32),
                                      .apply = apply_f32,
                                      .ctx = &t};
                    lipsc_svd_settings set = settings(count);
                    lipsc_svd_info info;
                    float *v = test_alloc(t.n * count, sizeof *v);
                    if (tight) set.tol = 1e-5;
                    assert_int_equal(
                        lipsc_svd_linop(&op, &set, sigma, LIPSC_NOWHERE,
                                        lipsc_space_view(op.space, t.n * count, v), &info),
                        LIPSC_OK);
                    assert_true(info.residual <= (tight ? 1e-5 : 1e-2));
                    for (size_t i = 0; i < count; i++) {
                        const double want = i < rank ? exact[i] : 0.0;
                        /* the square of the residual over the gap; 4 f32 roundings */
                        const double room = tight ? 4 * FLT_EPSILON : 1e-3;
                        assert_true(fabs(sigma[i] - want) <= room * exact[0]);
                        assert_true(sigma[i] <= want + 4 * FLT_EPSILON * exact[0]);
                    }
                    double square = 0.0;
                    for (size_t i = 0; i < t.n; i++) square += (double)v[i] * (double)v[i];
                    assert_true(fabs(square - 1.0) < 4 * FLT_EPSILON);
                    free(v);
                    free(exact);
                    matrix_free(&t);
                }
}

/* ---- short of memory: V and the last vector of U alone, judged by LAPACK ---- */

static lipsc_status apply_f64(void *ctx, int trans, size_t k, lipsc_buffer x,
                              lipsc_buffer y) {
    test_matrix *t = ctx;
    const size_t in = trans ? t->m : t->n, out = trans ? t->n : t->m;
    for (size_t j = 0; j < k; j++)
        matrix_times(t, trans, (const double *)x.at + j * in, (double *)y.at + j * out);
    return LIPSC_OK;
}

static void test_lean(void **state) {
    (void)state;
    const size_t shapes[][2] = {{1, 1},   {1, 9},     {9, 1},    {2, 2},
                                {12, 40}, {40, 12},   {13, 13},  {50, 50},
                                {60, 90}, {120, 300}, {300, 120}};
    int restarts = 0;
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        for (uint64_t seed = 1; seed <= 5; seed++) {
            test_matrix t = matrix_random(shapes[k][0], shapes[k][1], seed);
            double *exact = matrix_values(&t), sigma, square = 0.0;
            lipsc_space space = *lipsc_space_host(LIPSC_F64);
            space.room = 1;
            const lipsc_linop op = {
                .m = t.m, .n = t.n, .space = &space, .apply = apply_f64, .ctx = &t};
            lipsc_svd_settings set = settings(1);
            lipsc_svd_info info;
            double *v = test_alloc(t.n, sizeof *v), *u = test_alloc(t.m, sizeof *u);
            double *av = test_alloc(t.m, sizeof *av);
            set.max_products = 5000;
            assert_int_equal(lipsc_svd_linop(&op, &set, &sigma, lipsc_host_view(t.m, u),
                                             lipsc_host_view(t.n, v), &info),
                             LIPSC_OK);
            restarts += info.restarts;
            /* rounding of two products and their lengths */
            assert_true(fabs(sigma - exact[0]) <= 1e-13 * exact[0]);
            matrix_times(&t, 0, v, av);
            for (size_t i = 0; i < t.m; i++)
                assert_true(fabs(av[i] - sigma * u[i]) <= 1e-12 * sigma);
            for (size_t i = 0; i < t.n; i++) square += v[i] * v[i];
            assert_true(fabs(square - 1.0) < 1e-14);
            free(u);
            free(v);
            free(av);
            free(exact);
            matrix_free(&t);
        }
    assert_true(restarts > 20);
}

/* ---- threads ---- */

/* y = values .* x and its transpose: long vectors, no sums, so the solver's own sums are
 * all that threads could change. */
static int apply_diagonal(void *ctx, int trans, size_t k, const double *x, double *y) {
    const size_t n = *(size_t *)ctx;
    (void)trans;
    for (size_t j = 0; j < k; j++)
        for (size_t i = 0; i < n; i++)
            y[j * n + i] = x[j * n + i] / (1.0 + 0.3 * (double)i);
    return 0;
}

static void test_same_bits_for_any_threads(void **state) {
    (void)state;
    size_t n = 20000; /* long enough for the spaces to use threads */
    lipsc_op op = {n, n, apply_diagonal, &n};
    lipsc_svd_settings set = settings(3);
    set.tol = 1e-6;
    set.basis = 1; /* the smallest that works, so that it restarts */
    double sigma[2][3], *v[2];
    lipsc_svd_info info[2];
    for (int k = 0; k < 2; k++) {
        omp_set_num_threads(k + 1);
        v[k] = test_alloc(3 * n, sizeof(double));
        assert_int_equal(lipsc_svd(&op, &set, sigma[k], NULL, v[k], &info[k]), LIPSC_OK);
        assert_true(info[k].restarts > 0);
    }
    assert_memory_equal(sigma[0], sigma[1], sizeof sigma[0]);
    assert_memory_equal(v[0], v[1], 3 * n * sizeof(double));
    assert_int_equal(info[0].products, info[1].products);
    assert_memory_equal(&info[0].upper_prob, &info[1].upper_prob, sizeof(double));
    for (size_t i = 0; i < 3; i++)
        assert_true(fabs(sigma[0][i] - 1.0 / (1.0 + 0.3 * (double)i)) < 1e-11);
    free(v[0]);
    free(v[1]);
}

/* ---- the probabilistic bound ---- */

static void test_upper_prob_formula(void **state) {
    (void)state;
    /* docs/maths.md 7.2: 6 % and 0.6 % at n d = 128 * 768; digits from
     * ln(1.648 sqrt(98304) / 1e-3) = 13.155228, over 39 and 119 */
    assert_true(fabs(lipsc_svd_upper_prob(1.0, 98304, 20, 0.999) - 1.062256) < 1e-6);
    assert_true(fabs(lipsc_svd_upper_prob(1.0, 98304, 60, 0.999) - 1.006167) < 1e-6);
    assert_true(fabs(lipsc_svd_upper_prob(3.0, 98304, 60, 0.999) - 3.018501) < 1e-6);
    assert_true(isnan(lipsc_svd_upper_prob(1.0, 98304, 7, 0.999)));  /* 13.15 / 13 > 1 */
    assert_false(isnan(lipsc_svd_upper_prob(1.0, 98304, 8, 0.999))); /* 13.15 / 15 < 1 */
    assert_true(isnan(lipsc_svd_upper_prob(1.0, 98304, 0, 0.999)));
}

/* 300 random starts at probability 0.9: at most 30 violations expected; 45 is three
 * standard deviations more.  The bound is loose, so far fewer are seen. */
static void test_upper_prob_holds(void **state) {
    (void)state;
    double values[200];
    for (size_t i = 0; i < 200; i++) values[i] = 1.0 / (1.0 + 0.001 * (double)i);
    test_matrix t = matrix_with_values(200, 200, 200, values, 5);
    for (long products = 5; products <= 21; products += 8) {
        int violated = 0, spoke = 0;
        for (uint64_t seed = 1; seed <= 300; seed++) {
            lipsc_svd_settings set = settings(1);
            set.seed = seed;
            set.probability = 0.9;
            set.max_products = products;
            answer r = solve(&t, &set);
            assert_int_equal(r.status, LIPSC_E_NOCONV);
            spoke += !isnan(r.info.upper_prob);
            violated += r.info.upper_prob < 1.0;
            if (!isnan(r.info.upper_prob)) {
                const double want =
                    lipsc_svd_upper_prob(r.sigma[0], 200, (size_t)products - 1, 0.9);
                assert_true(fabs(r.info.upper_prob - want) < ROUND * 100);
            }
            answer_free(&r);
        }
        assert_int_equal(spoke, 300);
        assert_true(violated <= 45);
    }
    matrix_free(&t);
}

/* Restarts end the guarantee: the bound stays that of the first space. */
static void test_upper_prob_after_restart(void **state) {
    (void)state;
    double values[300];
    for (size_t i = 0; i < 300; i++) values[i] = 1.0 / (1.0 + 0.02 * (double)i);
    test_matrix t = matrix_with_values(320, 300, 300, values, 3);
    lipsc_svd_settings set = settings(1);
    set.basis = 12;
    set.max_products = 13; /* twelve steps and the evaluation: the first space */
    answer first = solve(&t, &set);
    set.max_products = 1000;
    answer last = solve(&t, &set);
    assert_int_equal(first.info.restarts, 0);
    assert_true(last.info.restarts > 0);
    assert_true(fabs(first.info.upper_prob - last.info.upper_prob) < ROUND);
    answer_free(&first);
    answer_free(&last);
    matrix_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_shapes),
        cmocka_unit_test(test_repeated_values),
        cmocka_unit_test(test_copies_with_a_single_vector),
        cmocka_unit_test(test_graded),
        cmocka_unit_test(test_zero_and_deficient),
        cmocka_unit_test(test_restarts),
        cmocka_unit_test(test_graded_restarts),
        cmocka_unit_test(test_value_tol),
        cmocka_unit_test(test_f32_vectors),
        cmocka_unit_test(test_lean),
        cmocka_unit_test(test_same_bits_for_any_threads),
        cmocka_unit_test(test_upper_prob_formula),
        cmocka_unit_test(test_upper_prob_holds),
        cmocka_unit_test(test_upper_prob_after_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
