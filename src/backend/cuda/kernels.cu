// kernels.cu - compiled once per precision and width: LIPSC_P is the precision, LIPSC_W the
// padded width of a head.
#include "kernels.h"

typedef LIPSC_P<LIPSC_W> P;
typedef P::Store S;

constexpr bool SPLIT = splits_keys(P::KIND, P::W);
// GKV, or where it is split another one in its place
template <int ROOM, int MODE>
using FitOf = typename Fit<P, MODE == GKV && SPLIT ? GV : MODE, ROOM>::type;

template <class C, bool GENERAL>
static cudaError_t launch_kind(const Args<S> &a, cudaStream_t stream) {
    const cudaError_t e = cudaFuncSetAttribute(
        core<P, C, GENERAL>, cudaFuncAttributeMaxDynamicSharedMemorySize, C::SHARED);
    if (e != cudaSuccess) return e;
    const int heads = keys_are_rows(C::MODE) ? a.kv : a.heads;
    const int blocks = a.ntasks * heads * a.dirs * (P::W / C::OC);
    core<P, C, GENERAL><<<blocks, C::THREADS, C::SHARED, stream>>>(a);
    return cudaGetLastError();
}
template <class C> static cudaError_t launch_shape(const Args<S> &a, cudaStream_t stream) {
    const bool general = a.cap > 0 || a.key_bias || a.distance;
    return general ? launch_kind<C, true>(a, stream) : launch_kind<C, false>(a, stream);
}

template <int ROOM>
static cudaError_t launch(Mode mode, const Args<S> &a, cudaStream_t stream) {
    if (!a.ntasks) return cudaSuccess;
    switch (mode) {
    case JVP:
        return launch_shape<FitOf<ROOM, JVP>>(a, stream);
    case GQ:
        return launch_shape<FitOf<ROOM, GQ>>(a, stream);
    case GKV:
        return launch_shape<FitOf<ROOM, GKV>>(a, stream);
    case GV:
        return launch_shape<FitOf<ROOM, SPLIT ? GV : GKV>>(a, stream);
    case GK:
        return launch_shape<FitOf<ROOM, SPLIT ? GK : GKV>>(a, stream);
    default:
        return launch_shape<FitOf<ROOM, OUT>>(a, stream);
    }
}

static cudaError_t launch_statistics(const Args<S> &a, const StatisticsArgs<S::Acc> &z,
                                     cudaStream_t stream) {
    typedef StatisticsShape<P> C;
    const cudaError_t e = cudaFuncSetAttribute(
        statistics<P>, cudaFuncAttributeMaxDynamicSharedMemorySize, C::SHARED);
    if (e != cudaSuccess) return e;
    statistics<P><<<a.ntasks * a.heads, C::THREADS, C::SHARED, stream>>>(a, z);
    return cudaGetLastError();
}

template <int ROOM> constexpr Kernels<S> kernels_within() {
    return {P::W,
            {FitOf<ROOM, JVP>::ROWS, FitOf<ROOM, GQ>::ROWS, FitOf<ROOM, GKV>::ROWS,
             FitOf<ROOM, GV>::ROWS, FitOf<ROOM, GK>::ROWS, FitOf<ROOM, OUT>::ROWS},
            StatisticsShape<P>::ROWS,
            SPLIT,
            launch<ROOM>,
            launch_statistics,
            nullptr};
}

#define JOIN_(a, b, c) a##b##_##c
#define JOIN(a, b, c)  JOIN_(a, b, c)
extern const Kernels<S> JOIN(kernels_, LIPSC_P, LIPSC_W)[ROOMS];
const Kernels<S> JOIN(kernels_, LIPSC_P, LIPSC_W)[ROOMS] = {
    kernels_within<ROOM_LARGE>(),
#ifndef LIPSC_LARGE_ROOM
    kernels_within<ROOM_MIDDLE>(), kernels_within<ROOM_SMALL>(),
#endif
};
