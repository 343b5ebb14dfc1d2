/* rowwise.c - norms and activations with their derivatives, token by token.
 * Compiled once per precision (LIPSC_TYPE_f32 or LIPSC_TYPE_f64); O(n d) work.  Sums and
 * elementary functions are in double in both: they cost little beside the dense layers. */
#include "backend/cpu/cpu.h"

#include <math.h>

#if defined(LIPSC_TYPE_f32)
typedef float T;
#define TABLE lipsc_rowwise_f32
#else
typedef double T;
#define TABLE lipsc_rowwise_f64
#endif

enum {
    SERIAL = 16384
}; /* elements below which starting threads costs more than the work */

static int team(int threads, size_t count) { return count < SERIAL ? 1 : threads; }

/* ---- norms ----------------------------------------------------------------------------
 */

static double mean_of(size_t d, const T *x) {
    double sum = 0;
    for (size_t c = 0; c < d; c++) sum += (double)x[c];
    return sum / (double)d;
}

static void norm(int threads, size_t n, size_t d, int centre, double eps, const void *gain,
                 const void *bias, const void *x, void *y, void *z, void *over) {
    const T *g = gain, *b = bias;
    const double root = sqrt((double)d);
#pragma omp parallel for num_threads(team(threads, n *d)) schedule(static)
    for (size_t i = 0; i < n; i++) {
        const T *row = (const T *)x + i * d;
        T *out = (T *)y + i * d, *unit = (T *)z + i * d;
        const double mean = centre ? mean_of(d, row) : 0;
        double square = 0;
        for (size_t c = 0; c < d; c++) {
            const double t = (double)row[c] - mean;
            square += t * t;
        }
        const double r = sqrt(square + (double)d * eps);
        const double inverse = r > 0 ? 1 / r : 0; /* a constant row with eps 0 stays zero */
        for (size_t c = 0; c < d; c++) {
            const double t = ((double)row[c] - mean) * inverse;
            unit[c] = (T)t;
            out[c] = (T)((double)g[c] * root * t + (b ? (double)b[c] : 0));
        }
        ((T *)over)[i] = (T)(root * inverse);
    }
}

static void norm_derivative(int threads, size_t rows, size_t n, size_t d, int centre,
                            const void *gain, const void *z, const void *over, int trans,
                            const void *x, void *y) {
    const T *g = gain;
#pragma omp parallel for num_threads(team(threads, rows *d)) schedule(static)
    for (size_t i = 0; i < rows; i++) {
        const T *h = (const T *)x + i * d, *unit = (const T *)z + i % n * d;
        T *out = (T *)y + i * d;
        const double scale = (double)((const T *)over)[i % n];
        double sum = 0, dot = 0;
        for (size_t c = 0; c < d; c++) {
            const double t = trans ? (double)g[c] * (double)h[c] : (double)h[c];
            sum += t;
            dot += (double)unit[c] * t; /* z has mean zero: Pi does not change it */
        }
        const double mean = centre ? sum / (double)d : 0;
        for (size_t c = 0; c < d; c++) {
            const double gc = (double)g[c], t = trans ? gc * (double)h[c] : (double)h[c];
            out[c] = (T)((trans ? scale : scale * gc) * (t - mean - (double)unit[c] * dot));
        }
    }
}

/* ---- activations ------------------------------------------------------------------------
 */

typedef struct {
    double value, slope;
} jet;

static jet gelu(double x) {
    const double cumulative = 0.5 * erfc(-x * 0.70710678118654752440);
    const double density = 0.39894228040143267794 * exp(-0.5 * x * x);
    return (jet){x * cumulative, cumulative + x * density};
}

/* (1 + tanh u) / 2 = 1 / (1 + exp(-2u)): the exponential costs a third of the tanh */
static jet gelu_tanh(double x, double root_two_over_pi) {
    const double u = root_two_over_pi * (x + 0.044715 * x * x * x);
    const double inner = root_two_over_pi * (1 + 3 * 0.044715 * x * x);
    const double s = 1 / (1 + exp(-2 * u));
    return (jet){x * s, s + 2 * x * s * (1 - s) * inner};
}

/* x s(beta x) */
static jet swish(double x, double beta) {
    const double s = 1 / (1 + exp(-beta * x));
    return (jet){x * s, s + beta * x * s * (1 - s)};
}

static jet evaluate(lipsc_activation kind, double x) {
    switch (kind) {
    case LIPSC_ACT_GELU:
        return gelu(x);
    case LIPSC_ACT_GELU_TANH:
        return gelu_tanh(x, 0.79788456080286535588);
    case LIPSC_ACT_GELU_FAST:
        return gelu_tanh(x, 0.7978845608);
    case LIPSC_ACT_GELU_QUICK:
        return swish(x, 1.702);
    case LIPSC_ACT_RELU:
        return x > 0 ? (jet){x, 1} : (jet){0, 0};
    case LIPSC_ACT_SILU:
        return swish(x, 1);
    case LIPSC_ACT_TANH: {
        const double t = tanh(x);
        return (jet){t, 1 - t * t};
    }
    case LIPSC_ACT_SIGMOID: {
        const double s = 1 / (1 + exp(-x));
        return (jet){s, s * (1 - s)};
    }
    }
    return (jet){NAN, NAN};
}

static void activation(lipsc_activation kind, int threads, size_t count, const void *x,
                       void *y, void *slope) {
    const T *in = x;
    T *out = y, *derivative = slope;
#pragma omp parallel for num_threads(team(threads, count)) schedule(static)
    for (size_t e = 0; e < count; e++) {
        const jet j = evaluate(kind, (double)in[e]);
        out[e] = (T)j.value;
        derivative[e] = (T)j.slope;
    }
}

static void multiply(int threads, size_t count, size_t period, const void *factor,
                     const void *x, int add, void *y) {
    const T *f = factor, *in = x;
    T *out = y;
#pragma omp parallel for num_threads(team(threads, count)) schedule(static)
    for (size_t e = 0; e < period; e++)
        for (size_t at = e; at < count; at += period) {
            const T product = f[e] * in[at];
            out[at] = add ? out[at] + product : product;
        }
}

static void add(int threads, size_t count, const void *x, void *y) {
    const T *in = x;
    T *out = y;
#pragma omp parallel for num_threads(team(threads, count)) schedule(static)
    for (size_t e = 0; e < count; e++) out[e] += in[e];
}

const lipsc_rowwise TABLE = {norm, norm_derivative, activation, multiply, add};
