/* composed.c - products at short inputs, where scores change by way of composed matrices.
 *
 * The score of row i and key j of a head changes by
 *
 *     dq_i.k_j + q_i.dk_j = x_i.(K Wq)_j + (Q Wk)_i.x_j.
 *
 * K Wq and Q Wk, (n, d) of every head, are kept with the input: 4 heads operations for a
 * key that a row sees and an element of x in place of 2 key_dim (heads + kv_heads) for dq
 * and dk, fewer where n is small.  J^T goes the same way back.  Only in f32: what is proved
 * in double is proved of the plain products.
 *
 * Columns: (Q Wk)_i of all heads for each row i, then (K Wq)_j of all heads for each key j.
 * A panel holds those of few tokens, so that under a mask only the rows that see them, or
 * are seen, are multiplied.  In J^T each head writes its changes to a tile of its own,
 * since threads that write to the same lines wait for each other; what a block of rows
 * needs of all tiles is then packed in the order of the columns.  Probabilities and values
 * are kept as kept.c does it.  Whether an input is composed depends on its own mask and the
 * layer, and so does every order of a sum: its bits do not depend on its neighbours. */
#include "backend/cpu/cpu.h"

#include "core/extreme.h"
#include "core/mem.h"

#include <string.h>

int lipsc_cpu_composes(const lipsc_cpu_batch *b, const lipsc_cpu_member *of) {
    /* of an input 16 heads d bytes a token are kept: with 512 tokens in a batch, 128 MiB */
    enum { MOST = 16384 };
    const lipsc_cpu_weights *w = b->w;
    const lipsc_layer *l = w->layer;
    const size_t n = of->n;
    const int plain =
        !l->rotary_dim && !l->q_gain && !l->k_gain && !(l->soft_cap > 0) && !l->sinks;
    if (w->dtype != LIPSC_F32 || !plain || n > w->kernels->composed->most) return 0;
    if (l->d > MOST / l->heads) return 0;
    size_t seen = 0;
    for (size_t i = of->first; i < of->first + n; i++) seen += b->hi[i] - b->lo[i];
    /* a quarter fewer operations, or more */
    return 4 * 4 * seen * l->heads <= 3 * 2 * n * w->kw * (l->heads + l->kv_heads);
}

static size_t columns_of(const lipsc_cpu_weights *w, size_t n) {
    return 2 * n * w->layer->heads;
}

/* Elements of a head's tile, in which the changes of its scores come back. */
static size_t tile_of(const lipsc_cpu_weights *w, size_t n) {
    return n * ceil_div(n, w->kernels->nr) * w->kernels->nr;
}

/* What the changes of the scores of all heads take: for J, or packed for J^T, and tiles. */
static size_t change_of(const lipsc_cpu_weights *w, size_t n) {
    return n * columns_of(w, n) + w->layer->heads * tile_of(w, n);
}

/* Tokens from .. end-1 of an input. */
typedef struct {
    size_t from, end;
} span;

/* The keys that rows of s see, and the rows that see keys of s. */
static span keys_seen(const lipsc_cpu_member *of, span s) {
    const size_t *lo = of->batch->lo + of->first, *hi = of->batch->hi + of->first;
    return (span){lo[s.from], hi[s.end - 1]};
}

static span rows_seeing(const lipsc_cpu_member *of, span s) {
    const size_t *lo = of->batch->lo + of->first, *hi = of->batch->hi + of->first;
    span rows = {0, of->n};
    while (rows.from < rows.end && hi[rows.from] <= s.from) rows.from++;
    while (rows.end > rows.from && lo[rows.end - 1] >= s.end) rows.end--;
    return rows;
}

/* ---- With the input ------------------------------------------------------------------ */

/* (n, key_dim) a times the rows of head `head` of a transposed weight whose panels have
 * `inner` rows: panel p. */
