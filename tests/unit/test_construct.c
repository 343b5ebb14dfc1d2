/* test_construct.c - the deterministic tables of docs/maths.md 4, 5 and 6, to their printed
 * digits; numpy computed them from dense Jacobians and from the cluster formula of 7. */
#include "chosen.h"
#include "core/extreme.h"
#include "bound/zoo.h"
#include "core/rng.h"
#include "small_layer.h"
#include "test_device.h"

#include <stdlib.h>
#include <string.h>

/* The bounds over a ball need no input: n, R and the head are enough. */
static double ball_bound(const small_layer *s, const char *name, size_t n, double R) {
    lipsc_head_facts facts = s->facts;
    lipsc_zoo_case z = {
        .layer = &s->layer, .n = n, .radius = R, .p = 1.0, .head = &facts, .out_norm = 1.0};
    lipsc_zoo_row row;
    assert_int_equal(lipsc_zoo_evaluate(&z, lipsc_zoo_find(name), &row), LIPSC_OK);
    assert_string_equal(row.refused, "");
    return exp(row.log_value);
}

/* The same with a causal mask, whose ranges are those of n tokens. */
static double causal_bound(const small_layer *s, const char *name, size_t n, double R) {
    lipsc_head_facts facts = s->facts;
    lipsc_layer layer = s->layer;
    layer.mask = LIPSC_MASK_CAUSAL;
    size_t *lo = calloc(2 * n, sizeof *lo);
    assert_non_null(lo);
    for (size_t i = 0; i < n; i++) lo[n + i] = i + 1;
    lipsc_attn attn;
    memset(&attn, 0, sizeof attn);
    attn.rows = (lipsc_rows){.n = n, .lo = lo, .hi = lo + n};
    lipsc_zoo_case z = {.attn = &attn,
                        .layer = &layer,
                        .n = n,
                        .radius = R,
                        .p = 2.0,
                        .head = &facts,
                        .out_norm = 1.0};
    lipsc_zoo_row row;
    assert_int_equal(lipsc_zoo_evaluate(&z, lipsc_zoo_find(name), &row), LIPSC_OK);
    assert_string_equal(row.refused, "");
    free(lo);
    return exp(row.log_value);
}

static double reached(const small_layer *s, lipsc_worst *worst, int causal) {
    lipsc_layer layer = s->layer;
    double sigma = NAN;
    if (causal) layer.mask = LIPSC_MASK_CAUSAL;
    assert_int_equal(lipsc_worst_reach(&layer, worst, NULL, &sigma, NULL), LIPSC_OK);
    return sigma;
}

/* ---- 5.1 ---------------------------------------------------------------------------- */

/* A = lambda (d = 1), R, n: exact, formula, finite-n, paper-finite-n */
static const double one_outlier[][7] = {
    {-1, 1, 2, 1.6015, 1.0908, 2.877, 5.745},
    {-1, 1, 3, 1.8798, 1.5871, 3.173, 6.928},
    {-1, 1, 5, 2.4584, 2.2090, 3.547, 8.832},
    {-1, 1, 10, 2.9937, 2.8381, 4.003, 12.369},
    {-1, 1, 30, 2.8419, 2.8364, 4.490, 21.284},
    {-1, 1, 100, 2.0504, 1.9772, 4.727, 38.769},
    {-1, 1, 300, 1.4876, 1.2309, 4.804, 67.104},
    {-1, 1, 1000, 1.1752, 0.6928, 4.832, 122.487},
    {-1, 1, 3000, 1.0624, 0.4031, 4.840, 212.139},
    {-1, 1, 10000, 1.0192, 0.2214, 4.843, 387.302},
    {-1, 1, 100000, 1.0019, 0.0701, 4.844, 1224.746},
    {-1, 1.5, 2, 1.1736, 1.0379, 5.713, 11.945},
    {-1, 1.5, 3, 1.5566, 1.5188, 6.468, 14.368},
    {-1, 1.5, 5, 2.3418, 2.2815, 7.637, 18.274},
    {-1, 1.5, 10, 3.9784, 3.8428, 9.674, 25.548},
    {-1, 1.5, 30, 8.8291, 8.5390, 13.979, 43.905},
    {-1, 1.5, 100, 16.1590, 15.9068, 19.242, 79.939},
    {-1, 1.5, 300, 17.9148, 17.8403, 22.765, 138.348},
    {-1, 1.5, 1000, 13.3979, 13.3975, 24.636, 252.518},
    {-1, 1.5, 3000, 8.5881, 8.5679, 25.272, 437.339},
    {-1, 1.5, 10000, 4.9486, 4.8712, 25.508, 798.445},
    {-1, 1.5, 100000, 1.8486, 1.5631, 25.600, 2524.879},
    {-0.5, 2, 2, 1.2466, 1.0527, 5.134, 10.677},
    {-0.5, 2, 3, 1.6278, 1.5571, 5.804, 12.845},
    {-0.5, 2, 5, 2.4796, 2.3723, 6.826, 16.340},
    {-0.5, 2, 10, 4.2445, 4.0333, 8.552, 22.847},
    {-0.5, 2, 30, 8.7260, 8.3973, 11.898, 39.268},
    {-0.5, 2, 100, 12.8290, 12.6552, 15.332, 71.498},
    {-0.5, 2, 300, 11.7229, 11.7007, 17.219, 123.742},
    {-0.5, 2, 1000, 7.8581, 7.8500, 18.097, 225.858},
    {-0.5, 2, 3000, 4.8870, 4.8258, 18.377, 391.167},
    {-0.5, 2, 10000, 2.8588, 2.7034, 18.478, 714.151},
    {-0.5, 2, 100000, 1.3152, 0.8624, 18.518, 2258.321},
    {4, 1.5, 2, 1.5289, 1.0987, 19.414, 46.829},
    {4, 1.5, 3, 1.9783, 1.6255, 21.755, 56.285},
    {4, 1.5, 5, 2.6597, 2.3456, 25.466, 71.540},
    {4, 1.5, 10, 3.5669, 3.2259, 32.287, 99.965},
    {4, 1.5, 30, 4.1442, 3.5781, 49.334, 171.735},
    {4, 1.5, 100, 3.4911, 2.6568, 82.640, 312.639},
    {4, 1.5, 300, 2.3451, 1.6916, 136.548, 541.057},
    {4, 1.5, 1000, 1.4496, 0.9601, 241.869, 987.544},
    {4, 1.5, 3000, 1.1500, 0.5601, 412.341, 1710.334},
    {4, 1.5, 10000, 1.0458, 0.3079, 745.396, 3122.538},
    {4, 1.5, 100000, 1.0047, 0.0975, 2337.689, 9874.221},
    {8, 2, 2, 1.4159, 1.0023, 65.414, 166.295},
    {8, 2, 3, 1.7375, 1.4208, 72.924, 199.862},
    {8, 2, 5, 2.2528, 2.0187, 84.833, 254.022},
    {8, 2, 10, 3.2221, 3.0630, 106.716, 354.939},
    {8, 2, 30, 5.8308, 5.7444, 161.413, 609.756},
    {8, 2, 100, 12.1477, 12.1064, 268.274, 1110.032},
    {8, 2, 300, 27.1947, 27.1761, 441.239, 1921.034},
    {8, 2, 1000, 71.2185, 71.2110, 779.165, 3506.290},
    {8, 2, 3000, 136.8288, 136.8242, 1326.127, 6072.567},
    {8, 2, 10000, 164.4950, 164.4900, 2394.742, 11086.617},
    {8, 2, 100000, 80.2800, 80.2643, 7503.645, 35058.566},
};

