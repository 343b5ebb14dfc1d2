/* test_given.c - a model whose tensors are in memory is the one whose tensors are in the
 * file, whatever their strides and order; and the sentence for every way to give them
 * wrongly. */
#define _XOPEN_SOURCE 700 /* setenv */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h wants the above */
#include <cmocka.h>

#include "core/mem.h"
#include "io/safetensors.h"
#include "lipscope.h"
#include "test_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 128, TOKENS = 7, AXES = 4 };

static const uint32_t ids[TOKENS] = {5, 17, 2, 99, 5, 300, 41};
#define FOLDER LIPSCOPE_SOURCE_DIR "/data/gpt2-nano"

typedef struct {
    lipsc_st *file;
    char *config;
    size_t config_size, count;
    lipsc_model_tensor tensors[MOST];
    ptrdiff_t strides[MOST][AXES];
    double *copies[MOST];
} given;

static int setup(void **state) {
    given *g = calloc(1, sizeof *g);
    lipsc_error err;
    assert_int_equal(lipsc_st_open(FOLDER "/model.safetensors", &g->file, &err), LIPSC_OK);
    assert_int_equal(
        lipsc_bytes_read(FOLDER "/config.json", &g->config, &g->config_size, &err),
        LIPSC_OK);
    g->count = lipsc_st_count(g->file);
    assert_true(g->count <= MOST);
    for (size_t i = 0; i < g->count; i++) {
        const lipsc_st_tensor *t = lipsc_st_at(g->file, i);
        g->tensors[i] =
            (lipsc_model_tensor){t->name, t->dtype, t->ndim, t->shape, t->data, NULL};
    }
    *state = g;
    return 0;
}

static int teardown(void **state) {
    given *g = *state;
    for (size_t i = 0; i < g->count; i++) free(g->copies[i]);
    lipsc_st_free(g->file);
    lipsc_release(g->config);
    free(g);
    return 0;
}

static lipsc_status make(given *g, lipsc_model **model, lipsc_error *err) {
    return lipsc_model_from_memory("mine", g->config, g->config_size, LIPSC_PART_WHOLE,
                                   g->count, g->tensors, model, err);
}

static double *outputs(lipsc_model *model) {
    lipsc_acts *acts;
    lipsc_error err;
    const size_t size = TOKENS * lipsc_model_describe(model)->d * sizeof(double);
    if (lipsc_acts_new(model, LIPSC_F64, test_device(0), TOKENS, ids, 0, &acts, &err))
        fail_msg("%s", err.text);
    double *copy = malloc(size);
    memcpy(copy, lipsc_acts_output(acts), size);
    lipsc_acts_free(acts);
    return copy;
}

/* The model of g computes, bit for bit, what the files' does. */
static void expect_same(given *g) {
    lipsc_model *mine, *theirs;
    lipsc_error err;
    if (make(g, &mine, &err)) fail_msg("%s", err.text);
    assert_int_equal(lipsc_model_open(FOLDER, 1, &theirs, &err), LIPSC_OK);
    double *a = outputs(mine), *b = outputs(theirs);
    assert_memory_equal(a, b, TOKENS * lipsc_model_describe(mine)->d * sizeof *a);
    assert_int_equal(lipsc_model_describe(mine)->parameters,
                     lipsc_model_describe(theirs)->parameters);
    free(a);
    free(b);
    lipsc_model_free(mine);
    lipsc_model_free(theirs);
}

static void test_as_stored(void **state) { expect_same(*state); }

/* Doubles, the last axis first and backwards: the largest strides are the last axis's, and
 * all are negative. */
static void test_strides(void **state) {
    given *g = *state;
    lipsc_error err;
    for (size_t i = 0; i < g->count; i++) {
        const lipsc_st_tensor *t = lipsc_st_at(g->file, i);
        if (t->type == LIPSC_ST_OTHER) continue;
        double *plain = malloc(t->count * sizeof *plain);
        double *turned = g->copies[i] = malloc(t->count * sizeof *turned);
        assert_int_equal(lipsc_st_read_f64(g->file, t, 0, t->count, plain, &err), LIPSC_OK);
        ptrdiff_t step = 1;
        for (size_t axis = 0; axis < t->ndim; axis++) {
            g->strides[i][axis] = -step * (ptrdiff_t)sizeof *plain;
            step *= (ptrdiff_t)t->shape[axis];
        }
        for (size_t k = 0; k < t->count; k++) {
            size_t rest = k;
            ptrdiff_t at = (ptrdiff_t)t->count - 1;
            for (size_t axis = t->ndim; axis-- > 0;) {
                at += (ptrdiff_t)(rest % t->shape[axis]) * g->strides[i][axis] /
                      (ptrdiff_t)sizeof *plain;
                rest /= t->shape[axis];
            }
            turned[at] = plain[k];
        }
        free(plain);
        g->tensors[i].dtype = "F64";
        g->tensors[i].data = turned + t->count - 1;
        g->tensors[i].strides = g->strides[i];
    }
    expect_same(g);
}

