// stages.cu - rows on their way into a product and out of it: the caller's order and
// weights, the scale of narrow precisions.
#include "stages.cuh"

// ---- Into the batch's order, scaled, stored
// ------------------------------------------------

// Rows of direction k, token r: where the caller has it and what it is multiplied by.
template <class Acc> struct Rows {
    const int *source, *owner;
    const Acc *factor; // (tokens) or NULL
    size_t tokens, inputs;
    const Acc *second; // (tokens) or NULL: another factor
};

template <class Acc>
static __global__ void longest_rows(Rows<Acc> rows, size_t count, size_t d, const Acc *x,
                                    int *longest) {
    __shared__ float most[WARPS];
    follow();
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const size_t first = (size_t)blockIdx.x * WARPS, row = first + warp;
    float norm = 0;
    size_t slot = 0;
    if (row < count) {
        const size_t k = row / rows.tokens, r = row % rows.tokens;
        slot = k * rows.inputs + rows.owner[r];
        const Acc *from = x + (k * rows.tokens + (rows.source ? rows.source[r] : r)) * d;
        double sum = 0;
        if (d % 4 == 0) {
#pragma unroll 6
            for (size_t c = 4 * lane; c < d; c += 4 * LANES) {
                Acc v[4];
                load4(from + c, v);
#pragma unroll
                for (int i = 0; i < 4; i++) sum += (double)v[i] * (double)v[i];
            }
        } else {
            for (size_t c = lane; c < d; c += LANES)
                sum += (double)from[c] * (double)from[c];
        }
        sum = warp_sum(sum);
        const double f = rows.factor ? (double)rows.factor[r] : 1.0;
        norm = (float)(sqrt(sum) * f);
    }
    if (lane == 0) most[warp] = norm;
    __syncthreads();
    if (lane) return;
    const size_t end = min(first + WARPS, count) - 1;
    const size_t slot0 =
        first / rows.tokens * rows.inputs + rows.owner[first % rows.tokens];
    const size_t slot1 = end / rows.tokens * rows.inputs + rows.owner[end % rows.tokens];
    if (slot0 ==
        slot1) { // one update for the block; a maximum does not depend on the order
        if (warp) return;
        for (int w = 1; w < WARPS; w++)
            norm = most[w] > norm || most[w] != most[w] ? most[w] : norm;
        slot = slot0;
    } else if (row >= count) {
        return;
    }
    atomicMax(longest + slot, __float_as_int(fabsf(norm))); // a NaN is above everything
}

// The power of two that brings the longest row to at most 2^-room.
DEV float scale_for(int longest_bits, int room) {
    const float most = __int_as_float(longest_bits);
    if (!(most > 0) || !(most < 3e38f)) return 1.0f;
    int e;
    frexpf(most, &e);
    e = min(max(-e - room, -120), 120);
    return ldexpf(1.0f, e);
}

template <class S>
static __global__ void enter_rows(Rows<typename S::Acc> rows, size_t count, size_t d,
                                  size_t dp, const typename S::Acc *x, const int *longest,
                                  int room, double out_factor, typename S::Acc *unscale,
                                  typename S::T *to) {
    typedef typename S::Acc Acc;
    follow();
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const size_t row = (size_t)blockIdx.x * WARPS + warp;
    if (row >= count) return;
    const size_t k = row / rows.tokens, r = row % rows.tokens;
    Acc f = rows.factor ? rows.factor[r] : (Acc)1;
    if (longest) {
        const size_t slot = k * rows.inputs + rows.owner[r];
        const float s = scale_for(longest[slot], room);
        f *= (Acc)s;
        if (lane == 0)
            unscale[slot] = (Acc)(out_factor / (double)s); // the same from all rows
    }
    const Acc *from = x + (k * rows.tokens + (rows.source ? rows.source[r] : r)) * d;
    typename S::T *at = to + row * dp * S::PL;
    if (d % 4 == 0) {
#pragma unroll 6
        for (size_t c = 4 * lane; c < dp; c += 4 * LANES) {
            Acc v[4] = {0, 0, 0, 0};
            if (c < d) load4(from + c, v);
#pragma unroll
            for (int i = 0; i < 4; i++) v[i] *= f;
            put4(S(), at + c, dp, v);
        }
        return;
    }
    for (size_t c = lane; c < dp; c += LANES)
        S::put(at + c, dp, c < d ? f * from[c] : (Acc)0);
}

