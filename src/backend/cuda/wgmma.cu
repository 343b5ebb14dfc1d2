// wgmma.cu - the three products of core.cuh in f16 by Hopper's warpgroup instructions:
// heads of 64, tiles of 64 keys by the bulk copy engine.  Scores without biases and soft
// caps; the rest goes to the portable kernels.
#include "internal.h"

extern const Kernels<StoreF16> kernels_F16_64;

#if defined(LIPSC_NO_WGMMA)
const Kernels<StoreF16> *kernels_wgmma(void) { return NULL; }
#else

#include "wgmma.cuh"

#include <cudaTypedefs.h>

typedef F16<64> P;
typedef P::T T;
enum { TILE_BYTES = 64 * 64 * 2 };

// ---- The kernel
// ------------------------------------------------------------------------------

// STAGES of tiles; GROUPS of 64 rows, one warpgroup each; BLOCKS per multiprocessor; STILL:
// the stationary operands (bit 0 the first, bit 1 the second) stay in shared memory, else
// in registers; OVERLAP: scores of the next tile are issued before the update of this one,
// and two warpgroups then issue in turn.  (ptxas 13.0.88 miscompiles STILL = 0 without
// OVERLAP: it keeps packed P in the registers of the stationary operand.)
template <int MODE_> struct Plan;
template <> struct Plan<JVP> {
    static constexpr int STAGES = 2, GROUPS = 1, BLOCKS = 3, STILL = 2, OVERLAP = 0;
};
template <> struct Plan<GQ> {
    static constexpr int STAGES = 3, GROUPS = 1, BLOCKS = 3, STILL = 3, OVERLAP = 0;
};
template <> struct Plan<GKV> {
    static constexpr int STAGES = 2, GROUPS = 1, BLOCKS = 3, STILL = 3, OVERLAP = 0;
};
template <int MODE> struct Sizes : Plan<MODE> {
    typedef Plan<MODE> B;
    static constexpr int STREAMS = MODE == JVP ? 4 : 2, STAGE = STREAMS * TILE_BYTES,
                         ROWS = 64 * B::GROUPS,
                         KEPT = TILE_BYTES * ((B::STILL & 1) + (B::STILL >> 1)),
                         STATIONARY = B::GROUPS * KEPT,
                         COLUMNS = keys_are_rows(MODE) ? 512 : 0,
                         SHARED = STATIONARY + B::STAGES * (STAGE + COLUMNS) +
                                  16 * B::STAGES + 8 + 1024;
};

