// row_numbers.cu - one number for each row and head: shifts, means, outputs; and what
// columns gather of all rows.
#include "stages.cuh"

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

#define PER_ROW(name, kernel, count_)                                                    \
    const size_t count = (count_)*b->w->dims.heads;                                      \
    TRY(launch_following(b->device->follows, kernel<S>, blocks_for(count *OCTET, BLOCK), \
                         BLOCK, 0, b->device->stream(), places(b), count),               \
        name);                                                                           \
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

#define INSTANCE(S)                                                                  \
    template lipsc_status shift_of_rows<S>(const Batch<S> *, size_t, lipsc_error *); \
    template lipsc_status means_of_rows<S>(const Batch<S> *, size_t, lipsc_error *); \
    template lipsc_status head_output<S>(const Batch<S> *, lipsc_error *);           \
    template lipsc_status ones<S>(const Batch<S> *, lipsc_error *);                  \
    template lipsc_status masses<S>(const Batch<S> *, double, double, int *, lipsc_error *);
INSTANCE(StoreF16) INSTANCE(StoreF16x3) INSTANCE(StoreBF16x3) INSTANCE(StoreF64)
