/* test_layer_files.c - every family through a layer file and back: the singular values that
 * transformers computed come out of the file, and the definition in plain loops confirms
 * the directions of every map. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include "core/extreme.h"
#include "fixture.h"

#include "attn/attn.h"
#include "io/layer_file.h"
#include "model/ref_map.h"
#include "test_device.h"

#include <unistd.h>

static char path[] = "/tmp/lipscope-files-XXXXXX";

static int make_path(void **state) {
    (void)state;
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state) {
    (void)state;
    return unlink(path);
}

static double norm(size_t count, const double *x) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

static double largest(const fixture *f, size_t layer, const char *which) {
    return json_number_value(json_array_get(
        json_object_get(json_array_get(json_object_get(input_json(f, 0), "layers"), layer),
                        which),
        0));
}

/* sigma of one layer after a way through the file, by file alone. */
static double through_file(const fixture *f, const lipsc_acts *acts, size_t layer) {
    lipsc_layer raw, resolved;
    lipsc_layer_file file;
    lipsc_attn *attn = NULL;
    lipsc_svd_settings set;
    lipsc_error err = {0};
    double sigma;
    const lipsc_input input = {.n = lipsc_acts_length(acts),
                               .X = lipsc_acts_attention_input(acts, layer)};
    lipsc_svd_defaults(&set);
    if (lipsc_model_layer(f->model, layer, -1, LIPSC_MAP_ATTENTION, NULL, &raw, &err) ||
        lipsc_layer_check(&raw, &resolved, &err))
        fail_msg("%s: %s", f->name, err.text);
    const lipsc_layer_record record = lipsc_layer_record_of(&resolved, &input);
    if (lipsc_layer_write(path, &record, &err) ||
        lipsc_layer_file_read(path, NULL, &file, &err) ||
        lipsc_attn_new(&file.layer, &file.input, LIPSC_F64, test_device(1), &attn, &err))
        fail_msg("%s: %s", f->name, err.text);
    assert_int_equal(lipsc_attn_sigma(attn, &set, &sigma, NULL, NULL, NULL), LIPSC_OK);
    lipsc_attn_free(attn);
    lipsc_layer_file_free(&file);
    return sigma;
}

/* Every layer of every fixture: 1e-8, as the values of transformers are matched without a
 * file in test_fixtures.c. */
static void one_attention(fixture *f) {
    lipsc_acts *acts = fixture_run(f, 0, LIPSC_F64);
    double worst = 0;
    for (size_t l = 0; l < lipsc_model_describe(f->model)->layers; l++) {
        const double exact = largest(f, l, "attention_singular_values");
        worst = lipsc_max(worst, fabs(through_file(f, acts, l) - exact) / exact);
    }
    print_message("%-20s sigma through a file: %.1e from transformers\n", f->name, worst);
    if (!(worst < 1e-8)) fail_msg("%s: %.3g", f->name, worst);
    lipsc_acts_free(acts);
}

static void test_attention(void **state) {
    (void)state;
    each_fixture(one_attention);
}

/* |J v| of the direction found, by the definition. */
static double confirm(const fixture *f, const lipsc_acts *acts, lipsc_map_kind kind,
                      size_t layer, double *found) {
    const size_t n = lipsc_acts_length(acts), count = n * lipsc_model_describe(f->model)->d;
    const lipsc_map_options options = {.map = kind,
                                       .layer = layer,
                                       .head = -1,
                                       .dtype = LIPSC_F64,
                                       .device = test_device(1)};
    lipsc_error err = {0};
    lipsc_map *map;
    lipsc_svd_settings set;
    lipsc_svd_defaults(&set);
    double *v = malloc(3 * count * sizeof *v), *image = v + count, *back = image + count;
    assert_non_null(v);
    if (lipsc_map_new(f->model, acts, &options, &map, &err)) fail_msg("%s", err.text);
    assert_int_equal(lipsc_map_sigma(map, &set, found, NULL, v, NULL), LIPSC_OK);
    lipsc_map_free(map);
    const double *x = lipsc_acts_block_input(acts, kind == LIPSC_MAP_MODEL ? 0 : layer);
    if (lipsc_model_ref_gram(f->model, &options, n, x, v, image, back, &err))
        fail_msg("%s: %s", f->name, err.text);
    const double sigma = norm(count, image);
    /* <J^T J v, v> = |J v|^2, and the residual of the solve */
    for (size_t e = 0; e < count; e++) back[e] -= sigma * sigma * v[e];
    if (!(norm(count, back) < 1e-7 * sigma * sigma))
        fail_msg("%s map %d: residual %.3g", f->name, (int)kind,
                 norm(count, back) / (sigma * sigma));
    free(v);
    return sigma;
}

static void check_maps(const fixture *f, const lipsc_acts *acts, size_t layer,
                       double worst[2]) {
    const lipsc_map_kind first = lipsc_model_describe(f->model)->pre_norm
                                     ? LIPSC_MAP_NORM_ATTENTION
                                     : LIPSC_MAP_RESIDUAL;
    for (int kind = (int)first; kind <= LIPSC_MAP_MODEL; kind++) {
        double found;
        const double sigma = confirm(f, acts, (lipsc_map_kind)kind, layer, &found);
        worst[0] = lipsc_max(worst[0], fabs(sigma - found) / found);
        if (kind != LIPSC_MAP_BLOCK) continue;
        const double exact = largest(f, layer, "block_singular_values");
        worst[1] = lipsc_max(worst[1], fabs(sigma - exact) / exact);
    }
}

/* The definition against the operators, which share no code: rounding of double through a
 * few blocks; and against transformers as above. */
static void one_definition(fixture *f) {
    lipsc_acts *acts = fixture_run(f, 0, LIPSC_F64);
    double worst[2] = {0};
    check_maps(f, acts, lipsc_model_describe(f->model)->layers - 1, worst);
    print_message("%-20s definition: %.1e from the operators, block %.1e from "
                  "transformers\n",
                  f->name, worst[0], worst[1]);
    if (!(worst[0] < 1e-12) || !(worst[1] < 1e-8)) fail_msg("%s", f->name);
    lipsc_acts_free(acts);
}

static void test_definition(void **state) {
    (void)state;
    each_fixture(one_definition);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_attention),
                                       cmocka_unit_test(test_definition)};
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