static void compose_panel(const lipsc_cpu_weights *w, size_t n, const void *a,
                          const char *weight, size_t inner, size_t head, size_t p,
                          void *to) {
    const size_t nr = w->kernels->nr, item = w->kernels->item;
    const lipsc_gemm g = {.a = a,
                          .a_row = w->kw,
                          .segs = 1,
                          .seg_len = w->kw,
                          .b = weight + (p * inner + head * w->kw) * nr * item,
                          .c = to,
                          .c_row = nr * w->layer->heads,
                          .group = 1,
                          .c_group = nr,
                          .columns = min_size(nr, w->layer->d - p * nr)};
    w->kernels->gemm(&g, 0, n, 0, 1);
}

static void compose_head(lipsc_cpu_batch *b, const lipsc_cpu_member *of, size_t h) {
    const lipsc_cpu_weights *w = b->w;
    const size_t n = of->n, d = w->layer->d, nr = w->kernels->nr, item = w->kernels->item;
    const size_t heads = w->layer->heads, kv = w->layer->kv_heads, g = h * kv / heads;
    const size_t columns = columns_of(w, n);
    const lipsc_head head = lipsc_cpu_head(b, of, h);
    for (size_t p = 0; p * nr < d; p++) {
        char *panel = (char *)of->composed_out + p * columns * nr * item;
        compose_panel(w, n, head.q, w->k_out, kv * w->kw, g, p, panel + h * nr * item);
        compose_panel(w, n, head.k, w->q_out, heads * w->kw, h, p,
                      panel + (n * heads + h) * nr * item);
        for (size_t column = h; column < columns; column += heads)
            for (size_t c = p * nr; c < min_size((p + 1) * nr, d); c++) {
                char *to = (char *)of->composed_in +
                           ((column / nr * d + c) * nr + column % nr) * item;
                memcpy(to, panel + (column * nr + c - p * nr) * item, sizeof(float));
            }
    }
}

/* Of the inputs that have none yet. */
static lipsc_status compose(lipsc_cpu_batch *b) {
    const lipsc_cpu_weights *w = b->w;
    const size_t nr = w->kernels->nr, item = w->kernels->item, d = w->layer->d,
                 heads = w->layer->heads;
    for (size_t i = 0; i < b->inputs; i++) {
        lipsc_cpu_member *of = &b->member[i];
        if (of->way != LIPSC_CPU_COMPOSED) continue;
        const size_t columns = columns_of(w, of->n), wide = ceil_div(columns, nr) * nr * d,
                     deep = ceil_div(d, nr) * nr * columns;
        /* some may be there, from a call that found no memory for the others */
        if (!of->composed_in) of->composed_in = lipsc_cpu_alloc(w->space, wide);
        if (!of->composed_out) of->composed_out = lipsc_cpu_alloc(w->space, deep);
        if (!of->composed_in || !of->composed_out) return LIPSC_E_NOMEM;
        b->bytes += (wide + deep) * item;
        memset(of->composed_in, 0, wide * item);
        memset(of->composed_out, 0, deep * item);
    }
#pragma omp parallel for num_threads(b->threads) schedule(dynamic, 1)
    for (size_t t = 0; t < b->inputs * heads; t++)
        if (b->member[t / heads].way == LIPSC_CPU_COMPOSED)
            compose_head(b, &b->member[t / heads], t % heads);
    b->composed = 1;
    return LIPSC_OK;
}

lipsc_status lipsc_cpu_compose(lipsc_cpu_pass *pass) {
    lipsc_cpu_batch *b = pass->batch;
    size_t elements = 0;
    for (size_t i = 0; i < pass->pieces; i++) {
        lipsc_cpu_piece *p = &pass->piece[i];
        p->change = elements;
        elements += p->dirs * change_of(b->w, p->of->n);
    }
    if (b->changes < elements) {
        lipsc_cpu_release(b->w->space, b->change);
        b->bytes += (elements - b->changes) * b->w->kernels->item;
        b->change = lipsc_cpu_alloc(b->w->space, elements);
        b->changes = b->change ? elements : 0;
        if (!b->change) return LIPSC_E_NOMEM;
    }
    return b->composed ? LIPSC_OK : compose(b);
}

