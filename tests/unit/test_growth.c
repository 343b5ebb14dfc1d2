/* test_growth.c - rows in their order, and growth laws that are known exactly. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "run/growth.h"

/* sigma = (1 + layer) n^e, e = 0.25 for all heads and 0.5 for head 0. */
static lipsc_row row(size_t layer, size_t head, size_t n, size_t window) {
    const double exponent = head == LIPSC_NONE ? 0.25 : 0.5;
    lipsc_row r;
    lipsc_fields_clear(lipsc_row_fields(), &r);
    r.layer = layer;
    r.head = head;
    r.map = "attention";
    r.n = n;
    r.window = window;
    r.sigma = (double)(1 + layer) * pow((double)n, exponent);
    r.radius_rms = 3.0 * (double)n;
    r.start = 64 * window;
    return r;
}

enum { LAYERS = 2, HEADS = 2, LENGTHS = 4, WINDOWS = 6 };
enum { COUNT = LAYERS * HEADS * LENGTHS * WINDOWS };

static void point_at(size_t count, const lipsc_row *rows, const lipsc_row **at) {
    for (size_t i = 0; i < count; i++) at[i] = &rows[i];
}

/* Last first, as far from the order as can be.  Head h - 1; -1 is LIPSC_NONE. */
static void make_rows(lipsc_row rows[COUNT], const lipsc_row *at[COUNT]) {
    size_t i = COUNT;
    for (size_t layer = 0; layer < LAYERS; layer++)
        for (size_t head = 0; head < HEADS; head++)
            for (size_t l = 0; l < LENGTHS; l++)
                for (size_t window = 0; window < WINDOWS; window++)
                    rows[--i] = row(layer, head - 1, (size_t)8 << l, window);
    point_at(COUNT, rows, at);
}

static void test_order(void **state) {
    (void)state;
    lipsc_row rows[COUNT];
    const lipsc_row *at[COUNT];
    size_t i = 0;
    make_rows(rows, at);
    lipsc_rows_sort(COUNT, at);
    for (size_t layer = 0; layer < LAYERS; layer++)
        for (size_t head = 0; head < HEADS; head++)
            for (size_t l = 0; l < LENGTHS; l++)
                for (size_t window = 0; window < WINDOWS; window++, i++) {
                    assert_true(at[i]->layer == layer);
                    assert_true(at[i]->head == head - 1);
                    assert_true(at[i]->n == (size_t)8 << l);
                    assert_true(at[i]->window == window);
                }
    lipsc_rows_sort(0, NULL);
}

/* The medians lie on the law, so only the logarithms and five sums round: 1e-12. */
static void near(double x, double want) { assert_true(fabs(x - want) < 1e-12); }

static void test_laws(void **state) {
    (void)state;
    lipsc_row rows[COUNT];
    const lipsc_row *at[COUNT];
    lipsc_growths laws;
    make_rows(rows, at);
    lipsc_rows_sort(COUNT, at);
    assert_int_equal(lipsc_rows_fit(COUNT, at, 1, &laws), LIPSC_OK);
    assert_int_equal(laws.count, LAYERS * HEADS * 2);
    for (size_t i = 0; i < laws.count; i++) {
        const lipsc_growth *law = &laws.at[i];
        const size_t layer = i / 4, head = i / 2 % 2 - 1;
        const double exponent = head == LIPSC_NONE ? 0.25 : 0.5;
        const int radius = i % 2;
        assert_true(law->layer == layer && law->head == head);
        assert_string_equal(law->against, radius ? "radius" : "n");
        assert_string_equal(law->map, "attention");
        near(law->exponent, exponent);
        near(law->exponent_low, exponent);
        near(law->exponent_high, exponent);
        near(law->coefficient, (double)(1 + layer) / (radius ? pow(3.0, exponent) : 1.0));
        assert_int_equal(law->lengths, LENGTHS);
        assert_int_equal(law->starts, WINDOWS);
        assert_int_equal(law->texts, 1);
        assert_int_equal(law->law, 1);
        near(law->lack_of_fit, 1.0);
        assert_int_equal(law->slopes.count, LENGTHS - 1);
        near(law->slopes.at[LENGTHS - 2], exponent);
        assert_null(law->text);
        assert_null(law->refused);
        assert_string_equal(lipsc_growth_verdict(law), "power law");
    }
    lipsc_growths_free(&laws);
}

/* Two texts, the second with exponent 0.75 where the first has 0.25, a level of its own and
 * a radius that stands still: the joint exponent is the mean, and each has its own. */
