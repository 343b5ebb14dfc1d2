// stages.cu - what happens to single rows around the core: the caller's order and weights,
// the scale of narrow precisions, query and key norms, rotary positions, the shift of a
// row.
#include "internal.h"

enum { LANES = 32, WARPS = 8, BLOCK = LANES * WARPS };

static unsigned blocks_for(size_t rows, size_t each) {
    return (unsigned)((rows + each - 1) / each);
}
#define LAUNCHED(what) TRY(cudaGetLastError(), what)

template <class A> DEV A warp_sum(A v) {
#pragma unroll
    for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
    return v;
}

// ---- Four and eight numbers at a time: 16-byte accesses
// --------------------------------------

DEV void load4(const float *p, float *v) {
    const float4 x = *(const float4 *)p;
    v[0] = x.x, v[1] = x.y, v[2] = x.z, v[3] = x.w;
}
DEV void load4(const double *p, double *v) {
    const double2 x = ((const double2 *)p)[0], y = ((const double2 *)p)[1];
    v[0] = x.x, v[1] = x.y, v[2] = y.x, v[3] = y.y;
}
DEV void store4(float *p, const float *v) {
    *(float4 *)p = make_float4(v[0], v[1], v[2], v[3]);
}
DEV void store4(double *p, const double *v) {
    ((double2 *)p)[0] = make_double2(v[0], v[1]);
    ((double2 *)p)[1] = make_double2(v[2], v[3]);
}
DEV void put4(StoreF16, __half *p, size_t, const float *v) {
    *(uint2 *)p = make_uint2(pack_halves(v[0], v[1]), pack_halves(v[2], v[3]));
}
DEV void put4(StoreF16x3, __half *p, size_t plane, const float *v) {
    uint32_t h[2], l[2];
#pragma unroll
    for (int i = 0; i < 2; i++) F16x3<32>::split(h[i], l[i], v[2 * i], v[2 * i + 1]);
    *(uint2 *)p = make_uint2(h[0], h[1]);
    *(uint2 *)(p + plane) = make_uint2(l[0], l[1]);
}
DEV void put4(StoreF64, double *p, size_t, const double *v) { store4(p, v); }

