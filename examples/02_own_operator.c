/* 02_own_operator.c - the solver on an operator of your own, never formed as a matrix.
 *
 * First differences of a signal with n samples: (A x)_i = x_{i+1} - x_i, n-1 rows.
 * A A^T is the tridiagonal matrix (-1, 2, -1) of size n-1, so the largest singular value
 * is known: 2 cos(pi / (2 n)). */
#include <lipscope.h>
#include <math.h>
#include <stdio.h>

static int differences(void *ctx, int trans, size_t k, const double *x, double *y) {
    const size_t n = *(const size_t *)ctx, m = n - 1;
    for (size_t v = 0; v < k; v++) {
        if (!trans) {
            for (size_t i = 0; i < m; i++) y[v * m + i] = x[v * n + i + 1] - x[v * n + i];
        } else {
            for (size_t i = 0; i < n; i++) {
                const double left = i > 0 ? x[v * m + i - 1] : 0.0;
                const double right = i < m ? x[v * m + i] : 0.0;
                y[v * n + i] = left - right;
            }
        }
    }
    return 0;
}

int main(void) {
    size_t n = 24;
    const lipsc_op op = {.m = n - 1, .n = n, .apply = differences, .ctx = &n};
    lipsc_svd_settings set;
    lipsc_svd_info info;
    double sigma;
    lipsc_svd_defaults(&set);
    lipsc_status status = lipsc_svd(&op, &set, &sigma, NULL, NULL, &info);
    if (status != LIPSC_OK) {
        fprintf(stderr, "%s\n", lipsc_strerror(status));
        return 1;
    }
    const double exact = 2.0 * cos(acos(-1.0) / (2.0 * (double)n));
    printf("largest singular value %.12g, exact %.12g\n", sigma, exact);
    printf("%ld products, residual %.1e; below %.6g with probability %g\n", info.products,
           info.residual, info.upper_prob, info.probability);
    return fabs(sigma - exact) > 1e-10;
}
