/* tiles.h - what the files of register kernels share: blocks held in registers, packed
 * keys, the softmax of a block, visible ranges.  Compiled once per instruction set and
 * precision, see simd.h; kernels.c explains the tiles. */
#ifndef LIPSC_BACKEND_CPU_TILES_H
#define LIPSC_BACKEND_CPU_TILES_H

#include "backend/cpu/kernels.h"

#include "backend/cpu/simd.h"
#include "core/extreme.h"

enum {
    MR = 6,            /* rows of a register block                                   */
    ROWS = 96,         /* queries of a tile                                          */
    KEYS = 96,         /* keys of a tile: a multiple of NR for every instruction set */
    STRIDE = KEYS + 16 /* row stride of a stored tile; odd in cache lines            */
};

#define LOG2E ((T)1.4426950408889634074)

/* How many of `left` rows the next register block takes: 6, and near the end 4 or 5 rather
 * than a lone row that would leave the multipliers idle. */
static inline size_t next_rows(size_t left) {
    if (left <= MR) return left;
    if (left <= 8) return 4;
    if (left <= 10) return 5;
    return MR;
}

/* acc (mr x NR) += A (mr x len) B (len x NR);  A(r,l) = a[r*ars + l*acs], B row l = b +
 * l*ldb. mr is a constant at every call, so acc lives in registers.  By four: the end of
 * sixteen turns is foreseen by the processor, that of 64 is not. */
INLINE void block_fma(const int mr, V acc[MR][NV], size_t len, const T *a, size_t ars,
                      size_t acs, const T *b, size_t ldb) {
#pragma GCC unroll 4
    for (size_t l = 0; l < len; l++) {
        V row[NV];
#pragma GCC unroll 4
        for (int col = 0; col < NV; col++) row[col] = v_load(b + col * VL);
#pragma GCC unroll 6
        for (int r = 0; r < mr; r++) {
            const V x = v_set(a[(size_t)r * ars]);
#pragma GCC unroll 4
            for (int col = 0; col < NV; col++)
                acc[r][col] = v_fma(x, row[col], acc[r][col]);
        }
        a += acs;
        b += ldb;
    }
}

/* The same while what comes later is asked for, from the address *ask on: `lines` of 64
 * bytes in four turns.  Asked for at once, it would keep waiting what is multiplied now. */
INLINE void block_fma_asking(const int mr, const int lines, V acc[MR][NV], size_t len,
                             const T *a, size_t ars, size_t acs, const T *b,
                             uintptr_t *ask) {
    uintptr_t next = *ask; /* may lie behind all that there is, and is never read */
    size_t l = 0;
    for (; l + 4 <= len; l += 4) {
#pragma GCC unroll 4
        for (int i = 0; i < lines; i++, next += 64)
            __builtin_prefetch((const void *)next, 0, 2);
        block_fma(mr, acc, 4, a + l * acs, ars, acs, b + l * NR, NR);
    }
    block_fma(mr, acc, len - l, a + l * acs, ars, acs, b + l * NR, NR);
    *ask = next;
}

INLINE void block_zero(const int mr, V acc[MR][NV]) {
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++)
        for (int col = 0; col < NV; col++) acc[r][col] = v_set(0);
}

/* c (mr x NR) += acc */
INLINE void block_add(const int mr, V acc[MR][NV], T *c, size_t ldc) {
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++)
        for (int col = 0; col < NV; col++) {
            T *at = c + (size_t)r * ldc + col * VL;
            v_store(at, v_load(at) + acc[r][col]);
        }
}

/* Runs CALL(mr) with mr a literal, so that each block size is compiled on its own. */
#define FOR_BLOCK_SIZE(mr, CALL) \
    switch (mr) {                \
    case 6:                      \
        CALL(6);                 \
        break;                   \
    case 5:                      \
        CALL(5);                 \
        break;                   \
    case 4:                      \
        CALL(4);                 \
        break;                   \
    case 3:                      \
        CALL(3);                 \
        break;                   \
    case 2:                      \
        CALL(2);                 \
        break;                   \
    default:                     \
        CALL(1);                 \
        break;                   \
    }

/* ---- tiles --------------------------------------------------------------------------- */

/* VL columns of `lanes` rows that are w apart, VL at most, as rows of a panel; absent rows
 * are zero. */
static inline void pack_square(const T *src, size_t w, size_t lanes, T *dst) {
#ifdef V_LOW
    V x[VL];
    for (size_t r = 0; r < VL; r++) x[r] = r < lanes ? v_load(src + r * w) : v_set(0);
    v_transpose(x);
    for (size_t l = 0; l < VL; l++) v_store(dst + l * NR, x[l]);
#else
    for (size_t l = 0; l < VL; l++)
        for (size_t r = 0; r < VL; r++) dst[l * NR + r] = r < lanes ? src[r * w + l] : 0;
#endif
}

