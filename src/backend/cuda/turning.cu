// turning.cu - norms of queries and keys and rotary positions, row by row: of the input, of
// a direction, and backwards.
#include "stages.cuh"

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

#define INSTANCE(S)                                                                   \
    template lipsc_status turn<S>(const Batch<S> *, size_t, const S::Acc *,           \
                                  lipsc_error *);                                     \
    template lipsc_status turn_back<S>(const Batch<S> *, size_t, lipsc_error *);      \
    template lipsc_status ready<S>(const Batch<S> *, size_t, size_t, double *, int *, \
                                   lipsc_error *);
INSTANCE(StoreF16) INSTANCE(StoreF16x3) INSTANCE(StoreBF16x3) INSTANCE(StoreF64)
