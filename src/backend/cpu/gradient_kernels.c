/* gradient_kernels.c - the gradient of <u, J(X) v> in the queries, keys and values of one
 * head, fused and tiled like the products of kernels.c; attn/ref_gradient.c is the readable
 * twin and has the formulas.  Compiled once per instruction set and precision: see simd.h.
 *
 * Two passes over the tiles.  With everything shifted by its value at the row's largest
 * entry, so that this entry becomes exactly zero,
 *     x_ij = dq_i.k_j + q_i.dk_j - (same at top)     w_ij = g_i.dz_j - g_i.dz_top
 *     y_ij = g_i.z_j - g_i.z_top - g_i.excess_i      (so that sum_j P_ij y_ij = 0)
 * the first pass sums r_i = sum_j P_ij x_ij and m_i = sum_j P_ij (y_ij x_ij + w_ij), the
 * second makes
 *     E_ij = P_ij y_ij,   W_ij = P_ij (x_ij - r_i),
 *     F_ij = E_ij (x_ij - r_i) + P_ij (w_ij - m_i)
 * and adds their products with q, k, dq, dk and g to the gradients. */
#include "backend/cpu/tiles.h"

#include <math.h>

/* What the second pass knows of a row. */
typedef struct {
    T x_top, y_top, w_top; /* dS, g.z and g.dz at the row's largest entry */
    T y_mean;              /* g_i . excess_i                              */
    T r, m;
} row_record;

/* Panels and tiles of one thread. */
typedef struct {
    T *k, *z, *dk, *dz;       /* panels; dk, dz for each direction */
    T *P, *E, *W, *F, *lanes; /* lanes: (dirs, ROWS, 2, VL)        */
    T *slope, *raw;           /* with a cap: its derivative, dS before it */
} workspace;

static size_t panel_elements(size_t kw, size_t vw, size_t dirs) {
    return KEYS * (kw + vw) * (1 + dirs);
}

static size_t scratch_bytes(size_t kw, size_t vw, size_t dirs) {
    return (panel_elements(kw, vw, dirs) + 6 * ROWS * STRIDE + dirs * ROWS * 2 * VL) *
           sizeof(T);
}

static workspace workspace_in(const lipsc_head *h, size_t dirs, void *scratch) {
    workspace s = {.k = scratch};
    s.z = s.k + KEYS * h->kw;
    s.dk = s.z + KEYS * h->vw;
    s.dz = s.dk + dirs * KEYS * h->kw;
    s.P = (T *)scratch + panel_elements(h->kw, h->vw, dirs);
    s.E = s.P + ROWS * STRIDE;
    s.W = s.E + ROWS * STRIDE;
    s.F = s.W + ROWS * STRIDE;
    s.slope = s.F + ROWS * STRIDE;
    s.raw = s.slope + ROWS * STRIDE;
    s.lanes = s.raw + ROWS * STRIDE;
    return s;
}

static void pack_panels(const lipsc_head *h, const lipsc_head_pairs *d, size_t j0,
                        size_t j1, const workspace *s) {
    pack_keys(h->k, h->kw, j0, j1, s->k);
    pack_keys(h->z, h->vw, j0, j1, s->z);
    for (size_t dir = 0; dir < d->dirs; dir++) {
        pack_keys((const T *)d->dk + dir * h->n * h->kw, h->kw, j0, j1,
                  s->dk + dir * KEYS * h->kw);
        pack_keys((const T *)d->dz + dir * h->n * h->vw, h->vw, j0, j1,
                  s->dz + dir * KEYS * h->vw);
    }
}

/* One direction: pointers to its first row, and to its panels of keys j, j+1, ... */
typedef struct {
    const T *dq, *g;
    const row_record *rows;
    const T *k, *dk, *z, *dz;
} direction;

static direction direction_at(const lipsc_head *h, const lipsc_head_pairs *d, size_t dir,
                              size_t key, const workspace *s) {
    const size_t kw = h->kw, vw = h->vw, n = h->n;
    return (direction){.dq = (const T *)d->dq + dir * n * kw,
                       .g = (const T *)d->g + dir * n * vw,
                       .rows = (const row_record *)d->rows + dir * n,
                       .k = s->k + key * kw,
                       .dk = s->dk + (dir * KEYS + key) * kw,
                       .z = s->z + key * vw,
                       .dz = s->dz + (dir * KEYS + key) * vw};
}