static void eigenvector_rule(void **state) {
    (void)state;
    for (size_t r = 0; r < sizeof one_outlier / sizeof *one_outlier; r++) {
        const double *row = one_outlier[r], R = row[1];
        const size_t n = (size_t)row[2];
        small_layer s;
        lipsc_worst worst;
        small_identity(&s, 1, row[0]);
        for (int sign = -1; sign <= 1; sign += 2) {
            assert_int_equal(
                lipsc_construct_eigenvector(&s.facts, R, n, sign, 0, &worst, NULL),
                LIPSC_OK);
            assert_printed(reached(&s, &worst, 0), row[3], 1e-4);
            assert_printed(exp(worst.log_promised), row[4], 1e-4);
            lipsc_worst_free(&worst);
        }
        assert_printed(ball_bound(&s, "finite-n", n, R), row[5], 1e-3);
        assert_printed(ball_bound(&s, "paper-finite-n", n, R), row[6], 1e-3);
        lipsc_head_facts_free(&s.facts);
    }
}

/* Where growth stops: z* and the peak of phi. */
static void peak(void **state) {
    (void)state;
    const double table[][3] = {
        {0.5, 1.458, 0.6369}, {1, 1.781, 0.7872},  {2, 2.155, 1.1009},  {4, 2.480, 1.7425},
        {8, 2.707, 3.0367},   {16, 2.844, 5.6321}, {64, 2.959, 21.2184}};
    double z;
    for (size_t r = 0; r < sizeof table / sizeof *table; r++) {
        assert_printed(lipsc_best_phi(table[r][0], &z), table[r][2], 1e-4);
        /* the table took z from a grid of step 3.5e-4 */
        assert_true(fabs(z - table[r][1]) < 5e-4 * z + 5e-4);
    }
    assert_true(fabs(lipsc_best_phi(1e6, &z) / 1e6 - pow(3.0, 1.5) / 16.0) < 1e-6);
    assert_true(fabs(z - 3.0) < 1e-5);
}

static void adapted_to_n(void **state) {
    (void)state;
    const double table[][4] = {{100, 18.96, 1e-2, 9.95},
                               {10000, 290.9, 1e-1, 100.25},
                               {1000000, 4025.3, 1e-1, 1250.97}};
    small_layer s;
    small_identity(&s, 1, -1.0);
    for (size_t r = 0; r < 3; r++) {
        const size_t n = (size_t)table[r][0];
        lipsc_worst worst;
        assert_int_equal(lipsc_construct_adapted(&s.facts, 3.0, n, 0, &worst, NULL),
                         LIPSC_OK);
        assert_printed(reached(&s, &worst, 0), table[r][1], table[r][2]);
        assert_true(exp(worst.log_promised) >=
                    sqrt((double)(n - 1)) * (1.0 + 0.5 * log((double)(n - 1))) / 2.0);
        lipsc_worst_free(&worst);
        assert_int_equal(lipsc_construct_eigenvector(&s.facts, 3.0, n, 1, 0, &worst, NULL),
                         LIPSC_OK);
        assert_printed(reached(&s, &worst, 0), table[r][3], 1e-2);
        lipsc_worst_free(&worst);
    }
    lipsc_head_facts_free(&s.facts);
}

