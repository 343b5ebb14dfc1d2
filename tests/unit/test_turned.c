/* test_turned.c - the coordinates in which half of V and O is zero: the same operator, the
 * same values, and to the last bit the same whatever else is solved for beside it. */
#include "attn/turned.h"
#include "core/extreme.h"
#include "core/vector.h"
#include "layers.h"
#include "linalg/dense.h"
#include "value/value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka.h wants the above */
#include <cmocka.h>

enum { WINDOWS = 3 };

/* Windows of one layer, in f32, and the same there. */
typedef struct {
    test_layer all;
    lipsc_packed *packed;
    lipsc_attn *attn[WINDOWS], *there[WINDOWS];
} windows;

static const size_t lengths[WINDOWS] = {9, 40, 23};

static windows make(uint64_t seed, unsigned features, layer_sizes sizes, int threads) {
    windows w;
    lipsc_input input[WINDOWS];
    lipsc_error err = {0};
    sizes.n = lengths[1];
    w.all = random_layer_of(seed, features, sizes);
    for (size_t i = 0; i < WINDOWS; i++) {
        input[i] = w.all.input;
        input[i].n = lengths[i];
    }
    if (lipsc_packed_new(&w.all.layer, 1, &w.packed, &err) ||
        lipsc_attn_batch_at(w.packed, NULL, WINDOWS, input, LIPSC_F32,
                            lipsc_cpu_of(threads), w.attn, &err))
        fail_msg("%s", err.text);
    assert_true(lipsc_attn_turns(w.attn[0]));
    assert_int_equal(lipsc_attns_turned(WINDOWS, w.attn, w.there), LIPSC_OK);
    return w;
}

static void let_go(windows *w) {
    for (size_t i = 0; i < WINDOWS; i++) {
        lipsc_attn_free(w->attn[i]);
        lipsc_attn_free(w->there[i]);
    }
    lipsc_packed_free(w->packed);
    test_layer_free(&w->all);
}

static double largest_difference(size_t count, const double *a, const double *b) {
    double largest = 0.0;
    for (size_t e = 0; e < count; e++) largest = lipsc_max(largest, fabs(a[e] - b[e]));
    return largest;
}

/* L (L^T J R x) is J (R x), and R (L^T J R)^T x is J^T (L x). */
static void check_products(windows *w) {
    for (size_t i = 0; i < WINDOWS; i++) {
        const lipsc_linop op = lipsc_attn_linop(w->attn[i]);
        const size_t length = op.m + op.n;
        double *x = malloc(length * sizeof *x), *y = malloc(length * sizeof *y),
               *wanted = malloc(length * sizeof *wanted);
        stream s = {7 + i, 0};
        assert_true(x && y && wanted);
        for (int trans = 0; trans < 2; trans++) {
            const size_t from = trans ? op.m : op.n, to = trans ? op.n : op.m;
            fill_normal(&s, from, 1.0, x);
            assert_int_equal(lipsc_attn_apply(w->there[i], trans, 1, x, y), LIPSC_OK);
            assert_int_equal(lipsc_attn_turn_back(w->attn[i], !trans, 1, y), LIPSC_OK);
            assert_int_equal(lipsc_attn_turn_back(w->attn[i], trans, 1, x), LIPSC_OK);
            assert_int_equal(lipsc_ref_apply(&w->attn[i]->layer, &w->attn[i]->input, trans,
                                             1, x, wanted, NULL),
                             LIPSC_OK);
            const double size = lipsc_largest(to, wanted);
            assert_true(largest_difference(to, y, wanted) <= 2e-5 * size);
        }
        free(x), free(y), free(wanted);
    }
}

typedef struct {
    double sigma;
    double *v;
    lipsc_svd_info info;
} found;

static void solve(size_t count, lipsc_attn *const *attn, lipsc_dtype dtype, found *f) {
    lipsc_svd_settings set;
    lipsc_sigma_task task[WINDOWS];
    lipsc_svd_defaults(&set);
    set.value_tol = dtype == LIPSC_F32 ? 1e-6 : 0.0;
    for (size_t i = 0; i < count; i++) {
        f[i].v = malloc(lipsc_attn_linop(attn[i]).n * sizeof *f[i].v);
        assert_non_null(f[i].v);
        task[i] = (lipsc_sigma_task){.sigma = &f[i].sigma, .v = f[i].v, .info = &f[i].info};
    }
    assert_int_equal(lipsc_attn_sigmas(count, attn, &set, task), LIPSC_OK);
    for (size_t i = 0; i < count; i++) assert_int_equal(task[i].status, LIPSC_OK);
}

