// wgmma.cu - the three products of core.cuh in f16 by Hopper's warpgroup instructions:
// heads of 64, tiles of 64 keys by the bulk copy engine.  Scores without biases and soft
// caps; the rest goes to the portable kernels.
#include "internal.h"

extern const Kernels<StoreF16> kernels_F16_64[ROOMS];

#if defined(LIPSC_NO_WGMMA)
const Kernels<StoreF16> *kernels_wgmma(void) { return NULL; }
#else

#include "wgmma.cuh"

typedef F16<64> P;
typedef P::T T;
enum { TILE_BYTES = 64 * 64 * 2 };

// ---- The kernel
// ------------------------------------------------------------------------------

// STAGES of tiles; BLOCKS of one warpgroup, which has 64 rows, per multiprocessor; STILL:
// the stationary operands (bit 0 the first, bit 1 the second) stay in shared memory, else
// in registers.  (ptxas 13.0.88 miscompiles STILL = 0: it keeps packed P in the registers
// of the stationary operand.)  FULL: there are blocks enough for four on a multiprocessor.
template <int MODE_, bool FULL> struct Plan;
template <bool FULL> struct Plan<JVP, FULL> {
    static constexpr int STAGES = 2, BLOCKS = 3, STILL = 2;
};
template <> struct Plan<GQ, false> {
    static constexpr int STAGES = 3, BLOCKS = 3, STILL = 3;
};
template <> struct Plan<GQ, true> {
    static constexpr int STAGES = 2, BLOCKS = 4, STILL = 3;
};
template <bool FULL> struct Plan<GKV, FULL> {
    static constexpr int STAGES = 2, BLOCKS = 3, STILL = 3;
};
enum { ROWS = 64, THREADS = 128 };
template <int MODE, bool FULL> struct Sizes : Plan<MODE, FULL> {
    typedef Plan<MODE, FULL> B;
    static constexpr int STREAMS = MODE == JVP ? 4 : 2, STAGE = STREAMS * TILE_BYTES,
                         STATIONARY = TILE_BYTES * ((B::STILL & 1) + (B::STILL >> 1)),
                         COLUMNS = keys_are_rows(MODE) ? 512 : 0,
                         SHARED = STATIONARY + B::STAGES * (STAGE + COLUMNS) +
                                  16 * B::STAGES + 8 + 1024;
};

// Tile k of a block: keys of one query head after the other where rows are keys.
template <bool KEYS> struct Walk {
    int tiles, from, head, column, left; // column of the tile, tiles left of this head
    DEV Walk(int tiles_, int tile0, int head_)
        : tiles(tiles_), from(tile0 * 64), head(head_), column(tile0 * 64), left(tiles_) {}
    DEV void next() {
        column += 64;
        if (KEYS && --left == 0) {
            column = from;
            left = tiles;
            head++;
        }
    }
};

