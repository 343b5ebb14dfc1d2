/* test_dense.c - the door to LAPACK: conventions, sizes, refusals.
 *
 * LAPACK itself is not on trial: matrices of known spectrum and identities are. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>

#include "core/vector.h"
#include "linalg/dense.h"
#include "matrix_op.h"

/* Backward error of an SVD of order below 100, in units of eps |A|: measured 3e-15. */
static const double TOL = 2e-14;

static void test_svd_rebuilds(void **state) {
    (void)state;
    const size_t shapes[][2] = {{1, 1},   {1, 7},   {7, 1},  {5, 5},
                                {30, 12}, {12, 30}, {90, 64}};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        const size_t m = shapes[k][0], n = shapes[k][1], r = m < n ? m : n;
        double values[64];
        for (size_t i = 0; i < r; i++) values[i] = 10.0 / (double)(1 + i);
        test_matrix t = matrix_with_values(m, n, r, values, 100 * (k + 1));
        double *a = test_alloc(m * n, sizeof *a), *s = test_alloc(r, sizeof *s);
        double *u = test_alloc(m * r, sizeof *u), *vt = test_alloc(r * n, sizeof *vt);
        memcpy(a, t.a, m * n * sizeof *a);
        assert_int_equal(lipsc_dense_svd(m, n, a, s, u, vt), LIPSC_OK);
        for (size_t i = 0; i < r; i++)
            assert_true(fabs(s[i] - values[i]) < TOL * values[0]);
        for (size_t j = 0; j < r; j++)
            for (size_t i = 0; i < m; i++) u[j * m + i] *= s[j];
        memcpy(a, t.a, m * n * sizeof *a);
        lipsc_dense_gemm(0, 0, m, n, r, 1.0, u, m, vt, r, -1.0, a, m);
        for (size_t i = 0; i < m * n; i++) assert_true(fabs(a[i]) < TOL * values[0]);

        /* one side alone, and none */
        double *again = test_alloc(r * n, sizeof *again), *s2 = test_alloc(r, sizeof *s2);
        memcpy(a, t.a, m * n * sizeof *a);
        assert_int_equal(lipsc_dense_svd(m, n, a, s2, NULL, again), LIPSC_OK);
        for (size_t i = 0; i < r * n; i++) assert_true(fabs(again[i] - vt[i]) < 1e-12);
        double norm;
        assert_int_equal(lipsc_dense_norm(m, n, t.a, &norm), LIPSC_OK);
        assert_true(fabs(norm - values[0]) < TOL * values[0]);
        free(a), free(s), free(u), free(vt), free(again), free(s2);
        matrix_free(&t);
    }
}

/* The second difference matrix has the eigenvalues 2 - 2 cos(pi i / (n+1)). */
static void test_eigen_closed_form(void **state) {
    (void)state;
    enum { N = 40 };
    static double a[N * N], kept[N * N], w[N];
    for (size_t i = 0; i < N; i++) {
        kept[i * N + i] = 2.0;
        if (i) kept[i * N + i - 1] = kept[(i - 1) * N + i] = -1.0;
    }
    for (int vectors = 0; vectors < 2; vectors++) {
        memcpy(a, kept, sizeof a);
        assert_int_equal(lipsc_dense_eigen(N, a, w, vectors), LIPSC_OK);
        for (size_t i = 0; i < N; i++)
            assert_true(fabs(w[i] - (2.0 - 2.0 * cos(acos(-1.0) * (double)(i + 1) /
                                                     (N + 1)))) < TOL * 4.0);
    }
    for (size_t c = 0; c < N; c++)
        for (size_t i = 0; i < N; i++) {
            double sum = -w[c] * a[c * N + i];
            for (size_t l = 0; l < N; l++) sum += kept[l * N + i] * a[c * N + l];
            assert_true(fabs(sum) < TOL * 4.0);
        }
}

static void test_gemm_by_loops(void **state) {
    (void)state;
    enum { M = 7, N = 5, K = 9, LD = 11 };
    static double a[LD * LD], b[LD * LD], c[LD * LD], d[LD * LD];
    for (size_t i = 0; i < LD * LD; i++) {
        a[i] = lipsc_rng_normal(1, i);
        b[i] = lipsc_rng_normal(2, i);
    }
    for (int trans = 0; trans < 4; trans++) {
        const int ta = trans & 1, tb = trans >> 1;
        for (size_t i = 0; i < LD * LD; i++) c[i] = d[i] = lipsc_rng_normal(3, i);
        lipsc_dense_gemm(ta, tb, M, N, K, 0.5, a, LD, b, LD, -2.0, c, LD);
        for (size_t j = 0; j < N; j++)
            for (size_t i = 0; i < M; i++) {
                double sum = 0.0;
                for (size_t l = 0; l < K; l++)
                    sum += (ta ? a[i * LD + l] : a[l * LD + i]) *
                           (tb ? b[l * LD + j] : b[j * LD + l]);
                d[j * LD + i] = 0.5 * sum - 2.0 * d[j * LD + i];
            }
        /* nine products of numbers below 4 */
        for (size_t i = 0; i < LD * LD; i++) assert_true(fabs(c[i] - d[i]) < 1e-13);
    }
}

static double *normals(uint64_t seed, size_t count) {
    double *x = test_alloc(count, sizeof *x);
    for (size_t i = 0; i < count; i++) x[i] = lipsc_rng_normal(seed, i);
    return x;
}

/* No bit depends on the number of threads, alone or of a neighbour's: what LAPACK and a
 * threaded BLAS give does. */
