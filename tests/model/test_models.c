/* test_models.c - models that read text against transformers: sigma per layer in float64; a
 * checkpoint that holds only some layers. */
#include "references.h"
#include "test_device.h"

#define REFERENCES LIPSC_TEST_DATA "/references/"

static void test_gpt2_nano(void **state) {
    (void)state;
    check_references("gpt2-nano", LIPSC_DATA_DIR "/gpt2-nano", REFERENCES "gpt2-nano.json");
}

static void test_bert_nano(void **state) {
    (void)state;
    check_references("bert-nano", LIPSC_TEST_DATA "/models/bert-nano",
                     REFERENCES "bert-nano.json");
}

/* Attention and first norm of layers 0 and 2 of four. */
static void test_part(void **state) {
    (void)state;
    lipsc_error err = {0};
    lipsc_model *model = NULL;
    if (lipsc_model_open(LIPSC_TEST_DATA "/models/gpt2-part", 1, &model, &err))
        fail_msg("%s", err.text);
    assert_false(lipsc_model_describe(model)->has_embeddings);
    for (size_t l = 0; l < 4; l++)
        assert_int_equal(lipsc_model_has_layer(model, l), l % 2 == 0);
    lipsc_acts *acts;
    lipsc_layer layer;
    const uint32_t ids[2] = {1, 2};
    assert_int_equal(
        lipsc_acts_new(model, LIPSC_F32, test_device(0), 2, ids, 0, &acts, &err),
        LIPSC_E_ARG);
    assert_non_null(strstr(err.text, "cannot read text"));
    assert_int_equal(
        lipsc_model_layer(model, 2, -1, LIPSC_MAP_ATTENTION, NULL, &layer, &err), LIPSC_OK);
    assert_true(layer.mask == LIPSC_MASK_CAUSAL && layer.heads == 3 && layer.O && layer.bo);
    assert_int_equal(
        lipsc_model_layer(model, 1, -1, LIPSC_MAP_ATTENTION, NULL, &layer, &err),
        LIPSC_E_ARG);
    assert_non_null(strstr(err.text, "layer 1"));
    lipsc_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2_nano),
        cmocka_unit_test(test_bert_nano),
        cmocka_unit_test(test_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
