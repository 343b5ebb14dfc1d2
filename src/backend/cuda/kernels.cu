// kernels.cu - compiled once per precision and width: LIPSC_P is the precision, LIPSC_W the
// padded width of a head.
#include "kernels.h"

typedef LIPSC_P<LIPSC_W> P;
typedef P::Store S;

template <int MODE, bool GENERAL>
static cudaError_t launch_kind(const Args<S> &a, cudaStream_t stream) {
    typedef Shape<P, MODE> C;
    const cudaError_t e = cudaFuncSetAttribute(
        core<P, MODE, GENERAL>, cudaFuncAttributeMaxDynamicSharedMemorySize, C::SHARED);
    if (e != cudaSuccess) return e;
    const int heads = keys_are_rows(MODE) ? a.kv : a.heads;
    const int blocks = a.ntasks * heads * a.dirs * (P::W / C::OC);
    core<P, MODE, GENERAL><<<blocks, C::THREADS, C::SHARED, stream>>>(a);
    return cudaGetLastError();
}
template <int MODE> static cudaError_t launch_mode(const Args<S> &a, cudaStream_t stream) {
    const bool general = a.cap > 0 || a.key_bias || a.distance;
    return general ? launch_kind<MODE, true>(a, stream)
                   : launch_kind<MODE, false>(a, stream);
}

static cudaError_t launch(Mode mode, const Args<S> &a, cudaStream_t stream) {
    constexpr bool split = splits_keys(P::KIND, P::W);
    if (!a.ntasks) return cudaSuccess;
    switch (mode) {
    case JVP:
        return launch_mode<JVP>(a, stream);
    case GQ:
        return launch_mode<GQ>(a, stream);
    case GKV:
        return launch_mode < split ? (int)GV : (int)GKV > (a, stream);
    case GV:
        return launch_mode < split ? (int)GV : (int)GKV > (a, stream);
    case GK:
        return launch_mode < split ? (int)GK : (int)GKV > (a, stream);
    default:
        return launch_mode<OUT>(a, stream);
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

#define JOIN_(a, b, c) a##b##_##c
#define JOIN(a, b, c)  JOIN_(a, b, c)
extern const Kernels<S> JOIN(kernels_, LIPSC_P, LIPSC_W);
const Kernels<S> JOIN(kernels_, LIPSC_P, LIPSC_W) = {
    P::W,
    {Shape<P, JVP>::ROWS, Shape<P, GQ>::ROWS, Shape<P, GKV>::ROWS, Shape<P, GV>::ROWS,
     Shape<P, GK>::ROWS, Shape<P, OUT>::ROWS},
    StatisticsShape<P>::ROWS,
    splits_keys(P::KIND, P::W),
    launch,
    launch_statistics,
    nullptr};
