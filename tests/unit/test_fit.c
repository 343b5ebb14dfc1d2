/* test_fit.c - growth fits against exact power laws, closed forms and a twin in Python. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/rng.h"
#include "run/distribution.h"
#include "lipscope/fit.h"

/* Relative; logarithms, sums of a few numbers and exp lose a few units in the last place.
 */
static void near(double value, double want, double tolerance) {
    if (!(fabs(value - want) <= tolerance * fabs(want)))
        fail_msg("%.17g is not within %g of %.17g", value, tolerance, want);
}

static lipsc_fit_point point(size_t n, size_t start, double x, double y) {
    return (lipsc_fit_point){.n = n, .start = start, .x = x, .y = y};
}

static void test_power_law(void **state) {
    (void)state;
    const double exponents[] = {0.5, 0.25, -0.3, 2.0};
    lipsc_fit_point points[30];
    double slopes[30];
    for (size_t e = 0; e < 4; e++) {
        for (size_t i = 0; i < 30; i++) {
            const size_t n = (size_t)8 << i % 5;
            points[i] = point(n, i / 5, (double)n, 3.5 * pow((double)n, exponents[e]));
        }
        lipsc_fit fit;
        assert_int_equal(lipsc_fit_power(30, points, 1, &fit, slopes, NULL), LIPSC_OK);
        near(fit.exponent, exponents[e], 1e-13);
        near(fit.coefficient, 3.5, 1e-13);
        near(fit.low, exponents[e], 1e-13); /* all starts agree */
        near(fit.high, exponents[e], 1e-13);
        for (size_t l = 0; l < 4; l++) near(slopes[l], exponents[e], 1e-13);
        assert_true(fit.law && fit.lack_of_fit == 1.0);
        assert_int_equal(fit.lengths, 5);
        assert_int_equal(fit.starts, 6);
        assert_int_equal(fit.texts, 1);
    }
}

/* Two of three windows on the law, one far off: the median does not see it. */
static void test_median(void **state) {
    (void)state;
    lipsc_fit_point points[24];
    for (size_t i = 0; i < 24; i++) {
        const size_t n = (size_t)8 << i / 6;
        const double wild[] = {1.0, 1.0, i % 2 ? 1e6 : 1e-6};
        points[i] = point(n, i % 6, (double)n, sqrt((double)n) * wild[i % 3]);
    }
    lipsc_fit fit;
    assert_int_equal(lipsc_fit_power(24, points, 1, &fit, NULL, NULL), LIPSC_OK);
    near(fit.exponent, 0.5, 1e-13);
    near(fit.coefficient, 1.0, 1e-13);
    /* of an even number of windows the median is the mean of the middle two */
    const lipsc_fit_point even[] = {{8, 0, 0, 8, 1},   {8, 1, 0, 8, 3},   {16, 0, 0, 16, 5},
                                    {16, 1, 0, 16, 3}, {32, 0, 0, 32, 7}, {32, 1, 0, 32, 9},
                                    {64, 0, 0, 64, 16}};
    assert_int_equal(lipsc_fit_power(7, even, 1, &fit, NULL, NULL), LIPSC_OK);
    near(fit.exponent, 1.0, 1e-13);
    near(fit.coefficient, 0.25, 1e-13);
    assert_int_equal(fit.starts, 1); /* the second has no window of 64 */
}

/* n, start, radius, value.  The numbers wanted come from a program in Python that shares no
 * code: medians and deviations of its statistics module, resamplings drawn with the
 * generator of core/rng.c written down a second time, Student's quantiles from a table, and
 * Hotelling's statistic of second differences, whose p has a closed form for two of them.
 */
