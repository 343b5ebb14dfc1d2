/* mpfr_attention.h - the definition of attention's Jacobian in 150 digits: the judge of the
 * enclosures.  Written from docs/maths.md 1, sharing nothing with src/ but the structures
 * of the header.  Cosines and sines are the doubles that libm gives, scale is the double
 * given: the exact function is the one with these numbers. */
#ifndef LIPSC_TESTS_MPFR_ATTENTION_H
#define LIPSC_TESTS_MPFR_ATTENTION_H

#include "lipscope.h"

#include <math.h>
#include <mpfr.h>
#include <stdlib.h>

enum { MP_BITS = 512 };
#define MP_NEAR MPFR_RNDN

/* ---- Arrays ------------------------------------------------------------------------- */

static mpfr_t *mp_new(size_t count) {
    mpfr_t *a = malloc((count ? count : 1) * sizeof *a);
    for (size_t e = 0; e < count; e++) {
        mpfr_init2(a[e], MP_BITS);
        mpfr_set_zero(a[e], 1);
    }
    return a;
}

static void mp_free(size_t count, mpfr_t *a) {
    for (size_t e = 0; e < count; e++) mpfr_clear(a[e]);
    free(a);
}

static void mp_zero(size_t count, mpfr_t *a) {
    for (size_t e = 0; e < count; e++) mpfr_set_zero(a[e], 1);
}

/* r = a . b; r must be neither */
static void mp_dot(mpfr_t r, size_t n, mpfr_t *a, mpfr_t *b) {
    mpfr_set_zero(r, 1);
    for (size_t l = 0; l < n; l++) mpfr_fma(r, a[l], b[l], r, MP_NEAR);
}

/* r += a b with a double */
static void mp_add_d(mpfr_t r, double a, mpfr_t b, mpfr_t t) {
    mpfr_mul_d(t, b, a, MP_NEAR);
    mpfr_add(r, r, t, MP_NEAR);
}

/* ---- The operator at an input ------------------------------------------------------- */

/* Queries or keys: y = Norm(W x + b) of all heads, the norm over one head or over all. */
typedef struct {
    const double *W, *b, *gain;
    size_t heads, span; /* how many; heads that share a norm */
    mpfr_t *raw;        /* (n, heads, key_dim)               */
} mp_side;

typedef struct {
    const lipsc_layer *l; /* resolved: kv_heads, scale, out_dim */
    const lipsc_input *in;
    mp_side query, key;
    mpfr_t *q, *k, *z;    /* (heads, n, .)                               */
    mpfr_t *P, *slope;    /* (heads, n, n): P, the derivative of the cap */
    mpfr_t *root;         /* (n) sqrt(a_i)                               */
    mpfr_t *dq, *dk, *dz; /* (n, .) of one head                          */
    mpfr_t *x, *value;    /* (d), (value_dim)                            */
    mpfr_t *wide;         /* (heads, key_dim)                            */
    mpfr_t t[6];
} mp_attention;

static size_t mp_width(const mp_attention *m) {
    return m->l->O ? m->l->out_dim : m->l->heads * m->l->value_dim;
}

static int mp_visible(const mp_attention *m, size_t i, size_t j) {
    const lipsc_layer *l = m->l;
    if (l->mask == LIPSC_MASK_NONE) return 1;
    if (l->mask == LIPSC_MASK_TIMES) return m->in->times[j] <= m->in->times[i];
    if (l->mask == LIPSC_MASK_LOCAL) return (j <= i ? i - j : j - i) < l->window;
    return j <= i && (l->mask == LIPSC_MASK_CAUSAL || i - j < l->window);
}

/* y = W x + b */
static void mp_affine(mp_attention *m, size_t rows, const double *W, const double *b,
                      mpfr_t *x, mpfr_t *y) {
    const size_t d = m->l->d;
    for (size_t r = 0; r < rows; r++) {
        if (W)
            mpfr_set_zero(y[r], 1);
        else
            mpfr_set(y[r], x[r], MP_NEAR);
        for (size_t c = 0; W && c < d; c++) mp_add_d(y[r], W[r * d + c], x[c], m->t[0]);
        if (b) mpfr_add_d(y[r], y[r], b[r], MP_NEAR);
    }
}

