/* ref_head.h - one head of the definition: its projections, a row of its softmax, its part
 * of the output.  Shared by the files of the definition (ref.c, ref_gradient.c) and by
 * nothing else; ref.c says what the formulas are. */
#ifndef LIPSC_ATTN_REF_HEAD_H
#define LIPSC_ATTN_REF_HEAD_H

#include "attn/attn.h"
#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "core/twice.h"

#include <math.h>
#include <string.h>

/* What makes the queries or the keys of a head: y = Norm(W x + b), of which the head is
 * components first .. first+key_dim-1.  W has the rows of this head, or those of all heads
 * where the norm runs over them. */
typedef struct {
    const double *W, *b, *gain; /* W NULL: the identity; b, gain NULL: none            */
    size_t width, first;        /* rows of W; where the head begins                    */
    double *raw;                /* (n, width) W x + b                                  */
} side;

/* One head at one input.  Arrays have one row per token. */
typedef struct {
    const lipsc_layer *layer;
    const lipsc_input *input;
    side query, key;
    const double *V, *bv;  /* rows of this head                      */
    const double *O;       /* first column of this head, or NULL     */
    size_t first;          /* first output component, without O      */
    double *wide;          /* (width) a query or key before the norm */
    double *q, *k, *z;     /* (n, key_dim) twice, (n, value_dim)     */
    double *dq, *dk, *dz;  /* directions or gradients of these       */
    size_t index;          /* which query head                       */
    int twice;             /* projections in twice the precision     */
    double *p, *ds;        /* (n) a row of P and of dS               */
    double *cap, *slope;   /* (n) tanh of a row, its derivative      */
    double *sink;          /* (1) 1 - sum of the row of P            */
    double *token, *value; /* (d) and (value_dim)                    */
} head;

static inline double dot(size_t n, const double *a, const double *b) {
    double sum = 0.0;
    for (size_t l = 0; l < n; l++) sum += a[l] * b[l];
    return sum;
}

/* y = W x + b, W (rows, cols); W NULL: the identity; b NULL: none */
static inline void affine(size_t rows, size_t cols, const double *W, const double *b,
                          const double *x, double *y) {
    for (size_t r = 0; r < rows; r++) {
        y[r] = W ? dot(cols, W + r * cols, x) : x[r];
        if (b) y[r] += b[r];
    }
}

/* The same of a token: in twice the precision where the head asks for it. */
static inline void affine_token(const head *h, size_t rows, const double *W,
                                const double *b, const double *x, double *y) {
    const size_t d = h->layer->d;
    if (!h->twice || !W) {
        affine(rows, d, W, b, x, y);
        return;
    }
    for (size_t r = 0; r < rows; r++)
        y[r] = lipsc_twice_minus(lipsc_twice_dot(b ? b[r] : 0.0, d, W + r * d, x), 0.0);
}

/* x += W^T y */
static inline void add_transposed(size_t rows, size_t cols, const double *W,
                                  const double *y, double *x) {
    for (size_t r = 0; r < rows; r++) {
        if (!W) x[r] += y[r];
        for (size_t c = 0; W && c < cols; c++) x[c] += W[r * cols + c] * y[r];
    }
}

/* ---- Norm and rotation of one query or key ---------------------------------- */

/* Norm(x) = g o sqrt(k) x / r,  r = sqrt(|x|^2 + k eps) */
static inline double norm_radius(size_t k, double eps, const double *x) {
    return sqrt(dot(k, x, x) + (double)k * eps);
}

/* y := g o sqrt(k) y / r, for y = x itself */
static inline void norm(size_t k, const double *gain, double eps, double *y) {
    const double factor = sqrt((double)k) / norm_radius(k, eps, y);
    for (size_t l = 0; l < k; l++) y[l] *= factor * gain[l];
}

/* h := (sqrt(k)/r) g o (h - u (u.h)),  u = x/r */
static inline void norm_jvp(size_t k, const double *gain, double eps, const double *x,
                            double *h) {
    const double r = norm_radius(k, eps, x), along = dot(k, x, h) / (r * r);
    for (size_t l = 0; l < k; l++)
        h[l] = sqrt((double)k) / r * gain[l] * (h[l] - x[l] * along);
}

