/* test_ot.c - exact distances, judged by all permutations, by the formula on the line, by
 * the dual certificate in plain loops, and by what a distance has to satisfy. */
#include "core/extreme.h"
#include "core/rng.h"
#include "lipscope.h"
#include "ot/exact.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const double powers[] = {1.0, 1.5, 2.0, 3.0, 2.7};
enum { POWERS = sizeof powers / sizeof *powers };

static double random_normal(uint64_t seed, size_t i) { return lipsc_rng_normal(seed, i); }

static void fill_points(uint64_t seed, int grid, size_t count, double *to) {
    for (size_t i = 0; i < count; i++)
        to[i] = grid ? (double)(lipsc_rng_bits(seed, i) % 3) : random_normal(seed, i);
}

static void fill_weights(uint64_t seed, size_t count, double *to) {
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) sum += to[i] = 0.05 + lipsc_rng_uniform(seed, i);
    for (size_t i = 0; i < count; i++) to[i] /= sum;
}

static double length_power(size_t d, const double *x, const double *y, double p) {
    double square = 0.0;
    for (size_t k = 0; k < d; k++) square += (x[k] - y[k]) * (x[k] - y[k]);
    return pow(sqrt(square), p);
}

/* The distance, with every part of its certificate confirmed.  Costs here are at most a few
 * hundred, and sums of a few hundred rounded terms: 1e-12 of the scale. */
static lipsc_distance solved(const lipsc_measure *a, const lipsc_measure *b, double p,
                             int conditional, double scale) {
    lipsc_distance_settings set;
    lipsc_distance found;
    lipsc_distance_proof proof;
    lipsc_error err = {.text = ""};
    lipsc_distance_defaults(&set);
    set.p = p;
    set.conditional = conditional;
    set.plan = 1;
    if (lipsc_distance_between(a, b, &set, &found, &err)) fail_msg("%s", err.text);
    assert_int_equal(lipsc_distance_certify(a, b, &found, &proof, &err), LIPSC_OK);
    assert_true(proof.violation <= 1e-12 * scale);
    assert_true(proof.imbalance <= 1e-14);
    assert_true(fabs(proof.primal - proof.dual) <= 1e-12 * scale);
    assert_true(fabs(proof.primal - found.cost) <= 1e-12 * scale);
    assert_true(fabs(found.gap) <= 1e-12 * scale);
    assert_true(found.imbalance <= 1e-14);
    assert_true(fabs(pow(found.distance, p) - found.cost) <= 1e-12 * scale);
    return found;
}

static double distance(const lipsc_measure *a, const lipsc_measure *b, double p) {
    lipsc_distance found = solved(a, b, p, 0, 1000.0);
    const double value = found.distance;
    lipsc_distance_free(&found);
    return value;
}

/* A certificate with a NaN in it certifies nothing: no maximum may pass over it. */
static void test_nan_is_not_lost(void **state) {
    (void)state;
    double x[] = {0.0, 1.0, 2.0}, y[] = {0.5, 1.5, 4.0};
    const lipsc_measure a = {.n = 3, .d = 1, .points = x},
                        b = {.n = 3, .d = 1, .points = y};
    lipsc_distance found = solved(&a, &b, 2.0, 0, 10.0);
    lipsc_distance_proof proof;
    found.f[1] = NAN;
    assert_int_equal(lipsc_distance_certify(&a, &b, &found, &proof, NULL), LIPSC_OK);
    assert_true(isnan(proof.violation));
    lipsc_distance_free(&found);

    assert_true(isnan(lipsc_max(NAN, 1.0)) && isnan(lipsc_max(1.0, NAN)));
    assert_true(isnan(lipsc_min(NAN, 1.0)) && isnan(lipsc_min(1.0, NAN)));
    assert_true(lipsc_max(1.0, 2.0) == 2.0 && lipsc_min(1.0, 2.0) == 1.0);
}

/* ---- All permutations ---- */

static double least_matching(size_t n, size_t d, const double *x, const double *y, double p,
                             size_t i, unsigned used) {
    if (i == n) return 0.0;
    double least = INFINITY;
    for (size_t j = 0; j < n; j++) {
        if (used >> j & 1u) continue;
        const double rest = least_matching(n, d, x, y, p, i + 1, used | 1u << j);
        least = lipsc_min(least, rest + length_power(d, x + i * d, y + j * d, p));
    }
    return least;
}

