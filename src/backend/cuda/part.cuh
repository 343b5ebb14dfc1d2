// part.cuh - what the files of a shared input have in common: columns of some key heads,
// and what travels between the ranks.
#ifndef LIPSC_CUDA_PART_CUH
#define LIPSC_CUDA_PART_CUH

#include "internal.h"

#include <algorithm>

enum { THREADS = 256 };

inline unsigned blocks_for(size_t count, size_t each) {
    return (unsigned)((count + each - 1) / each);
}
#define LAUNCHED(what) TRY(cudaGetLastError(), what)

// Columns of keys, then of values, of heads g .. g + count - 1: where they begin among the
// C of a token.
struct Some {
    size_t g, count;
    size_t key, value, each; // each: of the keys
};
template <class S> Some some_at(const Batch<S> *b, size_t g) {
    const Dims &m = b->w->dims;
    const size_t count = std::min(b->part->some, m.kv - g);
    return {g, count, (m.heads + g) * m.W, m.turned + g * m.W, count * m.W};
}
DEV size_t column_of(const Some &s, size_t c) {
    return c < s.each ? s.key + c : s.value + c - s.each;
}

// Own rows of everybody, `row` bytes each, into rows of all.
lipsc_status gather(lipsc_cuda_batch *b, size_t row, const void *own, void *all,
                    lipsc_error *err);
// Keys and values, or their directions, of everybody.
template <class S>
lipsc_status gather_heads(Batch<S> *b, const Some &s, const typename S::T *from, void *to,
                          lipsc_error *err);
// Own rows of dqkv = the sums of what everybody has found for keys and values.
template <class S> lipsc_status reduce_heads(Batch<S> *b, const Some &s, lipsc_error *err);

#endif
