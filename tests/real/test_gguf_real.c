/* test_gguf_real.c - published GGUF files against transformers in float64 on the weights as
 * the gguf package unpacks them.  LIPSCOPE_REAL_MODELS names the folder that
 * tools/real_models.py made; without it the tests are skipped. */
#include "../model/fixture.h"

#include "io/checkpoint.h"
#include "token/token.h"
#include "test_device.h"

#include <stdlib.h>

enum { TEXT = 4096 };

#define SMOLLM2 LIPSC_SHARED_DIR "/references/real-smollm2.json"
#define QWEN    LIPSC_SHARED_DIR "/references/real-qwen2.5-coder-0.5b.json"
#define GEMMA   LIPSC_TEST_DATA "/references/real-gemma-3-270m.json"

typedef struct {
    lipsc_model *model;
    uint32_t *ids;
    size_t count;
    json_t *root;
} real;

static int open_real(const char *model, const char *reference, real *out) {
    const char *folder = getenv("LIPSCOPE_REAL_MODELS");
    char path[PATH_SIZE], text[TEXT];
    lipsc_error err = {0};
    lipsc_tokenizer *tokenizer;
    snprintf(path, sizeof path, "%s/%s/model.gguf", folder ? folder : "", model);
    FILE *there = folder ? fopen(path, "rb") : NULL;
    FILE *alice = fopen(LIPSC_SHARED_DIR "/texts/alice29.txt", "rb");
    const size_t size = alice ? fread(text, 1, sizeof text, alice) : 0;
    if (there) fclose(there);
    if (alice) fclose(alice);
    if (!there || !alice) {
        print_message("skipped: LIPSCOPE_REAL_MODELS has no %s\n", model);
        return 0;
    }
    if (lipsc_model_open(path, 1, &out->model, &err)) fail_msg("%s", err.text);
    if (lipsc_tokenizer_open(path, &tokenizer, &err)) fail_msg("%s", err.text);
    if (lipsc_tokenizer_encode(tokenizer, text, size, 0, &out->ids, &out->count, &err))
        fail_msg("%s", err.text);
    lipsc_tokenizer_free(tokenizer);
    out->root = load_json(reference);
    return 1;
}

static void close_real(real *r) {
    json_decref(r->root);
    free(r->ids);
    lipsc_model_free(r->model);
}

static double sigma_of(const real *r, size_t n, size_t layer) {
    const lipsc_map_options options = {.map = LIPSC_MAP_ATTENTION,
                                       .layer = layer,
                                       .head = -1,
                                       .dtype = LIPSC_F64,
                                       .device = test_device(2)};
    lipsc_svd_settings set;
    lipsc_acts *acts = NULL;
    lipsc_map *map = NULL;
    lipsc_error err = {0};
    double sigma = 0;
    lipsc_svd_defaults(&set);
    if (lipsc_acts_new(r->model, LIPSC_F64, test_device(0), n, r->ids, layer + 1, &acts,
                       &err) ||
        lipsc_map_new(r->model, acts, &options, &map, &err))
        fail_msg("%s", err.text);
    assert_int_equal(lipsc_map_sigma(map, &set, &sigma, NULL, NULL, NULL), LIPSC_OK);
    lipsc_map_free(map);
    lipsc_acts_free(acts);
    return sigma;
}

/* The bar is 1e-6; both sides compute in float64 on the same weights, and 1e-10 leaves room
 * for the solver's tolerance alone. */
static void check_real(const char *model, const char *reference, double tolerance) {
    real r;
    if (!open_real(model, reference, &r)) skip();
    json_t *first = json_object_get(r.root, "first_ids"), *cell;
    json_t *cells = json_object_get(r.root, "cells");
    size_t i;
    assert_true(json_array_size(first) > 0 && json_array_size(first) <= r.count);
    for (i = 0; i < json_array_size(first); i++)
        assert_int_equal(r.ids[i], json_integer_value(json_array_get(first, i)));
    assert_true(json_array_size(cells) > 0);
    json_array_foreach(cells, i, cell) {
        const size_t n = (size_t)json_integer_value(json_object_get(cell, "n"));
        const size_t layer = (size_t)json_integer_value(json_object_get(cell, "layer"));
        const double want = json_number_value(json_object_get(cell, "sigma"));
        const double got = sigma_of(&r, n, layer);
        if (!(fabs(got - want) <= tolerance * want))
            fail_msg("%s, n %zu, layer %zu: %.15g, transformers has %.15g", model, n, layer,
                     got, want);
    }
    close_real(&r);
}

