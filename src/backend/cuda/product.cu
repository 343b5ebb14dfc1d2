// product.cu - the products: projections, the core, the output projection; and what a batch
// tells of itself.
#include "internal.h"

#include <cmath>

static const double log2e = 1.4426950408889634074;

// ---- Products
// --------------------------------------------------------------------------------------

// dqkv = the projections of xin, then norms and rotations
template <class S>
static lipsc_status project_directions(Batch<S> *b, size_t k, lipsc_error *err) {
    const Weights<S> *w = b->w;
    const Dims &m = w->dims;
    const size_t rows = k * b->tokens, ldx = m.dp * S::PL;
    const double alpha = 1 / w->qkv_factor;
    if (!b->temp)
        return gemm_stored<S>(b->device, b->alone(), 0, rows, m.C, m.dp, alpha, b->xin, ldx,
                              w->qkv, ldx, b->dqkv, m.C, err);
    PASS(gemm_full<S>(b->device, b->alone(), 0, rows, m.C, m.dp, alpha, nullptr, b->xin,
                      ldx, w->qkv, ldx, b->temp, m.C, err));
    if (b->turns()) return turn<S>(b, k, b->temp, err);
    return store<S>(b->device->stream(), rows, m.C, b->temp, S::KIND == KIND_F64, m.C, 1.0,
                    b->dqkv, m.C, err);
}

// heads = the output projection, transposed, of xin
template <class S>
static lipsc_status split_heads(Batch<S> *b, size_t k, lipsc_error *err) {
    const Weights<S> *w = b->w;
    const Dims &m = w->dims;
    const size_t rows = k * b->tokens, HW = m.heads * m.W, ldx = m.wp * S::PL;
    const double alpha = 1 / w->out_factor;
    if (S::PL == 1)
        return gemm_stored<S>(b->device, b->alone(), 1, rows, HW, m.width, alpha, b->xin,
                              ldx, w->out, HW, b->heads, HW, err);
    const lipsc_status status =
        gemm_full<S>(b->device, b->alone(), 1, rows, HW, m.width, alpha, nullptr, b->xin,
                     ldx, w->out, HW * S::PL, b->temp, HW, err);
    return status ? status
                  : store<S>(b->device->stream(), rows, HW, b->temp, 0, HW, 1.0, b->heads,
                             HW, err);
}

template <class S>
static lipsc_status core_of(Batch<S> *b, int trans, size_t k, lipsc_error *err) {
    if (b->part) return part_core(b, trans, err);
    const cudaStream_t stream = b->device->stream();
    const Kernels<S> *kernels = b->kernels;
    if (!trans) {
        PASS(shift_of_rows<S>(b, k, err));
        TRY(kernels->launch(JVP, b->args(JVP, k), stream), "the core of J");
        return LIPSC_OK;
    }
    PASS(means_of_rows<S>(b, k, err));
    // few blocks leave multiprocessors idle: the two halves then run side by side
    const Lane *lane = b->device->lane();
    const size_t blocks = (size_t)b->ntasks[GQ] * b->w->dims.heads * k;
    const bool beside = blocks < 4 * (size_t)b->device->multiprocessors;
    // one launch for both is faster but where the blocks are fewer than multiprocessors
    if (beside && kernels->both && blocks >= (size_t)b->device->multiprocessors) {
        TRY(kernels->both(b->args(GKV, k), b->args(GQ, k), stream), "the core of J^T");
        return LIPSC_OK;
    }
    if (beside) {
        TRY(cudaEventRecord(lane->forked, stream), "the core of J^T");
        TRY(cudaStreamWaitEvent(lane->side, lane->forked, 0), "the core of J^T");
    }
    if (kernels->split) {
        TRY(kernels->launch(GV, b->args(GV, k), stream), "the core of J^T");
        TRY(kernels->launch(GK, b->args(GK, k), stream), "the core of J^T");
    } else {
        TRY(kernels->launch(GKV, b->args(GKV, k), stream), "the core of J^T");
    }
    TRY(kernels->launch(GQ, b->args(GQ, k), beside ? lane->side : stream),
        "the core of J^T");
    if (beside) {
        TRY(cudaEventRecord(lane->joined, lane->side), "the core of J^T");
        TRY(cudaStreamWaitEvent(stream, lane->joined, 0), "the core of J^T");
    }
    return LIPSC_OK;
}