static void test_permutations(void **state) {
    (void)state;
    for (size_t trial = 0; trial < 60; trial++) {
        const size_t n = 2 + trial % 6, d = 1 + trial % 3;
        const double p = powers[trial % POWERS];
        double x[21], y[21];
        fill_points(2 * trial, trial % 2, n * d, x);
        fill_points(2 * trial + 1, trial % 2, n * d, y);
        const lipsc_measure a = {.n = n, .d = d, .points = x};
        const lipsc_measure b = {.n = n, .d = d, .points = y};
        lipsc_distance found = solved(&a, &b, p, 0, 1000.0);
        const double best = least_matching(n, d, x, y, p, 0, 0) / (double)n;
        assert_true(fabs(found.cost - best) <= 1e-13 * lipsc_max(1.0, best));
        lipsc_distance_free(&found);
    }
}

/* Weights that are multiples of 1/7: the same measure as seven equal atoms. */
static void test_merged_atoms(void **state) {
    (void)state;
    static const size_t parts_a[] = {3, 1, 2, 1}, parts_b[] = {2, 5};
    for (size_t trial = 0; trial < 20; trial++) {
        double x[8], y[4], wide_x[14], wide_y[14], wa[4], wb[2];
        fill_points(100 + trial, trial % 2, 8, x);
        fill_points(200 + trial, trial % 2, 4, y);
        size_t to = 0;
        for (size_t i = 0; i < 4; i++, wa[i - 1] = (double)parts_a[i - 1] / 7)
            for (size_t k = 0; k < parts_a[i]; k++, to++)
                memcpy(wide_x + 2 * to, x + 2 * i, 2 * sizeof *x);
        to = 0;
        for (size_t j = 0; j < 2; j++, wb[j - 1] = (double)parts_b[j - 1] / 7)
            for (size_t k = 0; k < parts_b[j]; k++, to++)
                memcpy(wide_y + 2 * to, y + 2 * j, 2 * sizeof *y);
        const double p = powers[trial % POWERS];
        const lipsc_measure a = {.n = 4, .d = 2, .points = x, .weights = wa};
        const lipsc_measure b = {.n = 2, .d = 2, .points = y, .weights = wb};
        const double best = least_matching(7, 2, wide_x, wide_y, p, 0, 0) / 7;
        assert_true(fabs(pow(distance(&a, &b, p), p) - best) <=
                    1e-13 * lipsc_max(1.0, best));
    }
}

/* ---- The line ---- */

/* W_1 = integral of |F - G|, the distribution functions, summed over all pairs of breaks.
 */
static double area_between(size_t n, const double *x, const double *a, size_t m,
                           const double *y, const double *b) {
    double area = 0.0, at = -INFINITY;
    for (;;) {
        double next = INFINITY, difference = 0.0;
        for (size_t i = 0; i < n; i++) {
            if (x[i] > at) next = lipsc_min(next, x[i]);
            if (x[i] <= at) difference += a[i];
        }
        for (size_t j = 0; j < m; j++) {
            if (y[j] > at) next = lipsc_min(next, y[j]);
            if (y[j] <= at) difference -= b[j];
        }
        if (isinf(next)) return area;
        if (!isinf(at)) area += fabs(difference) * (next - at);
        at = next;
    }
}

static void test_line(void **state) {
    (void)state;
    enum { N = 70, M = 45 };
    for (size_t trial = 0; trial < 10; trial++) {
        double x[N], y[M], a[N], b[M], flat_x[2 * N] = {0}, flat_y[2 * M] = {0};
        fill_points(300 + trial, trial % 2, N, x);
        fill_points(400 + trial, trial % 2, M, y);
        fill_weights(500 + trial, N, a);
        fill_weights(600 + trial, M, b);
        for (size_t i = 0; i < N; i++) flat_x[2 * i] = x[i];
        for (size_t j = 0; j < M; j++) flat_y[2 * j] = y[j];
        const lipsc_measure mu = {.n = N, .d = 1, .points = x, .weights = a};
        const lipsc_measure nu = {.n = M, .d = 1, .points = y, .weights = b};
        const lipsc_measure flat_mu = {.n = N, .d = 2, .points = flat_x, .weights = a};
        const lipsc_measure flat_nu = {.n = M, .d = 2, .points = flat_y, .weights = b};
        assert_true(fabs(distance(&mu, &nu, 1.0) - area_between(N, x, a, M, y, b)) <=
                    1e-13);
        for (size_t k = 0; k < POWERS; k++) /* the simplex finds what the order gives */
            assert_true(fabs(distance(&mu, &nu, powers[k]) -
                             distance(&flat_mu, &flat_nu, powers[k])) <= 1e-12);
    }
}

