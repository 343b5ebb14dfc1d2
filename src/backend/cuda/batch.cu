// batch.cu - what depends on the inputs alone: the memory of the products, projections, row
// statistics, scales.
#include "internal.h"

#include <algorithm>
#include <cmath>
#include <new>

enum { SLACK = STATISTICS_SLACK };

// ---- Memory of the products
// ----------------------------------------------------------------------

// where results stand before they are ordered and scaled row by row
template <class S> lipsc_status place_gathered(Batch<S> *b, lipsc_error *err) {
    const size_t count = b->dirs * b->tokens * std::max(b->d, b->width);
    PASS(b->memory.get(&b->gathered, count, err));
    TRY(cudaMemsetAsync(b->gathered, 0, count * sizeof(typename S::Acc),
                        b->device->stream()),
        "zeros");
    return LIPSC_OK;
}

template <class S> lipsc_status place_work(Batch<S> *b, lipsc_error *err) {
    typedef typename S::Acc Acc;
    const Dims &m = b->w->dims;
    const size_t N = b->tokens, D = b->dirs * N, stats = m.heads * b->padded + SLACK;
    const size_t dir_stats = b->dirs * m.heads * b->padded + SLACK;
    Memory &mem = b->memory;
    PASS(mem.get(&b->qkv, N * m.C * S::PL, err));
    PASS(mem.get(&b->dqkv, D * m.C * S::PL, err));
    PASS(mem.get(&b->heads, D * m.heads * m.W * S::PL, err));
    PASS(mem.get(&b->xin, D * std::max(m.dp, m.wp) * S::PL, err));
    PASS(mem.get(&b->attended, N * m.heads * m.W, err));
    if (S::PL == 2 || b->turns())
        PASS(mem.get(&b->temp, D * std::max(m.C, m.heads * m.W), err));
    // cuBLAS writes these by the copy engine, which initcheck does not see
    const cudaStream_t stream = b->device->stream();
    const size_t HW = m.heads * m.W * S::PL, item = sizeof(typename S::T);
    TRY(cudaMemsetAsync(b->dqkv, 0, D * m.C * S::PL * item, stream), "zeros");
    TRY(cudaMemsetAsync(b->heads, 0, D * HW * item, stream), "zeros");
    if (b->temp)
        TRY(cudaMemsetAsync(b->temp, 0, D * std::max(m.C, m.heads * m.W) * sizeof(Acc),
                            stream),
            "zeros");
    if (b->staged()) PASS(place_gathered(b, err));
    if (S::KIND != KIND_F64) {
        PASS(mem.get(&b->longest, b->dirs * b->inputs, err));
        TRY(cudaMemsetAsync(b->longest, 0, b->dirs * b->inputs * sizeof(int),
                            b->device->stream()),
            "zeros");
        PASS(mem.get(&b->unscale, b->dirs * b->inputs, err));
    }
    Acc **const per_row[] = {&b->st.start, &b->st.inverse, b->w->sinks ? &b->st.sink : NULL,
                             m.cap > 0 ? &b->st.slope : NULL};
    for (Acc **p : per_row)
        if (p) {
            PASS(mem.get(p, stats, err));
            TRY(cudaMemsetAsync(*p, 0, stats * sizeof(Acc), b->device->stream()), "zeros");
        }
    PASS(mem.get(&b->st.top, stats, err));
    TRY(cudaMemsetAsync(b->st.top, 0, stats * sizeof(int), b->device->stream()), "zeros");
    PASS(mem.get(&b->st.shift, dir_stats, err));
    PASS(mem.get(&b->st.at_top, dir_stats, err));
    TRY(cudaMemsetAsync(b->st.shift, 0, dir_stats * sizeof(Acc), b->device->stream()),
        "zeros");
    TRY(cudaMemsetAsync(b->st.at_top, 0, dir_stats * sizeof(Acc), b->device->stream()),
        "zeros");
    if (m.norms) {
        PASS(mem.get(&b->unit, N * m.turned, err));
        PASS(mem.get(&b->over, N * (m.heads + m.kv), err));
    }
    return LIPSC_OK;
}

// ---- Projections and statistics
// --------------------------------------------------------------------

// Numbers first .. first + count - 1 of an input's tokens, as doubles.
static lipsc_status bring(lipsc_cuda_device *device, const lipsc_buffer &X, size_t first,
                          size_t count, double *to, lipsc_error *err) {
    const double *wide = static_cast<const double *>(X.at) + first;
    if (!X.home) return send(device, count * sizeof(double), wide, to, err);
    if (X.type == LIPSC_F32)
        return widen(device, count, static_cast<const float *>(X.at) + first, to, err);
    TRY(cudaMemcpyAsync(to, wide, count * sizeof(double), cudaMemcpyDeviceToDevice,
                        device->stream()),
        "copying tokens");
    return LIPSC_OK;
}

