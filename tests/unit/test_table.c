/* test_table.c - the three printers, byte for byte. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "out/table.h"

static const lipsc_column columns[] = {{"name", LIPSC_COLUMN_STRING},
                                       {"n", LIPSC_COLUMN_INTEGER},
                                       {"x", LIPSC_COLUMN_REAL},
                                       {"ok", LIPSC_COLUMN_BOOL},
                                       {"list", LIPSC_COLUMN_REALS}};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* Two rows: one with everything, one with nulls, a NaN and an infinity. */
static void fill(lipsc_table *t) {
    const double list[] = {0.1, INFINITY};
    lipsc_table_row(t);
    lipsc_table_reals(t, "list", 2, list); /* order of setting does not matter */
    lipsc_table_string(t, "name", "a\t\"\\\x1b\xff");
    lipsc_table_integer(t, "n", -12);
    lipsc_table_real(t, "x", 1.0 / 3.0);
    lipsc_table_bool(t, "ok", 1);
    lipsc_table_row(t);
    lipsc_table_string(t, "name", NULL);
    lipsc_table_real(t, "x", NAN);
}

/* The caller frees the text. */
static char *printed(lipsc_format format, lipsc_layout layout, int flush_between) {
    char *text = NULL;
    size_t length = 0;
    lipsc_error err;
    FILE *to = open_memstream(&text, &length);
    assert_non_null(to);
    lipsc_table *t = lipsc_table_new("try", format, layout, to, COLUMNS, columns);
    assert_non_null(t);
    fill(t);
    if (flush_between) lipsc_table_flush(t);
    lipsc_table_member(t, "more", lipsc_json_text("yes"));
    assert_int_equal(lipsc_table_end(t, &err), LIPSC_OK);
    lipsc_table_free(t);
    fclose(to);
    return text;
}

static void expect(lipsc_format format, lipsc_layout layout, int flush, const char *want) {
    char *text = printed(format, layout, flush);
    assert_string_equal(text, want);
    free(text);
}

static void test_tsv(void **state) {
    (void)state;
    const char *want = "name\tn\tx\tok\tlist\n"
                       "a\\t\"\\\\\\x1b\xEF\xBF\xBD\t-12\t0.33333333333333331\ttrue\t"
                       "0.10000000000000001,\n"
                       "\t\t\t\t\n";
    expect(LIPSC_FORMAT_TSV, LIPSC_LAYOUT_WIDE, 0, want);
    expect(LIPSC_FORMAT_TSV, LIPSC_LAYOUT_WIDE, 1, want);
}

static void test_table(void **state) {
    (void)state;
    expect(LIPSC_FORMAT_TABLE, LIPSC_LAYOUT_WIDE, 0,
           "name           n         x  ok     list\n"
           "a\\t\"\\\\\\x1b\xEF\xBF\xBD  -12  0.333333  true  0.1,-\n"
           "-              -         -  -         -\n");
    expect(LIPSC_FORMAT_TABLE, LIPSC_LAYOUT_UPRIGHT, 0,
           "name  a\\t\"\\\\\\x1b\xEF\xBF\xBD\n"
           "n     -12\n"
           "x     0.333333\n"
           "ok    true\n"
           "list  0.1,-\n"
           "\n"); /* what is empty has no line */
}

/* Somebody else's text: marks of direction and controls of eight bits become escapes,
 * letters stay, and what would push the other columns away is cut; programs get all of it.
 */
static void test_hostile(void **state) {
    (void)state;
    static const char *const want[] = {"\xc3\xa9\\xe2\\x80\\xae\\xc2\\x9b",
                                       "\xc3\xa9\\xe2\\x80\\xae\\xc2\\x9b",
                                       "\xc3\xa9\\u202e\\u009b"};
    static const lipsc_format formats[] = {LIPSC_FORMAT_TABLE, LIPSC_FORMAT_TSV,
                                           LIPSC_FORMAT_JSON};
    enum { LONG = 10000000 };
    char *token = malloc(LONG + 1);
    assert_non_null(token);
    memset(token, 'x', LONG);
    token[LONG] = '\0';
    memcpy(token, "\xc3\xa9\xe2\x80\xae\xc2\x9b", 7);
    for (size_t i = 0; i < 3; i++) {
        char *text = NULL;
        size_t length = 0;
        FILE *to = open_memstream(&text, &length);
        assert_non_null(to);
        lipsc_table *t =
            lipsc_table_new("try", formats[i], LIPSC_LAYOUT_WIDE, to, 1, columns);
        assert_non_null(t);
        lipsc_table_row(t);
        lipsc_table_string(t, "name", token);
        assert_int_equal(lipsc_table_end(t, NULL), LIPSC_OK);
        lipsc_table_free(t);
        fclose(to);
        assert_non_null(strstr(text, want[i]));
        assert_null(strstr(text, "\xe2\x80\xae"));
        assert_int_equal(length > LONG, formats[i] != LIPSC_FORMAT_TABLE);
        assert_int_equal(length < 1000, formats[i] == LIPSC_FORMAT_TABLE);
        free(text);
    }
    free(token);
}

/* For people upper bounds are rounded up and lower bounds down; programs get every digit.
 */