static const double table[30][4] = {
    {4, 0, 2.9354, 2.4431},  {4, 1, 3.2791, 4.1236},  {4, 2, 4.3252, 3.7566},
    {4, 3, 3.0855, 2.8724},  {4, 4, 4.0028, 5.9359},  {4, 5, 3.1, 3.3},
    {8, 0, 3.9005, 3.0275},  {8, 1, 3.0493, 7.0833},  {8, 2, 3.8464, 2.6067},
    {8, 3, 3.6321, 3.0919},  {8, 4, 3.2566, 3.7861},  {8, 5, 2.9126, 4.1187},
    {16, 0, 3.4322, 6.2395}, {16, 1, 3.9089, 4.4285}, {16, 2, 4.2965, 6.7791},
    {16, 3, 2.8499, 4.8933}, {16, 4, 3.2535, 5.0176}, {16, 5, 3.0412, 5.5209},
    {32, 0, 3.2782, 6.4125}, {32, 1, 4.2106, 5.8167}, {32, 2, 3.4404, 5.6586},
    {32, 3, 3.4107, 4.2439}, {32, 4, 4.4377, 4.5687}, {32, 5, 4.0021, 7.3318},
    {64, 0, 6.3209, 9.5273}, {64, 1, 3.3543, 8.338},  {64, 2, 4.0127, 7.761},
    {64, 3, 5.0457, 4.2319}, {64, 4, 4.7737, 7.1168}, {64, 5, 5.634, 6.9044}};

/* The same windows again as a second text, moved so that it is another one. */
static size_t table_points(size_t texts, int radius, lipsc_fit_point *points) {
    size_t count = 0;
    for (size_t t = 0; t < texts; t++)
        for (size_t i = 0; i < 30; i++) {
            const size_t n = (size_t)table[i][0], start = (size_t)table[i][1];
            const double moved = 1.0 + 0.3 * (double)t * (double)(start * n % 5);
            points[count++] = (lipsc_fit_point){.n = n,
                                                .start = start,
                                                .text = t,
                                                .x = table[i][radius ? 2 : 0],
                                                .y = table[i][3] * moved};
        }
    return count;
}

static void test_twin(void **state) {
    (void)state;
    const struct {
        int radius;
        size_t texts;
        double exponent, coefficient, low, high, p, slopes[3];
    } want[] = {{0,
                 1,
                 0.346216289946851,
                 1.79105631419145,
                 0.1634559798901,
                 0.5289766000036,
                 0.5645746382999,
                 {0.6156085142555, 0.1228623354306, 0.3746293383265}},
                {0,
                 2,
                 0.307867258066201,
                 2.38850511933732,
                 0.1295802347665,
                 0.4861542813659,
                 0.4495545699137,
                 {0.6130296656097, 0.08317949092767, 0.3022885400407}},
                {1,
                 1,
                 1.3943793992394,
                 0.817205475628544,
                 -0.7499377498341,
                 3.538696548313,
                 0.4199927927614,
                 {-14.26567446053, 0.7941527412635, 0.9369304170007}},
                {1,
                 2,
                 1.18530440711513,
                 1.27884494367796,
                 -0.5081817246748,
                 2.878790538905,
                 0.2566935132423,
                 {-14.20591405369, 0.5376523285642, 0.7560094709615}}};
    for (size_t t = 0; t < 4; t++) {
        lipsc_fit_point points[60];
        double slopes[60];
        lipsc_fit fit;
        const size_t count = table_points(want[t].texts, want[t].radius, points);
        assert_int_equal(lipsc_fit_power(count, points, 7, &fit, slopes, NULL), LIPSC_OK);
        /* 1e-11: the digits printed above, and orthogonal polynomials */
        near(fit.exponent, want[t].exponent, 1e-11);
        near(fit.coefficient, want[t].coefficient, 1e-11);
        near(fit.low, want[t].low, 1e-11);
        near(fit.high, want[t].high, 1e-11);
        near(fit.lack_of_fit, want[t].p, 1e-11);
        for (size_t l = 0; l < 3; l++) near(slopes[l], want[t].slopes[l], 1e-11);
        assert_true(fit.law); /* slopes far apart, but the starts scatter as much */
        assert_int_equal(fit.lengths, 4);
        assert_int_equal(fit.starts, 6 * want[t].texts);
        assert_int_equal(fit.texts, want[t].texts);
    }
}

