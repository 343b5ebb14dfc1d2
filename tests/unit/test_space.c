/* test_space.c - host vectors against sums in long double; the same bits for any number
 * of threads. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "chosen.h"
#include "core/rng.h"
#include "linalg/space.h"

static const lipsc_dtype dtypes[] = {LIPSC_F64, LIPSC_F32};
/* around the borders of chunks, slabs and the serial limit; a long double made of software
 * (aarch64) takes minutes for the longest */
static const size_t lengths[] = {
    1, 2, 3, 17, 2047, 2048, 2049, 16383, 16384, LDBL_MANT_DIG > 64 ? 20001 : 150001};
enum { MAX_A = 21, MAX_B = 9 };

/* k vectors of the space and the same numbers as doubles; f32 rounds them first. */
typedef struct {
    lipsc_buffer x;
    double *host;
} pair;

static pair make(const lipsc_space *space, size_t len, size_t k, uint64_t seed) {
    pair p = {lipsc_space_alloc(space, len * k), malloc(len * k * sizeof(double))};
    assert_non_null(p.x.at);
    assert_non_null(p.host);
    assert_int_equal(lipsc_space_random(space, seed, 0, len * k, p.x), LIPSC_OK);
    assert_int_equal(lipsc_space_download(space, len * k, p.x, p.host), LIPSC_OK);
    return p;
}

static void drop(const lipsc_space *space, pair p) {
    lipsc_space_release(space, p.x);
    free(p.host);
}

/* Both ways to a pair round its angle, up to 2 pi, and a few numbers more. */
static void check_normal(double got, uint64_t seed, uint64_t i) {
    const double want = lipsc_rng_normal(seed, i), other = lipsc_rng_normal(seed, i ^ 1);
    assert_true(fabs(got - want) <= 8.0 * DBL_EPSILON * hypot(want, other));
}

/* Any part of a stream has the bits of the whole, be its ends odd or even. */
static void test_random_parts(void **state) {
    (void)state;
    enum { WHOLE = 1500 };
    const lipsc_space *space = lipsc_space_host(LIPSC_F64);
    double whole[WHOLE], part[WHOLE];
    assert_int_equal(lipsc_space_random(space, 9, 0, WHOLE, lipsc_host_view(WHOLE, whole)),
                     LIPSC_OK);
    for (size_t first = 0; first < 5; first++)
        for (size_t count = 1; first + count <= WHOLE; count += count < 9 ? 1 : 251) {
            assert_int_equal(
                lipsc_space_random(space, 9, first, count, lipsc_host_view(count, part)),
                LIPSC_OK);
            assert_memory_equal(part, whole + first, count * sizeof *part);
        }
    for (uint64_t far = UINT64_MAX - 3 * WHOLE; far < UINT64_MAX - 2 * WHOLE; far += 501) {
        assert_int_equal(
            lipsc_space_random(space, 9, far, WHOLE, lipsc_host_view(WHOLE, part)),
            LIPSC_OK);
        for (size_t i = 0; i < WHOLE; i++) check_normal(part[i], 9, far + i);
    }
}

static void test_random_is_the_stream(void **state) {
    (void)state;
    for (int d = 0; d < 2; d++) {
        const lipsc_space *space = lipsc_space_host(dtypes[d]);
        assert_int_equal(space->dtype, dtypes[d]);
        const lipsc_buffer x = lipsc_space_alloc(space, 40000);
        double *host = malloc(40000 * sizeof *host);
        assert_int_equal(lipsc_space_random(space, 5, 7, 40000, x), LIPSC_OK);
        assert_int_equal(lipsc_space_download(space, 40000, x, host), LIPSC_OK);
        for (size_t i = 0; i < 40000; i++) {
            const double want = lipsc_rng_normal(5, 7 + i);
            if (d)
                assert_true(fabs(host[i] - want) <= FLT_EPSILON * fabs(want));
            else
                check_normal(host[i], 5, 7 + i);
        }
        assert_int_equal(lipsc_space_upload(space, 40000, host, x), LIPSC_OK);
        assert_int_equal(lipsc_space_scale(space, 40000, -0.5, x), LIPSC_OK); /* exact */
        double *back = malloc(40000 * sizeof *back);
        assert_int_equal(lipsc_space_download(space, 40000, x, back), LIPSC_OK);
        for (size_t i = 0; i < 40000; i++) assert_true(back[i] == -0.5 * host[i]);
        free(back);
        free(host);
        lipsc_space_release(space, x);
        lipsc_space_release(space, LIPSC_NOWHERE);
    }
}