/* ---- What a distance has to satisfy ---- */

static void test_translation(void **state) {
    (void)state;
    enum { N = 150, D = 3 };
    static double x[N * D], y[N * D], a[N];
    static const double shift[D] = {3.0, -4.0, 12.0}; /* of length 13 */
    fill_points(7, 0, N * D, x);
    fill_weights(8, N, a);
    for (size_t i = 0; i < N * D; i++) y[i] = x[i] + shift[i % D];
    const lipsc_measure mu = {.n = N, .d = D, .points = x, .weights = a};
    const lipsc_measure nu = {.n = N, .d = D, .points = y, .weights = a};
    for (size_t k = 0; k < POWERS; k++) {
        lipsc_distance found = solved(&mu, &nu, powers[k], 0, 1e4);
        assert_true(fabs(found.distance - 13.0) <= 1e-12 * 13.0);
        lipsc_distance_free(&found);
    }
}

static void test_metric(void **state) {
    (void)state;
    enum { N = 30 };
    for (size_t trial = 0; trial < 12; trial++) {
        double x[3][3 * N], w[3][N];
        lipsc_measure mu[3];
        const double p = powers[trial % POWERS];
        for (size_t k = 0; k < 3; k++) {
            const size_t n = N - 7 * k;
            fill_points(700 + 3 * trial + k, trial % 2, 3 * n, x[k]);
            fill_weights(800 + 3 * trial + k, n, w[k]);
            mu[k] = (lipsc_measure){.n = n, .d = 3, .points = x[k], .weights = w[k]};
        }
        const double ab = distance(&mu[0], &mu[1], p), bc = distance(&mu[1], &mu[2], p);
        const double ac = distance(&mu[0], &mu[2], p);
        assert_true(fabs(ab - distance(&mu[1], &mu[0], p)) <= 1e-12);
        assert_true(ac <= ab + bc + 1e-12);
        assert_true(ab > 0);
        /* the root turns a cost of rounding 1e-17 into its p-th root */
        assert_true(distance(&mu[0], &mu[0], p) <= pow(1e-15, 1 / p));
        /* an atom in two parts is the same measure */
        double parts[3 * N + 3], weights[N + 1];
        memcpy(parts, x[0], 3 * N * sizeof *parts);
        memcpy(parts + 3 * N, x[0], 3 * sizeof *parts);
        memcpy(weights, w[0], N * sizeof *weights);
        weights[N] = 0.25 * weights[0];
        weights[0] *= 0.75;
        const lipsc_measure split = {
            .n = N + 1, .d = 3, .points = parts, .weights = weights};
        assert_true(fabs(distance(&split, &mu[1], p) - ab) <= 1e-12);
        assert_true(distance(&split, &mu[0], p) <= pow(1e-15, 1 / p));
    }
}

static void test_one_atom(void **state) {
    (void)state;
    double y[20], b[10], x[2] = {1.5, -2.0}, sum = 0.0;
    fill_points(9, 0, 20, y);
    fill_weights(10, 10, b);
    for (size_t j = 0; j < 10; j++) sum += b[j] * length_power(2, x, y + 2 * j, 3.0);
    const lipsc_measure point = {.n = 1, .d = 2, .points = x};
    const lipsc_measure nu = {.n = 10, .d = 2, .points = y, .weights = b};
    assert_true(fabs(pow(distance(&point, &nu, 3.0), 3) - sum) <= 1e-12 * sum);
    assert_true(fabs(pow(distance(&nu, &point, 3.0), 3) - sum) <= 1e-12 * sum);
    assert_true(distance(&point, &point, 2.0) == 0.0);
}

/* Weights from 1e-18 to 1 and points of any size: nothing is lost but what a double loses.
 */