static void test_order_and_seed(void **state) {
    (void)state;
    lipsc_fit_point points[60], turned[60];
    lipsc_fit a, b;
    const size_t count = table_points(2, 0, points);
    assert_int_equal(lipsc_fit_power(count, points, 3, &a, NULL, NULL), LIPSC_OK);
    assert_int_equal(lipsc_fit_power(count, points, 3, &b, NULL, NULL), LIPSC_OK);
    assert_true(a.low == b.low && a.high == b.high);
    for (size_t i = 0; i < count; i++) turned[i] = points[i * 7 % count];
    assert_int_equal(lipsc_fit_power(count, turned, 3, &b, NULL, NULL), LIPSC_OK);
    assert_true(a.exponent == b.exponent && a.low == b.low && a.high == b.high);
    assert_int_equal(lipsc_fit_power(count, points, 4, &b, NULL, NULL), LIPSC_OK);
    assert_true(a.exponent == b.exponent && a.low != b.low);
}

/* Starts go together: when a start only moves its whole curve up or down, every resampling
 * has the same slope, however far the starts lie apart. */
static void test_starts_go_together(void **state) {
    (void)state;
    lipsc_fit_point points[30];
    lipsc_fit fit;
    for (size_t i = 0; i < 30; i++) {
        const size_t n = (size_t)8 << i % 5, start = i / 5;
        points[i] = point(n, start, (double)n, pow((double)n, 0.4) * exp2((double)start));
    }
    assert_int_equal(lipsc_fit_power(30, points, 1, &fit, NULL, NULL), LIPSC_OK);
    near(fit.low, 0.4, 1e-12);
    near(fit.high, 0.4, 1e-12);
}

/* ln y = 0.3 ln n + bend (ln n)^2, with a little noise from start to start. */
static lipsc_fit bent(double bend, size_t starts) {
    lipsc_fit_point points[100];
    lipsc_fit fit;
    for (size_t i = 0; i < 5 * starts; i++) {
        const size_t n = (size_t)8 << i % 5, start = i / 5;
        const double x = log((double)n);
        points[i] = point(n, start, (double)n,
                          exp(0.3 * x + bend * x * x + 0.01 * lipsc_rng_normal(1, i)));
    }
    assert_int_equal(lipsc_fit_power(5 * starts, points, 1, &fit, NULL, NULL), LIPSC_OK);
    return fit;
}

static void test_law(void **state) {
    (void)state;
    /* slopes from 0.3 to 0.3 + 6 bend ln 2 */
    assert_true(bent(0.0, 10).law);
    assert_true(bent(0.0, 10).lack_of_fit >= 0.05);
    assert_false(bent(0.1, 10).law);
    assert_true(bent(0.1, 10).lack_of_fit < 1e-3);
    assert_false(bent(0.1, 5).law); /* by the slopes alone */
    assert_true(isnan(bent(0.1, 5).lack_of_fit));
    /* a bend that is certain and small: slopes within 0.15 are a law all the same */
    assert_true(bent(0.02, 10).lack_of_fit < 0.05);
    assert_true(bent(0.02, 10).law);
    assert_true(bent(0.02, 10).slope_most - bent(0.02, 10).slope_least <= 0.15);
}

