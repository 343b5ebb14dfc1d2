/* test_screen.c - numbers on the terminal: few digits, and bounds on the side where they
 * hold. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/rng.h"
#include "screen.h"

/* What strtod reads is on the right side and a unit of the last digit away at most. */
static void on_its_side(double x, int digits) {
    char text[CLI_NUMBER];
    const double unit = 10.2 * fabs(x) * pow(10.0, -digits); /* a power of ten between */
    const double down = strtod(cli_digits_down(x, digits, text), NULL);
    if (!(down <= x && down >= x - unit)) fail_msg("%.17g became %s", x, text);
    if (digits != 3) return;
    const double up = strtod(cli_digits_up(x, text), NULL);
    if (!(up >= x && up <= x + unit)) fail_msg("%.17g became %s", x, text);
}

static void sides(void **state) {
    (void)state;
    static const double hard[] = {999.4,    999.7,    9.996,  99.97,  999499.3,
                                  999999.7, 1e6,      1.0,    0.9996, 0.0009996,
                                  1e-4,     123456.7, 5e-300, 1e300};
    for (size_t i = 0; i < sizeof hard / sizeof *hard; i++)
        for (int digits = 3; digits <= 6; digits += 3) {
            on_its_side(hard[i], digits);
            on_its_side(-hard[i], digits);
        }
    for (uint64_t i = 0; i < 50000; i++) {
        double pair[2];
        lipsc_rng_normals(5, i, pair);
        const double x = pair[0] * exp(9.0 * pair[1]);
        on_its_side(x, 3);
        on_its_side(x, 6);
    }
}

static void texts(void **state) {
    (void)state;
    char text[CLI_NUMBER];
    assert_string_equal(cli_digits_up(1.43311, text), "1.44");
    assert_string_equal(cli_digits_down(1.43999, 3, text), "1.43");
    assert_string_equal(cli_digits_down(0.0390625, 6, text), "0.0390625");
    assert_string_equal(cli_digits_up(NAN, text), "-");
    assert_string_equal(cli_digits_down(0.0, 3, text), "0");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sides), cmocka_unit_test(texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