/* For every A: |A| R^2/4 <= Delta* <= 2 |A| R^2, at least what eigenvectors give; what is
 * promised is reached and stays below the bounds.  Skew A has Delta* = a. */
static void any_score_matrix(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 25; seed++) {
        if (!chosen(seed)) continue;
        small_layer s;
        const size_t d = 1 + seed % 3;
        const double R = 0.5 + lipsc_rng_uniform(seed, 99) * 1.5;
        for (size_t e = 0; e < d * d; e++) {
            s.A[e] = lipsc_rng_normal(seed, e);
            s.V[e] = lipsc_rng_normal(seed, 40 + e);
        }
        if (seed % 5 == 0 && d > 1)
            for (size_t r = 0; r < d; r++)
                for (size_t c = 0; c <= r; c++)
                    s.A[r * d + c] = r == c ? 0.0 : -s.A[c * d + r];
        small_ready(&s, d, 0);
        const double a = s.facts.norm_A * R * R;
        double x[3], delta;
        assert_int_equal(lipsc_best_delta(&s.facts, R, 0, x, &delta), LIPSC_OK);
        assert_true(delta >= 0.25 * a * (1 - 1e-9) && delta <= 2.0 * a * (1 + 1e-9));
        if (seed % 5 == 0 && d > 1) assert_true(fabs(delta - a) < 1e-7 * a);
        for (size_t n = 2; n <= 5000; n *= 10) {
            lipsc_worst worst, paper;
            lipsc_error err;
            assert_int_equal(lipsc_construct_outlier(&s.facts, R, n, 0, 0, &worst, NULL),
                             0);
            const double sigma = reached(&s, &worst, 0);
            assert_true(sigma >= exp(worst.log_promised) * (1.0 - 1e-9));
            assert_true(sigma <= ball_bound(&s, "finite-n", n, R));
            const lipsc_status status =
                lipsc_construct_eigenvector(&s.facts, R, n, 1, 0, &paper, &err);
            if (status == LIPSC_OK) {
                assert_true(worst.delta >= paper.delta - 1e-9 * a);
                assert_true(reached(&s, &paper, 0) >=
                            exp(paper.log_promised) * (1.0 - 1e-9));
                lipsc_worst_free(&paper);
            } else {
                assert_int_equal(status, LIPSC_E_REFUSED);
                assert_non_null(strstr(err.text, "no real eigenvalue"));
            }
            lipsc_worst_free(&worst);
        }
        lipsc_head_facts_free(&s.facts);
    }
}

/* ---- 5.2 ---------------------------------------------------------------------------- */

/* A = -I (d = 2), R, n: exact, formula, exact / finite-n, exact / paper */
static const double two_outliers[][6] = {
    {2.0, 4, 5.705, 3.928, 0.4894, 0.1983},
    {2.0, 10, 8.626, 7.454, 0.5356, 0.1930},
    {2.0, 100, 15.380, 14.757, 0.3637, 0.1100},
    {2.0, 1000, 10.151, 8.812, 0.0869, 0.0230},
    {2.0, 10000, 3.893, 3.055, 0.0193, 0.0028},
    {3.0, 4, 12.785, 8.999, 0.5388, 0.1986},
    {3.0, 10, 20.234, 17.991, 0.6267, 0.2024},
    {3.0, 100, 63.647, 62.621, 0.7702, 0.2036},
    {3.0, 1000, 190.744, 189.382, 0.7886, 0.1932},
    {3.0, 10000, 396.016, 393.545, 0.5313, 0.1268},
    {4.0, 4, 22.661, 16.000, 0.5578, 0.1982},
    {4.0, 10, 35.844, 32.000, 0.6524, 0.2019},
    {4.0, 100, 113.357, 111.999, 0.8147, 0.2042},
    {4.0, 1000, 358.449, 357.393, 0.8842, 0.2044},
    {4.0, 10000, 1132.941, 1130.622, 0.9083, 0.2043},
};

static void two_outliers_table(void **state) {
    (void)state;
    small_layer s;
    small_identity(&s, 2, -1.0);
    for (size_t r = 0; r < sizeof two_outliers / sizeof *two_outliers; r++) {
        const double *row = two_outliers[r];
        const size_t n = (size_t)row[1];
        lipsc_worst worst;
        assert_int_equal(lipsc_construct_two(&s.facts, row[0], n, 0.0, 0, &worst, NULL), 0);
        const double sigma = reached(&s, &worst, 0);
        assert_printed(sigma, row[2], 1e-3);
        assert_printed(exp(worst.log_promised), row[3], 1e-3);
        assert_printed(sigma / ball_bound(&s, "finite-n", n, row[0]), row[4], 1e-4);
        assert_printed(sigma / ball_bound(&s, "paper-finite-n", n, row[0]), row[5], 1e-4);
        const double promised = worst.log_promised;
        lipsc_worst_free(&worst);
        assert_int_equal(lipsc_construct_two(&s.facts, row[0], n, NAN, 0, &worst, NULL), 0);
        assert_true(worst.log_promised >= promised); /* the place of c is free there */
        lipsc_worst_free(&worst);
    }
    lipsc_head_facts_free(&s.facts);
}

