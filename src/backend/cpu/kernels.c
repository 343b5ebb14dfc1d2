/* kernels.c - the fused attention products of one head.
 *
 * By hand, because a BLAS called on tiles of this size runs at 0.6-0.7 of its own large
 * rate, and nobody has fused J and J^T of attention on a CPU.  attn/ref.c is the readable
 * twin.  Compiled once per instruction set and precision: see simd.h.
 *
 * Work is cut into tiles of ROWS queries by KEYS keys, which stay in the L2 cache; inside a
 * tile everything is a product of at most 6 rows by NR columns held in registers, with the
 * softmax applied before the block leaves them.  Sums over keys and over rows run in an
 * order fixed by the tiles alone, so results do not depend on the number of threads.
 *
 * The softmax derivative is shifted by the value at the row's largest entry ("top"):
 *     dP_ij = P_ij ((dS_ij - dS_i,top) - sum_l P_il (dS_il - dS_i,top))
 * with dS_ij = cap'(q_i.k_j) (dq_i.k_j + q_i.dk_j) where scores are capped.
 * In a nearly one-hot row the unshifted form loses every digit.  The shift is computed with
 * the same sequence of multiply-adds as the tile, so the top entry becomes exactly zero. */
#include "backend/cpu/tiles.h"

#include <math.h>

/* ---- row statistics ------------------------------------------------------------------ */

/* Scores of a block into tile, -infinity where masked; 0 when a visible one is not finite.
 */
INLINE int score_block(const int mr, const lipsc_head *h, size_t i, size_t j, int masked,
                       const T *panel, T *tile) {
    const V nothing = v_set(-(T)INFINITY);
    V acc[MR][NV];
    VI bad = {0};
    block_zero(mr, acc);
    block_fma(mr, acc, h->kw, (const T *)h->q + i * h->kw, h->kw, 1, panel, NR);
    finish_scores(mr, h, i, j, acc, NULL);
    for (int r = 0; r < mr; r++) {
        VI seen[NV];
        visible(h, i + (size_t)r, j, seen);
        for (int col = 0; col < NV; col++) {
            V s = acc[r][col];
            const VI infinite = ~(s - s == v_set(0));
            bad |= masked ? infinite & seen[col] : infinite;
            if (masked) s = v_keep(s, seen[col]) + v_keep(nothing, ~seen[col]);
            v_store(tile + r * STRIDE + col * VL, s);
        }
    }
    I any = 0;
    for (int l = 0; l < VL; l++) any |= bad[l];
    return !any;
}

/* Scores of rows i .. i+mr-1 and the panels of span into tile (mr rows). */
static int score_rows(size_t mr, const lipsc_head *h, size_t i, key_span span, size_t j0,
                      const T *panels, T *tile) {
    int finite = 1;
    for (size_t j = span.from; j < span.end; j += NR) {
        const T *panel = panels + (j - j0) * h->kw;
        T *t = tile + (j - j0);
        const int masked = is_masked(h, i, mr, j);
#define CALL(m) finite &= score_block(m, h, i, j, masked, panel, t)
        FOR_BLOCK_SIZE(mr, CALL)
#undef CALL
    }
    return finite;
}

/* Takes the scores s[0 .. len-1] of keys j.. into the running maximum and sum of row i; len
 * is a multiple of NR. */
static void add_scores(const lipsc_head *h, size_t i, size_t j, const T *s, size_t len) {
    T *rowmax = (T *)h->rowmax + i, *sum = (T *)h->rowinv + i;
    V most = v_load(s);
    for (size_t l = VL; l < len; l += VL) most = v_max(v_load(s + l), most);
    T largest = most[0];
    for (int l = 1; l < VL; l++)
        if (most[l] > largest) largest = most[l];
    if (largest > *rowmax) {
        size_t at = 0;
        while (s[at] != largest) at++;
        h->top[i] = j + at;
        *sum *=
            (T)exp((double)(*rowmax - largest)); /* 0 at the first tile: exp(-infinity) */
        *rowmax = largest;
    } else if (!(largest > -(T)INFINITY)) {
        return; /* this row sees nothing here */
    }
    V total = v_set(0);
    for (size_t l = 0; l < len; l += VL)
        total = total + v_exp2((v_load(s + l) - v_set(*rowmax)) * v_set(LOG2E));
    for (int l = 0; l < VL; l++) *sum += total[l];
}