static void test_scales(void **state) {
    (void)state;
    enum { N = 40, M = 55 };
    double x[2 * N], y[2 * M], a[N], b[M];
    fill_points(11, 0, 2 * N, x);
    fill_points(12, 0, 2 * M, y);
    double sa = 0.0, sb = 0.0;
    for (size_t i = 0; i < N; i++) sa += a[i] = pow(10.0, -18.0 * lipsc_rng_uniform(13, i));
    for (size_t j = 0; j < M; j++) sb += b[j] = pow(10.0, -18.0 * lipsc_rng_uniform(14, j));
    for (size_t i = 0; i < N; i++) a[i] /= sa;
    for (size_t j = 0; j < M; j++) b[j] /= sb;
    const lipsc_measure mu = {.n = N, .d = 2, .points = x, .weights = a};
    const lipsc_measure nu = {.n = M, .d = 2, .points = y, .weights = b};
    const double value = distance(&mu, &nu, 2.0);
    static const int exponents[] = {-900, -300, 300, 1000};
    for (int k = 0; k < 4; k++) {
        double sx[2 * N], sy[2 * M];
        for (size_t i = 0; i < 2 * N; i++) sx[i] = ldexp(x[i], exponents[k]);
        for (size_t j = 0; j < 2 * M; j++) sy[j] = ldexp(y[j], exponents[k]);
        const lipsc_measure smu = {.n = N, .d = 2, .points = sx, .weights = a};
        const lipsc_measure snu = {.n = M, .d = 2, .points = sy, .weights = b};
        lipsc_distance found;
        assert_int_equal(lipsc_distance_between(&smu, &snu, NULL, &found, NULL), LIPSC_OK);
        assert_true(fabs(ldexp(found.distance, -exponents[k]) - value) <= 1e-14 * value);
        lipsc_distance_free(&found);
    }
}

/* Sizes at which the coarse problems, the short list and its completion are all at work. */
static void test_larger(void **state) {
    (void)state;
    enum { N = 300, M = 260 };
    static double x[5 * N], y[5 * M], a[N], b[M];
    fill_weights(17, N, a);
    fill_weights(18, M, b);
    for (size_t k = 0; k < 6; k++) {
        const size_t d = k < 3 ? 2 : 5;
        const int grid = k % 3 == 1; /* nine or 243 places: all ties */
        fill_points(15 + k, grid, d * N, x);
        fill_points(25 + k, grid, d * M, y);
        if (k % 3 == 2) /* two clouds far from each other */
            for (size_t j = 0; j < M; j++) y[j * d] += 30.0;
        const lipsc_measure mu = {.n = N, .d = d, .points = x, .weights = k % 2 ? NULL : a};
        const lipsc_measure nu = {.n = M, .d = d, .points = y, .weights = k % 2 ? NULL : b};
        lipsc_distance found = solved(&mu, &nu, powers[k % POWERS], 0, 1e5);
        lipsc_distance_free(&found);
    }
}

/* Costs that are kept and costs that are computed again give the same plan. */
static void test_implicit(void **state) {
    (void)state;
    enum { N = 300, D = 4 };
    static double x[N * D], y[N * D], a[N], f[2][N], g[2][N];
    lipsc_ot_plan plans[2];
    fill_points(31, 0, N * D, x);
    fill_points(32, 0, N * D, y);
    for (size_t i = 0; i < N; i++) a[i] = 1.0 / N;
    for (int k = 0; k < 2; k++) {
        lipsc_ot_cost cost;
        plans[k] = (lipsc_ot_plan){.f = f[k], .g = g[k]};
        assert_int_equal(
            lipsc_ot_cost_make(N, N, D, 1.0, x, y, 1.0 / 32, k ? N * N : 0, &cost),
            LIPSC_OK);
        assert_true((cost.dense != NULL) == k);
        assert_int_equal(lipsc_ot_exact(&cost, a, a, &plans[k]), LIPSC_OK);
        lipsc_ot_cost_free(&cost);
    }
    assert_true(plans[0].count == N && plans[1].count == N); /* an assignment */
    assert_memory_equal(plans[0].moves, plans[1].moves, N * sizeof *plans[0].moves);
    assert_memory_equal(f[0], f[1], sizeof f[0]);
    free(plans[0].moves);
    free(plans[1].moves);
}

/* ---- The masked mean field ---- */

