/* test_certify.c - certificates of explicit matrices, judged by LAPACK's singular values:
 * an upper bound is never below them, a certificate is as tight as it says, and what cannot
 * be proved is said. */
#define _POSIX_C_SOURCE 200809L
#include <time.h>

#include "core/extreme.h"
#include "svd_answer.h"

#include "certify/certify.h"

enum { PROBLEMS = 1000, KINDS = 10 };

/* |fl(A x) - A x| <= gamma |A|_F |x| for sums in any order; twice that for gamma itself. */
static double product_rounding(const test_matrix *t) {
    const double longest = (double)(t->m > t->n ? t->m : t->n);
    double largest = 0.0, sum = 0.0;
    for (size_t i = 0; i < t->m * t->n; i++) largest = lipsc_max(largest, fabs(t->a[i]));
    for (size_t i = 0; largest > 0.0 && i < t->m * t->n; i++)
        sum += (t->a[i] / largest) * (t->a[i] / largest);
    return (longest + 8.0) * DBL_EPSILON * largest * sqrt(sum);
}

static void multiply(test_matrix *t, double factor) {
    for (size_t i = 0; i < t->m * t->n; i++) t->a[i] *= factor;
}

static double uniform(uint64_t seed, uint64_t i) { return lipsc_rng_uniform(seed, i); }

/* The spectra that make trouble: clusters, tiny gaps, low rank, extreme sizes. */
static test_matrix problem(uint64_t seed) {
    const size_t m = 1 + (size_t)(40.0 * uniform(seed, 0));
    const size_t n = 1 + (size_t)(40.0 * uniform(seed, 1)), r = m < n ? m : n;
    double s[40] = {0};
    const int kind = (int)(seed % KINDS);
    for (size_t i = 0; i < r; i++) {
        const double x = uniform(seed, 2 + i);
        switch (kind) {
        case 0: /* a random matrix */
        case 7:
        case 8:
            s[i] = x;
            break;
        case 1:
            s[i] = i < r / 2 ? 1.0 : x;
            break; /* equal ones on top */
        case 2:
            s[i] = 1.0 - 1e-9 * x;
            break; /* a cluster         */
        case 3:
            s[i] = i == 0 ? 1.0 : 1.0 - 1e-14;
            break; /* no gap to speak of */
        case 4:
            s[i] = i == 0;
            break; /* rank one          */
        case 5:
            s[i] = pow(10.0, -16.0 * (double)i / 40.0);
            break;
        case 6:
            s[i] = i == 0 ? 1.0 : 0.999 * x;
            break;
        default:
            s[i] = 1.0;
            break; /* orthogonal columns */
        }
    }
    test_matrix t =
        kind == 0 ? matrix_random(m, n, seed) : matrix_with_values(m, n, r, s, seed);
    if (kind == 7) multiply(&t, 1e150);
    if (kind == 8) multiply(&t, 1e-150);
    return t;
}

static lipsc_certify_settings usual(const test_matrix *t) {
    lipsc_certify_settings set;
    lipsc_certify_defaults(&set);
    set.rounding = product_rounding(t);
    return set;
}

/* LAPACK's own error is far below the room that a proof leaves for rounding. */
static void check(const test_matrix *t, const lipsc_certify_settings *set,
                  lipsc_status status, const lipsc_certificate *got, const double *exact) {
    (void)t;
    assert_true(status == LIPSC_OK || status == LIPSC_E_NOCONV);
    assert_int_equal(got->certified, status == LIPSC_OK);
    assert_int_equal(got->rung != NULL, got->certified);
    assert_true(got->upper >= exact[0]);
    assert_true(got->lower <= exact[0]);
    if (got->certified) assert_true(got->upper <= (1.0 + set->eps) * got->lower);
}