/* excess of rows i .. i+mr-1 += P z over the keys of span, the top entry left out; rest
 * gathers the sum of these P. */
static void add_excess(size_t mr, const lipsc_head *h, size_t i, key_span span, size_t j0,
                       const T *panels, T *tile, T *rest) {
    for (size_t j = span.from; j < span.end; j += NR) {
        const T *panel = panels + (j - j0) * h->kw;
        T *t = tile + (j - j0);
        const int masked = is_masked(h, i, mr, j);
#define CALL(m) store_softmax(m, h, i, j, masked, panel, t, NULL)
        FOR_BLOCK_SIZE(mr, CALL)
#undef CALL
    }
    for (size_t r = 0; r < mr; r++) {
        T *row = tile + r * STRIDE;
        const size_t top = h->top[i + r];
        if (top >= span.from && top < span.end) row[top - j0] = 0;
        for (size_t j = span.from; j < span.end; j++) rest[r] += row[j - j0];
    }
    for (size_t c = 0; c < h->vw; c += NR)
        accumulate_rows(mr, span.end - span.from, tile + (span.from - j0),
                        (const T *)h->z + span.from * h->vw + c, h->vw,
                        (T *)h->excess + i * h->vw + c);
}

/* A sink takes its part of the sums of rows i0..i1-1. */
static void add_sink(const lipsc_head *h, size_t i0, size_t i1) {
    T *rowmax = h->rowmax, *sum = h->rowinv, *mass = h->sink_mass;
    const T sink = (T)h->sink;
    for (size_t i = i0; i < i1; i++) {
        const T largest = sink > rowmax[i] ? sink : rowmax[i];
        const T own = (T)exp((double)(sink - largest));
        sum[i] = sum[i] * (T)exp((double)(rowmax[i] - largest)) + own;
        rowmax[i] = largest;
        mass[i] = own / sum[i];
    }
}

/* The derivative of the cap at the largest score of rows i0..i1-1, with the very operations
 * of a tile. */
static void set_top_slopes(const lipsc_head *h, size_t i0, size_t i1) {
    const size_t kw = h->kw;
    for (size_t i = i0; i < i1; i++) {
        const T *q = (const T *)h->q + i * kw, *k = (const T *)h->k + h->top[i] * kw;
        T sum = 0;
        V slope;
        for (size_t l = 0; l < kw; l++) sum = s_fma(q[l], k[l], sum);
        v_cap(v_set(sum), (T)h->soft_cap, &slope);
        ((T *)h->top_slope)[i] = slope[0];
    }
}

/* First pass: rowmax, top and sum of exponentials, tile by tile.  Second pass, with these
 * known: excess_i = sum_{j != top} P_ij (z_j - z_top), which keeps its digits when P_top is
 * 1 up to rounding; a sink is a token whose z is zero. */
static int statistics(const lipsc_head *h, size_t i0, size_t i1, void *scratch) {
    T *panels = scratch, *tile = panels + KEYS * h->kw, *rest = tile + ROWS * STRIDE;
    T *rowmax = h->rowmax, *rowinv = h->rowinv, *excess = h->excess;
    const size_t vw = h->vw, first = h->lo[i0] / KEYS * KEYS, last = h->hi[i1 - 1];
    int finite = 1;
    for (size_t i = i0; i < i1; i++) {
        rowmax[i] = -(T)INFINITY;
        rowinv[i] = 0; /* the sum, until the end of the pass */
    }
    for (size_t j0 = first; j0 < last; j0 += KEYS) {
        const size_t j1 = min_size(last, j0 + KEYS);
        pack_keys(h->k, h->kw, j0, j1, panels);
        for (size_t i = i0, mr; i < i1; i += mr) {
            mr = next_rows(i1 - i);
            const key_span span = span_of(h, i, mr, j0, j1);
            if (span.from >= span.end) continue;
            finite &= score_rows(mr, h, i, span, j0, panels, tile);
            const size_t len = (span.end - span.from + NR - 1) / NR * NR;
            for (size_t r = 0; finite && r < mr; r++)
                add_scores(h, i + r, span.from, tile + r * STRIDE + (span.from - j0), len);
        }
    }
    if (!finite) return 0;
    if (h->has_sink) add_sink(h, i0, i1);
    if (h->soft_cap > 0) set_top_slopes(h, i0, i1);
    for (size_t i = i0; i < i1; i++) rowinv[i] = 1 / rowinv[i];
    memset(excess + i0 * vw, 0, (i1 - i0) * vw * sizeof(T));
    for (size_t i = i0; i < i1; i++) /* what is not at the top */
        rest[i - i0] = h->has_sink ? ((const T *)h->sink_mass)[i] : 0;
    for (size_t j0 = first; j0 < last; j0 += KEYS) {
        const size_t j1 = min_size(last, j0 + KEYS);
        pack_keys(h->k, h->kw, j0, j1, panels);
        for (size_t i = i0, mr; i < i1; i += mr) {
            mr = next_rows(i1 - i);
            const key_span span = span_of(h, i, mr, j0, j1);
            if (span.from < span.end)
                add_excess(mr, h, i, span, j0, panels, tile, rest + i - i0);
        }
    }
    for (size_t i = i0; i < i1; i++) {
        const T *ztop = (const T *)h->z + h->top[i] * vw;
        for (size_t c = 0; c < vw; c++) excess[i * vw + c] -= rest[i - i0] * ztop[c];
    }
    return 1;
}