/* ---- What the model would write ----------------------------------------------------- */

/* The id whose row of the head is largest on h (d). */
static uint32_t best_id(const lipsc_checkpoint *files, size_t d, const double *h) {
    lipsc_stored head;
    lipsc_error err = {0};
    double *row = malloc(d * sizeof *row), largest = -INFINITY;
    uint32_t best = 0;
    assert_non_null(row);
    if (!lipsc_checkpoint_find(files, "output.weight", &head))
        assert_true(lipsc_checkpoint_find(files, "token_embd.weight", &head));
    for (size_t id = 0; id < head.shape[0]; id++) {
        double logit = 0;
        if (lipsc_stored_read(&head, id * d, d, row, &err)) fail_msg("%s", err.text);
        for (size_t c = 0; c < d; c++) logit += row[c] * h[c];
        if (logit > largest) {
            largest = logit;
            best = (uint32_t)id;
        }
    }
    free(row);
    return best;
}

static void check_prompt(const char *path, json_t *greedy, const uint32_t *ids, size_t n) {
    lipsc_tokenizer *tokenizer;
    lipsc_error err = {0};
    const char *prompt = json_string_value(json_object_get(greedy, "prompt"));
    uint32_t *ours = NULL;
    size_t count = 0;
    if (lipsc_tokenizer_open(path, &tokenizer, &err) ||
        lipsc_tokenizer_encode(tokenizer, prompt, strlen(prompt), 0, &ours, &count, &err))
        fail_msg("%s", err.text);
    assert_int_equal(count, n);
    assert_memory_equal(ours, ids, n * sizeof *ids);
    free(ours);
    lipsc_tokenizer_free(tokenizer);
}

/* Behind every beginning of what transformers wrote, its next token is the likeliest; one
 * pass is enough, since no token sees those behind it. */
static void check_greedy(const char *model, const char *reference) {
    real r;
    char path[PATH_SIZE];
    lipsc_checkpoint *files;
    lipsc_acts *acts = NULL;
    lipsc_error err = {0};
    uint32_t ids[64];
    if (!open_real(model, reference, &r)) skip();
    json_t *greedy = json_object_get(r.root, "greedy");
    json_t *want = json_object_get(greedy, "ids");
    const size_t first = json_array_size(json_object_get(greedy, "prompt_ids"));
    const size_t count = json_array_size(want);
    assert_true(first > 0 && count > first && count <= 64);
    for (size_t i = 0; i < count; i++)
        ids[i] = (uint32_t)json_integer_value(json_array_get(want, i));
    snprintf(path, sizeof path, "%s/%s/model.gguf", getenv("LIPSCOPE_REAL_MODELS"), model);
    check_prompt(path, greedy, ids, first);
    if (lipsc_checkpoint_open(path, &files, &err)) fail_msg("%s", err.text);
    if (lipsc_acts_new(r.model, LIPSC_F32, test_device(0), count - 1, ids, 0, &acts, &err))
        fail_msg("%s", err.text);
    const size_t d = lipsc_model_describe(r.model)->d;
    for (size_t n = first; n < count; n++)
        assert_int_equal(best_id(files, d, lipsc_acts_output(acts) + (n - 1) * d), ids[n]);
    lipsc_acts_free(acts);
    lipsc_checkpoint_free(files);
    close_real(&r);
}

static void test_greedy(void **state) {
    (void)state;
    check_greedy("smollm2-135m", SMOLLM2);
    check_greedy("qwen2.5-coder-0.5b", QWEN);
}

static void test_smollm2(void **state) {
    (void)state;
    check_real("smollm2-135m", SMOLLM2, 1e-10);
}

static void test_qwen(void **state) {
    (void)state;
    check_real("qwen2.5-coder-0.5b", QWEN, 1e-10);
}

/* transformers has the root of the width and the gains, one less than in the file, in
 * float32, which moves sigma by up to 3e-8: the bar itself. */
static void test_gemma(void **state) {
    (void)state;
    check_real("gemma-3-270m", GEMMA, 1e-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smollm2),
        cmocka_unit_test(test_qwen),
        cmocka_unit_test(test_gemma),
        cmocka_unit_test(test_greedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
