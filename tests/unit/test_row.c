/* test_row.c - records by their list of fields: nothing is lost, nothing is invented, and
 * what is not of its kind is an error. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "row/row.h"

static const char text[] =
    "{\"layer\": 3, \"head\": null, \"map\": \"attention\", \"sigma\": 1.5, \"upper\": 2,"
    " \"converged\": true, \"products\": 11, \"sigmas\": [1.5, null, 0.25],"
    " \"n\": 64, \"window\": 2, \"something_else\": {}}";

static json_t *parse(const char *json) {
    json_t *value = json_loads(json, 0, NULL);
    assert_non_null(value);
    return value;
}

static void test_read(void **state) {
    (void)state;
    lipsc_pool pool = {NULL};
    lipsc_row row;
    json_t *stored = parse(text);
    assert_int_equal(lipsc_row_read(stored, &pool, &row, NULL), LIPSC_OK);
    json_decref(stored); /* the row stands on its own */
    assert_true(row.layer == 3 && row.head == LIPSC_NONE && row.n == 64);
    assert_true(row.start == 128); /* tiled, as the first edition was */
    assert_string_equal(row.map, "attention");
    assert_true(row.sigma == 1.5 && row.upper == 2.0 && isnan(row.lower));
    assert_true(row.converged == 1 && row.certified == -1 && row.products == 11);
    assert_true(row.seed == LIPSC_NO_WHOLE && !row.mask);
    assert_true(row.sigmas.count == 3 && row.sigmas.at[2] == 0.25 &&
                isnan(row.sigmas.at[1]));
    assert_int_equal(row.parts, LIPSC_ROW_UPPER | LIPSC_ROW_COUNT);
    lipsc_pool_free(&pool);
}

/* To JSON and back gives the same bytes; a part that is not there stays away. */
static void test_again(void **state) {
    (void)state;
    lipsc_pool pool = {NULL};
    lipsc_row row, again;
    json_t *stored = parse(text);
    assert_int_equal(lipsc_row_read(stored, &pool, &row, NULL), LIPSC_OK);
    json_t *first = lipsc_row_json(&row);
    assert_int_equal(lipsc_row_read(first, &pool, &again, NULL), LIPSC_OK);
    json_t *second = lipsc_row_json(&again);
    assert_true(json_equal(first, second));
    assert_non_null(json_object_get(first, "sigmas"));
    assert_null(json_object_get(first, "released"));
    assert_null(json_object_get(first, "something_else"));
    assert_true(json_is_null(json_object_get(first, "head")));
    json_decref(stored);
    json_decref(first);
    json_decref(second);
    lipsc_pool_free(&pool);
}

static void test_wrong(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        {"{\"layer\": -1}", "layer"},
        {"{\"layer\": 1.5}", "layer"},
        {"{\"map\": 3}", "map"},
        {"{\"sigma\": \"1\"}", "sigma"},
        {"{\"converged\": 1}", "converged"},
        {"{\"sigmas\": 1}", "sigmas"},
        {"{\"sigmas\": [\"x\"]}", "sigmas"},
        {"{\"seed\": 0.5}", "seed"},
        {"{\"start\": \"random\"}", "start"},
        {"{\"products\": true}", "products"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        lipsc_pool pool = {NULL};
        lipsc_row row;
        lipsc_error err;
        char quoted[40];
        json_t *stored = parse(wrong[i][0]);
        snprintf(quoted, sizeof quoted, "'%s'", wrong[i][1]);
        assert_int_equal(lipsc_row_read(stored, &pool, &row, &err), LIPSC_E_FORMAT);
        assert_non_null(strstr(err.text, quoted));
        json_decref(stored);
        lipsc_pool_free(&pool);
    }
}

/* Names are different, every field has its sentence, and docs/row.md tells of each. */
static void test_list(void **state) {
    (void)state;
    const lipsc_fields fields = lipsc_row_fields();
    FILE *file = fopen(LIPSCOPE_SOURCE_DIR "/docs/row.md", "r");
    static char page[1 << 16];
    assert_non_null(file);
    page[fread(page, 1, sizeof page - 1, file)] = '\0';
    fclose(file);
    for (size_t i = 0; i < fields.count; i++) {
        char quoted[64];
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(fields.at[i].name, fields.at[j].name);
        assert_true(strlen(fields.at[i].says) > 5);
        snprintf(quoted, sizeof quoted, "| `%s` |", fields.at[i].name);
        if (!strstr(page, quoted)) fail_msg("docs/row.md has no line of %s", quoted);
        if (!strstr(page, fields.at[i].says))
            fail_msg("docs/row.md does not say of %s: %s", quoted, fields.at[i].says);
    }
}

/* Texts of many rows, lists, and one larger than a block. */
static void test_pool(void **state) {
    (void)state;
    lipsc_pool pool = {NULL};
    enum { MANY = 20000 };
    const char **kept = malloc(MANY * sizeof *kept);
    char *large = malloc(200001);
    assert_true(kept && large);
    memset(large, 'x', 200000);
    large[200000] = '\0';
    assert_ptr_equal(lipsc_pool_text(&pool, "attention"),
                     lipsc_pool_text(&pool, "attention"));
    for (int i = 0; i < MANY; i++) {
        char word[32];
        const double values[] = {i, -i};
        snprintf(word, sizeof word, "text %d", i);
        kept[i] = lipsc_pool_text(&pool, word);
        const double *list = lipsc_pool_reals(&pool, 2, values);
        assert_true(kept[i] && list && list[0] == i && list[1] == -i);
    }
    assert_string_equal(lipsc_pool_text(&pool, large), large);
    assert_non_null(lipsc_pool_reals(&pool, 0, NULL));
    assert_null(lipsc_pool_reals(&pool, (size_t)-1 / 4, NULL));
    for (int i = 0; i < MANY; i++) {
        char word[32];
        snprintf(word, sizeof word, "text %d", i);
        assert_string_equal(kept[i], word);
    }
    free(kept);
    free(large);
    lipsc_pool_free(&pool);
    assert_null(pool.newest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),  cmocka_unit_test(test_again),
        cmocka_unit_test(test_wrong), cmocka_unit_test(test_list),
        cmocka_unit_test(test_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