static void head_output(const lipsc_head *h, size_t i0, size_t i1, void *out) {
    const T *z = h->z, *excess = h->excess;
    T *o = out;
    for (size_t i = i0; i < i1; i++)
        for (size_t c = 0; c < h->vw; c++)
            o[i * h->vw + c] = z[h->top[i] * h->vw + c] + excess[i * h->vw + c];
}

/* ---- J: out_i = sum_j P_ij dS'_ij (z_j - o_i) + sum_j P_ij dz_j --------------------- */

/* acc times the derivatives of the cap, where there is one */
INLINE void apply_slopes(const int mr, const lipsc_head *h, const T *slope, V acc[MR][NV]) {
    if (!(h->soft_cap > 0)) return;
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++)
        for (int col = 0; col < NV; col++)
            acc[r][col] = acc[r][col] * v_load(slope + r * STRIDE + col * VL);
}

INLINE void forward_block(const int mr, const lipsc_head *h, const T *dq, const T *shift,
                          T *mean, size_t i, size_t j, int masked, int fresh,
                          const T *kpanel, const T *dkpanel, T *ptile, T *wtile, T *slope) {
    const size_t kw = h->kw;
    const T *q = (const T *)h->q + i * kw;
    V acc[MR][NV];
    if (fresh)
        store_softmax(mr, h, i, j, masked, kpanel, ptile, slope); /* for every direction */
    block_zero(mr, acc);
    block_fma(mr, acc, kw, dq + i * kw, kw, 1, kpanel, NR);
    block_fma(mr, acc, kw, q, kw, 1, dkpanel, NR);
    apply_slopes(mr, h, slope, acc);
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++) {
        const V top = v_set(shift[i + (size_t)r]);
        V sum;
        for (int col = 0; col < NV; col++) {
            const int at = r * STRIDE + col * VL;
            const V w = (acc[r][col] - top) * v_load(ptile + at);
            v_store(wtile + at, w);
            sum = col ? sum + w : w;
        }
        T *m = mean + (size_t)r * VL; /* one partial sum per lane */
        v_store(m, v_load(m) + sum);
    }
}

