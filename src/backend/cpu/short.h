/* short.h - what the kernels of short inputs share (composed_kernels.c, kept_kernels.c).
 * One tile holds a whole head, in rows of whole panels, as its probabilities are.
 *
 * The softmax derivative is that of kernels.c, shifted by the value at the row's largest
 * entry:
 *
 *     dP_ij = P_ij (dS_ij - dS_i,top) - P_ij sum_l P_il (dS_il - dS_i,top)
 *
 * for J, and with g_i.z_j in the place of dS_ij for J^T.  The shift is the very number of
 * the tile, so its entry becomes exactly zero before the mean is taken off. */
#ifndef LIPSC_BACKEND_CPU_SHORT_H
#define LIPSC_BACKEND_CPU_SHORT_H

#include "backend/cpu/tiles.h"

/* Tokens in whole panels: the rows of P and of a tile. */
static inline size_t row_of(size_t n) { return (n + NR - 1) / NR * NR; }

/* Panel by panel, for blocks of rows that see something of it: CALL(m) with i, mr, j and
 * the place `at` of the block in the tile; zeros elsewhere. */
#define FOR_SEEN_BLOCKS(h, tile, CALL)                                                   \
    for (size_t j = 0, row = row_of((h)->n); j < (h)->n; j += NR)                        \
        for (size_t i = 0, mr; i < (h)->n; i += mr) {                                    \
            mr = next_rows((h)->n - i);                                                  \
            const key_span span = span_of(h, i, mr, 0, (h)->n);                          \
            T *at = (tile) + i * row + j;                                                \
            if (j < span.from || j >= span.end)                                          \
                for (size_t r = 0; r < mr; r++) memset(at + r * row, 0, NR * sizeof(T)); \
            else                                                                         \
                FOR_BLOCK_SIZE(mr, CALL)                                                 \
        }

INLINE void store_block(const int mr, V acc[MR][NV], T *c, size_t ldc, int add) {
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++)
        for (int col = 0; col < NV; col++) {
            T *at = c + (size_t)r * ldc + col * VL;
            v_store(at, add ? v_load(at) + acc[r][col] : acc[r][col]);
        }
}

/* a_i.b_j (+ c_i.e_j, c not NULL) of a block; b, e: panels */
INLINE void dots(const int mr, size_t w, const T *a, const T *b, const T *c, const T *e,
                 T *at, size_t row) {
    V acc[MR][NV];
    block_zero(mr, acc);
    block_fma(mr, acc, w, a, w, 1, b, NR);
    if (c) block_fma(mr, acc, w, c, w, 1, e, NR);
    store_block(mr, acc, at, row, 0);
}

/* A block of A b (+ C e, C not NULL), inner length len; A, C in a tile as block_fma has it.
 */
INLINE void sums(const int mr, size_t len, const T *a, const T *b, const T *c, const T *e,
                 size_t ars, size_t acs, size_t w, T *to, int add) {
    V acc[MR][NV];
    block_zero(mr, acc);
    block_fma(mr, acc, len, a, ars, acs, b, w);
    if (c) block_fma(mr, acc, len, c, ars, acs, e, w);
    store_block(mr, acc, to, w, add);
}

/* The tile's dS, or g.z, of all rows becomes dP, as above. */
static inline void weigh_rows(const lipsc_head *h, const T *p, T *tile) {
    const size_t n = h->n, row = row_of(n);
    for (size_t i = 0; i < n; i++, p += row, tile += row) {
        const T top = tile[h->top[i]];
        T lanes[VL], mean = 0;
        V sum = v_set(0);
        for (size_t j = 0; j < row; j += VL) {
            const V w = (v_load(tile + j) - v_set(top)) * v_load(p + j);
            v_store(tile + j, w);
            sum = sum + w;
        }
        v_store(lanes, sum);
        for (int l = 0; l < VL; l++) mean += lanes[l];
        if (h->has_sink) mean -= top * ((const T *)h->sink_mass)[i];
        for (size_t j = 0; j < row; j += VL)
            v_store(tile + j, v_fma(v_set(-mean), v_load(p + j), v_load(tile + j)));
    }
}

/* J: out = tile z + P dz */
static inline void head_rows(const lipsc_head *h, const T *p, const T *tile, const T *dz,
                             T *out) {
    const size_t n = h->n, vw = h->vw, stride = row_of(n);
    const T *z = h->z;
    for (size_t c = 0; c < vw; c += NR)
        for (size_t i = 0, mr; i < n; i += mr) {
            mr = next_rows(n - i);
            const size_t j = h->lo[i], keys = h->hi[i + mr - 1] - j;
            const size_t at = i * stride + j;
#define CALL(m)                                                                      \
    sums(m, keys, tile + at, z + j * vw + c, p + at, dz + j * vw + c, stride, 1, vw, \
         out + i * vw + c, 0)
            FOR_BLOCK_SIZE(mr, CALL)
#undef CALL
        }
}

/* J^T: dP of the rows g into tile; zpanels as keep_keys makes them */
static inline void pull_scores(const lipsc_head *h, const T *p, const T *zpanels,
                               const T *g, T *tile) {
    const size_t vw = h->vw;
#define CALL(m) dots(m, vw, g + i * vw, zpanels + j * vw, NULL, NULL, at, row)
    FOR_SEEN_BLOCKS(h, tile, CALL)
#undef CALL
    weigh_rows(h, p, tile);
}

/* to_j (+)= sum_i a_ij b_i of the tile or probabilities a, for all keys */
static inline void gather_keys(const lipsc_head *h, const T *a, const T *b, size_t w,
                               int add, T *to) {
    const size_t n = h->n, row = row_of(n);
    for (size_t c = 0; c < w; c += NR)
        for (size_t j = 0, mr; j < n; j += mr) {
            size_t from, end;
            mr = next_rows(n - j);
            rows_that_see(h, 0, n, j, mr, &from, &end);
#define CALL(m)                                                                      \
    sums(m, end - from, a + from * row + j, b + from * w + c, NULL, NULL, 1, row, w, \
         to + j * w + c, add)
            FOR_BLOCK_SIZE(mr, CALL)
#undef CALL
        }
}

#endif
