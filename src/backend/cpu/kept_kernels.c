/* kept_kernels.c - the cores of J and J^T of one head of a short input whose probabilities
 * are kept (kept.c): no score and no exponential is computed again. */
#include "backend/cpu/short.h"

#include <string.h>

/* p (n, n in whole panels): P of all rows, 0 where a key is not seen and beyond n. */
static void probabilities(const lipsc_head *h, void *p, void *scratch) {
    const size_t n = h->n, stride = row_of(n);
    T *kpanels = scratch, *tile = kpanels + KEYS * h->kw;
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
        T *row = (T *)p + i * stride;
        memcpy(row, tile + i * STRIDE, n * sizeof(T));
        memset(row + n, 0, (stride - n) * sizeof(T));
    }
}

static void keep_keys(const void *rows, size_t n, size_t w, void *panels) {
    pack_keys(rows, w, 0, n, panels);
}

static void forward(const lipsc_head *h, const lipsc_head_dirs *d, const lipsc_kept *kept,
                    void *scratch) {
    const size_t n = h->n, kw = h->kw, vw = h->vw;
    const T *kpanels = kept->k;
    T *dkpanels = scratch, *tile = dkpanels + KEYS * kw;
    for (size_t dir = 0; dir < d->dirs; dir++) {
        const T *q = h->q, *dq = (const T *)d->dq + dir * n * kw;
        pack_keys((const T *)d->dk + dir * n * kw, kw, 0, n, dkpanels);
#define CALL(m) \
    dots(m, kw, dq + i * kw, kpanels + j * kw, q + i * kw, dkpanels + j * kw, at, row)
        FOR_SEEN_BLOCKS(h, tile, CALL)
#undef CALL
        weigh_rows(h, kept->p, tile);
        head_rows(h, kept->p, tile, (const T *)d->dz + dir * n * vw,
                  (T *)d->out + dir * n * vw);
    }
}

static void adjoint(const lipsc_head *h, const lipsc_head_dirs *d, const lipsc_kept *kept,
                    int more, void *scratch) {
    const size_t n = h->n, kw = h->kw, vw = h->vw, stride = row_of(n);
    T *tile = scratch;
    for (size_t dir = 0; dir < d->dirs; dir++) {
        const T *g = (const T *)d->g + dir * n * vw, *k = h->k;
        T *gq = (T *)d->gq + dir * n * kw;
        pull_scores(h, kept->p, kept->z, g, tile);
        for (size_t c = 0; c < kw; c += NR)
            for (size_t i = 0, mr; i < n; i += mr) {
                mr = next_rows(n - i);
                const size_t j = h->lo[i], keys = h->hi[i + mr - 1] - j;
#define CALL(m)                                                                     \
    sums(m, keys, tile + i * stride + j, k + j * kw + c, NULL, NULL, stride, 1, kw, \
         gq + i * kw + c, 0)
                FOR_BLOCK_SIZE(mr, CALL)
#undef CALL
            }
        gather_keys(h, tile, h->q, kw, more, (T *)d->gk + dir * n * kw);
        gather_keys(h, kept->p, g, vw, more, (T *)d->gz + dir * n * vw);
    }
}

extern const lipsc_kept_kernels NAMED(kept);
const lipsc_kept_kernels NAMED(kept) = {probabilities, keep_keys, forward, adjoint, KEYS};
