// rowwise.cu - norms and activations with their derivatives, token by token, as
// backend/cpu/rowwise.c computes them: sums and functions in double.
#include "internal.h"

enum { THREADS = 128 };

DEV double block_sum(double v, double *shared) {
#pragma unroll
    for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
    __syncthreads(); // those that still read the sum before
    if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = v;
    __syncthreads();
    double sum = 0;
#pragma unroll
    for (int w = 0; w < THREADS / 32; w++) sum += shared[w];
    return sum;
}

static unsigned one_each(size_t rows) { return (unsigned)(rows < 65535 ? rows : 65535); }
static unsigned blocks(size_t count) {
    const size_t need = (count + THREADS - 1) / THREADS;
    return (unsigned)(need < 16384 ? (need ? need : 1) : 16384);
}

// ---- Norms: one block for a row ----

template <class V>
static __global__ void __launch_bounds__(THREADS)
    norm_rows(size_t n, int d, int centre, double eps, const V *gain, const V *bias,
              const V *x, V *y, V *z, V *over) {
    __shared__ double shared[THREADS / 32];
    const double root = sqrt((double)d);
    for (size_t i = blockIdx.x; i < n; i += gridDim.x) {
        const V *row = x + i * d;
        double sum = 0, square = 0;
        if (centre) {
            for (int c = threadIdx.x; c < d; c += THREADS) sum += (double)row[c];
            sum = block_sum(sum, shared);
        }
        const double mean = sum / d;
        for (int c = threadIdx.x; c < d; c += THREADS) {
            const double t = (double)row[c] - mean;
            square += t * t;
        }
        const double r = sqrt(block_sum(square, shared) + d * eps);
        const double inverse = r > 0 ? 1 / r : r == r ? 0 : r;
        for (int c = threadIdx.x; c < d; c += THREADS) {
            const double t = ((double)row[c] - mean) * inverse;
            z[i * d + c] = (V)t;
            y[i * d + c] = (V)((double)gain[c] * root * t + (bias ? (double)bias[c] : 0));
        }
        if (threadIdx.x == 0) over[i] = (V)(root * inverse);
    }
}

lipsc_status Rowwise::norm(lipsc_cuda_device *device, int wide, size_t n, size_t d,
                           int centre, double eps, const void *gain, const void *bias,
                           const void *x, void *y, void *z, void *over, lipsc_error *err) {
    const Hold hold(device);
    if (!n) return LIPSC_OK;
    BY_WIDTH(wide, (norm_rows<V><<<one_each(n), THREADS, 0, device->stream()>>>(
                       n, (int)d, centre, eps, (const V *)gain, (const V *)bias,
                       (const V *)x, (V *)y, (V *)z, (V *)over)));
    TRY(cudaGetLastError(), "a norm");
    return LIPSC_OK;
}

template <class V>
static __global__ void __launch_bounds__(THREADS)
    norm_slopes(size_t rows, size_t n, int d, int centre, const V *gain, const V *z,
                const V *over, int trans, const V *x, V *y) {
    __shared__ double shared[THREADS / 32];
    for (size_t i = blockIdx.x; i < rows; i += gridDim.x) {
        const V *h = x + i * d, *unit = z + i % n * d;
        const double scale = (double)over[i % n];
        double sum = 0, dot = 0;
        for (int c = threadIdx.x; c < d; c += THREADS) {
            const double t = trans ? (double)gain[c] * (double)h[c] : (double)h[c];
            sum += t;
            dot += (double)unit[c] * t;
        }
        dot = block_sum(dot, shared);
        const double mean = centre ? block_sum(sum, shared) / d : 0;
        for (int c = threadIdx.x; c < d; c += THREADS) {
            const double g = (double)gain[c], t = trans ? g * (double)h[c] : (double)h[c];
            y[i * d + c] =
                (V)((trans ? scale : scale * g) * (t - mean - (double)unit[c] * dot));
        }
    }
}

lipsc_status Rowwise::norm_derivative(lipsc_cuda_device *device, int wide, size_t rows,
                                      size_t n, size_t d, int centre, const void *gain,
                                      const void *z, const void *over, int trans,
                                      const void *x, void *y, lipsc_error *err) {
    const Hold hold(device);
    if (!rows) return LIPSC_OK;
    BY_WIDTH(wide, (norm_slopes<V><<<one_each(rows), THREADS, 0, device->stream()>>>(
                       rows, n, (int)d, centre, (const V *)gain, (const V *)z,
                       (const V *)over, trans, (const V *)x, (V *)y)));
    TRY(cudaGetLastError(), "the derivative of a norm");
    return LIPSC_OK;
}