/* Values of a batch, of each window alone on another number of threads, and in double. */
static void check_values(uint64_t seed, unsigned features, layer_sizes sizes) {
    windows together = make(seed, features, sizes, 2);
    found batch[WINDOWS], alone, exact;
    check_products(&together);
    solve(WINDOWS, together.attn, LIPSC_F32, batch);
    for (size_t i = 0; i < WINDOWS; i++) {
        lipsc_input input = together.all.input;
        lipsc_attn *lone = NULL, *f64 = NULL;
        lipsc_error err = {0};
        input.n = lengths[i];
        if (lipsc_attn_new(&together.all.layer, &input, LIPSC_F32, lipsc_cpu_of(1), &lone,
                           &err) ||
            lipsc_attn_new(&together.all.layer, &input, LIPSC_F64, lipsc_cpu_of(1), &f64,
                           &err))
            fail_msg("%s", err.text);
        assert_false(lipsc_attn_turns(f64));
        solve(1, &lone, LIPSC_F32, &alone);
        assert_memory_equal(&alone.sigma, &batch[i].sigma, sizeof alone.sigma);
        assert_memory_equal(alone.v, batch[i].v,
                            lipsc_attn_linop(lone).n * sizeof *alone.v);
        assert_memory_equal(&alone.info.lower, &batch[i].info.lower, sizeof(double));
        assert_memory_equal(&alone.info.upper_prob, &batch[i].info.upper_prob,
                            sizeof(double));
        solve(1, &f64, LIPSC_F64, &exact);
        assert_true(alone.sigma <= exact.sigma * (1.0 + 1e-9));
        assert_true(alone.sigma >= exact.sigma * (1.0 - 1e-5));
        assert_true(alone.info.lower <= alone.sigma);
        assert_true(isnan(alone.info.upper_prob) ||
                    alone.info.upper_prob >= exact.info.lower);
        free(alone.v), free(exact.v), free(batch[i].v);
        lipsc_attn_free(lone);
        lipsc_attn_free(f64);
    }
    let_go(&together);
}

static const layer_sizes square = {
    .d = 256, .heads = 4, .kv_heads = 4, .key_dim = 64, .value_dim = 64, .out_dim = 256};

static void test_square(void **state) {
    (void)state;
    check_values(1, FEATURE_CAUSAL | FEATURE_BIASES, square);
    check_values(2, 0, square);
}

/* More of one side than of the other, head widths that panels do not divide. */
static void test_shapes(void **state) {
    (void)state;
    const layer_sizes wide = {.d = 256,
                              .heads = 6,
                              .kv_heads = 2,
                              .key_dim = 24,
                              .value_dim = 40,
                              .out_dim = 300};
    const layer_sizes narrow = {
        .d = 300, .heads = 9, .kv_heads = 9, .key_dim = 8, .value_dim = 40, .out_dim = 256};
    check_values(3, FEATURE_GROUPED | FEATURE_ROTARY, wide);
    check_values(4, FEATURE_WEIGHTS, narrow);
    check_values(5, FEATURE_NO_OUTPUT | FEATURE_QK_NORM, square);
}

/* A factor of a matrix by LAPACK: orthogonal, triangular, and their product. */
static void test_qr(void **state) {
    (void)state;
    enum { M = 7, N = 4 };
    for (int wide = 0; wide < 2; wide++) {
        const size_t m = wide ? N : M, n = wide ? M : N;
        double a[M * N], r[M * N], q[M * M], again[M * N], unit[M * M];
        stream s = {3, 0};
        fill_normal(&s, M * N, 1.0, a);
        memcpy(r, a, sizeof a);
        assert_int_equal(lipsc_dense_qr(m, n, r, q), LIPSC_OK);
        lipsc_dense_gemm(0, 0, m, n, m, 1.0, q, m, r, m, 0.0, again, m);
        assert_true(largest_difference(m * n, a, again) < 1e-14);
        lipsc_dense_gemm(1, 0, m, m, m, 1.0, q, m, q, m, 0.0, unit, m);
        for (size_t e = 0; e < m * m; e++)
            assert_true(fabs(unit[e] - (e % m == e / m)) < 1e-14);
        for (size_t j = 0; j < n; j++)
            for (size_t i = j + 1; i < m; i++) assert_true(r[j * m + i] == 0.0);
    }
    assert_int_equal(lipsc_dense_qr(0, 1, NULL, NULL), LIPSC_E_ARG);
    assert_int_equal(lipsc_dense_qr(1 << 20, 1, NULL, NULL), LIPSC_E_RANGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_qr),
        cmocka_unit_test(test_square),
        cmocka_unit_test(test_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
