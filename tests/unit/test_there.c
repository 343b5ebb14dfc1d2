/* test_there.c - an operator of the caller on vectors in a device's memory. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "backend/backend.h"
#include "lipscope.h"
#include "matrix_op.h"

/* A matrix whose products are made on the host, of vectors that lie on a device. */
typedef struct {
    test_matrix matrix;
    const lipsc_space *space;
} matrix_there;

static int apply_there(void *ctx, int trans, size_t k, const double *x, double *y) {
    matrix_there *t = ctx;
    const size_t in = k * (trans ? t->matrix.m : t->matrix.n),
                 out = k * (trans ? t->matrix.n : t->matrix.m);
    double *from = test_alloc(in, sizeof *from), *to = test_alloc(out, sizeof *to);
    int failed = lipsc_space_download(t->space, in, lipsc_space_view(t->space, in, x),
                                      from) != LIPSC_OK ||
                 matrix_apply(&t->matrix, trans, k, from, to) ||
                 lipsc_space_upload(t->space, out, to,
                                    lipsc_space_view(t->space, out, y)) != LIPSC_OK;
    free(from);
    free(to);
    return failed;
}

/* LAPACK's values, whatever memory the vectors lie in. */
static void test_svd_on(void **state) {
    (void)state;
    enum { M = 9, N = 6, COUNT = 2 };
    for (int which = 0; which < 2; which++) {
        lipsc_device *device = NULL;
        lipsc_error err;
        if (which && lipsc_device_open("guard", 2, &device, &err)) fail_msg("%s", err.text);
        matrix_there t = {matrix_random(M, N, 5), lipsc_device_space(device, LIPSC_F64)};
        const lipsc_op op = {.m = M, .n = N, .apply = apply_there, .ctx = &t};
        double *want = matrix_values(&t.matrix);
        double sigma[COUNT], u[COUNT * M], v[COUNT * N], found;
        lipsc_svd_settings set;
        lipsc_svd_info info;
        lipsc_svd_defaults(&set);
        set.count = COUNT;
        assert_int_equal(lipsc_svd_on(device, &op, &set, sigma, u, v, &info), LIPSC_OK);
        for (size_t i = 0; i < COUNT; i++) {
            assert_true(fabs(sigma[i] - want[i]) <= 1e-12 * want[0]);
            assert_true(matrix_residual(&t.matrix, v + i * N, &found) <= 1e-7);
            assert_true(fabs(vector_norm(M, u + i * M) - 1.0) <= 1e-12);
        }
        assert_int_equal(lipsc_svd_on(device, &op, &set, sigma, NULL, NULL, NULL),
                         LIPSC_OK);
        t.matrix.fail_at = t.matrix.calls + 2;
        assert_int_equal(lipsc_svd_on(device, &op, &set, sigma, u, v, &info),
                         LIPSC_E_CALLBACK);
        assert_int_equal(lipsc_svd_on(device, NULL, &set, sigma, u, v, &info), LIPSC_E_ARG);
        free(want);
        matrix_free(&t.matrix);
        lipsc_device_close(device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_svd_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