/* x into the tile X, y into Y, w stays in registers; with a cap its derivatives are read
 * from slope, and dS before it goes into raw */
INLINE void shifted_block(const int mr, const lipsc_head *h, const direction *d, size_t i,
                          T *X, T *Y, const T *slope, T *raw, V w[MR][NV]) {
    const size_t kw = h->kw, vw = h->vw;
    const row_record *row = d->rows + i;
    block_zero(mr, w);
    block_fma(mr, w, kw, d->dq + i * kw, kw, 1, d->k, NR);
    block_fma(mr, w, kw, (const T *)h->q + i * kw, kw, 1, d->dk, NR);
    if (h->soft_cap > 0)
        for (int r = 0; r < mr; r++)
            for (int col = 0; col < NV; col++) {
                const int at = r * STRIDE + col * VL;
                v_store(raw + at, w[r][col]);
                w[r][col] = w[r][col] * v_load(slope + at);
            }
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++)
        for (int col = 0; col < NV; col++)
            v_store(X + r * STRIDE + col * VL, w[r][col] - v_set(row[r].x_top));
    block_zero(mr, w);
    block_fma(mr, w, vw, d->g + i * vw, vw, 1, d->z, NR);
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++)
        for (int col = 0; col < NV; col++)
            v_store(Y + r * STRIDE + col * VL,
                    (w[r][col] - v_set(row[r].y_top)) - v_set(row[r].y_mean));
    block_zero(mr, w);
    block_fma(mr, w, vw, d->g + i * vw, vw, 1, d->dz, NR);
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++)
        for (int col = 0; col < NV; col++) w[r][col] = w[r][col] - v_set(row[r].w_top);
}

/* ---- First pass: the statistics of rows ------------------------------------------- */

/* sum_r += a_{i+r} . b_top(i+r), in the order of a register block */
static void top_dots(const lipsc_head *h, size_t i, size_t count, size_t w, const T *a,
                     const T *b, T sum[CHAINS]) {
    const T *rows[CHAINS], *tops[CHAINS];
    for (size_t r = 0; r < count; r++) {
        rows[r] = a + (i + r) * w;
        tops[r] = b + h->top[i + r] * w;
    }
    chained_dots(count, w, rows, tops, sum);
}

/* Fresh records of rows i0..i1-1: r and m still zero. */
static void start_rows(const lipsc_head *h, const lipsc_head_pairs *d, size_t dir,
                       size_t i0, size_t i1) {
    const size_t kw = h->kw, vw = h->vw, n = h->n;
    const T *dq = (const T *)d->dq + dir * n * kw, *dk = (const T *)d->dk + dir * n * kw;
    const T *g = (const T *)d->g + dir * n * vw, *dz = (const T *)d->dz + dir * n * vw;
    row_record *rows = (row_record *)d->rows + dir * n;
    for (size_t i = i0; i < i1; i += CHAINS) {
        const size_t count = min_size(CHAINS, i1 - i);
        T x[CHAINS] = {0}, y[CHAINS] = {0}, w[CHAINS] = {0};
        top_dots(h, i, count, kw, dq, h->k, x);
        top_dots(h, i, count, kw, h->q, dk, x);
        top_dots(h, i, count, vw, g, h->z, y);
        top_dots(h, i, count, vw, g, dz, w);
        for (size_t r = 0; r < count; r++) {
            const T *excess = (const T *)h->excess + (i + r) * vw;
            T mean = 0;
            for (size_t c = 0; c < vw; c++)
                mean = s_fma(g[(i + r) * vw + c], excess[c], mean);
            if (h->soft_cap > 0) x[r] *= ((const T *)h->top_slope)[i + r];
            rows[i + r] =
                (row_record){.x_top = x[r], .y_top = y[r], .w_top = w[r], .y_mean = mean};
        }
    }
}

