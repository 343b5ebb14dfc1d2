/* test_growth.c - rows in their order, and growth laws that are known exactly. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run/growth.h"

/* sigma = (1 + layer) n^e, e = 0.25 for all heads and 0.5 for head 0; head -1: all. */
static json_t *row(int layer, int head, int n, int window) {
    const double exponent = head < 0 ? 0.25 : 0.5;
    return json_pack("{s:i, s:o, s:s, s:i, s:i, s:f, s:f, s:i}", "layer", layer, "head",
                     head < 0 ? json_null() : json_integer(head), "map", "attention", "n",
                     n, "window", window, "sigma", (1 + layer) * pow(n, exponent),
                     "radius_rms", 3.0 * n, "start", 64 * window);
}

enum { LAYERS = 2, HEADS = 2, LENGTHS = 4, WINDOWS = 6 };
enum { COUNT = LAYERS * HEADS * LENGTHS * WINDOWS };

/* Last first, as far from the order as can be. */
static void make_rows(json_t *rows[COUNT]) {
    size_t at = COUNT;
    for (int layer = 0; layer < LAYERS; layer++)
        for (int head = 0; head < HEADS; head++)
            for (int l = 0; l < LENGTHS; l++)
                for (int window = 0; window < WINDOWS; window++)
                    rows[--at] = row(layer, head - 1, 8 << l, window);
}

static long long place(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    return json_is_null(value) ? -1 : json_integer_value(value);
}

static void test_order(void **state) {
    (void)state;
    json_t *rows[COUNT];
    size_t at = 0;
    make_rows(rows);
    lipsc_rows_sort(COUNT, rows);
    for (int layer = 0; layer < LAYERS; layer++)
        for (int head = -1; head < HEADS - 1; head++)
            for (int n = 8; n < 8 << LENGTHS; n *= 2)
                for (int window = 0; window < WINDOWS; window++, at++) {
                    assert_int_equal(place(rows[at], "layer"), layer);
                    assert_int_equal(place(rows[at], "head"), head);
                    assert_int_equal(place(rows[at], "n"), n);
                    assert_int_equal(place(rows[at], "window"), window);
                }
    for (size_t i = 0; i < COUNT; i++) json_decref(rows[i]);
    lipsc_rows_sort(0, NULL);
}

/* The medians lie on the law, so only the logarithms and five sums round: 1e-12. */
static void near(const json_t *fit, const char *name, double want) {
    assert_true(fabs(json_number_value(json_object_get(fit, name)) - want) < 1e-12);
}

static void test_laws(void **state) {
    (void)state;
    json_t *rows[COUNT];
    make_rows(rows);
    lipsc_rows_sort(COUNT, rows);
    json_t *fits = lipsc_rows_fit(COUNT, rows, 1);
    assert_int_equal(json_array_size(fits), LAYERS * HEADS * 2);
    for (size_t i = 0; i < json_array_size(fits); i++) {
        const json_t *fit = json_array_get(fits, i);
        const long long layer = (long long)i / 4, head = (long long)i / 2 % 2 - 1;
        const double exponent = head < 0 ? 0.25 : 0.5;
        const int radius = i % 2;
        assert_int_equal(place(fit, "layer"), layer);
        assert_int_equal(place(fit, "head"), head);
        assert_string_equal(json_string_value(json_object_get(fit, "against")),
                            radius ? "radius" : "n");
        near(fit, "exponent", exponent);
        near(fit, "exponent_low", exponent);
        near(fit, "exponent_high", exponent);
        near(fit, "coefficient", (double)(1 + layer) / (radius ? pow(3.0, exponent) : 1.0));
        assert_int_equal(place(fit, "lengths"), LENGTHS);
        assert_int_equal(place(fit, "starts"), WINDOWS);
        assert_int_equal(place(fit, "texts"), 1);
        assert_true(json_is_true(json_object_get(fit, "law")));
        near(fit, "lack_of_fit", 1.0);
        assert_int_equal(json_array_size(json_object_get(fit, "slopes")), LENGTHS - 1);
        assert_true(json_is_null(json_object_get(fit, "text")));
        assert_true(json_is_null(json_object_get(fit, "refused")));
        assert_string_equal(lipsc_fit_verdict(fit), "power law");
    }
    json_decref(fits);
    for (size_t i = 0; i < COUNT; i++) json_decref(rows[i]);
}

/* Two texts, the second with exponent 0.75 where the first has 0.25, a level of its own and
 * a radius that stands still: the joint exponent is the mean, and each has its own. */
