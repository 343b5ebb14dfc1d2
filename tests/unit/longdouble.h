/* longdouble.h - attention in long double, a judge written apart from the library.
 *
 * Only the map f itself: a derivative is taken by central differences, which in 64-bit
 * mantissas leaves about twelve digits.  Everything is recomputed on the spot. */
#ifndef LIPSC_TEST_LONGDOUBLE_H
#define LIPSC_TEST_LONGDOUBLE_H

#include "lipscope.h"

#include <math.h>
#include <stdlib.h>

static inline double longdouble_scale(const lipsc_layer *l) {
    if (l->scale != 0.0) return l->scale;
    return l->K ? 1.0 / sqrt((double)l->key_dim) : 1.0;
}

/* Where the derivative is taken: X + step * direction (direction may be NULL). */
typedef struct {
    const lipsc_layer *layer;
    const lipsc_input *input;
    const double *direction;
    long double step;
} longdouble_point;

static inline long double longdouble_token(const longdouble_point *p, size_t i, size_t c) {
    const size_t e = i * p->layer->d + c;
    long double x = p->input->X[e];
    if (p->direction) x += p->step * (long double)p->direction[e];
    return x;
}

/* y (rows) = W x_i + b */
static inline void longdouble_affine(const longdouble_point *p, size_t i, size_t rows,
                                     const double *W, const double *b, long double *y) {
    const size_t d = p->layer->d;
    for (size_t r = 0; r < rows; r++) {
        y[r] = b ? b[r] : 0.0L;
        if (!W) y[r] += longdouble_token(p, i, r);
        for (size_t c = 0; W && c < d; c++)
            y[r] += (long double)W[r * d + c] * longdouble_token(p, i, c);
    }
}

/* The mean square that the norm of head h divides by: of the head, or of all heads. */
static inline long double longdouble_mean(const longdouble_point *p, size_t i, size_t heads,
                                          size_t h, const double *W, const double *b) {
    const lipsc_layer *l = p->layer;
    const size_t k = l->key_dim, from = l->norm_whole ? 0 : h,
                 end = l->norm_whole ? heads : h + 1;
    long double sum = 0.0L, y;
    for (size_t r = from * k; r < end * k; r++) {
        y = b ? b[r] : 0.0L;
        if (!W) y += longdouble_token(p, i, r);
        for (size_t c = 0; W && c < l->d; c++)
            y += (long double)W[r * l->d + c] * longdouble_token(p, i, c);
        sum += y * y;
    }
    return sum / (long double)((end - from) * k);
}

/* Norm and rotation, written with complex-number pairs turned one by one. */
static inline void longdouble_turn(const longdouble_point *p, size_t i, const double *gain,
                                   long double mean, long double *y) {
    const lipsc_layer *l = p->layer;
    const size_t k = l->key_dim, half = l->rotary_dim / 2;
    for (size_t e = 0; gain && e < k; e++)
        y[e] = (long double)gain[e] * y[e] / sqrtl(mean + (long double)l->norm_eps);
    for (size_t e = 0; e < half; e++) {
        const long double at =
            p->input->positions ? p->input->positions[i] : (long double)i;
        const long double angle = at * (long double)l->rotary_freq[e];
        const long double re = y[e], im = y[e + half];
        y[e] = re * cosl(angle) - im * sinl(angle);
        y[e + half] = re * sinl(angle) + im * cosl(angle);
    }
}

/* The same with the norm of y alone. */
static inline void longdouble_position(const longdouble_point *p, size_t i,
                                       const double *gain, long double *y) {
    const size_t k = p->layer->key_dim;
    long double mean = 0.0L;
    for (size_t e = 0; e < k; e++) mean += y[e] * y[e] / (long double)k;
    longdouble_turn(p, i, gain, mean, y);
}

static inline int longdouble_sees(const lipsc_layer *l, const lipsc_input *in, size_t i,
                                  size_t j) {
    if (l->mask == LIPSC_MASK_CAUSAL) return i >= j;
    if (l->mask == LIPSC_MASK_SLIDING) return i >= j && j + l->window > i;
    if (l->mask == LIPSC_MASK_LOCAL) return j + l->window > i && i + l->window > j;
    if (l->mask == LIPSC_MASK_TIMES) return !(in->times[j] > in->times[i]);
    return 1;
}

/* The bucket of a distance as the paper of T5 describes it. */
static inline size_t longdouble_bucket(const lipsc_layer *l, long ahead) {
    const long half = (long)l->bias_buckets / 2, near = half / 2, away = labs(ahead);
    long bucket = away;
    if (away >= near)
        bucket = near + (long)floor(log((double)away / (double)near) /
                                        log((double)l->bias_distance / (double)near) *
                                        (double)(half - near) +
                                    1e-9);
    if (bucket > half - 1) bucket = half - 1;
    return (size_t)(bucket + (ahead > 0 ? half : 0));
}

/* s (n): scores of row i of head h, log weights included; hidden ones -infinity.
 * work: 2 key_dim */
