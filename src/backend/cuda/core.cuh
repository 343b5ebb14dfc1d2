// core.cuh - the fused products of one head: no n x n matrix is ever stored.
//
//   JVP    rows are queries   S = Q K^T, X = dQ K^T + Q dK^T - c, U = P o X
//                             dO = U V + P dV - rowsum(U) O
//   GQ     rows are queries   X = G V^T - D,   gQ = (P o X) K
//   GKV    rows are keys      the same X,      gV = P^T G and gK = (P o X)^T Q
//   GV, GK rows are keys      one of the two, where both do not fit into registers
//   OUT    rows are queries   O = P V, or without a row's largest entry, once per input
//
// Scores are in base 2: log2(e) is folded into Q, hence into dQ and gQ through the weights,
// and X is in the units of S; ln 2 is folded into V where it meets X (weights.cu).  Keys
// that row i sees are first[i] .. last[i]-1 and neither decreases, so the queries that see
// a key are a range too, and both directions read the same two arrays (Ranges).
//
// A precision with EXACT keeps saturated rows exact, as the definition does: scores are
// compared with the row's maximum, and the derivative at the largest entry `top` is set,
// not computed as a difference: 0 in JVP, where c = dS at top, and -(G.(O - v_top)) in the
// transpose.  The others start their sums at the logarithm of the row's sum.
#ifndef LIPSC_CUDA_CORE_CUH
#define LIPSC_CUDA_CORE_CUH

#include "shape.cuh"

template <class P, int ROWS, int THREADS>
DEV void load_tile(uint32_t to, const Heads<const typename P::T> &m, size_t row, int dir,
                   int head, int there) {
    typedef typename P::T T;
    constexpr int PIECES = P::W * (int)sizeof(T) / 16, EACH = 16 / (int)sizeof(T);
    constexpr int TOTAL = ROWS * P::PL * PIECES;
    const T *from = m.p + (dir * m.rows + row) * m.ld + (size_t)head * P::W;
#pragma unroll
    for (int i0 = 0; i0 < TOTAL; i0 += THREADS) {
        const int i = i0 + threadIdx.x;
        if (TOTAL % THREADS == 0 || i < TOTAL) {
            const int c = i % PIECES, pl = (i / PIECES) % P::PL, r = i / (PIECES * P::PL);
            const bool ok = r < there;
            copy16(to + P::offset(r) + pl * P::BYTES + c * 16,
                   from + (ok ? (size_t)r * m.ld : 0) + pl * m.plane + c * EACH, ok);
        }
    }
}

// What a row (or, with keys as rows, a column) of queries brings along.
template <class Acc> struct Query {
    Acc start, shift, at_top;
    int top;
};

// ---- The kernel ------------------------------------------------------------------------

