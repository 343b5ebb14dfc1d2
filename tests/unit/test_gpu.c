/* test_gpu.c - the device `cuda` with the plugin that is made on the CPU
 * (tests/cuda/fake.c): what the program itself never asks of it. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "attn/attn.h"
#include "layers.h"

/* Gradients of inputs that share a batch, in both precisions, against the definition. */
static void test_gradients_of_a_batch(void **state) {
    (void)state;
    enum { COUNT = 2, D = 6 };
    const layer_sizes z = {.n = 7, .d = D, .heads = 2, .key_dim = 3, .value_dim = 3};
    test_layer t = random_layer_of(11, FEATURE_WEIGHTS, z);
    lipsc_device *device = NULL;
    lipsc_error err;
    if (lipsc_device_open("cuda", 1, &device, &err)) fail_msg("%s", err.text);
    lipsc_input inputs[COUNT] = {t.input, t.input};
    inputs[1].n = 4;
    lipsc_packed *packed;
    assert_int_equal(lipsc_packed_new(&t.layer, 1, &packed, &err), LIPSC_OK);
    for (int dtype = LIPSC_F64; dtype >= LIPSC_F32; dtype--) {
        lipsc_attn *attn[COUNT];
        if (lipsc_attn_batch_at(packed, NULL, COUNT, inputs, (lipsc_dtype)dtype, device,
                                attn, &err))
            fail_msg("%s", err.text);
        for (size_t i = 0; i < COUNT; i++) {
            const size_t n = inputs[i].n, width = lipsc_layer_width(&t.layer);
            double *u = random_vectors(3, n * width), *v = random_vectors(4, n * D);
            double *got = random_vectors(5, n * (D + 1)),
                   *want = random_vectors(6, n * (D + 1));
            assert_int_equal(lipsc_attn_gradient(attn[i], 1, u, v, got, got + n * D, NULL),
                             LIPSC_OK);
            assert_int_equal(
                lipsc_ref_gradient(&t.layer, &inputs[i], 1, u, v, want, want + n * D, NULL),
                LIPSC_OK);
            const double size = vector_norm(n * (D + 1), want);
            assert_true(vector_distance(n * (D + 1), got, want) <= 1e-12 * size);
            free(u), free(v), free(got), free(want);
            lipsc_attn_free(attn[i]);
        }
    }
    lipsc_packed_free(packed);
    lipsc_device_close(device);
    test_layer_free(&t);
}

/* An output has the bits that the host is told, in either type, and goes nowhere but into
 * memory of this device that has room for it. */
static void test_output_in_its_place(void **state) {
    (void)state;
    test_layer t = random_layer(5, FEATURE_CAUSAL | FEATURE_BIASES);
    lipsc_device *device = NULL, *second = NULL, *guard = NULL;
    lipsc_attn *attn = NULL;
    lipsc_error err;
    if (lipsc_device_open("cuda", 1, &device, &err) ||
        lipsc_device_open("cuda:1", 1, &second, &err) ||
        lipsc_device_open("guard", 1, &guard, &err) ||
        lipsc_attn_new(&t.layer, &t.input, LIPSC_F64, device, &attn, &err))
        fail_msg("%s", err.text);
    const size_t count = lipsc_attn_linop(attn).m;
    double *want = random_vectors(1, count), *got = random_vectors(2, count);
    assert_int_equal(lipsc_attn_output(attn, want), LIPSC_OK);
    for (int type = 0; type < 2; type++) {
        const lipsc_space *space = lipsc_device_space(device, (lipsc_dtype)type);
        const lipsc_space *away[] = {lipsc_device_space(second, (lipsc_dtype)type),
                                     lipsc_device_space(guard, (lipsc_dtype)type)};
        const lipsc_buffer y = lipsc_space_alloc(space, count);
        assert_non_null(y.at);
        assert_int_equal(lipsc_attn_output_to(attn, lipsc_slice(space, y, 0, count - 1)),
                         LIPSC_E_ARG);
        assert_int_equal(lipsc_attn_output_to(attn, LIPSC_NOWHERE), LIPSC_E_ARG);
        for (size_t i = 0; i < sizeof away / sizeof *away; i++) {
            const lipsc_buffer there = lipsc_space_alloc(away[i], count);
            assert_non_null(there.at);
            assert_int_equal(lipsc_attn_output_to(attn, there), LIPSC_E_ARG);
            lipsc_space_release(away[i], there);
        }
        assert_int_equal(lipsc_attn_output_to(attn, y), LIPSC_OK);
        assert_int_equal(lipsc_space_download(space, count, y, got), LIPSC_OK);
        for (size_t i = 0; i < count; i++)
            assert_true(got[i] == (type == LIPSC_F32 ? (double)(float)want[i] : want[i]));
        lipsc_space_release(space, y);
    }
    free(want), free(got);
    lipsc_attn_free(attn);
    lipsc_device_close(guard);
    lipsc_device_close(second);
    lipsc_device_close(device);
    test_layer_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gradients_of_a_batch),
                                       cmocka_unit_test(test_output_in_its_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
