/* ref_parts.c - norms and MLPs by their definition, in plain double loops. */
#include "model/ref_parts.h"

#include <math.h>
#include <string.h>

/* ---- Norms ---- */

/* One token.  With r = 1 / sqrt(variance + eps), z = r (x - mean) and P, which takes off
 * the mean: N' = gain r (1 - z z^T / d) P, and N'^T = r P (1 - z z^T / d) gain. */
static void norm_token(const lipsc_ref_norm *norm, lipsc_ref_what what, size_t d,
                       const double *x, const double *h, double *y) {
    double mean = 0.0, variance = 0.0, along = 0.0, level = 0.0;
    for (size_t c = 0; !norm->rms && c < d; c++) mean += x[c];
    mean /= (double)d;
    for (size_t c = 0; c < d; c++) variance += (x[c] - mean) * (x[c] - mean);
    const double r = 1.0 / sqrt(variance / (double)d + norm->eps);
    if (what == LIPSC_REF_VALUE) {
        for (size_t c = 0; c < d; c++)
            y[c] = norm->gain[c] * r * (x[c] - mean) + (norm->bias ? norm->bias[c] : 0.0);
        return;
    }
    const int back = what == LIPSC_REF_VJP;
    for (size_t c = 0; c < d; c++) {
        const double g = back ? norm->gain[c] * h[c] : h[c];
        along += g * r * (x[c] - mean);
        if (!norm->rms) level += g;
    }
    along /= (double)d;
    level /= (double)d;
    for (size_t c = 0; c < d; c++) {
        const double g = back ? norm->gain[c] * h[c] : h[c];
        const double turned = r * (g - level - along * r * (x[c] - mean));
        y[c] = back ? turned : norm->gain[c] * turned;
    }
}

void lipsc_ref_norm_apply(const lipsc_ref_norm *norm, lipsc_ref_what what, size_t n,
                          size_t d, const double *x, const double *h, double *y) {
    if (!norm->gain) {
        memmove(y, what == LIPSC_REF_VALUE ? x : h, n * d * sizeof *y);
        return;
    }
    for (size_t i = 0; i < n; i++)
        norm_token(norm, what, d, x + i * d, h ? h + i * d : NULL, y + i * d);
}

/* ---- The MLP ---- */

static const double pi = 3.14159265358979323846;

static double logistic(double x) { return 1.0 / (1.0 + exp(-x)); }

/* a(x), and its derivative in *slope */
static double activate(lipsc_activation kind, double x, double *slope) {
    const double root = kind == LIPSC_ACT_GELU_FAST    ? 0.7978845608
                        : kind == LIPSC_ACT_GELU_BLOOM ? 0.79788456
                                                       : sqrt(2.0 / pi);
    double t, inner;
    switch (kind) {
    case LIPSC_ACT_GELU:
        t = 0.5 * erfc(-x / sqrt(2.0));
        *slope = t + x * exp(-0.5 * x * x) / sqrt(2.0 * pi);
        return x * t;
    case LIPSC_ACT_GELU_TANH:
    case LIPSC_ACT_GELU_FAST:
    case LIPSC_ACT_GELU_BLOOM:
        t = tanh(root * (x + 0.044715 * x * x * x));
        inner = root * (1.0 + 3.0 * 0.044715 * x * x);
        *slope = 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t) * (1.0 + t) * inner;
        return 0.5 * x * (1.0 + t);
    case LIPSC_ACT_GELU_QUICK:
        t = logistic(1.702 * x);
        *slope = t + 1.702 * x * t * logistic(-1.702 * x);
        return x * t;
    case LIPSC_ACT_SILU:
        t = logistic(x);
        *slope = t + x * t * logistic(-x);
        return x * t;
    case LIPSC_ACT_RELU:
        *slope = x > 0.0;
        return x > 0.0 ? x : 0.0;
    case LIPSC_ACT_TANH:
        t = tanh(x);
        *slope = (1.0 - t) * (1.0 + t);
        return t;
    case LIPSC_ACT_SIGMOID:
    default:
        *slope = logistic(x) * logistic(-x);
        return logistic(x);
    }
}

