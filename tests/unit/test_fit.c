/* test_fit.c - growth fits against exact power laws and against numpy. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "run/fit.h"

/* Relative; logarithms, sums of a few numbers and exp lose a few units in the last place.
 */
static void near(double value, double want, double tolerance) {
    if (!(fabs(value - want) <= tolerance * fabs(want)))
        fail_msg("%.17g is not within %g of %.17g", value, tolerance, want);
}

static void test_power_law(void **state) {
    (void)state;
    const size_t lengths[] = {8, 16, 32, 64, 128};
    const double exponents[] = {0.5, 0.25, -0.3, 2.0};
    lipsc_fit_point points[15];
    for (size_t e = 0; e < 4; e++) {
        for (size_t i = 0; i < 15; i++) {
            const double n = (double)lengths[i % 5];
            points[i] = (lipsc_fit_point){lengths[i % 5], n, 3.5 * pow(n, exponents[e])};
        }
        lipsc_fit fit;
        assert_int_equal(lipsc_fit_power(15, points, 1, &fit, NULL), LIPSC_OK);
        near(fit.exponent, exponents[e], 1e-13);
        near(fit.coefficient, 3.5, 1e-13);
        near(fit.low, exponents[e], 1e-13); /* all windows agree */
        near(fit.high, exponents[e], 1e-13);
        assert_int_equal(fit.lengths, 5);
    }
}

/* Two of three windows on the law, one far off: the median does not see it. */
static void test_median(void **state) {
    (void)state;
    lipsc_fit_point points[12];
    for (size_t i = 0; i < 12; i++) {
        const size_t n = (size_t)8 << i / 3;
        const double wild[] = {1.0, 1.0, i % 2 ? 1e6 : 1e-6};
        points[i] = (lipsc_fit_point){n, (double)n, sqrt((double)n) * wild[i % 3]};
    }
    lipsc_fit fit;
    assert_int_equal(lipsc_fit_power(12, points, 1, &fit, NULL), LIPSC_OK);
    near(fit.exponent, 0.5, 1e-13);
    near(fit.coefficient, 1.0, 1e-13);
    assert_true(fit.low < 0.5 && fit.high > 0.5);
    /* of an even number of windows the median is the mean of the middle two */
    const lipsc_fit_point even[] = {{8, 8, 1},   {8, 8, 3},   {16, 16, 5}, {16, 16, 3},
                                    {32, 32, 7}, {32, 32, 9}, {64, 64, 16}};
    assert_int_equal(lipsc_fit_power(7, even, 1, &fit, NULL), LIPSC_OK);
    near(fit.exponent, 1.0, 1e-13);
    near(fit.coefficient, 0.25, 1e-13);
}

/* n, radius, value.  The numbers wanted are numpy's: polyfit of the logarithms of the
 * medians, and percentiles of 2000 resamplings drawn with the generator of core/rng.c,
 * written down a second time in Python.  n = 4 is below 8 and must not enter. */
static const double table[25][3] = {
    {4, 2.9354, 2.4431},  {4, 3.2791, 4.1236},  {4, 4.3252, 3.7566},  {4, 3.0855, 2.8724},
    {4, 4.0028, 5.9359},  {8, 3.9005, 3.0275},  {8, 3.0493, 7.0833},  {8, 3.8464, 2.6067},
    {8, 3.6321, 3.0919},  {8, 3.2566, 3.7861},  {16, 3.4322, 6.2395}, {16, 3.9089, 4.4285},
    {16, 4.2965, 6.7791}, {16, 2.8499, 4.8933}, {16, 3.2535, 5.0176}, {32, 3.2782, 6.4125},
    {32, 4.2106, 5.8167}, {32, 3.4404, 5.6586}, {32, 3.4107, 4.2439}, {32, 4.4377, 4.5687},
    {64, 5.7463, 9.5273}, {64, 3.0494, 8.338},  {64, 3.6479, 7.761},  {64, 4.587, 4.2319},
    {64, 4.3397, 7.1168}};

