/* matrix_op.h - explicit matrices as operators, with spectra known by construction.
 *
 * Products are plain loops and the judge is LAPACK called directly: nothing here comes
 * from the code under test. */
#ifndef LIPSC_TEST_MATRIX_OP_H
#define LIPSC_TEST_MATRIX_OP_H

#include <assert.h>
#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "lipscope.h"

typedef struct {
    size_t m, n;
    double *a;      /* column-major                                  */
    long calls;     /* of apply so far                               */
    long fail_at;   /* the call that fails; 0: none                  */
    long poison_at; /* the call that gives a NaN; 0: none            */
} test_matrix;

static void *test_alloc(size_t count, size_t size) {
    void *p = calloc(count ? count : 1, size);
    assert(p);
    return p;
}

static test_matrix matrix_zero(size_t m, size_t n) {
    test_matrix t = {.m = m, .n = n, .a = test_alloc(m * n, sizeof(double))};
    return t;
}

static inline test_matrix matrix_random(size_t m, size_t n, uint64_t seed) {
    test_matrix t = matrix_zero(m, n);
    for (size_t i = 0; i < m * n; i++) t.a[i] = lipsc_rng_normal(seed, i);
    return t;
}

static void matrix_free(test_matrix *t) { free(t->a); }

/* One reflection I - 2 h h^T / |h|^2 with random h from the left. */
static void reflect_rows(test_matrix *t, uint64_t seed) {
    double *h = test_alloc(t->m, sizeof *h), square = 0.0;
    for (size_t i = 0; i < t->m; i++) {
        h[i] = lipsc_rng_normal(seed, i);
        square += h[i] * h[i];
    }
    for (size_t j = 0; j < t->n; j++) {
        double *column = t->a + j * t->m, dot = 0.0;
        for (size_t i = 0; i < t->m; i++) dot += h[i] * column[i];
        for (size_t i = 0; i < t->m; i++) column[i] -= 2.0 * dot / square * h[i];
    }
    free(h);
}

static void transpose(test_matrix *t) {
    double *b = test_alloc(t->m * t->n, sizeof *b);
    for (size_t j = 0; j < t->n; j++)
        for (size_t i = 0; i < t->m; i++) b[i * t->n + j] = t->a[j * t->m + i];
    free(t->a);
    t->a = b;
    const size_t m = t->m;
    t->m = t->n;
    t->n = m;
}

/* m x n with the singular values s (r of them, the rest zero), hidden behind two random
 * reflections on each side. */
static inline test_matrix matrix_with_values(size_t m, size_t n, size_t r, const double *s,
                                             uint64_t seed) {
    test_matrix t = matrix_zero(m, n);
    for (size_t i = 0; i < r; i++) t.a[i * m + i] = s[i];
    for (int side = 0; side < 2; side++) {
        reflect_rows(&t, seed + 2 * (uint64_t)side);
        reflect_rows(&t, seed + 2 * (uint64_t)side + 1);
        transpose(&t);
    }
    return t;
}

/* The judge: all singular values by dgesdd, descending; the caller frees. */
static inline double *matrix_values(const test_matrix *t) {
    const size_t r = t->m < t->n ? t->m : t->n;
    double *copy = test_alloc(t->m * t->n, sizeof *copy), *s = test_alloc(r, sizeof *s);
    memcpy(copy, t->a, t->m * t->n * sizeof *copy);
    lapack_int info =
        LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'N', (lapack_int)t->m, (lapack_int)t->n, copy,
                       (lapack_int)t->m, s, NULL, 1, NULL, 1);
    assert(info == 0);
    (void)info;
    free(copy);
    return s;
}

static void matrix_times(const test_matrix *t, int trans, const double *x, double *y) {
    if (!trans) memset(y, 0, t->m * sizeof *y);
    for (size_t j = 0; j < t->n; j++) {
        const double *column = t->a + j * t->m;
        double dot = 0.0;
        if (trans) {
            for (size_t i = 0; i < t->m; i++) dot += column[i] * x[i];
            y[j] = dot;
        } else {
            for (size_t i = 0; i < t->m; i++) y[i] += column[i] * x[j];
        }
    }
}

static inline int matrix_apply(void *ctx, int trans, size_t k, const double *x, double *y) {
    test_matrix *t = ctx;
    if (++t->calls == t->fail_at) return 1;
    const size_t in = trans ? t->m : t->n, out = trans ? t->n : t->m;
    for (size_t j = 0; j < k; j++) matrix_times(t, trans, x + j * in, y + j * out);
    if (t->calls == t->poison_at) y[0] = NAN;
    return 0;
}

static inline lipsc_op matrix_op(test_matrix *t) {
    return (lipsc_op){.m = t->m, .n = t->n, .apply = matrix_apply, .ctx = t};
}

static inline double vector_norm(size_t n, const double *x) {
    double square = 0.0;
    for (size_t i = 0; i < n; i++) square += x[i] * x[i];
    return sqrt(square);
}

/* |A v| and |A^T A v - s^2 v| / s^2 in plain loops. */
static inline double matrix_residual(const test_matrix *t, const double *v, double *sigma) {
    double *w = test_alloc(t->m, sizeof *w), *g = test_alloc(t->n, sizeof *g);
    matrix_times(t, 0, v, w);
    *sigma = vector_norm(t->m, w);
    matrix_times(t, 1, w, g);
    for (size_t i = 0; i < t->n; i++) g[i] -= *sigma * *sigma * v[i];
    const double residual = *sigma > 0.0 ? vector_norm(t->n, g) / (*sigma * *sigma) : 0.0;
    free(w);
    free(g);
    return residual;
}

#endif
