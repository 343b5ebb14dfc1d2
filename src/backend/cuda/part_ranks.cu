// part_ranks.cu - between ranks that share an input: keys, values and directions of all,
// and sums of what each has found (travel.h).
#include "part.cuh"
#include "travel.h"

template <class T>
static __global__ void pack(size_t count, Some s, size_t C, const T *from, T *to) {
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x, L = 2 * s.each;
    if (i < count) to[i] = from[i / L * C + column_of(s, i % L)];
}
template <class S>
static __global__ void widen(size_t count, size_t L, const typename S::T *from,
                             typename S::Acc *to) {
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) to[i] = S::get(from + i / L * L * S::PL + i % L, L);
}
template <class Acc>
static __global__ void add_rows(size_t count, const Acc *part, Acc *sum) {
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) sum[i] += part[i];
}
template <class S>
static __global__ void unpack(size_t count, Some s, size_t C, const typename S::Acc *from,
                              typename S::T *to) {
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x, L = 2 * s.each;
    if (i < count) S::put(to + i / L * C * S::PL + column_of(s, i % L), C, from[i]);
}

// ---- Between the ranks
// ----------------------------------------------------------------------------

static lipsc_status queue_copy(void *ctx, size_t bytes, const void *from, void *to,
                               lipsc_error *err) {
    const lipsc_cuda_batch *b = (const lipsc_cuda_batch *)ctx;
    TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, b->device->stream()),
        "rows of the ranks");
    return LIPSC_OK;
}
static lipsc_status wait(void *ctx, lipsc_error *err) {
    const lipsc_cuda_batch *b = (const lipsc_cuda_batch *)ctx;
    TRY(cudaStreamSynchronize(b->device->stream()), "rows for the other ranks");
    return LIPSC_OK;
}
static lipsc_travel travel_of(lipsc_cuda_batch *b) {
    const Part &p = *b->part;
    return {&p.share, p.room_own, p.room_all, p.room_parts, queue_copy, wait, b};
}
// Who says nothing has not reached the others.
static lipsc_status travelled(lipsc_status status, lipsc_error *err) {
    if (status && err && !*err->text)
        return fail(err, status, "the other ranks are out of reach");
    return status;
}

lipsc_status gather(lipsc_cuda_batch *b, size_t row, const void *own, void *all,
                    lipsc_error *err) {
    const lipsc_travel t = travel_of(b);
    if (err) *err->text = 0;
    return travelled(lipsc_travel_gather(&t, row, own, all, err), err);
}

// Keys and values, or their directions, of everybody.
template <class S>
lipsc_status gather_heads(Batch<S> *b, const Some &s, const typename S::T *from, void *to,
                          lipsc_error *err) {
    typedef typename S::T T;
    const size_t L = 2 * s.each, count = b->tokens * S::PL * L;
    if (count)
        pack<T><<<blocks_for(count, THREADS), THREADS, 0, b->device->stream()>>>(
            count, s, b->w->dims.C, from, (T *)b->part->packed);
    LAUNCHED("rows for the other ranks");
    return gather(b, L * S::PL * sizeof(T), b->part->packed, to, err);
}

// sums (own rows) = what everybody has found for them, in the order of the ranks
template <class Acc>
static lipsc_status add_parts(lipsc_cuda_batch *b, size_t own, lipsc_error *err) {
    const Part &p = *b->part;
    const cudaStream_t stream = b->device->stream();
    for (size_t r = 0; r < p.share.ranks && own; r++) {
        const Acc *part = (const Acc *)p.room_parts + r * own;
        if (!r || !p.share.direct)
            PASS(queue_copy(b, own * sizeof(Acc), part, r ? p.packed : p.sums, err));
        if (!r) continue;
        add_rows<Acc><<<blocks_for(own, THREADS), THREADS, 0, stream>>>(
            own, p.share.direct ? part : (const Acc *)p.packed, (Acc *)p.sums);
        LAUNCHED("sums of the other ranks");
    }
    return LIPSC_OK;
}

// Own rows of dqkv = the sums of what everybody has found for keys and values.
template <class S> lipsc_status reduce_heads(Batch<S> *b, const Some &s, lipsc_error *err) {
    typedef typename S::Acc Acc;
    const Part &p = *b->part;
    const lipsc_share &share = p.share;
    const size_t L = 2 * s.each, all = share.n * L, own = share.own * L;
    const size_t row = L * sizeof(Acc);
    const cudaStream_t stream = b->device->stream();
    if (p.sums != p.all_dkv)
        widen<S><<<blocks_for(all, THREADS), THREADS, 0, stream>>>(
            all, L, (const typename S::T *)p.all_dkv, (Acc *)p.sums);
    const lipsc_travel t = travel_of(b);
    if (err) *err->text = 0;
    PASS(travelled(lipsc_travel_exchange(&t, row, p.sums, err), err));
    PASS(add_parts<Acc>(b, own, err));
    if (own)
        unpack<S><<<blocks_for(own, THREADS), THREADS, 0, stream>>>(
            own, s, b->w->dims.C, (const Acc *)p.sums, b->dqkv);
    LAUNCHED("sums of the other ranks");
    return LIPSC_OK;
}

lipsc_status longest_of_ranks(lipsc_cuda_batch *b, int *longest, lipsc_error *err) {
    const lipsc_share &s = b->part->share;
    int bits = 0;
    PASS(s.agree(s.ctx, fetch(b->device, sizeof bits, longest, &bits, err), err));
    bits = (int)s.largest(s.ctx, (double)bits);
    return send(b->device, sizeof bits, &bits, longest, err);
}

#define INSTANCE(S)                                                                       \
    template lipsc_status gather_heads<S>(Batch<S> *, const Some &, const S::T *, void *, \
                                          lipsc_error *);                                 \
    template lipsc_status reduce_heads<S>(Batch<S> *, const Some &, lipsc_error *);
INSTANCE(StoreF16) INSTANCE(StoreF16x3) INSTANCE(StoreBF16x3) INSTANCE(StoreF64)