static void test_texts(void **state) {
    (void)state;
    enum { TWO = 2 * LENGTHS * WINDOWS };
    json_t *rows[TWO];
    for (int i = 0; i < TWO; i++) {
        const int n = 8 << i % LENGTHS, text = i / (LENGTHS * WINDOWS);
        rows[i] = row(0, -1, n, i / LENGTHS % WINDOWS);
        json_object_set_new(rows[i], "text_hash", json_string(text ? "bb" : "aa"));
        json_object_set_new(rows[i], "radius_rms", json_real(14.0 + 0.01 * n));
        if (text) json_object_set_new(rows[i], "sigma", json_real(100.0 * pow(n, 0.75)));
    }
    lipsc_rows_sort(TWO, rows);
    json_t *fits = lipsc_rows_fit(TWO, rows, 1);
    assert_int_equal(json_array_size(fits), 6);
    const double want[] = {0.5, 0.25, 0.75};
    const char *const texts[] = {NULL, "aa", "bb"};
    for (size_t i = 0; i < 6; i++) {
        const json_t *fit = json_array_get(fits, i);
        const char *text = json_string_value(json_object_get(fit, "text"));
        assert_true(texts[i / 2] ? !strcmp(text, texts[i / 2]) : !text);
        assert_int_equal(place(fit, "texts"), i < 2 ? 2 : 1);
        assert_int_equal(place(fit, "starts"), i < 2 ? 2 * WINDOWS : WINDOWS);
        if (i % 2 == 0) {
            near(fit, "exponent", want[i / 2]);
            continue;
        }
        for (const char *const *name =
                 (const char *const[]){"exponent", "exponent_low", "law", "slopes", NULL};
             *name; name++)
            assert_true(json_is_null(json_object_get(fit, *name)));
        assert_string_equal(lipsc_fit_verdict(fit),
                            "the radius varies only by a factor 1.040");
    }
    json_decref(fits);
    for (size_t i = 0; i < TWO; i++) json_decref(rows[i]);
}

/* Tiled windows, whether they say where they start or not, have no common starts but the
 * first: an exponent, no interval. */
static void test_tiled(void **state) {
    (void)state;
    for (int say = 0; say < 2; say++) {
        json_t *rows[COUNT];
        make_rows(rows);
        for (size_t i = 0; i < COUNT; i++) {
            const long long n = place(rows[i], "n"), window = place(rows[i], "window");
            json_object_del(rows[i], "start");
            if (say) json_object_set_new(rows[i], "start", json_integer(n * window));
        }
        lipsc_rows_sort(COUNT, rows);
        json_t *fits = lipsc_rows_fit(COUNT, rows, 1);
        const json_t *fit = json_array_get(fits, 0);
        near(fit, "exponent", 0.25);
        assert_int_equal(place(fit, "starts"), 1);
        assert_true(json_is_null(json_object_get(fit, "exponent_low")));
        assert_true(json_is_null(json_object_get(fit, "lack_of_fit")));
        json_decref(fits);
        for (size_t i = 0; i < COUNT; i++) json_decref(rows[i]);
    }
}

/* Slopes that differ and no starts to test them with: no law. */
static void test_bent(void **state) {
    (void)state;
    json_t *rows[LENGTHS];
    for (int i = 0; i < LENGTHS; i++) {
        rows[i] = row(0, -1, 8 << i, 0);
        json_object_set_new(rows[i], "sigma", json_real(i * i + 1.0));
    }
    json_t *fits = lipsc_rows_fit(LENGTHS, rows, 1);
    const json_t *fit = json_array_get(fits, 0);
    assert_true(json_is_false(json_object_get(fit, "law")));
    assert_true(json_is_null(json_object_get(fit, "exponent_low")));
    assert_true(json_is_null(json_object_get(fit, "lack_of_fit")));
    assert_string_equal(lipsc_fit_verdict(fit), "no power law shown");
    json_object_set_new((json_t *)fit, "lack_of_fit", json_real(0.01));
    assert_string_equal(lipsc_fit_verdict(fit), "no power law");
    json_decref(fits);
    for (size_t i = 0; i < LENGTHS; i++) json_decref(rows[i]);
}

/* Rows without a value, a length or anything are no points, and no rows no fits. */
static void test_nothing(void **state) {
    (void)state;
    json_t *rows[12];
    for (int i = 0; i < 12; i++) rows[i] = json_object();
    for (int i = 0; i < 8; i++) {
        json_object_set_new(rows[i], "n", json_integer(i < 4 ? 8 << i : -8));
        json_object_set_new(rows[i], "sigma", i < 4 ? json_null() : json_real(1.0));
    }
    lipsc_rows_sort(12, rows);
    json_t *fits = lipsc_rows_fit(12, rows, 1);
    assert_int_equal(json_array_size(fits), 0);
    json_decref(fits);
    for (int i = 0; i < 12; i++) json_decref(rows[i]);
    fits = lipsc_rows_fit(0, NULL, 1);
    assert_int_equal(json_array_size(fits), 0);
    json_decref(fits);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order), cmocka_unit_test(test_laws),
        cmocka_unit_test(test_texts), cmocka_unit_test(test_tiled),
        cmocka_unit_test(test_bent),  cmocka_unit_test(test_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
