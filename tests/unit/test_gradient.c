/* test_gradient.c - the gradient of <u, J(X) v> and of sigma: the definition against
 * central differences and closed forms, the fused one against the definition. */
#include "core/extreme.h"
#include "attn/attn.h"
#include "chosen.h"
#include "layers.h"
#include "linalg/dense.h"
#include "test_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka.h wants the above */
#include <cmocka.h>

static double worst_difference, worst_sigma, worst_fused[2];

static double *numbers(size_t count) {
    double *x = malloc((count ? count : 1) * sizeof *x);
    assert_true(x != NULL);
    return x;
}

static lipsc_attn *open_at(const test_layer *t, lipsc_dtype dtype, int threads) {
    lipsc_attn *attn = NULL;
    lipsc_error err = {0};
    if (lipsc_attn_new(&t->layer, &t->input, dtype, test_device(threads), &attn, &err))
        fail_msg("%s", err.text);
    return attn;
}

/* ---- Central differences ---------------------------------------------------------- */

/* A number that depends on the input, and what it needs. */
typedef struct {
    const double *u, *v; /* NULL: sigma */
} quantity;

/* K = D^{1/2} J D^{-1/2} column by column, by the definition */
static double *dense_jacobian(const test_layer *t) {
    double *eye = calloc(t->in * t->in, sizeof *eye), *J = numbers(t->in * t->out);
    assert_true(eye != NULL);
    for (size_t e = 0; e < t->in; e++) eye[e * t->in + e] = 1.0;
    assert_int_equal(lipsc_ref_apply(&t->layer, &t->input, 0, t->in, eye, J, NULL),
                     LIPSC_OK);
    free(eye);
    return J;
}

static double evaluate(const test_layer *t, const quantity *f) {
    double value;
    if (f->u) {
        double *Jv = numbers(t->out);
        assert_int_equal(lipsc_ref_apply(&t->layer, &t->input, 0, 1, f->v, Jv, NULL),
                         LIPSC_OK);
        value = vector_dot(t->out, f->u, Jv);
        free(Jv);
    } else {
        double *J = dense_jacobian(t);
        assert_int_equal(lipsc_dense_norm(t->out, t->in, J, &value), LIPSC_OK);
        free(J);
    }
    return value;
}

/* (4 d(h/2) - d(h)) / 3, d the central difference: truncation h^4 times a fifth derivative,
 * rounding 1e-15/h.  With h = 4e-4 both stay below 1e-10 where derivatives are moderate; a
 * query of small radius before its norm (norm_eps = 1e-3) makes them a few 1000 times
 * larger. */
static double difference(test_layer *t, const quantity *f, double *where, int logarithmic) {
    const double h = 4e-4, start = *where;
    double d[2];
    for (int half = 0; half < 2; half++) {
        const double step = half ? h / 2 : h;
        *where = logarithmic ? start * exp(step) : start + step;
        const double above = evaluate(t, f);
        *where = logarithmic ? start * exp(-step) : start - step;
        d[half] = (above - evaluate(t, f)) / (2 * step);
    }
    *where = start;
    return (4 * d[1] - d[0]) / 3;
}

/* The gradients of f in X and in the logarithms of the weights by differences. */
static void difference_gradient(test_layer *t, const quantity *f, double *grad,
                                double *grad_weight) {
    const double *X = t->input.X, *given = t->input.weights;
    double *moved = numbers(t->in), *weights = numbers(t->input.n);
    memcpy(moved, X, t->in * sizeof *moved);
    for (size_t i = 0; i < t->input.n; i++) weights[i] = given ? given[i] : 1.0;
    t->input.X = moved;
    for (size_t e = 0; e < t->in; e++) grad[e] = difference(t, f, moved + e, 0);
    t->input.X = X;
    t->input.weights = weights;
    for (size_t i = 0; i < t->input.n; i++) /* sinks go without weights */
        grad_weight[i] = t->layer.sinks ? NAN : difference(t, f, weights + i, 1);
    t->input.weights = given;
    free(moved);
    free(weights);
}