DEV void halves8(const __half *p, float *v) {
    const uint4 x = *(const uint4 *)p;
    const uint32_t w[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 f = __half22float2(*(const __half2 *)&w[i]);
        v[2 * i] = f.x, v[2 * i + 1] = f.y;
    }
}
DEV void get8(StoreF16, const __half *p, size_t, float *v) { halves8(p, v); }
DEV void get8(StoreF16x3, const __half *p, size_t plane, float *v) {
    float low[8];
    halves8(p, v);
    halves8(p + plane, low);
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] += low[i];
}
DEV void get8(StoreF64, const double *p, size_t, double *v) {
    load4(p, v);
    load4(p + 4, v + 4);
}

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
        TRY(launch_following(longest_rows<Acc>, blocks_for(count, WARPS), BLOCK, 0, stream,
                             rows, count, d, x, b->longest),
            "the longest rows");
        if (b->part) PASS(longest_of_ranks((lipsc_cuda_batch *)b, b->longest, err));
    }
    TRY(launch_following(enter_rows<S>, blocks_for(count, WARPS), BLOCK, 0, stream, rows,
                         count, d, dp, x, b->longest, b->room, out_factor, b->unscale,
                         b->xin),
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
    TRY(launch_following(leave_rows<Acc>, blocks_for(count, WARPS), BLOCK, 0,
                         b->device->stream(), rows, count, d, from,
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

// ---- Norms and rotations
// -------------------------------------------------------------------

template <class A> struct Turning {
    size_t tokens, C, turned;
    int heads, kv, W, key_dim, half, norms, whole;
    double eps;
    const A *gain, *cosine, *sine;
    A *unit, *over;
    const int *prow;
};

template <class S, class A> static Turning<A> turning(const Batch<S> *b, const A *gain) {
    const Dims &m = b->w->dims;
    return {b->tokens, m.C,          m.turned,       (int)m.heads,
            (int)m.kv, (int)m.W,     (int)m.key_dim, (int)m.rotary_half,
            m.norms,   m.norm_whole, m.norm_eps,     gain,
            nullptr,   nullptr,      nullptr,        nullptr,
            nullptr};
}

template <class A> DEV bool normed(const Turning<A> &t, int head) {
    return head < t.heads ? t.norms & 1 : t.norms & 2;
}

// sums[h] over the heads that share a norm with head
template <class A>
DEV double shared_sum(const Turning<A> &t, const double *sums, int head) {
    if (!t.whole) return sums[head];
    double all = 0;
    for (int h = head < t.heads ? 0 : t.heads;
         h < (head < t.heads ? t.heads : t.heads + t.kv); h++)
        all += sums[h];
    return all;
}

// the pairs of the heads' first 2 half components
template <class A>
DEV void rotate(const Turning<A> &t, size_t token, double direction, A *row) {
    const int pairs = (t.heads + t.kv) * t.half;
    for (int i = threadIdx.x; i < pairs; i += BLOCK) {
        const int head = i / t.half, l = i % t.half;
        A *x = row + head * t.W + l;
        const A c = t.cosine[token * t.half + l],
                s = (A)direction * t.sine[token * t.half + l];
        const A p = x[0], q = x[t.half];
        x[0] = p * c - q * s;
        x[t.half] = q * c + p * s;
    }
}

// row := the derivative of the norms applied to it, or its transpose
template <class A>
DEV void norm_derivative(const Turning<A> &t, size_t token, int trans, A *row,
                         double *sums) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, all = t.heads + t.kv;
    const A *unit = t.unit + token * t.turned;
    for (int h = warp; h < all; h += WARPS) {
        if (!normed(t, h)) continue;
        double dot = 0;
        for (int c = lane; c < t.key_dim; c += LANES) {
            const int i = h * t.W + c;
            if (trans) row[i] *= t.gain[i];
            dot += (double)unit[i] * (double)row[i];
        }
        dot = warp_sum(dot);
        if (lane == 0) sums[h] = dot;
    }
    __syncthreads();
    for (int h = warp; h < all; h += WARPS) {
        if (!normed(t, h)) continue;
        const A dot = (A)shared_sum(t, sums, h), over = t.over[token * all + h];
        for (int c = lane; c < t.key_dim; c += LANES) {
            const int i = h * t.W + c;
            row[i] = over * (row[i] - unit[i] * dot);
            if (!trans) row[i] *= t.gain[i];
        }
    }
    __syncthreads();
}

template <class S, bool TRANS>
static __global__ void __launch_bounds__(BLOCK)
    turn_rows(Turning<typename S::Acc> t, const typename S::Acc *from, typename S::T *to) {
    typedef typename S::Acc A;
    extern __shared__ __align__(128) char memory[];
    double *sums = (double *)memory;
    A *row = (A *)(sums + t.heads + t.kv);
    const size_t r = blockIdx.x, token = r % t.tokens;
    typename S::T *at = to + r * t.C * S::PL;
    const size_t cols = TRANS ? t.turned : t.C;
    for (size_t c = threadIdx.x; c < cols; c += BLOCK)
        row[c] = TRANS ? S::get(at + c, t.C) : from[r * t.C + c];
    __syncthreads();
    if (TRANS && t.half) {
        rotate(t, token, -1, row);
        __syncthreads();
    }
    if (t.norms) norm_derivative(t, token, TRANS, row, sums);
    if (!TRANS && t.half) rotate(t, token, 1, row);
    __syncthreads();
    for (size_t c = threadIdx.x; c < cols; c += BLOCK) S::put(at + c, t.C, row[c]);
}

template <class S> static Turning<typename S::Acc> turning_of(const Batch<S> *b) {
    Turning<typename S::Acc> t = turning<S, typename S::Acc>(b, b->w->gain);
    t.cosine = b->cosine;
    t.sine = b->sine;
    t.unit = b->unit;
    t.over = b->over;
    return t;
}

template <class S> static size_t turn_memory(const Batch<S> *b, size_t item) {
    return (b->w->dims.heads + b->w->dims.kv) * sizeof(double) + b->w->dims.C * item;
}

template <class F> static cudaError_t allow_memory(F f, size_t bytes) {
    return cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
}

template <class S>
lipsc_status turn(const Batch<S> *b, size_t k, const typename S::Acc *from,
                  lipsc_error *err) {
    const size_t bytes = turn_memory(b, sizeof(typename S::Acc));
    TRY(allow_memory(turn_rows<S, false>, bytes), "rows of queries and keys");
    turn_rows<S, false><<<(unsigned)(k * b->tokens), BLOCK, bytes, b->device->stream()>>>(
        turning_of(b), from, b->dqkv);
    LAUNCHED("norms and rotations");
    return LIPSC_OK;
}
template <class S> lipsc_status turn_back(const Batch<S> *b, size_t k, lipsc_error *err) {
    const size_t bytes = turn_memory(b, sizeof(typename S::Acc));
    TRY(allow_memory(turn_rows<S, true>, bytes), "rows of queries and keys");
    turn_rows<S, true><<<(unsigned)(k * b->tokens), BLOCK, bytes, b->device->stream()>>>(
        turning_of(b), nullptr, b->dqkv);
    LAUNCHED("norms and rotations");
    return LIPSC_OK;
}

// With unit x / r and over sqrt(k) / r, the gradient of what the derivative of a norm makes
// of a direction e, in x: w -= over^2 / sqrt(k) ((t.e) x + (x.e) t + (x.t) e - 3 (x.t)(x.e)
// x) for x = unit, t with its gains (attn/ref_gradient.c).
static __global__ void __launch_bounds__(BLOCK)
    second_rows(Turning<double> t, const double *e, double *by, double *to) {
    extern __shared__ __align__(128) char memory[];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, all = t.heads + t.kv;
    double *sums = (double *)memory; // (3, all): x.e, x.t, t.e
    const size_t token = blockIdx.x;
    const double *unit = t.unit + token * t.turned, *direct = e + token * t.C;
    double *row = by + token * t.C, *w = to + token * t.C;
    if (t.half) rotate(t, token, -1, row);
    __syncthreads();
    for (int h = warp; h < all; h += WARPS) {
        double s[3] = {0, 0, 0};
        for (int c = lane; normed(t, h) && c < t.key_dim; c += LANES) {
            const int i = h * t.W + c;
            row[i] *= t.gain[i];
            s[0] += unit[i] * direct[i];
            s[1] += unit[i] * row[i];
            s[2] += row[i] * direct[i];
        }
        for (int l = 0; l < 3; l++) {
            const double sum = warp_sum(s[l]);
            if (lane == 0) sums[l * all + h] = sum;
        }
    }
    __syncthreads();
    for (int h = warp; h < all; h += WARPS) {
        if (!normed(t, h)) continue;
        const double xe = shared_sum(t, sums, h), xt = shared_sum(t, sums + all, h),
                     te = shared_sum(t, sums + 2 * all, h), over = t.over[token * all + h];
        const double count =
            (double)t.key_dim * (t.whole ? (h < t.heads ? t.heads : t.kv) : 1);
        for (int c = lane; c < t.key_dim; c += LANES) {
            const int i = h * t.W + c;
            w[i] -= over * over / sqrt(count) *
                    ((te - 3 * xt * xe) * unit[i] + xe * row[i] + xt * direct[i]);
        }
    }
}

lipsc_status norm_second(const Batch<StoreF64> *b, const double *e, double *t,
                         lipsc_error *err) {
    const size_t bytes = 3 * (b->w->dims.heads + b->w->dims.kv) * sizeof(double);
    second_rows<<<(unsigned)b->tokens, BLOCK, bytes, b->device->stream()>>>(turning_of(b),
                                                                            e, t, b->dqkv);
    LAUNCHED("norms of queries and keys");
    return LIPSC_OK;
}

// ---- Projections of the input
// ------------------------------------------------------------------

// bias, norm and rotation in double, then stored: values carry ln 2 (core.cuh)
template <class S>
static __global__ void __launch_bounds__(BLOCK)
    ready_rows(Turning<double> t, size_t first, const double *projected, const double *bias,
               const typename S::Acc *cosine, const typename S::Acc *sine,
               typename S::Acc *unit, typename S::Acc *over, typename S::T *to, int *bad) {
    typedef typename S::Acc A;
    extern __shared__ __align__(128) char memory[];
    double *sums = (double *)memory, *row = sums + t.heads + t.kv;
    const size_t token = first + blockIdx.x;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, all = t.heads + t.kv;
    for (size_t c = threadIdx.x; c < t.C; c += BLOCK)
        row[c] = projected[(size_t)blockIdx.x * t.C + c] + (bias ? bias[c] : 0.0);
    __syncthreads();
    for (int h = warp; t.norms && h < all; h += WARPS) {
        double square = 0;
        for (int c = lane; c < t.key_dim; c += LANES)
            square += row[h * t.W + c] * row[h * t.W + c];
        square = warp_sum(square);
        if (lane == 0) sums[h] = square;
    }
    __syncthreads();
    for (int h = warp; t.norms && h < all; h += WARPS) {
        if (!normed(t, h)) continue;
        const double count =
            (double)t.key_dim * (t.whole ? (h < t.heads ? t.heads : t.kv) : 1);
        const double r = sqrt(shared_sum(t, sums, h) + count * t.eps);
        const double inverse = r > 0 ? 1 / r : 0; // a zero row with eps 0 stays zero
        if (lane == 0) over[token * all + h] = (A)(sqrt(count) * inverse);
        for (int c = lane; c < t.W; c += LANES) {
            const int i = h * t.W + c;
            const double u = c < t.key_dim ? row[i] * inverse : 0.0;
            unit[token * t.turned + i] = (A)u;
            row[i] = t.gain[i] * sqrt(count) * u;
        }
    }
    __syncthreads();
    const int pairs = all * t.half;
    for (int i = threadIdx.x; i < pairs; i += BLOCK) {
        double *x = row + i / t.half * t.W + i % t.half;
        const double c = (double)cosine[token * t.half + i % t.half];
        const double s = (double)sine[token * t.half + i % t.half], p = x[0], q = x[t.half];
        x[0] = p * c - q * s;
        x[t.half] = q * c + p * s;
    }
    __syncthreads();
    bool wrong = false;
    for (size_t c = threadIdx.x; c < t.C; c += BLOCK) {
        typename S::T *at = to + token * t.C * S::PL + c;
        S::put(at, t.C, (A)(c < t.turned ? row[c] : row[c] * 0.69314718055994530942));
        wrong |= !isfinite((double)S::get(at, t.C));
    }
    if (wrong) *bad = 1;
}

template <class S>
lipsc_status ready(const Batch<S> *b, size_t first, size_t rows, double *projected,
                   int *bad, lipsc_error *err) {
    const Turning<double> t = turning<S, double>(b, b->w->gain_exact);
    const size_t bytes = turn_memory(b, sizeof(double));
    TRY(allow_memory(ready_rows<S>, bytes), "rows of queries and keys");
    ready_rows<S><<<(unsigned)rows, BLOCK, bytes, b->device->stream()>>>(
        t, first, projected, b->w->bias, b->cosine, b->sine, b->unit, b->over, b->qkv, bad);
    LAUNCHED("projections");
    return LIPSC_OK;
}

// ---- One number per row and head
// ---------------------------------------------------------------

template <class S> struct Places {
    const typename S::T *qkv, *dqkv, *heads;
    const typename S::Acc *output;
    Stats<typename S::Acc> st;
    const int *owner, *prow, *base;
    size_t tokens, padded, C;
    int H, kv, W;
    int *longest; // made zero for the next direction
    size_t slots;
};
template <class S> static Places<S> places(const Batch<S> *b) {
    const Dims &m = b->w->dims;
    return {b->qkv,    b->dqkv,   b->heads,   b->attended,
            b->st,     b->owner,  b->prow,    b->base,
            b->tokens, b->padded, m.C,        (int)m.heads,
            (int)m.kv, (int)m.W,  b->longest, b->longest ? b->dirs * b->inputs : 0};
}

enum { OCTET = 8 }; // threads per row and head

template <class A> DEV A octet_sum(A v) {
    v += __shfl_xor_sync(~0u, v, 1);
    v += __shfl_xor_sync(~0u, v, 2);
    return v + __shfl_xor_sync(~0u, v, 4);
}

// which (direction, row, head) this thread works on
#define PLACE                                                                        \
    follow();                                                                        \
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.slots;      \
         i += (size_t)gridDim.x * blockDim.x)                                        \
        p.longest[i] = 0;                                                            \
    const size_t id = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) / OCTET;       \
    const int l = threadIdx.x % OCTET;                                               \
    const bool there = id < count;                                                   \
    const size_t row = there ? id / p.H : 0, k = row / p.tokens, r = row % p.tokens; \
    const int head = there ? (int)(id % p.H) : 0, group = head / (p.H / p.kv);       \
    const size_t at = (size_t)head * p.padded + p.prow[r];                           \
    const size_t slot = (k * p.H + head) * p.padded + p.prow[r];                     \
    const size_t top = p.base[p.owner[r]] + p.st.top[at];

