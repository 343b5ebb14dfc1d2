/* test_gauss.c - attention on Gaussians in closed form, judged by quadrature, by samples,
 * and by distances known otherwise. */
#include "core/extreme.h"
#include "layers.h"
#include "linalg/dense.h"
#include "io/safetensors.h"
#include "meanfield/meanfield.h"
#include "test_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* S = B B^T + 0.05 I */
static void random_cov(uint64_t seed, size_t d, double size, double *S) {
    for (size_t r = 0; r < d; r++)
        for (size_t c = 0; c < d; c++) {
            S[r * d + c] = r == c ? 0.05 : 0.0;
            for (size_t k = 0; k < d; k++)
                S[r * d + c] += size * size * lipsc_rng_normal(seed, r * d + k) *
                                lipsc_rng_normal(seed, c * d + k);
        }
    for (size_t r = 0; r < d; r++)
        for (size_t c = 0; c < r; c++) S[r * d + c] = S[c * d + r];
}

/* Width one: Gamma(x) = V E[y e^{a x y}] / E[e^{a x y}] by the trapezoidal rule, which for
 * such integrands converges faster than any power of the step. */
static void test_quadrature(void **state) {
    (void)state;
    const double mass[] = {0.2, 0.5, 0.3}, mean[] = {-1.5, 0.4, 2.0},
                 cov[] = {0.3, 1.1, 0.05};
    const double A = -0.7, V = 1.3, c = 0.25;
    const lipsc_gauss g = {.parts = 3, .d = 1, .mass = mass, .mean = mean, .cov = cov};
    lipsc_layer layer;
    lipsc_layer_defaults(&layer);
    layer.d = layer.key_dim = layer.value_dim = 1;
    layer.Q = &A;
    layer.V = &V;
    layer.bq = &c;
    for (int k = -4; k <= 4; k++) {
        const double x = 0.7 * k, w = A * x + c, step = 1e-3;
        double found, top = 0.0, bottom = 0.0;
        assert_int_equal(lipsc_gauss_map(&layer, &g, 1, &x, &found, NULL), LIPSC_OK);
        for (int j = -20000; j <= 20000; j++) {
            const double y = j * step;
            double density = 0.0;
            for (int p = 0; p < 3; p++)
                density += mass[p] / sqrt(cov[p]) *
                           exp(-0.5 * (y - mean[p]) * (y - mean[p]) / cov[p] + w * y);
            top += y * density;
            bottom += density;
        }
        assert_true(fabs(found - V * top / bottom) <= 1e-12 * lipsc_max(1.0, fabs(found)));
    }
}

/* Gamma of finitely many atoms, at the atoms, is the output of the layer. */
static void test_finite_law(void **state) {
    (void)state;
    static const unsigned features[] = {FEATURE_BIASES, FEATURE_GROUPED | FEATURE_BIASES,
                                        FEATURE_A_FORM, FEATURE_TIMES | FEATURE_NO_OUTPUT,
                                        FEATURE_SATURATED};
    for (uint64_t seed = 0; seed < 25; seed++) {
        test_layer t = random_layer(300 + seed, features[seed % 5]);
        const lipsc_measure mu = {
            .n = t.input.n, .d = t.layer.d, .points = t.input.X, .times = t.input.times};
        double *y = malloc(2 * t.out * sizeof *y), *expected = y + t.out;
        assert_int_equal(lipsc_ref_output(&t.layer, &t.input, expected, NULL), LIPSC_OK);
        assert_int_equal(
            lipsc_measure_map(&t.layer, &mu, mu.n, mu.points, mu.times, y, NULL), LIPSC_OK);
        /* the order of sums differs; saturated scores are of size 100 */
        assert_true(vector_distance(t.out, y, expected) <=
                    1e-12 * vector_norm(t.out, expected));
        free(y);
        test_layer_free(&t);
    }
}

/* Error of n samples falls like n^(-1/2): in the mean over repeats the slope is known to
 * about 1/sqrt(repeats) over ln(range). */