template <class S>
lipsc_status project(Batch<S> *b, const lipsc_rows *rows, int *bad, lipsc_error *err) {
    const Dims &m = b->w->dims;
    const size_t most = b->part ? 8192 : 65536;
    const size_t chunk = std::max((size_t)1, std::min(b->tokens, most));
    Memory temporary;
    temporary.device = b->device;
    double *x, *projected;
    PASS(temporary.get(&x, chunk * m.d, err));
    PASS(temporary.get(&projected, chunk * m.C, err));
    size_t filled = 0, first = 0; // rows in x; where they begin in the batch
    for (size_t i = 0; i < b->inputs; i++)
        for (size_t r = 0; r < rows[i].n;) {
            const size_t now = std::min(chunk - filled, rows[i].n - r);
            PASS(bring(b->device, rows[i].X, r * m.d, now * m.d, x + filled * m.d, err));
            filled += now;
            r += now;
            const bool end = i + 1 == b->inputs && r == rows[i].n;
            if (filled < chunk && !end) continue;
            PASS(gemm_full<StoreF64>(b->device, true, 0, filled, m.C, m.d, 1, nullptr, x,
                                     m.d, b->w->exact, m.d, projected, m.C, err));
            PASS(ready<S>(b, first, filled, projected, bad, err));
            first += filled;
            filled = 0;
        }
    return LIPSC_OK;
}

template <class S> Args<S> Batch<S>::args(Mode mode, size_t k) const {
    typedef typename S::T T;
    const Dims &m = w->dims;
    const size_t ld = m.C * S::PL, HW = m.heads * m.W, q = 0, key = m.heads * m.W,
                 v = m.turned;
    auto at = [&](const T *p, size_t col, size_t rows) {
        return Heads<const T>{p + col, ld, m.C, rows};
    };
    auto out = [&](size_t col) { return Heads<T>{dqkv + col, ld, m.C, tokens}; };
    const Heads<const T> g = {heads, HW * S::PL, HW, tokens};
    Args<S> a = {};
    if (keys_are_rows(mode)) {
        a.s1 = at(qkv, key, 0);
        a.s2 = at(qkv, v, 0);
        a.t1 = at(qkv, q, 0);
        a.t2 = g;
        a.o1 = out(mode == GK ? key : v);
        a.o2 = out(key);
    } else {
        a.s1 = at(qkv, q, 0);
        a.s2 = mode == JVP ? at(dqkv, q, tokens) : g;
        a.t1 = at(qkv, key, 0);
        a.t2 = mode == JVP ? at(dqkv, key, tokens) : at(qkv, v, 0);
        a.t3 = at(qkv, v, 0);
        a.t4 = at(dqkv, v, tokens);
        a.o1 = mode == JVP ? Heads<T>{heads, HW * S::PL, HW, tokens} : out(q);
    }
    a.v = at(qkv, v, 0);
    a.output = attended;
    a.st = st;
    a.first = keys_are_rows(mode) ? key_first : first;
    a.last = keys_are_rows(mode) ? key_last : last;
    a.base = base;
    a.pad = pad;
    a.n = n;
    a.active = active;
    a.tasks = tasks[mode];
    a.ntasks = ntasks[mode];
    a.heads = (int)m.heads;
    a.kv = (int)m.kv;
    a.dirs = (int)k;
    a.padded = padded;
    a.head_major = tokens / inputs > 16384;
    a.scale = std::ldexp(1.0f, lift[mode != JVP]);
    a.row_scale = row_scale;
    a.key_bias = key_bias;
    a.distance = distance;
    a.far = far;
    a.cap = (typename S::Acc)m.cap;
    return a;
}

template <class S>
static lipsc_status row_statistics(Batch<S> *b, int *bad, lipsc_error *err) {
    Args<S> a = b->args(OUT, 1);
    a.tasks = b->statistics_tasks;
    a.ntasks = b->statistics_ntasks;
    const StatisticsArgs<typename S::Acc> more = {b->w->sinks, bad};
    TRY(b->kernels->statistics(a, more, b->device->stream()), "row statistics");
    TRY(b->kernels->launch(OUT, b->args(OUT, 1), b->device->stream()), "outputs of rows");
    int host = 0;
    PASS(fetch(b->device, sizeof host, bad, &host, err));
    return host
               ? fail(
                     err, LIPSC_E_NONFIN,
                     "attention at this input: a projection or a score is not finite in %s",
                     S::NAME)
               : LIPSC_OK;
}