/* L4, with and without a mask: promised is reached and at least (n-1)/n a |Vu| - |V|/n. */
static void linear_in_a(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        if (!chosen(seed)) continue;
        small_layer s;
        const size_t d = 1 + seed % 3, n = 3 + seed % 9;
        for (size_t e = 0; e < d * d; e++) {
            s.A[e] = lipsc_rng_normal(seed, 200 + e);
            s.V[e] = lipsc_rng_normal(seed, 240 + e);
        }
        small_ready(&s, d, 0);
        lipsc_worst worst;
        assert_int_equal(lipsc_construct_linear(&s.facts, 1.5, n, &worst, NULL), LIPSC_OK);
        const double promised = exp(worst.log_promised) * (1.0 - 1e-9);
        assert_true(reached(&s, &worst, 0) >= promised);
        assert_true(reached(&s, &worst, 1) >= promised);
        const double even = (double)(n - 1 + n % 2 - 1) / (double)n;
        const double simple =
            even * s.facts.norm_A * lipsc_head_facts_value_length(&s.facts, worst.X) * 1.5 -
            s.facts.norm_V / (double)n;
        assert_true(promised >= simple - 1e-8);
        lipsc_worst_free(&worst);
        lipsc_head_facts_free(&s.facts);
    }
}

/* ---- 5.3, 4 ------------------------------------------------------------------------- */

static void two_diracs(void **state) {
    (void)state;
    /* a: exact, formula, mean-field-w2, paper-mean-field; digits of the text.  The table's
     * z* is that of a grid, which moves the fourth decimal of the exact value */
    const double table[][9] = {
        {0.25, 0.863, 1e-3, 0.8178, 1e-4, 1.5735, 1e-4, 2.885, 1e-3},
        {0.5, 1.308, 1e-3, 1.2979, 1e-4, 2.3433, 1e-4, 6.796, 1e-3},
        {1, 3.057, 1e-3, 2.9926, 1e-4, 4.8442, 1e-4, 29.556, 1e-3},
        {2, 12.99, 1e-2, 12.8754, 1e-4, 18.5224, 1e-4, 382.187, 1e-3},
        {3, 48.067, 1e-3, 47.9815, 1e-4, 66.5160, 1e-4, 4034.288, 1e-3},
        {4, 165.8, 1e-1, 165.797, 1e-3, 229.1139, 1e-4, 38752.454, 1e-3},
        {6, 1748.4, 1e-1, 1748.44, 1e-2, 2459.9615, 1e-4, 3092341.037, 1e-3}};
    small_layer s;
    lipsc_worst worst;
    small_identity(&s, 1, -1.0);
    for (size_t r = 0; r < sizeof table / sizeof *table; r++) {
        const double *row = table[r], R = sqrt(row[0]);
        assert_int_equal(lipsc_construct_diracs(&s.facts, R, &worst, NULL), LIPSC_OK);
        const double sigma = reached(&s, &worst, 0);
        assert_printed(sigma, row[1], row[2]);
        assert_printed(exp(worst.log_promised), row[3], row[4]);
        assert_printed(ball_bound(&s, "mean-field-w2", 2, R), row[5], row[6]);
        assert_printed(ball_bound(&s, "paper-mean-field", 2, R), row[7], row[8]);
        if (row[0] >= 2.0) /* section 4: 0.70 ... 0.72 */
            assert_true(sigma / ball_bound(&s, "mean-field-w2", 2, R) > 0.695 &&
                        sigma / ball_bound(&s, "mean-field-w2", 2, R) < 0.725);
        lipsc_worst_free(&worst);
    }
    lipsc_head_facts_free(&s.facts);
    /* A = +I at a = 32: e^{a/8} max phi with Delta = a/4 = 8 */
    small_identity(&s, 1, 1.0);
    assert_int_equal(lipsc_construct_diracs(&s.facts, sqrt(32.0), &worst, NULL), LIPSC_OK);
    assert_printed(worst.delta, 8.0, 1e-6);
    assert_printed(exp(worst.log_promised), 165.8, 1e-1);
    lipsc_worst_free(&worst);
    lipsc_head_facts_free(&s.facts);
}

/* The same plateau with equal weights, and the constant in W_1 as the light mass vanishes.
 */
static void plateau(void **state) {
    (void)state;
    const double divisor[] = {1, 1.5, 2, 2.5, 3, 4};
    const double printed[2][5] = {{3.0686, 3.0686, 3.0685, 3.0685, 3.0685},
                                  {12.8290, 12.9807, 12.9923, 12.9931, 12.9930}};
    small_layer s;
    small_identity(&s, 1, -1.0);
    for (int a = 1; a <= 2; a++) {
        double n = 10.0, X[] = {-sqrt((double)a), sqrt((double)a)};
        for (int size = 0; size < 5; size++) {
            n *= 10.0;
            double best = 0.0;
            for (size_t i = 0; i <= 6; i++) {
                const double k = i < 6 ? rint(n * exp(-2.0 * a) / divisor[i]) : 1.0;
                double count[] = {k, n - k};
                if (k >= 1.0) best = lipsc_max(best, small_clusters(&s, 2, X, count));
            }
            assert_printed(best, printed[a - 1][size], 1e-4);
        }
    }
    const double light[][2] = {{0.5, 5.4366}, {1, 22.1671}, {2, 272.9881}, {3, 2823.79}};
    for (size_t r = 0; r < 4; r++) {
        const double R = sqrt(light[r][0]), X[] = {-R, R}, a[] = {1e-7, 1.0 - 1e-7};
        const lipsc_input input = {.n = 2, .X = X, .weights = a};
        const double unit[] = {1.0, 0.0};
        double y[2]; /* sqrt(a_i / a_1) J_i1 */
        assert_int_equal(lipsc_ref_apply(&s.layer, &input, 0, 1, unit, y, NULL), LIPSC_OK);
        const double constant = fabs(y[0]) + sqrt(a[1] / a[0]) * fabs(y[1]);
        assert_printed(constant, light[r][1], 1e-4);
        assert_true(constant <= ball_bound(&s, "mean-field-w1", 2, R));
    }
    lipsc_head_facts_free(&s.facts);
}