// GENERAL: with score biases or a soft cap
template <class P, class C, bool GENERAL>
__global__ void __launch_bounds__(C::THREADS, C::BLOCKS)
    core(const __grid_constant__ Args<typename P::Store> a) {
    if constexpr (!needed<P, C>()) {
        __trap(); // rather than leave an output as it was
        return;
    }
    typedef typename P::T T;
    typedef typename P::Acc Acc;
    constexpr int MT = C::MT, BC = C::BC, CH = C::CHUNK, NT = CH / 8, OC = C::OC;
    constexpr int ROWS = C::ROWS, STAGES = C::STAGES, THREADS = C::THREADS, W = P::W;
    constexpr int MODE = C::MODE;
    constexpr bool KEYS = keys_are_rows(MODE), X = needs_x(MODE), EXACT = P::EXACT;
    constexpr bool ONE = STAGES == 0; // one tile at a time
    constexpr bool HELD1 = C::HELD & 1, HELD2 = C::HELD & 2, PARTIAL = C::PARTIAL;
    constexpr bool TWO = MODE == GKV;
    static_assert(!ONE || (BC == CH && !TWO), "a tile is read once for each use");
    extern __shared__ __align__(128) char memory[];
    const uint32_t sm = shared_address(memory);
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;

    // which block this is
    const int row_heads = KEYS ? a.kv : a.heads, pieces = W / OC;
    const int inner = row_heads * pieces * a.dirs;
    const int task = a.head_major ? blockIdx.x % a.ntasks : blockIdx.x / inner;
    int rest = a.head_major ? blockIdx.x / a.ntasks : blockIdx.x % inner;
    const int head = rest % row_heads;
    rest /= row_heads;
    const int piece = rest % pieces, dir = rest / pieces;
    const int input = a.tasks[task].input, r0 = a.tasks[task].row;
    if (a.active && !a.active[input]) return;
    const int n = a.n[input];
    const size_t base = a.base[input], pad = a.pad[input];
    const int share = a.heads / a.kv;
    const int other = KEYS ? head * share : head / share; // head of the streamed operands

    // stationary operands
    const uint32_t area = sm + C::KEPT;
    const uint32_t st1 = HELD1 ? area : sm;
    const uint32_t st2 = HELD2 ? area + (HELD1 ? C::STAT : 0) : sm + (HELD1 ? 0 : C::STAT);
    load_tile<P, ROWS, THREADS>(st1, a.s1, base + r0, dir, head, n - r0);
    if (X) load_tile<P, ROWS, THREADS>(st2, a.s2, base + r0, dir, head, n - r0);
    copy_commit();
    copy_wait<0>();
    __syncthreads();
    const int wr = warp * 16 * MT;
    typename P::A q1[MT][HELD1 ? P::STEPS : 1], q2[MT][X && HELD2 ? P::STEPS : 1];
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int k = 0; k < P::STEPS; k++) {
            if (HELD1) P::load_a(q1[m][HELD1 ? k : 0], st1, wr + 16 * m, k, lane);
            if (X && HELD2) P::load_a(q2[m][X && HELD2 ? k : 0], st2, wr + 16 * m, k, lane);
        }
    if (C::HELD) __syncthreads();

    // columns that any row of the block, all of them, and this warp see
    const int w0 = r0 + wr, r_end = min(r0 + ROWS, n), w_end = min(w0 + 16 * MT, n);
    const int *first = a.first + pad, *last = a.last + pad;
    const int from = first[r0], to = last[r_end - 1];
    const int all_from = first[r_end - 1], all_to = last[r0];
    const int warp_from = w0 < n ? first[w0] : 0, warp_to = w0 < n ? last[w_end - 1] : 0;
    const int it0 = from / BC, tiles = to > from ? (to + BC - 1) / BC - it0 : 0;
    const int total = tiles * (KEYS ? share : 1);

    Query<Acc> row[MT][2];
    Acc rs[MT][2];
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            rs[m][h] = 0;
            if (!KEYS) {
                const size_t r = pad + w0 + 16 * m + 8 * h + g, i = head * a.padded + r;
                const size_t k = ((size_t)dir * a.heads + head) * a.padded + r;
                row[m][h].start = a.st.start[i];
                if (X) row[m][h].shift = a.st.shift[k];
                if (EXACT && MODE == GQ) row[m][h].at_top = a.st.at_top[k];
                if (EXACT || MODE == OUT) row[m][h].top = a.st.top[i];
                if (MODE == OUT && !leads(a.st.inverse[i])) row[m][h].top = -1;
            }
        }
    Acc acc[MT][OC / 8][4] = {}, acc2[TWO ? MT : 1][OC / 8][4] = {};

    auto fetch_columns = [&](int step, uint32_t at) {
        if (!KEYS) return; // padded statistics: nothing is read beyond them
        constexpr int EACH = 16 / (int)sizeof(Acc), V = BC / EACH;
        const int h = other + step / tiles, it = it0 + step % tiles;
        const size_t i = h * a.padded + pad + (size_t)it * BC;
        const size_t k = ((size_t)dir * a.heads + h) * a.padded + pad + (size_t)it * BC;
        for (int e = threadIdx.x; e < V * (EXACT ? 4 : 2) + (EXACT ? BC / 4 : 0);
             e += THREADS) {
            const int which = e / V, c = e % V * EACH;
            if (EXACT && e >= 4 * V)
                copy16(at + e * 16, a.st.top + i + (e - 4 * V) * 4, true);
            else
                copy16(at + e * 16,
                       which == 0   ? a.st.start + i + c
                       : which == 1 ? a.st.shift + k + c
                       : which == 2 ? a.st.inverse + i + c
                                    : a.st.at_top + k + c,
                       true);
        }
    };
    auto fetch_tile = [&](const Heads<const T> &m, int step, uint32_t to_) {
        const int s = KEYS ? step / tiles : 0, it = it0 + (KEYS ? step % tiles : step);
        load_tile<P, BC, THREADS>(to_, m, base + (size_t)it * BC, dir, other + s,
                                  n - it * BC);
    };
    auto fetch = [&](int step, int stage) {
        const uint32_t to_ = area + stage * C::STAGE;
        fetch_tile(a.t1, step, to_);
        fetch_tile(a.t2, step, to_ + C::TILE);
        if (MODE == JVP) {
            fetch_tile(a.t3, step, to_ + 2 * C::TILE);
            fetch_tile(a.t4, step, to_ + 3 * C::TILE);
        }
        fetch_columns(step, to_ + C::STREAMS * C::TILE);
    };
    // in place of the one tile that was there
    auto bring = [&](const Heads<const T> &m, int step) {
        __syncthreads();
        fetch_tile(m, step, area);
        copy_commit();
        copy_wait<0>();
        __syncthreads();
    };
    if (STAGES > 1) {
#pragma unroll
        for (int s = 0; s < STAGES - 1; s++) {
            if (s < total) fetch(s, s);
            copy_commit();
        }
    }
    int stage = 0;
    for (int step = 0; step < total; step++) {
        if (ONE) { // its tiles are read when they are needed
            __syncthreads();
            fetch_columns(step, area + C::TILE);
            copy_commit();
        } else if (STAGES == 1) {
            __syncthreads();
            fetch(step, 0);
            copy_commit();
            copy_wait<0>();
            __syncthreads();
        } else {
            copy_wait<STAGES - 2>();
            __syncthreads();
            const int next = step + STAGES - 1;
            int next_stage = stage + STAGES - 1;
            if (next_stage >= STAGES) next_stage -= STAGES;
            if (next < total) fetch(next, next_stage);
            copy_commit();
        }
        constexpr int NEXT = ONE ? 0 : C::TILE;
        const uint32_t T1 = area + stage * C::STAGE, T2 = T1 + NEXT, T3 = T2 + NEXT,
                       T4 = T3 + NEXT, TS = T1 + (ONE ? 1 : C::STREAMS) * C::TILE;
        if (++stage >= STAGES) stage = 0;
        const int c0 =
            (it0 + (KEYS ? step % tiles : step)) * BC; // first column of the tile
        const int qhead = KEYS ? other + step / tiles : head;
        const uint32_t oc = piece * OC * (int)sizeof(T);

        Acc part[PARTIAL ? MT : 1][OC / 8][4], part2[PARTIAL && TWO ? MT : 1][OC / 8][4];
        if (PARTIAL) {
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int j = 0; j < OC / 8; j++)
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        part[PARTIAL ? m : 0][j][e] = 0;
                        if (TWO) part2[PARTIAL && TWO ? m : 0][j][e] = 0;
                    }
        }
        Acc(*sum1)[OC / 8][4] = PARTIAL ? part : acc;
        Acc(*sum2)[OC / 8][4] = PARTIAL ? part2 : acc2;

        auto body = [&](auto masked) { // some scores are not seen
            constexpr bool MASKED = decltype(masked)::value;
            constexpr int UNROLL = MASKED ? 1 : BC / CH;
#pragma unroll UNROLL
            for (int ch = 0; ch < BC; ch += CH) {
                const int k0 = c0 + ch;
                if (!ONE && MASKED && (k0 >= warp_to || k0 + CH <= warp_from)) continue;
                Acc s[MT][NT][4], x[X ? MT : 1][NT][4];
                Query<Acc> col[NT][2];
                Acc col_inverse[NT][2];
                // directions or values first where keys are needed last
                if (ONE) bring(X && MODE != JVP ? a.t2 : a.t1, step);
#pragma unroll
                for (int i = 0; i < NT; i++) {
                    if (KEYS) {
                        const uint32_t p = TS + (ch + 8 * i + 2 * t) * C::ACC;
                        load_pair(col[i][0].start, col[i][1].start, p);
                        if (X) load_pair(col[i][0].shift, col[i][1].shift, p + BC * C::ACC);
                        if (EXACT) {
                            load_pair(col_inverse[i][0], col_inverse[i][1],
                                      p + 2 * BC * C::ACC);
                            if (X)
                                load_pair(col[i][0].at_top, col[i][1].at_top,
                                          p + 3 * BC * C::ACC);
                            if (X)
                                load_pair(col[i][0].top, col[i][1].top,
                                          TS + 4 * BC * C::ACC + (ch + 8 * i + 2 * t) * 4);
                        }
                    }
#pragma unroll
                    for (int m = 0; m < MT; m++)
#pragma unroll
                        for (int e = 0; e < 4; e++) {
                            const Query<Acc> &q = KEYS ? col[i][e & 1] : row[m][e >> 1];
                            s[m][i][e] = EXACT || GENERAL ? (Acc)0 : q.start;
                            if (X)
                                x[X ? m : 0][i][e] =
                                    GENERAL && MODE == JVP ? (Acc)0 : q.shift;
                        }
                }
                // s += rows times keys, x += their derivatives: what FIRST and SECOND hold
                auto multiply = [&](auto first_, auto second_) {
                    constexpr bool FIRST = decltype(first_)::value,
                                   SECOND = X && decltype(second_)::value;
#pragma unroll C::UNROLL
                    for (int k = 0; k < P::STEPS; k++) {
                        typename P::A a1[MT], a2[MT];
                        typename P::B b1[NT], b2[NT];
#pragma unroll
                        for (int m = 0; m < MT; m++) {
                            if (HELD1)
                                a1[m] = q1[m][HELD1 ? k : 0];
                            else if (FIRST || MODE == JVP)
                                P::load_a(a1[m], st1, wr + 16 * m, k, lane);
                            if (X) {
                                if (HELD2)
                                    a2[m] = q2[m][X && HELD2 ? k : 0];
                                else if (MODE == JVP ? FIRST : SECOND)
                                    P::load_a(a2[m], st2, wr + 16 * m, k, lane);
                            }
                        }
#pragma unroll
                        for (int i = 0; i < NT; i += 2) {
                            if (FIRST) P::load_b2(b1 + i, T1, ch + 8 * i, k, lane);
                            if (SECOND) P::load_b2(b2 + i, T2, ch + 8 * i, k, lane);
                        }
#pragma unroll
                        for (int i = 0; i < NT; i++)
#pragma unroll
                            for (int m = 0; m < MT; m++) {
                                if (X && (MODE == JVP ? FIRST : SECOND))
                                    P::mma(x[X ? m : 0][i], a2[m],
                                           MODE == JVP ? b1[i] : b2[i]);
                                if (FIRST) P::mma(s[m][i], a1[m], b1[i]);
                            }
                        if (MODE == JVP && SECOND) {
#pragma unroll
                            for (int i = 0; i < NT; i++)
#pragma unroll
                                for (int m = 0; m < MT; m++)
                                    P::mma(x[X ? m : 0][i], a1[m], b2[i]);
                        }
                    }
                };
                typedef std::true_type yes;
                typedef std::false_type no;
                if constexpr (!ONE) {
                    multiply(yes(), yes());
                } else if constexpr (MODE == JVP) {
                    multiply(yes(), no());
                    bring(a.t2, step);
                    multiply(no(), yes());
                } else if constexpr (X) {
                    multiply(no(), yes());
                    bring(a.t1, step);
                    multiply(yes(), no());
                } else {
                    multiply(yes(), no());
                }
                // s becomes P, x becomes U
#pragma unroll
                for (int m = 0; m < MT; m++)
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        const int r = w0 + 16 * m + 8 * h + g;
                        const int lo = MASKED ? __ldg(first + r) : 0;
                        const int hi = MASKED ? __ldg(last + r) : 0;
#pragma unroll
                        for (int i = 0; i < NT; i++)
#pragma unroll
                            for (int w = 0; w < 2; w++) {
                                const int e = 2 * h + w, c = k0 + 8 * i + 2 * t + w;
                                const Query<Acc> &q = KEYS ? col[i][w] : row[m][h];
                                const int key = KEYS ? r : c, query = KEYS ? c : r;
                                const bool seen = !MASKED || (c >= lo && c < hi);
                                Acc v = s[m][i][e], slope = 1;
                                if (GENERAL) {
                                    if (a.cap > 0) v = soft_cap(v, a.cap, slope);
                                    if (a.key_bias && seen) v += a.key_bias[pad + key];
                                    if (a.distance && seen)
                                        v += a.distance[(size_t)qhead * (2 * a.far - 1) +
                                                        (a.far - 1 + key - query)];
                                    if (!EXACT) v += q.start;
                                }
                                if (EXACT) v = v - q.start + (Acc)P::SHIFT;
                                Acc p = exp2_of(v);
                                if (EXACT && KEYS) p *= col_inverse[i][w];
                                if (MODE == OUT && key == q.top) p = 0;
                                if (!seen) p = 0;
                                s[m][i][e] = p;
                                if (MODE == OUT) rs[m][h] += p;
                                if (X) {
                                    Acc y = x[X ? m : 0][i][e];
                                    if (GENERAL && MODE == JVP) y = slope * y + q.shift;
                                    if (EXACT && key == q.top)
                                        y = MODE == JVP ? 0 : q.at_top;
                                    Acc u = p * y;
                                    if (GENERAL && MODE != JVP) u *= slope;
                                    if (!seen) u = 0;
                                    if (MODE == JVP) rs[m][h] += u;
                                    x[X ? m : 0][i][e] = u;
                                }
                            }
                    }
#pragma unroll
                for (int k = 0; k < CH / P::STEP; k++) {
                    typename P::A ap[MT], au[MT];
#pragma unroll
                    for (int m = 0; m < MT; m++) {
                        if (X) P::from_scores(au[m], x[X ? m : 0], k);
                        if (MODE != GQ && MODE != GK) P::from_scores(ap[m], s[m], k);
                    }
                    const int key = ch + k * P::STEP;
                    if (MODE == JVP && !ONE) {
                        P::template update<MT, OC>(sum1, au, T3 + oc, key, lane);
                        P::template update<MT, OC>(sum1, ap, T4 + oc, key, lane);
                    }
                    if (MODE == GQ || MODE == GK)
                        P::template update<MT, OC>(sum1, au, T1 + oc, key, lane);
                    if (!ONE && (MODE == GKV || MODE == GV || MODE == OUT))
                        P::template update<MT, OC>(sum1, ap, T2 + oc, key, lane);
                    if constexpr (TWO)
                        P::template update<MT, OC>(sum2, au, T1 + oc, key, lane);
                }
                // sum += w times the tile of m
                auto spread = [&](Acc(*w)[NT][4], const Heads<const T> &m) {
                    bring(m, step);
#pragma unroll
                    for (int k = 0; k < CH / P::STEP; k++) {
                        typename P::A aw[MT];
#pragma unroll
                        for (int i = 0; i < MT; i++) P::from_scores(aw[i], w[i], k);
                        P::template update<MT, OC>(sum1, aw, T1 + oc, k * P::STEP, lane);
                    }
                };
                if constexpr (ONE && MODE == JVP) {
                    spread(x, a.t3);
                    spread(s, a.t4);
                }
                if constexpr (ONE && (MODE == GV || MODE == OUT)) spread(s, a.t2);
            }
        };
        if (!GENERAL && c0 >= all_from && c0 + BC <= all_to)
            body(std::false_type());
        else
            body(std::true_type());
        if (PARTIAL) {
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int j = 0; j < OC / 8; j++)
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        acc[m][j][e] += part[PARTIAL ? m : 0][j][e];
                        if (TWO)
                            acc2[TWO ? m : 0][j][e] += part2[PARTIAL && TWO ? m : 0][j][e];
                    }
        }
    }

    const Acc unshift = (Acc)1 / (Acc)(1 << P::SHIFT);
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            Acc sum = rs[m][h];
            if (MODE == JVP || MODE == OUT) {
                sum += __shfl_xor_sync(~0u, sum, 1);
                sum += __shfl_xor_sync(~0u, sum, 2);
            }
            const int r = w0 + 16 * m + 8 * h + g;
            if (r >= n) continue;
            const size_t at = head * a.padded + pad + r;
            const Acc factor = unshift * (EXACT && !KEYS ? a.st.inverse[at] : (Acc)1);
            const Acc sink = !KEYS && a.st.sink ? a.st.sink[at] : (Acc)0;
            const size_t token = base + r;
            const int c1 = head * W + piece * OC;
            if (MODE == JVP || MODE == OUT) {
                sum *= factor; // the mean of dS - c, or of the others' part in P
                if (MODE == JVP) sum += row[m][h].shift * sink;
                if (MODE == OUT) sum += sink;
                const bool lead = leads(a.st.inverse[at]);
                const T *v =
                    a.v.p + (base + a.st.top[at]) * a.v.ld + (size_t)other * W + piece * OC;
                Acc *kept = a.output + token * (size_t)(a.heads * W) + c1;
                T *o = MODE == JVP ? a.o1.p + (dir * a.o1.rows + token) * a.o1.ld + c1
                                   : nullptr;
#pragma unroll
                for (int j = 0; j < OC / 8; j++)
#pragma unroll
                    for (int w = 0; w < 2; w++) {
                        const int f = 8 * j + 2 * t + w;
                        const Acc value = acc[m][j][2 * h + w] * factor;
                        const Acc v_top = lead ? P::get(v + f, a.v.plane) : (Acc)0;
                        if (MODE == JVP)
                            P::put(o + f, a.o1.plane,
                                   (value - sum * (v_top + kept[f])) * (Acc)a.scale);
                        else
                            kept[f] = value - sum * v_top;
                    }
            } else {
                const Acc out =
                    factor * (Acc)a.scale * (a.row_scale ? a.row_scale[token] : (Acc)1);
                T *o = a.o1.p + (dir * a.o1.rows + token) * a.o1.ld + c1;
                T *o2 = TWO ? a.o2.p + (dir * a.o2.rows + token) * a.o2.ld + c1 : nullptr;
#pragma unroll
                for (int j = 0; j < OC / 8; j++)
#pragma unroll
                    for (int w = 0; w < 2; w++) {
                        const int f = 8 * j + 2 * t + w;
                        P::put(o + f, a.o1.plane, acc[m][j][2 * h + w] * out);
                        if (TWO)
                            P::put(o2 + f, a.o2.plane,
                                   acc2[TWO ? m : 0][j][2 * h + w] * out);
                    }
            }
        }
}

#endif
