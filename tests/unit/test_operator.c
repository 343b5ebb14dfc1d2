/* test_operator.c - the fused products of the CPU back end, judged by the definition
 * (attn/ref.c), by the adjoint identity and by central differences. */
#include "core/extreme.h"
#include "attn/attn.h"
#include "backend/cpu/cpu.h"
#include "chosen.h"
#include "layers.h"
#include "test_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka.h wants the above */
#include <cmocka.h>

/* Relative to |y|, Frobenius.  f64: sums of up to n + 2k products, 1e-16 each, times the
 * condition of the softmax (scores up to about 50).  f32 the same at 6e-8. */
static const double tolerance[2] = {1e-12, 2e-4};
static double worst[2], worst_adjoint[2];

static lipsc_attn *open_at(const test_layer *t, lipsc_dtype dtype, int threads) {
    lipsc_attn *attn = NULL;
    lipsc_error err = {0};
    if (lipsc_attn_new(&t->layer, &t->input, dtype, test_device(threads), &attn, &err))
        fail_msg("%s", err.text);
    return attn;
}

/* J and J^T of `k` vectors against the definition; and <J v, w> = <v, J^T w>. */
static void agree(uint64_t seed, unsigned features, layer_sizes sizes, size_t k) {
    test_layer t = random_layer_of(seed, features, sizes);
    double *v = random_vectors(seed + 1, k * t.in),
           *w = random_vectors(seed + 2, k * t.out);
    double *jv = malloc(k * t.out * sizeof *jv), *jtw = malloc(k * t.in * sizeof *jtw);
    double *ref_jv = malloc(k * t.out * sizeof *jv),
           *ref_jtw = malloc(k * t.in * sizeof *jtw);
    assert_true(jv && jtw && ref_jv && ref_jtw);
    lipsc_ref_apply(&t.layer, &t.input, 0, k, v, ref_jv, NULL);
    lipsc_ref_apply(&t.layer, &t.input, 1, k, w, ref_jtw, NULL);
    for (int f32 = 0; f32 < 2; f32++) {
        lipsc_attn *attn = open_at(&t, f32 ? LIPSC_F32 : LIPSC_F64, 2);
        assert_int_equal(lipsc_attn_apply(attn, 0, k, v, jv), LIPSC_OK);
        assert_int_equal(lipsc_attn_apply(attn, 1, k, w, jtw), LIPSC_OK);
        const double size_j = vector_norm(k * t.out, ref_jv);
        const double size_jt = vector_norm(k * t.in, ref_jtw);
        const double e =
            lipsc_max(vector_distance(k * t.out, jv, ref_jv) / lipsc_max(size_j, 1e-300),
                      vector_distance(k * t.in, jtw, ref_jtw) / lipsc_max(size_jt, 1e-300));
        const double gap =
            fabs(vector_dot(k * t.out, jv, w) - vector_dot(k * t.in, v, jtw)) /
            (vector_norm(k * t.out, jv) * vector_norm(k * t.out, w) + 1e-300);
        worst[f32] = lipsc_max(worst[f32], e);
        worst_adjoint[f32] = lipsc_max(worst_adjoint[f32], gap);
        if (!(e <= tolerance[f32]) || !(gap <= (f32 ? 1e-5 : 1e-13)))
            fail_msg("seed %llu features %x n %zu %s: error %.2e, adjoint gap %.2e",
                     (unsigned long long)seed, features, t.input.n, f32 ? "f32" : "f64", e,
                     gap);
        lipsc_attn_free(attn);
    }
    free(v), free(w), free(jv), free(jtw), free(ref_jv), free(ref_jtw);
    test_layer_free(&t);
}

static void test_each_feature(void **state) {
    (void)state;
    /* lengths around a register block, a panel, a tile and a piece of the parallel cut */
    static const size_t lengths[] = {1, 2, 5, 7, 16, 33, 95, 97, 193};
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

static void test_features_together(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        if (!chosen(seed)) continue;
        stream s = {seed + 5000, 0};
        const unsigned all = (1u << ALL_FEATURES) - 1;
        /* a saturated f32 row is judged on its own: its small entries are below rounding */
        const unsigned features =
            (unsigned)draw(&s, 0, all) & ~(unsigned)(FEATURE_ONE_TOKEN | FEATURE_SATURATED);
        agree(seed, features, (layer_sizes){.n = draw(&s, 1, 160)}, draw(&s, 1, 11));
    }
}

static void test_wide_heads(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        if (!chosen(seed)) continue;
        stream s = {seed, 100};
        agree(seed, seed % 2 ? FEATURE_CAUSAL : FEATURE_BIASES,
              (layer_sizes){.n = draw(&s, 20, 200),
                            .d = draw(&s, 30, 500),
                            .heads = 2,
                            .key_dim = draw(&s, 1, 130),
                            .value_dim = draw(&s, 1, 130),
                            .out_dim = draw(&s, 1, 420)},
              2);
    }
}

/* (f(X + h E) - f(X - h E)) / 2h with h = 1e-5: truncation h^2 and rounding 1e-16/h both
 * stay below 1e-7 at these sizes. */
