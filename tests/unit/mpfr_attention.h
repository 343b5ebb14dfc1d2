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

/* ---- Arrays ----------------------------------------------------------------------------
 */

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

/* ---- The operator at an input
 * ------------------------------------------------------------ */

typedef struct {
    const lipsc_layer *l; /* resolved: kv_heads, scale, out_dim */
    const lipsc_input *in;
    mpfr_t *raw_q, *raw_k; /* (heads, n, key_dim) before norm and rotation */
    mpfr_t *q, *k, *z;     /* (heads, n, .)                               */
    mpfr_t *P;             /* (heads, n, n)                               */
    mpfr_t *root;          /* (n) sqrt(a_i)                               */
    mpfr_t *dq, *dk, *dz;  /* (n, .) of one head                          */
    mpfr_t *x, *value;     /* (d), (value_dim)                            */
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

/* t[1] = r^2 = |y|^2 + k eps, t[2] = sqrt(k) / r */
static void mp_radius(mp_attention *m, mpfr_t *y) {
    const size_t k = m->l->key_dim;
    mp_dot(m->t[1], k, y, y);
    mpfr_set_d(m->t[2], m->l->norm_eps, MP_NEAR);
    mpfr_mul_ui(m->t[2], m->t[2], k, MP_NEAR);
    mpfr_add(m->t[1], m->t[1], m->t[2], MP_NEAR);
    mpfr_ui_div(m->t[2], k, m->t[1], MP_NEAR);
    mpfr_sqrt(m->t[2], m->t[2], MP_NEAR);
}

static void mp_norm(mp_attention *m, const double *gain, mpfr_t *y) {
    mp_radius(m, y);
    for (size_t l = 0; l < m->l->key_dim; l++) {
        mpfr_mul(y[l], y[l], m->t[2], MP_NEAR);
        mpfr_mul_d(y[l], y[l], gain[l], MP_NEAR);
    }
}

/* h := derivative of the norm at y, or its transpose, times h */
static void mp_norm_derivative(mp_attention *m, const double *gain, mpfr_t *y, int trans,
                               mpfr_t *h) {
    const size_t k = m->l->key_dim;
    mp_radius(m, y);
    for (size_t l = 0; trans && l < k; l++) mpfr_mul_d(h[l], h[l], gain[l], MP_NEAR);
    mp_dot(m->t[3], k, y, h);
    mpfr_div(m->t[3], m->t[3], m->t[1], MP_NEAR);
    for (size_t l = 0; l < k; l++) {
        mpfr_mul(m->t[4], y[l], m->t[3], MP_NEAR);
        mpfr_sub(h[l], h[l], m->t[4], MP_NEAR);
        mpfr_mul(h[l], h[l], m->t[2], MP_NEAR);
        if (!trans) mpfr_mul_d(h[l], h[l], gain[l], MP_NEAR);
    }
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

/* Rows of P of one head. */
static void mp_softmax(mp_attention *m, size_t h) {
    const size_t n = m->in->n, k = m->l->key_dim;
    for (size_t i = 0; i < n; i++) {
        mpfr_t *p = m->P + (h * n + i) * n;
        size_t top = i;
        for (size_t j = 0; j < n; j++)
            mp_dot(p[j], k, m->q + (h * n + i) * k, m->k + (h * n + j) * k);
        for (size_t j = 0; j < n; j++)
            if (mp_visible(m, i, j) && mpfr_greater_p(p[j], p[top])) top = j;
        mpfr_set(m->t[0], p[top], MP_NEAR);
        mpfr_set_zero(m->t[1], 1);
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

static void mp_open(mp_attention *m, const lipsc_layer *layer, const lipsc_input *input) {
    const size_t n = input->n, d = layer->d, k = layer->key_dim, dv = layer->value_dim;
    const size_t H = layer->heads;
    m->l = layer;
    m->in = input;
    m->raw_q = mp_new(H * n * k), m->raw_k = mp_new(H * n * k);
    m->q = mp_new(H * n * k), m->k = mp_new(H * n * k), m->z = mp_new(H * n * dv);
    m->P = mp_new(H * n * n), m->root = mp_new(n);
    m->dq = mp_new(n * k), m->dk = mp_new(n * k), m->dz = mp_new(n * dv);
    m->x = mp_new(d), m->value = mp_new(dv);
    for (int i = 0; i < 6; i++) mpfr_init2(m->t[i], MP_BITS);
    for (size_t i = 0; i < n; i++) {
        mpfr_set_d(m->root[i], input->weights ? input->weights[i] : 1.0, MP_NEAR);
        mpfr_sqrt(m->root[i], m->root[i], MP_NEAR);
    }
    for (size_t h = 0; h < H; h++) {
        const size_t g = h * layer->kv_heads / H;
        for (size_t i = 0; i < n; i++) {
            mpfr_t *q = m->q + (h * n + i) * k, *key = m->k + (h * n + i) * k;
            for (size_t c = 0; c < d; c++)
                mpfr_set_d(m->x[c], input->X[i * d + c], MP_NEAR);
            mp_affine(m, k, layer->Q + h * k * d, layer->bq ? layer->bq + h * k : NULL,
                      m->x, q);
            mp_affine(m, k, layer->K ? layer->K + g * k * d : NULL,
                      layer->bk ? layer->bk + g * k : NULL, m->x, key);
            mp_affine(m, dv, layer->V + g * dv * d, layer->bv ? layer->bv + g * dv : NULL,
                      m->x, m->z + (h * n + i) * dv);
            for (size_t l = 0; l < k; l++) {
                mpfr_set(m->raw_q[(h * n + i) * k + l], q[l], MP_NEAR);
                mpfr_set(m->raw_k[(h * n + i) * k + l], key[l], MP_NEAR);
            }
            if (layer->q_gain) mp_norm(m, layer->q_gain, q);
            if (layer->k_gain) mp_norm(m, layer->k_gain, key);
            mp_rotate(m, i, 1.0, q);
            mp_rotate(m, i, 1.0, key);
            mp_scale(m, q);
        }
        mp_softmax(m, h);
    }
}

static void mp_close(mp_attention *m) {
    const size_t n = m->in->n, k = m->l->key_dim, dv = m->l->value_dim, H = m->l->heads;
    mp_free(H * n * k, m->raw_q), mp_free(H * n * k, m->raw_k);
    mp_free(H * n * k, m->q), mp_free(H * n * k, m->k), mp_free(H * n * dv, m->z);
    mp_free(H * n * n, m->P), mp_free(n, m->root);
    mp_free(n * k, m->dq), mp_free(n * k, m->dk), mp_free(n * dv, m->dz);
    mp_free(m->l->d, m->x), mp_free(dv, m->value);
    for (int i = 0; i < 6; i++) mpfr_clear(m->t[i]);
}

/* ---- J v
 * --------------------------------------------------------------------------------- */

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
        mp_affine(m, k, l->Q + h * k * d, NULL, m->x, dq);
        mp_affine(m, k, l->K ? l->K + g * k * d : NULL, NULL, m->x, dk);
        mp_affine(m, dv, l->V + g * dv * d, NULL, m->x, m->dz + i * dv);
        if (l->q_gain) mp_norm_derivative(m, l->q_gain, m->raw_q + (h * n + i) * k, 0, dq);
        if (l->k_gain) mp_norm_derivative(m, l->k_gain, m->raw_k + (h * n + i) * k, 0, dk);
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

/* ---- J^T w
 * ------------------------------------------------------------------------------- */

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

/* x += W^T y */
static void mp_add_transposed(mp_attention *m, size_t rows, const double *W, mpfr_t *y,
                              mpfr_t *x) {
    const size_t d = m->l->d;
    for (size_t r = 0; r < rows; r++) {
        if (!W) mpfr_add(x[r], x[r], y[r], MP_NEAR);
        for (size_t c = 0; W && c < d; c++) mp_add_d(x[c], W[r * d + c], y[r], m->t[0]);
    }
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
            if (l->q_gain)
                mp_norm_derivative(m, l->q_gain, m->raw_q + (h * n + i) * k, 1, dq);
            if (l->k_gain)
                mp_norm_derivative(m, l->k_gain, m->raw_k + (h * n + i) * k, 1, dk);
            mp_add_transposed(m, k, l->Q + h * k * d, dq, x + i * d);
            mp_add_transposed(m, k, l->K ? l->K + g * k * d : NULL, dk, x + i * d);
            mp_add_transposed(m, dv, l->V + g * dv * d, m->dz + i * dv, x + i * d);
        }
    }
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < d; c++)
            mpfr_div(x[i * d + c], x[i * d + c], m->root[i], MP_NEAR);
}

/* ---- Lengths
 * ----------------------------------------------------------------------------- */

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