/* ---- 5.4 ---------------------------------------------------------------------------- */

/* A = -1 (d = 1), a, n: exact, formula, masked-finite-n, masked-uniform, paper, outlier
 * last */
static const double masked_table[][8] = {
    {1.0, 2, 1.5294, 1.0908, 2.939, 22.166, 5.745, 1.5294},
    {1.0, 10, 3.4414, 3.1726, 4.639, 22.166, 12.369, 1.4140},
    {1.0, 100, 5.3135, 5.2066, 7.364, 22.166, 38.769, 1.6300},
    {1.0, 800, 5.6574, 5.5580, 9.389, 22.166, 109.558, 1.7393},
    {2.0, 2, 1.4588, 1.0527, 5.148, 85.211, 10.677, 1.4588},
    {2.0, 10, 3.8743, 3.6504, 8.805, 85.211, 22.847, 1.4136},
    {2.0, 100, 14.4923, 14.2894, 18.904, 85.211, 71.498, 1.6300},
    {2.0, 800, 22.0037, 21.9272, 29.445, 85.211, 202.020, 1.7393},
    {3.0, 2, 1.4233, 1.0123, 7.414, 297.849, 15.780, 1.4233},
    {3.0, 10, 3.3406, 3.1810, 12.870, 297.849, 33.719, 1.4134},
    {3.0, 100, 14.6768, 14.5446, 32.906, 297.849, 105.485, 1.6300},
    {3.0, 800, 52.6472, 52.5182, 69.427, 297.849, 298.039, 1.7393},
};

static void masked(void **state) {
    (void)state;
    small_layer s;
    lipsc_worst worst;
    small_identity(&s, 1, -1.0);
    for (size_t r = 0; r < sizeof masked_table / sizeof *masked_table; r++) {
        const double *row = masked_table[r], R = sqrt(row[0]);
        const size_t n = (size_t)row[1];
        assert_int_equal(lipsc_construct_outlier(&s.facts, R, n, 1, 0, &worst, NULL), 0);
        assert_printed(reached(&s, &worst, 1), row[2], 1e-4);
        assert_printed(exp(worst.log_promised), row[3], 1e-4);
        assert_printed(causal_bound(&s, "masked-finite-n", n, R), row[4], 1e-3);
        assert_printed(causal_bound(&s, "masked-uniform", n, R), row[5], 1e-3);
        assert_printed(causal_bound(&s, "masked-dp", n, R), row[5], 1e-3); /* p = 2 */
        assert_printed(causal_bound(&s, "paper-finite-n", n, R), row[6], 1e-3);
        const double first = worst.X[0], many = worst.count[1];
        worst.X[0] = worst.X[1], worst.X[1] = first;
        worst.count[0] = many, worst.count[1] = 1.0;
        assert_printed(reached(&s, &worst, 1), row[7], 1e-4);
        lipsc_worst_free(&worst);
    }
    /* n = 4000 beside the limit, and outliers at every time scale */
    const double far[][3] = {{0.5, 2.6957, 2.5097}, {1, 5.7043, 5.7498}, {2, 0, 24.7458}};
    for (size_t r = 0; r < 3; r++) {
        const double R = sqrt(far[r][0]);
        if (far[r][1] > 0) {
            assert_int_equal(lipsc_construct_outlier(&s.facts, R, 4000, 1, 0, &worst, NULL),
                             0);
            const double sigma = reached(&s, &worst, 1);
            assert_true(sigma >=
                        far[r][1] - 1e-4); /* forty steps of power iteration there */
            assert_true(sigma < far[r][1] + 1e-3);
            assert_true(sigma > ball_bound(&s, "mean-field-w2", 4000, R)); /* section 4 */
            lipsc_worst_free(&worst);
        }
        assert_int_equal(lipsc_construct_scales(&s.facts, R, 300, 1.15, &worst, NULL), 0);
        const double sigma = reached(&s, &worst, 0);
        assert_true(fabs(sigma - far[r][2]) < 1e-3 * sigma); /* z* of a grid there */
        assert_true(sigma > 0.96 * exp(worst.log_promised));
        assert_true(sigma < causal_bound(&s, "masked-uniform", 4, R));
        lipsc_worst_free(&worst);
    }
    lipsc_head_facts_free(&s.facts);
}

/* ---- The public call ---------------------------------------------------------------- */

