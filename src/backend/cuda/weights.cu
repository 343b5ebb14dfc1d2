// weights.cu - a layer's matrices on the device: heads padded to a compiled width, scale
// and log2(e) in the query weights (or gains), stored in the precision of the products.
#include "internal.h"

#include <cmath>
#include <new>

static const double log2e = 1.4426950408889634074;

template <class T>
lipsc_status Memory::put(T **out, const std::vector<T> &host, size_t slack,
                         lipsc_error *err) {
    PASS(get(out, host.size() + slack, err));
    if (slack)
        TRY(cudaMemsetAsync(*out + host.size(), 0, slack * sizeof(T), device->stream()),
            "zeros");
    return send(device, host.size() * sizeof(T), host.data(), *out, err);
}
template lipsc_status Memory::put<double>(double **, const std::vector<double> &, size_t,
                                          lipsc_error *);
template lipsc_status Memory::put<float>(float **, const std::vector<float> &, size_t,
                                         lipsc_error *);
template lipsc_status Memory::put<int>(int **, const std::vector<int> &, size_t,
                                       lipsc_error *);
template lipsc_status Memory::put<Task>(Task **, const std::vector<Task> &, size_t,
                                        lipsc_error *);

// rows first .. of `to` (heads W, d) = factor times the heads of m (heads dim, d); m NULL:
// the identity
static void pad_heads(std::vector<double> &to, size_t first, size_t heads, size_t dim,
                      size_t W, size_t d, const double *m, double factor) {
    for (size_t h = 0; h < heads; h++)
        for (size_t r = 0; r < dim; r++) {
            double *row = to.data() + (first + h * W + r) * d;
            const size_t i = h * dim + r;
            for (size_t c = 0; c < d; c++) row[c] = factor * (m ? m[i * d + c] : c == i);
        }
}
static void pad_vector(std::vector<double> &to, size_t first, size_t heads, size_t dim,
                       size_t W, const double *v, double factor, int repeated) {
    for (size_t h = 0; v && h < heads; h++)
        for (size_t r = 0; r < dim; r++)
            to[first + h * W + r] = factor * v[(repeated ? 0 : h * dim) + r];
}

// a power of two that brings the largest entry to between 1 and 2; narrow precisions only
static double balance(const std::vector<double> &m, bool narrow) {
    double most = 0;
    for (double v : m) // a NaN stays one
        if (std::isnan(v) || std::fabs(v) > most) most = std::fabs(v);
    int e = 0;
    if (narrow && most > 0 && std::isfinite(most)) std::frexp(most, &e);
    return std::ldexp(1.0, 1 - (e ? e : 1));
}

static Dims dims_of(const lipsc_layer *l, size_t W, bool narrow) {
    Dims m = {};
    m.d = l->d;
    m.width = l->O ? l->out_dim : l->heads * l->value_dim;
    m.dp = narrow ? (m.d + 7) / 8 * 8 : m.d;
    m.wp = narrow ? (m.width + 7) / 8 * 8 : m.width;
    m.heads = l->heads;
    m.kv = l->kv_heads;
    m.W = W;
    m.key_dim = l->key_dim;
    m.value_dim = l->value_dim;
    m.turned = (m.heads + m.kv) * W;
    m.C = m.turned + m.kv * W;
    m.rotary_half = l->rotary_dim / 2;
    m.norms = (l->q_gain ? 1 : 0) | (l->k_gain ? 2 : 0);
    m.norm_whole = l->norm_whole;
    m.norm_eps = l->norm_eps;
    m.cap = l->soft_cap * log2e;
    return m;
}

// What the host makes of a layer's matrices before the device is given anything.
struct Padded {
    std::vector<double> qkv, bias, gain, out;
};

static Padded pad(const lipsc_layer *l, const Dims &m) {
    const double q_factor = (l->q_gain ? 1 : l->scale * log2e);
    const size_t HW = m.heads * m.W;
    Padded p = {std::vector<double>(m.C * m.d, 0.0), std::vector<double>(m.C, 0.0),
                std::vector<double>(m.turned, 0.0), std::vector<double>(m.width * HW, 0.0)};
    pad_heads(p.qkv, 0, m.heads, m.key_dim, m.W, m.d, l->Q, q_factor);
    pad_heads(p.qkv, m.heads * m.W, m.kv, m.key_dim, m.W, m.d, l->K, 1);
    pad_heads(p.qkv, m.turned, m.kv, m.value_dim, m.W, m.d, l->V, 1);
    pad_vector(p.bias, 0, m.heads, m.key_dim, m.W, l->bq, q_factor, 0);
    pad_vector(p.bias, m.heads * m.W, m.kv, m.key_dim, m.W, l->bk, 1, 0);
    pad_vector(p.bias, m.turned, m.kv, m.value_dim, m.W, l->bv, 1, 0);
    for (size_t r = 0; r < m.width; r++)
        for (size_t h = 0; h < m.heads; h++)
            for (size_t c = 0; c < m.value_dim; c++) {
                const size_t i = h * m.value_dim + c;
                p.out[r * HW + h * m.W + c] =
                    l->O ? l->O[r * m.heads * m.value_dim + i] : r == i;
            }
    if (!m.norms) return p;
    pad_vector(p.gain, 0, m.heads, m.key_dim, m.W, l->q_gain, l->scale * log2e,
               !l->norm_whole);
    pad_vector(p.gain, m.heads * m.W, m.kv, m.key_dim, m.W, l->k_gain, 1, !l->norm_whole);
    return p;
}

