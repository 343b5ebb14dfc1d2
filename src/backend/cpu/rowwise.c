/* rowwise.c - norms and activations with their derivatives, token by token.
 * Compiled once per precision and instruction set; O(n d) work.  Sums are in double in
 * both.  The activations that models use most, all made of the logistic function, go by
 * vectors in the precision itself; the others are in double, one by one. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/simd.h"

#include <math.h>

enum {
    SERIAL = 16384
}; /* elements below which starting threads costs more than the work */

static int team(const lipsc_device *device, size_t count) {
    return count < SERIAL ? 1 : lipsc_device_threads(device);
}

/* Whether b is memory of the host with k times len numbers of this precision. */
static int holds(lipsc_buffer b, size_t k, size_t len) {
    const lipsc_dtype type = sizeof(T) == sizeof(float) ? LIPSC_F32 : LIPSC_F64;
    return lipsc_buffer_fits(b, NULL, type, k, len);
}

/* ---- norms -------------------------------------------------------------------------- */

static double mean_of(size_t d, const T *x) {
    double sum = 0;
    for (size_t c = 0; c < d; c++) sum += (double)x[c];
    return sum / (double)d;
}

static lipsc_status norm(const lipsc_device *device, size_t n, size_t d, int centre,
                         double eps, lipsc_buffer gain, lipsc_buffer bias, lipsc_buffer x,
                         lipsc_buffer y, lipsc_buffer z, lipsc_buffer over) {
    if (!holds(gain, 1, d) || (bias.at && !holds(bias, 1, d)) || !holds(x, n, d) ||
        !holds(y, n, d) || !holds(z, n, d) || !holds(over, 1, n))
        return LIPSC_E_ARG;
    const T *g = gain.at, *b = bias.at;
    const double root = sqrt((double)d);
#pragma omp parallel for num_threads(team(device, n *d)) schedule(static)
    for (size_t i = 0; i < n; i++) {
        const T *row = (const T *)x.at + i * d;
        T *out = (T *)y.at + i * d, *unit = (T *)z.at + i * d;
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
        ((T *)over.at)[i] = (T)(root * inverse);
    }
    return LIPSC_OK;
}