/* One row tile [i0,i1) against the keys [j0,j1) for all directions. */
static void forward_tile(const lipsc_head *h, const lipsc_head_dirs *d, size_t i0,
                         size_t i1, size_t j0, size_t j1, const T *kpanels,
                         const T *dkpanels, T *ptile, T *wtile, T *slopes, T *lanes) {
    const size_t kw = h->kw, vw = h->vw, n = h->n;
    for (size_t dir = 0; dir < d->dirs; dir++) {
        const T *dq = (const T *)d->dq + dir * n * kw;
        const T *shift = (const T *)d->shift + dir * n;
        const T *dpanels = dkpanels + dir * KEYS * kw;
        for (size_t j = j0; j < j1; j += NR)
            for (size_t i = i0, mr; i < i1; i += mr) {
                mr = next_rows(i1 - i);
                const key_span span = span_of(h, i, mr, j0, j1);
                if (j < span.from || j >= span.end) continue;
                const int masked = is_masked(h, i, mr, j), fresh = dir == 0;
                const size_t at = (i - i0) * STRIDE + (j - j0), off = (j - j0) * kw;
                T *sums = lanes + (dir * ROWS + (i - i0)) * VL;
#define CALL(m)                                                              \
    forward_block(m, h, dq, shift, sums, i, j, masked, fresh, kpanels + off, \
                  dpanels + off, ptile + at, wtile + at, slopes + at)
                FOR_BLOCK_SIZE(mr, CALL)
#undef CALL
            }
        for (size_t c = 0; c < vw; c += NR)
            for (size_t i = i0, mr; i < i1; i += mr) {
                mr = next_rows(i1 - i);
                const key_span span = span_of(h, i, mr, j0, j1);
                if (span.from >= span.end) continue;
                const size_t at = (i - i0) * STRIDE + (span.from - j0);
                const size_t keys = span.end - span.from;
                const T *z = (const T *)h->z + span.from * vw + c;
                const T *dz = (const T *)d->dz + (dir * n + span.from) * vw + c;
                T *out = (T *)d->out + (dir * n + i) * vw + c;
#define CALL(m) forward_out(m, wtile + at, ptile + at, keys, z, dz, vw, out)
                FOR_BLOCK_SIZE(mr, CALL)
#undef CALL
            }
    }
}

/* dS at the top entry of rows i0..i1-1: dq_i . k_top + q_i . dk_top */
static void forward_shift(const lipsc_head *h, const lipsc_head_dirs *d, size_t dir,
                          size_t i0, size_t i1) {
    const size_t kw = h->kw, n = h->n;
    const T *dq = (const T *)d->dq + dir * n * kw, *dk = (const T *)d->dk + dir * n * kw;
    T *shift = (T *)d->shift + dir * n;
    for (size_t i = i0; i < i1; i += CHAINS) {
        const size_t rows = min_size(CHAINS, i1 - i);
        const T *a[CHAINS], *b[CHAINS];
        T sum[CHAINS] = {0};
        for (size_t r = 0; r < rows; r++)
            a[r] = dq + (i + r) * kw, b[r] = (const T *)h->k + h->top[i + r] * kw;
        chained_dots(rows, kw, a, b, sum);
        for (size_t r = 0; r < rows; r++)
            a[r] = (const T *)h->q + (i + r) * kw, b[r] = dk + h->top[i + r] * kw;
        chained_dots(rows, kw, a, b, sum);
        for (size_t r = 0; r < rows; r++)
            shift[i + r] =
                h->soft_cap > 0 ? sum[r] * ((const T *)h->top_slope)[i + r] : sum[r];
    }
}

static void forward(const lipsc_head *h, const lipsc_head_dirs *d, size_t i0, size_t i1,
                    void *scratch) {
    const size_t kw = h->kw, vw = h->vw, n = h->n;
    T *kpanels = scratch, *dkpanels = kpanels + KEYS * kw;
    T *ptile = dkpanels + d->dirs * KEYS * kw, *wtile = ptile + ROWS * STRIDE;
    T *slopes = wtile + ROWS * STRIDE;
    T *lanes = slopes + ROWS * STRIDE; /* (dirs, ROWS, VL) partial row sums */
    for (size_t dir = 0; dir < d->dirs; dir++) {
        forward_shift(h, d, dir, i0, i1);
        memset((T *)d->out + (dir * n + i0) * vw, 0, (i1 - i0) * vw * sizeof(T));
        memset((T *)d->mean + dir * n + i0, 0, (i1 - i0) * sizeof(T));
    }
    /* tiles lie on one grid whatever rows a task has, so that sums keep their order */
    const size_t last = h->hi[i1 - 1];
    for (size_t j0 = h->lo[i0] / KEYS * KEYS; j0 < last; j0 += KEYS) {
        const size_t j1 = min_size(last, j0 + KEYS);
        pack_keys(h->k, kw, j0, j1, kpanels);
        for (size_t dir = 0; dir < d->dirs; dir++)
            pack_keys((const T *)d->dk + dir * n * kw, kw, j0, j1,
                      dkpanels + dir * KEYS * kw);
        for (size_t i = i0; i < i1; i += ROWS) {
            const size_t end = min_size(i1, i + ROWS);
            if (h->hi[end - 1] <= j0 || h->lo[i] >= j1) continue;
            memset(lanes, 0, d->dirs * ROWS * VL * sizeof(T));
            forward_tile(h, d, i, end, j0, j1, kpanels, dkpanels, ptile, wtile, slopes,
                         lanes);
            for (size_t dir = 0; dir < d->dirs; dir++)
                for (size_t r = i; r < end; r++) {
                    const T *part = lanes + (dir * ROWS + (r - i)) * VL;
                    T sum = 0;
                    for (int l = 0; l < VL; l++) sum += part[l];
                    ((T *)d->mean)[dir * n + r] += sum;
                }
        }
    }
    for (size_t dir = 0; dir < d->dirs; dir++) /* out_i -= mean_i o_i */
        for (size_t i = i0; i < i1; i++) {
            T m = ((const T *)d->mean)[dir * n + i];
            if (h->has_sink) /* what the shift leaves where P_i does not sum to one */
                m -= ((const T *)d->shift)[dir * n + i] * ((const T *)h->sink_mass)[i];
            const T *ztop = (const T *)h->z + h->top[i] * vw;
            const T *excess = (const T *)h->excess + i * vw;
            T *out = (T *)d->out + (dir * n + i) * vw;
            for (size_t c = 0; c < vw; c++) out[c] -= m * (ztop[c] + excess[c]);
        }
}