/* y (out) = W x + b; W (out, in), or stored (in, out) */
static void dense(const double *W, const double *b, int stored_back, size_t out, size_t in,
                  const double *x, double *y) {
    for (size_t o = 0; o < out; o++) {
        double sum = b ? b[o] : 0.0;
        for (size_t i = 0; i < in; i++)
            sum += W[stored_back ? i * out + o : o * in + i] * x[i];
        y[o] = sum;
    }
}

/* y (in) += W^T g, g (out) */
static void dense_back(const double *W, int stored_back, size_t out, size_t in,
                       const double *g, double *y) {
    for (size_t o = 0; o < out; o++)
        for (size_t i = 0; i < in; i++)
            y[i] += W[stored_back ? i * out + o : o * in + i] * g[o];
}

/* c = gate x and u = up x become the factors a(c) and b(u) of what goes into `down`; s and
 * r their slopes.  Without a gate c = up x and b = 1. */
static void factors(const lipsc_ref_mlp *m, size_t ffn, double *c, double *u, double *s,
                    double *r) {
    for (size_t e = 0; e < ffn; e++) {
        if (m->limit > 0.0) {
            const double g = c[e] < m->limit ? c[e] : m->limit;
            const double t = logistic(m->alpha * g);
            s[e] = c[e] < m->limit ? t + m->alpha * g * t * logistic(-m->alpha * g) : 0.0;
            r[e] = fabs(u[e]) < m->limit ? 1.0 : 0.0;
            u[e] = 1.0 + (r[e] > 0.0 ? u[e] : copysign(m->limit, u[e]));
            c[e] = g * t;
        } else {
            c[e] = activate(m->activation, c[e], &s[e]);
            r[e] = 1.0;
            if (!m->gate) u[e] = 1.0;
        }
    }
}

/* One token. */
static void mlp_token(const lipsc_ref_mlp *m, lipsc_ref_what what, const double *x,
                      const double *h, double *work, double *y) {
    const size_t d = m->d, ffn = m->ffn;
    const int T = m->transposed, gated = m->gate != NULL;
    double *c = work, *u = c + ffn, *t = u + ffn, *s = t + ffn, *r = s + ffn;
    const double *W = gated ? m->gate : m->up;
    dense(W, gated ? m->gate_bias : m->up_bias, T, ffn, d, x, c);
    if (gated) dense(m->up, m->up_bias, T, ffn, d, x, u);
    factors(m, ffn, c, u, s, r);
    if (what == LIPSC_REF_VALUE) {
        for (size_t e = 0; e < ffn; e++) t[e] = c[e] * u[e];
        dense(m->down, m->down_bias, T, d, ffn, t, y);
    } else if (what == LIPSC_REF_JVP) {
        dense(W, NULL, T, ffn, d, h, t);
        for (size_t e = 0; e < ffn; e++) t[e] *= s[e] * u[e];
        if (gated) dense(m->up, NULL, T, ffn, d, h, s);
        for (size_t e = 0; gated && e < ffn; e++) t[e] += c[e] * r[e] * s[e];
        dense(m->down, NULL, T, d, ffn, t, y);
    } else {
        memset(t, 0, ffn * sizeof *t);
        memset(y, 0, d * sizeof *y);
        dense_back(m->down, T, d, ffn, h, t);
        for (size_t e = 0; e < ffn; e++) {
            u[e] *= s[e] * t[e]; /* of c */
            t[e] *= c[e] * r[e]; /* of u */
        }
        dense_back(W, T, ffn, d, u, y);
        if (gated) dense_back(m->up, T, ffn, d, t, y);
    }
}

void lipsc_ref_mlp_apply(const lipsc_ref_mlp *mlp, lipsc_ref_what what, size_t n,
                         const double *x, const double *h, double *work, double *y) {
    for (size_t i = 0; i < n; i++)
        mlp_token(mlp, what, x + i * mlp->d, h ? h + i * mlp->d : NULL, work,
                  y + i * mlp->d);
}