void lipsc_cpu_composed_free(lipsc_cpu_batch *b) {
    for (size_t i = 0; b->member && i < b->inputs; i++) {
        lipsc_cpu_release(b->w->space, b->member[i].composed_in);
        lipsc_cpu_release(b->w->space, b->member[i].composed_out);
    }
    lipsc_cpu_release(b->w->space, b->change);
}

/* ---- Products ------------------------------------------------------------------------ */

/* Those of a piece: (dirs, n, columns), and the tiles behind them (dirs, heads, tile). */
static char *change_at(const lipsc_cpu_pass *pass, const lipsc_cpu_piece *p) {
    return (char *)pass->batch->change + p->change * pass->batch->w->kernels->item;
}

static char *tiles_at(const lipsc_cpu_pass *pass, const lipsc_cpu_piece *p) {
    const lipsc_cpu_weights *w = pass->batch->w;
    const size_t n = p->of->n;
    return change_at(pass, p) + p->dirs * n * columns_of(w, n) * w->kernels->item;
}

/* Rows of x that a panel of columns is multiplied with. */
static span rows_of_panel(const lipsc_cpu_piece *p, size_t heads, size_t begin,
                          size_t end) {
    const size_t n = p->of->n, first = begin / heads, last = ceil_div(end, heads);
    span rows = {n, 0};
    if (first < n) rows = keys_seen(p->of, (span){first, min_size(last, n)});
    if (last > n) {
        const span more = rows_seeing(p->of, (span){first > n ? first - n : 0, last - n});
        rows = (span){min_size(rows.from, more.from), max_size(rows.end, more.end)};
    }
    return rows;
}

/* Panels of the rows of one piece: changes of its scores. */
static void panels_to_change(const lipsc_cpu_pass *pass, const lipsc_cpu_piece *p,
                             span panels, const char *x) {
    const lipsc_cpu_weights *w = pass->batch->w;
    const size_t n = p->of->n, d = w->layer->d, nr = w->kernels->nr;
    const size_t columns = columns_of(w, n);
    const lipsc_gemm g = {.a = x + p->base * d * w->kernels->item,
                          .a_row = d,
                          .segs = 1,
                          .seg_len = d,
                          .b = p->of->composed_in,
                          .c = change_at(pass, p),
                          .c_row = columns,
                          .group = 1,
                          .c_group = nr,
                          .columns = columns};
    for (size_t i = panels.from; i < panels.end; i++) {
        const span rows =
            rows_of_panel(p, w->layer->heads, i * nr, min_size((i + 1) * nr, columns));
        for (size_t dir = 0; dir < p->dirs; dir++)
            w->kernels->gemm(&g, dir * n + rows.from, dir * n + rows.end, i, i + 1);
    }
}

static lipsc_score_sums sums_of(const lipsc_cpu_pass *pass, const lipsc_cpu_piece *p,
                                char *y) {
    const lipsc_cpu_batch *b = pass->batch;
    const size_t d = b->w->layer->d, first = p->of->first;
    return (lipsc_score_sums){.n = p->of->n,
                              .heads = b->w->layer->heads,
                              .dirs = p->dirs,
                              .lo = b->lo + first,
                              .hi = b->hi + first,
                              .tiles = tiles_at(pass, p),
                              .packed = change_at(pass, p),
                              .b = p->of->composed_out,
                              .y = y + p->base * d * b->w->kernels->item,
                              .y_row = d,
                              .columns = d};
}

/* Panels of the rows of one piece: y += those that the changes of its scores make. */
static void change_to_panels(const lipsc_cpu_pass *pass, const lipsc_cpu_piece *p,
                             span panels, char *y) {
    const lipsc_score_sums sums = sums_of(pass, p, y);
    pass->batch->w->kernels->composed->back(&sums, panels.from, panels.end);
}

/* The tiles of all pieces, in `cuts` parts each, as the panels are multiplied with them. */
static void pack_changes(const lipsc_cpu_pass *pass, size_t cuts, char *y) {
    const lipsc_cpu_batch *b = pass->batch;
#pragma omp parallel for num_threads(b->threads) schedule(dynamic, 1)
    for (size_t t = 0; t < pass->pieces * cuts; t++) {
        const lipsc_score_sums sums = sums_of(pass, &pass->piece[t / cuts], y);
        b->w->kernels->composed->pack(&sums, t % cuts, cuts);
    }
}

