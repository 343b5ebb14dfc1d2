/* test_sigma.c - the handle and its singular values against LAPACK's SVD of the Jacobian
 * assembled from the definition. */
#include "core/extreme.h"
#include "layers.h"
#include "linalg/dense.h"
#include "value/value.h"
#include "test_device.h"

#include <setjmp.h>
#include <stdarg.h>
/* cmocka.h wants the above */
#include <cmocka.h>

static double worst_f64, worst_f32, most_above;

/* s (min(in, out)): all singular values of J, by LAPACK. */
static double *dense_values(const test_layer *t) {
    const size_t rank = t->in < t->out ? t->in : t->out;
    double *eye = calloc(t->in * t->in, sizeof *eye), *s = malloc(rank * sizeof *s);
    double *J = malloc(t->in * t->out * sizeof *J);
    assert_true(eye && s && J);
    for (size_t e = 0; e < t->in; e++) eye[e * t->in + e] = 1.0;
    assert_int_equal(lipsc_ref_apply(&t->layer, &t->input, 0, t->in, eye, J, NULL),
                     LIPSC_OK);
    assert_int_equal(lipsc_dense_svd(t->out, t->in, J, s, NULL, NULL), LIPSC_OK);
    free(eye);
    free(J);
    return s;
}

static lipsc_attn *open_layer(const test_layer *t, lipsc_dtype dtype) {
    lipsc_attn *attn = NULL;
    lipsc_error err = {0};
    if (lipsc_attn_new(&t->layer, &t->input, dtype, test_device(1), &attn, &err))
        fail_msg("%s", err.text);
    return attn;
}

/* sigma, u and v are those of the definition: u = J v / sigma, |u| = |v| = 1. */
static void check_pair(const test_layer *t, double sigma, const double *u,
                       const double *v) {
    double *jv = malloc(t->out * sizeof *jv);
    assert_true(jv != NULL);
    assert_int_equal(lipsc_ref_apply(&t->layer, &t->input, 0, 1, v, jv, NULL), LIPSC_OK);
    assert_true(fabs(vector_norm(t->in, v) - 1.0) < 1e-13);
    assert_true(fabs(vector_norm(t->out, u) - 1.0) < 1e-13);
    for (size_t e = 0; e < t->out; e++) /* the f64 operator and the definition: 1e-12 */
        assert_true(fabs(jv[e] - sigma * u[e]) < 1e-12 * sigma);
    free(jv);
}

static void check_sigma(uint64_t seed, unsigned features) {
    test_layer t = random_layer(seed, features);
    double *exact = dense_values(&t), sigma;
    double *u = malloc(t.out * sizeof *u), *v = malloc(t.in * sizeof *v);
    assert_true(u && v);
    for (int f32 = 0; f32 < 2; f32++) {
        lipsc_attn *attn = open_layer(&t, f32 ? LIPSC_F32 : LIPSC_F64);
        lipsc_svd_settings set;
        lipsc_svd_info info;
        lipsc_svd_defaults(&set);
        /* f32: a residual of 1e-3 makes an error of about its square in the value */
        if (f32) set.tol = 1e-3;
        assert_int_equal(lipsc_attn_sigma(attn, &set, &sigma, u, v, &info), LIPSC_OK);
        assert_true(info.converged && info.residual <= (f32 ? 1e-3 : 1e-8));
        assert_true(!(info.upper_prob < sigma));
        check_pair(&t, sigma, u, v);
        const double error = (sigma - exact[0]) / exact[0];
        most_above = lipsc_max(most_above, error);
        if (f32) worst_f32 = lipsc_max(worst_f32, fabs(error));
        if (!f32) worst_f64 = lipsc_max(worst_f64, fabs(error));
        /* a lower bound up to rounding in double, and close */
        if (!(error < 1e-13) || !(error > (f32 ? -1e-5 : -1e-9)))
            fail_msg("seed %llu features %x f32 %d: %.16g, LAPACK %.16g",
                     (unsigned long long)seed, features, f32, sigma, exact[0]);
        lipsc_attn_free(attn);
    }
    free(exact);
    free(u);
    free(v);
    test_layer_free(&t);
}