template <class S>
lipsc_status enter(const Batch<S> *b, int trans, size_t k, const typename S::Acc *x,
                   double out_factor, lipsc_error *err) {
    typedef typename S::Acc Acc;
    const size_t d = trans ? b->width : b->d, dp = trans ? b->w->dims.wp : b->w->dims.dp;
    const size_t count = k * b->tokens;
    const Rows<Acc> rows = {b->source, b->owner,  trans ? b->root : b->inverse_root,
                            b->tokens, b->inputs, nullptr};
    const cudaStream_t stream = b->device->stream();
    if (b->longest) { // zero here: shift_rows and mean_rows leave it so
        TRY(launch_following(b->device->follows, longest_rows<Acc>,
                             blocks_for(count, WARPS), BLOCK, 0, stream, rows, count, d, x,
                             b->longest),
            "the longest rows");
        if (b->part) PASS(longest_of_ranks((lipsc_cuda_batch *)b, b->longest, err));
    }
    TRY(launch_following(b->device->follows, enter_rows<S>, blocks_for(count, WARPS), BLOCK,
                         0, stream, rows, count, d, dp, x, b->longest, b->room, out_factor,
                         b->unscale, b->xin),
        "rows of a direction");
    return LIPSC_OK;
}

template <class Acc>
static __global__ void leave_rows(Rows<Acc> rows, size_t count, size_t d, const Acc *from,
                                  const Acc *unscale, Acc *y) {
    follow();
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const size_t row = (size_t)blockIdx.x * WARPS + warp;
    if (row >= count) return;
    const size_t k = row / rows.tokens, r = row % rows.tokens;
    Acc f = rows.factor ? rows.factor[r] : (Acc)1;
    if (rows.second) f *= rows.second[r];
    if (unscale) f *= unscale[k * rows.inputs + rows.owner[r]];
    Acc *to = y + (k * rows.tokens + (rows.source ? rows.source[r] : r)) * d;
    if (d % 4 == 0) {
#pragma unroll 6
        for (size_t c = 4 * lane; c < d; c += 4 * LANES) {
            Acc v[4];
            load4(from + row * d + c, v);
#pragma unroll
            for (int i = 0; i < 4; i++) v[i] *= f;
            store4(to + c, v);
        }
        return;
    }
    for (size_t c = lane; c < d; c += LANES) to[c] = f * from[row * d + c];
}

template <class S>
lipsc_status leave(const Batch<S> *b, int trans, size_t k, const typename S::Acc *from,
                   typename S::Acc *y, lipsc_error *err) {
    typedef typename S::Acc Acc;
    const bool scaled = b->unscale && !b->single(k);
    if (!b->staged() && !scaled) return LIPSC_OK;
    const size_t d = trans ? b->d : b->width, count = k * b->tokens;
    const Rows<Acc> rows = {b->source, b->owner,  trans ? b->inverse_root : b->root,
                            b->tokens, b->inputs, trans ? b->row_unscale : nullptr};
    TRY(launch_following(b->device->follows, leave_rows<Acc>, blocks_for(count, WARPS),
                         BLOCK, 0, b->device->stream(), rows, count, d, from,
                         scaled ? b->unscale : nullptr, y),
        "rows of a result");
    return LIPSC_OK;
}

template <class S, class From>
static __global__ void store_rows(size_t cols, const From *from, size_t ldf, double factor,
                                  typename S::T *to, size_t ldt) {
    typedef typename S::Acc Acc;
    const size_t r = blockIdx.x;
    typename S::T *at = to + r * ldt * S::PL;
    if (cols % 4 == 0 && ldt % 4 == 0 && ldf % 4 == 0) {
        for (size_t c = 4 * threadIdx.x; c < ldt; c += 4 * blockDim.x) {
            From v[4] = {0, 0, 0, 0};
            Acc w[4];
            if (c < cols) load4(from + r * ldf + c, v);
#pragma unroll
            for (int i = 0; i < 4; i++) w[i] = (Acc)((double)v[i] * factor);
            put4(S(), at + c, ldt, w);
        }
        return;
    }
    for (size_t c = threadIdx.x; c < ldt; c += blockDim.x) {
        const double v = c < cols ? (double)from[r * ldf + c] * factor : 0.0;
        S::put(at + c, ldt, (Acc)v);
    }
}

template <class S>
lipsc_status store(cudaStream_t stream, size_t rows, size_t cols, const void *from,
                   int from_double, size_t ldf, double factor, typename S::T *to,
                   size_t ldt, lipsc_error *err) {
    if (!rows) return LIPSC_OK;
    if (from_double)
        store_rows<S, double><<<(unsigned)rows, 192, 0, stream>>>(
            cols, (const double *)from, ldf, factor, to, ldt);
    else
        store_rows<S, float><<<(unsigned)rows, 192, 0, stream>>>(cols, (const float *)from,
                                                                 ldf, factor, to, ldt);
    LAUNCHED("conversion");
    return LIPSC_OK;
}

#define INSTANCE(S)                                                                       \
    template lipsc_status enter<S>(const Batch<S> *, int, size_t, const S::Acc *, double, \
                                   lipsc_error *);                                        \
    template lipsc_status leave<S>(const Batch<S> *, int, size_t, const S::Acc *,         \
                                   S::Acc *, lipsc_error *);                              \
    template lipsc_status store<S>(cudaStream_t, size_t, size_t, const void *, int,       \
                                   size_t, double, S::T *, size_t, lipsc_error *);
INSTANCE(StoreF16) INSTANCE(StoreF16x3) INSTANCE(StoreBF16x3) INSTANCE(StoreF64)