/* lanes of a row: VL partial sums of r, then of m */
INLINE void sums_block(const int mr, const lipsc_head *h, const direction *d, size_t i,
                       size_t j, int masked, int fresh, T *P, T *slope, T *X, T *Y, T *raw,
                       T *lanes) {
    V w[MR][NV];
    if (fresh) store_softmax(mr, h, i, j, masked, d->k, P, slope);
    shifted_block(mr, h, d, i, X, Y, slope, raw, w);
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++) {
        T *sum = lanes + (size_t)r * 2 * VL;
        V mean = v_load(sum), m = v_load(sum + VL);
        for (int col = 0; col < NV; col++) {
            const int at = r * STRIDE + col * VL;
            const V p = v_load(P + at), x = v_load(X + at), y = v_load(Y + at);
            mean = mean + p * x;
            m = m + p * (y * x + w[r][col]);
        }
        v_store(sum, mean);
        v_store(sum + VL, m);
    }
}

static void sums_tile(const lipsc_head *h, const lipsc_head_pairs *d, size_t i0, size_t i1,
                      size_t j0, size_t j1, const workspace *s) {
    memset(s->lanes, 0, d->dirs * ROWS * 2 * VL * sizeof(T));
    for (size_t dir = 0; dir < d->dirs; dir++) {
        for (size_t j = j0; j < j1; j += NR) {
            const direction at_key = direction_at(h, d, dir, j - j0, s);
            for (size_t i = i0, mr; i < i1; i += mr) {
                mr = next_rows(i1 - i);
                const key_span span = span_of(h, i, mr, j0, j1);
                if (j < span.from || j >= span.end) continue;
                const int masked = is_masked(h, i, mr, j), fresh = dir == 0;
                const size_t at = (i - i0) * STRIDE + (j - j0);
                T *P = s->P + at, *slope = s->slope + at;
                T *lanes = s->lanes + (dir * ROWS + (i - i0)) * 2 * VL;
#define CALL(m) \
    sums_block(m, h, &at_key, i, j, masked, fresh, P, slope, s->W, s->E, s->raw, lanes)
                FOR_BLOCK_SIZE(mr, CALL)
#undef CALL
            }
        }
        for (size_t i = i0; i < i1; i++) {
            row_record *row = (row_record *)d->rows + dir * h->n + i;
            const T *part = s->lanes + (dir * ROWS + (i - i0)) * 2 * VL;
            T r = 0, m = 0;
            for (int l = 0; l < VL; l++) r += part[l], m += part[VL + l];
            row->r += r;
            row->m += m;
        }
    }
}

/* What the shifts leave of r and m where the rows of P do not sum to one. */
static void settle_sinks(const lipsc_head *h, const lipsc_head_pairs *d, size_t i0,
                         size_t i1) {
    for (size_t dir = 0; dir < d->dirs; dir++)
        for (size_t i = i0; i < i1; i++) {
            row_record *row = (row_record *)d->rows + dir * h->n + i;
            const T mass = ((const T *)h->sink_mass)[i];
            row->r -= mass * row->x_top;
            row->m += mass * (row->x_top * (row->y_top + row->y_mean) - row->w_top);
        }
}

static void gradient_rows(const lipsc_head *h, const lipsc_head_pairs *d, size_t i0,
                          size_t i1, void *scratch) {
    const workspace s = workspace_in(h, d->dirs, scratch);
    for (size_t dir = 0; dir < d->dirs; dir++) start_rows(h, d, dir, i0, i1);
    /* tiles lie on one grid whatever rows a task has, so that sums keep their order */
    const size_t last = h->hi[i1 - 1];
    for (size_t j0 = h->lo[i0] / KEYS * KEYS; j0 < last; j0 += KEYS) {
        const size_t j1 = min_size(last, j0 + KEYS);
        pack_panels(h, d, j0, j1, &s);
        for (size_t i = i0; i < i1; i += ROWS) {
            const size_t end = min_size(i1, i + ROWS);
            if (h->hi[end - 1] <= j0 || h->lo[i] >= j1) continue;
            sums_tile(h, d, i, end, j0, j1, &s);
        }
    }
    if (h->has_sink) settle_sinks(h, d, i0, i1);
}

/* ---- Second pass: E, W, F and their products -------------------------------------- */

INLINE void gradient_block(const int mr, const lipsc_head *h, const direction *d, size_t i,
                           size_t j, int masked, int fresh, T *P, T *E, T *W, T *F,
                           T *slope, T *raw) {
    V w[MR][NV];
    if (fresh) store_softmax(mr, h, i, j, masked, d->k, P, slope);
    shifted_block(mr, h, d, i, W, E, slope, raw, w);
    const row_record *row = d->rows + i;
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++)
        for (int col = 0; col < NV; col++) {
            const int at = r * STRIDE + col * VL;
            const V p = v_load(P + at), e = p * v_load(E + at);
            const V x = v_load(W + at) - v_set(row[r].r);
            v_store(E + at, e);
            v_store(W + at, p * x);
            v_store(F + at, e * x + p * (w[r][col] - v_set(row[r].m)));
        }
}