static void test_distinct_times(void **state) {
    (void)state;
    enum { N = 25, D = 3 };
    double x[N * D], y[N * D], a[N], t[N];
    fill_points(41, 0, N * D, x);
    fill_points(42, 0, N * D, y);
    fill_weights(43, N, a);
    for (size_t i = 0; i < N; i++) t[i] = (double)(i * 7 % N) / N;
    const lipsc_measure mu = {.n = N, .d = D, .points = x, .weights = a, .times = t};
    const lipsc_measure nu = {.n = N, .d = D, .points = y, .weights = a, .times = t};
    for (size_t k = 0; k < POWERS; k++) {
        double sum = 0.0;
        for (size_t i = 0; i < N; i++)
            sum += a[i] * length_power(D, x + i * D, y + i * D, powers[k]);
        lipsc_distance found = solved(&mu, &nu, powers[k], 1, 1000.0);
        assert_true(fabs(found.cost - sum) <= 1e-13 * sum);
        assert_true(found.distance >= distance(&mu, &nu, powers[k]) - 1e-12);
        assert_string_equal(found.method, "conditional");
        lipsc_distance_free(&found);
    }
}

/* Two times with several atoms: the sum of two problems, each by all permutations. */
static void test_shared_times(void **state) {
    (void)state;
    enum { N = 9 };
    double x[2 * N], y[2 * N], tx[N], ty[N];
    fill_points(51, 0, 2 * N, x);
    fill_points(52, 0, 2 * N, y);
    for (size_t i = 0; i < N; i++) { /* four atoms early, five late; not in order in y */
        tx[i] = i < 4 ? 0.25 : 1.0;
        ty[i] = i < 5 ? 1.0 : 0.25;
    }
    const lipsc_measure mu = {.n = N, .d = 2, .points = x, .times = tx};
    const lipsc_measure nu = {.n = N, .d = 2, .points = y, .times = ty};
    const double best = (least_matching(4, 2, x, y + 10, 2.0, 0, 0) +
                         least_matching(5, 2, x + 8, y, 2.0, 0, 0)) /
                        N;
    lipsc_distance found = solved(&mu, &nu, 2.0, 1, 100.0);
    assert_true(fabs(found.cost - best) <= 1e-13 * best);
    lipsc_distance_free(&found);
}

/* With A = 0 masked attention is the mean of what came before: moving the first of n tokens
 * moves the mean of i of them by 1/i, so that d_1 grows by 1 + 1/2 + ... + 1/n. */
static void test_harmonic(void **state) {
    (void)state;
    enum { N = 12 };
    const double zero[] = {0}, one[] = {1};
    lipsc_layer layer;
    lipsc_layer_defaults(&layer);
    layer.d = layer.key_dim = layer.value_dim = 1;
    layer.Q = zero;
    layer.K = layer.V = one;
    layer.mask = LIPSC_MASK_TIMES;
    double x[2][N], fx[2][N], times[N], harmonic = 0.0;
    for (size_t i = 0; i < N; i++) {
        times[i] = (double)(i + 1) / N;
        x[0][i] = x[1][i] = random_normal(61, i);
        harmonic += 1.0 / (double)(i + 1);
    }
    x[1][0] += 0.5;
    lipsc_measure before[2], after[2];
    for (int k = 0; k < 2; k++) {
        const lipsc_input input = {.n = N, .X = x[k], .times = times};
        assert_int_equal(lipsc_ref_output(&layer, &input, fx[k], NULL), LIPSC_OK);
        before[k] = (lipsc_measure){.n = N, .d = 1, .points = x[k], .times = times};
        after[k] = (lipsc_measure){.n = N, .d = 1, .points = fx[k], .times = times};
    }
    lipsc_distance in = solved(&before[0], &before[1], 1.0, 1, 10.0);
    lipsc_distance out = solved(&after[0], &after[1], 1.0, 1, 10.0);
    assert_true(fabs(out.distance / in.distance - harmonic) <= 1e-13 * harmonic);
    lipsc_distance_free(&in);
    lipsc_distance_free(&out);
}

/* ---- The approximation ---- */

/* The divergence of two translates is the squared shift whatever epsilon is (their entropic
 * costs differ from those with themselves by it alone), and it tends to W_2^2. */