template <class S>
static lipsc_status put_projections(Weights<S> *w, const Padded &p, lipsc_error *err) {
    const Dims &m = w->dims;
    PASS(w->memory.put(&w->exact, p.qkv, 0, err));
    PASS(w->memory.get(&w->qkv, m.C * m.dp * S::PL, err));
    PASS(store<S>(w->device->stream(), m.C, m.d, w->exact, 1, m.d, w->qkv_factor, w->qkv,
                  m.dp, err));
    PASS(w->memory.put(&w->bias, p.bias, 0, err));
    if (!m.norms) return LIPSC_OK;
    PASS(w->memory.put(&w->gain_exact, p.gain, 0, err));
    const std::vector<typename S::Acc> narrow_gain(p.gain.begin(), p.gain.end());
    return w->memory.put(&w->gain, narrow_gain, 0, err);
}

template <class S>
static lipsc_status put_output(Weights<S> *w, const lipsc_layer *l, const Padded &p,
                               lipsc_error *err) {
    const Dims &m = w->dims;
    const size_t HW = m.heads * m.W;
    double *exact;
    PASS(w->memory.put(&exact, p.out, 0, err));
    PASS(w->memory.get(&w->out, m.width * HW * S::PL, err));
    PASS(store<S>(w->device->stream(), m.width, HW, exact, 1, HW, w->out_factor, w->out, HW,
                  err));
    w->memory.give(exact);
    if (!l->bo) return LIPSC_OK;
    return w->memory.put(&w->out_bias, std::vector<double>(l->bo, l->bo + m.width), 0, err);
}

template <class S>
static lipsc_status pack(lipsc_cuda_device *device, const lipsc_layer *l,
                         lipsc_cuda_weights **out, lipsc_error *err) {
    const size_t width = l->key_dim > l->value_dim ? l->key_dim : l->value_dim;
    const bool narrow = S::KIND != KIND_F64;
    Question open(device);
    const Kernels<S> *kernels = kernels_for(S(), device->room_of_block, width);
    if (!kernels)
        return fail(err, LIPSC_E_RANGE,
                    "heads of width %zu are too wide for the CUDA kernels, which go to 256",
                    width);
    if (!kernels->launch)
        return fail(err, LIPSC_E_REFUSED,
                    "this plugin has kernels for GPUs with %d KiB of memory for a block",
                    ROOM_LARGE >> 10);
    Weights<S> *w = new (std::nothrow) Weights<S>();
    if (!w) return fail(err, LIPSC_E_NOMEM, "out of memory for the packed weights");
    w->device = w->memory.device = device;
    w->kernels = kernels;
    w->dims = dims_of(l, (size_t)kernels->width, narrow);
    w->freq_host.assign(l->rotary_freq, l->rotary_freq + l->rotary_dim / 2);
    const Padded padded = pad(l, w->dims);
    w->qkv_factor = balance(padded.qkv, narrow);
    w->out_factor = balance(padded.out, narrow);
    foresee_layer<S>(device, w->dims);
    const Kernels<StoreF64> *exact = kernels_for(StoreF64(), device->room_of_block, width);
    if (narrow && exact) // its values are evaluated in double
        foresee_layer<StoreF64>(device, dims_of(l, (size_t)exact->width, false));
    open.end();
    lipsc_status status = put_projections(w, padded, err);
    if (!status) status = put_output(w, l, padded, err);
    if (!status && l->sinks) {
        std::vector<typename S::Acc> sinks(l->heads);
        for (size_t h = 0; h < l->heads; h++)
            sinks[h] = (typename S::Acc)(l->sinks[h] * log2e);
        status = w->memory.put(&w->sinks, sinks, 0, err);
    }
    if (status) {
        delete w;
        return status;
    }
    *out = w;
    return LIPSC_OK;
}

lipsc_status weights_new(lipsc_cuda_device *device, const lipsc_layer *layer,
                         lipsc_cuda_precision precision, lipsc_cuda_weights **out,
                         lipsc_error *err) {
    switch (precision) {
    case LIPSC_CUDA_F16:
        return pack<StoreF16>(device, layer, out, err);
    case LIPSC_CUDA_F16X3:
        return pack<StoreF16x3>(device, layer, out, err);
    case LIPSC_CUDA_BF16X3:
        return pack<StoreBF16x3>(device, layer, out, err);
    case LIPSC_CUDA_F64:
        return pack<StoreF64>(device, layer, out, err);
    }
    return fail(err, LIPSC_E_ARG, "precision %d is none", (int)precision);
}
