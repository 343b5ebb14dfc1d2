// vectors.cu - sums and combinations of a batch's vectors, each input for itself.  Sums are
// made in double over fixed pieces of an input and added in fixed order: the bits depend
// neither on timing nor on the other inputs.
#include "internal.h"

enum { THREADS = 256, EACH = 16, PIECE = THREADS * EACH };

struct Segments {
    const int *base, *n;
    size_t tokens, width; // elements of a row
};

DEV double warp_sum(double v) {
#pragma unroll
    for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
    return v;
}

// partial (inputs, pieces, kb, ka): sums of one piece
template <class V>
static __global__ void __launch_bounds__(THREADS)
    gram_pieces(Segments s, size_t pieces, int ka, const V *a, int kb, const V *b,
                double *partial) {
    __shared__ double sums[THREADS / 32];
    const size_t input = blockIdx.y, piece = blockIdx.x, len = s.tokens * s.width;
    const size_t count = s.n[input] * s.width, first = piece * PIECE;
    if (first >= count) return;
    const size_t at = s.base[input] * s.width + first;
    const int left = (int)min(count - first, (size_t)PIECE);
    double *out = partial + (input * pieces + piece) * ka * kb;
    for (int j = 0; j < kb; j++) {
        double x[EACH];
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int i = e * THREADS + threadIdx.x;
            x[e] = i < left ? (double)b[j * len + at + i] : 0.0;
        }
        for (int l = 0; l < ka; l++) {
            double sum = 0;
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                const int i = e * THREADS + threadIdx.x;
                if (i < left) sum += (double)a[l * len + at + i] * x[e];
            }
            sum = warp_sum(sum);
            if ((threadIdx.x & 31) == 0) sums[threadIdx.x >> 5] = sum;
            __syncthreads();
            if (threadIdx.x == 0) {
                double all = 0;
                for (int w = 0; w < THREADS / 32; w++) all += sums[w];
                out[j * ka + l] = all;
            }
            __syncthreads();
        }
    }
}

static __global__ void __launch_bounds__(THREADS)
    gram_total(Segments s, size_t pieces, int count, const double *partial, double *c) {
    __shared__ double sums[THREADS];
    const size_t input = blockIdx.y, which = blockIdx.x;
    const size_t mine = ((size_t)s.n[input] * s.width + PIECE - 1) / PIECE;
    double sum = 0;
    for (size_t p = threadIdx.x; p < mine; p += THREADS)
        sum += partial[(input * pieces + p) * count + which];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int d = THREADS / 2; d; d >>= 1) {
        if (threadIdx.x < d) sums[threadIdx.x] += sums[threadIdx.x + d];
        __syncthreads();
    }
    if (threadIdx.x == 0) c[input * count + which] = sums[0];
}

static Segments segments(const lipsc_cuda_batch *b, int side) {
    return {b->base, b->n, b->tokens, side ? b->width : b->d};
}
static size_t most_pieces(const lipsc_cuda_batch *b, const Segments &s) {
    int longest = 0;
    for (int n : b->n_host) longest = n > longest ? n : longest;
    return ((size_t)longest * s.width + PIECE - 1) / PIECE;
}

// Sums of each input in two steps; partial has room for inputs * pieces * ka * kb.
static lipsc_status sum_up(cudaStream_t stream, bool wide, const Segments &s, size_t inputs,
                           size_t pieces, size_t ka, const void *a, size_t kb,
                           const void *x, double *partial, double *c, lipsc_error *err) {
    const dim3 grid((unsigned)pieces, (unsigned)inputs);
    BY_WIDTH(wide, (gram_pieces<V><<<grid, THREADS, 0, stream>>>(
                       s, pieces, (int)ka, (const V *)a, (int)kb, (const V *)x, partial)));
    gram_total<<<dim3((unsigned)(ka * kb), (unsigned)inputs), THREADS, 0, stream>>>(
        s, pieces, (int)(ka * kb), partial, c);
    TRY(cudaGetLastError(), "dot products");
    return LIPSC_OK;
}

lipsc_status gram(lipsc_cuda_batch *b, int side, size_t ka, const void *a, size_t kb,
                  const void *x, double *c, lipsc_error *err) {
    if (!ka || !kb) return LIPSC_OK;
    const Segments s = segments(b, side);
    const size_t pieces = most_pieces(b, s), need = b->inputs * pieces * ka * kb;
    if (need > b->partial_count) {
        if (b->partial) b->memory.give(b->partial);
        b->partial = nullptr;
        PASS(b->memory.get(&b->partial, need, err));
        b->partial_count = need;
    }
    return sum_up(b->device->stream(), b->wide, s, b->inputs, pieces, ka, a, kb, x,
                  b->partial, c, err);
}

