/* test_adversarial.c - the authors' adversarial inputs of GPT-2: the exact sigma and what
 * their scripts return, against values by PyTorch in float64; and that the eigenvector rule
 * finds the stored direction. */
#include "core/extreme.h"
#include "attn/attn.h"
#include "bound/construct.h"
#include "../model/fixture.h"

#define REFERENCES LIPSC_SHARED_DIR "/references/gpt2-adversarial"
#define MODEL      LIPSC_SHARED_DIR "/models/gpt2-attention"

static const double tolerance = 1e-7; /* of the reference: PyTorch in float64 */

#if defined(__SANITIZE_ADDRESS__) /* thirty times slower: every eighth length and the last \
                                   */
enum { EVERY = 8 };
#else
enum { EVERY = 1 };
#endif

static lipsc_model *open_gpt2(void) {
    FILE *there = fopen(REFERENCES ".json", "rb");
    lipsc_error err = {0};
    lipsc_model *model = NULL;
    if (!there) {
        print_message("skipped: no " REFERENCES ".json\n");
        return NULL;
    }
    fclose(there);
    if (lipsc_model_open(MODEL, 1, &model, &err)) fail_msg("%s", err.text);
    return model;
}

/* Unit direction `name`, d numbers; to be freed. */
static double *direction(const char *name, size_t d) {
    lipsc_error err = {0};
    lipsc_st *st = NULL;
    double *u = malloc(d * sizeof *u);
    assert_non_null(u);
    if (lipsc_st_open(REFERENCES ".safetensors", &st, &err)) fail_msg("%s", err.text);
    const lipsc_st_tensor *t = lipsc_st_find(st, name);
    assert_true(t && t->count == d);
    if (lipsc_st_read_f64(st, t, 0, d, u, &err)) fail_msg("%s", err.text);
    lipsc_st_free(st);
    return u;
}

static void check_length(lipsc_packed *packed, const double *u, double R, json_t *row,
                         double worst[2]) {
    const lipsc_layer *layer = lipsc_packed_layer(packed);
    const size_t n = (size_t)json_integer_value(json_object_get(row, "n"));
    double *X = malloc(n * layer->d * sizeof *X), sigma, released;
    lipsc_attn *attn = NULL;
    lipsc_error err = {0};
    assert_non_null(X);
    for (size_t e = 0; e < n * layer->d; e++)
        X[e] = (e < layer->d ? -R : R) * u[e % layer->d];
    const lipsc_input input = {.n = n, .X = X};
    if (lipsc_attn_at(packed, NULL, &input, LIPSC_F64, lipsc_cpu_of(2), &attn, &err))
        fail_msg("%s", err.text);
    lipsc_svd_settings set;
    lipsc_svd_info info;
    lipsc_svd_defaults(&set);
    set.tol = 1e-5; /* the value's own error is about its square */
    assert_int_equal(lipsc_attn_sigma(attn, &set, &sigma, NULL, NULL, &info), LIPSC_OK);
    assert_int_equal(lipsc_attn_released(attn, &released), LIPSC_OK);
    const double want[] = {json_real_value(json_object_get(row, "sigma")),
                           json_real_value(json_object_get(row, "released"))};
    worst[0] = lipsc_max(worst[0], fabs(sigma - want[0]) / want[0]);
    worst[1] = lipsc_max(worst[1], fabs(released - want[1]) / want[1]);
    lipsc_attn_free(attn);
    free(X);
}

static void published_inputs(void **state) {
    (void)state;
    lipsc_model *model = open_gpt2();
    if (!model) skip();
    lipsc_layer layer;
    lipsc_packed *packed = NULL;
    lipsc_error err = {0};
    if (lipsc_model_layer(model, 0, -1, LIPSC_MAP_ATTENTION, NULL, &layer, &err) ||
        lipsc_packed_new(&layer, 0, &packed, &err))
        fail_msg("%s", err.text);
    json_t *root = load_json(REFERENCES ".json"), *one;
    const double R = json_real_value(json_object_get(root, "R"));
    size_t c, r;
    json_array_foreach(json_object_get(root, "cases"), c, one) {
        const char *name = json_string_value(json_object_get(one, "name"));
        double *u = direction(name, layer.d), worst[2] = {0, 0};
        json_t *row, *rows = json_object_get(one, "rows");
        assert_string_equal(json_string_value(json_object_get(one, "rule")),
                            "(-R u, R u, ...)");
        json_array_foreach(rows, r, row) {
            const size_t last = json_array_size(rows) - 1;
            if (r % EVERY == 0 || r == last) check_length(packed, u, R, row, worst);
        }
        print_message("  %s: sigma to %.1e, released to %.1e\n", name, worst[0], worst[1]);
        assert_true(worst[0] < tolerance && worst[1] < tolerance);
        free(u);
    }
    json_decref(root);
    lipsc_packed_free(packed);
    lipsc_model_free(model);
}

/* Head 0 alone: its smallest real eigenvalue, and the direction up to its sign. */
static void eigenvector_rule(void **state) {
    (void)state;
    lipsc_model *model = open_gpt2();
    if (!model) skip();
    lipsc_layer raw, layer;
    lipsc_error err = {0};
    lipsc_head_facts facts;
    lipsc_worst worst;
    if (lipsc_model_layer(model, 0, 0, LIPSC_MAP_ATTENTION, NULL, &raw, &err) ||
        lipsc_layer_check(&raw, &layer, &err))
        fail_msg("%s", err.text);
    assert_int_equal(lipsc_head_facts_make(&layer, 0, &facts), LIPSC_OK);
    if (lipsc_construct_eigenvector(&facts, 10.0, 12, 1, 1, &worst, &err))
        fail_msg("%s", err.text);
    double *u = direction("head0", layer.d), along = 0.0;
    for (size_t c = 0; c < layer.d; c++) along += u[c] * worst.X[c] / 10.0;
    assert_true(fabs(fabs(along) - 1.0) < 1e-9);
    for (size_t c = 0; c < layer.d; c++) /* the bulk stands opposite */
        assert_true(fabs(worst.X[layer.d + c] + worst.X[c]) < 1e-12);
    free(u);
    lipsc_worst_free(&worst);
    lipsc_head_facts_free(&facts);
    lipsc_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(published_inputs),
                                       cmocka_unit_test(eigenvector_rule)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