static void test_rate(void **state) {
    (void)state;
    static const size_t lengths[] = {100, 400, 1600, 6400};
    for (size_t parts = 1; parts <= 2; parts++) {
        test_layer t = random_layer_of(40 + parts, FEATURE_BIASES,
                                       (layer_sizes){.n = 1, .d = 3, .heads = 2});
        double mean[6], cov[18], error[4], exponent;
        for (size_t e = 0; e < 6; e++) mean[e] = 0.5 * lipsc_rng_normal(9, e);
        for (size_t k = 0; k < parts; k++) random_cov(60 + k, 3, 0.5, cov + 9 * k);
        const lipsc_gauss g = {.parts = parts, .d = 3, .mean = mean, .cov = cov};
        lipsc_error err = {.text = ""};
        if (lipsc_gauss_rate(&t.layer, &g, 4, lengths, 8, 1, error, &exponent, &err))
            fail_msg("%s", err.text);
        print_message("%zu part: errors %.4f %.4f %.4f %.4f, exponent %.3f\n", parts,
                      error[0], error[1], error[2], error[3], exponent);
        assert_true(fabs(exponent + 0.5) <= 0.12);
        assert_true(error[3] < 0.05);
        test_layer_free(&t);
    }
}

/* The image of one Gaussian: affine, so that points go where Gamma says, the matrix is
 * V S A, and samples of the image have its mean and covariance. */
static void test_image(void **state) {
    (void)state;
    test_layer t = random_layer_of(
        77, 0, (layer_sizes){.n = 1, .d = 4, .heads = 1, .value_dim = 3, .out_dim = 3});
    double mean[4], cov[16], image[3], image_cov[9], slope, matrix[12], sigma[3];
    for (size_t e = 0; e < 4; e++) mean[e] = lipsc_rng_normal(5, e);
    random_cov(6, 4, 0.4, cov);
    const lipsc_gauss g = {.parts = 1, .d = 4, .mean = mean, .cov = cov};
    assert_int_equal(lipsc_gauss_push(&t.layer, &g, image, image_cov, &slope, NULL),
                     LIPSC_OK);
    /* columns by differences of an affine map: exact up to rounding of size 1e-16 / 1 */
    for (size_t c = 0; c < 4; c++) {
        double up[4], down[4], y[3], z[3];
        memcpy(up, mean, sizeof up), memcpy(down, mean, sizeof down);
        up[c] += 1, down[c] -= 1;
        assert_int_equal(lipsc_gauss_map(&t.layer, &g, 1, up, y, NULL), LIPSC_OK);
        assert_int_equal(lipsc_gauss_map(&t.layer, &g, 1, down, z, NULL), LIPSC_OK);
        for (size_t r = 0; r < 3; r++) matrix[c * 3 + r] = 0.5 * (y[r] - z[r]);
    }
    for (size_t r = 0; r < 3; r++)
        for (size_t c = 0; c < 3; c++) {
            double sum = 0.0;
            for (size_t i = 0; i < 4; i++)
                for (size_t j = 0; j < 4; j++)
                    sum += matrix[i * 3 + r] * cov[i * 4 + j] * matrix[j * 3 + c];
            assert_true(fabs(image_cov[r * 3 + c] - sum) <= 1e-13);
        }
    assert_int_equal(lipsc_dense_svd(3, 4, matrix, sigma, NULL, NULL), LIPSC_OK);
    assert_true(fabs(slope - sigma[0]) <= 1e-13 * slope);

    enum { N = 3000 };
    double *X = malloc(N * 4 * sizeof *X), found[3] = {0}, spread = 0.0;
    lipsc_cloud pushed;
    assert_int_equal(lipsc_gauss_sample(&g, N, 3, X, NULL), LIPSC_OK);
    const lipsc_measure mu = {.n = N, .d = 4, .points = X};
    assert_int_equal(lipsc_measure_push(&t.layer, &mu, test_device(0), &pushed, NULL),
                     LIPSC_OK);
    for (size_t i = 0; i < N; i++)
        for (size_t r = 0; r < 3; r++) found[r] += pushed.measure.points[i * 3 + r] / N;
    for (size_t i = 0; i < N; i++)
        spread += pow(pushed.measure.points[i * 3] - found[0], 2.0) / N;
    for (size_t r = 0; r < 3; r++) /* 1/sqrt(3000) = 0.018 per unit of spread, five times */
        assert_true(fabs(found[r] - image[r]) <= 0.1);
    assert_true(fabs(spread - image_cov[0]) <= 0.15 * image_cov[0]);
    lipsc_cloud_free(&pushed);
    free(X);
    test_layer_free(&t);
}