// shift = -c, c = dS at the row's largest entry
template <class S> static __global__ void shift_rows(Places<S> p, size_t count) {
    typedef typename S::Acc A;
    PLACE
    const size_t ld = p.C * S::PL, kcol = (size_t)(p.H + group) * p.W;
    const typename S::T *q = p.qkv + r * ld + (size_t)head * p.W,
                        *key = p.qkv + top * ld + kcol;
    const typename S::T *dq = p.dqkv + row * ld + (size_t)head * p.W;
    const typename S::T *dk = p.dqkv + (k * p.tokens + top) * ld + kcol;
    A sum = 0;
    for (int c = 8 * l; c < p.W; c += 8 * OCTET) {
        A x[8], y[8], z[8], w[8];
        get8(S(), dq + c, p.C, x);
        get8(S(), key + c, p.C, y);
        get8(S(), q + c, p.C, z);
        get8(S(), dk + c, p.C, w);
#pragma unroll
        for (int i = 0; i < 8; i++) sum += x[i] * y[i] + z[i] * w[i];
    }
    sum = octet_sum(sum);
    if (there && l == 0) p.st.shift[slot] = p.st.slope ? -sum * p.st.slope[at] : -sum;
}

// at_top = -g.(o - v_top), shift = -g.o
template <class S> static __global__ void mean_rows(Places<S> p, size_t count) {
    typedef typename S::Acc A;
    PLACE
    const size_t HW = (size_t)p.H * p.W;
    const typename S::T *g = p.heads + row * HW * S::PL + (size_t)head * p.W;
    const typename S::T *v = p.qkv + top * p.C * S::PL + (size_t)(p.H + p.kv + group) * p.W;
    const A *kept = p.output + r * HW + (size_t)head * p.W;
    A along = 0, rest = 0;
    for (int c = 8 * l; c < p.W; c += 8 * OCTET) {
        A x[8], y[8], e[8];
        get8(S(), g + c, HW, x);
        get8(S(), v + c, p.C, y);
        load4(kept + c, e);
        load4(kept + c + 4, e + 4);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            along += x[i] * y[i];
            rest += x[i] * e[i];
        }
    }
    along = octet_sum(along);
    rest = octet_sum(rest);
    if (there && l == 0) {
        const bool lead = leads(p.st.inverse[at]); // rest: g.(o - v_top), else g.o
        p.st.at_top[slot] = lead ? -rest : along - rest;
        p.st.shift[slot] = lead ? -(along + rest) : -rest;
    }
}

