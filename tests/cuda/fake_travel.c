/* fake_travel.c - rows travel between ranks as those of a GPU do
 * (src/backend/cuda/travel.h), with copies that wait in a queue, and memory that counts as
 * the GPU's: MPI may see its addresses where the share says so, and sees no others then. */
#include "cuda/fake_travel.h"

#include <stdlib.h>
#include <string.h>

#include "backend/cuda/travel.h"
#include "core/error.h"

enum { QUEUE = 256, WIDEST = 24 };

typedef struct {
    size_t bytes;
    const void *from;
    void *to;
} queued;

typedef struct {
    const lipsc_share *share;
    char *gpu; /* its memory */
    size_t gpu_bytes;
    queued queue[QUEUE];
    size_t count;
    int wrong_address;
} fake_gpu;

static lipsc_status queue_copy(void *ctx, size_t bytes, const void *from, void *to,
                               lipsc_error *err) {
    fake_gpu *g = ctx;
    if (g->count == QUEUE) return lipsc_fail(err, LIPSC_E_RANGE, "too many copies");
    g->queue[g->count++] = (queued){bytes, from, to};
    return LIPSC_OK;
}

static lipsc_status wait_for_all(void *ctx, lipsc_error *err) {
    fake_gpu *g = ctx;
    (void)err;
    for (size_t i = 0; i < g->count; i++)
        memcpy(g->queue[i].to, g->queue[i].from, g->queue[i].bytes);
    g->count = 0;
    return LIPSC_OK;
}

/* ---- What MPI is given ------------------------------------------------------------------
 */

static void look_at(fake_gpu *g, const void *at) {
    const char *p = at;
    const int there = p >= g->gpu && p < g->gpu + g->gpu_bytes;
    if (there != (g->share->direct != 0)) g->wrong_address = 1;
}

static lipsc_status gather(void *ctx, size_t row, const void *own, void *all) {
    fake_gpu *g = ctx;
    look_at(g, own);
    look_at(g, all);
    return g->share->gather(g->share->ctx, row, own, all);
}

static lipsc_status exchange(void *ctx, size_t row, const void *all, void *parts) {
    fake_gpu *g = ctx;
    look_at(g, all);
    look_at(g, parts);
    return g->share->exchange(g->share->ctx, row, all, parts);
}

static lipsc_status agree(void *ctx, lipsc_status own, lipsc_error *err) {
    const lipsc_share *s = ((const fake_gpu *)ctx)->share;
    return s->agree(s->ctx, own, err);
}

/* ---- There and back ---------------------------------------------------------------------
 */

/* What byte c of row i is, of rank r. */
static char byte_of(size_t r, size_t i, size_t c) { return (char)(31 * r + 7 * i + c + 1); }

static size_t row_of(const lipsc_share *s, size_t own) {
    const size_t *at = s->block[s->rank], first = at[1] - at[0];
    return own < first ? at[0] + own : at[2] + own - first;
}

/* Bytes that are not what they should be. */
static size_t try_rows(fake_gpu *g, const lipsc_travel *t, size_t row,
                       lipsc_status *status) {
    const lipsc_share *s = g->share;
    char *own = g->gpu, *all = own + s->own * WIDEST;
    size_t wrong = 0;
    for (size_t e = 0; e < s->own * row; e++)
        own[e] = byte_of(0, row_of(s, e / row), e % row);
    *status = lipsc_travel_gather(t, row, own, all, NULL);
    wait_for_all(g, NULL);
    for (size_t e = 0; e < s->n * row && !*status; e++)
        wrong += all[e] != byte_of(0, e / row, e % row);
    for (size_t e = 0; e < s->n * row; e++) all[e] = byte_of(s->rank, e / row, e % row);
    if (!*status) *status = lipsc_travel_exchange(t, row, all, NULL);
    const char *parts = t->room_parts;
    for (size_t r = 0; r < s->ranks && !*status; r++)
        for (size_t e = 0; e < s->own * row; e++)
            wrong += *parts++ != byte_of(r, row_of(s, e / row), e % row);
    return wrong;
}

lipsc_status fake_travel(const lipsc_share *share, lipsc_error *err) {
    const size_t own = share->own * WIDEST, all = share->n * WIDEST,
                 parts = share->ranks * own;
    fake_gpu g = {.share = share, .gpu_bytes = 2 * own + 2 * all + parts + 1};
    char *host = malloc(own + all + parts + 1);
    g.gpu = malloc(g.gpu_bytes);
    lipsc_status status = g.gpu && host ? LIPSC_OK : LIPSC_E_NOMEM;
    if (status) lipsc_fail(err, status, "no memory for rows");
    status = share->agree(share->ctx, status, err);
    lipsc_share seen = *share;
    seen.ctx = &g;
    seen.gather = gather;
    seen.exchange = exchange;
    seen.agree = agree;
    char *room = share->direct ? g.gpu + own + all : host;
    const lipsc_travel t = {&seen,      room,         room + own, room + own + all,
                            queue_copy, wait_for_all, &g};
    static const size_t widths[] = {1, 8, WIDEST};
    size_t wrong = 0;
    for (size_t i = 0; i < sizeof widths / sizeof *widths && !status; i++)
        wrong += try_rows(&g, &t, widths[i], &status);
    free(g.gpu);
    free(host);
    if (!status && g.wrong_address)
        return lipsc_fail(err, LIPSC_E_BACKEND,
                          "MPI was given an address of the wrong memory");
    if (!status && wrong)
        return lipsc_fail(err, LIPSC_E_BACKEND, "%zu bytes have not arrived", wrong);
    return status;
}
