/* composed_kernels.c - the cores of J and J^T of one head where the change of its scores
 * comes and goes as such (composed.c), not by way of queries and keys.
 *
 * One tile holds the whole head.  The softmax derivative is that of kernels.c: shifted by
 * the value at the row's largest entry, which becomes exactly zero. */
#include "backend/cpu/tiles.h"

#include <string.h>

/* What is left of a row of a tile behind its n entries, up to a whole block. */
static void clear_rest(size_t n, T *row) {
    memset(row + n, 0, ((n + NR - 1) / NR * NR - n) * sizeof(T));
}

/* p (n, row): P of all rows, 0 where a key is not seen and beyond n. */
static void probabilities(const lipsc_head *h, void *p, size_t row, void *scratch) {
    T *kpanels = scratch, *tile = kpanels + KEYS * h->kw;
    const size_t n = h->n;
    pack_keys(h->k, h->kw, 0, n, kpanels);
    for (size_t j = 0; j < n; j += NR)
        for (size_t i = 0, mr; i < n; i += mr) {
            mr = next_rows(n - i);
            const key_span span = span_of(h, i, mr, 0, n);
            T *at = tile + i * STRIDE + j;
            if (j < span.from || j >= span.end) {
                zero_block(mr, at);
                continue;
            }
            const int masked = is_masked(h, i, mr, j);
#define CALL(m) store_softmax(m, h, i, j, masked, kpanels + j * h->kw, at, NULL)
            FOR_BLOCK_SIZE(mr, CALL)
#undef CALL
        }
    for (size_t i = 0; i < n; i++) {
        memcpy((T *)p + i * row, tile + i * STRIDE, n * sizeof(T));
        memset((T *)p + i * row + n, 0, (row - n) * sizeof(T));
    }
}

static void load_probabilities(size_t n, const T *p, T *tile) {
    for (size_t i = 0; i < n; i++) {
        memcpy(tile + i * STRIDE, p + i * n, n * sizeof(T));
        clear_rest(n, tile + i * STRIDE);
    }
}

/* row[j] = (row[j] - row[top] - less) p[j]; the sum, lane by lane. */
static T weigh_row(size_t n, const T *p, T top, T less, T *row) {
    V sum = v_set(0);
    T lanes[VL], total = 0;
    for (size_t j = 0; j < n; j += VL) {
        const V w = ((v_load(row + j) - v_set(top)) - v_set(less)) * v_load(p + j);
        v_store(row + j, w);
        sum = sum + w;
    }
    v_store(lanes, sum);
    for (int l = 0; l < VL; l++) total += lanes[l];
    return total;
}

/* ---- J ------------------------------------------------------------------------------- */

/* The change of the scores of a direction from its two parts. */
static void load_change(const lipsc_head *h, const lipsc_score_change *change, size_t dir,
                        T *tile) {
    const size_t n = h->n, step = change->step;
    const T *at = (const T *)change->at + dir * n * change->row;
    for (size_t i = 0; i < n; i++) {
        const T *row = at + i * change->row + n * step;
        memset(tile + i * STRIDE, 0, STRIDE * sizeof(T));
        for (size_t j = h->lo[i]; j < h->hi[i]; j++) tile[i * STRIDE + j] = row[j * step];
    }
    for (size_t j = 0, from = 0, end = 0; j < n; j++) {
        const T *row = at + j * change->row;
        while (from < n && h->hi[from] <= j) from++;
        while (end < n && h->lo[end] <= j) end++;
        for (size_t i = from; i < end; i++) tile[i * STRIDE + j] += row[i * step];
    }
}

static void forward_rows(size_t mr, const lipsc_head *h, const T *dz, size_t i,
                         const T *ptile, T *wtile, T *out) {
    const size_t n = h->n, vw = h->vw, at = i * STRIDE, j = h->lo[i],
                 keys = h->hi[i + mr - 1] - j;
    const T *z = h->z, *w = wtile + at + j, *p = ptile + at + j;
    T mean[MR];
    for (size_t r = 0; r < mr; r++) {
        T *row = wtile + at + r * STRIDE;
        mean[r] = weigh_row(n, ptile + at + r * STRIDE, row[h->top[i + r]], 0, row);
    }
    memset(out, 0, mr * vw * sizeof(T));
    for (size_t c = 0; c < vw; c += NR) {
#define CALL(m) forward_out(m, w, p, keys, z + j * vw + c, dz + j * vw + c, vw, out + c)
        FOR_BLOCK_SIZE(mr, CALL)
#undef CALL
    }
    for (size_t r = 0; r < mr; r++) { /* out_i -= mean_i o_i */
        const T *ztop = z + h->top[i + r] * vw,
                *excess = (const T *)h->excess + (i + r) * vw;
        for (size_t c = 0; c < vw; c++) out[r * vw + c] -= mean[r] * (ztop[c] + excess[c]);
    }
}