/* x += W^T y */
static void mp_add_transposed(mp_attention *m, size_t rows, const double *W, mpfr_t *y,
                              mpfr_t *x) {
    const size_t d = m->l->d;
    for (size_t r = 0; r < rows; r++) {
        if (!W) mpfr_add(x[r], x[r], y[r], MP_NEAR);
        for (size_t c = 0; W && c < d; c++) mp_add_d(x[c], W[r * d + c], y[r], m->t[0]);
    }
}

/* Where the norm that head g takes part in begins, in heads. */
static size_t mp_first(const mp_side *s, size_t g) { return s->span > 1 ? 0 : g; }

static mpfr_t *mp_raw(const mp_attention *m, const mp_side *s, size_t i, size_t head) {
    return s->raw + (i * s->heads + head) * m->l->key_dim;
}

/* t[1] = r^2 = |y|^2 + m eps, t[2] = sqrt(m) / r for the m numbers y of the norm */
static void mp_radius(mp_attention *m, const mp_side *s, mpfr_t *y) {
    const size_t count = s->span * m->l->key_dim;
    mp_dot(m->t[1], count, y, y);
    mpfr_set_d(m->t[2], m->l->norm_eps, MP_NEAR);
    mpfr_mul_ui(m->t[2], m->t[2], count, MP_NEAR);
    mpfr_add(m->t[1], m->t[1], m->t[2], MP_NEAR);
    mpfr_ui_div(m->t[2], count, m->t[1], MP_NEAR);
    mpfr_sqrt(m->t[2], m->t[2], MP_NEAR);
}

/* The gain of component l of head g. */
static double mp_gain(const mp_attention *m, const mp_side *s, size_t g, size_t l) {
    return s->gain[(s->span > 1 || m->l->norm_whole ? g * m->l->key_dim : 0) + l];
}

/* y = head g of token i */
static void mp_side_value(mp_attention *m, const mp_side *s, size_t g, size_t i,
                          mpfr_t *y) {
    const size_t k = m->l->key_dim;
    for (size_t l = 0; l < k; l++) mpfr_set(y[l], mp_raw(m, s, i, g)[l], MP_NEAR);
    if (!s->gain) return;
    mp_radius(m, s, mp_raw(m, s, i, mp_first(s, g)));
    for (size_t l = 0; l < k; l++) {
        mpfr_mul(y[l], y[l], m->t[2], MP_NEAR);
        mpfr_mul_d(y[l], y[l], mp_gain(m, s, g, l), MP_NEAR);
    }
}

/* dy of head g of token i, for the direction m->x of the token */
static void mp_side_direction(mp_attention *m, const mp_side *s, size_t g, size_t i,
                              mpfr_t *dy) {
    const size_t k = m->l->key_dim, first = mp_first(s, g);
    mpfr_t *raw = mp_raw(m, s, i, first), *own = mp_raw(m, s, i, g);
    mp_affine(m, s->span * k, s->W ? s->W + first * k * m->l->d : NULL, NULL, m->x,
              m->wide);
    mpfr_t *mine = m->wide + (g - first) * k;
    for (size_t l = 0; l < k; l++) mpfr_set(dy[l], mine[l], MP_NEAR);
    if (!s->gain) return;
    mp_radius(m, s, raw);
    mp_dot(m->t[3], s->span * k, raw, m->wide);
    mpfr_div(m->t[3], m->t[3], m->t[1], MP_NEAR);
    for (size_t l = 0; l < k; l++) {
        mpfr_mul(m->t[4], own[l], m->t[3], MP_NEAR);
        mpfr_sub(dy[l], dy[l], m->t[4], MP_NEAR);
        mpfr_mul(dy[l], dy[l], m->t[2], MP_NEAR);
        mpfr_mul_d(dy[l], dy[l], mp_gain(m, s, g, l), MP_NEAR);
    }
}

