// statistics.cuh - maximum, sum and largest entry of every row of scores, once per input.
#ifndef LIPSC_CUDA_STATISTICS_CUH
#define LIPSC_CUDA_STATISTICS_CUH

#include "core.cuh"

template <class Acc> struct StatisticsArgs {
    const Acc *sinks; // (heads), base 2, or NULL
    int *bad;         // set where a score or a sum is not finite
};

// Fits into ROOM_SMALL.
template <class P> struct StatisticsShape {
    static constexpr int WARPS = P::KIND == KIND_F64 && P::W >= 128 ? 2 : 4,
                         ROWS = WARPS * 16, THREADS = WARPS * 32,
                         BC = P::KIND == KIND_F16 && P::W <= 128 ? 64
                              : P::W <= 128                      ? 32
                                                                 : 16,
                         SHARED = P::offset(ROWS) + P::offset(BC);
    static_assert(SHARED <= ROOM_SMALL, "statistics are one kernel for all GPUs");
};

DEV float lowest(float) { return -3e38f; }
DEV double lowest(double) { return -1e308; }
DEV bool finite_number(float x) { return fabsf(x) < 3e38f; }
DEV bool finite_number(double x) { return fabs(x) < 1e308; }

template <class P>
__global__ void __launch_bounds__(StatisticsShape<P>::THREADS)
    statistics(const __grid_constant__ Args<typename P::Store> a,
               const StatisticsArgs<typename P::Acc> z) {
    typedef StatisticsShape<P> C;
    typedef typename P::Acc Acc;
    constexpr int BC = C::BC, CH = 16;
    extern __shared__ __align__(128) char memory[];
    const uint32_t st = shared_address(memory), T1 = st + P::offset(C::ROWS);
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    const int task = blockIdx.x / a.heads, head = blockIdx.x % a.heads;
    const int input = a.tasks[task].input, r0 = a.tasks[task].row, n = a.n[input];
    const size_t base = a.base[input], pad = a.pad[input];
    const int key_head = head / (a.heads / a.kv);
    load_tile<P, C::ROWS, C::THREADS>(st, a.s1, base + r0, 0, head, n - r0);
    copy_commit();

    const int w0 = r0 + warp * 16, r_end = min(r0 + C::ROWS, n);
    const int *first = a.first + pad, *last = a.last + pad;
    const int from = first[r0], to = last[r_end - 1];
    int lo[2], hi[2], top[2];
    Acc best[2], best_slope[2] = {1, 1};
    double sum[2] = {0, 0};
    bool bad = false;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int r = w0 + 8 * h + g;
        lo[h] = r < n ? first[r] : 0;
        hi[h] = r < n ? last[r] : 0;
        best[h] = lowest((Acc)0);
        top[h] = 0x7fffffff;
    }
    for (int c0 = from / BC * BC; c0 < to; c0 += BC) {
        __syncthreads();
        load_tile<P, BC, C::THREADS>(T1, a.t1, base + c0, 0, key_head, n - c0);
        copy_commit();
        copy_wait<0>();
        __syncthreads();
        for (int ch = 0; ch < BC; ch += CH) {
            const int k0 = c0 + ch;
            Acc s[2][4] = {};
#pragma unroll 4
            for (int k = 0; k < P::STEPS; k++) {
                typename P::A q;
                typename P::B b[2];
                P::load_a(q, st, warp * 16, k, lane);
                P::load_b2(b, T1, ch, k, lane);
                P::mma(s[0], q, b[0]);
                P::mma(s[1], q, b[1]);
            }
#pragma unroll
            for (int h = 0; h < 2; h++) {
                bool seen[2][2];
                Acc most = best[h];
#pragma unroll
                for (int i = 0; i < 2; i++)
#pragma unroll
                    for (int w = 0; w < 2; w++) {
                        Acc &v = s[i][2 * h + w];
                        const int c = k0 + 8 * i + 2 * t + w, r = w0 + 8 * h + g;
                        seen[i][w] = c >= lo[h] && c < hi[h];
                        if (!seen[i][w]) continue;
                        Acc slope = 1;
                        if (a.cap > 0) v = soft_cap(v, a.cap, slope);
                        if (a.key_bias) v += a.key_bias[pad + c];
                        if (a.distance)
                            v += a.distance[(size_t)head * (2 * a.far - 1) +
                                            (a.far - 1 + c - r)];
                        bad |= !finite_number(v);
                        if (v > most) {
                            most = v;
                            top[h] = c;
                            best_slope[h] = slope;
                        }
                    }
                if (most > best[h]) {
                    sum[h] *= (double)exp2_of(best[h] - most);
                    best[h] = most;
                }
                Acc some = 0;
#pragma unroll
                for (int i = 0; i < 2; i++)
#pragma unroll
                    for (int w = 0; w < 2; w++)
                        if (seen[i][w]) some += exp2_of(s[i][2 * h + w] - most);
                sum[h] += (double)some;
            }
        }
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
#pragma unroll
        for (int d = 1; d < 4; d <<= 1) { // the four threads of a row
            const Acc ob = __shfl_xor_sync(~0u, best[h], d);
            const Acc os = __shfl_xor_sync(~0u, best_slope[h], d);
            const int ot = __shfl_xor_sync(~0u, top[h], d);
            const double ol = __shfl_xor_sync(~0u, sum[h], d);
            const Acc most = ob > best[h] ? ob : best[h];
            sum[h] =
                sum[h] * (double)exp2_of(best[h] - most) + ol * (double)exp2_of(ob - most);
            if (ob > best[h] || (ob == best[h] && ot < top[h])) {
                top[h] = ot;
                best_slope[h] = os;
            }
            best[h] = most;
        }
        const int r = w0 + 8 * h + g;
        if (r >= n || t) continue;
        const size_t at = (size_t)head * a.padded + pad + r;
        Acc most = best[h];
        double all = sum[h], sink = 0;
        if (z.sinks) {
            const Acc s = z.sinks[head];
            if (s > most) {
                all *= (double)exp2_of(most - s);
                most = s;
            }
            sink = (double)exp2_of(s - most);
            all += sink;
        }
        bad |= !(all > 0) || !finite_number(all) || !finite_number(most);
        a.st.inverse[at] = (Acc)(1 / all);
        a.st.start[at] =
            P::EXACT ? most : (Acc)((double)P::SHIFT - (double)most - log2(all));
        a.st.top[at] = top[h] == 0x7fffffff ? r : top[h];
        if (a.st.sink) a.st.sink[at] = (Acc)(sink / all);
        if (a.st.slope) a.st.slope[at] = best_slope[h];
    }
    if (bad) *z.bad = 1;
}

#endif