static void forward(const lipsc_head *h, const lipsc_head_dirs *d, const void *p,
                    const lipsc_score_change *change, void *scratch) {
    const size_t n = h->n, vw = h->vw;
    T *ptile = scratch, *wtile = ptile + ROWS * STRIDE;
    load_probabilities(n, p, ptile);
    for (size_t dir = 0; dir < d->dirs; dir++) {
        load_change(h, change, dir, wtile);
        for (size_t i = 0, mr; i < n; i += mr) {
            mr = next_rows(n - i);
            forward_rows(mr, h, (const T *)d->dz + dir * n * vw, i, ptile, wtile,
                         (T *)d->out + (dir * n + i) * vw);
        }
    }
}

/* ---- J^T ----------------------------------------------------------------------------- */

/* g_i.z_j of a block */
INLINE void dot_block(const int mr, size_t vw, const T *g, const T *zpanel, T *s) {
    V acc[MR][NV];
    block_zero(mr, acc);
    block_fma(mr, acc, vw, g, vw, 1, zpanel, NR);
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++)
        for (int col = 0; col < NV; col++) v_store(s + r * STRIDE + col * VL, acc[r][col]);
}

/* P_ij ((g_i.z_j - g_i.z_top) - sum_l P_il (g_i.z_l - g_i.z_top)) of all rows; other: a row
 * of work memory. */
static void score_changes(const lipsc_head *h, const T *g, const T *zpanels, const T *ptile,
                          T *stile, T *other) {
    const size_t n = h->n, vw = h->vw;
    for (size_t j = 0; j < n; j += NR)
        for (size_t i = 0, mr; i < n; i += mr) {
            mr = next_rows(n - i);
            const key_span span = span_of(h, i, mr, 0, n);
            T *at = stile + i * STRIDE + j;
            if (j < span.from || j >= span.end) {
                zero_block(mr, at);
                continue;
            }
#define CALL(m) dot_block(m, vw, g + i * vw, zpanels + j * vw, at)
            FOR_BLOCK_SIZE(mr, CALL)
#undef CALL
        }
    for (size_t i = 0; i < n; i++) {
        T *row = stile + i * STRIDE;
        const T top = row[h->top[i]];
        memcpy(other, row, STRIDE * sizeof(T));
        const T mean = weigh_row(n, ptile + i * STRIDE, top, 0, other);
        weigh_row(n, ptile + i * STRIDE, top, mean, row);
    }
}

/* The change of the scores of a direction into its two parts. */
static void store_change(size_t n, const T *tile, const lipsc_score_change *change,
                         size_t dir) {
    const size_t step = change->step;
    T *at = (T *)change->at + dir * n * change->row;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            at[i * change->row + (n + j) * step] = tile[i * STRIDE + j];
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < n; i++)
            at[j * change->row + i * step] = tile[i * STRIDE + j];
}

static void adjoint(const lipsc_head *h, const lipsc_head_dirs *d, const void *p,
                    const lipsc_score_change *change, void *scratch) {
    const size_t n = h->n, vw = h->vw;
    T *zpanels = scratch, *ptile = zpanels + KEYS * vw, *stile = ptile + ROWS * STRIDE,
      *other = stile + ROWS * STRIDE;
    pack_keys(h->z, vw, 0, n, zpanels);
    load_probabilities(n, p, ptile);
    for (size_t dir = 0; dir < d->dirs; dir++) {
        const T *g = (const T *)d->g + dir * n * vw;
        T *gz = (T *)d->gz + dir * n * vw;
        score_changes(h, g, zpanels, ptile, stile, other);
        for (size_t j = 0, mr; j < n; j += mr) {
            size_t from, end;
            mr = next_rows(n - j);
            rows_that_see(h, 0, n, j, mr, &from, &end);
            for (size_t c = 0; c < vw; c += NR)
                accumulate_columns(mr, end - from, ptile + from * STRIDE + j,
                                   g + from * vw + c, vw, gz + j * vw + c);
        }
        store_change(n, stile, change, dir);
    }
}

extern const lipsc_composed_kernels NAMED(composed);
const lipsc_composed_kernels NAMED(composed) = {probabilities, forward, adjoint, KEYS};