/* w := (sqrt(k)/r) (t - u (u.t)),  t = g o w */
static inline void norm_vjp(size_t k, const double *gain, double eps, const double *x,
                            double *w) {
    const double r = norm_radius(k, eps, x);
    for (size_t l = 0; l < k; l++) w[l] *= gain[l];
    const double along = dot(k, x, w) / (r * r);
    for (size_t l = 0; l < k; l++) w[l] = sqrt((double)k) / r * (w[l] - x[l] * along);
}

/* Turns the pairs (l, l + rotary_dim/2) by direction * position * freq[l].  The
 * transposed rotation is the one by the opposite angle: direction -1. */
static inline void rotate(const head *h, size_t token, double direction, double *y) {
    const size_t half = h->layer->rotary_dim / 2;
    const double position =
        h->input->positions ? h->input->positions[token] : (double)token;
    for (size_t l = 0; l < half; l++) {
        const double angle = position * h->layer->rotary_freq[l];
        const double c = cos(angle), s = direction * sin(angle);
        const double a = y[l], b = y[l + half];
        y[l] = a * c - b * s;
        y[l + half] = b * c + a * s;
    }
}

/* ---- Project ----------------------------------------------------------------- */

/* y (key_dim) = the head's part of Norm(W x + b), token i */
static inline void side_value(const head *h, const side *s, size_t i, const double *x,
                              double *y) {
    double *raw = s->raw + i * s->width;
    affine_token(h, s->width, s->W, s->b, x, raw);
    memcpy(h->wide, raw, s->width * sizeof *raw);
    if (s->gain) norm(s->width, s->gain, h->layer->norm_eps, h->wide);
    memcpy(y, h->wide + s->first, h->layer->key_dim * sizeof *y);
}

/* The same of a direction x of token i. */
static inline void side_jvp(const head *h, const side *s, size_t i, const double *x,
                            double *y) {
    affine(s->width, h->layer->d, s->W, NULL, x, h->wide);
    if (s->gain)
        norm_jvp(s->width, s->gain, h->layer->norm_eps, s->raw + i * s->width, h->wide);
    memcpy(y, h->wide + s->first, h->layer->key_dim * sizeof *y);
}

/* x += the transpose of that, applied to y */
static inline void side_vjp(const head *h, const side *s, size_t i, const double *y,
                            double *x) {
    memset(h->wide, 0, s->width * sizeof *h->wide);
    memcpy(h->wide + s->first, y, h->layer->key_dim * sizeof *y);
    if (s->gain)
        norm_vjp(s->width, s->gain, h->layer->norm_eps, s->raw + i * s->width, h->wide);
    add_transposed(s->width, h->layer->d, s->W, h->wide, x);
}

static inline void project(const head *h) {
    const lipsc_layer *layer = h->layer;
    const size_t d = layer->d, k = layer->key_dim, dv = layer->value_dim;
    for (size_t i = 0; i < h->input->n; i++) {
        const double *x = h->input->X + i * d;
        double *q = h->q + i * k, *key = h->k + i * k;
        side_value(h, &h->query, i, x, q);
        side_value(h, &h->key, i, x, key);
        affine_token(h, dv, h->V, h->bv, x, h->z + i * dv);
        rotate(h, i, 1.0, q);
        rotate(h, i, 1.0, key);
        for (size_t l = 0; l < k; l++) q[l] *= layer->scale;
    }
}

/* Direction x of the tokens -> dq, dk, dz. */
static inline void project_jvp(const head *h, const double *x) {
    const lipsc_layer *layer = h->layer;
    const size_t d = layer->d, k = layer->key_dim, dv = layer->value_dim;
    for (size_t i = 0; i < h->input->n; i++) {
        double *dq = h->dq + i * k, *dk = h->dk + i * k;
        const double root = h->input->weights ? sqrt(h->input->weights[i]) : 1.0;
        for (size_t c = 0; c < d; c++) h->token[c] = x[i * d + c] / root;
        side_jvp(h, &h->query, i, h->token, dq);
        side_jvp(h, &h->key, i, h->token, dk);
        affine(dv, d, h->V, NULL, h->token, h->dz + i * dv);
        rotate(h, i, 1.0, dq);
        rotate(h, i, 1.0, dk);
        for (size_t l = 0; l < k; l++) dq[l] *= layer->scale;
    }
}

