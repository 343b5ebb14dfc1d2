/* test_models.c - trained models against published answers: sigma per layer by transformers
 * in float64, greedy decoding, and a checkpoint that holds only some layers. */
#include "../model/references.h"
#include "test_device.h"

#define MODELS LIPSC_SHARED_DIR "/models/"

/* NULL, with the reason printed, where the folder is absent. */
static lipsc_model *open_model(const char *name) {
    char dir[PATH_SIZE], path[PATH_SIZE + 16];
    lipsc_error err = {0};
    lipsc_model *model = NULL;
    snprintf(dir, sizeof dir, MODELS "%s", name);
    snprintf(path, sizeof path, "%s/config.json", dir);
    FILE *there = fopen(path, "rb");
    if (!there) {
        print_message("skipped: no %s\n", dir);
        return NULL;
    }
    fclose(there);
    if (lipsc_model_open(dir, 1, &model, &err)) fail_msg("%s", err.text);
    return model;
}

/* ---- sigma of every layer, by transformers ------------------------------------------ */

/* The models lie beside the repository. */
static void check_model(const char *name) {
    lipsc_model *model = open_model(name);
    if (!model) skip();
    lipsc_model_free(model);
    char path[PATH_SIZE], dir[PATH_SIZE];
    snprintf(dir, sizeof dir, MODELS "%s", name);
    snprintf(path, sizeof path, LIPSC_SHARED_DIR "/references/%s.json", name);
    check_references(name, dir, path);
}

static void test_gpt2_nano(void **state) {
    (void)state;
    check_model("gpt2-nano");
}

static void test_minilm(void **state) {
    (void)state;
    check_model("all-MiniLM-L6-v2");
}

/* ---- Greedy decoding ---------------------------------------------------------------- */

/* The embedding is tied: the next token is the row of largest product with the last hidden
 * state.  The ids are those of ../shared/models/README.md. */
static void test_stories(void **state) {
    (void)state;
    static const uint32_t expected[] = {1,   403, 407, 261, 378, 432, 383, 286,
                                        261, 376, 298, 315, 421, 395, 317, 426,
                                        338, 401, 396, 267, 337, 410};
    enum { COUNT = sizeof expected / sizeof expected[0] };
    lipsc_model *model = open_model("stories260K");
    if (!model) skip();
    const lipsc_model_info *info = lipsc_model_describe(model);
    lipsc_st *st;
    assert_int_equal(lipsc_st_open(MODELS "stories260K/model.safetensors", &st, NULL),
                     LIPSC_OK);
    const lipsc_st_tensor *table = lipsc_st_find(st, "model.embed_tokens.weight");
    assert_non_null(table);
    double *embedding = malloc(table->count * sizeof *embedding);
    assert_non_null(embedding);
    assert_int_equal(lipsc_st_read_f64(st, table, 0, table->count, embedding, NULL),
                     LIPSC_OK);
    for (int t = 0; t < 2; t++)
        for (size_t n = 1; n < COUNT; n++) {
            lipsc_acts *acts;
            lipsc_error err = {0};
            if (lipsc_acts_new(model, (lipsc_dtype)t, test_device(0), n, expected, 0, &acts,
                               &err))
                fail_msg("%s", err.text);
            const double *last = lipsc_acts_output(acts) + (n - 1) * info->d;
            double largest = -INFINITY;
            uint32_t best = 0;
            for (uint32_t id = 0; id < info->vocab; id++) {
                double score = 0;
                for (size_t c = 0; c < info->d; c++)
                    score += embedding[id * info->d + c] * last[c];
                if (score > largest) largest = score, best = id;
            }
            assert_int_equal(best, expected[n]);
            lipsc_acts_free(acts);
        }
    free(embedding);
    lipsc_st_free(st);
    lipsc_model_free(model);
}

/* ---- A part of a checkpoint --------------------------------------------------------- */

static void test_attention_only(void **state) {
    (void)state;
    lipsc_model *model = open_model("gpt2-attention");
    if (!model) skip();
    const lipsc_model_info *info = lipsc_model_describe(model);
    assert_int_equal(info->has_embeddings, 0);
    assert_int_equal(info->layers, 12);
    assert_string_equal(info->stored, "F32");
    for (size_t l = 0; l < 12; l++)
        assert_int_equal(lipsc_model_has_layer(model, l), l == 0 || l == 6);

    lipsc_error err = {0};
    lipsc_acts *acts;
    const uint32_t ids[2] = {1, 2};
    assert_int_equal(
        lipsc_acts_new(model, LIPSC_F32, test_device(0), 2, ids, 0, &acts, &err),
        LIPSC_E_ARG);
    assert_non_null(strstr(err.text, "cannot read text"));
    lipsc_layer layer;
    assert_int_equal(
        lipsc_model_layer(model, 6, -1, LIPSC_MAP_ATTENTION, NULL, &layer, &err), LIPSC_OK);
    assert_true(layer.mask == LIPSC_MASK_CAUSAL && layer.heads == 12 && layer.O &&
                layer.bo);
    assert_int_equal(
        lipsc_model_layer(model, 5, -1, LIPSC_MAP_ATTENTION, NULL, &layer, &err),
        LIPSC_E_ARG);
    assert_non_null(strstr(err.text, "layer 5"));

    /* ln_1 is there, the MLP is not */
    double *x = calloc(4 * 768, sizeof *x);
    assert_non_null(x);
    for (size_t e = 0; e < 4 * 768; e++) x[e] = sin((double)e);
    lipsc_map *map;
    lipsc_map_options o = {
        .map = LIPSC_MAP_RESIDUAL, .layer = 6, .head = -1, .device = test_device(1)};
    assert_int_equal(lipsc_map_new_at(model, 4, x, &o, &map, &err), LIPSC_OK);
    lipsc_map_free(map);
    o.map = LIPSC_MAP_BLOCK;
    assert_int_equal(lipsc_map_new_at(model, 4, x, &o, &map, &err), LIPSC_E_FORMAT);
    assert_non_null(strstr(err.text, "h.6.mlp.c_fc.weight"));
    free(x);
    lipsc_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2_nano), cmocka_unit_test(test_minilm),
        cmocka_unit_test(test_stories), cmocka_unit_test(test_attention_only)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