/* x += the transpose of that, applied to w */
static void mp_side_back(mp_attention *m, const mp_side *s, size_t g, size_t i, mpfr_t *w,
                         mpfr_t *x) {
    const size_t k = m->l->key_dim, first = mp_first(s, g), count = s->span * k;
    mpfr_t *raw = mp_raw(m, s, i, first), *mine = m->wide + (g - first) * k;
    mp_zero(count, m->wide);
    for (size_t l = 0; l < k; l++) mpfr_set(mine[l], w[l], MP_NEAR);
    if (s->gain) {
        mp_radius(m, s, raw);
        for (size_t l = 0; l < k; l++)
            mpfr_mul_d(mine[l], mine[l], mp_gain(m, s, g, l), MP_NEAR);
        mp_dot(m->t[3], count, raw, m->wide);
        mpfr_div(m->t[3], m->t[3], m->t[1], MP_NEAR);
        for (size_t l = 0; l < count; l++) {
            mpfr_mul(m->t[4], raw[l], m->t[3], MP_NEAR);
            mpfr_sub(m->wide[l], m->wide[l], m->t[4], MP_NEAR);
            mpfr_mul(m->wide[l], m->wide[l], m->t[2], MP_NEAR);
        }
    }
    mp_add_transposed(m, count, s->W ? s->W + first * k * m->l->d : NULL, m->wide, x);
}

static void mp_rotate(mp_attention *m, size_t token, double direction, mpfr_t *y) {
    const size_t half = m->l->rotary_dim / 2;
    const double position = m->in->positions ? m->in->positions[token] : (double)token;
    for (size_t l = 0; l < half; l++) {
        const double angle = position * m->l->rotary_freq[l];
        const double c = cos(angle), s = direction * sin(angle);
        mpfr_mul_d(m->t[0], y[l], c, MP_NEAR);
        mpfr_mul_d(m->t[1], y[l + half], s, MP_NEAR);
        mpfr_mul_d(m->t[2], y[l], s, MP_NEAR);
        mpfr_mul_d(m->t[3], y[l + half], c, MP_NEAR);
        mpfr_sub(y[l], m->t[0], m->t[1], MP_NEAR);
        mpfr_add(y[l + half], m->t[3], m->t[2], MP_NEAR);
    }
}

static void mp_scale(mp_attention *m, mpfr_t *q) {
    for (size_t l = 0; l < m->l->key_dim; l++) mpfr_mul_d(q[l], q[l], m->l->scale, MP_NEAR);
}

/* The bucket of T5: half of them for keys behind the query, half for those before it; half
 * of each for small distances, one by one, the others up to bias_distance by logarithms,
 * which the published code takes in single precision. */
static size_t mp_bucket(const lipsc_layer *l, size_t i, size_t j) {
    const size_t half = l->bias_buckets / 2, near = half / 2, far = j > i ? j - i : i - j;
    size_t bucket = far;
    if (far >= near) {
        const float share = logf((float)far / (float)near) /
                            (float)log((double)l->bias_distance / (double)near);
        bucket = near + (size_t)(share * (float)(half - near));
        if (bucket > half - 1) bucket = half - 1;
    }
    return bucket + (j > i ? half : 0);
}

/* s := c tanh(s / c), slope = its derivative; then the bias */
static void mp_finish_score(mp_attention *m, size_t h, size_t i, size_t j, mpfr_t s,
                            mpfr_t slope) {
    const lipsc_layer *l = m->l;
    mpfr_set_ui(slope, 1, MP_NEAR);
    if (l->soft_cap > 0.0) {
        mpfr_div_d(s, s, l->soft_cap, MP_NEAR);
        mpfr_sech(slope, s, MP_NEAR);
        mpfr_mul(slope, slope, slope, MP_NEAR);
        mpfr_tanh(s, s, MP_NEAR);
        mpfr_mul_d(s, s, l->soft_cap, MP_NEAR);
    }
    if (l->bias_rule == LIPSC_BIAS_LINEAR) {
        mpfr_set_d(m->t[5], (double)j - (double)i, MP_NEAR);
        mpfr_mul_d(m->t[5], m->t[5], l->score_bias[h], MP_NEAR);
        mpfr_add(s, s, m->t[5], MP_NEAR);
    }
    if (l->bias_rule == LIPSC_BIAS_BUCKETS)
        mpfr_add_d(s, s, l->score_bias[h * l->bias_buckets + mp_bucket(l, i, j)], MP_NEAR);
}