lipsc_status directions_in(Batch<StoreF64> *b, const void *u, const void *v, double *direct,
                           lipsc_error *err) {
    const Dims &m = b->w->dims;
    PASS(enter<StoreF64>(b, 0, 1, (const double *)v, 1, err));
    PASS(project_directions(b, 1, err));
    if (direct)
        TRY(cudaMemcpyAsync(direct, b->temp, b->tokens * m.C * sizeof *direct,
                            cudaMemcpyDeviceToDevice, b->device->stream()),
            "a gradient");
    PASS(enter<StoreF64>(b, 1, 1, (const double *)u, 1, err));
    return split_heads(b, 1, err);
}

template <class S>
lipsc_status Batch<S>::product(int trans, size_t k, const void *x, void *y, int plain,
                               lipsc_error *err) {
    typedef typename S::Acc Acc;
    const Dims &m = w->dims;
    const size_t rows = k * tokens, HW = m.heads * m.W;
    const double out_factor =
        std::ldexp(1.0, -lift[trans != 0]) / (trans ? w->qkv_factor : w->out_factor);
    if (!tokens) { // of a part: for the other ranks
        if (longest) PASS(longest_of_ranks(this, longest, err));
        return part_core(this, trans, err);
    }
    PASS(enter<S>(this, trans, k, (const Acc *)x, out_factor, err));
    PASS(trans ? split_heads(this, k, err) : project_directions(this, k, err));
    PASS(plain ? plain_core(this, trans, k, err) : core_of(this, trans, k, err));
    if (trans && turns()) PASS(turn_back<S>(this, k, err));
    Acc *to = staged() ? gathered : (Acc *)y;
    const Acc *alpha = unscale && single(k) ? unscale : nullptr;
    if (trans)
        PASS(gemm_full<S>(device, alone(), 1, rows, m.d, m.C, 1, alpha, dqkv, m.C * S::PL,
                          w->qkv, m.dp * S::PL, to, m.d, err));
    else
        PASS(gemm_full<S>(device, alone(), 0, rows, m.width, HW, 1, alpha, heads,
                          HW * S::PL, w->out, HW * S::PL, to, m.width, err));
    return leave<S>(this, trans, k, to, (Acc *)y, err);
}

template <class S> lipsc_status Batch<S>::core(int trans, size_t k, lipsc_error *err) {
    return core_of(this, trans, k, err);
}

// Rows of an input, in the caller's order: those of the batch from `first` on.
template <class A, class V>
static __global__ void place_output(size_t count, size_t width, const int *source,
                                    size_t first, const A *from, const double *bias, V *y) {
    const size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= count) return;
    const size_t r = i / width, c = i % width;
    const size_t to = source ? source[first + r] - first : r;
    y[to * width + c] = (V)((double)from[i] + (bias ? bias[c] : 0.0));
}

template <class S>
lipsc_status Batch<S>::output(size_t input, int wide_y, void *y, lipsc_error *err) {
    typedef typename S::Acc Acc;
    enum { THREADS = 256 };
    const Dims &m = w->dims;
    const size_t HW = m.heads * m.W, rows = (size_t)n_host[input];
    const size_t first = (size_t)base_host[input], count = rows * m.width;
    const unsigned blocks = (unsigned)((count + THREADS - 1) / THREADS);
    Memory temporary;
    temporary.device = device;
    Acc *to;
    PASS(temporary.get(&to, count, err));
    TRY(cudaMemsetAsync(to, 0, count * sizeof(Acc), device->stream()),
        "zeros"); // initcheck
    PASS(head_output<S>(this, err));
    PASS(gemm_full<S>(device, true, 0, rows, m.width, HW, 1 / w->out_factor, nullptr,
                      heads + first * HW * S::PL, HW * S::PL, w->out, HW * S::PL, to,
                      m.width, err));
    BY_WIDTH(wide_y, (place_output<<<blocks, THREADS, 0, device->stream()>>>(
                         count, m.width, source, first, to, w->out_bias, (V *)y)));
    TRY(cudaGetLastError(), "the output");
    return LIPSC_OK;
}

