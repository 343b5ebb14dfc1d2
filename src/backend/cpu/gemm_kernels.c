/* gemm_kernels.c - C (+)= A B with B in panels: the projections.  Compiled once per
 * instruction set and precision: see simd.h. */
#include "backend/cpu/tiles.h"

/* Inner length per pass: a panel of it fills two thirds of the L1 cache. */
enum { INNER = 256 };

INLINE void gemm_block(const int mr, const int lines, const T *a, size_t ars, size_t segs,
                       size_t seg, size_t len, const T *b, uintptr_t *ask, T *c, size_t ldc,
                       const T *bias, int add) {
    V acc[MR][NV];
    block_zero(mr, acc);
    for (size_t s = 0; s < segs; s++)
        block_fma_asking(mr, lines, acc, len, a + s * seg, ars, 1, b + s * len * NR, ask);
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

/* few: of rows, which have to ask for more of the next panel each */
static void gemm_rows(size_t mr, int few, const T *a, size_t ars, size_t segs, size_t seg,
                      size_t len, const T *b, uintptr_t *ask, T *c, size_t ldc,
                      const T *bias, int add) {
#define CALL(m)     gemm_block(m, 2, a, ars, segs, seg, len, b, ask, c, ldc, bias, add)
#define CALL_FEW(m) gemm_block(m, 4, a, ars, segs, seg, len, b, ask, c, ldc, bias, add)
    if (few)
        FOR_BLOCK_SIZE(mr, CALL_FEW)
    else
        FOR_BLOCK_SIZE(mr, CALL)
#undef CALL_FEW
#undef CALL
}

/* Rows i of one panel: the inner elements from segment s, place l on, segs x len of them.
 */
typedef struct {
    size_t p, s, l, segs, len;
    int add, bias;
} pass;

static const T *panel_of(const lipsc_gemm *g, const pass *x) {
    return (const T *)g->b + (x->p * g->segs * g->seg_len + x->s * g->seg_len + x->l) * NR;
}

/* next: what will be multiplied after it */
static void panel_rows(const lipsc_gemm *g, const pass *x, const T *next, size_t row0,
                       size_t row1) {
    const size_t p = x->p;
    const T *b = panel_of(g, x);
    const uintptr_t ahead = (uintptr_t)next, bytes = x->segs * x->len * NR * sizeof(T);
    uintptr_t ask = ahead;
    T *c = (T *)g->c + p / g->group * g->c_group + p % g->group * NR;
    const T *bias = g->bias && x->bias ? (const T *)g->bias + p * NR : NULL;
    const size_t width = min_size(NR, g->columns - p * NR);
    const int few = row1 - row0 <= 3 * MR;
    for (size_t i = row0, mr; i < row1; i += mr) {
        mr = next_rows(row1 - i);
        if (ask - ahead >= bytes) ask = (uintptr_t)b; /* all is asked for */
        const T *a = (const T *)g->a + i * g->a_row + x->s * g->a_seg + x->l;
        T *row = c + i * g->c_row;
        if (width == NR) {
            gemm_rows(mr, few, a, g->a_row, x->segs, g->a_seg, x->len, b, &ask, row,
                      g->c_row, bias, x->add);
            continue;
        }
        T edge[MR * NR]; /* the last panel may be narrower than a register block */
        gemm_rows(mr, few, a, g->a_row, x->segs, g->a_seg, x->len, b, &ask, edge, NR, bias,
                  0);
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

/* The passes over the inner dimension, several whole segments or a part of a long one each,
 * and over the panels, one after the other. */
typedef struct {
    size_t per, part, panel0, panel1; /* segments, inner elements of one; the panels */
    size_t s, l, p;                   /* where the next one begins                   */
} passes;

static passes all_passes(const lipsc_gemm *g, size_t panel0, size_t panel1) {
    const size_t parts = g->seg_len < INNER ? 1 : (g->seg_len + INNER - 1) / INNER;
    return (passes){.per = g->seg_len < INNER ? min_size(g->segs, INNER / g->seg_len) : 1,
                    .part = (g->seg_len + parts - 1) / parts,
                    .panel0 = panel0,
                    .panel1 = panel1,
                    .p = panel0};
}

/* The next that has something to multiply; 0: there is none. */
static int next_pass(const lipsc_gemm *g, passes *at, pass *x) {
    while (at->s < g->segs) {
        *x = (pass){.p = at->p,
                    .s = at->s,
                    .l = at->l,
                    .segs = min_size(at->per, g->segs - at->s),
                    .len = min_size(at->part, g->seg_len - at->l)};
        if (++at->p == at->panel1) {
            at->p = at->panel0;
            at->l += at->part;
            if (at->l >= g->seg_len) at->l = 0, at->s += at->per;
        }
        if (cut_pass(g, x)) return 1;
    }
    return 0;
}

extern void NAMED(gemm)(const lipsc_gemm *g, size_t row0, size_t row1, size_t panel0,
                        size_t panel1);
void NAMED(gemm)(const lipsc_gemm *g, size_t row0, size_t row1, size_t panel0,
                 size_t panel1) {
    passes at = all_passes(g, panel0, panel1);
    pass x = {0}, ahead = {0};
    for (int more = panel0 < panel1 && next_pass(g, &at, &x); more; x = ahead) {
        more = next_pass(g, &at, &ahead);
        /* at the end what lies behind: often the next panel of another call */
        const T *next = more ? panel_of(g, &ahead) : panel_of(g, &x) + x.segs * x.len * NR;
        panel_rows(g, &x, next, row0, row1);
    }
}