/* A = factor I and V = I of width d, as anybody writes it. */
static void plain_layer(size_t d, double factor, double *numbers, lipsc_layer *layer) {
    for (size_t e = 0; e < d * d; e++) {
        numbers[e] = e / d == e % d ? factor : 0.0;
        numbers[d * d + e] = e / d == e % d ? 1.0 : 0.0;
    }
    lipsc_layer_defaults(layer);
    layer->d = layer->key_dim = layer->value_dim = d;
    layer->Q = numbers;
    layer->V = numbers + d * d;
}

static double reach_of(const lipsc_layer *layer, const lipsc_construct_settings *set,
                       double *promised, double *delta) {
    lipsc_worst worst;
    lipsc_error err = {.text = ""};
    double sigma = NAN;
    if (lipsc_construct(layer, set, &worst, &err)) fail_msg("%s", err.text);
    assert_int_equal(worst.d, layer->d);
    assert_true(worst.n == 0 || worst.n == set->n);
    if (lipsc_worst_reach(layer, &worst, test_device(1), &sigma, &err))
        fail_msg("%s", err.text);
    *promised = exp(worst.log_promised);
    *delta = worst.delta;
    lipsc_worst_free(&worst);
    return sigma;
}

/* The tables above and closed forms: A = -I in the unit ball has Delta* = 2, two Diracs
 * reach e^{Delta/2} max phi, (L4) is |V ((n-1)/n R^2 u u^T A + I/n)| at odd n. */
static void public_constructions(void **state) {
    (void)state;
    double numbers[8], promised, delta;
    lipsc_layer layer;
    lipsc_construct_settings set;
    lipsc_construct_defaults(&set);
    set.which = LIPSC_CONSTRUCT_EIGENVECTOR;
    for (size_t r = 0; r < sizeof one_outlier / sizeof *one_outlier; r++) {
        plain_layer(1, one_outlier[r][0], numbers, &layer);
        set.radius = one_outlier[r][1];
        set.n = (size_t)one_outlier[r][2];
        assert_printed(reach_of(&layer, &set, &promised, &delta), one_outlier[r][3], 1e-4);
        assert_printed(promised, one_outlier[r][4], 1e-4);
    }
    plain_layer(2, -1.0, numbers, &layer);
    set =
        (lipsc_construct_settings){.which = LIPSC_CONSTRUCT_OUTLIER, .n = 30, .radius = 1};
    assert_true(reach_of(&layer, &set, &promised, &delta) >= promised * (1.0 - 1e-12));
    assert_printed(delta, 2.0, 1e-9);
    set.which = LIPSC_CONSTRUCT_ADAPTED;
    set.n = 1000000; /* the outlier alone is forgotten there, the adapted one is not */
    assert_true(reach_of(&layer, &set, &promised, &delta) > 1.0);
    set.which = LIPSC_CONSTRUCT_LINEAR;
    set.n = 101;
    assert_true(reach_of(&layer, &set, &promised, &delta) >= promised * (1.0 - 1e-12));
    assert_printed(promised, 99.0 / 101.0, 1e-12); /* |-100/101 + 1/101| along u */
    set.which = LIPSC_CONSTRUCT_DIRACS;
    reach_of(&layer, &set, &promised, &delta);
    assert_printed(promised, 2.9926, 1e-4);
    set =
        (lipsc_construct_settings){.which = LIPSC_CONSTRUCT_OUTLIER, .n = 16, .radius = 2};
    set.sphere = 1;
    assert_printed(reach_of(&layer, &set, &promised, &delta), 3.8536, 1e-4);
    set.which = LIPSC_CONSTRUCT_TWO;
    set.along = NAN;
    assert_printed(reach_of(&layer, &set, &promised, &delta), 10.1140, 1e-4);
    plain_layer(1, -1.0, numbers, &layer);
    layer.mask = LIPSC_MASK_CAUSAL;
    lipsc_construct_defaults(&set);
    set.which = LIPSC_CONSTRUCT_SCALES;
    set.fibres = 300;
    set.growth = 1.15;
    assert_true(fabs(reach_of(&layer, &set, &promised, &delta) / 5.7498 - 1.0) < 1e-3);
}

static void expect_refusal(const lipsc_layer *layer, const lipsc_construct_settings *set,
                           lipsc_status want, const char *part) {
    lipsc_worst worst;
    lipsc_error err = {.text = ""};
    assert_int_equal(lipsc_construct(layer, set, &worst, &err), want);
    if (!strstr(err.text, part)) fail_msg("'%s' does not say '%s'", err.text, part);
}