static void test_bures(void **state) {
    (void)state;
    /* diagonal covariances commute: W_2^2 = |m - m'|^2 + sum (sqrt s - sqrt t)^2 */
    const double zero[3] = {0}, m[3] = {3, 0, 4};
    const double S[9] = {4, 0, 0, 0, 1, 0, 0, 0, 0}, T[9] = {1, 0, 0, 0, 9, 0, 0, 0, 0.25};
    lipsc_gauss a = {.parts = 1, .d = 3, .mean = zero, .cov = S};
    lipsc_gauss b = {.parts = 1, .d = 3, .mean = m, .cov = T};
    double distance;
    assert_int_equal(lipsc_gauss_distance(&a, &b, &distance, NULL), LIPSC_OK);
    assert_true(fabs(distance * distance - (25 + 1 + 4 + 0.25)) <= 1e-13 * 30);
    assert_int_equal(lipsc_gauss_distance(&a, &a, &distance, NULL), LIPSC_OK);
    assert_true(distance <= 1e-14);

    /* not commuting: tr (S^{1/2} T S^{1/2})^{1/2} of 2 x 2 matrices is
     * sqrt(tr(S T) + 2 sqrt(det S det T)) */
    for (uint64_t seed = 0; seed < 50; seed++) {
        double P[4], R[4];
        random_cov(2 * seed, 2, 1.0, P);
        random_cov(2 * seed + 1, 2, 1.0, R);
        const lipsc_gauss c = {.parts = 1, .d = 2, .mean = zero, .cov = P};
        const lipsc_gauss e = {.parts = 1, .d = 2, .mean = m, .cov = R};
        const double dets = (P[0] * P[3] - P[1] * P[2]) * (R[0] * R[3] - R[1] * R[2]);
        const double product = P[0] * R[0] + P[1] * R[2] + P[2] * R[1] + P[3] * R[3];
        const double known =
            9 + P[0] + P[3] + R[0] + R[3] - 2 * sqrt(product + 2 * sqrt(dets));
        assert_int_equal(lipsc_gauss_distance(&c, &e, &distance, NULL), LIPSC_OK);
        assert_true(fabs(distance * distance - known) <= 1e-13 * (9 + known));
    }
}

/* The images of two Gaussians: closed form beside exact transport between samples of them,
 * in one dimension, where n = 20000 is solved at once; the sampling error of W_2 there is
 * about 1/sqrt(n). */
