/* extreme_layer.h - small random layers that try to break rounding: scores up to 1e15,
 * probabilities that are subnormal, projections that cancel, equal tokens, one token, and
 * every option that a layer has. */
#ifndef LIPSC_TESTS_EXTREME_LAYER_H
#define LIPSC_TESTS_EXTREME_LAYER_H

#include "core/rng.h"
#include "lipscope.h"

#include <math.h>
#include <string.h>

enum { X_TOKENS = 7, X_WIDTH = 4, X_HEADS = 4, X_MATRIX = X_HEADS * X_WIDTH * X_WIDTH };
enum { X_BUCKETS = 8 };

typedef struct {
    uint64_t seed, next;
    lipsc_layer layer;
    lipsc_input input;
    double Q[X_MATRIX], K[X_MATRIX], V[X_MATRIX], O[X_MATRIX];
    double b[4][X_HEADS * X_WIDTH], gain[2][X_HEADS * X_WIDTH], freq[X_WIDTH];
    double score_bias[X_HEADS * X_BUCKETS], sinks[X_HEADS];
    double X[X_TOKENS * X_WIDTH], weights[X_TOKENS], times[X_TOKENS], positions[X_TOKENS];
} extreme_layer;

static double x_uniform(extreme_layer *c) { return lipsc_rng_uniform(c->seed, c->next++); }

static double x_between(extreme_layer *c, double low, double high) {
    return low + (high - low) * x_uniform(c);
}

static size_t x_among(extreme_layer *c, size_t low, size_t high) {
    return low + (size_t)(x_uniform(c) * (double)(high - low + 1));
}

static int x_chance(extreme_layer *c, double probability) {
    return x_uniform(c) < probability;
}

static void x_normal(extreme_layer *c, size_t count, double size, double *x) {
    c->next += c->next & 1;
    for (size_t e = 0; e < count; e++) x[e] = size * lipsc_rng_normal(c->seed, c->next++);
}

/* The size that scores shall have. */
static double x_score_size(extreme_layer *c) {
    switch (x_among(c, 0, 5)) {
    case 0:
        return pow(10.0, x_between(c, -6.0, 0.0));
    case 1:
    case 2:
        return pow(10.0, x_between(c, 0.0, 2.0));
    case 3:
        return x_between(c, 300.0, 1500.0); /* subnormal probabilities */
    case 4:
        return pow(10.0, x_between(c, 3.0, 9.0));
    default:
        return pow(10.0, x_between(c, 9.0, 15.0));
    }
}

static void x_tokens(extreme_layer *c, size_t n, size_t d) {
    const size_t kind = x_among(c, 0, 5);
    x_normal(c, n * d, 1.0, c->X);
    for (size_t i = 0; i < n; i++) {
        double *x = c->X + i * d;
        if (kind == 1 && i > 0 && x_chance(c, 0.6)) memcpy(x, c->X, d * sizeof *x);
        if (kind == 2 && i > 0) /* nearly equal */
            for (size_t e = 0; e < d; e++) x[e] = c->X[e] * (1.0 + 1e-9 * x[e]);
        if (kind == 3) /* of very different lengths */
            for (size_t e = 0; e < d; e++) x[e] *= pow(10.0, -3.0 * (double)i);
    }
}

/* Makes every row of W (rows, d) nearly orthogonal to x: W x cancels. */
static void x_cancel(size_t rows, size_t d, const double *x, double *W) {
    double square = 0.0;
    for (size_t e = 0; e < d; e++) square += x[e] * x[e];
    for (size_t r = 0; r < rows && square > 0.0; r++) {
        double dot = 0.0;
        for (size_t e = 0; e < d; e++) dot += W[r * d + e] * x[e];
        for (size_t e = 0; e < d; e++) W[r * d + e] -= dot / square * x[e];
    }
}

/* Tokens that share a long part which queries, or keys, do not see. */
static void x_cancellation(extreme_layer *c, size_t n, size_t d) {
    const double size = pow(10.0, x_between(c, 2.0, 8.0));
    double common[X_WIDTH];
    x_normal(c, d, size, common);
    if (x_chance(c, 0.5)) x_cancel(c->layer.kv_heads * c->layer.key_dim, d, common, c->K);
    if (x_chance(c, 0.5)) x_cancel(c->layer.heads * c->layer.key_dim, d, common, c->Q);
    if (x_chance(c, 0.3)) x_cancel(c->layer.kv_heads * c->layer.value_dim, d, common, c->V);
    for (size_t i = 0; i < n; i++)
        for (size_t e = 0; e < d; e++) c->X[i * d + e] += common[e];
}