template <int MODE, bool FULL>
DEV void core_block(const Args<StoreF16> &a, const CUtensorMap &map_a,
                    const CUtensorMap &map_b, int block) {
    typedef Sizes<MODE, FULL> C;
    constexpr bool KEYS = keys_are_rows(MODE);
    constexpr int STAGES = C::STAGES, STILL = C::STILL;
    extern __shared__ unsigned char raw[];
    const uint32_t kept = (shared_address(raw) + 1023) & ~1023u,
                   tiles_at = kept + C::STATIONARY;
    const uint32_t stats = tiles_at + STAGES * C::STAGE, full = stats + STAGES * C::COLUMNS;
    const uint32_t empty = full + 8 * STAGES, still_bar = empty + 8 * STAGES;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int g = lane >> 2, t = lane & 3;

    // which block this is
    const int row_heads = KEYS ? a.kv : a.heads, inner = row_heads * a.dirs;
    const int task = a.head_major ? block % a.ntasks : block / inner;
    const int rest = a.head_major ? block / a.ntasks : block % inner;
    const int head = rest % row_heads, dir = rest / row_heads;
    const int input = a.tasks[task].input, r0 = a.tasks[task].row;
    if (a.active && !a.active[input]) return;
    const int n = a.n[input];
    const size_t base = a.base[input], pad = a.pad[input];
    const int share = a.heads / a.kv, other = KEYS ? head * share : head / share;
    const int dir_row = (int)(dir * a.o1.rows); // of the operands that have directions

    // columns that this block and this thread's two rows see
    const int *first = a.first + pad, *last = a.last + pad;
    const int r_end = min(r0 + ROWS, n);
    const int tile0 = first[r0] / 64, tiles = (last[r_end - 1] + 63) / 64 - tile0;
    const int total = tiles * (KEYS ? share : 1);
    const int all_from = first[r_end - 1], all_to = last[r0];
    const int row = r0 + 16 * warp + g; // and row + 8
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
            barrier_init(empty + 8 * i, KEYS ? THREADS : 4);
        }
        barrier_init(still_bar, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    Walk<KEYS> ahead(tiles, tile0, other), at(tiles, tile0, other);
    auto fetch = [&](int k) { // tiles in their order
        const int s = k % STAGES, h = ahead.head, c0 = ahead.column, y = (int)base + c0;
        const uint32_t to = tiles_at + s * C::STAGE, bar = full + 8 * s;
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
            const size_t stat = h * a.padded + pad + c0;
            const size_t slot = ((size_t)dir * a.heads + h) * a.padded + pad + c0;
            copy_tile(to, &map_a, q_col + h * 64, y, bar);
            copy_tile(to + TILE_BYTES, &map_b, h * 64, dir_row + y, bar);
            copy_bulk(stats + s * 512, a.st.start + stat, 256, bar);
            copy_bulk(stats + s * 512 + 256, a.st.shift + slot, 256, bar);
        }
        ahead.next();
    };
    if (threadIdx.x == 0) {
        const int y = (int)base + r0;
        barrier_expect(still_bar, C::STATIONARY);
        if (STILL & 1)
            copy_tile(kept, &map_a, (KEYS ? k_col : q_col) + head * 64, y, still_bar);
        if (STILL & 2)
            copy_tile(kept + C::STATIONARY - TILE_BYTES, KEYS ? &map_a : &map_b,
                      (KEYS ? v_col : 0) + head * 64, KEYS ? y : dir_row + y, still_bar);
        for (int k = 0; k < total && k < STAGES; k++) fetch(k);
    }
    uint32_t q1[16], q2[16];
    const uint64_t e1 = describe(kept), e2 = describe(kept + C::STATIONARY - TILE_BYTES);
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

    // S and X begin with what belongs to the column, where that is a query; what belongs to
    // the row comes later
    auto start = [&](int k) {
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float l[2], d[2];
            const uint32_t p = stats + (k % STAGES) * 512 + (8 * j + 2 * t) * 4;
            load_pair(l[0], l[1], p);
            load_pair(d[0], d[1], p + 256);
#pragma unroll
            for (int e = 0; e < 4; e++) {
                S[4 * j + e] = l[e & 1];
                X[4 * j + e] = d[e & 1];
            }
        }
        pin(S);
        pin(X);
    };
    // the tile behind full barrier k; rows behind the input's end are another input's:
    // zeros
    auto arrived = [&](int k) {
        barrier_wait(full + 8 * (k % STAGES), (k / STAGES) & 1);
        const int left = n - at.column;
        if (left < 64) {
            const uint32_t s = tiles_at + (k % STAGES) * C::STAGE;
            for (int i = threadIdx.x; i < (64 - left) * 8; i += 128)
                for (int m = 0; m < C::STREAMS; m++)
                    asm volatile("st.shared.v4.b32 [%0], {%1,%1,%1,%1};" ::"r"(
                                     s + m * TILE_BYTES + left * 128 + i * 16),
                                 "r"(0)
                                 : "memory");
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            __syncthreads();
        }
    };
    constexpr int BEGUN = KEYS;
    auto scores = [&](int k) {
        const uint32_t s = tiles_at + (k % STAGES) * C::STAGE;
        const uint64_t d1 = describe(s), d2 = describe(s + TILE_BYTES),
                       dx = MODE == JVP ? d1 : d2;
        if constexpr (STILL & 1)
            wg_ss<0, BEGUN>(S, e1, d1);
        else
            wg_rs<0, BEGUN>(S, q1, d1);
#pragma unroll
        for (int ks = 1; ks < 4; ks++) {
            if constexpr (STILL & 1)
                wg_ss<0>(S, e1 + 2 * ks, d1 + 2 * ks);
            else
                wg_rs<0>(S, q1 + 4 * ks, d1 + 2 * ks);
        }
        if constexpr (STILL & 2)
            wg_ss<0, BEGUN>(X, e2, dx);
        else
            wg_rs<0, BEGUN>(X, q2, dx);
#pragma unroll
        for (int ks = 1; ks < 4; ks++) {
            if constexpr (STILL & 2)
                wg_ss<0>(X, e2 + 2 * ks, dx + 2 * ks);
            else
                wg_rs<0>(X, q2 + 4 * ks, dx + 2 * ks);
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
    auto entries = [&](auto masked) { // S becomes P, X becomes U
        constexpr bool MASKED = decltype(masked)::value;
#pragma unroll
        for (int i = 0; i < 32; i++) {
            const int h = i >> 1 & 1;
            float p = exp2_of(KEYS ? S[i] : S[i] + rl[h]);
            float u = p * (KEYS ? X[i] : X[i] + rx[h]);
            if (MASKED) {
                const int c = at.column + 2 * t + 8 * (i >> 2) + (i & 1);
                if (c < lo[h] || c >= hi[h]) p = u = 0;
            }
            if (MODE == JVP) rs[h] += u;
            S[i] = p;
            X[i] = u;
        }
    };
    auto update = [&](int k) {
        const uint32_t s = tiles_at + (k % STAGES) * C::STAGE;
#pragma unroll
        for (int i = 0; i < 16; i++) {
            uf[i] = pack_halves(X[2 * i], X[2 * i + 1]);
            if (MODE != GQ) pf[i] = pack_halves(S[2 * i], S[2 * i + 1]);
        }
        pin(uf);
        if (MODE != GQ) pin(pf);
        wg_fence();
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
        // one for each warp; where its threads themselves have read, each for its own reads
        if (KEYS || lane == 0) barrier_arrive(empty + 8 * (k % STAGES));
    };
    barrier_wait(still_bar, 0);
    for (int k = 0; k < total; k++, at.next()) {
        arrived(k);
        if constexpr (KEYS) start(k);
        wg_fence();
        scores(k);
        refill(k);
        wg_wait<0>();
        pin(S);
        pin(X);
        if (!(STILL & 1)) pin(q1);
        if (!(STILL & 2)) pin(q2);
        if (at.column >= all_from && at.column + 64 <= all_to)
            entries(std::false_type());
        else
            entries(std::true_type());
        update(k);
        drained(k);
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
        const size_t token = base + r, stat = head * a.padded + pad + r;
        T *o1 = a.o1.p + (dir * a.o1.rows + token) * a.o1.ld + head * 64;
        if (MODE == JVP) {
            sum *= unshift;
            if (a.st.sink) sum += rx[h] * a.st.sink[stat];
            const bool lead = leads(a.st.inverse[stat]);
            const T *v = a.v.p + (base + a.st.top[stat]) * a.v.ld + other * 64;
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

template <int MODE, bool FULL>
__global__ void __launch_bounds__(THREADS, (Sizes<MODE, FULL>::BLOCKS))
    wg_core(const __grid_constant__ Args<StoreF16> a,
            const __grid_constant__ CUtensorMap map_a,
            const __grid_constant__ CUtensorMap map_b) {
    follow();
    core_block<MODE, FULL>(a, map_a, map_b, (int)blockIdx.x);
}

// Both halves of J^T at once, keys first: for few blocks.
__global__ void __launch_bounds__(THREADS, (Sizes<GKV, false>::BLOCKS))
    wg_both(const __grid_constant__ Args<StoreF16> keys,
            const __grid_constant__ CUtensorMap keys_a,
            const __grid_constant__ CUtensorMap keys_b,
            const __grid_constant__ Args<StoreF16> queries,
            const __grid_constant__ CUtensorMap queries_a,
            const __grid_constant__ CUtensorMap queries_b, int blocks_of_keys) {
    follow();
    const int block = (int)blockIdx.x;
    if (block < blocks_of_keys)
        core_block<GKV, false>(keys, keys_a, keys_b, block);
    else
        core_block<GQ, false>(queries, queries_a, queries_b, block - blocks_of_keys);
}

// ---- Launches
// --------------------------------------------------------------------------------

// The queries of the inputs, and the buffer with directions: dqkv in J, else gradients.
struct Maps {
    CUtensorMap a, b;
};
static cudaError_t maps_of(Mode mode, const Args<StoreF16> &a, Maps *out) {
    const bool keys = keys_are_rows(mode);
    const Heads<const T> &qa = keys ? a.t1 : a.s1, &qb = keys ? a.t2 : a.s2;
    const size_t rows = a.o1.rows;
    const cudaError_t e = encode(qa.p, rows, qa.ld, &out->a);
    return e == cudaSuccess ? encode(qb.p, rows * (size_t)a.dirs, qb.ld, &out->b) : e;
}

static int blocks_of(Mode mode, const Args<StoreF16> &a) {
    return a.ntasks * (keys_are_rows(mode) ? a.kv : a.heads) * a.dirs;
}

static cudaError_t room_for(const void *kernel, int shared) {
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                shared);
}

template <int MODE, bool FULL>
static cudaError_t launch_mode(const Args<StoreF16> &a, cudaStream_t stream) {
    constexpr int SHARED = Sizes<MODE, FULL>::SHARED;
    if (!a.ntasks) return cudaSuccess;
    Maps m;
    cudaError_t e = maps_of((Mode)MODE, a, &m);
    if (e == cudaSuccess) e = room_for((const void *)wg_core<MODE, FULL>, SHARED);
    if (e != cudaSuccess) return e;
    const unsigned blocks = (unsigned)blocks_of((Mode)MODE, a);
    // the queries' half of J^T may run beside the keys': it follows no kernel of its stream
    if (MODE != GQ)
        return launch_following(true, wg_core<MODE, FULL>, blocks, THREADS, SHARED, stream,
                                a, m.a, m.b);
    wg_core<MODE, FULL><<<blocks, THREADS, SHARED, stream>>>(a, m.a, m.b);
    return cudaGetLastError();
}

static cudaError_t launch(Mode mode, const Args<StoreF16> &a, cudaStream_t stream) {
    enum { MANY = 528 }; // four on each multiprocessor of an H100
    switch (mode) {
    case JVP:
        return launch_mode<JVP, false>(a, stream);
    case GQ:
        return blocks_of(GQ, a) < MANY ? launch_mode<GQ, false>(a, stream)
                                       : launch_mode<GQ, true>(a, stream);
    case GKV:
        return launch_mode<GKV, false>(a, stream);
    default:
        return kernels_F16_64[LARGE].launch(mode, a, stream);
    }
}

static cudaError_t launch_both(const Args<StoreF16> &keys, const Args<StoreF16> &queries,
                               cudaStream_t stream) {
    constexpr int SHARED = Sizes<GKV, false>::SHARED > Sizes<GQ, false>::SHARED
                               ? Sizes<GKV, false>::SHARED
                               : Sizes<GQ, false>::SHARED;
    const int first = blocks_of(GKV, keys), all = first + blocks_of(GQ, queries);
    if (!all) return cudaSuccess;
    Maps mk, mq;
    cudaError_t e = maps_of(GKV, keys, &mk);
    if (e == cudaSuccess) e = maps_of(GQ, queries, &mq);
    if (e == cudaSuccess) e = room_for((const void *)wg_both, SHARED);
    if (e != cudaSuccess) return e;
    return launch_following(true, wg_both, (unsigned)all, THREADS, SHARED, stream, keys,
                            mk.a, mk.b, queries, mq.a, mq.b, first);
}

const Kernels<StoreF16> *kernels_wgmma(void) {
    static const Kernels<StoreF16> table = [] {
        Kernels<StoreF16> t = kernels_F16_64[LARGE];
        t.rows[JVP] = t.rows[GQ] = t.rows[GKV] = ROWS;
        t.launch = launch;
        t.both = launch_both;
        return t;
    }();
    return &table;
}
#endif