/* c += A B + A2 B2, A and A2 read along the rows of a tile or, with columns, its columns */
INLINE void accumulate_two(const int mr, int columns, size_t len, const T *a, const T *b,
                           const T *a2, const T *b2, size_t ldb, T *c) {
    const size_t ars = columns ? 1 : STRIDE, acs = columns ? STRIDE : 1;
    V acc[MR][NV];
    block_zero(mr, acc);
    block_fma(mr, acc, len, a, ars, acs, b, ldb);
    block_fma(mr, acc, len, a2, ars, acs, b2, ldb);
    block_add(mr, acc, c, ldb);
}

static void accumulate_two_rows(size_t mr, size_t len, const T *a, const T *b, const T *a2,
                                const T *b2, size_t ldb, T *c) {
#define CALL(m) accumulate_two(m, 0, len, a, b, a2, b2, ldb, c)
    FOR_BLOCK_SIZE(mr, CALL)
#undef CALL
}

static void accumulate_two_columns(size_t mr, size_t len, const T *a, const T *b,
                                   const T *a2, const T *b2, size_t ldb, T *c) {
#define CALL(m) accumulate_two(m, 1, len, a, b, a2, b2, ldb, c)
    FOR_BLOCK_SIZE(mr, CALL)
#undef CALL
}

/* gq_i += sum_j E_ij dk_j + F_ij k_j, and where wanted gdq_i += sum_j E_ij k_j */
static void add_to_queries(const lipsc_head *h, const lipsc_head_pairs *d, size_t dir,
                           size_t i0, size_t i1, size_t j0, size_t j1, const workspace *s) {
    const size_t kw = h->kw, first = dir * h->n;
    for (size_t c = 0; c < kw; c += NR)
        for (size_t i = i0, mr; i < i1; i += mr) {
            mr = next_rows(i1 - i);
            const key_span span = span_of(h, i, mr, j0, j1);
            if (span.from >= span.end) continue;
            const size_t at = (i - i0) * STRIDE + (span.from - j0),
                         keys = span.end - span.from, to = (first + i) * kw + c;
            const T *k = (const T *)h->k + span.from * kw + c;
            const T *dk = (const T *)d->dk + (first + span.from) * kw + c;
            accumulate_two_rows(mr, keys, s->E + at, dk, s->F + at, k, kw, (T *)d->gq + to);
            if (d->gdq) accumulate_rows(mr, keys, s->E + at, k, kw, (T *)d->gdq + to);
        }
}

/* gk_j += sum_i E_ij dq_i + F_ij q_i,  gz_j += sum_i W_ij g_i, and where wanted
 * gdk_j += sum_i E_ij q_i */
static void add_to_keys(const lipsc_head *h, const lipsc_head_pairs *d, size_t dir,
                        size_t i0, size_t i1, size_t j0, size_t j1, const workspace *s) {
    const size_t kw = h->kw, vw = h->vw, first = dir * h->n;
    for (size_t j = j0, mr; j < j1; j += mr) {
        mr = next_rows(j1 - j);
        size_t from, end;
        rows_that_see(h, i0, i1, j, mr, &from, &end);
        if (from >= end) continue;
        const size_t at = (from - i0) * STRIDE + (j - j0), rows = end - from;
        for (size_t c = 0; c < kw; c += NR) {
            const T *q = (const T *)h->q + from * kw + c;
            const T *dq = (const T *)d->dq + (first + from) * kw + c;
            const size_t to = (first + j) * kw + c;
            accumulate_two_columns(mr, rows, s->E + at, dq, s->F + at, q, kw,
                                   (T *)d->gk + to);
            if (d->gdk) accumulate_columns(mr, rows, s->E + at, q, kw, (T *)d->gdk + to);
        }
        for (size_t c = 0; c < vw; c += NR)
            accumulate_columns(mr, rows, s->W + at,
                               (const T *)d->g + (first + from) * vw + c, vw,
                               (T *)d->gz + (first + j) * vw + c);
    }
}