// n rows of `width` numbers that begin at p and lie ld apart, times factor
static lipsc_status fetch_columns(lipsc_cuda_device *device, size_t n, size_t width,
                                  size_t ld, const double *p, double factor, double *host,
                                  lipsc_error *err) {
    Memory temporary;
    temporary.device = device;
    double *dense;
    PASS(temporary.get(&dense, n * width, err));
    TRY(cudaMemcpy2DAsync(dense, width * sizeof *p, p, ld * sizeof *p, width * sizeof *p, n,
                          cudaMemcpyDeviceToDevice, device->stream()),
        "projections");
    PASS(fetch(device, n * width * sizeof *p, dense, host, err));
    for (size_t i = 0; i < n * width; i++) host[i] *= factor;
    return LIPSC_OK;
}

template <class S>
lipsc_status Batch<S>::projections(size_t, size_t, double *, double *, double *, double *,
                                   double *, lipsc_error *err) {
    return fail(err, LIPSC_E_REFUSED, "projections are told in f64 only");
}

enum { MOST_TOLD = 1 << 25 }; // numbers that the host keeps of an input

// The rows of an input in host memory, fetched once for all heads; without those of others.
static lipsc_status tell(Batch<StoreF64> *b, size_t input,
                         std::shared_ptr<const lipsc_cuda_batch::Told> *out,
                         lipsc_error *err) {
    const size_t C = b->w->dims.C, count = (size_t)b->n_host[input] * C;
    {
        const std::lock_guard<std::mutex> held(b->told_lock);
        if (b->told && b->told_input == input) {
            *out = b->told;
            return LIPSC_OK;
        }
    }
    const auto rows = std::make_shared<lipsc_cuda_batch::Told>(count);
    PASS(fetch(b->device, count * sizeof(double), b->qkv + (size_t)b->base_host[input] * C,
               rows->data(), err));
    const std::lock_guard<std::mutex> held(b->told_lock);
    b->told = *out = rows;
    b->told_input = input;
    return LIPSC_OK;
}

// `width` columns from `at` on, times factor
static void take_columns(const lipsc_cuda_batch::Told &rows, size_t n, size_t C, size_t at,
                         size_t width, double factor, double *host) {
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < width; c++)
            host[i * width + c] = rows[i * C + at + c] * factor;
}

// Queries carry log2(e) and values ln 2 (core.cuh).
template <>
lipsc_status Batch<StoreF64>::projections(size_t input, size_t head, double *q, double *key,
                                          double *z, double *q_over, double *k_over,
                                          lipsc_error *err) {
    const Dims &m = w->dims;
    const size_t rows = (size_t)n_host[input], group = head / (m.heads / m.kv);
    const size_t first = (size_t)base_host[input], all = m.heads + m.kv;
    const size_t at[3] = {head * m.W, (m.heads + group) * m.W, m.turned + group * m.W},
                 width[3] = {m.key_dim, m.key_dim, m.value_dim};
    const double factor[3] = {1 / log2e, 1, log2e};
    double *const to[3] = {q, key, z};
    if (rows * m.C <= MOST_TOLD) {
        std::shared_ptr<const Told> host;
        PASS(tell(this, input, &host, err));
        for (int i = 0; i < 3; i++)
            take_columns(*host, rows, m.C, at[i], width[i], factor[i], to[i]);
    } else {
        for (int i = 0; i < 3; i++)
            PASS(fetch_columns(device, rows, width[i], m.C, qkv + first * m.C + at[i],
                               factor[i], to[i], err));
    }
    for (size_t i = 0; i < rows; i++) q_over[i] = k_over[i] = 1;
    if (m.norms & 1)
        PASS(
            fetch_columns(device, rows, 1, all, over + first * all + head, 1, q_over, err));
    if (m.norms & 2)
        PASS(fetch_columns(device, rows, 1, all, over + first * all + m.heads + group, 1,
                           k_over, err));
    return LIPSC_OK;
}

#define INSTANCE(S)                                                                 \
    template lipsc_status Batch<S>::product(int, size_t, const void *, void *, int, \
                                            lipsc_error *);                         \
    template lipsc_status Batch<S>::core(int, size_t, lipsc_error *);               \
    template lipsc_status Batch<S>::output(size_t, int, void *, lipsc_error *);
INSTANCE(StoreF16)
INSTANCE(StoreF16x3)
INSTANCE(StoreBF16x3)
INSTANCE(StoreF64)
#define TELLS(S)                                 \
    template lipsc_status Batch<S>::projections( \
        size_t, size_t, double *, double *, double *, double *, double *, lipsc_error *);
TELLS(StoreF16) TELLS(StoreF16x3) TELLS(StoreBF16x3)
