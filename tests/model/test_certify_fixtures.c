/* test_certify_fixtures.c - every fixture certified to 1e-3, for attention and whole
 * blocks; the singular values that transformers found lie between the bounds.  Prints how
 * close the bounds came, and what it took. */
#include "fixture.h"

#include "core/clock.h"
#include "core/rng.h"
#include "model/rounding.h"
#include "test_device.h"

static double worst; /* upper / lower over the layers of a fixture */

/* The forward passes differ by rounding: 1e-9, as in test_fixtures. */
static void check(const fixture *f, size_t layer, const char *map, double exact,
                  lipsc_status status, const lipsc_certificate *got,
                  const lipsc_error *err) {
    if (status) fail_msg("%s: layer %zu, %s: %s", f->name, layer, map, err->text);
    if (!(got->certified && got->upper <= 1.001 * got->lower &&
          got->lower <= exact * (1.0 + 1e-9) && exact <= got->upper * (1.0 + 1e-9)))
        fail_msg("%s: layer %zu, %s: [%.17g, %.17g] for %.17g", f->name, layer, map,
                 got->lower, got->upper, exact);
    if (!(got->upper / got->lower <= worst)) worst = got->upper / got->lower;
}

static void certify(const fixture *f, const lipsc_acts *acts, size_t layer,
                    lipsc_map_kind kind) {
    const char *key =
        kind == LIPSC_MAP_BLOCK ? "block_singular_values" : "attention_singular_values";
    json_t *layers = json_object_get(input_json(f, 0), "layers");
    json_t *values = json_object_get(json_array_get(layers, layer), key);
    const lipsc_map_options how = {.map = kind,
                                   .layer = layer,
                                   .head = -1,
                                   .dtype = LIPSC_F64,
                                   .device = test_device(2)};
    lipsc_map *map;
    lipsc_error err = {0};
    lipsc_svd_settings solver;
    lipsc_certify_settings set;
    lipsc_certificate got;
    lipsc_svd_info info;
    double sigma;
    assert_int_equal(lipsc_map_new(f->model, acts, &how, &map, &err), LIPSC_OK);
    double *v = malloc(lipsc_map_linop(map).n * sizeof *v);
    assert_non_null(v);
    lipsc_svd_defaults(&solver);
    lipsc_certify_defaults(&set);
    assert_int_equal(lipsc_map_sigma(map, &solver, &sigma, NULL, v, &info), LIPSC_OK);
    const lipsc_status status = lipsc_map_certify(map, v, &set, &got, &err);
    check(f, layer, key, json_number_value(json_array_get(values, 0)), status, &got, &err);
    free(v);
    lipsc_map_free(map);
}

static void one_fixtures(fixture *f) {
    lipsc_acts *acts = fixture_run(f, 0, LIPSC_F64);
    const lipsc_map_kind kinds[] = {LIPSC_MAP_ATTENTION, LIPSC_MAP_BLOCK};
    for (int k = 0; k < 2; k++) {
        worst = 0.0;
        const double begin = lipsc_seconds();
        for (size_t l = 0; l < lipsc_model_describe(f->model)->layers; l++)
            certify(f, acts, l, kinds[k]);
        printf("%-24s %-9s upper / lower <= %.8f  %.2f s\n", f->name,
               k ? "block" : "attention", worst, lipsc_seconds() - begin);
    }
    lipsc_acts_free(acts);
}

static void test_fixtures(void **state) {
    (void)state;
    each_fixture(one_fixtures);
}

/* The slope of relu is known as long as no argument can pass zero, and then products have a
 * bound; at an argument within its error of zero nothing is known of the block. */
static void test_relu_near_its_kink(void **state) {
    (void)state;
    enum { TOKENS = 3 };
    char dir[PATH_SIZE];
    lipsc_model *model;
    lipsc_error err = {0};
    snprintf(dir, sizeof dir, "%s/fixtures/opt-1", LIPSC_TEST_DATA);
    if (lipsc_model_open(dir, 1, &model, &err)) fail_msg("%s", err.text);
    const lipsc_space *space = lipsc_device_space(model->home, LIPSC_F64);
    const size_t count = TOKENS * model->config.d;
    double *host = malloc(count * sizeof *host), size = 0.0;
    const lipsc_buffer x = lipsc_space_alloc(space, count);
    for (size_t e = 0; e < count; e++) host[e] = lipsc_rng_normal(7, e);
    for (size_t e = 0; e < count; e++) size += host[e] * host[e];
    assert_int_equal(lipsc_space_upload(space, count, host, x), LIPSC_OK);
    lipsc_block_point point;
    if (lipsc_block_at(model, 0, LIPSC_UP_TO_BLOCK, NULL, LIPSC_F64, model->home, TOKENS, x,
                       1, &point, LIPSC_NOWHERE, NULL, &err))
        fail_msg("%s", err.text);
    const double kinks[] = {point.kink, 1e-18, 0.0, NAN};
    assert_true(point.kink > 1e-9);
    for (int k = 0; k < 4; k++) {
        double length = sqrt(size);
        lipsc_stretch found;
        point.kink = kinks[k];
        assert_int_equal(lipsc_block_rounding(&point, &length, &found), LIPSC_OK);
        assert_true(k ? found.eps == INFINITY : found.eps < 1e-6 * found.norm);
    }
    lipsc_block_free(&point);
    lipsc_space_release(space, x);
    free(host);
    lipsc_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_relu_near_its_kink),
                                       cmocka_unit_test(test_fixtures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
