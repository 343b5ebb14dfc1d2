/* gauss.c - tokens in infinite number: Gaussians and their mixtures, in closed form.
 *
 * The exponential tilt of N(m, S) by w is N(m + S w, S), with the weight
 * e^{w.m + w.S w / 2}.  So one Gaussian is seen by the affine map Gamma(x) = V (m + S A x),
 * and a mixture by a softmax over its parts (docs/maths.md 2). */
#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "core/rng.h"
#include "linalg/dense.h"
#include "meanfield/gamma.h"
#include "meanfield/meanfield.h"

#include <math.h>
#include <string.h>

/* ---- What a Gaussian has to be ------------------------------------------------------ */

/* root (d, d) with root root^T = S: eigenvectors times roots of eigenvalues, symmetric when
 * asked for.  LIPSC_E_ARG when S has an eigenvalue below zero beyond rounding. */
static lipsc_status square_root(size_t d, const double *S, int symmetric, double *root) {
    double *vectors = lipsc_alloc(d, (2 * d + 1) * sizeof *vectors);
    if (!vectors) return LIPSC_E_NOMEM;
    double *scaled = vectors + d * d, *w = scaled + d * d;
    memcpy(vectors, S, d * d * sizeof *S);
    lipsc_status status = lipsc_dense_eigen(d, vectors, w, 1);
    const double size = status ? 0.0 : lipsc_max(fabs(w[0]), fabs(w[d - 1]));
    if (!status && w[0] < -1e-10 * size) status = LIPSC_E_ARG;
    for (size_t k = 0; k < d && !status; k++) /* column-major: vector k */
        for (size_t r = 0; r < d; r++)
            scaled[k * d + r] = vectors[k * d + r] * sqrt(lipsc_max(w[k], 0.0));
    if (!status && symmetric)
        lipsc_dense_gemm(0, 1, d, d, d, 1.0, scaled, d, vectors, d, 0.0, root, d);
    else if (!status)
        memcpy(root, scaled, d * d * sizeof *root);
    lipsc_release(vectors);
    return status;
}

lipsc_status lipsc_gauss_check(const lipsc_gauss *g, lipsc_error *err) {
    const size_t d = g->d;
    double sum = 0.0, *room;
    size_t square, all;
    if (g->parts == 0 || d == 0 || !g->mean || !g->cov)
        return lipsc_fail(err, LIPSC_E_ARG, "the Gaussian is empty");
    if (!lipsc_mul_size(d, d, &square) || !lipsc_mul_size(g->parts, square, &all))
        return lipsc_fail(err, LIPSC_E_RANGE, "the Gaussian is too large");
    for (size_t e = 0; e < g->parts * d; e++)
        if (!isfinite(g->mean[e]))
            return lipsc_fail(err, LIPSC_E_NONFIN, "mean[%zu,%zu] is not finite", e / d,
                              e % d);
    for (size_t k = 0; k < g->parts; k++) {
        const double *S = g->cov + k * d * d;
        double size = 0.0;
        for (size_t e = 0; e < d * d; e++) {
            if (!isfinite(S[e]))
                return lipsc_fail(err, LIPSC_E_NONFIN, "cov[%zu,%zu,%zu] is not finite", k,
                                  e / d, e % d);
            size = lipsc_max(size, fabs(S[e]));
        }
        for (size_t e = 0; e < d * d; e++)
            if (fabs(S[e] - S[e % d * d + e / d]) > 1e-12 * size)
                return lipsc_fail(err, LIPSC_E_ARG,
                                  "cov of part %zu is not symmetric at (%zu,%zu)", k, e / d,
                                  e % d);
    }
    for (size_t k = 0; g->mass && k < g->parts; k++) {
        if (!(g->mass[k] > 0.0) || !isfinite(g->mass[k]))
            return lipsc_fail(err, LIPSC_E_ARG,
                              "mix[%zu] = %.17g, but masses must be positive", k,
                              g->mass[k]);
        sum += g->mass[k];
    }
    if (g->mass && !(fabs(sum - 1.0) <= 1e-9))
        return lipsc_fail(err, LIPSC_E_ARG, "the masses mix sum to %.17g, not to 1", sum);
    if (!(room = lipsc_alloc(d, d * sizeof *room)))
        return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a covariance");
    lipsc_status status = LIPSC_OK;
    for (size_t k = 0; k < g->parts && !status; k++) {
        status = square_root(d, g->cov + k * d * d, 0, room);
        if (status == LIPSC_E_ARG)
            lipsc_fail(err, status, "cov of part %zu has a negative eigenvalue", k);
    }
    lipsc_release(room);
    return status;
}

/* ---- Gamma -------------------------------------------------------------------------- */

/* y = S w (d); returns w.S w */
static double times_cov(size_t d, const double *S, const double *w, double *y) {
    double square = 0.0;
    for (size_t r = 0; r < d; r++) {
        y[r] = 0.0;
        for (size_t c = 0; c < d; c++) y[r] += S[r * d + c] * w[c];
        square += w[r] * y[r];
    }
    return square;
}