// heads = o, without the ln 2 of the values
template <class S> static __global__ void output_rows(Places<S> p, size_t count) {
    typedef typename S::Acc A;
    typename S::T *heads = (typename S::T *)p.heads;
    PLACE(void) k;
    (void)slot;
    const size_t HW = (size_t)p.H * p.W;
    const typename S::T *v = p.qkv + top * p.C * S::PL + (size_t)(p.H + p.kv + group) * p.W;
    const bool lead = leads(p.st.inverse[at]);
    for (int c = l; there && c < p.W; c += OCTET) {
        const size_t i = (size_t)head * p.W + c;
        S::put(heads + r * HW * S::PL + i, HW,
               ((lead ? S::get(v + c, p.C) : (A)0) + p.output[r * HW + i]) *
                   (A)1.4426950408889634074);
    }
}

// ---- Columns that many rows look at
// -------------------------------------------------------------

template <class S> static __global__ void ones_everywhere(size_t count, typename S::T *to) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) to[i] = (typename S::T)1.0f; // two planes: all are 2
}
template <class S> lipsc_status ones(const Batch<S> *b, lipsc_error *err) {
    const size_t count = b->tokens * b->w->dims.heads * b->w->dims.W * S::PL;
    ones_everywhere<S>
        <<<blocks_for(count, BLOCK), BLOCK, 0, b->device->stream()>>>(count, b->heads);
    LAUNCHED("masses of columns");
    return LIPSC_OK;
}