/* ---- J^T ----------------------------------------------------------------------------- */

/* dS_ij = P_ij ((g_i.z_j - g_i.z_top) - g_i.excess_i),
 * gq_i += sum_j dS_ij k_j,  gk_j += sum_i dS_ij q_i,  gz_j += sum_i P_ij g_i */

static void adjoint_rows(const lipsc_head *h, const lipsc_head_dirs *d, size_t i0,
                         size_t i1) {
    const size_t vw = h->vw, n = h->n;
    for (size_t dir = 0; dir < d->dirs; dir++)
        for (size_t i = i0; i < i1; i += CHAINS) {
            const size_t rows = min_size(CHAINS, i1 - i);
            const T *g[CHAINS], *b[CHAINS];
            T top[CHAINS] = {0}, mean[CHAINS] = {0};
            for (size_t r = 0; r < rows; r++) {
                g[r] = (const T *)d->g + (dir * n + i + r) * vw;
                b[r] = (const T *)h->z + h->top[i + r] * vw;
            }
            chained_dots(rows, vw, g, b, top);
            for (size_t r = 0; r < rows; r++) b[r] = (const T *)h->excess + (i + r) * vw;
            chained_dots(rows, vw, g, b, mean);
            for (size_t r = 0; r < rows; r++) {
                ((T *)d->shift)[dir * n + i + r] = top[r];
                ((T *)d->mean)[dir * n + i + r] = mean[r];
            }
        }
}

INLINE void adjoint_block(const int mr, const lipsc_head *h, const T *g, const T *shift,
                          const T *mean, size_t i, size_t j, int masked, int fresh,
                          const T *kpanel, const T *zpanel, T *ptile, T *stile, T *slope) {
    V acc[MR][NV];
    if (fresh) store_softmax(mr, h, i, j, masked, kpanel, ptile, slope);
    block_zero(mr, acc);
    block_fma(mr, acc, h->vw, g + i * h->vw, h->vw, 1, zpanel, NR);
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++) {
        const V top = v_set(shift[i + (size_t)r]), m = v_set(mean[i + (size_t)r]);
        for (int col = 0; col < NV; col++) {
            const V p = v_load(ptile + r * STRIDE + col * VL);
            acc[r][col] = ((acc[r][col] - top) - m) * p;
        }
    }
    apply_slopes(mr, h, slope, acc);
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++)
        for (int col = 0; col < NV; col++)
            v_store(stile + r * STRIDE + col * VL, acc[r][col]);
}

