// gradient.cu - the gradient of <u, J(X) v> in the tokens of a batch, in double.
//
// The formulas are those of attn/ref_gradient.c, in the units of core.cuh: scores in base
// 2, values times ln 2.  Rows are worked on in chunks whose matrices of scores fit into a
// fixed room: products with them by cuBLAS, what happens to a row by a block of threads.
// Everything of a row is shifted by its value at the row's largest entry, as there.
#include "block.cuh"
#include "internal.h"

#include <algorithm>

static const double ln2 = 0.69314718055994530942, log2e = 1.4426950408889634074;
enum { THREADS = 128, ROOM = 1 << 23 }; // entries of a matrix of scores

// ---- One row of one head ----

struct Chunk {
    double *S, *X, *B, *D; // (heads, rows, n): q.k, du, g.z, g.dz, and what finish_row
                           // makes of them
    size_t first, rows, n; // rows of the input
    size_t pad, padded;    // of its statistics
    int heads;
    const int *lo, *hi; // (padded) ranges
    const double *key_bias, *distance, *sinks;
    int far;
    double cap;
};

// The largest of the row's scores and the first key that has it.
DEV void block_top(double &most, int &where) {
    __shared__ double value[THREADS];
    __shared__ int key[THREADS];
    value[threadIdx.x] = most;
    key[threadIdx.x] = where;
    __syncthreads();
    for (int d = THREADS / 2; d; d >>= 1) {
        if (threadIdx.x < d) {
            const double other = value[threadIdx.x + d];
            const int at = key[threadIdx.x + d];
            if (other > value[threadIdx.x] ||
                (other == value[threadIdx.x] && at < key[threadIdx.x])) {
                value[threadIdx.x] = other;
                key[threadIdx.x] = at;
            }
        }
        __syncthreads();
    }
    most = value[0];
    where = key[0];
    __syncthreads();
}

// tanh of the capped score; its derivative is 1 - tanh^2
DEV double tanh_of(const Chunk &c, double product) { return tanh(product / c.cap); }

DEV double score(const Chunk &c, int head, int i, int j, double product) {
    double s = c.cap > 0 ? c.cap * tanh_of(c, product) : product;
    if (c.key_bias) s += c.key_bias[c.pad + j];
    if (c.distance) s += c.distance[(size_t)head * (2 * c.far - 1) + (c.far - 1 + j - i)];
    return s;
}

// Of a row: E (in S), P (dS - mean) (in X), F (in D), and F before the cap (in B).
static __global__ void finish_row(Chunk c) {
    const int head = blockIdx.y, i = (int)(c.first + blockIdx.x);
    const size_t at = ((size_t)head * c.rows + blockIdx.x) * c.n;
    double *S = c.S + at, *X = c.X + at, *B = c.B + at, *D = c.D + at;
    const int lo = c.lo[c.pad + i], hi = c.hi[c.pad + i];
    double most = -INFINITY;
    int top = 0x7fffffff;
    for (int j = lo + threadIdx.x; j < hi; j += THREADS) {
        const double s = score(c, head, i, j, S[j]);
        if (s > most || top == 0x7fffffff) most = s, top = j;
    }
    block_top(most, top);
    const double sunk = c.sinks ? c.sinks[head] : -INFINITY;
    const double largest = most > sunk || isnan(most) ? most : sunk;
    double sum = 0;
    for (int j = lo + threadIdx.x; j < hi; j += THREADS)
        sum += exp2(score(c, head, i, j, S[j]) - largest);
    sum = block_sum<THREADS>(sum) + exp2(sunk - largest);
    const double sink = exp2(sunk - largest) / sum;
    const double t_top = c.cap > 0 ? tanh_of(c, S[top]) : 0;
    const double x_top = X[top] * (1 - t_top * t_top), b_top = B[top], d_top = D[top];
    __syncthreads();
    auto probability = [&](int j) {
        return exp2(score(c, head, i, j, S[j]) - largest) / sum;
    };
    auto slope = [&](int j) {
        const double t = c.cap > 0 ? tanh_of(c, S[j]) : 0;
        return 1 - t * t;
    };
    double r = 0, b = 0;
    for (int j = lo + threadIdx.x; j < hi; j += THREADS) {
        const double p = probability(j);
        r += p * (j == top ? 0 : slope(j) * X[j] - x_top);
        b += p * (j == top ? 0 : B[j] - b_top);
    }
    r = block_sum<THREADS>(r) - x_top * sink;
    b = block_sum<THREADS>(b) - b_top * sink;
    double mean = 0;
    for (int j = lo + threadIdx.x; j < hi; j += THREADS) {
        const double x = j == top ? 0 : slope(j) * X[j] - x_top;
        const double y = j == top ? 0 : B[j] - b_top, w = j == top ? 0 : D[j] - d_top;
        mean += probability(j) * ((y - b) * (x - r) + w);
    }
    mean = block_sum<THREADS>(mean) + sink * ((r + x_top) * (b + b_top) - d_top);
    for (int j = threadIdx.x; j < (int)c.n; j += THREADS) {
        if (j < lo || j >= hi) {
            S[j] = X[j] = B[j] = D[j] = 0;
            continue;
        }
        const double p = probability(j), bent = slope(j), du = X[j];
        const double x = (j == top ? 0 : bent * du - x_top) - r;
        const double y = (j == top ? 0 : B[j] - b_top) - b;
        const double w = j == top ? 0 : D[j] - d_top;
        const double E = p * y, F = ln2 * p * (y * x + w - mean);
        const double bend = c.cap > 0 ? -2 * tanh_of(c, S[j]) * bent / c.cap : 0;
        B[j] = F;
        D[j] = bent * F + bend * du * E;
        S[j] = bent * E;
        X[j] = p * x;
    }
}