static void public_refusals(void **state) {
    (void)state;
    double numbers[8];
    const double sink[] = {0.0};
    lipsc_layer layer, other;
    lipsc_construct_settings set;
    plain_layer(2, -1.0, numbers, &layer);
    lipsc_construct_defaults(&set);
    set.n = 4;
    other = layer;
    other.sinks = sink;
    expect_refusal(&other, &set, LIPSC_E_REFUSED, "sinks");
    other = layer;
    other.mask = LIPSC_MASK_LOCAL;
    other.window = 2;
    expect_refusal(&other, &set, LIPSC_E_REFUSED, "window");
    other.mask = LIPSC_MASK_CAUSAL;
    set.which = LIPSC_CONSTRUCT_DIRACS;
    expect_refusal(&other, &set, LIPSC_E_REFUSED, "without a mask");
    set.which = LIPSC_CONSTRUCT_SCALES;
    expect_refusal(&layer, &set, LIPSC_E_REFUSED, "mask by times");
    set.growth = NAN;
    expect_refusal(&layer, &set, LIPSC_E_ARG, "grow");
    set.which = LIPSC_CONSTRUCT_EIGENVECTOR;
    set.sphere = 1;
    expect_refusal(&layer, &set, LIPSC_E_ARG, "spheres");
    set.sphere = 0;
    set.head = 1;
    expect_refusal(&layer, &set, LIPSC_E_ARG, "no head 1");
    set.head = 0;
    set.radius = NAN;
    expect_refusal(&layer, &set, LIPSC_E_ARG, "radius");
    set.radius = 1.0;
    set.n = 1;
    expect_refusal(&layer, &set, LIPSC_E_REFUSED, "2 tokens");
    set.which = (lipsc_construction)7;
    expect_refusal(&layer, &set, LIPSC_E_ARG, "no construction 7");
    assert_null(lipsc_construction_name((lipsc_construction)7));
    /* one that lies of its number of tokens */
    double X[] = {1, 0, 0, 1}, count[] = {1, 2}, sigma;
    lipsc_worst worst = {.n = 4, .d = 2, .points = 2, .X = X, .count = count};
    assert_int_equal(lipsc_worst_reach(&layer, &worst, NULL, &sigma, NULL), LIPSC_E_ARG);
    worst.d = 3;
    assert_int_equal(lipsc_worst_reach(&layer, &worst, NULL, &sigma, NULL), LIPSC_E_ARG);
}

/* ---- 5.5, 6 ------------------------------------------------------------------------- */

static void sphere(void **state) {
    (void)state;
    const double table[][3] = {{4, 1.7303, 5.6147},
                               {16, 3.8536, 10.1140},
                               {64, 7.7730, 14.4829},
                               {256, 14.7106, 13.5959}};
    small_layer s;
    small_identity(&s, 2, -1.0);
    for (size_t r = 0; r < 4; r++) {
        const size_t n = (size_t)table[r][0];
        lipsc_worst worst;
        assert_int_equal(lipsc_construct_outlier(&s.facts, 2.0, n, 0, 1, &worst, NULL), 0);
        assert_printed(reached(&s, &worst, 0), table[r][1], 1e-4);
        assert_true(reached(&s, &worst, 0) >= exp(worst.log_promised) * (1.0 - 1e-12));
        lipsc_worst_free(&worst);
        assert_int_equal(lipsc_construct_two(&s.facts, 2.0, n, NAN, 1, &worst, NULL), 0);
        assert_printed(reached(&s, &worst, 0), table[r][2], 1e-4);
        lipsc_worst_free(&worst);
    }
    lipsc_head_facts_free(&s.facts);
    /* A = +I: on the sphere a token prefers itself */
    double x[2], delta;
    small_identity(&s, 2, 1.0);
    assert_int_equal(lipsc_best_delta(&s.facts, 2.0, 1, x, &delta), LIPSC_OK);
    assert_true(fabs(delta) < 1e-12);
    lipsc_head_facts_free(&s.facts);
}

/* A acts in a plane of R^10 that lies anyhow.  A turn by a right angle times a: w.x = 0 and
 * Delta* = a R^2; the identity: R^2/4, at half the radius; its negative: 2 R^2.  On the
 * sphere the same, with what is missing to R across the plane. */
static void score_matrix_in_a_plane(void **state) {
    (void)state;
    enum { D = 10 };
    const double R = 1.7, a = 0.6;
    const double plane[3][4] = {{0, -a, a, 0}, {1, 0, 0, 1}, {-1, 0, 0, -1}};
    const double want[3] = {a * R * R, R * R / 4.0, 2.0 * R * R};
    for (uint64_t seed = 1; seed <= 4; seed++) {
        double p[2][D], K[2 * D], V[2 * D], cross = 0.0, square[2] = {0.0, 0.0};
        for (size_t c = 0; c < D; c++) {
            p[0][c] = lipsc_rng_normal(seed, c);
            p[1][c] = lipsc_rng_normal(seed, D + c);
            V[c] = V[D + c] = 1.0;
            square[0] += p[0][c] * p[0][c];
            cross += p[0][c] * p[1][c];
        }
        for (size_t c = 0; c < D; c++) {
            p[1][c] -= cross / square[0] * p[0][c];
            square[1] += p[1][c] * p[1][c];
        }
        for (size_t c = 0; c < D; c++)
            for (size_t r = 0; r < 2; r++) p[r][c] /= sqrt(square[r]);
        for (size_t kind = 0; kind < 6; kind++) {
            const double *M = plane[kind / 2];
            const int sphere = (int)(kind % 2);
            for (size_t c = 0; c < D; c++) /* A = sum_rs M_rs p_r p_s^T = K^T Q */
                for (size_t s = 0; s < 2; s++)
                    K[s * D + c] = M[s] * p[0][c] + M[2 + s] * p[1][c];
            const lipsc_layer layer = {.d = D,
                                       .heads = 1,
                                       .key_dim = 2,
                                       .value_dim = 2,
                                       .scale = 1.0,
                                       .Q = p[0],
                                       .K = K,
                                       .V = V};
            lipsc_layer resolved;
            lipsc_head_facts f;
            double x[D], delta, length = 0.0;
            assert_int_equal(lipsc_layer_check(&layer, &resolved, NULL), LIPSC_OK);
            assert_int_equal(lipsc_head_facts_make(&resolved, 0, &f), LIPSC_OK);
            assert_int_equal(lipsc_best_delta(&f, R, sphere, x, &delta), LIPSC_OK);
            for (size_t c = 0; c < D; c++) length += x[c] * x[c];
            assert_true(fabs(delta - want[kind / 2]) < 1e-9 * want[kind / 2]);
            assert_true(sqrt(length) <= R * (1.0 + 1e-12));
            if (sphere) assert_true(sqrt(length) >= R * (1.0 - 1e-12));
            lipsc_head_facts_free(&f);
        }
    }
}