static void compare(uint64_t seed, unsigned features, const char *what, size_t count,
                    const double *found, const double *wanted, double floor,
                    double *worst) {
    const double size = vector_norm(count, wanted);
    const double error = vector_distance(count, found, wanted);
    if (size > 1e3 * floor) *worst = lipsc_max(*worst, error / size);
    if (!(error <= 1e-6 * size + floor))
        fail_msg("seed %llu features %x, %s: error %.2e of %.2e", (unsigned long long)seed,
                 features, what, error, size);
}

/* Both implementations against differences, pair and masses alike. */
static void check_pair(uint64_t seed, unsigned features) {
    test_layer t = random_layer_of(seed, features, (layer_sizes){.n = 1 + seed % 6});
    const size_t n = t.input.n;
    double *u = random_vectors(seed + 1, t.out), *v = random_vectors(seed + 2, t.in);
    double *grad = numbers(t.in), *weight = numbers(n);
    double *by_x = numbers(t.in), *by_weight = numbers(n);
    const quantity f = {u, v};
    difference_gradient(&t, &f, by_x, by_weight);
    /* rounding of the differences, where the gradient itself is near zero */
    const double floor = 1e-10 * vector_norm(t.out, u) * vector_norm(t.in, v);
    for (int fused = 0; fused < 2; fused++) {
        lipsc_attn *attn = open_at(&t, LIPSC_F64, 1);
        assert_int_equal(
            fused ? lipsc_attn_gradient(attn, 1, u, v, grad, weight, NULL)
                  : lipsc_ref_gradient(&t.layer, &t.input, 1, u, v, grad, weight, NULL),
            LIPSC_OK);
        lipsc_attn_free(attn);
        compare(seed, features, fused ? "X, fused" : "X", t.in, grad, by_x, floor,
                &worst_difference);
        if (!t.layer.sinks)
            compare(seed, features, fused ? "masses, fused" : "masses", n, weight,
                    by_weight, floor, &worst_difference);
    }
    free(u), free(v), free(grad), free(weight), free(by_x), free(by_weight);
    test_layer_free(&t);
}

static void test_differences_each_feature(void **state) {
    (void)state;
    for (unsigned f = 0; f <= ALL_FEATURES; f++)
        for (uint64_t seed = 1; seed <= 12; seed++)
            if (chosen(seed)) check_pair(100 * f + seed, f < ALL_FEATURES ? 1u << f : 0u);
}

static void test_differences_features_together(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        if (!chosen(seed)) continue;
        stream s = {seed + 9000, 0};
        const unsigned all = (1u << ALL_FEATURES) - 1;
        check_pair(seed, (unsigned)draw(&s, 0, all) & ~(unsigned)FEATURE_SATURATED);
    }
}

/* ---- sigma itself ------------------------------------------------------------------ */

/* 0 when the two largest singular values are too close for differences of the larger. */
static int check_sigma(uint64_t seed, unsigned features) {
    test_layer t =
        random_layer_of(seed, features, (layer_sizes){.n = 1 + seed % 4, .d = 3});
    const size_t n = t.input.n, rank = t.in < t.out ? t.in : t.out;
    double *J = dense_jacobian(&t), *s = numbers(rank);
    double *U = numbers(t.out * rank), *Vt = numbers(rank * t.in), *v = numbers(t.in);
    assert_int_equal(lipsc_dense_svd(t.out, t.in, J, s, U, Vt), LIPSC_OK);
    for (size_t e = 0; e < t.in; e++) v[e] = Vt[e * rank];
    const int simple = rank < 2 || s[1] < 0.95 * s[0];
    if (simple) {
        double *grad = numbers(t.in), *weight = numbers(n);
        double *by_x = numbers(t.in), *by_weight = numbers(n);
        const quantity sigma = {NULL, NULL};
        difference_gradient(&t, &sigma, by_x, by_weight);
        lipsc_attn *attn = open_at(&t, LIPSC_F64, 2);
        assert_int_equal(lipsc_attn_gradient(attn, 1, U, v, grad, weight, NULL), LIPSC_OK);
        lipsc_attn_free(attn);
        /* LAPACK's rounding of sigma, divided by the step */
        const double floor = 1e-10 * s[0];
        compare(seed, features, "sigma in X", t.in, grad, by_x, floor, &worst_sigma);
        if (!t.layer.sinks)
            compare(seed, features, "sigma in masses", n, weight, by_weight, floor,
                    &worst_sigma);
        free(grad), free(weight), free(by_x), free(by_weight);
    }
    free(J), free(s), free(U), free(Vt), free(v);
    test_layer_free(&t);
    return simple;
}

