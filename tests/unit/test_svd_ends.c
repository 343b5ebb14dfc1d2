/* test_svd_ends.c - solves that end early or are refused: what was reached is said
 * honestly, and nothing is written when nothing was reached. */
#include "svd_answer.h"

static void test_max_products(void **state) {
    (void)state;
    test_matrix t = matrix_random(100, 90, 1);
    double *exact = matrix_values(&t), before = 0.0;
    for (long products = 1; products <= 25; products++)
        for (size_t count = 1; count <= 3 && (long)count <= products; count++) {
            lipsc_svd_settings set = settings(count);
            set.max_products = products;
            answer r = solve(&t, &set);
            assert_int_equal(r.status, LIPSC_E_NOCONV);
            assert_true(r.info.products <= products);
            assert_true(r.info.residual > 1e-8);
            check_answer(&t, &set, &r, exact);
            if (count == 1) {
                assert_true(r.info.products == products);
                assert_true(r.sigma[0] >= before); /* a larger space, a larger value */
                before = r.sigma[0];
            }
            answer_free(&r);
        }
    free(exact);
    matrix_free(&t);
}

/* A tolerance below rounding is never met, and that is said. */
static void test_impossible_tolerance(void **state) {
    (void)state;
    for (size_t n = 10; n <= 200; n += 190) {
        test_matrix t = matrix_random(n + 5, n, 2);
        double *exact = matrix_values(&t);
        lipsc_svd_settings set = settings(1);
        set.tol = 1e-18;
        set.max_products = 200;
        answer r = solve(&t, &set);
        assert_int_equal(r.status, LIPSC_E_NOCONV);
        check_answer(&t, &set, &r, exact);
        assert_true(fabs(r.sigma[0] - exact[0]) < ROUND * exact[0]);
        answer_free(&r);
        free(exact);
        matrix_free(&t);
    }
}

typedef struct {
    int asked, stop_at;
    long products;
    double sigma;
} watcher;

static int ask(void *ctx) {
    watcher *w = ctx;
    return ++w->asked >= w->stop_at;
}

static void watch(void *ctx, long products, double sigma, double residual) {
    watcher *w = ctx;
    assert_true(products > w->products);
    assert_true(isnan(sigma) || sigma >= w->sigma * (1.0 - 1e-14));
    assert_true(isnan(residual) || residual >= 0.0);
    w->products = products;
    if (!isnan(sigma)) w->sigma = sigma;
}

static void test_stop_and_progress(void **state) {
    (void)state;
    const lipsc_method methods[] = {LIPSC_LANCZOS, LIPSC_POWER, LIPSC_DENSE};
    test_matrix t = matrix_random(100, 90, 1);
    double *exact = matrix_values(&t);
    for (int k = 0; k < 3; k++)
        for (int stop_at = 1; stop_at <= 2; stop_at++) {
            watcher w = {.stop_at = stop_at};
            lipsc_svd_settings set = settings(1);
            set.method = methods[k];
            set.stop = ask;
            set.progress = watch;
            set.ctx = &w;
            answer r = solve(&t, &set);
            assert_int_equal(r.status, LIPSC_E_STOPPED);
            assert_int_equal(w.asked, stop_at);
            check_answer(&t, &set, &r, exact);
            assert_true(r.sigma[0] > 0.0);
            answer_free(&r);
        }
    free(exact);
    matrix_free(&t);
}

static void test_failing_operator(void **state) {
    (void)state;
    const lipsc_method methods[] = {LIPSC_LANCZOS, LIPSC_POWER, LIPSC_DENSE};
    for (int k = 0; k < 3; k++)
        for (long at = 1; at <= 5; at++)
            for (int poison = 0; poison < 2; poison++) {
                test_matrix t = matrix_random(140, 130, 1);
                if (poison)
                    t.poison_at = at;
                else
                    t.fail_at = at;
                lipsc_svd_settings set = settings(1);
                set.method = methods[k];
                lipsc_op op = matrix_op(&t);
                double sigma = -1.0, v[130] = {0};
                lipsc_svd_info info = {.products = -1};
                assert_int_equal(lipsc_svd(&op, &set, &sigma, NULL, v, &info),
                                 poison ? LIPSC_E_NONFIN : LIPSC_E_CALLBACK);
                /* nothing is written on failure */
                assert_true(sigma == -1.0 && info.products == -1 &&
                            vector_norm(130, v) == 0.0);
                matrix_free(&t);
            }
}

static void test_bad_settings(void **state) {
    (void)state;
    test_matrix t = matrix_random(5, 4, 1);
    lipsc_op op = matrix_op(&t), empty = op, huge = op;
    double sigma[10];
    lipsc_svd_settings good = settings(1), set;
    empty.n = 0;
    huge.m = huge.n = (size_t)1 << 14;
    assert_int_equal(lipsc_svd(&op, &good, sigma, NULL, NULL, NULL), LIPSC_OK);
    assert_int_equal(lipsc_svd(NULL, &good, sigma, NULL, NULL, NULL), LIPSC_E_ARG);
    assert_int_equal(lipsc_svd(&op, NULL, sigma, NULL, NULL, NULL), LIPSC_E_ARG);
    assert_int_equal(lipsc_svd(&op, &good, NULL, NULL, NULL, NULL), LIPSC_E_ARG);
    assert_int_equal(lipsc_svd(&empty, &good, sigma, NULL, NULL, NULL), LIPSC_E_ARG);
#define REFUSED(change) \
    set = good;         \
    set.change;         \
    assert_int_equal(lipsc_svd(&op, &set, sigma, NULL, NULL, NULL), LIPSC_E_ARG)
    REFUSED(tol = -1.0);
    REFUSED(tol = (double)NAN);
    REFUSED(value_tol = -1.0);
    REFUSED(max_products = -1);
    REFUSED(probability = 0.0);
    REFUSED(probability = 1.0);
    REFUSED(probability = (double)NAN);
    REFUSED(method = (lipsc_method)9);
#undef REFUSED
    set = good;
    set.count = 5;
    set.max_products = 4; /* not even the evaluation of five values */
    assert_int_equal(lipsc_svd(&op, &set, sigma, NULL, NULL, NULL), LIPSC_E_ARG);
    set = good;
    set.method = LIPSC_DENSE;
    assert_int_equal(lipsc_svd(&huge, &set, sigma, NULL, NULL, NULL), LIPSC_E_RANGE);
    set.method = LIPSC_LANCZOS;
    set.count = (size_t)1 << 62;
    set.max_products = 1000;
    assert_int_equal(lipsc_svd(&op, &set, sigma, NULL, NULL, NULL), LIPSC_E_ARG);
    matrix_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_max_products),
        cmocka_unit_test(test_impossible_tolerance),
        cmocka_unit_test(test_stop_and_progress),
        cmocka_unit_test(test_failing_operator),
        cmocka_unit_test(test_bad_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