// score (n) += log2(e) F over the rows and heads of a chunk
static __global__ void add_scores(Chunk c, double *score) {
    const size_t j = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (j >= c.n) return;
    double sum = 0;
    for (size_t row = 0; row < (size_t)c.heads * c.rows; row++) sum += c.B[row * c.n + j];
    score[j] += log2e * sum;
}

// to (tokens, C) = queries' gradients as they are, keys' and values' summed over the query
// heads that share them; of (tokens, 3 heads W), values times ln 2
static __global__ void gather_heads(size_t C, int heads, int kv, int W, const double *of,
                                    double *to) {
    const size_t r = blockIdx.x, HW = (size_t)heads * W;
    const int share = heads / kv;
    const double *row = of + r * 3 * HW;
    for (int e = threadIdx.x; e < (int)C; e += THREADS) {
        if (e < (int)HW) {
            to[r * C + e] = row[e];
            continue;
        }
        const int value = e >= (int)HW + kv * W, at = e - (int)HW - (value ? kv * W : 0);
        double sum = 0;
        for (int s = 0; s < share; s++)
            sum += row[(1 + value) * HW + (size_t)(at / W * share + s) * W + at % W];
        to[r * C + e] = value ? ln2 * sum : sum;
    }
}

// to[order[r]] = from[r], rows of d
static __global__ void scatter_rows(size_t d, const int *order, const double *from,
                                    double *to) {
    const size_t r = blockIdx.x, place = order ? order[r] : r;
    for (size_t e = threadIdx.x; e < d; e += THREADS) to[place * d + e] = from[r * d + e];
}

// ---- Products with the matrices of a chunk, all heads at once ----

struct Operand {
    const double *p;
    size_t ld, step; // of rows, of heads that follow each other in the product
};

// out (m, n) = a (m, k) b (n, k)^T [NT], a (m, k) b (k, n) [NN], a (k, m)^T b (k, n) [TN]
enum Form { NT, NN, TN };

static lipsc_status multiply(lipsc_cuda_device *device, Form form, size_t m, size_t n,
                             size_t k, Operand a, Operand b, double beta, double *out,
                             size_t ld, size_t step, size_t count, lipsc_error *err) {
    const double one = 1;
    cublasHandle_t blas = device->lane()->blas;
    cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_HOST);
    const cublasStatus_t e = cublasDgemmStridedBatched(
        blas, form == NT ? CUBLAS_OP_T : CUBLAS_OP_N,
        form == TN ? CUBLAS_OP_T : CUBLAS_OP_N, (int)n, (int)m, (int)k, &one, b.p,
        (int)b.ld, (long long)b.step, a.p, (int)a.ld, (long long)a.step, &beta, out,
        (int)ld, (long long)step, (int)count);
    return e == CUBLAS_STATUS_SUCCESS ? LIPSC_OK : fail_blas(err, e, "a gradient");
}

// What the chunks of one input share.
struct Gradient {
    const Batch<StoreF64> *b;
    size_t base, n;
    double *of;    // (tokens, 3 heads W) gradients in q, k, z of each query head
    double *by;    // the same in dq and dk, or NULL; nothing where values are
    double *score; // (tokens) or NULL
    Operand query(const double *p, size_t row, size_t s) const {
        const Dims &m = b->w->dims;
        return {p + (base + row) * m.C + s * m.W, m.C, m.heads / m.kv * m.W};
    }
    Operand key(const double *p) const {
        const Dims &m = b->w->dims;
        return {p + base * m.C + m.heads * m.W, m.C, m.W};
    }
    Operand value(const double *p) const {
        const Dims &m = b->w->dims;
        return {p + base * m.C + m.turned, m.C, m.W};
    }
    Operand given(size_t row, size_t s) const { // g
        const Dims &m = b->w->dims;
        const size_t HW = m.heads * m.W;
        return {b->heads + (base + row) * HW + s * m.W, HW, m.heads / m.kv * m.W};
    }
};

