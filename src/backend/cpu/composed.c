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
 * are seen, are multiplied.  Whether an input is composed depends on its own mask and the
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

static int sees_all(const lipsc_cpu_member *of) {
    const span keys = keys_seen(of, (span){of->n - 1, 1});
    return keys.from == 0 && keys.end == of->n;
}

static void *probabilities_of(const lipsc_cpu_weights *w, const lipsc_cpu_member *of,
                              size_t h) {
    return (char *)of->composed_p + h * of->n * of->n * w->kernels->item;
}

/* ---- With the input ------------------------------------------------------------------ */

/* to, every heads-th row of a panel: (n, key_dim) a times the rows of head `head` of a
 * transposed weight whose panels have `inner` rows. */
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
    w->kernels->composed->probabilities(&head, probabilities_of(w, of, h), n,
                                        lipsc_cpu_thread_scratch(b));
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
        if (!of->composed_p)
            of->composed_p = lipsc_cpu_alloc(w->space, heads * of->n * of->n);
        if (!of->composed_in || !of->composed_out || !of->composed_p) return LIPSC_E_NOMEM;
        b->bytes += (wide + deep + heads * of->n * of->n) * item;
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
        elements += p->dirs * p->of->n * columns_of(b->w, p->of->n);
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
        lipsc_cpu_release(b->w->space, b->member[i].composed_p);
    }
    lipsc_cpu_release(b->w->space, b->change);
}

/* ---- Products ------------------------------------------------------------------------ */

static lipsc_score_change change_of(const lipsc_cpu_pass *pass, const lipsc_cpu_piece *p,
                                    size_t h) {
    const lipsc_cpu_batch *b = pass->batch;
    return (lipsc_score_change){.at = (char *)b->change +
                                      (p->change + h) * b->w->kernels->item,
                                .row = columns_of(b->w, p->of->n),
                                .step = b->w->layer->heads};
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
    const lipsc_score_change to = change_of(pass, p, 0);
    const lipsc_gemm g = {.a = x + p->base * d * w->kernels->item,
                          .a_row = d,
                          .segs = 1,
                          .seg_len = d,
                          .b = p->of->composed_in,
                          .c = to.at,
                          .c_row = to.row,
                          .group = 1,
                          .c_group = nr,
                          .columns = to.row};
    for (size_t i = panels.from; i < panels.end; i++) {
        const span rows =
            rows_of_panel(p, w->layer->heads, i * nr, min_size((i + 1) * nr, to.row));
        for (size_t dir = 0; dir < p->dirs; dir++)
            w->kernels->gemm(&g, dir * n + rows.from, dir * n + rows.end, i, i + 1);
    }
}

/* A panel of y += changes of the scores, for a block of its rows. */
static void add_columns(const lipsc_cpu_pass *pass, const lipsc_cpu_piece *p, span rows,
                        span columns, size_t panel, char *y) {
    const lipsc_cpu_weights *w = pass->batch->w;
    const size_t n = p->of->n, d = w->layer->d, nr = w->kernels->nr,
                 item = w->kernels->item;
    const lipsc_score_change from = change_of(pass, p, 0);
    const lipsc_gemm g = {.a = (char *)from.at + columns.from * item,
                          .a_row = from.row,
                          .segs = 1,
                          .seg_len = columns.end - columns.from,
                          .b = (char *)p->of->composed_out + columns.from * nr * item,
                          .b_panel = from.row,
                          .c = y + p->base * d * item,
                          .c_row = d,
                          .group = 1,
                          .c_group = nr,
                          .columns = d,
                          .add = 1};
    for (size_t dir = 0; dir < p->dirs; dir++)
        w->kernels->gemm(&g, dir * n + rows.from, dir * n + rows.end, panel, panel + 1);
}

/* Panels of y += those of one piece, by blocks of rows that see nearly the same keys. */
static void change_to_panels(const lipsc_cpu_pass *pass, const lipsc_cpu_piece *p,
                             span panels, char *y) {
    enum { BLOCK = 12 };
    const size_t n = p->of->n, heads = pass->batch->w->layer->heads;
    const size_t block = sees_all(p->of) ? n : BLOCK;
    for (size_t i = panels.from; i < panels.end; i++)
        for (size_t r = 0; r < n; r += block) {
            const span rows = {r, min_size(r + block, n)};
            const span by = rows_seeing(p->of, rows), keys = keys_seen(p->of, rows);
            const span columns[] = {{by.from * heads, by.end * heads},
                                    {(n + keys.from) * heads, (n + keys.end) * heads}};
            if (by.end == n && keys.from == 0) {
                add_columns(pass, p, rows, (span){columns[0].from, columns[1].end}, i, y);
                continue;
            }
            for (int part = 0; part < 2; part++)
                add_columns(pass, p, rows, columns[part], i, y);
        }
}

/* Of all pieces, by panels: at least four tasks a thread where there are so many. */
static void multiply(const lipsc_cpu_pass *pass, int back, char *rows) {
    const lipsc_cpu_batch *b = pass->batch;
    const size_t nr = b->w->kernels->nr;
    const size_t cuts = ceil_div(4 * (size_t)b->threads, pass->pieces);
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
        const lipsc_score_change change = change_of(pass, p, h);
        b->w->kernels->composed->forward(&head, &d, probabilities_of(b->w, p->of, h),
                                         &change, lipsc_cpu_thread_scratch(b));
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
        if (h == g * share) memset(d.gz, 0, p->dirs * n * w->vw * w->kernels->item);
        const lipsc_score_change change = change_of(pass, p, h);
        w->kernels->composed->adjoint(&head, &d, probabilities_of(w, p->of, h), &change,
                                      lipsc_cpu_thread_scratch(b));
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