/* score_j += sum_i F_ij, before the cap */
static void add_to_scores(const lipsc_head *h, const lipsc_head_pairs *d, size_t dir,
                          size_t i0, size_t i1, size_t j0, size_t j1, const workspace *s) {
    T *score = (T *)d->score + dir * h->n;
    for (size_t i = i0; i < i1; i++)
        for (size_t j = j0; j < j1; j++) score[j] += s->F[(i - i0) * STRIDE + (j - j0)];
}

/* E and F, gradients in the capped scores, become those in q.k and its direction:
 *     F_ij := c' F_ij + c'' du_ij E_ij,   E_ij := c' E_ij,   c'' = -2 tanh c' / cap
 * with c' = 1 - tanh^2 in s->slope and du in s->raw; tanh has the sign of q.k, which the
 * score itself no longer tells, so it is made again. */
static void pass_cap(const lipsc_head *h, size_t i0, size_t i1, size_t j0, size_t j1,
                     const workspace *s) {
    const size_t kw = h->kw;
    for (size_t i = i0; i < i1; i++)
        for (size_t j = j0; j < j1; j++) {
            const size_t at = (i - i0) * STRIDE + (j - j0);
            if (s->E[at] == 0 && s->F[at] == 0) continue;
            const T *q = (const T *)h->q + i * kw, *k = (const T *)h->k + j * kw;
            T product = 0;
            for (size_t l = 0; l < kw; l++) product += q[l] * k[l];
            const T slope = s->slope[at];
            const T bend =
                (T)(-2 * tanh((double)product / h->soft_cap) / h->soft_cap) * slope;
            s->F[at] = slope * s->F[at] + bend * s->raw[at] * s->E[at];
            s->E[at] *= slope;
        }
}

static void gradient_tile(const lipsc_head *h, const lipsc_head_pairs *d, size_t i0,
                          size_t i1, size_t j0, size_t j1, const workspace *s) {
    for (size_t dir = 0; dir < d->dirs; dir++) {
        for (size_t j = j0; j < j1; j += NR) {
            const direction at_key = direction_at(h, d, dir, j - j0, s);
            for (size_t i = i0, mr; i < i1; i += mr) {
                mr = next_rows(i1 - i);
                const key_span span = span_of(h, i, mr, j0, j1);
                const size_t at = (i - i0) * STRIDE + (j - j0);
                T *P = s->P + at, *E = s->E + at, *W = s->W + at, *F = s->F + at;
                if (j < span.from || j >= span.end) {
                    /* a column block may reach into the neighbouring panel: zeros there */
                    zero_block(mr, E), zero_block(mr, W), zero_block(mr, F);
                    continue;
                }
                const int masked = is_masked(h, i, mr, j), fresh = dir == 0;
                T *slope = s->slope + at, *raw = s->raw + at;
#define CALL(m) gradient_block(m, h, &at_key, i, j, masked, fresh, P, E, W, F, slope, raw)
                FOR_BLOCK_SIZE(mr, CALL)
#undef CALL
            }
        }
        if (d->score) add_to_scores(h, d, dir, i0, i1, j0, j1, s);
        if (h->soft_cap > 0) pass_cap(h, i0, i1, j0, j1, s);
        add_to_queries(h, d, dir, i0, i1, j0, j1, s);
        add_to_keys(h, d, dir, i0, i1, j0, j1, s);
    }
}

static void gradient(const lipsc_head *h, const lipsc_head_pairs *d, size_t i0, size_t i1,
                     size_t j0, size_t j1, void *scratch) {
    const workspace s = workspace_in(h, d->dirs, scratch);
    for (size_t j = j0; j < j1; j += KEYS) {
        const size_t jend = min_size(j1, j + KEYS);
        if (h->hi[i1 - 1] <= j || h->lo[i0] >= jend) continue;
        pack_panels(h, d, j, jend, &s);
        for (size_t i = i0; i < i1; i += ROWS) {
            const size_t iend = min_size(i1, i + ROWS);
            if (h->hi[iend - 1] <= j || h->lo[i] >= jend) continue;
            gradient_tile(h, d, i, iend, j, jend, &s);
        }
    }
}

extern const lipsc_gradient_kernels NAMED(gradient);
const lipsc_gradient_kernels NAMED(gradient) = {sizeof(row_record), scratch_bytes,
                                                gradient_rows, gradient};