static lipsc_status norm_derivative(const lipsc_device *device, size_t rows, size_t n,
                                    size_t d, int centre, lipsc_buffer gain, lipsc_buffer z,
                                    lipsc_buffer over, int trans, lipsc_buffer x,
                                    lipsc_buffer y) {
    if (!holds(gain, 1, d) || !holds(z, n, d) || !holds(over, 1, n) || !holds(x, rows, d) ||
        !holds(y, rows, d))
        return LIPSC_E_ARG;
    const T *g = gain.at;
#pragma omp parallel for num_threads(team(device, rows *d)) schedule(static)
    for (size_t i = 0; i < rows; i++) {
        const T *h = (const T *)x.at + i * d, *unit = (const T *)z.at + i % n * d;
        T *out = (T *)y.at + i * d;
        const double scale = (double)((const T *)over.at)[i % n];
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
    return LIPSC_OK;
}

/* ---- activations -------------------------------------------------------------------- */

typedef struct {
    double value, slope;
} jet;

static jet gelu(double x) {
    const double cumulative = 0.5 * erfc(-x * 0.70710678118654752440);
    const double density = 0.39894228040143267794 * exp(-0.5 * x * x);
    return (jet){x * cumulative, cumulative + x * density};
}

static jet evaluate(lipsc_activation kind, double x) {
    if (kind == LIPSC_ACT_GELU) return gelu(x);
    if (kind == LIPSC_ACT_RELU) return x > 0 ? (jet){x, 1} : (jet){0, 0};
    const double t = tanh(x);
    return (jet){t, 1 - t * t};
}

/* s(x) = 1 / (1 + exp(-x)) and its derivative s(x) s(-x), from exp(-|x|), which neither
 * overflows nor loses digits. */
INLINE V v_logistic(V x, V *slope) {
    const VI positive = x > v_set(0);
    const V size = v_max(x, -x);
    const V e = v_exp2(size * v_set((T)-1.44269504088896340736)), below = v_set(1) + e;
    *slope = e / (below * below);
    const VI s = ((VI)(v_set(1) / below) & positive) | ((VI)(e / below) & ~positive);
    return (V)(s | (VI)(x != x)); /* a NaN stays one */
}

/* x s(u(x)) with u = 2 c (x + k x^3): both approximations of gelu and silu.
 * (1 + tanh(u/2)) / 2 = s(u). */
INLINE V v_gated(V x, T c, T k, V *slope) {
    /* beyond |x| = 64 the logistic function is 0 or 1 to the last digit: no overflow */
    const V square = -v_max(-x * x, v_set(-4096));
    const V u = v_set(2 * c) * x * (v_set(1) + v_set(k) * square);
    const V inner = v_set(2 * c) * (v_set(1) + v_set(3 * k) * square);
    V bend;
    const V s = v_logistic(u, &bend);
    *slope = s + x * bend * inner;
    return x * s;
}

INLINE V v_evaluate(lipsc_activation kind, V x, V *slope) {
    switch (kind) {
    case LIPSC_ACT_GELU_TANH:
        return v_gated(x, (T)0.79788456080286535588, (T)0.044715, slope);
    case LIPSC_ACT_GELU_FAST:
        return v_gated(x, (T)0.7978845608, (T)0.044715, slope);
    case LIPSC_ACT_GELU_BLOOM:
        return v_gated(x, (T)0.79788456, (T)0.044715, slope);
    case LIPSC_ACT_GELU_QUICK:
        return v_gated(x, (T)0.851, 0, slope);
    case LIPSC_ACT_SILU:
        return v_gated(x, (T)0.5, 0, slope);
    default:
        return v_logistic(x, slope); /* LIPSC_ACT_SIGMOID */
    }
}

static lipsc_status activation(const lipsc_device *device, lipsc_activation kind,
                               size_t count, lipsc_buffer x, lipsc_buffer y,
                               lipsc_buffer slope) {
    if (!holds(x, 1, count) || !holds(y, 1, count) || !holds(slope, 1, count))
        return LIPSC_E_ARG;
    const T *in = x.at;
    T *out = y.at, *derivative = slope.at;
    const int alone =
        kind == LIPSC_ACT_GELU || kind == LIPSC_ACT_RELU || kind == LIPSC_ACT_TANH;
#pragma omp parallel for num_threads(team(device, count)) schedule(static)
    for (size_t at = 0; at < count; at += VL) {
        const size_t now = count - at < VL ? count - at : VL;
        if (alone) {
            for (size_t e = at; e < at + now; e++) {
                const jet j = evaluate(kind, (double)in[e]);
                out[e] = (T)j.value;
                derivative[e] = (T)j.slope;
            }
            continue;
        }
        T part[VL] = {0}, bend[VL];
        V b;
        memcpy(part, in + at, now * sizeof(T));
        v_store(part, v_evaluate(kind, v_load(part), &b));
        v_store(bend, b);
        memcpy(out + at, part, now * sizeof(T));
        memcpy(derivative + at, bend, now * sizeof(T));
    }
    return LIPSC_OK;
}

static lipsc_status multiply(const lipsc_device *device, size_t count, size_t period,
                             lipsc_buffer factor, lipsc_buffer x, int add, lipsc_buffer y) {
    if (!holds(factor, 1, period) || !holds(x, 1, count) || !holds(y, 1, count))
        return LIPSC_E_ARG;
    const T *f = factor.at, *in = x.at;
    T *out = y.at;
#pragma omp parallel for num_threads(team(device, count)) schedule(static)
    for (size_t e = 0; e < period; e++)
        for (size_t at = e; at < count; at += period) {
            const T product = f[e] * in[at];
            out[at] = add ? out[at] + product : product;
        }
    return LIPSC_OK;
}

static lipsc_status add(const lipsc_device *device, size_t count, lipsc_buffer x,
                        lipsc_buffer y) {
    if (!holds(x, 1, count) || !holds(y, 1, count)) return LIPSC_E_ARG;
    const T *in = x.at;
    T *out = y.at;
#pragma omp parallel for num_threads(team(device, count)) schedule(static)
    for (size_t e = 0; e < count; e++) out[e] += in[e];
    return LIPSC_OK;
}

/* lipsc_rowwise_f32_avx2 and so on; isa.c chooses among them */
#define JOIN_(a, b, c) a##b##_##c
#define JOIN(a, b, c)  JOIN_(a, b, c)
#if defined(LIPSC_TYPE_f32)
#define TABLE JOIN(lipsc_rowwise_, f32, LIPSC_ISA)
#else
#define TABLE JOIN(lipsc_rowwise_, f64, LIPSC_ISA)
#endif
extern const lipsc_rowwise TABLE;
const lipsc_rowwise TABLE = {norm, norm_derivative, activation, multiply, add};