static void agrees_with_lapack(void **state) {
    (void)state;
    /* f32 rounds scores of thousands to 1e-4: what it finds in saturated rows is another
     * matter, so these are asked for one by one, below */
    const unsigned most = (1u << FEATURES) - 1 - FEATURE_SATURATED;
    for (unsigned f = 0; f < FEATURES; f++) check_sigma(300 + f, 1u << f & most);
    for (unsigned f = FEATURES; f < ALL_FEATURES; f++)
        check_sigma(500 + f, 1u << f | FEATURE_QK_NORM);
    for (uint64_t seed = 400; seed < 460; seed++)
        check_sigma(seed, (unsigned)lipsc_rng_bits(seed, 0) & most & ~FEATURE_ONE_TOKEN);
    print_message("sigma: worst relative error f64 %.1e, f32 %.1e, most above %.1e\n",
                  worst_f64, worst_f32, most_above);
}

static void saturated(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        test_layer t = random_layer(seed, FEATURE_SATURATED);
        double *exact = dense_values(&t), sigma;
        lipsc_attn *attn = open_layer(&t, LIPSC_F64);
        lipsc_svd_settings set;
        lipsc_svd_defaults(&set);
        assert_int_equal(lipsc_attn_sigma(attn, &set, &sigma, NULL, NULL, NULL), LIPSC_OK);
        assert_true(fabs(sigma - exact[0]) < 1e-9 * exact[0]);
        lipsc_attn_free(attn);
        free(exact);
        test_layer_free(&t);
    }
}

/* Several values, largest first, beyond the rank too. */
static void several_values(void **state) {
    (void)state;
    layer_sizes z = {.n = 4, .d = 3, .heads = 1, .value_dim = 1, .out_dim = 1};
    test_layer t = random_layer_of(11, FEATURE_CAUSAL | FEATURE_WEIGHTS, z);
    double *exact = dense_values(&t), sigma[6], u[6 * 4], v[6 * 12]; /* rank 4 */
    for (int f32 = 0; f32 < 2; f32++) {
        lipsc_attn *attn = open_layer(&t, f32 ? LIPSC_F32 : LIPSC_F64);
        lipsc_svd_settings set;
        lipsc_svd_defaults(&set);
        set.count = 6;
        set.method = f32 ? LIPSC_LANCZOS : LIPSC_DENSE;
        if (f32) set.tol = 1e-3;
        assert_int_equal(lipsc_attn_sigma(attn, &set, sigma, u, v, NULL), LIPSC_OK);
        for (size_t i = 0; i < 6; i++) {
            /* singular vectors in f32, values in double: squares of 1e-3 at worst */
            const double allowed = (f32 ? 1e-5 : 1e-12) * exact[0];
            assert_true(fabs(sigma[i] - (i < 4 ? exact[i] : 0.0)) < allowed);
            if (i) assert_true(sigma[i] <= sigma[i - 1]);
            if (i < 4) check_pair(&t, sigma[i], u + 4 * i, v + 12 * i);
        }
        lipsc_attn_free(attn);
    }
    free(exact);
    test_layer_free(&t);
}

/* Large enough for the re-evaluation by the f64 operator instead of the definition. */
static void larger_layer(void **state) {
    (void)state;
    layer_sizes z = {
        .n = 150, .d = 24, .heads = 4, .key_dim = 16, .value_dim = 16, .out_dim = 20};
    test_layer t = random_layer_of(12, FEATURE_TIMES | FEATURE_WEIGHTS | FEATURE_BIASES, z);
    double sigma[2], *u = malloc(t.out * sizeof *u), *v = malloc(t.in * sizeof *v);
    assert_true(u && v);
    for (int f32 = 0; f32 < 2; f32++) {
        lipsc_attn *attn = open_layer(&t, f32 ? LIPSC_F32 : LIPSC_F64);
        lipsc_exact exact;
        assert_int_equal(lipsc_exact_open(attn, 1, &exact), LIPSC_OK);
        assert_true(exact.attn == (f32 ? &exact.own : attn));
        lipsc_exact_close(&exact);
        lipsc_svd_settings set;
        lipsc_svd_info info;
        lipsc_svd_defaults(&set);
        if (f32) set.tol = 1e-4;
        assert_int_equal(lipsc_attn_sigma(attn, &set, &sigma[f32], u, v, &info), LIPSC_OK);
        check_pair(&t, sigma[f32], u, v);
        lipsc_attn_free(attn);
    }
    assert_true(fabs(sigma[1] - sigma[0]) < 1e-6 * sigma[0]);
    free(u);
    free(v);
    test_layer_free(&t);
}