template <int MODE>
__global__ void __launch_bounds__(Sizes<MODE>::GROUPS * 128, Sizes<MODE>::BLOCKS)
    wg_core(const __grid_constant__ Args<StoreF16> a,
            const __grid_constant__ CUtensorMap map_a,
            const __grid_constant__ CUtensorMap map_b) {
    typedef Sizes<MODE> C;
    constexpr bool KEYS = keys_are_rows(MODE), TURNS = C::OVERLAP && C::GROUPS == 2;
    constexpr int STAGES = C::STAGES, STILL = C::STILL;
    extern __shared__ unsigned char raw[];
    const uint32_t kept = (shared_address(raw) + 1023) & ~1023u,
                   tiles_at = kept + C::STATIONARY;
    const uint32_t stats = tiles_at + STAGES * C::STAGE, full = stats + STAGES * C::COLUMNS;
    const uint32_t empty = full + 8 * STAGES, still_bar = empty + 8 * STAGES;
    const int lane = threadIdx.x & 31, warp = (threadIdx.x >> 5) & 3, wg = threadIdx.x >> 7;
    const int g = lane >> 2, t = lane & 3;

    follow();
    // which block this is
    const int row_heads = KEYS ? a.kv : a.heads, inner = row_heads * a.dirs;
    const int task = a.head_major ? blockIdx.x % a.ntasks : blockIdx.x / inner;
    const int rest = a.head_major ? blockIdx.x / a.ntasks : blockIdx.x % inner;
    const int head = rest % row_heads, dir = rest / row_heads;
    const int input = a.tasks[task].input, r0 = a.tasks[task].row;
    if (a.active && !a.active[input]) return;
    const int n = a.n[input];
    const size_t base = a.base[input], pad = a.pad[input];
    const int share = a.heads / a.kv, other = KEYS ? head * share : head / share;
    const int dir_row = (int)(dir * a.o1.rows); // of the operands that have directions

    // columns that this block, its warpgroup and this thread's two rows see
    const int *first = a.first + pad, *last = a.last + pad;
    const int r_end = min(r0 + C::ROWS, n), wr = r0 + 64 * wg, w_end = min(wr + 64, n);
    const bool rows_here = wr < n;
    const int tile0 = first[r0] / 64, tiles = (last[r_end - 1] + 63) / 64 - tile0;
    const int total = tiles * (KEYS ? share : 1);
    const int all_from = rows_here ? first[w_end - 1] : 0,
              all_to = rows_here ? last[wr] : 0;
    const int row = wr + 16 * warp + g; // and row + 8
    int lo[2], hi[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        lo[h] = row + 8 * h < n ? first[row + 8 * h] : 0;
        hi[h] = row + 8 * h < n ? last[row + 8 * h] : 0;
    }
    // columns of the maps
    const int q_col = 0, k_col = a.heads * 64, v_col = k_col + a.kv * 64;

    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(full + 8 * i, 1);
            barrier_init(empty + 8 * i, 128 * C::GROUPS);
        }
        barrier_init(still_bar, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    auto column0 = [&](int k) { return (tile0 + (KEYS ? k % tiles : k)) * 64; };
    auto fetch = [&](int k) {
        const int s = k % STAGES, h = other + (KEYS ? k / tiles : 0);
        const uint32_t to = tiles_at + s * C::STAGE, bar = full + 8 * s;
        const int c0 = column0(k), y = (int)base + c0;
        barrier_expect(bar, C::STAGE + C::COLUMNS);
        if (MODE == JVP) {
            copy_tile(to, &map_a, k_col + h * 64, y, bar);
            copy_tile(to + TILE_BYTES, &map_b, k_col + h * 64, dir_row + y, bar);
            copy_tile(to + 2 * TILE_BYTES, &map_a, v_col + h * 64, y, bar);
            copy_tile(to + 3 * TILE_BYTES, &map_b, v_col + h * 64, dir_row + y, bar);
        } else if (MODE == GQ) {
            copy_tile(to, &map_a, k_col + h * 64, y, bar);
            copy_tile(to + TILE_BYTES, &map_a, v_col + h * 64, y, bar);
        } else {
            const size_t at = h * a.padded + pad + c0;
            const size_t slot = ((size_t)dir * a.heads + h) * a.padded + pad + c0;
            copy_tile(to, &map_a, q_col + h * 64, y, bar);
            copy_tile(to + TILE_BYTES, &map_b, h * 64, dir_row + y, bar);
            copy_bulk(stats + s * 512, a.st.start + at, 256, bar);
            copy_bulk(stats + s * 512 + 256, a.st.shift + slot, 256, bar);
        }
    };
    if (threadIdx.x == 0) {
        if (STILL) {
            barrier_expect(still_bar, C::STATIONARY);
            for (int w = 0; w < C::GROUPS; w++) {
                const int y = (int)base + r0 + 64 * w;
                const uint32_t to = kept + w * C::KEPT;
                if (STILL & 1)
                    copy_tile(to, &map_a, (KEYS ? k_col : q_col) + head * 64, y, still_bar);
                if (STILL & 2)
                    copy_tile(to + C::KEPT - TILE_BYTES, KEYS ? &map_a : &map_b,
                              (KEYS ? v_col : 0) + head * 64, KEYS ? y : dir_row + y,
                              still_bar);
            }
        }
        for (int k = 0; k < total && k < STAGES; k++) fetch(k);
    }
    uint32_t q1[16], q2[16];
    const uint64_t e1 = describe(kept + wg * C::KEPT);
    const uint64_t e2 = describe(kept + wg * C::KEPT + C::KEPT - TILE_BYTES);
    {
        // rows behind the end are read from the last one: they are not written
        const size_t ra = base + min(row, n - 1), rb = base + min(row + 8, n - 1);
        const T *p1[2] = {a.s1.p + ra * a.s1.ld + head * 64 + 2 * t,
                          a.s1.p + rb * a.s1.ld + head * 64 + 2 * t};
        const T *p2[2] = {a.s2.p + (dir * a.s2.rows + ra) * a.s2.ld + head * 64 + 2 * t,
                          a.s2.p + (dir * a.s2.rows + rb) * a.s2.ld + head * 64 + 2 * t};
#pragma unroll
        for (int ks = 0; ks < 4; ks++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                if (!(STILL & 1))
                    q1[4 * ks + i] =
                        *(const uint32_t *)(p1[i & 1] + 16 * ks + (i >> 1) * 8);
                if (!(STILL & 2))
                    q2[4 * ks + i] =
                        *(const uint32_t *)(p2[i & 1] + 16 * ks + (i >> 1) * 8);
            }
        if (!(STILL & 1)) pin(q1);
        if (!(STILL & 2)) pin(q2);
    }
    float rl[2] = {}, rx[2] = {}, rs[2] = {};
    if (!KEYS)
        for (int h = 0; h < 2; h++) {
            rl[h] = a.st.start[head * a.padded + pad + row + 8 * h];
            rx[h] =
                a.st.shift[((size_t)dir * a.heads + head) * a.padded + pad + row + 8 * h];
        }
    float S[32], X[32], acc[32], acc2[KEYS ? 32 : 1];
    uint32_t pf[16], uf[16];
#pragma unroll
    for (int i = 0; i < 32; i++) {
        acc[i] = 0;
        if (KEYS) acc2[KEYS ? i : 0] = 0;
    }

    auto start = [&](int k) { // start values of S and X
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float l[2] = {rl[0], rl[1]}, d[2] = {rx[0], rx[1]};
            if (KEYS) {
                const uint32_t p = stats + (k % STAGES) * 512 + (8 * j + 2 * t) * 4;
                load_pair(l[0], l[1], p);
                load_pair(d[0], d[1], p + 256);
            }
#pragma unroll
            for (int e = 0; e < 4; e++) {
                S[4 * j + e] = l[KEYS ? e & 1 : e >> 1];
                X[4 * j + e] = d[KEYS ? e & 1 : e >> 1];
            }
        }
        pin(S);
        pin(X);
    };
    // the tile behind full barrier k; rows behind the input's end are another input's:
    // zeros
    auto arrived = [&](int k) {
        barrier_wait(full + 8 * (k % STAGES), (k / STAGES) & 1);
        const int left = n - column0(k);
        if (left < 64) {
            const uint32_t s = tiles_at + (k % STAGES) * C::STAGE;
            for (int i = threadIdx.x & 127; i < (64 - left) * 8 * C::STREAMS; i += 128) {
                const int chunk = i % 8, r = left + i / 8 % (64 - left),
                          m = i / 8 / (64 - left);
                asm volatile("st.shared.v4.b32 [%0], {%1,%1,%1,%1};" ::"r"(
                                 s + m * TILE_BYTES + r * 128 + chunk * 16),
                             "r"(0)
                             : "memory");
            }
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            if (C::GROUPS == 1 || wg == 0)
                asm volatile("bar.sync 4, 128;" ::: "memory");
            else
                asm volatile("bar.sync 5, 128;" ::: "memory");
        }
    };
    auto scores = [&](int k) {
        const uint32_t s = tiles_at + (k % STAGES) * C::STAGE;
        const uint64_t d1 = describe(s), d2 = describe(s + TILE_BYTES);
#pragma unroll
        for (int ks = 0; ks < 4; ks++) {
            if constexpr (STILL & 1)
                wg_ss<0>(S, e1 + 2 * ks, d1 + 2 * ks);
            else
                wg_rs<0>(S, q1 + 4 * ks, d1 + 2 * ks);
        }
#pragma unroll
        for (int ks = 0; ks < 4; ks++) {
            if constexpr (STILL & 2)
                wg_ss<0>(X, e2 + 2 * ks, (MODE == JVP ? d1 : d2) + 2 * ks);
            else
                wg_rs<0>(X, q2 + 4 * ks, (MODE == JVP ? d1 : d2) + 2 * ks);
        }
        if constexpr (MODE == JVP) {
#pragma unroll
            for (int ks = 0; ks < 4; ks++) {
                if constexpr (STILL & 1)
                    wg_ss<0>(X, e1 + 2 * ks, d2 + 2 * ks);
                else
                    wg_rs<0>(X, q1 + 4 * ks, d2 + 2 * ks);
            }
        }
        wg_commit();
    };
    auto update = [&](int k) {
        const uint32_t s = tiles_at + (k % STAGES) * C::STAGE;
#pragma unroll
        for (int kk = 0; kk < 4; kk++) {
            if constexpr (MODE == JVP) {
                wg_rs<1>(acc, uf + 4 * kk, describe(s + 2 * TILE_BYTES) + 128 * kk);
                wg_rs<1>(acc, pf + 4 * kk, describe(s + 3 * TILE_BYTES) + 128 * kk);
            }
            if constexpr (MODE == GQ) wg_rs<1>(acc, uf + 4 * kk, describe(s) + 128 * kk);
            if constexpr (MODE == GKV) {
                wg_rs<1>(acc, pf + 4 * kk, describe(s + TILE_BYTES) + 128 * kk);
                wg_rs<1>(acc2, uf + 4 * kk, describe(s) + 128 * kk);
            }
        }
        wg_commit();
    };
    auto entries = [&](int c0, auto masked) { // S becomes P, X becomes U
        constexpr bool MASKED = decltype(masked)::value;
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                float p = exp2_of(S[4 * j + e]);
                float u = p * X[4 * j + e];
                if (MASKED) {
                    const int c = c0 + 2 * t + 8 * j + (e & 1);
                    if (c < lo[e >> 1] || c >= hi[e >> 1]) p = u = 0;
                }
                if (MODE == JVP) rs[e >> 1] += u;
                S[4 * j + e] = p;
                X[4 * j + e] = u;
            }
    };
    auto element = [&](int k) {
        const int c0 = column0(k);
        if (c0 >= all_from && c0 + 64 <= all_to)
            entries(c0, std::false_type());
        else
            entries(c0, std::true_type());
    };
    auto pack = [&] {
#pragma unroll
        for (int i = 0; i < 16; i++) {
            uf[i] = pack_halves(X[2 * i], X[2 * i + 1]);
            if (MODE != GQ) pf[i] = pack_halves(S[2 * i], S[2 * i + 1]);
        }
        pin(uf);
        if (MODE != GQ) pin(pf);
    };
    auto refill = [&](int k) { // the stage of tile k-1 gets tile k-1+STAGES
        if (threadIdx.x == 0 && k >= 1 && k - 1 + STAGES < total) {
            barrier_wait(empty + 8 * ((k - 1) % STAGES), ((k - 1) / STAGES) & 1);
            fetch(k - 1 + STAGES);
        }
        __syncwarp();
    };
    auto drained = [&](int k) {
        wg_wait<0>();
        pin(acc);
        if constexpr (KEYS) pin(acc2);
        barrier_arrive(empty + 8 * (k % STAGES)); // each for its own reads
    };
    if (STILL) barrier_wait(still_bar, 0);
    if constexpr (C::OVERLAP) {
        if (total > 0) {
            if (TURNS && wg == 1) pair_arrive(1);
            arrived(0);
            start(0);
            if (TURNS) pair_sync(1 + wg);
            wg_fence();
            scores(0);
            if (TURNS) pair_arrive(2 - wg);
            wg_wait<0>();
            pin(S);
            pin(X);
            element(0);
            pack();
            for (int k = 0; k + 1 < total; k++) {
                arrived(k + 1);
                start(k + 1);
                if (TURNS) pair_sync(1 + wg);
                wg_fence();
                scores(k + 1);
                update(k);
                if (TURNS) pair_arrive(2 - wg);
                refill(k);
                wg_wait<1>();
                pin(S);
                pin(X);
                element(k + 1);
                drained(k);
                pack();
            }
            if (TURNS && wg == 0) pair_sync(1); // what warpgroup 1 arrived at last
            wg_fence();
            update(total - 1);
            drained(total - 1);
        }
    } else {
        for (int k = 0; k < total; k++) {
            arrived(k);
            start(k);
            wg_fence();
            scores(k);
            refill(k);
            wg_wait<0>();
            pin(S);
            pin(X);
            if (!(STILL & 1)) pin(q1);
            if (!(STILL & 2)) pin(q2);
            element(k);
            pack();
            wg_fence();
            update(k);
            drained(k);
        }
    }
    const float unshift = 1.0f / (1 << P::SHIFT);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float sum = rs[h];
        if (MODE == JVP) {
            sum += __shfl_xor_sync(~0u, sum, 1);
            sum += __shfl_xor_sync(~0u, sum, 2);
        }
        const int r = row + 8 * h;
        if (r >= n) continue;
        const size_t token = base + r, at = head * a.padded + pad + r;
        T *o1 = a.o1.p + (dir * a.o1.rows + token) * a.o1.ld + head * 64;
        if (MODE == JVP) {
            sum *= unshift;
            if (a.st.sink) sum += rx[h] * a.st.sink[at];
            const bool lead = leads(a.st.inverse[at]);
            const T *v = a.v.p + (base + a.st.top[at]) * a.v.ld + other * 64;
            const float *kept = a.output + token * (size_t)(a.heads * 64) + head * 64;
#pragma unroll
            for (int j = 0; j < 8; j++) {
                const int f = 8 * j + 2 * t;
                float2 o = *(const float2 *)(kept + f);
                if (lead) {
                    const float2 v_top = __half22float2(*(const __half2 *)(v + f));
                    o.x += v_top.x, o.y += v_top.y;
                }
                *(uint32_t *)(o1 + f) =
                    pack_halves((acc[4 * j + 2 * h] * unshift - sum * o.x) * a.scale,
                                (acc[4 * j + 2 * h + 1] * unshift - sum * o.y) * a.scale);
            }
        } else {
            const float out = unshift * a.scale * (a.row_scale ? a.row_scale[token] : 1.0f);
            T *o2 =
                KEYS ? a.o2.p + (dir * a.o2.rows + token) * a.o2.ld + head * 64 : nullptr;
#pragma unroll
            for (int j = 0; j < 8; j++) {
                const int f = 8 * j + 2 * t;
                *(uint32_t *)(o1 + f) =
                    pack_halves(acc[4 * j + 2 * h] * out, acc[4 * j + 2 * h + 1] * out);
                if (KEYS)
                    *(uint32_t *)(o2 + f) =
                        pack_halves(acc2[KEYS ? 4 * j + 2 * h : 0] * out,
                                    acc2[KEYS ? 4 * j + 2 * h + 1 : 0] * out);
            }
        }
    }
}