/* rows j0..j1-1 of src (., w) as panels of NR keys: panel p is (w, NR), absent keys zero; w
 * is a multiple of NR */
static inline void pack_keys(const T *src, size_t w, size_t j0, size_t j1, T *dst) {
    for (size_t j = j0; j < j1; j += NR, dst += w * NR)
        for (size_t lane = 0; lane < NR; lane += VL) {
            const size_t at = min_size(j + lane, j1);
            for (size_t l = 0; l < w; l += VL)
                pack_square(src + at * w + l, w, min_size(VL, j1 - at),
                            dst + l * NR + lane);
        }
}

/* lanes of keys j .. j+NR-1 that row i sees */
INLINE void visible(const lipsc_head *h, size_t i, size_t j, VI seen[NV]) {
    const I first = (I)((ptrdiff_t)h->lo[i] - (ptrdiff_t)j);
    const I end = (I)((ptrdiff_t)h->hi[i] - (ptrdiff_t)j);
    for (int col = 0; col < NV; col++) {
        const VI lane = v_lanes() + col * VL;
        seen[col] = (lane >= first) & (lane < end);
    }
}

/* log weights of keys j .. j+NR-1, 0 without weights and beyond the last token */
INLINE void load_bias(const lipsc_head *h, size_t j, V bias[NV]) {
    for (int col = 0; col < NV; col++) bias[col] = v_set(0);
    if (!h->bias) return;
    T edge[NR];
    for (size_t l = 0; l < NR; l++)
        edge[l] = j + l < h->n ? ((const T *)h->bias)[j + l] : 0;
    for (int col = 0; col < NV; col++) bias[col] = v_load(edge + col * VL);
}

/* c tanh(s / c) and its derivative.  With e = exp(-2 |s| / c):
 *     tanh = (1 - e) / (1 + e),   derivative = 4 e / (1 + e)^2 */
INLINE V v_cap(V s, T cap, V *slope) {
    const V size = v_max(s, -s);
    const V e = v_exp2(size * v_set(-2 * LOG2E / cap));
    const V over = v_set(1) / (v_set(1) + e);
    const V value = v_set(cap) * (v_set(1) - e) * over;
    *slope = v_set(4) * e * over * over;
    const VI below = s < v_set(0);
    const V signed_value = (V)(((VI)value & ~below) | ((VI)-value & below));
    return (V)((VI)signed_value | (VI)(s != s)); /* a NaN stays one */
}

/* The scores of rows i .. i+mr-1 and keys j .. j+NR-1 from the products q.k in acc: capped,
 * with the biases; the derivatives of the cap go into slope, a tile, where it is not NULL.
 */
INLINE void finish_scores(const int mr, const lipsc_head *h, size_t i, size_t j,
                          V acc[MR][NV], T *slope) {
    V bias[NV];
    load_bias(h, j, bias);
    if (h->soft_cap > 0)
#pragma GCC unroll 6
        for (int r = 0; r < mr; r++)
            for (int col = 0; col < NV; col++) {
                V bend;
                acc[r][col] = v_cap(acc[r][col], (T)h->soft_cap, &bend);
                if (slope) v_store(slope + r * STRIDE + col * VL, bend);
            }
    if (h->distance)
#pragma GCC unroll 6
        for (int r = 0; r < mr; r++) {
            const T *d = (const T *)h->distance + (h->n - 1 + j - i - (size_t)r);
            for (int col = 0; col < NV; col++)
                acc[r][col] = acc[r][col] + v_load(d + col * VL);
        }
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++)
        for (int col = 0; col < NV; col++) acc[r][col] = acc[r][col] + bias[col];
}

/* P of rows i .. i+mr-1 and keys j .. j+NR-1 from the products q.k in acc:
 *     P_ij = exp(s_ij - rowmax_i) rowinv_i,   0 where masked */
INLINE void softmax_block(const int mr, const lipsc_head *h, size_t i, size_t j, int masked,
                          V acc[MR][NV], T *slope) {
    const T *rowmax = h->rowmax, *rowinv = h->rowinv;
    finish_scores(mr, h, i, j, acc, slope);
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++) {
        const V top = v_set(rowmax[i + (size_t)r]), inv = v_set(rowinv[i + (size_t)r]);
        for (int col = 0; col < NV; col++) {
            acc[r][col] = v_exp2((acc[r][col] - top) * v_set(LOG2E)) * inv;
        }
        if (masked) {
            VI seen[NV];
            visible(h, i + (size_t)r, j, seen);
            for (int col = 0; col < NV; col++) acc[r][col] = v_keep(acc[r][col], seen[col]);
        }
    }
}