static void test_any_threads(void **state) {
    (void)state;
    static const size_t sizes[][3] = {
        {576, 576, 64}, {128, 128, 2000}, {64, 64, 5000}, {5, 1000, 64}, {300, 300, 300}};
    const int before = omp_get_max_threads();
    for (size_t z = 0; z < sizeof sizes / sizeof *sizes; z++) {
        const size_t m = sizes[z][0], n = sizes[z][1], k = sizes[z][2], r = m < n ? m : n;
        double *a = normals(1, m * k), *b = normals(2, k * n),
               *first = normals(3, 4 * m * n);
        for (int threads = 1; threads <= 5; threads++) {
            double *all = normals(3, 4 * m * n), *s = all + m * n, *u = s + r,
                   *vt = u + m * r;
            omp_set_num_threads(threads);
            lipsc_dense_gemm(z & 1, z >> 1 & 1, m, n, k, 1.0, a, z & 1 ? k : m, b,
                             z >> 1 & 1 ? n : k, 0.0, all, m);
            double *c = normals(4, m * n);
            memcpy(c, all, m * n * sizeof *c);
            assert_int_equal(lipsc_dense_svd(m, n, c, s, u, vt), LIPSC_OK);
            if (threads == 1) memcpy(first, all, 4 * m * n * sizeof *all);
            assert_memory_equal(all, first, 4 * m * n * sizeof *all);
            free(c), free(all);
        }
        free(a), free(b), free(first);
    }
    omp_set_num_threads(before);
}

static void test_refusals(void **state) {
    (void)state;
    double a[4] = {1.0, NAN, 2.0, 3.0}, s[2], norm = -1.0;
    assert_int_equal(lipsc_dense_svd(2, 2, a, s, NULL, NULL), LIPSC_E_NONFIN);
    assert_int_equal(lipsc_dense_norm(2, 2, a, &norm), LIPSC_E_NONFIN);
    assert_true(norm == -1.0);
    assert_int_equal(lipsc_dense_svd((size_t)1 << 31, 1, a, s, NULL, NULL), LIPSC_E_RANGE);
    assert_int_equal(lipsc_dense_svd(1 << 15, 1 << 15, a, s, NULL, NULL), LIPSC_E_RANGE);
    assert_int_equal(lipsc_dense_eigen(1 << 15, a, s, 0), LIPSC_E_RANGE);
    assert_int_equal(lipsc_dense_norm((size_t)-1, 2, a, &norm), LIPSC_E_RANGE);
    assert_int_equal(lipsc_dense_svd(0, 3, a, s, NULL, NULL), LIPSC_OK);
    assert_true(isnan(lipsc_dense_sgemm_rate(0, 1, 1)));
    assert_true(isnan(lipsc_dense_sgemm_rate(16, 0, 1)));
}

static void test_sgemm_rate(void **state) {
    (void)state;
    omp_set_num_threads(2);
    const double rate = lipsc_dense_sgemm_rate(128, 1, 5);
    assert_int_equal(omp_get_max_threads(), 2); /* as before the call */
    /* any machine makes more than 0.01 and less than 1e5 GFLOP/s on one thread */
    assert_true(rate > 0.01 && rate < 1e5);
}

/* ---- The process is not ours -------------------------------------------------------- */

/* Absent when another BLAS, or a door that does not export it, is linked. */
extern int openblas_get_num_threads(void) __attribute__((weak));

static atomic_int busy;

static void *many_small_problems(void *unused) {
    (void)unused;
    for (int i = 0; i < 400; i++) {
        double a[64], s[8];
        for (int e = 0; e < 64; e++) a[e] = (double)(e * e % 17 + (e % 9 == 0));
        if (lipsc_dense_svd(8, 8, a, s, NULL, NULL) || lipsc_dense_eigen(8, a, s, 0)) break;
    }
    busy = 0;
    return NULL;
}

/* While small problems are solved in one thread, others see their own number of BLAS
 * threads, and OpenMP's. */
static void test_no_number_of_threads_is_changed(void **state) {
    (void)state;
    if (!openblas_get_num_threads) skip();
    const int blas = openblas_get_num_threads(), openmp = omp_get_max_threads();
    if (blas < 2) skip(); /* one thread cannot become fewer */
    pthread_t worker;
    int changed = 0;
    busy = 1;
    assert_int_equal(pthread_create(&worker, NULL, many_small_problems, NULL), 0);
    while (busy)
        changed |= openblas_get_num_threads() != blas || omp_get_max_threads() != openmp;
    pthread_join(worker, NULL);
    assert_false(changed);
    assert_int_equal(openblas_get_num_threads(), blas);
}

/* Wherever it stands: a bound that is drawn from the rest would be none. */
static void test_largest_keeps_a_nan(void **state) {
    (void)state;
    const double x[] = {1.0, -7.0, 2.0};
    assert_true(lipsc_largest(3, x) == 7.0);
    assert_true(lipsc_largest(0, x) == 0.0);
    for (size_t at = 0; at < 3; at++) {
        double y[] = {1.0, -7.0, 2.0};
        y[at] = NAN;
        assert_true(isnan(lipsc_largest(3, y)));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_largest_keeps_a_nan),
        cmocka_unit_test(test_svd_rebuilds),
        cmocka_unit_test(test_eigen_closed_form),
        cmocka_unit_test(test_gemm_by_loops),
        cmocka_unit_test(test_any_threads),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_sgemm_rate),
        cmocka_unit_test(test_no_number_of_threads_is_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