// ---- Launches
// --------------------------------------------------------------------------------

// rows x cols halves, in boxes of 64 x 64
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

template <int MODE>
static cudaError_t launch_mode(const Args<StoreF16> &a, cudaStream_t stream) {
    typedef Sizes<MODE> C;
    constexpr bool KEYS = keys_are_rows(MODE);
    if (!a.ntasks) return cudaSuccess;
    // the queries of the inputs, and the buffer with directions: dqkv in J, else gradients
    const Heads<const T> &qa = KEYS ? a.t1 : a.s1, &qb = KEYS ? a.t2 : a.s2;
    const size_t rows = a.o1.rows;
    CUtensorMap ma, mb;
    cudaError_t e = encode(qa.p, rows, qa.ld, &ma);
    if (e == cudaSuccess) e = encode(qb.p, rows * (size_t)a.dirs, qb.ld, &mb);
    if (e == cudaSuccess)
        e = cudaFuncSetAttribute(wg_core<MODE>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 C::SHARED);
    if (e != cudaSuccess) return e;
    const int blocks = a.ntasks * (KEYS ? a.kv : a.heads) * a.dirs;
    // the queries' half of J^T may run beside the keys': it follows no kernel of its stream
    if (MODE != GQ)
        return launch_following(wg_core<MODE>, (unsigned)blocks, C::GROUPS * 128, C::SHARED,
                                stream, a, ma, mb);
    wg_core<MODE><<<blocks, C::GROUPS * 128, C::SHARED, stream>>>(a, ma, mb);
    return cudaGetLastError();
}

static cudaError_t launch(Mode mode, const Args<StoreF16> &a, cudaStream_t stream) {
    switch (mode) {
    case JVP:
        return launch_mode<JVP>(a, stream);
    case GQ:
        return launch_mode<GQ>(a, stream);
    case GKV:
        return launch_mode<GKV>(a, stream);
    default:
        return kernels_F16_64.launch(mode, a, stream);
    }
}

const Kernels<StoreF16> *kernels_wgmma(void) {
    static const Kernels<StoreF16> table = [] {
        Kernels<StoreF16> t = kernels_F16_64;
        t.rows[JVP] = Sizes<JVP>::ROWS;
        t.rows[GQ] = Sizes<GQ>::ROWS;
        t.rows[GKV] = Sizes<GKV>::ROWS;
        t.launch = launch;
        return t;
    }();
    return &table;
}
#endif