// ---- Activations ----

struct Jet {
    double value, slope;
};

// s(x) = 1 / (1 + exp(-x)) from exp(-|x|), which neither overflows nor loses digits.
DEV Jet logistic(double x) {
    const double e = exp(-fabs(x)), below = 1 + e;
    return {(x > 0 ? 1 : e) / below, e / (below * below)};
}
// x s(u(x)) with u = 2 c (x + k x^3): both approximations of gelu, and silu.
DEV Jet gated(double x, double c, double k) {
    const double square = x * x > 4096 ? 4096 : x * x; // a NaN stays one
    const Jet s = logistic(2 * c * x * (1 + k * square));
    return {x * s.value, s.value + x * s.slope * 2 * c * (1 + 3 * k * square)};
}
DEV Jet evaluate(int kind, double x) {
    switch (kind) {
    case LIPSC_ACT_GELU: {
        const double cumulative = 0.5 * erfc(-x * 0.70710678118654752440);
        const double density = 0.39894228040143267794 * exp(-0.5 * x * x);
        return {x * cumulative, cumulative + x * density};
    }
    case LIPSC_ACT_GELU_TANH:
        return gated(x, 0.79788456080286535588, 0.044715);
    case LIPSC_ACT_GELU_FAST:
        return gated(x, 0.7978845608, 0.044715);
    case LIPSC_ACT_GELU_BLOOM:
        return gated(x, 0.79788456, 0.044715);
    case LIPSC_ACT_GELU_QUICK:
        return gated(x, 0.851, 0);
    case LIPSC_ACT_SILU:
        return gated(x, 0.5, 0);
    case LIPSC_ACT_RELU:
        return {x > 0 ? x : x == x ? 0 : x, x > 0 ? 1.0 : 0.0};
    case LIPSC_ACT_TANH: {
        const double t = tanh(x);
        return {t, 1 - t * t};
    }
    default: // LIPSC_ACT_SIGMOID
        return logistic(x);
    }
}

template <class V>
static __global__ void activate_all(int kind, size_t count, const V *x, V *y, V *slope) {
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < count;
         i += (size_t)gridDim.x * THREADS) {
        const Jet j = evaluate(kind, (double)x[i]);
        y[i] = (V)j.value;
        slope[i] = (V)j.slope;
    }
}

lipsc_status Rowwise::activation(lipsc_cuda_device *device, int wide, lipsc_activation kind,
                                 size_t count, const void *x, void *y, void *slope,
                                 lipsc_error *err) {
    const Hold hold(device);
    BY_WIDTH(wide, (activate_all<V><<<blocks(count), THREADS, 0, device->stream()>>>(
                       (int)kind, count, (const V *)x, (V *)y, (V *)slope)));
    TRY(cudaGetLastError(), "an activation");
    return LIPSC_OK;
}

// ---- Products and sums by elements ----

template <class V>
static __global__ void multiply_all(size_t count, size_t period, const V *factor,
                                    const V *x, int add, V *y) {
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < count;
         i += (size_t)gridDim.x * THREADS) {
        const V product = factor[i % period] * x[i];
        y[i] = add ? y[i] + product : product;
    }
}

lipsc_status Rowwise::multiply(lipsc_cuda_device *device, int wide, size_t count,
                               size_t period, const void *factor, const void *x, int add,
                               void *y, lipsc_error *err) {
    const Hold hold(device);
    BY_WIDTH(wide, (multiply_all<V><<<blocks(count), THREADS, 0, device->stream()>>>(
                       count, period, (const V *)factor, (const V *)x, add, (V *)y)));
    TRY(cudaGetLastError(), "a product by elements");
    return LIPSC_OK;
}

template <class V> static __global__ void add_all(size_t count, const V *x, V *y) {
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < count;
         i += (size_t)gridDim.x * THREADS)
        y[i] += x[i];
}

lipsc_status Rowwise::add(lipsc_cuda_device *device, int wide, size_t count, const void *x,
                          void *y, lipsc_error *err) {
    const Hold hold(device);
    BY_WIDTH(wide, (add_all<V><<<blocks(count), THREADS, 0, device->stream()>>>(
                       count, (const V *)x, (V *)y)));
    TRY(cudaGetLastError(), "a sum by elements");
    return LIPSC_OK;
}