/* Rows of P of one head. */
static void mp_softmax(mp_attention *m, size_t h) {
    const size_t n = m->in->n, k = m->l->key_dim;
    for (size_t i = 0; i < n; i++) {
        mpfr_t *p = m->P + (h * n + i) * n, *slope = m->slope + (h * n + i) * n;
        size_t top = i;
        for (size_t j = 0; j < n; j++) {
            mp_dot(p[j], k, m->q + (h * n + i) * k, m->k + (h * n + j) * k);
            mp_finish_score(m, h, i, j, p[j], slope[j]);
        }
        for (size_t j = 0; j < n; j++)
            if (mp_visible(m, i, j) && mpfr_greater_p(p[j], p[top])) top = j;
        mpfr_set(m->t[0], p[top], MP_NEAR);
        mpfr_set_zero(m->t[1], 1);
        if (m->l->sinks) {
            mpfr_set_d(m->t[1], m->l->sinks[h], MP_NEAR);
            mpfr_sub(m->t[1], m->t[1], m->t[0], MP_NEAR);
            mpfr_exp(m->t[1], m->t[1], MP_NEAR);
        }
        for (size_t j = 0; j < n; j++) {
            if (!mp_visible(m, i, j)) {
                mpfr_set_zero(p[j], 1);
                continue;
            }
            mpfr_sub(p[j], p[j], m->t[0], MP_NEAR);
            mpfr_exp(p[j], p[j], MP_NEAR);
            if (m->in->weights) mpfr_mul_d(p[j], p[j], m->in->weights[j], MP_NEAR);
            mpfr_add(m->t[1], m->t[1], p[j], MP_NEAR);
        }
        for (size_t j = 0; j < n; j++) mpfr_div(p[j], p[j], m->t[1], MP_NEAR);
    }
}

static mp_side mp_side_new(size_t n, const lipsc_layer *l, size_t heads, const double *W,
                           const double *b, const double *gain) {
    return (mp_side){.W = W,
                     .b = b,
                     .gain = gain,
                     .heads = heads,
                     .span = gain && l->norm_whole ? heads : 1,
                     .raw = mp_new(n * heads * l->key_dim)};
}

static void mp_open(mp_attention *m, const lipsc_layer *layer, const lipsc_input *input) {
    const size_t n = input->n, d = layer->d, k = layer->key_dim, dv = layer->value_dim;
    const size_t H = layer->heads;
    m->l = layer;
    m->in = input;
    m->query = mp_side_new(n, layer, H, layer->Q, layer->bq, layer->q_gain);
    m->key = mp_side_new(n, layer, layer->kv_heads, layer->K, layer->bk, layer->k_gain);
    m->q = mp_new(H * n * k), m->k = mp_new(H * n * k), m->z = mp_new(H * n * dv);
    m->P = mp_new(H * n * n), m->slope = mp_new(H * n * n), m->root = mp_new(n);
    m->dq = mp_new(n * k), m->dk = mp_new(n * k), m->dz = mp_new(n * dv);
    m->x = mp_new(d), m->value = mp_new(dv), m->wide = mp_new(H * k);
    for (int i = 0; i < 6; i++) mpfr_init2(m->t[i], MP_BITS);
    for (size_t i = 0; i < n; i++) {
        mpfr_set_d(m->root[i], input->weights ? input->weights[i] : 1.0, MP_NEAR);
        mpfr_sqrt(m->root[i], m->root[i], MP_NEAR);
        for (size_t c = 0; c < d; c++) mpfr_set_d(m->x[c], input->X[i * d + c], MP_NEAR);
        mp_affine(m, H * k, layer->Q, layer->bq, m->x, mp_raw(m, &m->query, i, 0));
        mp_affine(m, layer->kv_heads * k, layer->K, layer->bk, m->x,
                  mp_raw(m, &m->key, i, 0));
        for (size_t h = 0; h < H; h++) {
            const size_t g = h * layer->kv_heads / H;
            mpfr_t *q = m->q + (h * n + i) * k, *key = m->k + (h * n + i) * k;
            mp_affine(m, dv, layer->V + g * dv * d, layer->bv ? layer->bv + g * dv : NULL,
                      m->x, m->z + (h * n + i) * dv);
            mp_side_value(m, &m->query, h, i, q);
            mp_side_value(m, &m->key, g, i, key);
            mp_rotate(m, i, 1.0, q);
            mp_rotate(m, i, 1.0, key);
            mp_scale(m, q);
        }
    }
    for (size_t h = 0; h < H; h++) mp_softmax(m, h);
}