// A sum over m keys of signs at random is about m^(-1/2): that much the results are lifted,
// short inputs all alike, so that it does not matter what they are with.
template <class S> int narrow_lift(const Batch<S> *b) {
    const size_t longest = b->alone() ? LIPSC_CUDA_SHORT - 1 : b->longest_n;
    const int half = (int)std::floor(std::log2((double)longest) / 2);
    return S::KIND == KIND_F16 ? std::max(0, half - 2) : half + 2;
}

// Columns with more than a threshold of the rows' weight are brought down to it.
template <class S>
static lipsc_status place_scales(Batch<S> *b, int *flag, lipsc_error *err) {
    if (S::KIND == KIND_F64) return LIPSC_OK;
    const double threshold = narrow_threshold<S>();
    PASS(ones<S>(b, err));
    b->lift[1] = -8; // masses up to 2^24
    const Mode mode = b->kernels->split ? GV : GKV;
    TRY(b->kernels->launch(mode, b->args(mode, 1), b->device->stream()),
        "masses of columns");
    PASS(b->memory.get(&b->row_scale, b->tokens, err));
    PASS(b->memory.get(&b->row_unscale, b->tokens, err));
    PASS(masses<S>(b, std::ldexp(1.0, -8), threshold, flag, err));
    int needed = 0;
    PASS(fetch(b->device, sizeof needed, flag, &needed, err));
    if (!needed) {
        b->memory.give(b->row_scale);
        b->memory.give(b->row_unscale);
        b->row_scale = b->row_unscale = nullptr;
    } else if (!b->gathered) {
        PASS(place_gathered(b, err));
    }
    b->lift[0] = b->lift[1] = narrow_lift(b);
    return LIPSC_OK;
}

// Scores with biases or a soft cap have kernels of their own, in all widths.
static const Kernels<StoreF16> *kernels_of(const Batch<StoreF16> *b,
                                           const lipsc_rows *rows) {
    const Kernels<StoreF16> *fast = kernels_wgmma();
    bool plain = !(b->w->dims.cap > 0);
    for (size_t i = 0; i < b->inputs; i++)
        plain &= !rows[i].log_weight && !rows[i].distance;
    return fast && b->device->hopper && plain && b->w->dims.W == (size_t)fast->width
               ? fast
               : b->w->kernels;
}
template <class S>
static const Kernels<S> *kernels_of(const Batch<S> *b, const lipsc_rows *) {
    return b->w->kernels;
}

template <class S>
static lipsc_status fill_batch(Batch<S> *b, const lipsc_rows *rows, lipsc_error *err) {
    int *bad;
    b->kernels = b->part ? b->w->kernels : kernels_of(b, rows);
    if (b->part) return fill_part(b, *rows, err);
    PASS(b->memory.get(&bad, 1, err));
    TRY(cudaMemsetAsync(bad, 0, sizeof *bad, b->device->stream()), "zeros");
    PASS(place_rows(b, rows, err));
    PASS(place_weights(b, rows, err));
    PASS(place_distances(b, rows, err));
    PASS(place_angles(b, rows, err));
    PASS(place_work(b, err));
    PASS(project(b, rows, bad, err));
    PASS(row_statistics(b, bad, err));
    return place_scales(b, bad, err);
}

template <class S>
lipsc_status Weights<S>::batch_new(size_t inputs, const lipsc_rows *rows, size_t dirs,
                                   const lipsc_share *share, lipsc_cuda_batch **out,
                                   lipsc_error *err) {
    Batch<S> *b = new (std::nothrow) Batch<S>();
    if (b && share) b->part.reset(new (std::nothrow) Part(*share));
    const bool made = b && (!share || b->part);
    if (!made) delete b;
    if (!made) return fail(err, LIPSC_E_NOMEM, "out of memory for a batch");
    b->device = b->memory.device = device;
    b->w = this;
    b->inputs = inputs;
    b->dirs = dirs;
    b->d = dims.d;
    b->width = dims.width;
    b->wide = S::KIND == KIND_F64;
    lipsc_status status;
    try {
        status = fill_batch(b, rows, err);
    } catch (const std::bad_alloc &) {
        status = fail(err, LIPSC_E_NOMEM, "out of memory for a batch");
    }
    if (status) {
        delete b;
        return status;
    }
    *out = b;
    return LIPSC_OK;
}

#define INSTANCE(S)                                                         \
    template lipsc_status place_work<S>(Batch<S> *, lipsc_error *);         \
    template lipsc_status place_gathered<S>(Batch<S> *, lipsc_error *);     \
    template lipsc_status project<S>(Batch<S> *, const lipsc_rows *, int *, \
                                     lipsc_error *);                        \
    template int narrow_lift<S>(const Batch<S> *);                          \
    template Args<S> Batch<S>::args(Mode, size_t) const;                    \
    template struct Weights<S>;
INSTANCE(StoreF16) INSTANCE(StoreF16x3) INSTANCE(StoreBF16x3) INSTANCE(StoreF64)
