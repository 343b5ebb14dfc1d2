/* composed_kernels.c - the cores of J and J^T of one head where the change of its scores
 * comes and goes as such (composed.c), not by way of queries and keys, and what J^T makes
 * of all heads' changes. */
#include "backend/cpu/short.h"

#include <string.h>

/* Columns that one pass takes: their part of a panel stays in the L1 cache. */
enum { COLUMNS = 256 };

/* ---- J ------------------------------------------------------------------------------- */

/* The change of the scores of a direction from its two parts. */
static void load_change(const lipsc_head *h, const lipsc_score_change *change, size_t dir,
                        T *tile) {
    const size_t n = h->n, step = change->step, stride = row_of(n);
    const T *at = (const T *)change->at + dir * n * change->row;
    memset(tile, 0, n * stride * sizeof(T));
    for (size_t i = 0; i < n; i++) {
        const T *row = at + i * change->row + n * step;
        for (size_t j = h->lo[i]; j < h->hi[i]; j++) tile[i * stride + j] = row[j * step];
    }
    for (size_t j = 0, from = 0, end = 0; j < n; j++) {
        const T *row = at + j * change->row;
        while (from < n && h->hi[from] <= j) from++;
        while (end < n && h->lo[end] <= j) end++;
        for (size_t i = from; i < end; i++) tile[i * stride + j] += row[i * step];
    }
}

static void forward(const lipsc_head *h, const lipsc_head_dirs *d, const lipsc_kept *kept,
                    const lipsc_score_change *change, void *scratch) {
    const size_t n = h->n, vw = h->vw;
    T *tile = scratch;
    for (size_t dir = 0; dir < d->dirs; dir++) {
        load_change(h, change, dir, tile);
        weigh_rows(h, kept->p, tile);
        head_rows(h, kept->p, tile, (const T *)d->dz + dir * n * vw,
                  (T *)d->out + dir * n * vw);
    }
}

/* ---- J^T ----------------------------------------------------------------------------- */

static void adjoint(const lipsc_head *h, const lipsc_head_dirs *d, const lipsc_kept *kept,
                    int more, void *tiles, size_t dir_step) {
    const size_t n = h->n, vw = h->vw;
    for (size_t dir = 0; dir < d->dirs; dir++) {
        const T *g = (const T *)d->g + dir * n * vw;
        pull_scores(h, kept->p, kept->z, g, (T *)tiles + dir * dir_step);
        gather_keys(h, kept->p, g, vw, more, (T *)d->gz + dir * n * vw);
    }
}

/* Columns from .. end-1 that a block of rows has to do with: of rows that see it, and of
 * keys that it sees. */
typedef struct {
    size_t from[2], end[2];
} block_columns;

static block_columns columns_of(const lipsc_score_sums *s, size_t i, size_t mr) {
    const lipsc_head seen = {.n = s->n, .lo = s->lo, .hi = s->hi};
    size_t from, end;
    rows_that_see(&seen, 0, s->n, i, mr, &from, &end);
    return (block_columns){
        {from * s->heads, (s->n + s->lo[i]) * s->heads},
        {end * s->heads, (s->n + s->hi[i + mr - 1]) * s->heads},
    };
}

/* The changes of rows i .. i+mr-1, column by column, to `to`. */
static void pack_block(const lipsc_score_sums *s, const T *tiles, size_t i, size_t mr,
                       T *to) {
    const size_t n = s->n, heads = s->heads, stride = row_of(n);
    const block_columns c = columns_of(s, i, mr);
    for (size_t h = 0; h < heads; h++) {
        const T *tile = tiles + h * n * stride;
        for (size_t t = c.from[0] / heads; t < c.end[0] / heads; t++)
            for (size_t r = 0; r < mr; r++)
                to[(t * heads + h) * mr + r] = tile[t * stride + i + r];
        for (size_t t = c.from[1] / heads; t < c.end[1] / heads; t++)
            for (size_t r = 0; r < mr; r++)
                to[(t * heads + h) * mr + r] = tile[(i + r) * stride + t - n];
    }
}

static void pack(const lipsc_score_sums *s, size_t part, size_t parts) {
    const size_t n = s->n, columns = 2 * n * s->heads, tile = n * row_of(n);
    for (size_t dir = 0, at = 0; dir < s->dirs; dir++)
        for (size_t i = 0, mr; i < n; i += mr, at++) {
            mr = next_rows(n - i);
            if (at % parts == part)
                pack_block(s, (const T *)s->tiles + dir * s->heads * tile, i, mr,
                           (T *)s->packed + (dir * n + i) * columns);
        }
}

/* Rows of a block of y += those of the columns c; changes: packed */
INLINE void back_block(const int mr, const block_columns *c, const T *changes, const T *b,
                       uintptr_t *ask, T *y, size_t y_row, size_t width) {
    V acc[MR][NV];
    block_zero(mr, acc);
    for (int part = 0; part < 2; part++)
        if (c->from[part] < c->end[part])
            block_fma_asking(mr, 2, acc, c->end[part] - c->from[part],
                             changes + c->from[part] * (size_t)mr, 1, (size_t)mr,
                             b + c->from[part] * NR, ask);
    if (width == NR) {
        store_block(mr, acc, y, y_row, 1);
        return;
    }
    T edge[MR * NR];
    store_block(mr, acc, edge, NR, 0);
    for (size_t r = 0; r < (size_t)mr; r++)
        for (size_t l = 0; l < width; l++) y[r * y_row + l] += edge[r * NR + l];
}

/* Columns from .. end-1 of panel p, all rows. */
static void back_pass(const lipsc_score_sums *s, size_t p, size_t from, size_t end) {
    const size_t n = s->n, columns = 2 * n * s->heads;
    const T *b = (const T *)s->b + p * columns * NR;
    const size_t width = min_size(NR, s->columns - p * NR);
    /* the next columns, or the next panel */
    const uintptr_t ahead = (uintptr_t)(b + end * NR);
    const uintptr_t bytes = (end - from) * NR * sizeof(T);
    uintptr_t ask = ahead;
    for (size_t dir = 0; dir < s->dirs; dir++)
        for (size_t i = 0, mr; i < n; i += mr) {
            mr = next_rows(n - i);
            block_columns c = columns_of(s, i, mr);
            if (c.end[0] == c.from[1]) c.end[0] = c.from[1] = c.end[1];
            for (int part = 0; part < 2; part++) {
                c.from[part] = max_size(c.from[part], from);
                c.end[part] = min_size(c.end[part], end);
            }
            if (c.from[0] >= c.end[0] && c.from[1] >= c.end[1]) continue;
            if (ask - ahead >= bytes)
                ask = (uintptr_t)(b + from * NR); /* all is asked for */
            const T *changes = (const T *)s->packed + (dir * n + i) * columns;
            T *y = (T *)s->y + (dir * n + i) * s->y_row + p * NR;
#define CALL(m) back_block(m, &c, changes, b, &ask, y, s->y_row, width)
            FOR_BLOCK_SIZE(mr, CALL)
#undef CALL
        }
}

static void back(const lipsc_score_sums *s, size_t panel0, size_t panel1) {
    const size_t columns = 2 * s->n * s->heads, passes = ceil_div(columns, COLUMNS);
    const size_t per = ceil_div(columns, passes);
    for (size_t p = panel0; p < panel1; p++)
        for (size_t c = 0; c < columns; c += per)
            back_pass(s, p, c, min_size(c + per, columns));
}

extern const lipsc_composed_kernels NAMED(composed);
const lipsc_composed_kernels NAMED(composed) = {forward, adjoint, pack, back, KEYS};