/* Gradients dq, dk, dz -> added to the gradient x of the tokens. */
static inline void project_vjp(const head *h, double *x) {
    const lipsc_layer *layer = h->layer;
    const size_t d = layer->d, k = layer->key_dim, dv = layer->value_dim;
    for (size_t i = 0; i < h->input->n; i++) {
        double *dq = h->dq + i * k, *dk = h->dk + i * k;
        for (size_t l = 0; l < k; l++) dq[l] *= layer->scale;
        rotate(h, i, -1.0, dq);
        rotate(h, i, -1.0, dk);
        memset(h->token, 0, d * sizeof *h->token);
        side_vjp(h, &h->query, i, dq, h->token);
        side_vjp(h, &h->key, i, dk, h->token);
        add_transposed(dv, d, h->V, h->dz + i * dv, h->token);
        const double root = h->input->weights ? sqrt(h->input->weights[i]) : 1.0;
        for (size_t c = 0; c < d; c++) x[i * d + c] += h->token[c] / root;
    }
}

/* ---- Core --------------------------------------------------------------------- */

static inline int visible(const lipsc_layer *layer, const lipsc_input *input, size_t i,
                          size_t j) {
    switch (layer->mask) {
    case LIPSC_MASK_NONE:
        return 1;
    case LIPSC_MASK_CAUSAL:
        return j <= i;
    case LIPSC_MASK_SLIDING:
        return j <= i && i - j < layer->window;
    case LIPSC_MASK_LOCAL:
        return (j <= i ? i - j : j - i) < layer->window;
    case LIPSC_MASK_TIMES:
        return input->times[j] <= input->times[i];
    }
    return 0;
}

/* c tanh(s / c), with tanh(s / c) and the derivative 1 - tanh^2 kept for key j. */
static inline double capped(const head *h, size_t j, double s) {
    const double c = h->layer->soft_cap;
    h->cap[j] = c > 0.0 ? tanh(s / c) : 0.0;
    h->slope[j] = c > 0.0 ? 1.0 / (cosh(s / c) * cosh(s / c)) : 1.0;
    return c > 0.0 ? c * h->cap[j] : s;
}

/* p = P_i; returns the place of its largest entry.  An entry that is hidden, or too
 * small for a double, is zero. */
static inline size_t core_row(const head *h, size_t i) {
    const size_t n = h->input->n, k = h->layer->key_dim;
    size_t top = i; /* a token always sees itself */
    for (size_t j = 0; j < n; j++) {
        if (!visible(h->layer, h->input, i, j)) {
            h->p[j] = -INFINITY;
            h->cap[j] = h->slope[j] = 0.0;
            continue;
        }
        h->p[j] = capped(h, j, dot(k, h->q + i * k, h->k + j * k));
        h->p[j] += lipsc_layer_bias(h->layer, h->index, j > i ? j - i : i - j, j > i);
        if (h->input->weights) h->p[j] += log(h->input->weights[j]);
    }
    for (size_t j = 0; j < n; j++)
        if (h->p[j] > h->p[top]) top = j;
    const double sink = h->layer->sinks ? h->layer->sinks[h->index] : -INFINITY;
    const double largest = lipsc_max(h->p[top], sink);
    double sum = exp(sink - largest);
    for (size_t j = 0; j < n; j++) sum += h->p[j] = exp(h->p[j] - largest);
    for (size_t j = 0; j < n; j++) h->p[j] /= sum;
    *h->sink = exp(sink - largest) / sum;
    return top;
}

/* ---- Output -------------------------------------------------------------------- */

/* y += factor O_h value; without O the head has its own components */
static inline void output_add(const head *h, double factor, double *y) {
    const lipsc_layer *layer = h->layer;
    const size_t dv = layer->value_dim, stride = layer->heads * dv;
    if (!h->O)
        for (size_t c = 0; c < dv; c++) y[h->first + c] += factor * h->value[c];
    else
        for (size_t r = 0; r < layer->out_dim; r++)
            y[r] += factor * dot(dv, h->O + r * stride, h->value);
}

