/* test_gguf_models.c - models in GGUF files against transformers in float64.
 *
 * tools/make_gguf_models.py wrote the files, with the names of the gguf package, and beside
 * them what transformers answered for the folders they were made of. */
#include "model/model.h"
#include "test_device.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "gguf_bytes.h"

#define FOLDER LIPSC_TEST_DATA "/gguf/"

enum { MOST_TOKENS = 64 };

static double sigma_of(lipsc_model *model, const lipsc_acts *acts, size_t layer,
                       lipsc_map_kind kind) {
    const lipsc_map_options options = {.map = kind,
                                       .layer = layer,
                                       .head = -1,
                                       .dtype = LIPSC_F64,
                                       .device = test_device(1)};
    lipsc_svd_settings set;
    lipsc_map *map;
    lipsc_error err = {0};
    double sigma = 0;
    lipsc_svd_defaults(&set);
    set.tol = 1e-10;
    if (lipsc_map_new(model, acts, &options, &map, &err)) fail_msg("%s", err.text);
    assert_int_equal(lipsc_map_sigma(map, &set, &sigma, NULL, NULL, NULL), LIPSC_OK);
    lipsc_map_free(map);
    return sigma;
}

/* Converters round what they change, gains plus one and factors of frequencies, to float:
 * 1e-7 there.  Everything else is the same weights. */
static double tolerance_of(const char *file) {
    return strstr(file, "gemma") || strstr(file, "llama3") ? 1e-6 : 1e-8;
}

static void check_value(const char *file, size_t layer, double got, double want) {
    if (!(fabs(got - want) <= tolerance_of(file) * want))
        fail_msg("%s, layer %zu: %.12g, transformers has %.12g", file, layer, got, want);
}

static void check_model(const char *file, json_t *answer) {
    char path[512];
    lipsc_model *model;
    lipsc_acts *acts;
    lipsc_error err = {0};
    uint32_t ids[MOST_TOKENS];
    json_t *list = json_object_get(answer, "ids"),
           *layers = json_object_get(answer, "layers");
    const size_t n = json_array_size(list);
    assert_true(n > 0 && n <= MOST_TOKENS);
    for (size_t i = 0; i < n; i++)
        ids[i] = (uint32_t)json_integer_value(json_array_get(list, i));
    snprintf(path, sizeof path, FOLDER "%s", file);
    if (lipsc_model_open(path, 1, &model, &err)) fail_msg("%s", err.text);
    if (lipsc_acts_new(model, LIPSC_F64, test_device(0), n, ids, 0, &acts, &err))
        fail_msg("%s", err.text);
    assert_int_equal(json_array_size(layers), lipsc_model_describe(model)->layers);
    for (size_t l = 0; l < json_array_size(layers); l++) {
        json_t *want = json_array_get(layers, l);
        check_value(file, l, sigma_of(model, acts, l, LIPSC_MAP_ATTENTION),
                    json_number_value(json_object_get(want, "attention")));
        check_value(file, l, sigma_of(model, acts, l, LIPSC_MAP_BLOCK),
                    json_number_value(json_object_get(want, "block")));
    }
    lipsc_acts_free(acts);
    lipsc_model_free(model);
}

static void test_answers(void **state) {
    (void)state;
    json_error_t bad;
    json_t *root = json_load_file(FOLDER "models.json", 0, &bad), *answer;
    const char *file;
    assert_true(json_object_size(root) >= 9);
    json_object_foreach(root, file, answer) check_model(file, answer);
    json_decref(root);
}

static void expect(const char *file, const char *part) {
    char path[512];
    lipsc_model *model;
    lipsc_error err = {0};
    snprintf(path, sizeof path, FOLDER "%s", file);
    assert_int_not_equal(lipsc_model_open(path, 1, &model, &err), LIPSC_OK);
    if (!strstr(err.text, part)) fail_msg("no '%s' in: %s", part, err.text);
}

static void test_refused(void **state) {
    (void)state;
    expect("blocks.gguf", "general.architecture is \"blocks\", which is not supported");
    expect("blocks.gguf", "supported are: llama, qwen2");
    expect("qwen2.gguf", "'block_count' is missing"); /* a vocabulary alone */
}

/* A number that is none is not the same as no number. */
static void test_not_finite(void **state) {
    (void)state;
    static const char path[] = "not_finite.gguf";
    const float bad[] = {NAN, INFINITY};
    for (size_t i = 0; i < 2; i++) {
        gguf_bytes g = {.size = 0};
        lipsc_model *model;
        lipsc_error err = {0};
        gguf_note_text(&g, "general.architecture", "llama");
        gguf_note(&g, "llama.rope.freq_base", GGUF_FLOAT32);
        gguf_put(&g, &bad[i], 4);
        assert_int_equal(gguf_write(&g, path), 0);
        assert_int_equal(lipsc_model_open(path, 1, &model, &err), LIPSC_E_NONFIN);
        assert_non_null(strstr(err.text, "note 'llama.rope.freq_base' is not finite"));
        assert_int_equal(remove(path), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