static void test_sigma(void **state) {
    (void)state;
    for (unsigned f = 0; f <= ALL_FEATURES; f++) {
        if (f < FEATURES && (1u << f) & FEATURE_SATURATED) continue; /* gradient e^-40 */
        const unsigned both = 1u << f == FEATURE_WHOLE_NORM ? FEATURE_QK_NORM : 0u;
        int simple = 0;
        for (uint64_t seed = 1; seed <= 8; seed++)
            simple += check_sigma(50 * f + seed, f < ALL_FEATURES ? 1u << f | both : 0u);
        assert_true(simple >= 2);
    }
}

/* ---- Saturated rows ------------------------------------------------------------------ */

/* Three tokens (x, y) = (1, 1), (1, 0), (1, 0); score_ij = lead x_i y_j, value y_j.  With v
 * moving x_1 alone and u seeing row 1 alone,
 *     <u, J v> = lead Var,   Var = sum_j P_j y_j^2 - (sum_j P_j y_j)^2,
 *     in x_1: lead^2 times the third cumulant p q (q - p),   p = P_0 = 1 - q,
 *     in y_0: lead p q (2 + lead (q - p)),
 *     in ln a_0: lead p q (q - p), in ln a_1 and ln a_2: half of its opposite. */
static void test_saturated_rows(void **state) {
    (void)state;
    static const double leads[] = {1, 20, 40, 100, 600, 1000, 1e6};
    for (size_t l = 0; l < sizeof leads / sizeof leads[0]; l++) {
        const double lead = leads[l];
        const double X[] = {1, 1, 1, 0, 1, 0}, V[] = {0, 1}, A[] = {0, 0, lead, 0};
        test_layer t = {.input = {.n = 3, .X = X}, .in = 6, .out = 3};
        lipsc_layer_defaults(&t.layer);
        t.layer.d = t.layer.key_dim = 2;
        t.layer.value_dim = 1;
        t.layer.Q = A;
        t.layer.V = V;
        const double v[] = {0, 0, 1, 0, 0, 0}, u[] = {0, 1, 0};
        const double p = 1 / (1 + 2 * exp(-lead)), q = 2 * exp(-lead) * p;
        const double in_x = lead * lead * p * q * (q - p);
        const double in_y = lead * p * q * (2 + lead * (q - p));
        for (int fused = 0; fused < 2; fused++) {
            double grad[6], weight[3];
            lipsc_attn *attn = open_at(&t, LIPSC_F64, 1);
            assert_int_equal(
                fused ? lipsc_attn_gradient(attn, 1, u, v, grad, weight, NULL)
                      : lipsc_ref_gradient(&t.layer, &t.input, 1, u, v, grad, weight, NULL),
                LIPSC_OK);
            lipsc_attn_free(attn);
            /* relative to themselves, however small: exp(-lead) to 1e-16 lead, and zero
             * where a double has no smaller number */
            const double slack = 1e-13 + 1e-15 * lead;
            assert_true(fabs(grad[2] - in_x) <= slack * fabs(in_x));
            assert_true(fabs(grad[1] - in_y) <= slack * fabs(in_y));
            for (size_t i = 0; i < 3; i++) {
                const double in_weight = (i ? -0.5 : 1.0) * in_x / lead;
                assert_true(fabs(weight[i] - in_weight) <= slack * fabs(in_weight));
            }
            assert_true(grad[0] == 0 && grad[4] == 0);
        }
    }
}