static void test_gram(void **state) {
    (void)state;
    for (int d = 0; d < 2; d++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            const lipsc_space *space = lipsc_space_host(dtypes[d]);
            const size_t len = lengths[l];
            pair a = make(space, len, MAX_A, 1), b = make(space, len, MAX_B, 2);
            double c[MAX_A * MAX_B];
            for (size_t ka = 1; ka <= MAX_A; ka += 4)
                for (size_t kb = 1; kb <= MAX_B; kb += 4) {
                    if (!chosen(ka / 4 + kb / 4)) continue;
                    assert_int_equal(lipsc_space_gram(space, len, ka, a.x, kb, b.x, c),
                                     LIPSC_OK);
                    for (size_t j = 0; j < kb; j++)
                        for (size_t i = 0; i < ka; i++) {
                            long double sum = 0.0L, size = 0.0L;
                            for (size_t e = 0; e < len; e++) {
                                const long double t =
                                    (long double)a.host[i * len + e] * b.host[j * len + e];
                                sum += t;
                                size += fabsl(t);
                            }
                            /* double's rounding in f32 too: products are exact there.
                             * Runs of at most 2048 additions, far below their worst
                             * case of 2048 eps. */
                            assert_true(fabsl(sum - c[j * ka + i]) <=
                                        20 * DBL_EPSILON * size);
                        }
                }
            drop(space, a);
            drop(space, b);
        }
}

static void test_combine(void **state) {
    (void)state;
    double coef[MAX_A * MAX_B];
    for (size_t i = 0; i < MAX_A * MAX_B; i++) coef[i] = lipsc_rng_normal(9, i);
    for (int d = 0; d < 2; d++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            const lipsc_space *space = lipsc_space_host(dtypes[d]);
            const size_t len = lengths[l];
            const double eps = d ? FLT_EPSILON : DBL_EPSILON;
            pair a = make(space, len, MAX_A, 1), b = make(space, len, MAX_B, 2);
            double *got = malloc(len * MAX_B * sizeof *got);
            for (size_t ka = 0; ka <= MAX_A; ka += 7)
                for (int beta = 0; beta < 2; beta++) {
                    /* beta 0 must not look at what is there */
                    for (size_t i = 0; i < len * MAX_B; i++)
                        got[i] = beta ? b.host[i] : (double)NAN;
                    assert_int_equal(lipsc_space_upload(space, len * MAX_B, got, b.x),
                                     LIPSC_OK);
                    assert_int_equal(
                        lipsc_space_combine(space, len, ka, a.x, MAX_B, coef, beta, b.x),
                        LIPSC_OK);
                    assert_int_equal(lipsc_space_download(space, len * MAX_B, b.x, got),
                                     LIPSC_OK);
                    for (size_t j = 0; j < MAX_B; j++)
                        for (size_t e = 0; e < len; e += 1 + len / 500) {
                            double sum = beta * b.host[j * len + e], size = fabs(sum);
                            for (size_t i = 0; i < ka; i++) {
                                const double t = coef[j * ka + i] * a.host[i * len + e];
                                sum += t;
                                size += fabs(t);
                            }
                            /* one rounding to the precision, and double's of 21 terms */
                            const double room = eps * fabs(sum) + 21 * DBL_EPSILON * size;
                            assert_true(fabs(got[j * len + e] - sum) <= room);
                        }
                }
            free(got);
            drop(space, a);
            drop(space, b);
        }
}

static void test_same_bits_for_any_threads(void **state) {
    (void)state;
    enum { LEN = 150001, KA = 18, KB = 3, KINDS = 4 };
    for (int d = 0; d < 2; d++) {
        const lipsc_space *space = lipsc_space_host(dtypes[d]);
        double c[KINDS][KA * KB];
        double *sums[KINDS];
        for (int kind = 0; kind < KINDS; kind++) { /* 1, 2, 3 threads; inside a region */
            omp_set_num_threads(kind < 3 ? kind + 1 : 2);
            pair a = make(space, LEN, KA, 1), b = make(space, LEN, KB, 2);
            if (kind < 3)
                assert_int_equal(lipsc_space_gram(space, LEN, KA, a.x, KB, b.x, c[kind]),
                                 LIPSC_OK);
            else {
#pragma omp parallel num_threads(2)
#pragma omp single
                assert_int_equal(lipsc_space_gram(space, LEN, KA, a.x, KB, b.x, c[kind]),
                                 LIPSC_OK);
            }
            assert_int_equal(
                lipsc_space_combine(space, LEN, KA, a.x, KB, c[kind], 1.0, b.x), LIPSC_OK);
            sums[kind] = malloc(LEN * KB * sizeof(double));
            assert_int_equal(lipsc_space_download(space, LEN * KB, b.x, sums[kind]),
                             LIPSC_OK);
            drop(space, a);
            drop(space, b);
        }
        for (int kind = 1; kind < KINDS; kind++) {
            assert_memory_equal(c[0], c[kind], sizeof c[0]);
            assert_memory_equal(sums[0], sums[kind], LEN * KB * sizeof(double));
        }
        for (int kind = 0; kind < KINDS; kind++) free(sums[kind]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_parts),
        cmocka_unit_test(test_random_is_the_stream),
        cmocka_unit_test(test_gram),
        cmocka_unit_test(test_combine),
        cmocka_unit_test(test_same_bits_for_any_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
