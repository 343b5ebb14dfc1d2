/* test_gguf.c - GGUF: every block type bit for bit as the reference package unpacks it
 * (tools/make_gguf_blocks.py wrote both sides), notes, and files cut short or spoiled. */
#include "io/gguf.h"
#include "io/mapfile.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char blocks_path[] = LIPSC_TEST_DATA "/gguf/blocks.gguf";

static const char *const kinds[] = {"F32",  "F16",   "BF16",   "Q4_0",  "Q4_1", "Q5_0",
                                    "Q5_1", "Q8_0",  "Q2_K",   "Q3_K",  "Q4_K", "Q5_K",
                                    "Q6_K", "MXFP4", "IQ4_NL", "IQ4_XS"};

static uint32_t bits_of(double value) {
    const float single = (float)value;
    uint32_t bits;
    assert_true(single == value); /* every value is a float */
    memcpy(&bits, &single, sizeof bits);
    return bits;
}

static void check_kind(const lipsc_gguf *g, const char *kind) {
    char name[32];
    snprintf(name, sizeof name, "%s.values", kind);
    const lipsc_gguf_tensor *packed = lipsc_gguf_find(g, kind);
    const lipsc_gguf_tensor *plain = lipsc_gguf_find(g, name);
    assert_non_null(packed);
    assert_non_null(plain);
    assert_string_equal(packed->type->name, kind);
    assert_int_equal(packed->count, plain->count);

    const size_t n = packed->count;
    double *got = malloc(n * sizeof *got), *want = malloc(n * sizeof *want), one;
    assert_int_equal(lipsc_gguf_read(g, packed, 0, n, got, NULL), LIPSC_OK);
    assert_int_equal(lipsc_gguf_read(g, plain, 0, n, want, NULL), LIPSC_OK);
    for (size_t e = 0; e < n; e++) assert_int_equal(bits_of(got[e]), bits_of(want[e]));
    for (size_t e = 0; e < n; e += 7) { /* from the middle of a block */
        assert_int_equal(lipsc_gguf_read(g, packed, e, 1, &one, NULL), LIPSC_OK);
        assert_true(one == want[e]);
    }
    assert_int_equal(lipsc_gguf_read(g, packed, n, 1, &one, NULL), LIPSC_E_ARG);
    free(got);
    free(want);
}

static void test_blocks(void **state) {
    (void)state;
    lipsc_gguf *g;
    lipsc_error err;
    assert_int_equal(lipsc_gguf_open(blocks_path, &g, &err), LIPSC_OK);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) check_kind(g, kinds[k]);

    const lipsc_gguf_tensor *grid = lipsc_gguf_find(g, "grid");
    const size_t shape[] = {2, 3, 4};
    assert_int_equal(grid->ndim, 3);
    assert_memory_equal(grid->shape, shape, sizeof shape);
    assert_null(lipsc_gguf_find(g, "no such tensor"));
    lipsc_gguf_free(g);
    assert_true(lipsc_gguf_recognised(blocks_path));
    assert_false(lipsc_gguf_recognised(LIPSC_TEST_DATA));
}

static void check_number(const lipsc_gguf *g, const char *key, double want) {
    double got;
    assert_true(lipsc_gguf_number(g, key, &got));
    assert_true(got == want);
}

static void test_notes(void **state) {
    (void)state;
    lipsc_gguf *g;
    lipsc_gguf_text text;
    lipsc_gguf_list list;
    double value;
    assert_int_equal(lipsc_gguf_open(blocks_path, &g, NULL), LIPSC_OK);
    check_number(g, "test.u32", 4000000000.0);
    check_number(g, "test.i64", -1099511627776.0);
    check_number(g, "test.f32", 0.5);
    check_number(g, "test.epsilon", 1e-5); /* the decimal, not the float next to it */
    check_number(g, "test.f64", 0.1);
    check_number(g, "test.truth", 1);
    assert_false(lipsc_gguf_number(g, "test.text", &value));
    assert_false(lipsc_gguf_number(g, "test.absent", &value));
    assert_true(lipsc_gguf_string(g, "test.text", &text));
    assert_int_equal(text.size, 6);
    assert_memory_equal(text.bytes, "na\xc3\xafve", 6);
    assert_false(lipsc_gguf_string(g, "test.u32", &text));

    static const char *const words[] = {"one", "", "drei"};
    assert_true(lipsc_gguf_array(g, "test.words", &list));
    for (size_t i = 0; i < 3; i++) {
        assert_true(lipsc_gguf_next_string(&list, &text));
        assert_int_equal(text.size, strlen(words[i]));
        assert_memory_equal(text.bytes, words[i], text.size);
    }
    assert_false(lipsc_gguf_next_string(&list, &text));
    static const double numbers[] = {3, -1, 4};
    assert_true(lipsc_gguf_array(g, "test.numbers", &list));
    assert_false(lipsc_gguf_next_string(&list, &text));
    for (size_t i = 0; i < 3; i++) {
        assert_true(lipsc_gguf_next_number(&list, &value));
        assert_true(value == numbers[i]);
    }
    assert_false(lipsc_gguf_next_number(&list, &value));
    lipsc_gguf_free(g);
}