/* A = +I, R = 2, tokens on a circle that move along it: a random climb passes what a random
 * search reported (5.5), without growth like sqrt(n).  The largest values seen by a climb
 * of the same kind on dense Jacobians are 1.842, 2.094 and 2.384; none may be far above. */
static void sphere_search(void **state) {
    (void)state;
    static const double table[][3] = {{4, 1.70, 1.9}, {8, 1.82, 2.3}, {16, 1.83, 2.7}};
    small_layer s;
    small_identity(&s, 2, 1.0);
    for (size_t r = 0; r < 3; r++) {
        const size_t n = (size_t)table[r][0];
        double angle[16], moved[16], X[32], count[16], best = 0.0, step = 0.5;
        lipsc_worst worst = {
            .n = n, .d = 2, .points = n, .X = X, .count = count, .sphere = 1};
        uint64_t drawn = 0;
        for (size_t i = 0; i < n; i++) {
            angle[i] = 6.283185307179586 * lipsc_rng_uniform(n, drawn++);
            count[i] = 1.0;
        }
        for (int trial = 0; trial < 2000 && best < table[r][1] + 0.01; trial++) {
            for (size_t i = 0; i < n; i++) {
                const int still = trial == 0 || lipsc_rng_uniform(n, drawn++) > 0.4;
                moved[i] = angle[i] + (still ? 0.0 : step * lipsc_rng_normal(n, drawn++));
                X[2 * i] = 2.0 * cos(moved[i]);
                X[2 * i + 1] = 2.0 * sin(moved[i]);
            }
            const double sigma = reached(&s, &worst, 0);
            step =
                sigma > best ? lipsc_min(1.3 * step, 1.0) : lipsc_max(0.985 * step, 1e-3);
            if (sigma <= best) continue;
            best = sigma;
            memcpy(angle, moved, n * sizeof *angle);
        }
        assert_true(best > table[r][1] && best < table[r][2]);
    }
    lipsc_head_facts_free(&s.facts);
}

/* |J(RX)| at R = 300 is the limit, masked or not, where no two scores are near each other.
 */
static void large_radius(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        if (!chosen(seed)) continue;
        small_layer s;
        const size_t d = 1 + seed % 3, n = 2 + seed % 7;
        double X[24], far[24];
        for (size_t e = 0; e < n * d; e++) {
            X[e] = lipsc_rng_normal(seed, e);
            far[e] = 300.0 * X[e];
        }
        for (size_t e = 0; e < d * d; e++) {
            s.A[e] = lipsc_rng_normal(seed, 50 + e);
            s.V[e] = lipsc_rng_normal(seed, 80 + e);
        }
        small_ready(&s, d, 0);
        s.layer.mask = seed % 2 ? LIPSC_MASK_CAUSAL : LIPSC_MASK_NONE;
        const lipsc_input input = {.n = n, .X = X}, away = {.n = n, .X = far};
        lipsc_attn *attn = NULL;
        lipsc_zoo_case z;
        lipsc_zoo_row row;
        assert_int_equal(
            lipsc_attn_new(&s.layer, &input, LIPSC_F64, test_device(1), &attn, NULL), 0);
        assert_int_equal(lipsc_zoo_case_make(attn, NAN, 2.0, NULL, &z, NULL), LIPSC_OK);
        assert_int_equal(lipsc_zoo_evaluate(&z, lipsc_zoo_find("large-radius"), &row), 0);
        assert_string_equal(row.refused, "");
        const double sigma = small_sigma(&s, s.layer.mask, &away);
        assert_true(fabs(sigma - row.value) < 1e-3 * row.value);
        assert_true(row.value <= s.facts.norm_V * sqrt((double)n) * (1.0 + 1e-12));
        lipsc_zoo_case_free(&z);
        lipsc_attn_free(attn);
        lipsc_head_facts_free(&s.facts);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eigenvector_rule),
        cmocka_unit_test(peak),
        cmocka_unit_test(adapted_to_n),
        cmocka_unit_test(any_score_matrix),
        cmocka_unit_test(two_outliers_table),
        cmocka_unit_test(linear_in_a),
        cmocka_unit_test(two_diracs),
        cmocka_unit_test(plateau),
        cmocka_unit_test(masked),
        cmocka_unit_test(public_constructions),
        cmocka_unit_test(public_refusals),
        cmocka_unit_test(sphere),
        cmocka_unit_test(score_matrix_in_a_plane),
        cmocka_unit_test(sphere_search),
        cmocka_unit_test(large_radius),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