static lipsc_status make_chunk(const Gradient &g, const Chunk &c, lipsc_error *err) {
    const Dims &m = g.b->w->dims;
    const double *qkv = g.b->qkv, *dqkv = g.b->dqkv;
    const size_t share = m.heads / m.kv, one = c.rows * c.n, step = share * one;
    lipsc_cuda_device *device = g.b->device;
    for (size_t s = 0; s < share; s++) { // query heads s, s + share, ...
        const struct {
            double *out;
            Operand a, b;
            double beta;
        } all[] = {{c.S, g.query(qkv, c.first, s), g.key(qkv), 0},
                   {c.X, g.query(dqkv, c.first, s), g.key(qkv), 0},
                   {c.X, g.query(qkv, c.first, s), g.key(dqkv), 1},
                   {c.B, g.given(c.first, s), g.value(qkv), 0},
                   {c.D, g.given(c.first, s), g.value(dqkv), 0}};
        for (const auto &p : all)
            PASS(multiply(device, NT, c.rows, c.n, m.W, p.a, p.b, p.beta, p.out + s * one,
                          c.n, step, m.kv, err));
    }
    finish_row<<<dim3((unsigned)c.rows, (unsigned)m.heads), THREADS, 0, device->stream()>>>(
        c);
    TRY(cudaGetLastError(), "a gradient");
    return LIPSC_OK;
}

static lipsc_status use_chunk(const Gradient &g, const Chunk &c, lipsc_error *err) {
    const Dims &m = g.b->w->dims;
    const double *qkv = g.b->qkv, *dqkv = g.b->dqkv;
    const size_t share = m.heads / m.kv, one = c.rows * c.n, HW = m.heads * m.W,
                 ld = 3 * HW, head = share * m.W;
    lipsc_cuda_device *device = g.b->device;
    for (size_t s = 0; s < share; s++) {
        auto matrix = [&](const double *p) {
            return Operand{p + s * one, c.n, share * one};
        };
        double *rows = g.of + (g.base + c.first) * ld + s * m.W,
               *keys = g.of + g.base * ld + HW + s * m.W, *values = keys + HW;
        PASS(multiply(device, NN, c.rows, m.W, c.n, matrix(c.S), g.key(dqkv), 0, rows, ld,
                      head, m.kv, err));
        PASS(multiply(device, NN, c.rows, m.W, c.n, matrix(c.D), g.key(qkv), 1, rows, ld,
                      head, m.kv, err));
        PASS(multiply(device, TN, c.n, m.W, c.rows, matrix(c.S), g.query(dqkv, c.first, s),
                      1, keys, ld, head, m.kv, err));
        PASS(multiply(device, TN, c.n, m.W, c.rows, matrix(c.D), g.query(qkv, c.first, s),
                      1, keys, ld, head, m.kv, err));
        PASS(multiply(device, TN, c.n, m.W, c.rows, matrix(c.X), g.given(c.first, s), 1,
                      values, ld, head, m.kv, err));
        if (!g.by) continue;
        PASS(multiply(device, NN, c.rows, m.W, c.n, matrix(c.S), g.key(qkv), 0,
                      g.by + (g.base + c.first) * 3 * HW + s * m.W, ld, head, m.kv, err));
        PASS(multiply(device, TN, c.n, m.W, c.rows, matrix(c.S), g.query(qkv, c.first, s),
                      1, g.by + g.base * 3 * HW + HW + s * m.W, ld, head, m.kv, err));
    }
    if (g.score) {
        add_scores<<<(unsigned)((c.n + THREADS - 1) / THREADS), THREADS, 0,
                     device->stream()>>>(c, g.score + g.base);
        TRY(cudaGetLastError(), "a gradient");
    }
    return LIPSC_OK;
}

static lipsc_status of_input(const Gradient &g, size_t pad, double *room[4],
                             lipsc_error *err) {
    const Batch<StoreF64> *b = g.b;
    const Dims &m = b->w->dims;
    const size_t most = std::max<size_t>(1, ROOM / (m.heads * g.n));
    for (size_t first = 0; first < g.n; first += most) {
        Chunk c = {};
        c.S = room[0], c.X = room[1], c.B = room[2], c.D = room[3];
        c.first = first;
        c.rows = std::min(most, g.n - first);
        c.n = g.n;
        c.pad = pad;
        c.padded = b->padded;
        c.heads = (int)m.heads;
        c.lo = b->first;
        c.hi = b->last;
        c.key_bias = b->key_bias;
        c.distance = b->distance;
        c.far = b->far;
        c.sinks = b->w->sinks;
        c.cap = m.cap;
        PASS(make_chunk(g, c, err));
        PASS(use_chunk(g, c, err));
    }
    return LIPSC_OK;
}