static void test_sinkhorn(void **state) {
    (void)state;
    enum { N = 30 };
    double x[2 * N], y[2 * N], z[2 * N];
    fill_points(71, 0, 2 * N, x);
    fill_points(72, 0, 2 * N, z);
    for (size_t i = 0; i < 2 * N; i++) y[i] = x[i] + (i % 2 ? 0.3 : 0.4);
    const lipsc_measure mu = {.n = N, .d = 2, .points = x};
    const lipsc_measure moved = {.n = N, .d = 2, .points = y};
    const lipsc_measure other = {.n = N, .d = 2, .points = z};
    lipsc_distance_settings set;
    lipsc_distance found;
    lipsc_distance_defaults(&set);
    set.sinkhorn = 0.5;
    assert_int_equal(lipsc_distance_between(&mu, &moved, &set, &found, NULL), LIPSC_OK);
    /* marginals are good to 1e-6, potentials are of size 1 */
    assert_true(fabs(found.distance - 0.5) <= 1e-5);
    assert_string_equal(found.method, "sinkhorn");
    assert_true(found.epsilon == 0.5 && isnan(found.gap));
    lipsc_distance_free(&found);
    const double exact = distance(&mu, &other, 2.0);
    double last = INFINITY;
    for (set.sinkhorn = 4.0; set.sinkhorn > 0.2; set.sinkhorn /= 4) {
        assert_int_equal(lipsc_distance_between(&mu, &other, &set, &found, NULL), LIPSC_OK);
        const double off = fabs(found.cost - exact * exact);
        assert_true(off < last);
        last = off;
        lipsc_distance_free(&found);
    }
    /* entropic costs lie within epsilon times an entropy of at most log N of the exact one
     */
    assert_true(last <= 0.25 * log(N));
}

/* ---- Refusals ---- */

static void refused(lipsc_measure a, lipsc_measure b, lipsc_distance_settings set,
                    lipsc_status code, const char *text) {
    lipsc_distance found;
    lipsc_error err = {.text = ""};
    assert_int_equal(lipsc_distance_between(&a, &b, &set, &found, &err), code);
    assert_int_equal(err.code, code);
    if (!strstr(err.text, text)) fail_msg("'%s' is not in '%s'", text, err.text);
}

static void test_refusals(void **state) {
    (void)state;
    const double x[] = {0, 1, 2, 3}, nan[] = {0, NAN}, negative[] = {1.5, -0.5};
    const double half[] = {0.5, 0.4}, early[] = {0.25, 0.5}, late[] = {0.25, 0.75};
    const double outside[] = {0.5, 1.5}, heavy[] = {0.75, 0.25};
    const lipsc_measure good = {.n = 2, .d = 1, .points = x};
    lipsc_measure bad = good;
    lipsc_distance_settings set;
    lipsc_distance_defaults(&set);
    refused(good, (lipsc_measure){0}, set, LIPSC_E_ARG, "the second measure is empty");
    refused(good, (lipsc_measure){.n = 2, .d = 2, .points = x}, set, LIPSC_E_ARG,
            "those of the second 2");
    bad.points = nan;
    refused(bad, good, set, LIPSC_E_NONFIN, "point 1 of the first measure");
    bad = good;
    bad.weights = negative;
    refused(good, bad, set, LIPSC_E_ARG, "weight 1 of the second measure");
    bad.weights = half;
    refused(good, bad, set, LIPSC_E_ARG, "sum to 0.9");
    bad = good;
    bad.times = outside;
    refused(bad, good, set, LIPSC_E_ARG, "time 1");
    set.conditional = 1;
    refused(good, good, set, LIPSC_E_REFUSED, "needs times");
    lipsc_measure a = good, b = good;
    a.times = early;
    b.times = late;
    refused(a, b, set, LIPSC_E_REFUSED, "only the first measure has atoms at time 0.5");
    b.times = early;
    b.weights = heavy;
    refused(a, b, set, LIPSC_E_REFUSED, "has mass 0.5, the second 0.75");
    set.conditional = 0;
    set.p = 0.5;
    refused(good, good, set, LIPSC_E_ARG, "p must be");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nan_is_not_lost), cmocka_unit_test(test_permutations),
        cmocka_unit_test(test_merged_atoms),    cmocka_unit_test(test_line),
        cmocka_unit_test(test_translation),     cmocka_unit_test(test_metric),
        cmocka_unit_test(test_one_atom),        cmocka_unit_test(test_scales),
        cmocka_unit_test(test_larger),          cmocka_unit_test(test_implicit),
        cmocka_unit_test(test_distinct_times),  cmocka_unit_test(test_shared_times),
        cmocka_unit_test(test_harmonic),        cmocka_unit_test(test_sinkhorn),
        cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