/* A thousand problems by every way: whatever is proved holds, and the ladder closes. */
static void test_never_below(void **state) {
    (void)state;
    static const int ways[] = {LIPSC_ANY_WAY, 1, 2, 3, 4, 8};
    size_t closed[sizeof ways / sizeof *ways] = {0};
    for (uint64_t seed = 1; seed <= PROBLEMS; seed++) {
        test_matrix t = problem(seed);
        double *exact = matrix_values(&t);
        const lipsc_op op = matrix_op(&t);
        const lipsc_svd_settings solver = settings(1);
        answer a = solve(&t, &solver);
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            const lipsc_certify_settings set = usual(&t);
            lipsc_certificate got;
            lipsc_error err;
            const lipsc_status status =
                lipsc_certify_by(&op, a.v, &set, ways[w], &got, &err);
            check(&t, &set, status, &got, exact);
            closed[w] += got.certified != 0;
            if (ways[w] == LIPSC_ANY_WAY) assert_true(got.certified);
        }
        answer_free(&a);
        free(exact);
        matrix_free(&t);
    }
    for (size_t w = 1; w < sizeof ways / sizeof *ways; w++)
        assert_true(closed[w] > PROBLEMS / 10); /* the other rungs do prove something */
}

/* A larger operator goes through the plan: vectors are taken out, moments prove the rest.
 */
static void test_moments_rung(void **state) {
    (void)state;
    double s[600];
    for (size_t i = 0; i < 600; i++)
        s[i] = i < 5 ? 1.0 - 0.05 * (double)i : 0.3 / (double)(i - 3);
    test_matrix t = matrix_with_values(640, 600, 600, s, 3);
    double *exact = matrix_values(&t);
    const lipsc_op op = matrix_op(&t);
    const lipsc_svd_settings solver = settings(1);
    answer a = solve(&t, &solver);
    lipsc_certify_settings set = usual(&t);
    lipsc_certificate got;
    set.max_bytes = 1 << 20; /* the assembled matrix does not fit */
    assert_int_equal(lipsc_certify(&op, a.v, &set, &got, NULL), LIPSC_OK);
    check(&t, &set, LIPSC_OK, &got, exact);
    assert_true(got.vectors > 0 && got.upper < (1.0 + 1e-6) * exact[0]);
    assert_true(!strcmp(got.rung, "frobenius") || !strncmp(got.rung, "schatten-", 9));
    answer_free(&a);
    free(exact);
    matrix_free(&t);
}

/* A direction of the second singular value: nothing may be certified. */
static void test_wrong_direction(void **state) {
    (void)state;
    const double s[] = {1.0, 0.9, 0.5};
    test_matrix t = matrix_with_values(30, 20, 3, s, 5);
    double *exact = matrix_values(&t);
    const lipsc_op op = matrix_op(&t);
    const lipsc_svd_settings solver = settings(2);
    answer a = solve(&t, &solver);
    static const int ways[] = {LIPSC_ANY_WAY, 1, 2, 4};
    for (size_t w = 0; w < 4; w++) {
        const lipsc_certify_settings set = usual(&t);
        lipsc_certificate got;
        const lipsc_status status =
            lipsc_certify_by(&op, a.v + t.n, &set, ways[w], &got, NULL);
        assert_int_equal(status, LIPSC_E_NOCONV);
        check(&t, &set, status, &got, exact);
    }
    answer_free(&a);
    free(exact);
    matrix_free(&t);
}

/* Zero is certified when products are exactly zero, and not when they may be off. */
static void test_zero(void **state) {
    (void)state;
    test_matrix t = matrix_zero(7, 5);
    const lipsc_op op = matrix_op(&t);
    const double v[5] = {1.0};
    lipsc_certify_settings set = usual(&t);
    lipsc_certificate got;
    assert_int_equal(lipsc_certify(&op, v, &set, &got, NULL), LIPSC_OK);
    assert_true(got.certified && got.upper == 0.0 && got.lower == 0.0);
    set.rounding = 1e-300;
    assert_int_equal(lipsc_certify(&op, v, &set, &got, NULL), LIPSC_E_NOCONV);
    assert_true(!got.certified);
    matrix_free(&t);
}

static int never(void *ctx, const lipsc_certify_plan *plan) {
    *(lipsc_certify_plan *)ctx = *plan;
    return 1;
}
static int stop_now(void *ctx) {
    (void)ctx;
    return 1;
}