// ---- All of a batch ----

static lipsc_status zeros(lipsc_cuda_device *device, double *p, size_t count,
                          lipsc_error *err) {
    TRY(cudaMemsetAsync(p, 0, count * sizeof *p, device->stream()), "zeros");
    return LIPSC_OK;
}

// dqkv = gradients in the projections before norms and rotations; direct: dq, dk before
// norms
static lipsc_status turn_gradients(const Gradient &g, const double *direct, double *second,
                                   lipsc_error *err) {
    const Batch<StoreF64> *b = g.b;
    const Dims &m = b->w->dims;
    const cudaStream_t stream = b->device->stream();
    gather_heads<<<(unsigned)b->tokens, THREADS, 0, stream>>>(m.C, (int)m.heads, (int)m.kv,
                                                              (int)m.W, g.of, b->dqkv);
    if (g.by)
        gather_heads<<<(unsigned)b->tokens, THREADS, 0, stream>>>(
            m.C, (int)m.heads, (int)m.kv, (int)m.W, g.by, second);
    TRY(cudaGetLastError(), "a gradient");
    if (b->turns()) PASS(turn_back<StoreF64>(b, 1, err));
    return g.by ? norm_second(b, direct, second, err) : LIPSC_OK;
}

static lipsc_status scatter(const Batch<StoreF64> *b, size_t d, const double *from,
                            double *to, lipsc_error *err) {
    scatter_rows<<<(unsigned)b->tokens, THREADS, 0, b->device->stream()>>>(d, b->source,
                                                                           from, to);
    TRY(cudaGetLastError(), "a gradient");
    return LIPSC_OK;
}

template <class S>
lipsc_status Batch<S>::gradient(const void *, const void *, void *, void *,
                                lipsc_error *err) {
    return fail(err, LIPSC_E_REFUSED, "gradients are made in f64 only");
}

template <>
lipsc_status Batch<StoreF64>::gradient(const void *u, const void *v, void *grad,
                                       void *grad_score, lipsc_error *err) {
    const Dims &m = w->dims;
    const size_t HW = m.heads * m.W;
    size_t longest = 0;
    for (int rows : n_host) longest = std::max(longest, (size_t)rows);
    const size_t rows = std::min(longest, std::max<size_t>(1, ROOM / (m.heads * longest)));
    Memory temporary;
    temporary.device = device;
    double *room[4], *out, *direct = nullptr, *second = nullptr;
    for (double *&p : room) PASS(temporary.get(&p, m.heads * rows * longest, err));
    PASS(temporary.get(&out, tokens * m.d, err));
    Gradient g = {this, 0, 0, nullptr, nullptr, nullptr};
    PASS(temporary.get(&g.of, tokens * 3 * HW, err));
    PASS(zeros(device, g.of, tokens * 3 * HW, err));
    if (m.norms) {
        PASS(temporary.get(&g.by, tokens * 3 * HW, err));
        PASS(zeros(device, g.by, tokens * 3 * HW, err));
        PASS(temporary.get(&second, tokens * m.C, err));
        PASS(temporary.get(&direct, tokens * m.C, err));
    }
    if (grad_score) {
        PASS(temporary.get(&g.score, tokens, err));
        PASS(zeros(device, g.score, tokens, err));
    }
    PASS(directions_in(this, u, v, direct, err));
    size_t pad = 0;
    for (size_t i = 0; i < inputs; i++) {
        g.base = (size_t)base_host[i];
        g.n = (size_t)n_host[i];
        PASS(of_input(g, pad, room, err));
        pad += (g.n + STATISTICS_PAD - 1) / STATISTICS_PAD * STATISTICS_PAD;
    }
    PASS(turn_gradients(g, direct, second, err));
    PASS(gemm_full<StoreF64>(device, alone(), 1, tokens, m.d, m.C, 1 / w->qkv_factor,
                             nullptr, dqkv, m.C, w->qkv, m.dp, out, m.d, err));
    PASS(scatter(this, m.d, out, (double *)grad, err));
    return grad_score ? scatter(this, 1, g.score, (double *)grad_score, err) : LIPSC_OK;
}

template lipsc_status Batch<StoreF16>::gradient(const void *, const void *, void *, void *,
                                                lipsc_error *);
template lipsc_status Batch<StoreF16x3>::gradient(const void *, const void *, void *,
                                                  void *, lipsc_error *);
template lipsc_status Batch<StoreBF16x3>::gradient(const void *, const void *, void *,
                                                   void *, lipsc_error *);
