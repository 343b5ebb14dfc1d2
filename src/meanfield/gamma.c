/* gamma.c - attention at points that need not be atoms, in plain double loops.
 *
 * One head sees the law of the tokens through the mean of its exponential tilt by
 * w = scale K^T (Q x + bq); biases of keys add the same to all scores. */
#include "meanfield/gamma.h"

#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "meanfield/meanfield.h"
#include "ot/check.h"

#include <math.h>
#include <string.h>

/* y (rows) = M (rows, d) x + b; M NULL: the identity, b NULL: none */
static void affine(size_t rows, size_t d, const double *M, const double *b, const double *x,
                   double *y) {
    for (size_t r = 0; r < rows; r++) {
        double sum = b ? b[r] : 0.0;
        if (!M) sum += x[r];
        for (size_t c = 0; M && c < d; c++) sum += M[r * d + c] * x[c];
        y[r] = sum;
    }
}

/* w (d) = scale K^T q */
static void score_vector(const lipsc_layer *l, const double *K, const double *q,
                         double *w) {
    for (size_t c = 0; c < l->d; c++) w[c] = K ? 0.0 : l->scale * q[c];
    for (size_t r = 0; K && r < l->key_dim; r++)
        for (size_t c = 0; c < l->d; c++) w[c] += l->scale * q[r] * K[r * l->d + c];
}

/* heads (H dv): o of every head at one point; room 2 d + key_dim */
static lipsc_status heads_at(const lipsc_layer *l, lipsc_tilt tilt, const void *law,
                             int linear, size_t at, const double *x, double *room,
                             double *heads) {
    double *w = room, *mean = w + l->d, *q = mean + l->d;
    lipsc_status status = LIPSC_OK;
    for (size_t h = 0; h < l->heads && !status; h++) {
        const size_t g = h * l->kv_heads / l->heads;
        const double *bq = l->bq && !linear ? l->bq + h * l->key_dim : NULL;
        const double *bv = l->bv && !linear ? l->bv + g * l->value_dim : NULL;
        affine(l->key_dim, l->d, l->Q + h * l->key_dim * l->d, bq, x, q);
        score_vector(l, l->K ? l->K + g * l->key_dim * l->d : NULL, q, w);
        status = tilt(law, at, w, linear, mean);
        affine(l->value_dim, l->d, l->V + g * l->value_dim * l->d, bv, mean,
               heads + h * l->value_dim);
    }
    return status;
}

lipsc_status lipsc_gamma(const lipsc_layer *layer, lipsc_tilt tilt, const void *law,
                         int linear, size_t count, const double *x, double *y,
                         lipsc_error *err) {
    const size_t width = lipsc_layer_width(layer), joined = layer->heads * layer->value_dim;
    if (layer->rotary_dim || layer->q_gain || layer->k_gain)
        return lipsc_fail(err, LIPSC_E_REFUSED,
                          "rotary positions or query/key norms: scores are not linear in "
                          "the tokens");
    double *room = lipsc_alloc(2 * layer->d + layer->key_dim + joined, sizeof *room);
    if (!room) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a point");
    double *heads = room + 2 * layer->d + layer->key_dim;
    const double *bo = layer->bo && !linear ? layer->bo : NULL;
    lipsc_status status = LIPSC_OK;
    for (size_t at = 0; at < count && !status; at++) {
        status = heads_at(layer, tilt, law, linear, at, x + at * layer->d, room, heads);
        affine(width, joined, layer->O, bo, heads, y + at * width);
        for (size_t e = 0; e < width && !status; e++)
            if (!isfinite(y[at * width + e])) status = LIPSC_E_NONFIN;
    }
    lipsc_release(room);
    if (!status) return LIPSC_OK;
    return lipsc_fail(err, status, "attention at this point: %s",
                      status == LIPSC_E_REFUSED
                          ? "it stands before all tokens and sees none"
                          : lipsc_strerror(status));
}

/* ---- A law of finitely many atoms --------------------------------------------------- */

typedef struct {
    const lipsc_measure *mu;
    const double *times; /* of the points; NULL: they see all atoms */
} finite_law;

/* Scores are taken twice, the second time less their maximum, so that nothing is stored. */
static lipsc_status finite_mean(const void *law, size_t at, const double *w, int linear,
                                double *mean) {
    const finite_law *f = law;
    const lipsc_measure *mu = f->mu;
    double top = -INFINITY, sum = 0.0;
    (void)linear; /* there is no such part */
    memset(mean, 0, mu->d * sizeof *mean);
    for (int pass = 0; pass < 2; pass++)
        for (size_t j = 0; j < mu->n; j++) {
            const double *y = mu->points + j * mu->d;
            double score = mu->weights ? log(mu->weights[j]) : 0.0;
            if (f->times && mu->times[j] > f->times[at]) continue;
            for (size_t c = 0; c < mu->d; c++) score += w[c] * y[c];
            if (pass == 0) {
                top = lipsc_max(top, score);
                continue;
            }
            const double e = exp(score - top);
            sum += e;
            for (size_t c = 0; c < mu->d; c++) mean[c] += e * y[c];
        }
    if (!(sum > 0.0)) return LIPSC_E_REFUSED; /* nothing is seen */
    for (size_t c = 0; c < mu->d; c++) mean[c] /= sum;
    return LIPSC_OK;
}

lipsc_status lipsc_measure_map(const lipsc_layer *layer, const lipsc_measure *mu,
                               size_t count, const double *x, const double *times,
                               double *y, lipsc_error *err) {
    lipsc_layer resolved;
    lipsc_status status = lipsc_measure_check(mu, "given", err);
    if (!status) status = lipsc_layer_check(layer, &resolved, err);
    if (status) return status;
    if (mu->d != resolved.d)
        return lipsc_fail(err, LIPSC_E_ARG,
                          "the points of the measure have width %zu, the layer takes %zu",
                          mu->d, resolved.d);
    if (!mu->times != !times)
        return lipsc_fail(err, LIPSC_E_ARG,
                          "the measure and the points must both have times, or neither");
    const finite_law law = {mu, times};
    return lipsc_gamma(&resolved, finite_mean, &law, 0, count, x, y, err);
}