/* Of all pieces, by panels: at least four tasks a thread where there are so many. */
static void multiply(const lipsc_cpu_pass *pass, int back, char *rows) {
    const lipsc_cpu_batch *b = pass->batch;
    const size_t nr = b->w->kernels->nr;
    const size_t cuts = ceil_div(4 * (size_t)b->threads, pass->pieces);
    if (back) pack_changes(pass, cuts, rows);
#pragma omp parallel for num_threads(b->threads) schedule(dynamic, 1)
    for (size_t t = 0; t < pass->pieces * cuts; t++) {
        const lipsc_cpu_piece *p = &pass->piece[t / cuts];
        const size_t columns = back ? b->w->layer->d : columns_of(b->w, p->of->n);
        const size_t panels = ceil_div(columns, nr), per = ceil_div(panels, cuts);
        const size_t from = min_size(t % cuts * per, panels);
        const span own = {from, min_size(from + per, panels)};
        if (back)
            change_to_panels(pass, p, own, rows);
        else
            panels_to_change(pass, p, own, rows);
    }
}

void lipsc_cpu_composed_forward(const lipsc_cpu_pass *pass, const void *x) {
    const lipsc_cpu_batch *b = pass->batch;
    const size_t heads = b->w->layer->heads;
    lipsc_cpu_project(b->w, b->threads, pass->rows, x, NULL, NULL, b->dz, 0);
    multiply(pass, 0, (char *)(uintptr_t)x);
#pragma omp parallel for num_threads(b->threads) schedule(dynamic, 1)
    for (size_t t = 0; t < pass->pieces * heads; t++) {
        const lipsc_cpu_piece *p = &pass->piece[t / heads];
        const size_t h = t % heads;
        const lipsc_head head = lipsc_cpu_head(b, p->of, h);
        const lipsc_head_dirs d = lipsc_cpu_head_dirs(b, pass->rows, p->base, p->dirs, h);
        const lipsc_kept kept = lipsc_cpu_kept_head(b->w, p->of, h);
        const lipsc_score_change change = {.at =
                                               change_at(pass, p) + h * b->w->kernels->item,
                                           .row = columns_of(b->w, p->of->n),
                                           .step = heads};
        b->w->kernels->composed->forward(&head, &d, &kept, &change,
                                         lipsc_cpu_thread_scratch(b));
    }
}

/* The query heads of key head g. */
static void adjoint_heads(const lipsc_cpu_pass *pass, const lipsc_cpu_piece *p, size_t g) {
    const lipsc_cpu_batch *b = pass->batch;
    const lipsc_cpu_weights *w = b->w;
    const size_t n = p->of->n, share = w->layer->heads / w->layer->kv_heads;
    for (size_t h = g * share; h < (g + 1) * share; h++) {
        const lipsc_head head = lipsc_cpu_head(b, p->of, h);
        const lipsc_head_dirs d = lipsc_cpu_head_dirs(b, pass->rows, p->base, p->dirs, h);
        const lipsc_kept kept = lipsc_cpu_kept_head(w, p->of, h);
        const size_t tile = tile_of(w, n);
        w->kernels->composed->adjoint(&head, &d, &kept, h > g * share,
                                      tiles_at(pass, p) + h * tile * w->kernels->item,
                                      w->layer->heads * tile);
    }
}

void lipsc_cpu_composed_adjoint(const lipsc_cpu_pass *pass, void *y) {
    const lipsc_cpu_batch *b = pass->batch;
    const size_t kv = b->w->layer->kv_heads;
#pragma omp parallel for num_threads(b->threads) schedule(dynamic, 1)
    for (size_t t = 0; t < pass->pieces * kv; t++)
        adjoint_heads(pass, &pass->piece[t / kv], t % kv);
    lipsc_cpu_project_back(b->w, b->threads, pass->rows, NULL, NULL, b->dz, y);
    multiply(pass, 1, y);
}
