// plain.cu - the core once more, naively and in double, on the stored operands: what the
// fast kernels are compared with.  One block per row; nothing is shared with core.cuh but
// the description of a batch.
#include "plain.cuh"

enum { THREADS = 128 };

template <class S> DEV double probability(const Plain<S> &p, int h, size_t row, double s) {
    const size_t at = (size_t)h * p.tokens + row;
    return exp2(s - p.max[at]) * p.inverse[at];
}

#define ROW                                                       \
    const int h = blockIdx.y;                                     \
    const size_t row = blockIdx.x, base = p.a.base[p.owner[row]]; \
    const int i = (int)(row - base), lo = p.a.first[p.prow[row]], \
              hi = p.a.last[p.prow[row]];                         \
    const size_t at = (size_t)h * p.tokens + row;

template <class S> static __global__ void plain_rows(Plain<S> p) {
    ROW __shared__ double most[THREADS];
    __shared__ int where[THREADS];
    double m = -INFINITY, slope;
    int best = i;
    for (int j = lo + threadIdx.x; j < hi; j += THREADS) {
        const double s = score(p, h, base, i, j, slope);
        if (s > m) {
            m = s;
            best = j;
        }
    }
    most[threadIdx.x] = m;
    where[threadIdx.x] = best;
    __syncthreads();
    for (int t = 0; t < THREADS; t++)
        if (most[t] > m || (most[t] == m && where[t] < best)) {
            m = most[t];
            best = where[t];
        }
    const double sink = p.sinks ? (double)p.sinks[h] : -INFINITY;
    const double largest = m > sink || isnan(m) ? m : sink;
    double sum = 0;
    for (int j = lo + threadIdx.x; j < hi; j += THREADS)
        sum += exp2(score(p, h, base, i, j, slope) - largest);
    sum = block_sum<THREADS>(sum) + exp2(sink - largest);
    p.max[at] = largest;
    p.inverse[at] = 1 / sum;
    p.sink[at] = exp2(sink - largest) / sum;
    p.top[at] = best;
}

template <class S> static __global__ void plain_jvp(Plain<S> p) {
    ROW const size_t dir = blockIdx.z, d0 = dir * p.tokens;
    auto ds = [&](int j, double &prob) {
        double slope;
        prob = probability(p, h, row, score(p, h, base, i, j, slope));
        return slope * (dot(p, part(p, p.dqkv, d0 + row, 0, h), p.C,
                            part(p, p.qkv, base + j, 1, h), p.C) +
                        dot(p, part(p, p.qkv, row, 0, h), p.C,
                            part(p, p.dqkv, d0 + base + j, 1, h), p.C));
    };
    double prob, mean = 0;
    const double shift = ds(p.top[at], prob);
    for (int j = lo + threadIdx.x; j < hi; j += THREADS) {
        const double x = j == p.top[at] ? 0 : ds(j, prob) - shift;
        if (j != p.top[at]) mean += prob * x;
    }
    mean = block_sum<THREADS>(mean) - shift * p.sink[at];
    __shared__ double us[THREADS], ps[THREADS];
    double acc[2] = {0, 0};
    for (int j0 = lo; j0 < hi; j0 += THREADS) {
        const int j = j0 + threadIdx.x;
        __syncthreads();
        if (j < hi) {
            const double x = ds(j, prob);
            us[threadIdx.x] = prob * ((j == p.top[at] ? 0 : x - shift) - mean);
            ps[threadIdx.x] = prob;
        }
        __syncthreads();
        for (int e = 0; e < 2; e++) {
            const int c = threadIdx.x + e * THREADS;
            for (int t = 0; c < p.W && t < min(THREADS, hi - j0); t++)
                acc[e] +=
                    us[t] * (double)S::get(part(p, p.qkv, base + j0 + t, 2, h) + c, p.C) +
                    ps[t] *
                        (double)S::get(part(p, p.dqkv, d0 + base + j0 + t, 2, h) + c, p.C);
        }
    }
    for (int e = 0; e < 2; e++) {
        const int c = threadIdx.x + e * THREADS;
        if (c < p.W)
            S::put(p.out + (d0 + row) * p.HW * S::PL + (size_t)h * p.W + c, p.HW,
                   (typename S::Acc)(acc[e] * p.scale));
    }
}

template <class S> DEV double scale_of(const Plain<S> &p, size_t row) {
    return p.scale * (p.row_scale ? (double)p.row_scale[row] : 1.0);
}
template <class S>
DEV const typename S::T *gradient_of(const Plain<S> &p, size_t row, int h) {
    return p.heads + row * p.HW * S::PL + (size_t)h * p.W;
}

// mean and shift of g.v over a row, and gQ
template <class S> static __global__ void plain_queries(Plain<S> p) {
    ROW const size_t dir = blockIdx.z, d0 = dir * p.tokens;
    const typename S::T *g = gradient_of(p, d0 + row, h);
    auto along = [&](int j) {
        return dot(p, g, p.HW, part(p, p.qkv, base + j, 2, h), p.C);
    };
    double slope, mean = 0;
    const double shift = along(p.top[at]);
    for (int j = lo + threadIdx.x; j < hi; j += THREADS)
        if (j != p.top[at])
            mean +=
                probability(p, h, row, score(p, h, base, i, j, slope)) * (along(j) - shift);
    mean = block_sum<THREADS>(mean) - shift * p.sink[at];
    const size_t slot = (dir * p.a.heads + h) * p.tokens + row;
    p.shift[slot] = shift;
    p.mean[slot] = mean;
    __shared__ double us[THREADS];
    double acc[2] = {0, 0};
    for (int j0 = lo; j0 < hi; j0 += THREADS) {
        const int j = j0 + threadIdx.x;
        __syncthreads();
        if (j < hi) {
            const double prob = probability(p, h, row, score(p, h, base, i, j, slope));
            us[threadIdx.x] =
                slope * prob * ((j == p.top[at] ? 0 : along(j) - shift) - mean);
        }
        __syncthreads();
        for (int e = 0; e < 2; e++) {
            const int c = threadIdx.x + e * THREADS;
            for (int t = 0; c < p.W && t < min(THREADS, hi - j0); t++)
                acc[e] +=
                    us[t] * (double)S::get(part(p, p.qkv, base + j0 + t, 1, h) + c, p.C);
        }
    }
    for (int e = 0; e < 2; e++) {
        const int c = threadIdx.x + e * THREADS;
        if (c < p.W)
            S::put((typename S::T *)part(p, p.out, d0 + row, 0, h) + c, p.C,
                   (typename S::Acc)(acc[e] * scale_of(p, row)));
    }
}