typedef struct {
    const lipsc_gauss *gauss;
    double *room; /* d + parts */
} gauss_law;

static lipsc_status gauss_mean(const void *law, size_t at, const double *w, int linear,
                               double *mean) {
    const gauss_law *l = law;
    const lipsc_gauss *g = l->gauss;
    const size_t d = g->d;
    double *moved = l->room, *score = moved + d, top = -INFINITY, sum = 0.0;
    (void)at;
    if (linear) {
        times_cov(d, g->cov, w, mean);
        return LIPSC_OK;
    }
    for (size_t k = 0; k < g->parts; k++) {
        score[k] = g->mass ? log(g->mass[k]) : 0.0;
        score[k] += 0.5 * times_cov(d, g->cov + k * d * d, w, moved);
        for (size_t c = 0; c < d; c++) score[k] += w[c] * g->mean[k * d + c];
        top = lipsc_max(top, score[k]);
    }
    memset(mean, 0, d * sizeof *mean);
    for (size_t k = 0; k < g->parts; k++) {
        const double p = exp(score[k] - top);
        times_cov(d, g->cov + k * d * d, w, moved);
        sum += p;
        for (size_t c = 0; c < d; c++) mean[c] += p * (g->mean[k * d + c] + moved[c]);
    }
    for (size_t c = 0; c < d; c++) mean[c] /= sum;
    return LIPSC_OK;
}

static lipsc_status check_layer(const lipsc_layer *layer, const lipsc_gauss *g,
                                lipsc_layer *resolved, lipsc_error *err) {
    lipsc_status status = lipsc_gauss_check(g, err);
    if (!status) status = lipsc_layer_check(layer, resolved, err);
    if (status) return status;
    if (g->d != resolved->d)
        return lipsc_fail(err, LIPSC_E_ARG,
                          "the Gaussian has width %zu, the layer takes %zu", g->d,
                          resolved->d);
    if (resolved->mask != LIPSC_MASK_NONE)
        return lipsc_fail(err, LIPSC_E_REFUSED,
                          "a Gaussian has no order and no times: the layer must have no "
                          "mask");
    return LIPSC_OK;
}

static lipsc_status map(const lipsc_layer *resolved, const lipsc_gauss *g, int linear,
                        size_t count, const double *x, double *y, lipsc_error *err) {
    gauss_law law = {g, lipsc_alloc(g->d + g->parts, sizeof(double))};
    if (!law.room) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a point");
    const lipsc_status status =
        lipsc_gamma(resolved, gauss_mean, &law, linear, count, x, y, err);
    lipsc_release(law.room);
    return status;
}

lipsc_status lipsc_gauss_map(const lipsc_layer *layer, const lipsc_gauss *gauss,
                             size_t count, const double *x, double *y, lipsc_error *err) {
    lipsc_layer resolved;
    const lipsc_status status = check_layer(layer, gauss, &resolved, err);
    return status ? status : map(&resolved, gauss, 0, count, x, y, err);
}

/* ---- The image of one Gaussian ------------------------------------------------------ */

/* G (width, d), column-major: the linear part of Gamma, column by column. */
static lipsc_status slope_matrix(const lipsc_layer *resolved, const lipsc_gauss *g,
                                 double *G, lipsc_error *err) {
    const size_t d = g->d;
    double *unit = lipsc_alloc_zero(d, d * sizeof *unit);
    if (!unit) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a matrix");
    for (size_t c = 0; c < d; c++) unit[c * d + c] = 1.0;
    const lipsc_status status = map(resolved, g, 1, d, unit, G, err);
    lipsc_release(unit);
    return status;
}

lipsc_status lipsc_gauss_push(const lipsc_layer *layer, const lipsc_gauss *gauss,
                              double *mean, double *cov, double *slope, lipsc_error *err) {
    lipsc_layer resolved;
    lipsc_status status = check_layer(layer, gauss, &resolved, err);
    if (status) return status;
    if (gauss->parts != 1)
        return lipsc_fail(err, LIPSC_E_REFUSED,
                          "the image of a mixture is no mixture of Gaussians: sample it");
    const size_t d = gauss->d, width = lipsc_layer_width(&resolved);
    double *G = lipsc_alloc(width, 2 * d * sizeof *G), *GS = G ? G + width * d : NULL;
    if (!G) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a matrix");
    status = slope_matrix(&resolved, gauss, G, err);
    if (!status && mean) status = map(&resolved, gauss, 0, 1, gauss->mean, mean, err);
    if (!status && cov) { /* symmetric: row- and column-major agree */
        lipsc_dense_gemm(0, 0, width, d, d, 1.0, G, width, gauss->cov, d, 0.0, GS, width);
        lipsc_dense_gemm(0, 1, width, width, d, 1.0, GS, width, G, width, 0.0, cov, width);
        for (size_t r = 0; r < width; r++)
            for (size_t c = 0; c < r; c++)
                cov[r * width + c] = cov[c * width + r] =
                    0.5 * (cov[r * width + c] + cov[c * width + r]);
    }
    if (!status && slope) status = lipsc_dense_norm(width, d, G, slope);
    lipsc_release(G);
    return status;
}