static void test_central_differences(void **state) {
    (void)state;
    const double h = 1e-5;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        if (!chosen(seed)) continue;
        stream s = {seed, 0};
        const unsigned features = 1u << draw(&s, 0, FEATURES - 1);
        if (features & (FEATURE_SATURATED | FEATURE_WEIGHTS))
            continue; /* D^{1/2} J D^{-1/2} */
        test_layer t = random_layer_of(seed, features, (layer_sizes){.n = draw(&s, 1, 60)});
        double *e = random_vectors(seed, t.in), *jv = malloc(t.out * sizeof *jv);
        double *x = malloc(t.in * sizeof *x);
        double *up = malloc(t.out * sizeof *up), *down = malloc(t.out * sizeof *down);
        assert_true(jv && x && up && down);
        lipsc_attn *attn = open_at(&t, LIPSC_F64, 1);
        assert_int_equal(lipsc_attn_apply(attn, 0, 1, e, jv), LIPSC_OK);
        lipsc_attn_free(attn);
        for (int sign = 1; sign >= -1; sign -= 2) {
            for (size_t i = 0; i < t.in; i++) x[i] = t.input.X[i] + sign * h * e[i];
            test_layer moved = t;
            moved.input.X = x;
            attn = open_at(&moved, LIPSC_F64, 1);
            assert_int_equal(lipsc_attn_output(attn, sign > 0 ? up : down), LIPSC_OK);
            lipsc_attn_free(attn);
        }
        for (size_t i = 0; i < t.out; i++) up[i] = (up[i] - down[i]) / (2 * h);
        assert_true(vector_distance(t.out, up, jv) <= 1e-7 * (1 + vector_norm(t.out, jv)));
        free(e), free(jv), free(x), free(up), free(down);
        test_layer_free(&t);
    }
}

/* J and J^T of a row that leads by `lead`: with V constant over the tokens' difference
 * directions only the softmax derivative is left, so a lost digit shows.  score_ij = lead *
 * x_i[0] * x_j[1]; value x_j[1].  All x_i[0] = 1, x_j[1] = (1, 0, 0): P_i,1 = 1/(1 + 2
 * e^-lead).  Moving x_i[0] of one row changes its own output by lead * P_1 (1 - P_1), and
 * nothing else.  What is beyond the first two coordinates of d is zero. */
static void saturated_row(double lead, size_t d, int turned, lipsc_dtype dtype,
                          lipsc_cpu_way way, double allowed) {
    enum { WIDEST = 64 };
    static const double frequency[] = {0};
    double X[3 * WIDEST] = {0}, V[WIDEST] = {0, 1}, A[WIDEST * WIDEST] = {0};
    double v[3 * WIDEST] = {0}, jtw[3 * WIDEST], jv[3];
    const double w[] = {0, 1, 0};
    for (size_t i = 0; i < 3; i++) X[i * d] = 1;
    X[1] = v[d] = 1;
    A[d] = lead;
    lipsc_layer layer;
    lipsc_layer_defaults(&layer);
    layer.d = layer.key_dim = d;
    layer.value_dim = 1;
    layer.Q = A;
    layer.V = V;
    if (turned) layer.rotary_dim = 2, layer.rotary_freq = frequency;
    test_layer t = {.layer = layer, .input = {.n = 3, .X = X}, .in = 3 * d, .out = 3};
    lipsc_attn *attn = open_at(&t, dtype, 1);
    if (lipsc_device_table(test_device(1)) == &lipsc_cpu_ops)
        assert_int_equal(((const lipsc_cpu_member *)attn->state)->way, way);
    assert_int_equal(lipsc_attn_apply(attn, 0, 1, v, jv), LIPSC_OK);
    assert_int_equal(lipsc_attn_apply(attn, 1, 1, w, jtw), LIPSC_OK);
    const double p = 1 / (1 + 2 * exp(-lead)), rest = 2 * exp(-lead) * p;
    assert_true(fabs(jv[1] - lead * p * rest) <= allowed * lead * p * rest);
    assert_true(jv[0] == 0 && jv[2] == 0);
    assert_true(fabs(jtw[d] - lead * p * rest) <= allowed * lead * p * rest);
    lipsc_attn_free(attn);
}

static void test_saturated_rows(void **state) {
    (void)state;
    static const double leads[] = {1, 20, 30, 40, 100, 600};
    for (size_t i = 0; i < sizeof leads / sizeof leads[0]; i++)
        saturated_row(leads[i], 2, 0, LIPSC_F64, LIPSC_CPU_PLAIN, 1e-13);
    /* in f32 e^-lead is good to 6e-8 lead; each way that a short input can go */
    for (double lead = 1; lead <= 81; lead += 20) {
        const double allowed = 5e-7 + 1.2e-7 * lead;
        saturated_row(lead, 2, 1, LIPSC_F32, LIPSC_CPU_PLAIN, allowed);
        saturated_row(lead, 2, 0, LIPSC_F32, LIPSC_CPU_COMPOSED, allowed);
        saturated_row(lead, 64, 1, LIPSC_F32, LIPSC_CPU_KEPT, allowed);
    }
}

