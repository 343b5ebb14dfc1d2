// spread.cu - how attention is spread at an input: the entropy of its rows, the sums of its
// columns, score by score and in double.  One block for a row or a column of a head.
#include "plain.cuh"

enum { THREADS = 128 };

typedef Plain<StoreF64> Scores;

// sum over the keys of p (s - max), p before it is divided by the row's sum
static __global__ void __launch_bounds__(THREADS)
    entropy_rows(Scores p, size_t first, double *entropy) {
    const int h = blockIdx.y;
    const size_t row = first + blockIdx.x, base = p.a.base[p.owner[row]];
    const size_t at = (size_t)h * p.a.padded + p.prow[row];
    const int i = (int)(row - base), lo = p.a.first[p.prow[row]],
              hi = p.a.last[p.prow[row]];
    const double largest = p.a.st.start[at], inverse = p.a.st.inverse[at];
    double mean = 0, slope;
    for (int j = lo + threadIdx.x; j < hi; j += THREADS) {
        const double t = score(p, h, base, i, j, slope) - largest, e = exp2(t);
        if (e != 0) mean += e * t; // a NaN stays
    }
    mean = block_sum<THREADS>(mean);
    if (threadIdx.x) return;
    if (p.sinks) { // one more key
        const double t = p.sinks[h] - largest, e = exp2(t);
        if (e != 0) mean += e * t;
    }
    entropy[(size_t)h * gridDim.x + blockIdx.x] =
        0.69314718055994530942 * (-log2(inverse) - mean * inverse);
}

static __global__ void __launch_bounds__(THREADS)
    column_sums(Scores p, size_t first, double *columns) {
    const int h = blockIdx.y;
    const size_t row = first + blockIdx.x, base = p.a.base[p.owner[row]];
    const int j = (int)(row - base), lo = p.key_first[p.prow[row]],
              hi = p.key_last[p.prow[row]];
    double sum = 0, slope;
    for (int i = lo + threadIdx.x; i < hi; i += THREADS) {
        const size_t at = (size_t)h * p.a.padded + p.prow[base + i];
        sum += exp2(score(p, h, base, i, j, slope) - p.a.st.start[at]) * p.a.st.inverse[at];
    }
    sum = block_sum<THREADS>(sum);
    if (!threadIdx.x) columns[(size_t)h * gridDim.x + blockIdx.x] = sum;
}

template <class S>
lipsc_status Batch<S>::spread(size_t, double *, double *, lipsc_error *err) {
    return fail(err, LIPSC_E_REFUSED, "how attention is spread is told in f64 only");
}

template <>
lipsc_status Batch<StoreF64>::spread(size_t input, double *entropy, double *columns,
                                     lipsc_error *err) {
    const size_t heads = w->dims.heads, count = heads * (size_t)n_host[input];
    const dim3 grid((unsigned)n_host[input], (unsigned)heads);
    const size_t start = (size_t)base_host[input];
    Memory temporary;
    temporary.device = device;
    double *found;
    PASS(temporary.get(&found, 2 * count, err));
    const Scores p = plain_of(this);
    entropy_rows<<<grid, THREADS, 0, device->stream()>>>(p, start, found);
    column_sums<<<grid, THREADS, 0, device->stream()>>>(p, start, found + count);
    TRY(cudaGetLastError(), "the spread of attention");
    PASS(fetch(device, count * sizeof *found, found, entropy, err));
    return fetch(device, count * sizeof *found, found + count, columns, err);
}

template lipsc_status Batch<StoreF16>::spread(size_t, double *, double *, lipsc_error *);
template lipsc_status Batch<StoreF16x3>::spread(size_t, double *, double *, lipsc_error *);
template lipsc_status Batch<StoreBF16x3>::spread(size_t, double *, double *, lipsc_error *);