/* Neither order nor strides change the hash; a number does. */
static void test_hash(void **state) {
    given *g = *state;
    lipsc_model *a, *b, *c;
    lipsc_error err;
    assert_int_equal(make(g, &a, &err), LIPSC_OK);
    const lipsc_model_tensor first = g->tensors[0];
    g->tensors[0] = g->tensors[g->count - 1];
    g->tensors[g->count - 1] = first;
    assert_int_equal(make(g, &b, &err), LIPSC_OK);
    assert_string_equal(lipsc_model_describe(a)->hash, lipsc_model_describe(b)->hash);
    const lipsc_st_tensor *t = lipsc_st_find(g->file, first.name);
    uint8_t *changed = malloc(t->bytes);
    memcpy(changed, t->data, t->bytes);
    changed[0] ^= 1;
    g->tensors[g->count - 1].data = changed;
    assert_int_equal(make(g, &c, &err), LIPSC_OK);
    assert_string_not_equal(lipsc_model_describe(a)->hash, lipsc_model_describe(c)->hash);
    lipsc_model_free(a);
    lipsc_model_free(b);
    lipsc_model_free(c);
    free(changed);
}

static void expect_refusal(given *g, const char *words) {
    lipsc_model *model;
    lipsc_error err;
    assert_int_not_equal(make(g, &model, &err), LIPSC_OK);
    if (!strstr(err.text, words)) fail_msg("'%s' is not in: %s", words, err.text);
}

static void test_refusals(void **state) {
    given *g = *state;
    static const size_t huge[] = {SIZE_MAX / 2, 3};
    const lipsc_model_tensor kept = g->tensors[0];
    g->tensors[0].name = g->tensors[1].name;
    expect_refusal(g, "is there twice");
    g->tensors[0] = kept;
    g->tensors[0].data = NULL;
    expect_refusal(g, "has no numbers");
    g->tensors[0] = kept;
    g->tensors[0].shape = NULL;
    expect_refusal(g, "no shape");
    g->tensors[0] = kept;
    g->tensors[0].ndim = 2;
    g->tensors[0].shape = huge;
    expect_refusal(g, "too large");
    g->tensors[0] = kept;
    g->tensors[0].ndim = 99;
    expect_refusal(g, "eight axes");
    g->tensors[0] = kept;
    const size_t wrong[] = {3};
    g->tensors[0].ndim = 1;
    g->tensors[0].shape = wrong;
    expect_refusal(g, "has shape (3)");
    g->tensors[0] = kept;
    g->tensors[0].dtype = "I8";
    expect_refusal(g, "I8");
    g->tensors[0] = kept;
    g->config_size /= 2;
    expect_refusal(g, "mine");
}

static void test_builtin(void **state) {
    (void)state;
    lipsc_model *named, *read;
    lipsc_tokenizer *tokenizer;
    lipsc_error err;
    char *text;
    size_t size;
    assert_int_equal(setenv("LIPSCOPE_DATA", LIPSCOPE_SOURCE_DIR "/data", 1), 0);
    if (lipsc_model_open("builtin:gpt2-nano", 1, &named, &err)) fail_msg("%s", err.text);
    assert_int_equal(lipsc_model_open(FOLDER, 1, &read, &err), LIPSC_OK);
    assert_string_equal(lipsc_model_describe(named)->hash,
                        lipsc_model_describe(read)->hash);
    assert_int_equal(lipsc_tokenizer_open("builtin:gpt2-nano", &tokenizer, &err), LIPSC_OK);
    assert_int_equal(lipsc_bytes_read("builtin:lighthouse", &text, &size, &err), LIPSC_OK);
    assert_true(size > 20000);
    lipsc_release(text);
    lipsc_tokenizer_free(tokenizer);
    lipsc_model_free(named);
    lipsc_model_free(read);
    assert_int_equal(lipsc_model_open("builtin:nothing", 1, &named, &err), LIPSC_E_ARG);
    assert_non_null(strstr(err.text, "builtin:gpt2-nano"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_as_stored, setup, teardown),
        cmocka_unit_test_setup_teardown(test_strides, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hash, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
        cmocka_unit_test(test_builtin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