static void test_numpy(void **state) {
    (void)state;
    const struct {
        int radius;
        double exponent, coefficient, low, high;
    } want[] = {{0, 0.415669437957372, 1.39719388967477, 0.02601475604959, 0.507747010977},
                {1, 1.90474297573785, 0.424122290708155, -4.125760887555, 6.197411663453}};
    for (size_t t = 0; t < 2; t++) {
        lipsc_fit_point points[25];
        for (size_t i = 0; i < 25; i++)
            points[i] = (lipsc_fit_point){(size_t)table[i][0], table[i][want[t].radius],
                                          table[i][2]};
        lipsc_fit fit;
        assert_int_equal(lipsc_fit_power(25, points, 7, &fit, NULL), LIPSC_OK);
        /* 1e-11: digits printed above, and polyfit's own QR */
        near(fit.exponent, want[t].exponent, 1e-11);
        near(fit.coefficient, want[t].coefficient, 1e-11);
        near(fit.low, want[t].low, 1e-11);
        near(fit.high, want[t].high, 1e-11);
        assert_int_equal(fit.lengths, 4);
    }
}

static void test_order_and_seed(void **state) {
    (void)state;
    lipsc_fit_point points[25], turned[25];
    lipsc_fit a, b;
    for (size_t i = 0; i < 25; i++)
        points[i] = (lipsc_fit_point){(size_t)table[i][0], table[i][0], table[i][2]};
    assert_int_equal(lipsc_fit_power(25, points, 3, &a, NULL), LIPSC_OK);
    assert_int_equal(lipsc_fit_power(25, points, 3, &b, NULL), LIPSC_OK);
    assert_true(a.low == b.low && a.high == b.high);
    /* lengths in another order, windows of a length in the same one */
    for (size_t i = 0; i < 25; i++) turned[i] = points[(i / 5 + 2) % 5 * 5 + i % 5];
    assert_int_equal(lipsc_fit_power(25, turned, 3, &b, NULL), LIPSC_OK);
    assert_true(a.exponent == b.exponent && a.low == b.low && a.high == b.high);
}

static void test_refusals(void **state) {
    (void)state;
    lipsc_error err;
    lipsc_fit fit;
    const lipsc_fit_point two[] = {{4, 4, 1}, {8, 8, 1}, {16, 16, 2}, {16, 16, 3}};
    assert_int_equal(lipsc_fit_power(4, two, 1, &fit, &err), LIPSC_E_REFUSED);
    assert_string_equal(err.text, "a fit needs three lengths from 8 on, there are 2");
    assert_int_equal(lipsc_fit_power(0, NULL, 1, &fit, &err), LIPSC_E_REFUSED);
    const lipsc_fit_point bad[] = {
        {8, 8, 0}, {16, 16, NAN}, {32, INFINITY, 1}, {64, -1, 1}};
    assert_int_equal(lipsc_fit_power(4, bad, 1, &fit, &err), LIPSC_E_REFUSED);
    const lipsc_fit_point equal[] = {{8, 5.0, 1}, {16, 5.0, 2}, {32, 5.0, 3}};
    assert_int_equal(lipsc_fit_power(3, equal, 1, &fit, &err), LIPSC_E_REFUSED);
    assert_string_equal(err.text, "nothing to fit against: all are equal");
    /* one window everywhere: a line, but nothing to resample */
    const lipsc_fit_point single[] = {{8, 8, 1}, {16, 16, 2}, {32, 32, 4}};
    assert_int_equal(lipsc_fit_power(3, single, 1, &fit, &err), LIPSC_OK);
    near(fit.exponent, 1.0, 1e-13);
    assert_true(isnan(fit.low) && isnan(fit.high));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_power_law), cmocka_unit_test(test_median),
        cmocka_unit_test(test_numpy),     cmocka_unit_test(test_order_and_seed),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
