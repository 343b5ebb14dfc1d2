/* test_mxfp4.c - four-bit weights as gpt-oss is published in, against transformers' own
 * conversion, number by number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h wants the above */
#include <cmocka.h>

#include "io/mxfp4.h"
#include "io/safetensors.h"

#include <math.h>
#include <stdlib.h>

/* tools/make_mxfp4_fixture.py wrote random blocks and the answer, (2, columns, rows). */
static void test_bit_for_bit(void **state) {
    (void)state;
    lipsc_error err = {0};
    lipsc_st *st;
    if (lipsc_st_open(LIPSC_TEST_DATA "/mxfp4.safetensors", &st, &err))
        fail_msg("%s", err.text);
    const lipsc_st_tensor *answer = lipsc_st_find(st, "answer");
    const lipsc_mxfp4 m = {lipsc_st_find(st, "blocks")->data,
                           lipsc_st_find(st, "scales")->data, answer->shape[2],
                           answer->shape[1]};
    double *want = malloc(answer->count * sizeof *want);
    double *got = malloc(answer->count * sizeof *got);
    assert_true(want && got);
    assert_int_equal(lipsc_st_read_f64(st, answer, 0, answer->count, want, &err), LIPSC_OK);
    lipsc_mxfp4_read(&m, 0, answer->count, got);
    for (size_t i = 0; i < answer->count; i++)
        if (got[i] != want[i] || signbit(got[i]) != signbit(want[i]))
            fail_msg("entry %zu: %a, transformers has %a", i, got[i], want[i]);
    /* a piece from the middle is what it is in the whole */
    lipsc_mxfp4_read(&m, 1234, 77, got);
    for (size_t i = 0; i < 77; i++) assert_true(got[i] == want[1234 + i]);
    free(want);
    free(got);
    lipsc_st_free(st);
}

/* By hand: codes 0 to 15 in order with scale 2^1, and the ends of the scale. */
static void test_by_hand(void **state) {
    (void)state;
    static const double table[] = {0, 1, 2, 3, 4, 6, 8, 12};
    uint8_t blocks[16], scale = 128;
    double out[32];
    for (unsigned b = 0; b < 16; b++)
        blocks[b] = (uint8_t)((2 * b + 1) % 16 << 4 | 2 * b % 16);
    const lipsc_mxfp4 m = {blocks, &scale, 1, 32};
    lipsc_mxfp4_read(&m, 0, 32, out);
    for (unsigned e = 0; e < 32; e++)
        assert_true(out[e] == (e % 16 < 8 ? table[e % 8] : -table[e % 8]));
    scale = 0;
    lipsc_mxfp4_read(&m, 0, 32, out);
    assert_true(out[1] == 0x1p-128);
    scale = 254; /* 6 * 2^127 is beyond bfloat16, 1.5 * 2^127 is not */
    lipsc_mxfp4_read(&m, 0, 32, out);
    assert_true(out[3] == 1.5 * 0x1p127 && out[7] == INFINITY && out[15] == -INFINITY);
    scale = 255;
    lipsc_mxfp4_read(&m, 0, 32, out);
    for (unsigned e = 0; e < 32; e++) assert_true(isnan(out[e]));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bit_for_bit),
                                       cmocka_unit_test(test_by_hand)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