/* |J^T f(X)|^(1/2) by the definition, for both ways of evaluation. */
static void released_value(void **state) {
    (void)state;
    for (int large = 0; large < 2; large++) {
        layer_sizes z = {.n = 200, .d = 16, .heads = 2, .key_dim = 16, .value_dim = 16};
        if (!large) z = (layer_sizes){0};
        test_layer t = random_layer_of(13, FEATURE_CAUSAL | FEATURE_BIASES, z);
        double *f = malloc(t.out * sizeof *f), *g = malloc(t.in * sizeof *g), value;
        assert_true(f && g);
        assert_int_equal(lipsc_ref_output(&t.layer, &t.input, f, NULL), LIPSC_OK);
        assert_int_equal(lipsc_ref_apply(&t.layer, &t.input, 1, 1, f, g, NULL), LIPSC_OK);
        const double expected = sqrt(vector_norm(t.in, g));
        for (int f32 = 0; f32 < 2; f32++) {
            lipsc_attn *attn = open_layer(&t, f32 ? LIPSC_F32 : LIPSC_F64);
            assert_int_equal(lipsc_attn_released(attn, &value), LIPSC_OK);
            assert_true(fabs(value - expected) < 1e-12 * expected);
            lipsc_attn_free(attn);
        }
        free(f);
        free(g);
        test_layer_free(&t);
    }
    test_layer t = random_layer(13, FEATURE_WEIGHTS);
    lipsc_attn *attn = open_layer(&t, LIPSC_F64);
    double value;
    assert_int_equal(lipsc_attn_released(attn, &value), LIPSC_E_ARG);
    lipsc_attn_free(attn);
    test_layer_free(&t);
}

/* The handle owns what it needs: the caller's arrays may go. */
static void arrays_are_copied(void **state) {
    (void)state;
    const unsigned features = FEATURE_TIMES | FEATURE_WEIGHTS | FEATURE_BIASES |
                              FEATURE_ROTARY | FEATURE_QK_NORM | FEATURE_GROUPED;
    test_layer t = random_layer(14, features), again = random_layer(14, features);
    lipsc_attn *attn = open_layer(&t, LIPSC_F64);
    const lipsc_op op = lipsc_attn_op(attn);
    assert_int_equal(op.m, t.out);
    assert_int_equal(op.n, t.in);
    test_layer_free(&t);
    double *x = random_vectors(1, op.n), *y = malloc(op.m * sizeof *y);
    double *expected = malloc(op.m * sizeof *expected);
    assert_true(y && expected);
    assert_int_equal(op.apply(op.ctx, 0, 1, x, y), 0);
    assert_int_equal(lipsc_ref_apply(&again.layer, &again.input, 0, 1, x, expected, NULL),
                     LIPSC_OK);
    assert_true(vector_distance(op.m, y, expected) < 1e-13 * vector_norm(op.m, y));
    assert_int_equal(lipsc_attn_output(attn, y), LIPSC_OK);
    assert_int_equal(lipsc_ref_output(&again.layer, &again.input, expected, NULL),
                     LIPSC_OK);
    assert_true(vector_distance(op.m, y, expected) < 1e-13 * vector_norm(op.m, y));
    assert_int_equal(lipsc_attn_apply(attn, 2, 1, x, y), LIPSC_E_ARG);
    assert_int_equal(lipsc_attn_apply(attn, 0, 1, NULL, y), LIPSC_E_ARG);
    assert_int_equal(lipsc_attn_apply(attn, 0, 0, NULL, NULL), LIPSC_OK);
    lipsc_attn_free(attn);
    lipsc_attn_free(NULL);
    free(x);
    free(y);
    free(expected);
    test_layer_free(&again);
}

static void bad_handles_refused(void **state) {
    (void)state;
    test_layer t = random_layer(15, FEATURE_WEIGHTS);
    lipsc_attn *attn;
    lipsc_error err;
    assert_int_equal(
        lipsc_attn_new(&t.layer, &t.input, (lipsc_dtype)9, test_device(0), &attn, &err),
        LIPSC_E_ARG);
    assert_string_equal(err.text, "dtype = 9 is not a precision");
    double *weights = malloc(t.input.n * sizeof *weights);
    assert_true(weights != NULL);
    for (size_t i = 0; i < t.input.n; i++) weights[i] = i ? 1.0 : 1e-70;
    t.input.weights = weights;
    assert_int_equal(
        lipsc_attn_new(&t.layer, &t.input, LIPSC_F32, test_device(0), &attn, &err),
        LIPSC_E_RANGE);
    assert_string_equal(err.text,
                        "weights differ by more than a factor of 1e+60, too much for f32");
    free(weights);
    test_layer_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_lapack),  cmocka_unit_test(saturated),
        cmocka_unit_test(several_values),      cmocka_unit_test(larger_layer),
        cmocka_unit_test(released_value),      cmocka_unit_test(arrays_are_copied),
        cmocka_unit_test(bad_handles_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
