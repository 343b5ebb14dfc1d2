/* gauss_rate.c - how fast attention on samples of a Gaussian approaches its closed form. */
#include "core/error.h"
#include "core/mem.h"
#include "lipscope.h"

#include <math.h>
#include <stdint.h>

/* (sum over points of |Gamma_n - Gamma|^2) / sum |Gamma|^2 of one sample. */
static lipsc_status sample_error(const lipsc_layer *layer, const lipsc_gauss *g, size_t n,
                                 uint64_t seed, size_t count, const double *x,
                                 const double *limit, double *room, double *error,
                                 lipsc_error *err) {
    const size_t width = lipsc_layer_width(layer);
    double *X = room, *y = X + n * g->d, apart = 0.0, size = 0.0;
    const lipsc_measure mu = {.n = n, .d = g->d, .points = X};
    lipsc_status status = lipsc_gauss_sample(g, n, seed, X, err);
    if (!status) status = lipsc_measure_map(layer, &mu, count, x, NULL, y, err);
    for (size_t e = 0; e < count * width && !status; e++) {
        apart += (y[e] - limit[e]) * (y[e] - limit[e]);
        size += limit[e] * limit[e];
    }
    *error = size > 0.0 ? apart / size : apart;
    return status;
}

/* Slope of the least-squares line through (ln n, ln error). */
static double slope_of(size_t count, const size_t *n, const double *error) {
    double mx = 0.0, my = 0.0, xx = 0.0, xy = 0.0;
    for (size_t k = 0; k < count; k++) {
        mx += log((double)n[k]) / (double)count;
        my += log(error[k]) / (double)count;
    }
    for (size_t k = 0; k < count; k++) {
        xx += pow(log((double)n[k]) - mx, 2.0);
        xy += (log((double)n[k]) - mx) * (log(error[k]) - my);
    }
    return xx > 0.0 ? xy / xx : NAN;
}

enum { RATE_POINTS = 16 };

lipsc_status lipsc_gauss_rate(const lipsc_layer *layer, const lipsc_gauss *gauss,
                              size_t count, const size_t *lengths, size_t repeats,
                              uint64_t seed, double *error, double *exponent,
                              lipsc_error *err) {
    const size_t d = gauss->d, width = lipsc_layer_width(layer);
    size_t most = 0, numbers;
    lipsc_status status = LIPSC_OK;
    for (size_t k = 0; k < count; k++) most = lengths[k] > most ? lengths[k] : most;
    if (count == 0 || most == 0 || repeats == 0)
        return lipsc_fail(err, LIPSC_E_ARG, "no lengths or no repeats");
    double *x = NULL;
    if (most <= SIZE_MAX - 2 * RATE_POINTS &&
        lipsc_mul_size(most + 2 * RATE_POINTS, d + width, &numbers))
        x = lipsc_alloc(numbers, sizeof *x);
    if (!x) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for %zu samples", most);
    double *limit = x + RATE_POINTS * d, *room = limit + RATE_POINTS * width;
    status = lipsc_gauss_sample(gauss, RATE_POINTS, seed, x, err);
    if (!status) status = lipsc_gauss_map(layer, gauss, RATE_POINTS, x, limit, err);
    for (size_t k = 0; k < count && !status; k++) {
        error[k] = 0.0;
        for (size_t r = 0; r < repeats && !status; r++) {
            double square = 0.0;
            status = sample_error(layer, gauss, lengths[k], seed + 1 + k * repeats + r,
                                  RATE_POINTS, x, limit, room, &square, err);
            error[k] += square / (double)repeats;
        }
        error[k] = sqrt(error[k]);
    }
    if (!status) *exponent = slope_of(count, lengths, error);
    lipsc_release(x);
    return status;
}
