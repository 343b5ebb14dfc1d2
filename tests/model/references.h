/* references.h - sigma of every layer of a model that reads text, as transformers computed
 * it in float64. */
#ifndef LIPSC_TESTS_REFERENCES_H
#define LIPSC_TESTS_REFERENCES_H

#include "core/extreme.h"
#include "fixture.h"
#include "test_device.h"

typedef struct {
    double sigma, radius_rms, radius_max;
} row;

static inline row measure(lipsc_model *model, const lipsc_acts *acts, size_t layer,
                          lipsc_dtype dtype) {
    const size_t n = lipsc_acts_length(acts), d = lipsc_model_describe(model)->d;
    const lipsc_map_options options = {.map = LIPSC_MAP_ATTENTION,
                                       .layer = layer,
                                       .head = -1,
                                       .dtype = dtype,
                                       .device = test_device(2)};
    lipsc_error err = {0};
    lipsc_map *map;
    if (lipsc_map_new(model, acts, &options, &map, &err)) fail_msg("%s", err.text);
    lipsc_svd_settings set;
    row r = {0};
    lipsc_svd_defaults(&set);
    assert_int_equal(lipsc_map_sigma(map, &set, &r.sigma, NULL, NULL, NULL), LIPSC_OK);
    lipsc_map_free(map);
    const double *x = lipsc_acts_attention_input(acts, layer);
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double square = 0;
        for (size_t c = 0; c < d; c++) square += x[i * d + c] * x[i * d + c];
        sum += square;
        r.radius_max = lipsc_max(r.radius_max, sqrt(square));
    }
    r.radius_rms = sqrt(sum / (double)n);
    return r;
}

/* Window w of length n as the references have it: ids w n ... (w+1) n - 1. */
static inline lipsc_acts *run_window(lipsc_model *model, json_t *ids, size_t n, size_t w,
                                     lipsc_dtype dtype) {
    uint32_t window[MOST_TOKENS];
    lipsc_error err = {0};
    lipsc_acts *acts;
    assert_true((w + 1) * n <= json_array_size(ids) && n <= MOST_TOKENS);
    for (size_t i = 0; i < n; i++)
        window[i] = (uint32_t)json_integer_value(json_array_get(ids, w * n + i));
    if (lipsc_acts_new(model, dtype, test_device(0), n, window, 0, &acts, &err))
        fail_msg("%s", err.text);
    return acts;
}

/* The bars: 1e-7 in f64, 1e-3 with the default tolerance of f32. */
static inline void check_references(const char *name, const char *dir, const char *path) {
    lipsc_error err = {0};
    lipsc_model *model = NULL;
    if (lipsc_model_open(dir, 1, &model, &err)) fail_msg("%s", err.text);
    json_t *root = load_json(path), *ids = json_object_get(root, "ids");
    json_t *rows = json_object_get(root, "rows"), *entry;
    size_t i;
    double worst[2] = {0}, radius = 0;
    lipsc_acts *acts[2] = {NULL, NULL};
    size_t n = 0, w = 0;
    json_array_foreach(rows, i, entry) {
        const size_t new_n = (size_t)json_integer_value(json_object_get(entry, "n"));
        const size_t new_w = (size_t)json_integer_value(json_object_get(entry, "window"));
        for (int t = 0; (new_n != n || new_w != w) && t < 2; t++) {
            lipsc_acts_free(acts[t]);
            acts[t] = run_window(model, ids, new_n, new_w, (lipsc_dtype)t);
        }
        n = new_n, w = new_w;
        for (int t = 0; t < 2; t++) {
            const row r = measure(
                model, acts[t], (size_t)json_integer_value(json_object_get(entry, "layer")),
                (lipsc_dtype)t);
            const double sigma = json_number_value(json_object_get(entry, "sigma"));
            const double rms = json_number_value(json_object_get(entry, "radius_rms"));
            const double max = json_number_value(json_object_get(entry, "radius_max"));
            worst[t] = lipsc_max(worst[t], fabs(r.sigma / sigma - 1));
            if (t == LIPSC_F64)
                radius = lipsc_max(radius, lipsc_max(fabs(r.radius_rms / rms - 1),
                                                     fabs(r.radius_max / max - 1)));
        }
    }
    assert_true(json_array_size(rows) > 0);
    print_message("%s: %zu values, sigma f64 %.1e, f32 %.1e, radius %.1e\n", name,
                  json_array_size(rows), worst[LIPSC_F64], worst[LIPSC_F32], radius);
    assert_true(worst[LIPSC_F64] < 1e-7);
    assert_true(worst[LIPSC_F32] < 1e-3);
    assert_true(radius < 1e-9);
    lipsc_acts_free(acts[0]);
    lipsc_acts_free(acts[1]);
    json_decref(root);
    lipsc_model_free(model);
}

#endif