static void mp_close(mp_attention *m) {
    const size_t n = m->in->n, k = m->l->key_dim, dv = m->l->value_dim, H = m->l->heads;
    mp_free(n * m->query.heads * k, m->query.raw);
    mp_free(n * m->key.heads * k, m->key.raw);
    mp_free(H * n * k, m->q), mp_free(H * n * k, m->k), mp_free(H * n * dv, m->z);
    mp_free(H * n * n, m->P), mp_free(H * n * n, m->slope), mp_free(n, m->root);
    mp_free(n * k, m->dq), mp_free(n * k, m->dk), mp_free(n * dv, m->dz);
    mp_free(m->l->d, m->x), mp_free(dv, m->value), mp_free(H * k, m->wide);
    for (int i = 0; i < 6; i++) mpfr_clear(m->t[i]);
}

/* ---- J v ---------------------------------------------------------------------------- */

static void mp_directions(mp_attention *m, size_t h, const double *v) {
    const lipsc_layer *l = m->l;
    const size_t n = m->in->n, d = l->d, k = l->key_dim, dv = l->value_dim;
    const size_t g = h * l->kv_heads / l->heads;
    for (size_t i = 0; i < n; i++) {
        mpfr_t *dq = m->dq + i * k, *dk = m->dk + i * k;
        for (size_t c = 0; c < d; c++) {
            mpfr_set_d(m->x[c], v[i * d + c], MP_NEAR);
            mpfr_div(m->x[c], m->x[c], m->root[i], MP_NEAR);
        }
        mp_affine(m, dv, l->V + g * dv * d, NULL, m->x, m->dz + i * dv);
        mp_side_direction(m, &m->query, h, i, dq);
        mp_side_direction(m, &m->key, g, i, dk);
        mp_rotate(m, i, 1.0, dq);
        mp_rotate(m, i, 1.0, dk);
        mp_scale(m, dq);
    }
}

/* value = row i of the head's derivative */
static void mp_row(mp_attention *m, size_t h, size_t i) {
    const size_t n = m->in->n, k = m->l->key_dim, dv = m->l->value_dim;
    mpfr_t *p = m->P + (h * n + i) * n, *ds = mp_new(n);
    mpfr_set_zero(m->t[2], 1);
    for (size_t j = 0; j < n; j++) {
        mp_dot(m->t[0], k, m->dq + i * k, m->k + (h * n + j) * k);
        mp_dot(ds[j], k, m->q + (h * n + i) * k, m->dk + j * k);
        mpfr_add(ds[j], ds[j], m->t[0], MP_NEAR);
        mpfr_mul(ds[j], ds[j], m->slope[(h * n + i) * n + j], MP_NEAR);
        mpfr_fma(m->t[2], p[j], ds[j], m->t[2], MP_NEAR);
    }
    mp_zero(dv, m->value);
    for (size_t j = 0; j < n; j++) {
        mpfr_sub(m->t[0], ds[j], m->t[2], MP_NEAR);
        mpfr_mul(m->t[0], m->t[0], p[j], MP_NEAR);
        for (size_t c = 0; c < dv; c++) {
            mpfr_fma(m->value[c], m->t[0], m->z[(h * n + j) * dv + c], m->value[c],
                     MP_NEAR);
            mpfr_fma(m->value[c], p[j], m->dz[j * dv + c], m->value[c], MP_NEAR);
        }
    }
    mp_free(n, ds);
}

/* y (n, width) = J v */
static void mp_jvp(mp_attention *m, const double *v, mpfr_t *y) {
    const lipsc_layer *l = m->l;
    const size_t n = m->in->n, dv = l->value_dim, width = mp_width(m);
    mp_zero(n * width, y);
    for (size_t h = 0; h < l->heads; h++) {
        mp_directions(m, h, v);
        for (size_t i = 0; i < n; i++) {
            mp_row(m, h, i);
            for (size_t c = 0; c < dv; c++)
                mpfr_mul(m->value[c], m->value[c], m->root[i], MP_NEAR);
            for (size_t r = 0; l->O && r < width; r++)
                for (size_t c = 0; c < dv; c++)
                    mp_add_d(y[i * width + r], l->O[(r * l->heads + h) * dv + c],
                             m->value[c], m->t[0]);
            for (size_t c = 0; !l->O && c < dv; c++)
                mpfr_set(y[i * width + h * dv + c], m->value[c], MP_NEAR);
        }
    }
}

/* ---- J^T w -------------------------------------------------------------------------- */