// A vector of any length is one input of one row.
static Segments whole(const lipsc_cuda_device *device, size_t len) {
    const int *zero = (const int *)((const char *)device->constants + 2 * sizeof(float) +
                                    2 * sizeof(double));
    return {zero, zero + 1, 1, len};
}

size_t dots_scratch(size_t len, size_t ka, size_t kb) {
    return (len + PIECE - 1) / PIECE * ka * kb;
}

lipsc_status dots_queued(lipsc_cuda_device *device, int wide, size_t len, size_t ka,
                         const void *a, size_t kb, const void *b, double *partial,
                         double *c, lipsc_error *err) {
    return sum_up(device->stream(), wide != 0, whole(device, len), 1,
                  (len + PIECE - 1) / PIECE, ka, a, kb, b, partial, c, err);
}

template <class V>
static __global__ void combine_rows(Segments s, int ka, const V *a, int kb, const double *c,
                                    int add, V *b) {
    const size_t input = blockIdx.y, len = s.tokens * s.width, count = s.n[input] * s.width;
    const size_t at = s.base[input] * s.width;
    const double *mine = c + input * ka * kb;
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < count;
         i += (size_t)gridDim.x * THREADS)
        for (int j = 0; j < kb; j++) {
            double sum = add ? (double)b[j * len + at + i] : 0.0;
            for (int l = 0; l < ka; l++)
                sum += mine[j * ka + l] * (double)a[l * len + at + i];
            b[j * len + at + i] = (V)sum;
        }
}

lipsc_status combine(lipsc_cuda_batch *b, int side, size_t ka, const void *a, size_t kb,
                     const double *c, double beta, void *x, lipsc_error *err) {
    if (beta != 0 && beta != 1)
        return fail(err, LIPSC_E_ARG, "beta = %g is neither 0 nor 1", beta);
    if (!kb) return LIPSC_OK;
    const Segments s = segments(b, side);
    const size_t pieces = most_pieces(b, s);
    const dim3 grid((unsigned)(pieces < 4096 ? pieces * 4 : 16384), (unsigned)b->inputs);
    if (b->wide)
        combine_rows<double><<<grid, THREADS, 0, b->device->stream()>>>(
            s, (int)ka, (const double *)a, (int)kb, c, beta == 1, (double *)x);
    else
        combine_rows<float><<<grid, THREADS, 0, b->device->stream()>>>(
            s, (int)ka, (const float *)a, (int)kb, c, beta == 1, (float *)x);
    TRY(cudaGetLastError(), "combinations of vectors");
    return LIPSC_OK;
}

lipsc_status mix_queued(lipsc_cuda_device *device, int wide, size_t len, size_t ka,
                        const void *a, size_t kb, const double *c, int add, void *b,
                        lipsc_error *err) {
    const size_t pieces = (len + PIECE - 1) / PIECE;
    const dim3 grid((unsigned)(pieces < 4096 ? pieces * 4 : 16384));
    const Segments s = whole(device, len);
    BY_WIDTH(wide, (combine_rows<V><<<grid, THREADS, 0, device->stream()>>>(
                       s, (int)ka, (const V *)a, (int)kb, c, add, (V *)b)));
    TRY(cudaGetLastError(), "combinations of vectors");
    return LIPSC_OK;
}

template <class V>
static __global__ void scale_rows(Segments s, const double *factor, int invert, V *x) {
    const size_t input = blockIdx.y, count = s.n[input] * s.width,
                 at = s.base[input] * s.width;
    double f = factor[input];
    if (invert) f = f > 0 ? 1 / sqrt(f) : f == f ? 0.0 : f;
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < count;
         i += (size_t)gridDim.x * THREADS)
        x[at + i] = (V)(f * (double)x[at + i]);
}

lipsc_status scale(lipsc_cuda_batch *b, int side, const double *factor, int invert, void *x,
                   lipsc_error *err) {
    const Segments s = segments(b, side);
    const size_t pieces = most_pieces(b, s);
    const dim3 grid((unsigned)(pieces < 4096 ? pieces * 4 : 16384), (unsigned)b->inputs);
    if (b->wide)
        scale_rows<double>
            <<<grid, THREADS, 0, b->device->stream()>>>(s, factor, invert, (double *)x);
    else
        scale_rows<float>
            <<<grid, THREADS, 0, b->device->stream()>>>(s, factor, invert, (float *)x);
    TRY(cudaGetLastError(), "scaling vectors");
    return LIPSC_OK;
}