/* ---- The fused one against the definition ------------------------------------------- */

/* Relative to |grad|, Frobenius.  f64: sums of up to n + 4k products, 1e-16 each, times the
 * condition of softmax and norms; measured 2e-14.  f32 the same at 6e-8; measured 8e-6. */
static const double tolerance[2] = {1e-12, 1e-4};

static void agree(uint64_t seed, unsigned features, layer_sizes sizes, size_t k) {
    test_layer t = random_layer_of(seed, features, sizes);
    const size_t n = t.input.n;
    double *u = random_vectors(seed + 1, k * t.out),
           *v = random_vectors(seed + 2, k * t.in);
    double *grad = numbers(k * t.in), *weight = numbers(k * n);
    double *wanted = numbers(k * t.in), *wanted_weight = numbers(k * n);
    assert_int_equal(
        lipsc_ref_gradient(&t.layer, &t.input, k, u, v, wanted, wanted_weight, NULL),
        LIPSC_OK);
    /* Where the gradient is zero, or nearly so, only rounding is left: judged beside a part
     * of what it can be.  A saturated gradient, e^-40 of that, is judged by itself in f64;
     * scores of 1e4 leave 1e-12 of their exponential. */
    const int saturated = (features & FEATURE_SATURATED) != 0;
    const double most = vector_norm(k * t.out, u) * vector_norm(k * t.in, v) / (double)k;
    for (int f32 = 0; f32 < 2; f32++) {
        const double floor = saturated && !f32 ? 0.0 : 1e-2 * most;
        const double allowed = saturated && !f32 ? 1e-9 : tolerance[f32];
        lipsc_attn *attn = open_at(&t, f32 ? LIPSC_F32 : LIPSC_F64, 2);
        assert_int_equal(lipsc_attn_gradient(attn, k, u, v, grad, weight, NULL), LIPSC_OK);
        const double error = vector_distance(k * t.in, grad, wanted) /
                             (vector_norm(k * t.in, wanted) + floor + 1e-300);
        const double error_weight = vector_distance(k * n, weight, wanted_weight) /
                                    (vector_norm(k * n, wanted_weight) + 1e-2 * most);
        if (!saturated)
            worst_fused[f32] = lipsc_max(worst_fused[f32], lipsc_max(error, error_weight));
        if (!(error <= allowed) || !(error_weight <= allowed))
            fail_msg("seed %llu features %x n %zu %s: error %.2e, of masses %.2e",
                     (unsigned long long)seed, features, n, f32 ? "f32" : "f64", error,
                     error_weight);
        lipsc_attn_free(attn);
    }
    free(u), free(v), free(grad), free(weight), free(wanted), free(wanted_weight);
    test_layer_free(&t);
}

static void test_fused_each_feature(void **state) {
    (void)state;
    /* lengths around a register block, a panel, a tile and a piece of the parallel cut */
    static const size_t lengths[] = {1, 2, 7, 16, 33, 97, 193};
    uint64_t seed = 1;
    for (unsigned f = 0; f <= ALL_FEATURES; f++)
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++, seed++)
            if (chosen(seed))
                agree(seed, f < ALL_FEATURES ? 1u << f : 0u, (layer_sizes){.n = lengths[i]},
                      1);
    static const unsigned masks[] = {0, FEATURE_CAUSAL, FEATURE_SLIDING, FEATURE_TIMES,
                                     FEATURE_LOCAL};
    for (size_t m = 0; m < 5; m++, seed++)
        if (chosen(seed)) agree(seed, masks[m], (layer_sizes){.n = 400}, 1);
}