static void test_images_apart(void **state) {
    (void)state;
    enum { N = 4000 };
    const double A = 0.6, V = 1.5, m1 = 0.3, s1 = 0.8, m2 = 1.1, s2 = 0.3;
    lipsc_layer layer;
    lipsc_layer_defaults(&layer);
    layer.d = layer.key_dim = layer.value_dim = 1;
    layer.Q = &A;
    layer.V = &V;
    lipsc_gauss g[2] = {{.parts = 1, .d = 1, .mean = &m1, .cov = &s1},
                        {.parts = 1, .d = 1, .mean = &m2, .cov = &s2}};
    lipsc_gauss image[2];
    lipsc_cloud pushed[2];
    double mean[2], cov[2], *X = malloc(N * sizeof *X), closed;
    for (int k = 0; k < 2; k++) {
        assert_int_equal(lipsc_gauss_push(&layer, &g[k], &mean[k], &cov[k], NULL, NULL),
                         LIPSC_OK);
        image[k] = (lipsc_gauss){.parts = 1, .d = 1, .mean = &mean[k], .cov = &cov[k]};
        assert_int_equal(lipsc_gauss_sample(&g[k], N, 11 + k, X, NULL), LIPSC_OK);
        const lipsc_measure mu = {.n = N, .d = 1, .points = X};
        assert_int_equal(lipsc_measure_push(&layer, &mu, test_device(0), &pushed[k], NULL),
                         LIPSC_OK);
    }
    lipsc_distance found;
    assert_int_equal(lipsc_gauss_distance(&image[0], &image[1], &closed, NULL), LIPSC_OK);
    assert_int_equal(
        lipsc_distance_between(&pushed[0].measure, &pushed[1].measure, NULL, &found, NULL),
        LIPSC_OK);
    print_message("images: closed %.5f, sampled %.5f\n", closed, found.distance);
    assert_true(fabs(found.distance - closed) <= 0.05 * closed);
    lipsc_distance_free(&found);
    lipsc_cloud_free(&pushed[0]);
    lipsc_cloud_free(&pushed[1]);
    free(X);
}

static void test_refusals(void **state) {
    (void)state;
    const double mean[] = {0, 0}, ok[] = {1, 0, 0, 1}, skew[] = {1, 0.5, 0, 1};
    const double below[] = {1, 2, 2, 1}, nan[] = {1, NAN, NAN, 1}, far[] = {INFINITY, 0};
    const double mass[] = {1.5, -0.5}, A[] = {1, 0, 0, 1};
    const struct {
        lipsc_gauss g;
        const char *text;
    } bad[] = {{{1, 2, NULL, mean, skew}, "not symmetric"},
               {{1, 2, NULL, mean, below}, "negative eigenvalue"},
               {{1, 2, NULL, mean, nan}, "not finite"},
               {{1, 2, NULL, far, ok}, "mean[0,0] is not finite"},
               {{2, 1, mass, mean, ok}, "mix[1] = -0.5"},
               {{0, 2, NULL, mean, ok}, "empty"}};
    lipsc_error err;
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        assert_int_not_equal(lipsc_gauss_check(&bad[k].g, &err), LIPSC_OK);
        if (!strstr(err.text, bad[k].text)) fail_msg("%s", err.text);
    }
    lipsc_layer layer;
    lipsc_layer_defaults(&layer);
    layer.d = layer.key_dim = layer.value_dim = 2;
    layer.Q = layer.V = A;
    layer.mask = LIPSC_MASK_CAUSAL;
    const lipsc_gauss g = {.parts = 1, .d = 2, .mean = mean, .cov = ok};
    double y[2];
    assert_int_equal(lipsc_gauss_map(&layer, &g, 1, mean, y, &err), LIPSC_E_REFUSED);
    layer.mask = LIPSC_MASK_NONE;
    const lipsc_gauss two = {.parts = 2, .d = 1, .mean = mean, .cov = ok};
    assert_int_equal(lipsc_gauss_push(&layer, &two, y, NULL, NULL, &err), LIPSC_E_ARG);
}

/* Width one by hand: N(m, S) goes to N(V (m + S (A m + c)), (V S A)^2 S), and W_2 of two is
 * the length of the differences of means and deviations. */