/* The same from q and a panel of keys, into tile; slope as above. */
INLINE void store_softmax(const int mr, const lipsc_head *h, size_t i, size_t j, int masked,
                          const T *panel, T *tile, T *slope) {
    V acc[MR][NV];
    block_zero(mr, acc);
    block_fma(mr, acc, h->kw, (const T *)h->q + i * h->kw, h->kw, 1, panel, NR);
    softmax_block(mr, h, i, j, masked, acc, slope);
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++)
        for (int col = 0; col < NV; col++)
            v_store(tile + r * STRIDE + col * VL, acc[r][col]);
}

/* The keys of tile [j0,j1) that some row of [i, i+mr) sees, from a panel's first key on. */
typedef struct {
    size_t from, end; /* from: first key of a panel; from >= end: none */
} key_span;

static inline key_span span_of(const lipsc_head *h, size_t i, size_t mr, size_t j0,
                               size_t j1) {
    key_span s;
    s.from = max_size(j0, h->lo[i]);
    s.from = j0 + (s.from - j0) / NR * NR;
    s.end = min_size(j1, h->hi[i + mr - 1]);
    return s;
}

static inline int is_masked(const lipsc_head *h, size_t i, size_t mr, size_t j) {
    return j < h->lo[i + mr - 1] || j + NR > h->hi[i];
}

/* c (mr x NR) += A B with A rows either along a tile's rows or, transposed, its columns */
INLINE void accumulate_block(const int mr, size_t len, const T *a, size_t ars, size_t acs,
                             const T *b, size_t ldb, T *c, size_t ldc) {
    V acc[MR][NV];
    block_zero(mr, acc);
    block_fma(mr, acc, len, a, ars, acs, b, ldb);
    block_add(mr, acc, c, ldc);
}

/* out rows += W z + P dz over the keys of a span */
INLINE void forward_out(const int mr, const T *wtile, const T *ptile, size_t keys,
                        const T *z, const T *dz, size_t vw, T *out) {
    V acc[MR][NV];
    block_zero(mr, acc);
    block_fma(mr, acc, keys, wtile, STRIDE, 1, z, vw);
    block_fma(mr, acc, keys, ptile, STRIDE, 1, dz, vw);
    block_add(mr, acc, out, vw);
}

/* c (rows of the tile) += tile B */
static inline void accumulate_rows(size_t mr, size_t len, const T *a, const T *b,
                                   size_t ldb, T *c) {
#define CALL(m) accumulate_block(m, len, a, STRIDE, 1, b, ldb, c, ldb)
    FOR_BLOCK_SIZE(mr, CALL)
#undef CALL
}

/* c (columns of the tile) += tile^T B */
static inline void accumulate_columns(size_t mr, size_t len, const T *a, const T *b,
                                      size_t ldb, T *c) {
#define CALL(m) accumulate_block(m, len, a, 1, STRIDE, b, ldb, c, ldb)
    FOR_BLOCK_SIZE(mr, CALL)
#undef CALL
}

/* Rows of [i0,i1) that see a key of [j, j+keys). */
static inline void rows_that_see(const lipsc_head *h, size_t i0, size_t i1, size_t j,
                                 size_t keys, size_t *from, size_t *end) {
    size_t a = i0, b = i1;
    while (a < b && h->hi[a] <= j) a++;
    while (b > a && h->lo[b - 1] >= j + keys) b--;
    *from = a;
    *end = b;
}

static inline void zero_block(size_t mr, T *tile) {
    for (size_t r = 0; r < mr; r++) memset(tile + r * STRIDE, 0, NR * sizeof(T));
}

/* ---- dot products of rows --------------------------------------------------------- */

/* sum_l a_l b_l (+ sum_l c_l d_l) in the order in which a register block makes it, for
 * several independent rows at a time so that the multiply-adds overlap. */
enum { CHAINS = 8 };
INLINE void chained_dots(size_t rows, size_t w, const T *const a[CHAINS],
                         const T *const b[CHAINS], T sum[CHAINS]) {
    if (rows == CHAINS) {
        for (size_t l = 0; l < w; l++)
#pragma GCC unroll 8
            for (int r = 0; r < CHAINS; r++) sum[r] = s_fma(a[r][l], b[r][l], sum[r]);
    } else {
        for (size_t r = 0; r < rows; r++)
            for (size_t l = 0; l < w; l++) sum[r] = s_fma(a[r][l], b[r][l], sum[r]);
    }
}

/* ---- names: NAMED(kernels) is lipsc_kernels_f32_avx2 and so on -------------------- */

#define JOIN_(a, b, c) a##b##_##c
#define JOIN(a, b, c)  JOIN_(a, b, c)
#if defined(LIPSC_TYPE_f32)
#define NAMED(name) JOIN(lipsc_##name##_, f32, LIPSC_ISA)
#else
#define NAMED(name) JOIN(lipsc_##name##_, f64, LIPSC_ISA)
#endif

#endif