// ---- Several at once
// -----------------------------------------------------------------------------

size_t pieces_of(size_t len) { return (len + PIECE - 1) / PIECE; }

template <class V>
static __global__ void __launch_bounds__(THREADS)
    pieces_of_sums(const Sum *table, double *partial) {
    const Sum s = table[blockIdx.y];
    __shared__ double sums[THREADS / 32];
    const size_t first = (size_t)blockIdx.x * PIECE;
    if (first >= s.len) return;
    const V *a = (const V *)s.a + first, *b = (const V *)s.b + first;
    const int left = (int)min(s.len - first, (size_t)PIECE);
    double *out = partial + s.partial + (size_t)blockIdx.x * s.ka * s.kb;
    for (int j = 0; j < s.kb; j++) {
        double x[EACH];
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int i = e * THREADS + threadIdx.x;
            x[e] = i < left ? (double)b[j * s.len + i] : 0.0;
        }
        for (int l = 0; l < s.ka; l++) {
            double sum = 0;
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                const int i = e * THREADS + threadIdx.x;
                if (i < left) sum += (double)a[l * s.len + i] * x[e];
            }
            sum = warp_sum(sum);
            if ((threadIdx.x & 31) == 0) sums[threadIdx.x >> 5] = sum;
            __syncthreads();
            if (threadIdx.x == 0) {
                double all = 0;
                for (int w = 0; w < THREADS / 32; w++) all += sums[w];
                out[j * s.ka + l] = all;
            }
            __syncthreads();
        }
    }
}

static __global__ void __launch_bounds__(THREADS)
    totals_of_sums(const Sum *table, const double *partial, double *c) {
    __shared__ double sums[THREADS];
    const Sum s = table[blockIdx.y];
    const int count = s.ka * s.kb, which = blockIdx.x;
    if (which >= count) return;
    const size_t mine = (s.len + PIECE - 1) / PIECE;
    double sum = 0;
    for (size_t p = threadIdx.x; p < mine; p += THREADS)
        sum += partial[s.partial + p * count + which];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int d = THREADS / 2; d; d >>= 1) {
        if (threadIdx.x < d) sums[threadIdx.x] += sums[threadIdx.x + d];
        __syncthreads();
    }
    if (threadIdx.x == 0) c[s.out + which] = sums[0];
}

// most: sums of one of them; pieces: of the longest
lipsc_status sums_queued(lipsc_cuda_device *device, int wide, size_t count, size_t pieces,
                         size_t most, const Sum *sum, double *partial, double *c,
                         lipsc_error *err) {
    const dim3 grid((unsigned)pieces, (unsigned)count);
    BY_WIDTH(wide,
             (pieces_of_sums<V><<<grid, THREADS, 0, device->stream()>>>(sum, partial)));
    totals_of_sums<<<dim3((unsigned)most, (unsigned)count), THREADS, 0, device->stream()>>>(
        sum, partial, c);
    TRY(cudaGetLastError(), "dot products");
    return LIPSC_OK;
}

template <class V> static __global__ void mix_table(const Mixture *table, const double *c) {
    const Mixture m = table[blockIdx.y];
    const V *a = (const V *)m.a;
    V *b = (V *)m.b;
    const double *mine = c + m.c;
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < m.len;
         i += (size_t)gridDim.x * THREADS)
        for (int j = 0; j < m.kb; j++) {
            double sum = m.add ? (double)b[j * m.len + i] : 0.0;
            for (int l = 0; l < m.ka; l++)
                sum += mine[j * m.ka + l] * (double)a[l * m.len + i];
            b[j * m.len + i] = (V)sum;
        }
}

lipsc_status mixtures_queued(lipsc_cuda_device *device, int wide, size_t count,
                             size_t pieces, const Mixture *mixture, const double *c,
                             lipsc_error *err) {
    const dim3 grid((unsigned)(pieces < 4096 ? pieces * 4 : 16384), (unsigned)count);
    BY_WIDTH(wide, (mix_table<V><<<grid, THREADS, 0, device->stream()>>>(mixture, c)));
    TRY(cudaGetLastError(), "combinations of vectors");
    return LIPSC_OK;
}