lipsc_status lipsc_gauss_image(const lipsc_layer *layer, const lipsc_gauss *gauss,
                               lipsc_gauss_file *out, double *slope, lipsc_error *err) {
    const size_t width = lipsc_layer_width(layer);
    double *mean = lipsc_alloc(width, (width + 1) * sizeof *mean);
    if (!mean) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a Gaussian");
    const lipsc_status status =
        lipsc_gauss_push(layer, gauss, mean, mean + width, slope, err);
    if (status)
        lipsc_release(mean);
    else
        *out = (lipsc_gauss_file){
            {.parts = 1, .d = width, .mean = mean, .cov = mean + width}, mean};
    return status;
}

/* ---- Distance ----------------------------------------------------------------------- */

/* W_2^2 = |m - m'|^2 + |R - R' U|_F^2 with R, R' the symmetric roots of the covariances and
 * U the orthogonal matrix that makes this least: U = X Y^T where R' R = X s Y^T.  The same
 * as Bures' tr S + tr S' - 2 tr (S^{1/2} S' S^{1/2})^{1/2}, without its cancellation. */
static lipsc_status bures(size_t d, const double *S, const double *T, double *square) {
    double *room = lipsc_alloc(d, (5 * d + 1) * sizeof *room);
    if (!room) return LIPSC_E_NOMEM;
    double *R = room, *Q = R + d * d, *product = Q + d * d, *x = product + d * d;
    double *yt = x + d * d, *s = yt + d * d;
    lipsc_status status = square_root(d, S, 1, R);
    if (!status) status = square_root(d, T, 1, Q);
    if (!status) {
        lipsc_dense_gemm(0, 0, d, d, d, 1.0, Q, d, R, d, 0.0, product, d);
        status = lipsc_dense_svd(d, d, product, s, x, yt);
    }
    if (!status) {
        lipsc_dense_gemm(0, 0, d, d, d, 1.0, x, d, yt, d, 0.0, product, d);
        lipsc_dense_gemm(0, 0, d, d, d, -1.0, Q, d, product, d, 1.0, R, d);
        *square = 0.0;
        for (size_t e = 0; e < d * d; e++) *square += R[e] * R[e];
    }
    lipsc_release(room);
    return status;
}

lipsc_status lipsc_gauss_distance(const lipsc_gauss *a, const lipsc_gauss *b,
                                  double *distance, lipsc_error *err) {
    lipsc_status status = lipsc_gauss_check(a, err);
    if (!status) status = lipsc_gauss_check(b, err);
    if (status) return status;
    if (a->d != b->d)
        return lipsc_fail(err, LIPSC_E_ARG,
                          "the first Gaussian has width %zu, the second %zu", a->d, b->d);
    if (a->parts != 1 || b->parts != 1)
        return lipsc_fail(err, LIPSC_E_REFUSED,
                          "mixtures have no closed distance: sample them");
    double square = 0.0, apart = 0.0;
    status = bures(a->d, a->cov, b->cov, &square);
    if (status)
        return lipsc_fail(err, status, "the distance could not be computed: %s",
                          lipsc_strerror(status));
    for (size_t c = 0; c < a->d; c++) apart = hypot(apart, a->mean[c] - b->mean[c]);
    *distance = hypot(apart, sqrt(square));
    return LIPSC_OK;
}

/* ---- Samples ------------------------------------------------------------------------ */

lipsc_status lipsc_gauss_sample(const lipsc_gauss *gauss, size_t n, uint64_t seed,
                                double *X, lipsc_error *err) {
    const size_t d = gauss->d, parts = gauss->parts;
    lipsc_status status = lipsc_gauss_check(gauss, err);
    if (status) return status;
    double *roots = lipsc_alloc(parts, (d * d + 1) * sizeof *roots);
    if (!roots) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a sample");
    double *z = roots + parts * d * d, sum = 0.0;
    for (size_t k = 0; k < parts && !status; k++)
        status = square_root(d, gauss->cov + k * d * d, 0, roots + k * d * d);
    for (size_t k = 0; k < parts; k++)
        z[k] = sum += gauss->mass ? gauss->mass[k] : 1.0 / (double)parts;
    const uint64_t stride = (uint64_t)d + d % 2; /* normal numbers come in pairs */
    for (size_t i = 0; i < n && !status; i++) {
        const double u = sum * lipsc_rng_uniform(~seed, i);
        size_t k = 0;
        while (k + 1 < parts && u > z[k]) k++;
        memcpy(X + i * d, gauss->mean + k * d, d * sizeof *X);
        for (size_t c = 0; c < d; c++) {
            const double normal = lipsc_rng_normal(seed, (uint64_t)i * stride + c);
            const double *column = roots + k * d * d + c * d;
            for (size_t r = 0; r < d; r++) X[i * d + r] += column[r] * normal;
        }
    }
    lipsc_release(roots);
    return status ? lipsc_fail(err, status, "no sample could be drawn: %s",
                               lipsc_strerror(status))
                  : LIPSC_OK;
}
