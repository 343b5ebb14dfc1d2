/* test_compare.c - ratios between two sets of rows: simulated ones whose truth is known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/mem.h"
#include "core/rng.h"
#include "lipscope/compare.h"

enum { LENGTHS = 4, MOST = 20 * LENGTHS };

/* sigma = level n^0.4 e^(start + noise): what a text does to all lengths at a start, and
 * what it does to one. */
static void simulate(size_t starts, double level, const char *text, uint64_t seed,
                     uint64_t noise_seed, lipsc_row *rows) {
    for (size_t s = 0; s < starts; s++)
        for (size_t l = 0; l < LENGTHS; l++) {
            lipsc_row *r = &rows[s * LENGTHS + l];
            lipsc_fields_clear(lipsc_row_fields(), r);
            r->layer = 2;
            r->map = "attention";
            r->n = (size_t)8 << l;
            r->window = s;
            r->start = 64 * s;
            r->text_hash = text;
            r->sigma = level * pow((double)r->n, 0.4) *
                       exp(0.3 * lipsc_rng_normal(seed, s) +
                           0.1 * lipsc_rng_normal(noise_seed, 100 + s * LENGTHS + l));
        }
}

static lipsc_change only(size_t m, const lipsc_row *a, size_t n, const lipsc_row *b) {
    size_t count;
    lipsc_change *changes;
    assert_int_equal(lipsc_rows_compare(m, a, n, b, &count, &changes, NULL), LIPSC_OK);
    assert_int_equal(count, 1);
    const lipsc_change out = changes[0];
    lipsc_release(changes);
    return out;
}

/* How many of `trials` intervals hold the true ratio 1.3. */
static int covered(size_t starts, int paired, int trials) {
    int held = 0;
    for (int t = 0; t < trials; t++) {
        lipsc_row a[MOST], b[MOST];
        const uint64_t seed = 1000 + 10 * (uint64_t)t;
        simulate(starts, 1.0, "aa", seed, seed + 1, a);
        simulate(starts, 1.3, paired ? "aa" : "bb", paired ? seed : seed + 2, seed + 3, b);
        const lipsc_change c = only(starts * LENGTHS, a, starts * LENGTHS, b);
        assert_int_equal(c.paired, paired);
        assert_int_equal(c.starts, starts);
        held += c.ratio_low <= 1.3 && 1.3 <= c.ratio_high;
    }
    return held;
}

/* 95 % of 2000, give or take three standard deviations of that count (29): Student's
 * interval of normal numbers is exact.  Welch's is so to about half a percent. */
static void test_coverage(void **state) {
    (void)state;
    const size_t starts[] = {6, 10, 20};
    for (size_t i = 0; i < 3; i++) {
        const int paired = covered(starts[i], 1, 2000), apart = covered(starts[i], 0, 2000);
        assert_in_range(paired, 1900 - 29, 1900 + 29);
        assert_in_range(apart, 1900 - 39, 1900 + 39);
    }
}

/* The same rows: 1, within what a value is good to. */
static void test_same(void **state) {
    (void)state;
    lipsc_row a[MOST];
    simulate(20, 1.0, "aa", 1, 2, a);
    const lipsc_change c = only(MOST, a, MOST, a);
    assert_true(c.ratio == 1.0 && c.ratio_low < 1.0 && c.ratio_high > 1.0);
    assert_true(c.ratio_high < 1.00001 && c.before == c.after && c.n == 64);
    assert_string_equal(c.verdict, "no change shown");
}

/* Few starts: a ratio, no interval; a start that lacks a length is not one; a length that
 * one side lacks is none; values that are none are left out. */
static void test_gaps(void **state) {
    (void)state;
    lipsc_row a[MOST], b[MOST];
    simulate(20, 1.0, "aa", 1, 2, a);
    simulate(20, 2.0, "aa", 1, 2, b);
    lipsc_change c = only(5 * LENGTHS, a, 5 * LENGTHS, b);
    assert_true(fabs(c.ratio - 2.0) < 1e-12 && isnan(c.ratio_low) && c.starts == 5);
    assert_string_equal(c.verdict, "too few starts to say");

    b[2].sigma = NAN; /* start 0 without its third length: the starts are not the same */
    c = only(MOST, a, MOST, b);
    assert_true(c.paired == 0 && c.starts == 19 && c.lengths == LENGTHS);
    a[2].sigma = 0.0;
    c = only(MOST, a, MOST, b);
    assert_true(c.paired == 1 && c.starts == 19 && fabs(c.ratio - 2.0) < 1e-12);
    for (size_t i = 3; i < MOST; i += LENGTHS) b[i].n = 100;
    c = only(MOST, a, MOST, b);
    assert_true(c.lengths == LENGTHS - 1 && c.n == 32 && c.starts == 19);
}

/* Other layers, other maps, no rows: nothing in common, said so. */
static void test_nothing(void **state) {
    (void)state;
    lipsc_row a[MOST], b[MOST];
    size_t count;
    lipsc_change *changes;
    lipsc_error err;
    simulate(6, 1.0, "aa", 1, 2, a);
    simulate(6, 1.0, "aa", 1, 2, b);
    for (size_t i = 0; i < 6 * LENGTHS; i++) b[i].layer = 3;
    assert_int_equal(
        lipsc_rows_compare(6 * LENGTHS, a, 6 * LENGTHS, b, &count, &changes, &err),
        LIPSC_E_REFUSED);
    assert_null(changes);
    assert_int_equal(lipsc_rows_compare(0, NULL, 6 * LENGTHS, b, &count, &changes, &err),
                     LIPSC_E_REFUSED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coverage), cmocka_unit_test(test_same),
        cmocka_unit_test(test_gaps), cmocka_unit_test(test_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
