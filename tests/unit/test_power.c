/* test_power.c - power iteration against known spectra, and why it is only the baseline. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "matrix_op.h"

static lipsc_svd_settings settings(lipsc_method method) {
    lipsc_svd_settings set;
    lipsc_svd_defaults(&set);
    set.method = method;
    return set;
}

static void test_known_spectra(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        double values[40], sigma, v[40], u[60];
        for (size_t i = 0; i < 40; i++) values[i] = 3.0 * pow(0.7, (double)i);
        test_matrix t = matrix_with_values(60, 40, 40, values, 10 * seed);
        lipsc_op op = matrix_op(&t);
        lipsc_svd_settings set = settings(LIPSC_POWER);
        lipsc_svd_info info;
        set.seed = seed;
        assert_int_equal(lipsc_svd(&op, &set, &sigma, u, v, &info), LIPSC_OK);
        assert_true(info.converged && info.residual <= 1e-8);
        assert_int_equal(2 * info.products, t.calls); /* one pair per step, nothing else */
        /* error: the square of the residual over the gap, below 1e-15; 30 roundings */
        assert_true(fabs(sigma - 3.0) < 2e-14);
        double again;
        assert_true(matrix_residual(&t, v, &again) <= 1.01e-8);
        assert_true(fabs(again - sigma) < 2e-14);
        assert_true(isnan(info.upper_prob));
        for (size_t i = 0; i < 60; i++) {
            double w = 0.0;
            for (size_t j = 0; j < 40; j++) w += t.a[j * 60 + i] * v[j];
            assert_true(fabs(w - sigma * u[i]) < 2e-14);
        }
        matrix_free(&t);
    }
}

static void test_ends(void **state) {
    (void)state;
    test_matrix t = matrix_random(30, 30, 1), zero = matrix_zero(4, 6);
    double *exact = matrix_values(&t), sigma, v[30], before = 0.0;
    lipsc_op op = matrix_op(&t), zero_op = matrix_op(&zero);
    lipsc_svd_settings set = settings(LIPSC_POWER);
    lipsc_svd_info info;
    for (set.max_products = 1; set.max_products < 12; set.max_products++) {
        assert_int_equal(lipsc_svd(&op, &set, &sigma, NULL, v, &info), LIPSC_E_NOCONV);
        assert_int_equal(info.products, set.max_products);
        assert_true(info.residual > 1e-8 && !info.converged);
        assert_true(sigma >= before && sigma <= exact[0]);
        before = sigma;
    }
    set.max_products = 10;
    assert_int_equal(lipsc_svd(&zero_op, &set, &sigma, NULL, v, &info), LIPSC_OK);
    assert_true(sigma == 0.0 && info.residual == 0.0 &&
                fabs(vector_norm(6, v) - 1.0) < 1e-15);
    set.count = 2;
    double two[2];
    assert_int_equal(lipsc_svd(&op, &set, two, NULL, NULL, NULL), LIPSC_E_ARG);
    free(exact);
    matrix_free(&t);
    matrix_free(&zero);
}

/* Singular values 1/(1 + i/50).  Power iteration gains (s2/s1)^2 = 0.96 per step, about
 * ln(1e4) / -ln(0.96) = 225 steps to 1e-4; Lanczos about the square root of that. */
static void test_lanczos_needs_fewer_products(void **state) {
    (void)state;
    double values[300];
    for (size_t i = 0; i < 300; i++) values[i] = 1.0 / (1.0 + 0.02 * (double)i);
    test_matrix t = matrix_with_values(300, 300, 300, values, 3);
    lipsc_op op = matrix_op(&t);
    for (uint64_t seed = 1; seed <= 5; seed++) {
        long products[2];
        for (int k = 0; k < 2; k++) {
            lipsc_svd_settings set = settings(k ? LIPSC_POWER : LIPSC_LANCZOS);
            lipsc_svd_info info;
            double sigma;
            set.tol = 1e-4;
            set.seed = seed;
            assert_int_equal(lipsc_svd(&op, &set, &sigma, NULL, NULL, &info), LIPSC_OK);
            products[k] = info.products;
        }
        assert_true(3 * products[0] < products[1]);
    }
    matrix_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_spectra),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_lanczos_needs_fewer_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