static void test_fused_features_together(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        if (!chosen(seed)) continue;
        stream s = {seed + 5000, 0};
        const unsigned all = (1u << ALL_FEATURES) - 1;
        const unsigned features =
            (unsigned)draw(&s, 0, all) & ~(unsigned)(FEATURE_ONE_TOKEN | FEATURE_SATURATED);
        agree(seed, features, (layer_sizes){.n = draw(&s, 1, 120)}, draw(&s, 1, 10));
    }
    for (uint64_t seed = 1; seed <= 6; seed++) /* wide heads */
        agree(seed, seed % 2 ? FEATURE_CAUSAL | FEATURE_QK_NORM : FEATURE_WEIGHTS,
              (layer_sizes){.n = 20 + 23 * seed,
                            .d = 30 + 41 * seed,
                            .heads = 2,
                            .key_dim = 19 * seed,
                            .value_dim = 130 - 17 * seed,
                            .out_dim = 37 * seed},
              2);
}

/* Every bit the same with 1, 2 and 5 threads, for a block of pairs or one by one, and with
 * or without the masses. */
static void test_same_bits(void **state) {
    (void)state;
    static const unsigned features[] = {0, FEATURE_CAUSAL,
                                        FEATURE_SLIDING | FEATURE_QK_NORM, FEATURE_WEIGHTS,
                                        FEATURE_TIMES | FEATURE_GROUPED | FEATURE_ROTARY};
    for (size_t f = 0; f < sizeof features / sizeof features[0]; f++)
        for (int f32 = 0; f32 < 2; f32++) {
            if (fewer() > 1 && f32 != (int)f % 2) continue; /* each in one precision */
            test_layer t = random_layer_of(f + 1, features[f],
                                           (layer_sizes){.n = 500, .d = 24, .window = 70});
            const size_t k = 3, n = t.input.n;
            double *u = random_vectors(3, k * t.out), *v = random_vectors(4, k * t.in);
            double *first = numbers(k * t.in), *first_weight = numbers(k * n);
            double *grad = numbers(k * t.in), *weight = numbers(k * n);
            static const int threads[] = {1, 2, 5, 2};
            for (int run = 0; run < 4; run++) {
                lipsc_attn *attn = open_at(&t, f32 ? LIPSC_F32 : LIPSC_F64, threads[run]);
                const size_t step = run == 3 ? 1 : k; /* the last run: one by one */
                for (size_t a = 0; a < k; a += step)
                    assert_int_equal(
                        lipsc_attn_gradient(
                            attn, step, u + a * t.out, v + a * t.in,
                            (run ? grad : first) + a * t.in,
                            run == 1 ? NULL : (run ? weight : first_weight) + a * n, NULL),
                        LIPSC_OK);
                lipsc_attn_free(attn);
                if (run) assert_memory_equal(grad, first, k * t.in * sizeof *grad);
                if (run > 1)
                    assert_memory_equal(weight, first_weight, k * n * sizeof *weight);
            }
            free(u), free(v), free(first), free(first_weight), free(grad), free(weight);
            test_layer_free(&t);
        }
}

static void test_refusals(void **state) {
    (void)state;
    test_layer t = random_layer(1, 0);
    lipsc_attn *attn = open_at(&t, LIPSC_F64, 1);
    lipsc_error err = {0};
    double grad[1];
    assert_int_equal(lipsc_attn_gradient(attn, 1, NULL, NULL, grad, NULL, &err),
                     LIPSC_E_ARG);
    assert_int_equal(lipsc_attn_gradient(attn, 0, NULL, NULL, NULL, NULL, &err), LIPSC_OK);
    lipsc_attn_free(attn);
    test_layer_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_differences_each_feature),
        cmocka_unit_test(test_differences_features_together),
        cmocka_unit_test(test_sigma),
        cmocka_unit_test(test_saturated_rows),
        cmocka_unit_test(test_fused_each_feature),
        cmocka_unit_test(test_fused_features_together),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_refusals),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    print_message("%s: worst error against differences %.1e, of sigma %.1e; against the "
                  "definition f64 %.1e f32 %.1e\n",
                  lipsc_cpu_isa(), worst_difference, worst_sigma, worst_fused[0],
                  worst_fused[1]);
    return failed;
}