/* value = factor O_h^T y */
static inline void output_vjp(const head *h, double factor, const double *y) {
    const lipsc_layer *layer = h->layer;
    const size_t dv = layer->value_dim, stride = layer->heads * dv;
    for (size_t c = 0; c < dv; c++) {
        h->value[c] = h->O ? 0.0 : factor * y[h->first + c];
        for (size_t r = 0; h->O && r < layer->out_dim; r++)
            h->value[c] += factor * h->O[r * stride + c] * y[r];
    }
}

/* ---- Life of a head --------------------------------------------------------------- */

/* Rows of a side that one head needs, out of `heads` heads. */
static inline size_t side_width(const lipsc_layer *layer, size_t heads,
                                const double *gain) {
    return gain && layer->norm_whole ? heads * layer->key_dim : layer->key_dim;
}

static inline void side_enter(const lipsc_layer *layer, size_t index, const double *W,
                              const double *b, side *s) {
    const size_t k = layer->key_dim;
    const int whole = s->gain && layer->norm_whole;
    s->first = whole ? index * k : 0;
    s->W = W && !whole ? W + index * k * layer->d : W;
    s->b = b && !whole ? b + index * k : b;
}

/* Points h at the weights of query head `index` and projects the input. */
static inline void head_enter(head *h, size_t index) {
    const lipsc_layer *layer = h->layer;
    const size_t d = layer->d, dv = layer->value_dim;
    const size_t g = index * layer->kv_heads / layer->heads;
    side_enter(layer, index, layer->Q, layer->bq, &h->query);
    side_enter(layer, g, layer->K, layer->bk, &h->key);
    h->V = layer->V + g * dv * d;
    h->O = layer->O ? layer->O + index * dv : NULL;
    h->bv = layer->bv ? layer->bv + g * dv : NULL;
    h->first = index * dv;
    h->index = index;
    project(h);
}

static inline lipsc_status head_alloc(head *h, const lipsc_layer *layer,
                                      const lipsc_input *input) {
    const size_t n = input->n, k = layer->key_dim, dv = layer->value_dim;
    h->query.gain = layer->q_gain;
    h->key.gain = layer->k_gain;
    h->query.width = side_width(layer, layer->heads, layer->q_gain);
    h->key.width = side_width(layer, layer->kv_heads, layer->k_gain);
    const size_t wide = h->query.width > h->key.width ? h->query.width : h->key.width;
    double **const arrays[] = {&h->query.raw, &h->key.raw, &h->wide,  &h->q,
                               &h->k,         &h->dq,      &h->dk,    &h->z,
                               &h->dz,        &h->p,       &h->ds,    &h->value,
                               &h->token,     &h->cap,     &h->slope, &h->sink};
    const size_t counts[] = {n * h->query.width,
                             n * h->key.width,
                             wide,
                             n * k,
                             n * k,
                             n * k,
                             n * k,
                             n * dv,
                             n * dv,
                             n,
                             n,
                             dv,
                             layer->d,
                             n,
                             n,
                             1};
    int short_of_memory = 0;
    for (size_t a = 0; a < sizeof counts / sizeof counts[0]; a++) {
        *arrays[a] = lipsc_alloc(counts[a], sizeof(double));
        short_of_memory |= !*arrays[a];
    }
    h->layer = layer;
    h->input = input;
    h->twice = 0;
    return short_of_memory ? LIPSC_E_NOMEM : LIPSC_OK;
}

static inline void head_release(head *h) {
    double *const arrays[] = {h->query.raw, h->key.raw, h->wide,  h->q,   h->k,  h->dq,
                              h->dk,        h->z,       h->dz,    h->p,   h->ds, h->value,
                              h->token,     h->cap,     h->slope, h->sink};
    for (size_t a = 0; a < sizeof arrays / sizeof arrays[0]; a++) lipsc_release(arrays[a]);
}

static inline lipsc_status finite_or_fail(size_t count, const double *y, lipsc_error *err) {
    for (size_t e = 0; e < count; e++)
        if (!isfinite(y[e]))
            return lipsc_fail(
                err, LIPSC_E_NONFIN,
                "attention at this input: a score or a product is not finite");
    return LIPSC_OK;
}

#endif