/* No interval below six starts, for each of several texts; from six texts on the texts. */
static void test_enough(void **state) {
    (void)state;
    const struct {
        size_t texts, starts;
        int interval;
    } cases[] = {{1, 5, 0}, {1, 6, 1}, {2, 5, 0}, {2, 6, 1},
                 {5, 3, 0}, {6, 1, 1}, {6, 3, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        lipsc_fit_point points[200];
        size_t count = 0;
        for (size_t t = 0; t < cases[c].texts; t++)
            for (size_t s = 0; s < cases[c].starts; s++)
                for (size_t n = 8; n <= 64; n *= 2, count++)
                    points[count] = (lipsc_fit_point){
                        n, s, t, (double)n,
                        sqrt((double)n) * (1.0 + 0.1 * sin((double)(n * (s + 3 * t + 1))))};
        lipsc_fit fit;
        assert_int_equal(lipsc_fit_power(count, points, 1, &fit, NULL, NULL), LIPSC_OK);
        assert_int_equal(isfinite(fit.low) && isfinite(fit.high), cases[c].interval);
        assert_int_equal(isfinite(fit.lack_of_fit), cases[c].interval);
        if (cases[c].interval) assert_true(fit.low < fit.exponent);
        assert_int_equal(fit.starts, cases[c].texts * cases[c].starts);
    }
}

static void test_refusals(void **state) {
    (void)state;
    lipsc_error err;
    lipsc_fit fit;
    const lipsc_fit_point two[] = {
        {4, 0, 0, 4, 1}, {8, 0, 0, 8, 1}, {16, 0, 0, 16, 2}, {16, 1, 0, 16, 3}};
    assert_int_equal(lipsc_fit_power(4, two, 1, &fit, NULL, &err), LIPSC_E_REFUSED);
    assert_string_equal(err.text, "a fit needs three lengths from 8 on, there are 2");
    assert_int_equal(lipsc_fit_power(0, NULL, 1, &fit, NULL, &err), LIPSC_E_REFUSED);
    const lipsc_fit_point bad[] = {
        {8, 0, 0, 8, 0}, {16, 0, 0, 16, NAN}, {32, 0, 0, INFINITY, 1}, {64, 0, 0, -1, 1}};
    assert_int_equal(lipsc_fit_power(4, bad, 1, &fit, NULL, &err), LIPSC_E_REFUSED);
    /* a radius that hardly moves would give any exponent */
    const lipsc_fit_point flat[] = {
        {8, 0, 0, 5.0, 1}, {16, 0, 0, 5.01, 2}, {32, 0, 0, 5.02, 3}};
    assert_int_equal(lipsc_fit_power(3, flat, 1, &fit, NULL, &err), LIPSC_E_REFUSED);
    assert_string_equal(err.text,
                        "x varies by a factor 1.004 over the lengths, a law needs 1.25");
    /* lengths are what they are, close as they may lie */
    const lipsc_fit_point close[] = {
        {96, 0, 0, 96, 96}, {97, 0, 0, 97, 97}, {98, 0, 0, 98, 98}};
    assert_int_equal(lipsc_fit_power(3, close, 1, &fit, NULL, &err), LIPSC_OK);
    near(fit.exponent, 1.0, 1e-11); /* 1e-16 over logarithms 0.01 apart */
    /* one window everywhere: a line, but nothing to resample */
    const lipsc_fit_point single[] = {
        {8, 0, 0, 8, 1}, {16, 0, 0, 16, 2}, {32, 0, 0, 32, 4}};
    assert_int_equal(lipsc_fit_power(3, single, 1, &fit, NULL, &err), LIPSC_OK);
    near(fit.exponent, 1.0, 1e-13);
    assert_true(isnan(fit.low) && isnan(fit.high) && isnan(fit.lack_of_fit) && fit.law);
}

/* Closed forms, and quantiles found with Simpson's rule and bisection in Python. */
static void test_distributions(void **state) {
    (void)state;
    near(lipsc_student_quantile(1, 0.05), tan(0.475 * acos(-1.0)), 1e-12);
    near(lipsc_student_quantile(2, 0.05), 0.95 / sqrt(2.0 * 0.975 * 0.025), 1e-12);
    near(lipsc_student_quantile(5, 0.05), 2.5705818356363, 1e-12);
    near(lipsc_student_quantile(19, 0.05), 2.0930240544083, 1e-12);
    near(lipsc_student_quantile(500, 0.05), 1.9647198374693, 1e-11);
    for (double f = 0.01; f < 1e4; f *= 3.7)
        for (double d = 1; d < 200; d += 13)
            near(lipsc_fisher_tail(2, d, f), pow(1.0 + 2.0 * f / d, -d / 2.0), 1e-11);
    assert_true(lipsc_fisher_tail(3, 7, INFINITY) == 0.0);
    assert_true(lipsc_fisher_tail(3, 7, 0.0) == 1.0);
    assert_true(isnan(lipsc_fisher_tail(3, 7, NAN)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_power_law),
        cmocka_unit_test(test_median),
        cmocka_unit_test(test_twin),
        cmocka_unit_test(test_order_and_seed),
        cmocka_unit_test(test_starts_go_together),
        cmocka_unit_test(test_law),
        cmocka_unit_test(test_enough),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_distributions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
