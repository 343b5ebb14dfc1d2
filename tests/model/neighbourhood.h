/* neighbourhood.h - the bound over a neighbourhood on layers of trained models at real
 * text: above sigma where a climb leads to, close to the bound at the point where it is
 * small, and far below what holds over the ball. */
#ifndef LIPSC_TESTS_NEIGHBOURHOOD_H
#define LIPSC_TESTS_NEIGHBOURHOOD_H

#include "core/extreme.h"
#include "attn/attn.h"
#include "fixture.h"
#include "test_device.h"

enum { LENGTH = 10 };

static inline double length_of(size_t d, const double *x) {
    double sum = 0.0;
    for (size_t c = 0; c < d; c++) sum += x[c] * x[c];
    return sqrt(sum);
}

static inline double sigma_at(const lipsc_layer *layer, size_t n, const double *X,
                              double *gradient) {
    const size_t d = layer->d, width = lipsc_layer_width(layer);
    const lipsc_input input = {.n = n, .X = X};
    double *u = malloc(n * (width + d) * sizeof *u), *v = u + n * width, sigma = NAN;
    lipsc_attn *attn = NULL;
    lipsc_error err = {0};
    lipsc_svd_settings set;
    lipsc_svd_info info;
    assert_non_null(u);
    lipsc_svd_defaults(&set);
    set.tol = 1e-3; /* the value is a lower bound whatever its residual */
    if (lipsc_attn_new(layer, &input, LIPSC_F64, test_device(2), &attn, &err))
        fail_msg("%s", err.text);
    assert_int_equal(lipsc_attn_sigma(attn, &set, &sigma, u, v, &info), LIPSC_OK);
    if (gradient && lipsc_attn_gradient(attn, 1, u, v, gradient, NULL, &err))
        fail_msg("%s", err.text);
    lipsc_attn_free(attn);
    free(u);
    return sigma;
}

/* Every token goes to the wall of its ball along the gradient of sigma, three times: the
 * best input for sigma linearised, which for small R is sigma itself. */
static inline double climb(const lipsc_layer *layer, size_t n, const double *centre,
                           double R) {
    const size_t d = layer->d;
    double *X = malloc(2 * n * d * sizeof *X), *gradient = X + n * d;
    assert_non_null(X);
    memcpy(X, centre, n * d * sizeof *X);
    double best = sigma_at(layer, n, X, gradient);
    for (int step = 0; step < 3; step++) {
        for (size_t i = 0; i < n; i++) {
            const double length = length_of(d, gradient + i * d);
            for (size_t c = 0; c < d && length > 0.0; c++)
                X[i * d + c] = centre[i * d + c] + R * gradient[i * d + c] / length;
        }
        best = lipsc_max(best, sigma_at(layer, n, X, gradient));
    }
    free(X);
    return best;
}

static inline void check_layer(const char *name, size_t index, const lipsc_layer *layer,
                               const double *X) {
    static const double relative[] = {1e-5, 1e-3, 0.1};
    const lipsc_input input = {.n = LENGTH, .X = X};
    lipsc_attn *attn = NULL;
    lipsc_error err = {0};
    double mean = 0.0, before = 0.0;
    for (size_t i = 0; i < LENGTH; i++)
        mean += length_of(layer->d, X + i * layer->d) / LENGTH;
    if (lipsc_attn_new(layer, &input, LIPSC_F64, test_device(2), &attn, &err))
        fail_msg("%s", err.text);
    for (size_t k = 0; k < sizeof relative / sizeof *relative; k++) {
        lipsc_around found;
        if (lipsc_attn_around(attn, relative[k] * mean, &found, &err))
            fail_msg("%s", err.text);
        const double sigma = climb(layer, LENGTH, X, relative[k] * mean);
        print_message(
            "%s layer %zu, R %g of the mean token: sigma %.4g, bound %.4g, at the "
            "point %.4g, ball %.4g\n",
            name, index, relative[k], sigma, found.value, found.point, found.ball);
        assert_true(sigma <= found.value && found.value >= before);
        assert_true(relative[k] > 1e-3 || found.value <= 1.2 * found.point);
        assert_true(relative[k] > 1e-3 || !(found.value > 0.05 * found.ball));
        before = found.value;
    }
    lipsc_attn_free(attn);
}

/* ids NULL: the first ones of the reference file */
static inline void check_neighbourhood(const char *name, const char *dir,
                                       const uint32_t *ids, const char *reference,
                                       size_t count, const size_t *layers) {
    uint32_t window[LENGTH];
    lipsc_error err = {0};
    lipsc_model *model = NULL;
    lipsc_acts *acts = NULL;
    if (!ids) {
        json_t *root = load_json(reference), *all = json_object_get(root, "ids");
        for (size_t i = 0; i < LENGTH; i++)
            window[i] = (uint32_t)json_integer_value(json_array_get(all, i));
        json_decref(root);
        ids = window;
    }
    if (lipsc_model_open(dir, 1, &model, &err) ||
        lipsc_acts_new(model, LIPSC_F64, test_device(0), LENGTH, ids, 0, &acts, &err))
        fail_msg("%s", err.text);
    for (size_t l = 0; l < count; l++) {
        lipsc_layer layer;
        if (lipsc_model_layer(model, layers[l], -1, LIPSC_MAP_ATTENTION, NULL, &layer,
                              &err))
            fail_msg("%s", err.text);
        check_layer(name, layers[l], &layer, lipsc_acts_attention_input(acts, layers[l]));
    }
    lipsc_acts_free(acts);
    lipsc_model_free(model);
}

#endif