static void test_sides(void **state) {
    (void)state;
    static const lipsc_column own[] = {{"sigma", LIPSC_COLUMN_REAL},
                                       {"lower", LIPSC_COLUMN_REAL},
                                       {"upper_prob", LIPSC_COLUMN_REAL}};
    static const double at[] = {1.43311047114793, 9.9999996, 0.00012345649, 1234567.1, 2.5};
    static const char *const want[2] = {"      sigma        lower   upper_prob\n"
                                        "    1.43311      1.43311      1.43312\n"
                                        "         10      9.99999           10\n"
                                        "0.000123456  0.000123456  0.000123457\n"
                                        "1.23457e+06  1.23456e+06  1.23457e+06\n"
                                        "        2.5          2.5          2.5\n",
                                        "sigma\tlower\tupper_prob\n"};
    for (size_t f = 0; f < 2; f++) {
        char *text = NULL;
        size_t length = 0;
        lipsc_error err;
        FILE *to = open_memstream(&text, &length);
        lipsc_table *t = lipsc_table_new("try", f ? LIPSC_FORMAT_TSV : LIPSC_FORMAT_TABLE,
                                         LIPSC_LAYOUT_WIDE, to, 3, own);
        for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
            lipsc_table_row(t);
            for (size_t c = 0; c < 3; c++) lipsc_table_real(t, own[c].name, at[i]);
        }
        assert_int_equal(lipsc_table_end(t, &err), LIPSC_OK);
        lipsc_table_free(t);
        fclose(to);
        if (f)
            assert_memory_equal(text, want[f], strlen(want[f]));
        else
            assert_string_equal(text, want[f]);
        if (f) assert_non_null(strstr(text, "\n2.5\t2.5\t2.5\n"));
        if (f) assert_true(strtod(strchr(text, '\n'), NULL) == at[0]);
        free(text);
    }
}

static void test_json(void **state) {
    (void)state;
    expect(LIPSC_FORMAT_JSON, LIPSC_LAYOUT_WIDE, 1,
           "{\n"
           "  \"lipscope\": \"" LIPSC_VERSION_STRING "\",\n"
           "  \"schema\": 1,\n"
           "  \"command\": \"try\",\n"
           "  \"rows\": [\n"
           "    {\n"
           "      \"name\": \"a\\t\\\"\\\\\\u001B\xEF\xBF\xBD\",\n"
           "      \"n\": -12,\n"
           "      \"x\": 0.33333333333333331,\n"
           "      \"ok\": true,\n"
           "      \"list\": [\n"
           "        0.10000000000000001,\n"
           "        null\n"
           "      ]\n"
           "    },\n"
           "    {\n"
           "      \"name\": null,\n"
           "      \"n\": null,\n"
           "      \"x\": null,\n"
           "      \"ok\": null,\n"
           "      \"list\": null\n"
           "    }\n"
           "  ],\n"
           "  \"more\": \"yes\"\n"
           "}\n");
}

/* Malformed UTF-8: lone continuation, overlong form, surrogate, cut sequence. */
static void test_utf8(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"\xC3\xA9", "\xC3\xA9"},
        {"\x80x", "\xEF\xBF\xBDx"},
        {"\xC0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"y\xE2\x82", "y\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *text = lipsc_json_text(cases[i][0]);
        assert_string_equal(json_string_value(text), cases[i][1]);
        json_decref(text);
    }
}

/* More rows than are held at a time: all come, once and in their order, with one header. */
static void test_many(void **state) {
    (void)state;
    char *text = NULL, *line;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);
    lipsc_table *t =
        lipsc_table_new("try", LIPSC_FORMAT_TSV, LIPSC_LAYOUT_WIDE, to, COLUMNS, columns);
    assert_non_null(t);
    for (int i = 0; i < 10000; i++) {
        lipsc_table_row(t);
        lipsc_table_integer(t, "n", i);
        if (i % 3000 == 0) lipsc_table_flush(t);
    }
    assert_int_equal(lipsc_table_end(t, NULL), LIPSC_OK);
    lipsc_table_free(t);
    fclose(to);
    line = strchr(text, '\n') + 1;
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(strtol(strchr(line, '\t') + 1, NULL, 10), i);
        line = strchr(line, '\n') + 1;
    }
    assert_int_equal(*line, '\0');
    free(text);
}

/* A name that is no column, or a value of another kind, must not pass in silence. */
static void test_mistakes(void **state) {
    (void)state;
    for (int which = 0; which < 3; which++) {
        lipsc_error err;
        lipsc_table *t = lipsc_table_new("try", LIPSC_FORMAT_TSV, LIPSC_LAYOUT_WIDE, stdout,
                                         COLUMNS, columns);
        if (which) lipsc_table_row(t);
        if (which == 1)
            lipsc_table_real(t, "y", 1.0);
        else
            lipsc_table_real(t, "n", 1.0);
        assert_int_equal(lipsc_table_end(t, &err), LIPSC_E_ARG);
        lipsc_table_free(t);
    }
}

/* A table that could not be made takes everything, and its end says so. */
static void test_no_table(void **state) {
    (void)state;
    const lipsc_fields none = {0, NULL};
    const double one = 1.0;
    lipsc_error err;
    lipsc_table_row(NULL);
    lipsc_table_string(NULL, "a", "b");
    lipsc_table_reals(NULL, "a", 1, &one);
    lipsc_table_record(NULL, none, &one);
    lipsc_table_object(NULL, "a", none, NULL);
    lipsc_table_list(NULL, "a", none, 0, 0, NULL);
    lipsc_table_flush(NULL);
    assert_int_equal(lipsc_table_end(NULL, &err), LIPSC_E_NOMEM);
    assert_string_equal(err.text, lipsc_strerror(LIPSC_E_NOMEM));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tsv),     cmocka_unit_test(test_table),
        cmocka_unit_test(test_hostile), cmocka_unit_test(test_json),
        cmocka_unit_test(test_utf8),    cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_many),    cmocka_unit_test(test_sides),
        cmocka_unit_test(test_no_table)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