template <class S> static __global__ void plain_keys(Plain<S> p) {
    const int group = blockIdx.y, share = p.a.heads / p.a.kv;
    const size_t row = blockIdx.x, base = p.a.base[p.owner[row]];
    const int j = (int)(row - base), lo = p.key_first[p.prow[row]],
              hi = p.key_last[p.prow[row]];
    const size_t dir = blockIdx.z, d0 = dir * p.tokens;
    __shared__ double us[THREADS], ps[THREADS];
    double key[2] = {0, 0}, value[2] = {0, 0};
    for (int h = group * share; h < (group + 1) * share; h++)
        for (int i0 = lo; i0 < hi; i0 += THREADS) {
            const int i = i0 + threadIdx.x;
            __syncthreads();
            if (i < hi) {
                double slope;
                const size_t at = (size_t)h * p.tokens + base + i;
                const size_t slot = (dir * p.a.heads + h) * p.tokens + base + i;
                const double prob =
                    probability(p, h, base + i, score(p, h, base, i, j, slope));
                const double x = dot(p, gradient_of(p, d0 + base + i, h), p.HW,
                                     part(p, p.qkv, row, 2, h), p.C) -
                                 p.shift[slot];
                us[threadIdx.x] = slope * prob * ((j == p.top[at] ? 0 : x) - p.mean[slot]);
                ps[threadIdx.x] = prob;
            }
            __syncthreads();
            for (int e = 0; e < 2; e++) {
                const int c = threadIdx.x + e * THREADS;
                for (int t = 0; c < p.W && t < min(THREADS, hi - i0); t++) {
                    const size_t q = base + i0 + t;
                    key[e] += us[t] * (double)S::get(part(p, p.qkv, q, 0, h) + c, p.C);
                    value[e] += ps[t] * (double)S::get(gradient_of(p, d0 + q, h) + c, p.HW);
                }
            }
        }
    for (int e = 0; e < 2; e++) {
        const int c = threadIdx.x + e * THREADS, h = group * share;
        if (c >= p.W) continue;
        S::put((typename S::T *)part(p, p.out, d0 + row, 1, h) + c, p.C,
               (typename S::Acc)(key[e] * scale_of(p, row)));
        S::put((typename S::T *)part(p, p.out, d0 + row, 2, h) + c, p.C,
               (typename S::Acc)(value[e] * scale_of(p, row)));
    }
}

template <class S>
static lipsc_status describe(Batch<S> *b, Plain<S> *p, lipsc_error *err) {
    const size_t stats = b->w->dims.heads * b->tokens;
    if (!b->plain_stats) {
        PASS(b->memory.get(&b->plain_stats, 4 * stats, err));
        PASS(b->memory.get(&b->plain_dirs, 2 * b->dirs * stats, err));
    }
    *p = plain_of(b);
    p->max = b->plain_stats;
    p->inverse = p->max + stats;
    p->sink = p->inverse + stats;
    p->top = (int *)(p->sink + stats);
    p->shift = b->plain_dirs;
    p->mean = p->shift + b->dirs * stats;
    return LIPSC_OK;
}

template <class S>
lipsc_status plain_core(Batch<S> *b, int trans, size_t k, lipsc_error *err) {
    Plain<S> p;
    PASS(describe(b, &p, err));
    p.scale = (double)b->args(trans ? GQ : JVP, 1).scale;
    const cudaStream_t stream = b->device->stream();
    const dim3 rows((unsigned)b->tokens, (unsigned)b->w->dims.heads, (unsigned)k);
    const dim3 keys((unsigned)b->tokens, (unsigned)b->w->dims.kv, (unsigned)k);
    if (b->longest)
        TRY(cudaMemsetAsync(b->longest, 0, b->dirs * b->inputs * sizeof(int), stream),
            "scales");
    plain_rows<S><<<dim3(rows.x, rows.y), THREADS, 0, stream>>>(p);
    if (!trans) {
        p.out = b->heads;
        plain_jvp<S><<<rows, THREADS, 0, stream>>>(p);
    } else {
        p.out = b->dqkv;
        plain_queries<S><<<rows, THREADS, 0, stream>>>(p);
        plain_keys<S><<<keys, THREADS, 0, stream>>>(p);
    }
    TRY(cudaGetLastError(), "the plain core");
    return LIPSC_OK;
}

template lipsc_status plain_core<StoreF16>(Batch<StoreF16> *, int, size_t, lipsc_error *);
template lipsc_status plain_core<StoreF16x3>(Batch<StoreF16x3> *, int, size_t,
                                             lipsc_error *);
template lipsc_status plain_core<StoreBF16x3>(Batch<StoreBF16x3> *, int, size_t,
                                              lipsc_error *);
template lipsc_status plain_core<StoreF64>(Batch<StoreF64> *, int, size_t, lipsc_error *);
