/* test_half.c - all 65536 patterns of f16 and bf16 against their definition. */
#include "core/half.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* (-1)^sign 2^(exponent - bias) (1 + fraction / 2^width), in double by ldexp. */
static double by_definition(uint32_t pattern, int width, int exponent_bits) {
    const int top = (1 << exponent_bits) - 1, bias = top / 2;
    const int exponent = (int)(pattern >> width) & top;
    const int fraction = (int)pattern & ((1 << width) - 1);
    double value;
    if (exponent == top)
        value = fraction ? NAN : INFINITY;
    else if (exponent == 0)
        value = ldexp(fraction, 1 - bias - width);
    else
        value = ldexp((1 << width) + fraction, exponent - bias - width);
    return pattern >> 15 ? -value : value;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Exact: no tolerance, and the sign of zero counts. */
static void check_all(float (*convert)(uint16_t), int width, int exponent_bits) {
    for (uint32_t pattern = 0; pattern < 65536; pattern++) {
        const float got = convert((uint16_t)pattern);
        const double want = by_definition(pattern, width, exponent_bits);
        if (isnan(want)) {
            assert_true(isnan(got));
            assert_int_equal(bits_of(got) >> 31, pattern >> 15);
            assert_int_equal(bits_of(got) & 0x7fffff, (pattern & ((1u << width) - 1))
                                                          << (23 - width));
        } else {
            assert_true((double)got == want);
            assert_int_equal(signbit(got) != 0, pattern >> 15);
        }
    }
}

static float f16(uint16_t pattern) { return lipsc_f16_to_float(pattern); }
static float bf16(uint16_t pattern) { return lipsc_bf16_to_float(pattern); }

static void test_f16_all(void **state) {
    (void)state;
    check_all(f16, 10, 5);
}

static void test_bf16_all(void **state) {
    (void)state;
    check_all(bf16, 7, 8);
}

/* IEEE 754-2008, table of binary16. */
static void test_known_values(void **state) {
    (void)state;
    assert_true(f16(0x3c00) == 1.0f);
    assert_true(f16(0xc000) == -2.0f);
    assert_true(f16(0x7bff) == 65504.0f);
    assert_true(f16(0x0400) == 0x1p-14f);
    assert_true(f16(0x03ff) == 0x1.ff8p-15f);
    assert_true(f16(0x0001) == 0x1p-24f);
    assert_true(f16(0x3555) == 0.333251953125f);
    assert_true(f16(0xfc00) == -INFINITY);
    assert_true(bf16(0x3f80) == 1.0f);
    assert_true(bf16(0x7f7f) == 0x1.fep127f);
    assert_true(bf16(0x0001) == 0x1p-133f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16_all),
        cmocka_unit_test(test_bf16_all),
        cmocka_unit_test(test_known_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