static void test_saturated_layers(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++)
        if (chosen(seed))
            agree(seed, FEATURE_SATURATED | (seed % 3 ? 0 : FEATURE_CAUSAL),
                  (layer_sizes){.n = 4 + seed}, 1);
}

/* Every bit the same with 1, 2 and 5 threads, and for a block of vectors or one by one. */
static void test_same_bits(void **state) {
    (void)state;
    static const unsigned features[] = {0,
                                        FEATURE_CAUSAL,
                                        FEATURE_SLIDING,
                                        FEATURE_WEIGHTS,
                                        FEATURE_TIMES | FEATURE_GROUPED,
                                        FEATURE_ROTARY};
    for (size_t f = 0; f < sizeof features / sizeof features[0]; f++)
        for (int f32 = 0; f32 < 2; f32++) {
            if (fewer() > 1 && f32 != (int)f % 2) continue; /* each in one precision */
            test_layer t = random_layer_of(f + 1, features[f],
                                           (layer_sizes){.n = 500, .d = 24, .window = 70});
            const size_t k = 3;
            double *v = random_vectors(3, k * t.in), *w = random_vectors(4, k * t.out);
            double *first_j = malloc(k * t.out * sizeof *v),
                   *first_jt = malloc(k * t.in * sizeof *v);
            double *j = malloc(k * t.out * sizeof *v), *jt = malloc(k * t.in * sizeof *v);
            assert_true(first_j && first_jt && j && jt);
            static const int threads[] = {1, 2, 5, 2};
            for (int run = 0; run < 4; run++) {
                lipsc_attn *attn = open_at(&t, f32 ? LIPSC_F32 : LIPSC_F64, threads[run]);
                double *to_j = run ? j : first_j, *to_jt = run ? jt : first_jt;
                const size_t step = run == 3 ? 1 : k; /* the last run: one by one */
                for (size_t a = 0; a < k; a += step) {
                    lipsc_attn_apply(attn, 0, step, v + a * t.in, to_j + a * t.out);
                    lipsc_attn_apply(attn, 1, step, w + a * t.out, to_jt + a * t.in);
                }
                lipsc_attn_free(attn);
                if (!run) continue;
                assert_memory_equal(j, first_j, k * t.out * sizeof *j);
                assert_memory_equal(jt, first_jt, k * t.in * sizeof *jt);
            }
            free(v), free(w), free(first_j), free(first_jt), free(j), free(jt);
            test_layer_free(&t);
        }
}

static void test_memory_is_linear(void **state) {
    (void)state;
    size_t bytes[2];
    for (int i = 0; i < 2; i++) {
        test_layer t = random_layer_of(
            1, FEATURE_CAUSAL,
            (layer_sizes){
                .n = i ? 8000 : 2000, .d = 4, .heads = 2, .key_dim = 4, .value_dim = 4});
        lipsc_attn *attn = open_at(&t, LIPSC_F32, 1);
        bytes[i] = lipsc_attn_bytes(attn);
        lipsc_attn_free(attn);
        test_layer_free(&t);
    }
    assert_true(bytes[1] <= 4 * bytes[0]);
}

static void test_overflow_is_seen(void **state) {
    (void)state;
    const double X[] = {1e20, -1e20}, A[] = {1}, V[] = {1};
    lipsc_layer layer;
    lipsc_layer_defaults(&layer);
    layer.d = layer.key_dim = layer.value_dim = 1;
    layer.Q = A;
    layer.V = V;
    const lipsc_input input = {.n = 2, .X = X};
    lipsc_attn *attn = NULL;
    lipsc_error err = {0};
    assert_int_equal(lipsc_attn_new(&layer, &input, LIPSC_F32, test_device(1), &attn, &err),
                     LIPSC_E_NONFIN);
    assert_non_null(strstr(err.text, "overflow f32"));
    /* in f64 the scores are 1e40: one-hot rows, J = identity */
    assert_int_equal(lipsc_attn_new(&layer, &input, LIPSC_F64, test_device(1), &attn, &err),
                     LIPSC_OK);
    const double v[] = {3, -4};
    double jv[2];
    assert_int_equal(lipsc_attn_apply(attn, 0, 1, v, jv), LIPSC_OK);
    assert_true(jv[0] == 3 && jv[1] == -4);
    lipsc_attn_free(attn);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_feature),     cmocka_unit_test(test_features_together),
        cmocka_unit_test(test_wide_heads),       cmocka_unit_test(test_central_differences),
        cmocka_unit_test(test_saturated_rows),   cmocka_unit_test(test_saturated_layers),
        cmocka_unit_test(test_same_bits),        cmocka_unit_test(test_memory_is_linear),
        cmocka_unit_test(test_overflow_is_seen),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    print_message("%s: worst error f64 %.1e f32 %.1e, adjoint gap f64 %.1e f32 %.1e\n",
                  lipsc_cpu_isa(), worst[0], worst[1], worst_adjoint[0], worst_adjoint[1]);
    return failed;
}