// dqkv holds factor times the mass of each column in every value
template <class S>
static __global__ void mass_rows(size_t tokens, size_t C, int kv, int W, size_t values,
                                 const typename S::T *dqkv, double factor, double threshold,
                                 typename S::Acc *row_scale, typename S::Acc *row_unscale,
                                 int *needed) {
    const size_t r = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= tokens) return;
    double most = 0;
    for (int h = 0; h < kv; h++) {
        const double m =
            (double)S::get(dqkv + r * C * S::PL + values + (size_t)h * W, C) / factor;
        most = m > most || m != m ? m : most;
    }
    int e = 0;
    if (!(most < 1e9)) most = 1e9; // beyond the stored numbers
    if (most > threshold) {
        frexp(most / threshold, &e);
        *needed = 1;
    }
    row_scale[r] = (typename S::Acc)ldexp(1.0, -e);
    row_unscale[r] = (typename S::Acc)ldexp(1.0, e);
}
template <class S>
lipsc_status masses(const Batch<S> *b, double factor, double threshold, int *needed,
                    lipsc_error *err) {
    const Dims &m = b->w->dims;
    mass_rows<S><<<blocks_for(b->tokens, BLOCK), BLOCK, 0, b->device->stream()>>>(
        b->tokens, m.C, (int)m.kv, (int)m.W, m.turned, b->dqkv, factor * S::PL, threshold,
        b->row_scale, b->row_unscale, needed);
    LAUNCHED("masses of columns");
    return LIPSC_OK;
}