static void test_texts(void **state) {
    (void)state;
    enum { TWO = 2 * LENGTHS * WINDOWS };
    lipsc_row rows[TWO];
    const lipsc_row *at[TWO];
    lipsc_growths laws;
    for (size_t i = 0; i < TWO; i++) {
        const size_t n = (size_t)8 << i % LENGTHS, text = i / (LENGTHS * WINDOWS);
        rows[i] = row(0, LIPSC_NONE, n, i / LENGTHS % WINDOWS);
        rows[i].text_hash = text ? "bb" : "aa";
        rows[i].radius_rms = 14.0 + 0.01 * (double)n;
        if (text) rows[i].sigma = 100.0 * pow((double)n, 0.75);
    }
    point_at(TWO, rows, at);
    lipsc_rows_sort(TWO, at);
    assert_int_equal(lipsc_rows_fit(TWO, at, 1, &laws), LIPSC_OK);
    assert_int_equal(laws.count, 6);
    const double want[] = {0.5, 0.25, 0.75};
    const char *const texts[] = {NULL, "aa", "bb"};
    for (size_t i = 0; i < 6; i++) {
        const lipsc_growth *law = &laws.at[i];
        assert_true(texts[i / 2] ? !strcmp(law->text, texts[i / 2]) : !law->text);
        assert_int_equal(law->texts, i < 2 ? 2 : 1);
        assert_int_equal(law->starts, i < 2 ? 2 * WINDOWS : WINDOWS);
        if (i % 2 == 0) {
            near(law->exponent, want[i / 2]);
            continue;
        }
        assert_true(isnan(law->exponent) && isnan(law->exponent_low) && law->law < 0 &&
                    !law->slopes.at);
        assert_string_equal(lipsc_growth_verdict(law),
                            "the radius varies only by a factor 1.040");
    }
    lipsc_growths_free(&laws);
}

/* Tiled windows have no common starts but the first: an exponent, no interval.  Stored rows
 * of the first edition do not say where they start. */
static void test_tiled(void **state) {
    (void)state;
    for (int say = 0; say < 2; say++) {
        lipsc_row rows[COUNT];
        const lipsc_row *at[COUNT];
        lipsc_growths laws;
        lipsc_pool pool = {NULL};
        make_rows(rows, at);
        for (size_t i = 0; i < COUNT; i++) {
            rows[i].start = say ? rows[i].n * rows[i].window : LIPSC_NONE;
            rows[i].parts = 0;
            json_t *stored = lipsc_row_json(&rows[i]);
            assert_int_equal(lipsc_row_read(stored, &pool, &rows[i], NULL), LIPSC_OK);
            json_decref(stored);
        }
        lipsc_rows_sort(COUNT, at);
        assert_int_equal(lipsc_rows_fit(COUNT, at, 1, &laws), LIPSC_OK);
        near(laws.at[0].exponent, 0.25);
        assert_int_equal(laws.at[0].starts, 1);
        assert_true(isnan(laws.at[0].exponent_low) && isnan(laws.at[0].lack_of_fit));
        lipsc_growths_free(&laws);
        lipsc_pool_free(&pool);
    }
}

/* Slopes that differ and no starts to test them with: no law. */
static void test_bent(void **state) {
    (void)state;
    lipsc_row rows[LENGTHS];
    const lipsc_row *at[LENGTHS];
    lipsc_growths laws;
    for (size_t i = 0; i < LENGTHS; i++) {
        rows[i] = row(0, LIPSC_NONE, (size_t)8 << i, 0);
        rows[i].sigma = (double)(i * i) + 1.0;
    }
    point_at(LENGTHS, rows, at);
    assert_int_equal(lipsc_rows_fit(LENGTHS, at, 1, &laws), LIPSC_OK);
    lipsc_growth law = laws.at[0];
    assert_int_equal(law.law, 0);
    assert_true(isnan(law.exponent_low) && isnan(law.lack_of_fit));
    assert_string_equal(lipsc_growth_verdict(&law), "no power law shown");
    law.lack_of_fit = 0.01;
    assert_string_equal(lipsc_growth_verdict(&law), "no power law");
    lipsc_growths_free(&laws);
}

/* Rows without a value, a length or anything are no points, and no rows no fits. */
static void test_nothing(void **state) {
    (void)state;
    lipsc_row rows[12];
    const lipsc_row *at[12];
    lipsc_growths laws;
    for (size_t i = 0; i < 12; i++) {
        lipsc_fields_clear(lipsc_row_fields(), &rows[i]);
        if (i < 4) rows[i].n = (size_t)8 << i;
        if (i >= 4 && i < 8) rows[i].sigma = 1.0;
    }
    point_at(12, rows, at);
    lipsc_rows_sort(12, at);
    assert_int_equal(lipsc_rows_fit(12, at, 1, &laws), LIPSC_OK);
    assert_int_equal(laws.count, 0);
    lipsc_growths_free(&laws);
    assert_int_equal(lipsc_rows_fit(0, NULL, 1, &laws), LIPSC_OK);
    assert_int_equal(laws.count, 0);
    lipsc_growths_free(&laws);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order), cmocka_unit_test(test_laws),
        cmocka_unit_test(test_texts), cmocka_unit_test(test_tiled),
        cmocka_unit_test(test_bent),  cmocka_unit_test(test_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