static void x_options(extreme_layer *c, size_t n) {
    lipsc_layer *l = &c->layer;
    const size_t k = l->key_dim;
    if (x_chance(c, 0.3)) {
        const double size = pow(10.0, x_between(c, -2.0, 2.0));
        for (size_t i = 0; i < 4; i++) x_normal(c, X_HEADS * X_WIDTH, size, c->b[i]);
        l->bq = c->b[0], l->bk = c->b[1], l->bv = c->b[2];
        l->bo = l->O ? c->b[3] : NULL;
    }
    if (x_chance(c, 0.25)) {
        x_normal(c, 2 * X_HEADS * X_WIDTH, 1.0, c->gain[0]);
        l->q_gain = c->gain[0];
        l->k_gain = x_chance(c, 0.7) ? c->gain[1] : NULL;
        l->norm_whole = x_chance(c, 0.4);
        l->norm_eps = x_chance(c, 0.5) ? 1e-6 : pow(10.0, x_between(c, -12.0, 0.0));
    }
    if (k > 1 && x_chance(c, 0.3)) {
        l->rotary_dim = k / 2 * 2;
        for (size_t f = 0; f < k / 2; f++) c->freq[f] = pow(10.0, x_between(c, -4.0, 0.0));
        l->rotary_freq = c->freq;
        if (x_chance(c, 0.5)) {
            for (size_t i = 0; i < n; i++) c->positions[i] = floor(x_between(c, 0.0, 1e5));
            c->input.positions = c->positions;
        }
    }
    l->mask = (lipsc_mask)x_among(c, 0, 4);
    l->window = x_among(c, 1, n);
    for (size_t i = 0; i < n; i++) c->times[i] = (double)x_among(c, 0, n);
    if (l->mask == LIPSC_MASK_TIMES) c->input.times = c->times;
    if (x_chance(c, 0.25)) {
        const double spread = x_between(c, 0.0, 20.0);
        x_normal(c, n, spread, c->weights);
        for (size_t i = 0; i < n; i++) c->weights[i] = exp(c->weights[i]);
        c->input.weights = c->weights;
    }
}

/* What scores have beyond query times key: a cap, a bias by distance, a sink. */
static void x_beyond(extreme_layer *c, double size) {
    lipsc_layer *l = &c->layer;
    if (x_chance(c, 0.2)) l->soft_cap = size * pow(10.0, x_between(c, -3.0, 1.0));
    if (x_chance(c, 0.3) && l->mask != LIPSC_MASK_TIMES && !c->input.positions) {
        x_normal(c, X_HEADS * X_BUCKETS, pow(10.0, x_between(c, -3.0, 3.0)), c->score_bias);
        l->score_bias = c->score_bias;
        l->bias_rule = x_chance(c, 0.5) ? LIPSC_BIAS_LINEAR : LIPSC_BIAS_BUCKETS;
        l->bias_buckets = x_chance(c, 0.5) ? 4 : X_BUCKETS;
        l->bias_distance = x_among(c, 3, 20);
    }
    if (x_chance(c, 0.25) && !c->input.weights) {
        x_normal(c, X_HEADS, pow(10.0, x_between(c, -1.0, 3.0)), c->sinks);
        l->sinks = c->sinks;
    }
}

static void extreme_draw(uint64_t seed, extreme_layer *c) {
    memset(c, 0, sizeof *c);
    c->seed = seed;
    lipsc_layer *l = &c->layer;
    lipsc_layer_defaults(l);
    const size_t n = x_chance(c, 0.08) ? 1 : x_among(c, 2, X_TOKENS);
    const size_t d = x_among(c, 1, X_WIDTH);
    const int plain = x_chance(c, 0.2); /* one head given by A */
    l->d = d;
    l->heads = x_among(c, 1, X_HEADS);
    l->kv_heads = x_chance(c, 0.5) ? l->heads : l->heads % 2 ? 1 : l->heads / 2;
    l->key_dim = plain ? d : x_among(c, 1, X_WIDTH);
    l->value_dim = x_among(c, 1, X_WIDTH);
    if (plain) l->kv_heads = 1;
    x_normal(c, X_MATRIX, 1.0, c->Q);
    x_normal(c, X_MATRIX, 1.0, c->K);
    x_normal(c, X_MATRIX, 1.0, c->V);
    l->Q = c->Q, l->K = plain ? NULL : c->K, l->V = c->V;
    if (x_chance(c, 0.5)) {
        l->out_dim = x_among(c, 1, X_WIDTH);
        x_normal(c, X_MATRIX, 1.0, c->O);
        l->O = c->O;
    }
    x_tokens(c, n, d);
    c->input = (lipsc_input){.n = n, .X = c->X};
    /* of one component nothing would be left: V = 0, and only the judge's own rounding */
    if (d > 1 && x_chance(c, 0.25)) x_cancellation(c, n, d);
    x_options(c, n);
    l->scale = x_chance(c, 0.3) ? 0.0 : 1.0;
    const double size = l->q_gain ? 1.0 : x_score_size(c);
    for (size_t e = 0; e < X_MATRIX; e++) c->Q[e] *= size / (double)d;
    const double most = pow(10.0, x_between(c, -2.0, 6.0));
    for (size_t e = 0; l->q_gain && e < X_HEADS * X_WIDTH; e++)
        c->gain[0][e] *= l->norm_whole ? most : pow(10.0, x_between(c, -2.0, 6.0));
    const double values = x_chance(c, 0.7) ? 1.0 : pow(10.0, x_between(c, -120.0, 100.0));
    for (size_t e = 0; e < X_MATRIX; e++) c->V[e] *= values;
    x_beyond(c, l->q_gain ? most : size);
    /* a bias beyond 150 digits of V x would be beyond the judge */
    for (size_t e = 0; e < X_HEADS * X_WIDTH; e++) c->b[2][e] *= values;
}

#endif