static inline void longdouble_scores(const longdouble_point *p, size_t h, size_t i,
                                     long double *work, long double *s) {
    const lipsc_layer *l = p->layer;
    const size_t k = l->key_dim, kv = l->kv_heads ? l->kv_heads : l->heads;
    const size_t g = h * kv / l->heads;
    long double *q = work, *key = work + k;
    longdouble_affine(p, i, k, l->Q + h * k * l->d, l->bq ? l->bq + h * k : NULL, q);
    const double *q_gain = l->q_gain && l->norm_whole ? l->q_gain + h * k : l->q_gain;
    const double *k_gain = l->k_gain && l->norm_whole ? l->k_gain + g * k : l->k_gain;
    longdouble_turn(p, i, q_gain, longdouble_mean(p, i, l->heads, h, l->Q, l->bq), q);
    for (size_t j = 0; j < p->input->n; j++) {
        s[j] = -(long double)INFINITY;
        if (!longdouble_sees(l, p->input, i, j)) continue;
        longdouble_affine(p, j, k, l->K ? l->K + g * k * l->d : NULL,
                          l->bk ? l->bk + g * k : NULL, key);
        longdouble_turn(p, j, k_gain, longdouble_mean(p, j, kv, g, l->K, l->bk), key);
        s[j] = 0.0L;
        for (size_t e = 0; e < k; e++)
            s[j] += (long double)longdouble_scale(l) * q[e] * key[e];
        if (l->soft_cap > 0) s[j] = l->soft_cap * tanhl(s[j] / (long double)l->soft_cap);
        if (l->bias_rule == LIPSC_BIAS_LINEAR)
            s[j] += (long double)l->score_bias[h] * ((long double)j - (long double)i);
        if (l->bias_rule == LIPSC_BIAS_BUCKETS)
            s[j] += l->score_bias[h * l->bias_buckets +
                                  longdouble_bucket(l, (long)j - (long)i)];
        if (p->input->weights) s[j] += logl((long double)p->input->weights[j]);
    }
}

/* f at the point: y (n, width) */
static inline void longdouble_output(const longdouble_point *p, long double *y) {
    const lipsc_layer *l = p->layer;
    const size_t n = p->input->n, width = lipsc_layer_width(l), dv = l->value_dim;
    const size_t kv = l->kv_heads ? l->kv_heads : l->heads;
    long double *work = malloc((2 * l->key_dim + n + 2 * dv) * sizeof *work);
    if (!work) abort();
    long double *s = work + 2 * l->key_dim, *z = s + n, *o = z + dv;
    for (size_t e = 0; e < n * width; e++) y[e] = l->bo ? l->bo[e % width] : 0.0L;
    for (size_t h = 0; h < l->heads; h++) {
        const size_t g = h * kv / l->heads;
        for (size_t i = 0; i < n; i++) {
            longdouble_scores(p, h, i, work, s);
            long double largest = s[i], sum = 0.0L;
            for (size_t j = 0; j < n; j++) largest = fmaxl(largest, s[j]);
            if (l->sinks) largest = fmaxl(largest, l->sinks[h]);
            if (l->sinks) sum = expl(l->sinks[h] - largest);
            for (size_t c = 0; c < dv; c++) o[c] = 0.0L;
            for (size_t j = 0; j < n; j++) {
                const long double e = expl(s[j] - largest);
                sum += e;
                longdouble_affine(p, j, dv, l->V + g * dv * l->d,
                                  l->bv ? l->bv + g * dv : NULL, z);
                for (size_t c = 0; c < dv; c++) o[c] += e * z[c];
            }
            for (size_t c = 0; c < dv; c++) {
                const size_t at = h * dv + c;
                if (!l->O) y[i * width + at] += o[c] / sum;
                for (size_t r = 0; l->O && r < width; r++)
                    y[i * width + r] +=
                        (long double)l->O[r * l->heads * dv + at] * o[c] / sum;
            }
        }
    }
    free(work);
}

/* y (n, width) = D^{1/2} J D^{-1/2} x by central differences of longdouble_output. */
static inline void longdouble_jvp(const lipsc_layer *l, const lipsc_input *in,
                                  long double step, const double *x, double *y) {
    const size_t n = in->n, width = lipsc_layer_width(l);
    double *h = malloc(n * l->d * sizeof *h);
    long double *plus = malloc(2 * n * width * sizeof *plus), *minus = plus + n * width;
    if (!h || !plus) abort();
    for (size_t e = 0; e < n * l->d; e++)
        h[e] = in->weights ? x[e] / sqrt(in->weights[e / l->d]) : x[e];
    longdouble_point at = {l, in, h, step};
    longdouble_output(&at, plus);
    at.step = -step;
    longdouble_output(&at, minus);
    for (size_t e = 0; e < n * width; e++) {
        y[e] = (double)((plus[e] - minus[e]) / (2.0L * step));
        if (in->weights) y[e] *= sqrt(in->weights[e / width]);
    }
    free(h);
    free(plus);
}

/* The smallest lead of a row's largest score before the next one that differs, over all
 * rows and heads; infinite when every row has one distinct score only. */
static inline double longdouble_lead(const lipsc_layer *l, const lipsc_input *in) {
    const longdouble_point p = {l, in, NULL, 0.0L};
    long double *work = malloc((2 * l->key_dim + in->n) * sizeof *work);
    if (!work) abort();
    long double *s = work + 2 * l->key_dim, lead = (long double)INFINITY;
    for (size_t h = 0; h < l->heads; h++)
        for (size_t i = 0; i < in->n; i++) {
            longdouble_scores(&p, h, i, work, s);
            long double largest = s[i];
            for (size_t j = 0; j < in->n; j++) largest = fmaxl(largest, s[j]);
            for (size_t j = 0; j < in->n; j++)
                if (s[j] < largest) lead = fminl(lead, largest - s[j]);
        }
    free(work);
    return (double)lead;
}

#endif
