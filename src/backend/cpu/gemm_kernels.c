/* gemm_kernels.c - C (+)= A B with B in panels: the projections.  Compiled once per
 * instruction set and precision: see simd.h. */
#include "backend/cpu/tiles.h"

/* Inner length per pass: a panel of it fills two thirds of the L1 cache. */
enum { INNER = 256 };

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

/* Asks for part `at` of `parts` of some elements, which come from far while others are
 * multiplied. */
static void ask_for(const T *b, size_t count, size_t at, size_t parts) {
    enum { LINE = 64 / sizeof(T) };
    const size_t end = count * (at + 1) / parts;
    for (size_t e = count * at / parts; e < end; e += LINE) __builtin_prefetch(b + e, 0, 2);
}

/* Rows i of one panel: the inner elements from segment s, place l on, segs x len of them.
 */
typedef struct {
    size_t p, s, l, segs, len;
    int add, bias;
} pass;

static void panel_rows(const lipsc_gemm *g, const pass *x, size_t row0, size_t row1) {
    const size_t panel = g->b_panel ? g->b_panel : g->segs * g->seg_len, p = x->p;
    const T *b = (const T *)g->b + (p * panel + x->s * g->seg_len + x->l) * NR;
    T *c = (T *)g->c + p / g->group * g->c_group + p % g->group * NR;
    const T *bias = g->bias && x->bias ? (const T *)g->bias + p * NR : NULL;
    const size_t width = min_size(NR, g->columns - p * NR);
    const size_t blocks = ceil_div(row1 - row0, MR), count = x->segs * x->len * NR;
    const int more = (p + 1) * NR < g->columns;
    for (size_t i = row0, mr; i < row1; i += mr) {
        mr = next_rows(row1 - i);
        if (more)
            ask_for(b + panel * NR, count, min_size((i - row0) / MR, blocks - 1), blocks);
        const T *a = (const T *)g->a + i * g->a_row + x->s * g->a_seg + x->l;
        T *row = c + i * g->c_row;
        if (width == NR) {
            gemm_rows(mr, a, g->a_row, x->segs, g->a_seg, x->len, b, row, g->c_row, bias,
                      x->add);
            continue;
        }
        T edge[MR * NR]; /* the last panel may be narrower than a register block */
        gemm_rows(mr, a, g->a_row, x->segs, g->a_seg, x->len, b, edge, NR, bias, 0);
        for (size_t r = 0; r < mr; r++)
            for (size_t j = 0; j < width; j++)
                row[r * g->c_row + j] =
                    (x->add ? row[r * g->c_row + j] : 0) + edge[r * NR + j];
    }
}

/* The part of x in which its panel is not zero: whole segments where there are several.
 * The first such part, which may be empty, begins the sums.  0: there is none here. */
static int cut_pass(const lipsc_gemm *g, pass *x) {
    size_t from = 0, end = g->segs * g->seg_len;
    if (g->span) from = g->span[x->p][0], end = g->span[x->p][1];
    const size_t unit = g->segs > 1 ? g->seg_len : 1; /* what a pass is cut into */
    from = from / unit * unit;
    end = ceil_div(end, unit) * unit;
    const size_t begin = x->s * g->seg_len + x->l, stop = begin + x->segs * x->len;
    const size_t first = max_size(begin, from), last = min_size(stop, end);
    const int empty = from >= end && begin == 0;
    if (first >= last && !empty) return 0;
    x->bias = empty || first == from;
    x->add = g->add || !x->bias;
    x->s = first / g->seg_len;
    x->l = first % g->seg_len;
    const size_t left = empty ? 0 : last - first;
    if (x->segs > 1)
        x->segs = left / g->seg_len;
    else
        x->len = left;
    return 1;
}

extern void NAMED(gemm)(const lipsc_gemm *g, size_t row0, size_t row1, size_t panel0,
                        size_t panel1);
void NAMED(gemm)(const lipsc_gemm *g, size_t row0, size_t row1, size_t panel0,
                 size_t panel1) {
    /* passes over the inner dimension: several whole segments, or a part of a long one */
    const size_t per = g->seg_len < INNER ? min_size(g->segs, INNER / g->seg_len) : 1;
    const size_t parts = g->seg_len < INNER ? 1 : (g->seg_len + INNER - 1) / INNER;
    const size_t part = (g->seg_len + parts - 1) / parts;
    for (size_t s = 0; s < g->segs; s += per)
        for (size_t l = 0; l < g->seg_len; l += part)
            for (size_t p = panel0; p < panel1; p++) {
                pass x = {.p = p,
                          .s = s,
                          .l = l,
                          .segs = min_size(per, g->segs - s),
                          .len = min_size(part, g->seg_len - l)};
                if (cut_pass(g, &x)) panel_rows(g, &x, row0, row1);
            }
}