static void test_ratio(void **state) {
    (void)state;
    const double A = -0.7, V = 1.3, c = 0.25, mean[] = {0.4, -1.1}, cov[] = {0.3, 1.7};
    lipsc_layer layer;
    lipsc_ratio found;
    double to[2], deviation[2];
    lipsc_layer_defaults(&layer);
    layer.d = layer.key_dim = layer.value_dim = 1;
    layer.Q = &A;
    layer.V = &V;
    layer.bq = &c;
    const lipsc_gauss a = {.parts = 1, .d = 1, .mean = &mean[0], .cov = &cov[0]},
                      b = {.parts = 1, .d = 1, .mean = &mean[1], .cov = &cov[1]};
    for (int k = 0; k < 2; k++) {
        to[k] = V * (mean[k] + cov[k] * (A * mean[k] + c));
        deviation[k] = fabs(V * cov[k] * A) * sqrt(cov[k]);
    }
    const double before = hypot(mean[0] - mean[1], sqrt(cov[0]) - sqrt(cov[1])),
                 after = hypot(to[0] - to[1], deviation[0] - deviation[1]);
    assert_int_equal(lipsc_gauss_ratio(&layer, &a, &b, &found, NULL), LIPSC_OK);
    assert_true(fabs(found.before - before) <= 1e-12 * before);
    assert_true(fabs(found.after - after) <= 1e-12 * after);
    assert_true(fabs(found.ratio - after / before) <= 1e-12 * found.ratio);
    assert_int_equal(lipsc_gauss_ratio(&layer, &a, &a, &found, NULL), LIPSC_OK);
    assert_true(isnan(found.ratio)); /* the same measure has no ratio */
}

/* What is written is read back to the last bit. */
static void test_files(void **state) {
    (void)state;
    const double mean[] = {0.1, -2.0 / 3.0}, cov[] = {1.0 / 3.0, 0.1, 0.1, 0.7};
    const double weights[] = {0.25, 0.75}, times[] = {0.5, 1.0};
    const lipsc_gauss g = {.parts = 1, .d = 2, .mean = mean, .cov = cov},
                      two = {.parts = 2, .d = 1, .mean = mean, .cov = cov};
    const lipsc_measure mu = {2, 2, cov, weights, times};
    lipsc_gauss_file gauss;
    lipsc_measure_file file;
    assert_int_equal(lipsc_gauss_file_write("gauss.st", &g, NULL), LIPSC_OK);
    assert_int_equal(lipsc_gauss_file_read("gauss.st", &gauss, NULL), LIPSC_OK);
    assert_memory_equal(gauss.gauss.mean, mean, sizeof mean);
    assert_memory_equal(gauss.gauss.cov, cov, sizeof cov);
    lipsc_gauss_file_free(&gauss);
    assert_int_equal(lipsc_gauss_file_write("two.st", &two, NULL), LIPSC_E_ARG);
    assert_int_equal(lipsc_measure_file_write("mu.st", &mu, NULL), LIPSC_OK);
    assert_int_equal(lipsc_measure_file_read("mu.st", 0, &file, NULL), LIPSC_OK);
    assert_memory_equal(file.measure.points, cov, sizeof cov);
    assert_memory_equal(file.measure.weights, weights, sizeof weights);
    assert_memory_equal(file.measure.times, times, sizeof times);
    lipsc_measure_file_free(&file);
    assert_int_equal(lipsc_gauss_file_sample("gauss.st", 5, 3, &file, NULL), LIPSC_OK);
    assert_int_equal(file.measure.n, 5);
    lipsc_measure_file_free(&file);
    assert_int_not_equal(lipsc_gauss_file_sample("absent.st", 5, 3, &file, NULL), LIPSC_OK);
    remove("mu.st");
    /* shapes that do not fit each other, and a part that is not there */
    const size_t square[] = {2, 2};
    lipsc_st_item items[] = {{"mean", LIPSC_F64, 1, square, mean},
                             {"cov", LIPSC_F64, 1, square, cov}};
    lipsc_error err;
    for (size_t count = 1; count < 3; count++) {
        assert_int_equal(lipsc_st_write("gauss.st", items, count, NULL, 0, NULL), LIPSC_OK);
        assert_int_equal(lipsc_gauss_file_read("gauss.st", &gauss, &err), LIPSC_E_FORMAT);
        assert_non_null(strstr(err.text, count == 1 ? "tensor 'cov' is missing"
                                                    : "tensor 'cov' has shape (2), not"));
    }
    remove("gauss.st");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quadrature), cmocka_unit_test(test_finite_law),
        cmocka_unit_test(test_rate),       cmocka_unit_test(test_image),
        cmocka_unit_test(test_bures),      cmocka_unit_test(test_images_apart),
        cmocka_unit_test(test_refusals),   cmocka_unit_test(test_ratio),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