static void adjoint_tile(const lipsc_head *h, const lipsc_head_dirs *d, size_t i0,
                         size_t i1, size_t j0, size_t j1, const T *kpanels,
                         const T *zpanels, T *ptile, T *stile, T *slopes) {
    const size_t kw = h->kw, vw = h->vw, n = h->n;
    for (size_t dir = 0; dir < d->dirs; dir++) {
        const T *g = (const T *)d->g + dir * n * vw;
        const T *shift = (const T *)d->shift + dir * n,
                *mean = (const T *)d->mean + dir * n;
        T *gq = (T *)d->gq + dir * n * kw, *gk = (T *)d->gk + dir * n * kw;
        T *gz = (T *)d->gz + dir * n * vw;
        for (size_t j = j0; j < j1; j += NR)
            for (size_t i = i0, mr; i < i1; i += mr) {
                mr = next_rows(i1 - i);
                const key_span span = span_of(h, i, mr, j0, j1);
                const size_t at = (i - i0) * STRIDE + (j - j0), off = (j - j0);
                const int fresh = dir == 0;
                if (j < span.from || j >= span.end) {
                    /* a column block may reach into the neighbouring panel: zeros there */
                    zero_block(mr, stile + at);
                    if (fresh) zero_block(mr, ptile + at);
                    continue;
                }
                const int masked = is_masked(h, i, mr, j);
#define CALL(m)                                                                  \
    adjoint_block(m, h, g, shift, mean, i, j, masked, fresh, kpanels + off * kw, \
                  zpanels + off * vw, ptile + at, stile + at, slopes + at)
                FOR_BLOCK_SIZE(mr, CALL)
#undef CALL
            }
        for (size_t c = 0; c < kw; c += NR)
            for (size_t i = i0, mr; i < i1; i += mr) {
                mr = next_rows(i1 - i);
                const key_span span = span_of(h, i, mr, j0, j1);
                if (span.from >= span.end) continue;
                accumulate_rows(mr, span.end - span.from,
                                stile + (i - i0) * STRIDE + (span.from - j0),
                                (const T *)h->k + span.from * kw + c, kw, gq + i * kw + c);
            }
        for (size_t j = j0, mr; j < j1; j += mr) {
            mr = next_rows(j1 - j);
            size_t from, end;
            rows_that_see(h, i0, i1, j, mr, &from, &end);
            if (from >= end) continue;
            const T *s = stile + (from - i0) * STRIDE + (j - j0);
            const T *p = ptile + (from - i0) * STRIDE + (j - j0);
            for (size_t c = 0; c < kw; c += NR)
                accumulate_columns(mr, end - from, s, (const T *)h->q + from * kw + c, kw,
                                   gk + j * kw + c);
            for (size_t c = 0; c < vw; c += NR)
                accumulate_columns(mr, end - from, p, g + from * vw + c, vw,
                                   gz + j * vw + c);
        }
    }
}

static void adjoint(const lipsc_head *h, const lipsc_head_dirs *d, size_t i0, size_t i1,
                    size_t j0, size_t j1, void *scratch) {
    T *kpanels = scratch, *zpanels = kpanels + KEYS * h->kw;
    T *ptile = zpanels + KEYS * h->vw, *stile = ptile + ROWS * STRIDE;
    T *slopes = stile + ROWS * STRIDE;
    for (size_t j = j0; j < j1; j += KEYS) {
        const size_t jend = min_size(j1, j + KEYS);
        if (h->hi[i1 - 1] <= j || h->lo[i0] >= jend) continue;
        pack_keys(h->k, h->kw, j, jend, kpanels);
        pack_keys(h->z, h->vw, j, jend, zpanels);
        for (size_t i = i0; i < i1; i += ROWS) {
            const size_t iend = min_size(i1, i + ROWS);
            if (h->hi[iend - 1] <= j || h->lo[i] >= jend) continue;
            adjoint_tile(h, d, i, iend, j, jend, kpanels, zpanels, ptile, stile, slopes);
        }
    }
}

static size_t scratch_bytes(size_t kw, size_t vw, size_t dirs) {
    const size_t panels = KEYS * (kw + max_size(dirs * kw, vw));
    return (panels + 3 * ROWS * STRIDE + dirs * ROWS * VL) * sizeof(T);
}

/* isa.c chooses among these tables */
extern void NAMED(gemm)(const lipsc_gemm *g, size_t row0, size_t row1, size_t panel0,
                        size_t panel1);
extern const lipsc_gradient_kernels NAMED(gradient);
extern const lipsc_composed_kernels NAMED(composed);
extern const lipsc_kept_kernels NAMED(kept);
#define TABLE NAMED(kernels)
extern const lipsc_kernels TABLE;
const lipsc_kernels TABLE = {NR,         sizeof(T),        scratch_bytes,    NAMED(gemm),
                             statistics, head_output,      forward,          adjoint_rows,
                             adjoint,    &NAMED(gradient), &NAMED(composed), &NAMED(kept)};
