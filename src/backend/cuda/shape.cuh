// shape.cuh - the shape of a block of each product of core.cuh: how many rows and keys, in
// which memory, for a precision, a width and the room that a GPU has.
#ifndef LIPSC_CUDA_SHAPE_CUH
#define LIPSC_CUDA_SHAPE_CUH

#include "args.cuh"

#include <type_traits>

__host__ __device__ constexpr bool keys_are_rows(int mode) {
    return mode == GKV || mode == GV || mode == GK;
}
__host__ __device__ constexpr bool needs_x(int mode) { return mode != GV && mode != OUT; }

// WARPS of MT times 16 rows; tiles of BC keys, worked on in CHUNKs of 16; STAGES of tiles
// in flight, 0: one tile at a time, which is read when it is needed; OC output columns per
// block; stationary operands in registers (HELD, bit 0 and 1) or in shared memory; PARTIAL:
// sums of a tile are added outside the tensor unit, which truncates.
template <class P, int MODE_, int WARPS_, int BC_, int STAGES_> struct Shape {
    static constexpr int
        MODE = MODE_,
        K = P::KIND, W = P::W, WARPS = WARPS_, BC = BC_, STAGES = STAGES_,
        MT = K == KIND_F16 && W <= 64 ? 2 : 1, CHUNK = 16,
        HELD = K == KIND_F64   ? 0
               : W > 96        ? 0
               : K == KIND_F16 ? (keys_are_rows(MODE) && W > 32 ? 1 : 3)
                               : (W <= 64 ? 3 : 0),
        OC = W == 256 && K != KIND_F16 ? 128 : W,
        PARTIAL = K == KIND_F16X3 || (K == KIND_F16 && MODE == OUT),
        UNROLL = P::STEPS <= 8 || HELD ? P::STEPS : 4, // steps of the inner index at once
        BLOCKS = K == KIND_F64 || W == 256 || (K == KIND_F16X3 && W > 64) ? 1 : 2,
        ROWS = WARPS * 16 * MT, THREADS = WARPS * 32, STREAMS = MODE == JVP ? 4 : 2,
        TILE = P::offset(BC), STAT = P::offset(ROWS), ACC = (int)sizeof(typename P::Acc),
        // columns' statistics: start, shift, or with EXACT also inverse, at_top, top
        COLUMNS = keys_are_rows(MODE)
                      ? BC * ACC * (P::EXACT ? 4 : 2) + (P::EXACT ? BC * 4 : 0)
                      : 0,
        STAGE = (STAGES ? STREAMS : 1) * TILE + COLUMNS,
        KEPT = (HELD & 1 ? 0 : STAT) + (!needs_x(MODE) || HELD & 2 ? 0 : STAT),
        STAGING = (HELD & 1 ? STAT : 0) + (needs_x(MODE) && HELD & 2 ? STAT : 0),
        TILES = (STAGES ? STAGES : 1) * STAGE,
        SHARED = KEPT + (TILES > STAGING ? TILES : STAGING);
};
// Shared memory of a block: of GPUs of the sizes of an H100, an A100, and of smaller ones.
constexpr int ROOM_LARGE = 227 << 10, ROOM_MIDDLE = 163 << 10, ROOM_SMALL = 99 << 10;
enum Room { LARGE, MIDDLE, SMALL, ROOMS };

// The shape that is fast on an H200, and where that needs more than ROOM bytes the first of
// these that does not: half the warps down to two, one tile of each operand in flight, the
// same with fewer warps and keys, one tile at a time.
template <class P, int MODE, int ROOM> struct Fit {
    static constexpr int K = P::KIND, W = P::W;
    static constexpr int WARPS = K == KIND_F64                 ? (W <= 64                   ? 8
                                                                  : W <= 96                 ? 4
                                                                  : W == 256 && MODE == JVP ? 1
                                                                                            : 2)
                                 : K == KIND_F16X3 && W == 256 ? 2
                                                               : 4,
                         BC = K == KIND_F64     ? 16
                              : K == KIND_F16X3 ? (W == 256 ? 16 : 32)
                              : W <= 96         ? 64
                                                : 32,
                         STAGES = K == KIND_F64 && W == 256 ? 1 : 2;
    template <int W_, int B_, int S_> static constexpr bool fits() {
        return Shape<P, MODE, W_, B_, S_>::SHARED <= ROOM;
    }
    static constexpr int HALF = WARPS > 1 ? WARPS / 2 : 1, FEW = WARPS > 2 ? 2 : WARPS;
    template <int W_, int B_, int S_> using Of = Shape<P, MODE, W_, B_, S_>;
    typedef std::conditional_t<
        fits<WARPS, BC, STAGES>(), Of<WARPS, BC, STAGES>,
        std::conditional_t<
            (HALF >= 2 && fits<HALF, BC, STAGES>()), Of<HALF, BC, STAGES>,
            std::conditional_t<
                fits<WARPS, BC, 1>(), Of<WARPS, BC, 1>,
                std::conditional_t<
                    fits<HALF, BC, 1>(), Of<HALF, BC, 1>,
                    std::conditional_t<
                        fits<FEW, BC, 1>(), Of<FEW, BC, 1>,
                        std::conditional_t<
                            fits<FEW, 16, 1>(), Of<FEW, 16, 1>,
                            std::conditional_t<
                                fits<1, 16, 1>(), Of<1, 16, 1>,
                                std::conditional_t<fits<FEW, 16, 0>(), Of<FEW, 16, 0>,
                                                   Of<1, 16, 0>>>>>>>>>
        type;
    static_assert(type::SHARED <= ROOM, "no shape fits");
};
__host__ __device__ constexpr bool splits_keys(int kind,
                                               int width) { // GV and GK instead of GKV
    return kind == KIND_F16 ? width > 128 : kind == KIND_F16X3 ? width > 64 : width > 64;
}

// Whether the GPUs that this code is compiled for have the room that chooses this shape.
template <class P, class C> __host__ __device__ constexpr bool needed() {
#if defined(LIPSC_EVERY_ROOM) || !defined(__CUDA_ARCH__)
    return true;
#elif __CUDA_ARCH__ == 800
    return std::is_same<C, typename Fit<P, C::MODE, ROOM_MIDDLE>::type>::value;
#elif __CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 890
    return std::is_same<C, typename Fit<P, C::MODE, ROOM_SMALL>::type>::value;
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
    return std::is_same<C, typename Fit<P, C::MODE, ROOM_LARGE>::type>::value;
#else
    return true;
#endif
}

#endif