/* Adds row i of one head to dq, dk, dz; value is the gradient of its output. */
static void mp_row_back(mp_attention *m, size_t h, size_t i) {
    const size_t n = m->in->n, k = m->l->key_dim, dv = m->l->value_dim;
    mpfr_t *p = m->P + (h * n + i) * n, *b = mp_new(n);
    mpfr_set_zero(m->t[2], 1);
    for (size_t j = 0; j < n; j++) {
        mp_dot(b[j], dv, m->value, m->z + (h * n + j) * dv);
        mpfr_fma(m->t[2], p[j], b[j], m->t[2], MP_NEAR);
    }
    for (size_t j = 0; j < n; j++) {
        mpfr_sub(b[j], b[j], m->t[2], MP_NEAR);
        mpfr_mul(b[j], b[j], p[j], MP_NEAR);
        mpfr_mul(b[j], b[j], m->slope[(h * n + i) * n + j], MP_NEAR);
        for (size_t l = 0; l < k; l++) {
            mpfr_fma(m->dq[i * k + l], b[j], m->k[(h * n + j) * k + l], m->dq[i * k + l],
                     MP_NEAR);
            mpfr_fma(m->dk[j * k + l], b[j], m->q[(h * n + i) * k + l], m->dk[j * k + l],
                     MP_NEAR);
        }
        for (size_t c = 0; c < dv; c++)
            mpfr_fma(m->dz[j * dv + c], p[j], m->value[c], m->dz[j * dv + c], MP_NEAR);
    }
    mp_free(n, b);
}

/* x (n, d) = J^T w */
static void mp_vjp(mp_attention *m, const double *w, mpfr_t *x) {
    const lipsc_layer *l = m->l;
    const size_t n = m->in->n, d = l->d, k = l->key_dim, dv = l->value_dim;
    const size_t width = mp_width(m);
    mp_zero(n * d, x);
    for (size_t h = 0; h < l->heads; h++) {
        const size_t g = h * l->kv_heads / l->heads;
        mp_zero(n * k, m->dq), mp_zero(n * k, m->dk), mp_zero(n * dv, m->dz);
        for (size_t i = 0; i < n; i++) {
            for (size_t c = 0; c < dv; c++) {
                mpfr_set_d(m->value[c], l->O ? 0.0 : w[i * width + h * dv + c], MP_NEAR);
                for (size_t r = 0; l->O && r < width; r++) {
                    mpfr_set_d(m->t[1], w[i * width + r], MP_NEAR);
                    mp_add_d(m->value[c], l->O[(r * l->heads + h) * dv + c], m->t[1],
                             m->t[0]);
                }
                mpfr_mul(m->value[c], m->value[c], m->root[i], MP_NEAR);
            }
            mp_row_back(m, h, i);
        }
        for (size_t i = 0; i < n; i++) {
            mpfr_t *dq = m->dq + i * k, *dk = m->dk + i * k;
            mp_scale(m, dq);
            mp_rotate(m, i, -1.0, dq);
            mp_rotate(m, i, -1.0, dk);
            mp_side_back(m, &m->query, h, i, dq, x + i * d);
            mp_side_back(m, &m->key, g, i, dk, x + i * d);
            mp_add_transposed(m, dv, l->V + g * dv * d, m->dz + i * dv, x + i * d);
        }
    }
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < d; c++)
            mpfr_div(x[i * d + c], x[i * d + c], m->root[i], MP_NEAR);
}

/* ---- Lengths ------------------------------------------------------------------------ */

/* r = |x - y|; y NULL: |x| */
static void mp_distance(mpfr_t r, size_t count, mpfr_t *x, const double *y) {
    mpfr_t t;
    mpfr_init2(t, MP_BITS);
    mpfr_set_zero(r, 1);
    for (size_t e = 0; e < count; e++) {
        mpfr_sub_d(t, x[e], y ? y[e] : 0.0, MP_NEAR);
        mpfr_fma(r, t, t, r, MP_NEAR);
    }
    mpfr_sqrt(r, r, MP_NEAR);
    mpfr_clear(t);
}

/* |x| of doubles */
static void mp_length(mpfr_t r, size_t count, const double *x) {
    mpfr_t t;
    mpfr_init2(t, MP_BITS);
    mpfr_set_zero(r, 1);
    for (size_t e = 0; e < count; e++) {
        mpfr_set_d(t, x[e], MP_NEAR);
        mpfr_fma(r, t, t, r, MP_NEAR);
    }
    mpfr_sqrt(r, r, MP_NEAR);
    mpfr_clear(t);
}

#endif
