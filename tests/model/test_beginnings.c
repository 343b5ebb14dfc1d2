/* test_beginnings.c - where tokens see none behind them the beginning of a window is, to
 * the last bit, the window of these tokens alone: run through the model by itself. */
#include "fixture.h"

enum { LONGEST = 200 };

/* Lengths at which row tiles, key panels and pieces of rows begin or end, and beside them.
 */
static const size_t lengths[] = {1, 7, 16, 33, 64, 100, 193};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static lipsc_acts *run(lipsc_model *model, lipsc_dtype dtype, int threads, size_t n,
                       const uint32_t *ids) {
    lipsc_acts *acts;
    lipsc_error err;
    if (lipsc_acts_new(model, dtype, test_device(threads), n, ids, 0, &acts, &err))
        fail_msg("%zu tokens: %s", n, err.text);
    return acts;
}

static void assert_same(const char *what, const char *name, size_t n, size_t l, size_t d,
                        const double *a, const double *b) {
    if (memcmp(a, b, n * d * sizeof *a))
        fail_msg("%s: %zu tokens, %s of block %zu", name, n, what, l);
}

static void compare(const char *name, const lipsc_model_info *info, const lipsc_acts *a,
                    const lipsc_acts *b) {
    const size_t n = lipsc_acts_length(a), d = info->d;
    assert_int_equal(lipsc_acts_length(b), n);
    for (size_t l = 0; l < info->layers; l++) {
        assert_same("input", name, n, l, d, lipsc_acts_block_input(a, l),
                    lipsc_acts_block_input(b, l));
        assert_same("output", name, n, l, d, lipsc_acts_block_output(a, l),
                    lipsc_acts_block_output(b, l));
        assert_same("input of attention", name, n, l, d, lipsc_acts_attention_input(a, l),
                    lipsc_acts_attention_input(b, l));
        assert_same("output of attention", name, n, l, d, lipsc_acts_attention_output(a, l),
                    lipsc_acts_attention_output(b, l));
    }
    assert_same("last hidden state", name, n, info->layers, d, lipsc_acts_output(a),
                lipsc_acts_output(b));
}

static void one_model(fixture *f, lipsc_dtype dtype) {
    const lipsc_model_info *info = lipsc_model_describe(f->model);
    const size_t most =
        info->positions && info->positions < LONGEST ? info->positions : LONGEST;
    uint32_t ids[LONGEST];
    lipsc_error err;
    for (size_t i = 0; i < most; i++)
        ids[i] = (uint32_t)((i * i + 7 * i + 3) % info->vocab);
    lipsc_acts *whole = run(f->model, dtype, 2, most, ids);
    for (size_t i = 0; i < LENGTHS && lengths[i] < most; i++) {
        lipsc_acts *alone = run(f->model, dtype, 1, lengths[i], ids), *first;
        if (lipsc_acts_first(f->model, whole, lengths[i], &first, &err))
            fail_msg("%s", err.text);
        compare(f->name, info, first, alone);
        lipsc_acts_free(first);
        lipsc_acts_free(alone);
    }
    lipsc_acts_free(whole);
}

/* Nearly half of the families, on a device that says so. */
static void beginnings_are_windows(void **state) {
    (void)state;
    char names[MOST_FIXTURES][64];
    const size_t count = list_fixtures(names);
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        fixture f;
        lipsc_error err;
        fixture_open(&f, names[i]);
        if (lipsc_model_use(f.model, test_device(2), &err)) fail_msg("%s", err.text);
        if (lipsc_model_looks_back(f.model)) {
            one_model(&f, LIPSC_F32);
            one_model(&f, LIPSC_F64);
            found++;
        }
        fixture_close(&f);
    }
    const int says = lipsc_device_table(test_device(2))->rows_alone;
    if (count > 1) assert_true(says ? found >= 20 : found == 0);
}

/* Tokens of an encoder see what follows: theirs are no beginnings. */
static void others_are_not(void **state) {
    (void)state;
    static const char *const names[] = {"bert-1", "t5-1", "vit-1", "modernbert-1"};
    if (getenv("LIPSCOPE_FIXTURES") || getenv("LIPSCOPE_FIXTURE")) skip();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        fixture f;
        fixture_open(&f, names[i]);
        assert_false(lipsc_model_looks_back(f.model));
        fixture_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(beginnings_are_windows),
                                       cmocka_unit_test(others_are_not)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