#define PER_ROW(name, kernel, count_)                                          \
    const size_t count = (count_)*b->w->dims.heads;                            \
    TRY(launch_following(kernel<S>, blocks_for(count *OCTET, BLOCK), BLOCK, 0, \
                         b->device->stream(), places(b), count),               \
        name);                                                                 \
    return LIPSC_OK;
template <class S>
lipsc_status shift_of_rows(const Batch<S> *b, size_t k, lipsc_error *err) {
    PER_ROW("shifts of rows", shift_rows, k * b->tokens)
}
template <class S>
lipsc_status means_of_rows(const Batch<S> *b, size_t k, lipsc_error *err) {
    PER_ROW("means of rows", mean_rows, k * b->tokens)
}
template <class S>
lipsc_status head_output(const Batch<S> *b, lipsc_error *err){
    PER_ROW("outputs of heads", output_rows, b->tokens)}

#define INSTANCE(S)                                                                       \
    template lipsc_status enter<S>(const Batch<S> *, int, size_t, const S::Acc *, double, \
                                   lipsc_error *);                                        \
    template lipsc_status leave<S>(const Batch<S> *, int, size_t, const S::Acc *,         \
                                   S::Acc *, lipsc_error *);                              \
    template lipsc_status store<S>(cudaStream_t, size_t, size_t, const void *, int,       \
                                   size_t, double, S::T *, size_t, lipsc_error *);        \
    template lipsc_status turn<S>(const Batch<S> *, size_t, const S::Acc *,               \
                                  lipsc_error *);                                         \
    template lipsc_status turn_back<S>(const Batch<S> *, size_t, lipsc_error *);          \
    template lipsc_status ready<S>(const Batch<S> *, size_t, size_t, double *, int *,     \
                                   lipsc_error *);                                        \
    template lipsc_status shift_of_rows<S>(const Batch<S> *, size_t, lipsc_error *);      \
    template lipsc_status means_of_rows<S>(const Batch<S> *, size_t, lipsc_error *);      \
    template lipsc_status head_output<S>(const Batch<S> *, lipsc_error *);                \
    template lipsc_status ones<S>(const Batch<S> *, lipsc_error *);                       \
    template lipsc_status masses<S>(const Batch<S> *, double, double, int *, lipsc_error *);
INSTANCE(StoreF16) INSTANCE(StoreF16x3) INSTANCE(StoreF64)