/* Limits, wrong settings, products that fail, and rounding that leaves no room. */
static void test_ends(void **state) {
    (void)state;
    test_matrix t = matrix_random(30, 40, 9);
    const lipsc_op op = matrix_op(&t);
    const lipsc_svd_settings solver = settings(1);
    answer a = solve(&t, &solver);
    lipsc_certify_settings set = usual(&t);
    lipsc_certify_plan plan = {0};
    lipsc_certificate got;
    lipsc_error err;

    set.begin = never;
    set.ctx = &plan;
    assert_int_equal(lipsc_certify(&op, a.v, &set, &got, &err), LIPSC_E_REFUSED);
    assert_true(plan.products > 0.0 && plan.bytes == 8 * 30 * 70);
    set = usual(&t);
    set.max_bytes = 1000;
    assert_int_equal(lipsc_certify(&op, a.v, &set, &got, &err), LIPSC_E_REFUSED);
    assert_non_null(strstr(err.text, "beyond the limit"));
    set = usual(&t);
    set.stop = stop_now;
    assert_int_equal(lipsc_certify(&op, a.v, &set, &got, &err), LIPSC_E_STOPPED);
    set = usual(&t);
    set.rounding = 0.01 * a.sigma[0];
    assert_int_equal(lipsc_certify(&op, a.v, &set, &got, &err), LIPSC_E_NOCONV);
    set.rounding = INFINITY;
    assert_int_equal(lipsc_certify(&op, a.v, &set, &got, &err), LIPSC_E_NOCONV);
    set.rounding = NAN;
    assert_int_equal(lipsc_certify(&op, a.v, &set, &got, &err), LIPSC_E_ARG);
    set = usual(&t);
    set.eps = NAN;
    assert_int_equal(lipsc_certify(&op, a.v, &set, &got, &err), LIPSC_E_ARG);
    set = usual(&t);
    assert_int_equal(lipsc_certify(&op, NULL, &set, &got, &err), LIPSC_E_ARG);
    t.poison_at = t.calls + 2;
    assert_int_equal(lipsc_certify(&op, a.v, &set, &got, &err), LIPSC_E_NONFIN);
    t.fail_at = t.calls + 2;
    assert_int_equal(lipsc_certify(&op, a.v, &set, &got, &err), LIPSC_E_CALLBACK);
    t.fail_at = 0;
    set.lower = a.sigma[0]; /* known before, to be above what is asked */
    set.upper = a.sigma[0] * 1.0001;
    assert_int_equal(lipsc_certify(&op, NULL, &set, &got, &err), LIPSC_OK);
    assert_string_equal(got.rung, "upper");
    answer_free(&a);
    matrix_free(&t);
}

/* One large value above many equal ones: moments need the third power to prove it. */
typedef struct {
    size_t side;
    int pauses; /* that many first calls take long */
} diagonal;

static int apply_diagonal(void *ctx, int trans, size_t k, const double *x, double *y) {
    diagonal *t = ctx;
    const struct timespec pause = {0, 20000000};
    (void)trans;
    for (size_t i = 0; i < k * t->side; i++) y[i] = (i % t->side ? 0.2 : 1.0) * x[i];
    if (t->pauses-- > 0) nanosleep(&pause, NULL);
    return 0;
}

/* Fast or slow, alone or beside others: the same operator has the same certificate. */
static void test_clockless(void **state) {
    (void)state;
    enum { SIDE = 2200 }; /* both ways are expected to close */
    diagonal t[2] = {{SIDE, 0}, {SIDE, 60}};
    double *v = test_calloc(SIDE, sizeof *v);
    lipsc_certificate got[2];
    lipsc_certify_settings set;
    lipsc_certify_defaults(&set);
    set.rounding = 2.0 * DBL_EPSILON;
    v[0] = 1.0;
    for (int i = 0; i < 2; i++) {
        const lipsc_op op = {.m = SIDE, .n = SIDE, .apply = apply_diagonal, .ctx = &t[i]};
        assert_int_equal(lipsc_certify(&op, v, &set, &got[i], NULL), LIPSC_OK);
        assert_true(got[i].lower <= 1.0 && got[i].upper >= 1.0);
    }
    assert_string_equal(got[0].rung, got[1].rung);
    assert_true(got[0].upper == got[1].upper && got[0].products == got[1].products);
    test_free(v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_below),
        cmocka_unit_test(test_moments_rung),
        cmocka_unit_test(test_wrong_direction),
        cmocka_unit_test(test_zero),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_clockless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
