// wgmma.cuh - Hopper's instructions that the kernels of wgmma.cu are made of: products of a
// warpgroup, barriers in shared memory, the bulk copy engine and the maps that it reads.
#ifndef LIPSC_CUDA_WGMMA_CUH
#define LIPSC_CUDA_WGMMA_CUH

#include "mma.cuh"

#include <cudaTypedefs.h>

#define R4(c, i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define R32(c) \
    R4(c, 0), R4(c, 4), R4(c, 8), R4(c, 12), R4(c, 16), R4(c, 20), R4(c, 24), R4(c, 28)
#define SUMS                                                                               \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%" \
    "23,"                                                                                  \
    "%24,%25,%26,%27,%28,%29,%30,%31}"

// c (64 x 64) += a b: a in registers or shared memory, b in shared memory, TB: b
// transposed; without ADD c = a b
template <int TB, int ADD = 1>
DEV void wg_rs(float (&c)[32], const uint32_t *a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " SUMS
                 ",{%32,%33,%34,%35},%36,%38,1,1,%37;\n"
                 : R32(c)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(TB), "n"(ADD));
}
template <int TB, int ADD = 1> DEV void wg_ss(float (&c)[32], uint64_t a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " SUMS
                 ",%32,%33,%35,1,1,0,%34;\n"
                 : R32(c)
                 : "l"(a), "l"(b), "n"(TB), "n"(ADD));
}
DEV void wg_fence() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
DEV void wg_commit() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
template <int N> DEV void wg_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(N) : "memory");
}
// keeps the compiler from moving registers of a product that is under way
DEV void pin(float (&c)[32]) {
#pragma unroll
    for (int i = 0; i < 32; i++) asm volatile("" : "+f"(c[i])::"memory");
}
DEV void pin(uint32_t (&c)[16]) {
#pragma unroll
    for (int i = 0; i < 16; i++) asm volatile("" : "+r"(c[i])::"memory");
}
// a tile of 64 x 64 halves in rows of 128 bytes, swizzled by the copy engine
DEV uint64_t describe(uint32_t at) {
    return (uint64_t)1 << 62 | (uint64_t)64 << 32 | (uint64_t)1 << 16 | (at >> 4);
}

DEV void barrier_init(uint32_t b, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b), "r"(count));
}
DEV void barrier_expect(uint32_t b, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b),
                 "r"(bytes)
                 : "memory");
}
DEV void barrier_arrive(uint32_t b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(b) : "memory");
}
DEV void barrier_wait(uint32_t b, int parity) {
    asm volatile(
        "{\n.reg .pred p;\nLW_%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], "
        "%1;\n@p bra LD_%=;\nbra LW_%=;\nLD_%=:\n}\n" ::"r"(b),
        "r"(parity)
        : "memory");
}
DEV void copy_tile(uint32_t to, const CUtensorMap *m, int x, int y, uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
        "l"(m), "r"(x), "r"(y), "r"(barrier)
        : "memory");
}
DEV void copy_bulk(uint32_t to, const void *from, int bytes, uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
        "%2, [%3];" ::"r"(to),
        "l"(from), "r"(bytes), "r"(barrier)
        : "memory");
}
DEV void pair_sync(int id) { asm volatile("bar.sync %0, 256;" ::"r"(id) : "memory"); }
DEV void pair_arrive(int id) { asm volatile("bar.arrive %0, 256;" ::"r"(id) : "memory"); }

// The map of rows x cols halves, in boxes of 64 x 64
static cudaError_t encode(const void *p, size_t rows, size_t cols, CUtensorMap *map) {
    static PFN_cuTensorMapEncodeTiled_v12000 encoder = nullptr;
    if (!encoder) {
        cudaDriverEntryPointQueryResult found;
        void *f = nullptr;
        const cudaError_t e = cudaGetDriverEntryPointByVersion(
            "cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault, &found);
        if (e != cudaSuccess) return e;
        if (!f) return cudaErrorNotSupported;
        encoder = (PFN_cuTensorMapEncodeTiled_v12000)f;
    }
    const cuuint64_t dim[2] = {cols, rows}, stride[1] = {cols * 2};
    const cuuint32_t box[2] = {64, 64}, step[2] = {1, 1};
    const CUresult r =
        encoder(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, (void *)p, dim, stride, box, step,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return r == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

#endif
