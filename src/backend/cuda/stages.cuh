// stages.cuh - what the files that work on single rows share: their blocks of threads, sums
// of a warp, accesses of 16 bytes.
#ifndef LIPSC_CUDA_STAGES_CUH
#define LIPSC_CUDA_STAGES_CUH

#include "internal.h"

enum { LANES = 32, WARPS = 8, BLOCK = LANES * WARPS };

inline unsigned blocks_for(size_t rows, size_t each) {
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
template <class N>
DEV void put4(StoreX3<N>, typename N::T *p, size_t plane, const float *v) {
    uint32_t h[2], l[2];
#pragma unroll
    for (int i = 0; i < 2; i++) X3<N, 32>::split(h[i], l[i], v[2 * i], v[2 * i + 1]);
    *(uint2 *)p = make_uint2(h[0], h[1]);
    *(uint2 *)(p + plane) = make_uint2(l[0], l[1]);
}
DEV void put4(StoreF64, double *p, size_t, const double *v) { store4(p, v); }

template <class N> DEV void halves8(const typename N::T *p, float *v) {
    const uint4 x = *(const uint4 *)p;
    const uint32_t w[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 f = N::unpack(w[i]);
        v[2 * i] = f.x, v[2 * i + 1] = f.y;
    }
}
DEV void get8(StoreF16, const __half *p, size_t, float *v) { halves8<Half>(p, v); }
template <class N>
DEV void get8(StoreX3<N>, const typename N::T *p, size_t plane, float *v) {
    float low[8];
    halves8<N>(p, v);
    halves8<N>(p + plane, low);
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] += low[i];
}
DEV void get8(StoreF64, const double *p, size_t, double *v) {
    load4(p, v);
    load4(p + 4, v + 4);
}

#endif