/* The first `length` bytes of the file on a heap block of just that size, so that a
 * sanitizer sees any byte read beyond; `spoil` at `at` where at < length. */
static lipsc_status parse_spoiled(const lipsc_mapfile *map, size_t length, size_t at,
                                  const void *spoil, size_t spoil_bytes) {
    lipsc_error err = {0};
    lipsc_gguf *g = NULL;
    uint8_t *copy = malloc(length ? length : 1);
    memcpy(copy, map->data, length);
    if (at < length) memcpy(copy + at, spoil, spoil_bytes);
    const lipsc_status status = lipsc_gguf_parse(copy, length, "spoiled", &g, &err);
    if (status) {
        assert_null(g);
        assert_int_equal(strncmp(err.text, "spoiled: ", 9), 0);
    }
    lipsc_gguf_free(g);
    free(copy);
    return status;
}

static void test_cut_short(void **state) {
    (void)state;
    lipsc_mapfile map;
    assert_int_equal(lipsc_mapfile_open(blocks_path, &map, NULL), LIPSC_OK);
    for (size_t length = 0; length < map.size; length += length < 4000 ? 1 : 997)
        assert_int_not_equal(parse_spoiled(&map, length, length, NULL, 0), LIPSC_OK);
    assert_int_equal(parse_spoiled(&map, map.size, map.size, NULL, 0), LIPSC_OK);
    lipsc_mapfile_close(&map);
}

/* Where a text of that length prefix stands. */
static size_t find_text(const lipsc_mapfile *map, const char *text) {
    const size_t size = strlen(text);
    for (size_t at = 8; at + size < map->size; at++)
        if (map->data[at - 8] == size && !memcmp(map->data + at, text, size)) return at;
    fail();
    return 0;
}

static void test_spoiled(void **state) {
    (void)state;
    const uint64_t huge = UINT64_MAX / 2, three = 3;
    const uint32_t version = 7, swapped = 0x03000000, dims = 9, kind = 99;
    lipsc_mapfile map;
    assert_int_equal(lipsc_mapfile_open(blocks_path, &map, NULL), LIPSC_OK);
    const size_t size = map.size, grid = find_text(&map, "grid"),
                 word = find_text(&map, "test.text");
    const struct {
        size_t at;
        const void *value;
        size_t bytes;
    } spoils[] = {
        {0, "GGUX", 4},         {4, &version, 4},       {4, &swapped, 4},
        {8, &huge, 8},          {16, &huge, 8},         {24, &huge, 8}, /* a key's length */
        {word + 9, &kind, 4},   {word + 13, &huge, 8},  {grid + 4, &dims, 4},
        {grid + 8, &huge, 8},   {grid + 36, &three, 8}, {grid + 36, &huge, 8},
        {word, "test.word", 9}, /* still another key */
    };
    const size_t count = sizeof spoils / sizeof spoils[0];
    for (size_t s = 0; s + 1 < count; s++)
        assert_int_not_equal(
            parse_spoiled(&map, size, spoils[s].at, spoils[s].value, spoils[s].bytes),
            LIPSC_OK);
    assert_int_equal(parse_spoiled(&map, size, spoils[count - 1].at,
                                   spoils[count - 1].value, spoils[count - 1].bytes),
                     LIPSC_OK);
    /* two notes of one key */
    assert_int_not_equal(
        parse_spoiled(&map, size, find_text(&map, "test.u32"), "test.i64", 8), LIPSC_OK);
    lipsc_mapfile_close(&map);
}

/* A type that no format has can stand in a file, but not be read. */
static void test_unknown_type(void **state) {
    (void)state;
    const uint32_t kind = 99;
    lipsc_mapfile map;
    lipsc_gguf *g;
    lipsc_error err;
    double value;
    assert_int_equal(lipsc_mapfile_open(blocks_path, &map, NULL), LIPSC_OK);
    uint8_t *copy = malloc(map.size);
    memcpy(copy, map.data, map.size);
    memcpy(copy + find_text(&map, "grid") + 4 + 4 + 24, &kind, 4);
    assert_int_equal(lipsc_gguf_parse(copy, map.size, "unknown", &g, &err), LIPSC_OK);
    assert_int_equal(lipsc_gguf_read(g, lipsc_gguf_find(g, "grid"), 0, 1, &value, &err),
                     LIPSC_E_FORMAT);
    assert_string_equal(err.text,
                        "unknown: tensor 'grid': its type has the unknown number 99");
    lipsc_gguf_free(g);
    free(copy);
    lipsc_mapfile_close(&map);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),       cmocka_unit_test(test_notes),
        cmocka_unit_test(test_cut_short),    cmocka_unit_test(test_spoiled),
        cmocka_unit_test(test_unknown_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
