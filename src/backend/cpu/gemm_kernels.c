/* gemm_kernels.c - C (+)= A B with B in panels: the projections.  Compiled once per
 * instruction set and precision: see simd.h. */
#include "backend/cpu/tiles.h"

enum { INNER = 384 }; /* inner length per pass: a panel of it fills most of the L1 cache */

INLINE void gemm_block(const int mr, const T *a, size_t ars, size_t segs, size_t seg,
                       size_t len, const T *b, T *c, size_t ldc, const T *bias, int add) {
    V acc[MR][NV];
    block_zero(mr, acc);
    for (size_t s = 0; s < segs; s++)
        block_fma(mr, acc, len, a + s * seg, ars, 1, b + s * len * NR, NR);
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++) {
        T *row = c + (size_t)r * ldc;
        for (int col = 0; col < NV; col++) {
            V x = acc[r][col];
            if (add) x = v_load(row + col * VL) + x;
            if (bias) x = x + v_load(bias + col * VL);
            v_store(row + col * VL, x);
        }
    }
}

static void gemm_rows(size_t mr, const T *a, size_t ars, size_t segs, size_t seg,
                      size_t len, const T *b, T *c, size_t ldc, const T *bias, int add) {
#define CALL(m) gemm_block(m, a, ars, segs, seg, len, b, c, ldc, bias, add)
    FOR_BLOCK_SIZE(mr, CALL)
#undef CALL
}

extern void NAMED(gemm)(const lipsc_gemm *g, size_t row0, size_t row1, size_t panel0,
                        size_t panel1);
void NAMED(gemm)(const lipsc_gemm *g, size_t row0, size_t row1, size_t panel0,
                 size_t panel1) {
    const size_t panel = g->b_panel ? g->b_panel : g->segs * g->seg_len;
    /* passes over the inner dimension: several whole segments, or a part of a long one */
    const size_t per = g->seg_len < INNER ? min_size(g->segs, INNER / g->seg_len) : 1;
    const size_t parts = g->seg_len < INNER ? 1 : (g->seg_len + INNER - 1) / INNER;
    const size_t part = (g->seg_len + parts - 1) / parts;
    for (size_t s = 0; s < g->segs; s += per)
        for (size_t l0 = 0; l0 < g->seg_len; l0 += part) {
            const size_t segs = min_size(per, g->segs - s),
                         len = min_size(part, g->seg_len - l0);
            const size_t start = s * g->seg_len + l0;
            const int add = g->add || start > 0;
            for (size_t p = panel0; p < panel1; p++) {
                const T *b = (const T *)g->b + (p * panel + start) * NR;
                T *c = (T *)g->c + p / g->group * g->c_group + p % g->group * NR;
                const T *bias = g->bias && start == 0 ? (const T *)g->bias + p * NR : NULL;
                const size_t width = min_size(NR, g->columns - p * NR);
                for (size_t i = row0, mr; i < row1; i += mr) {
                    mr = next_rows(row1 - i);
                    const T *a = (const T *)g->a + i * g->a_row + s * g->a_seg + l0;
                    T *row = c + i * g->c_row;
                    if (width == NR) {
                        gemm_rows(mr, a, g->a_row, segs, g->a_seg, len, b, row, g->c_row,
                                  bias, add);
                    } else { /* the last panel may be narrower than a register block */
                        T edge[MR * NR];
                        gemm_rows(mr, a, g->a_row, segs, g->a_seg, len, b, edge, NR, bias,
                                  0);
                        for (size_t r = 0; r < mr; r++)
                            for (size_t j = 0; j < width; j++)
                                row[r * g->c_row + j] =
                                    (add ? row[r * g->c_row + j] : 0) + edge[r * NR + j];
                    }
                }
            }
        }
}
