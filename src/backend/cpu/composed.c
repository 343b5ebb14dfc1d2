/* composed.c - products at short inputs, where scores change by way of composed matrices.
 *
 * The score of row i and key j of a head changes by
 *
 *     dq_i.k_j + q_i.dk_j = x_i.(K Wq)_j + (Q Wk)_i.x_j.
 *
 * K Wq and Q Wk, (n, d) of every head, are kept with the input: 4 n heads operations for an
 * element of x in place of 2 key_dim (heads + kv_heads) for dq and dk, fewer where n is
 * small.  J^T goes the same way back.  Only in f32: what is proved in double is proved of
 * the plain products.
 *
 * Columns of a head: n of K Wq, then n of Q Wk.  Whether an input is composed depends on
 * its own length and the layer, so that its bits do not depend on its neighbours. */
#include "backend/cpu/cpu.h"

#include "core/extreme.h"
#include "core/mem.h"

#include <string.h>

int lipsc_cpu_composes(const lipsc_cpu_weights *w, size_t n) {
    /* of an input 16 heads d bytes a token are kept: with 512 tokens in a batch, 128 MiB */
    enum { MOST = 16384 };
    const lipsc_layer *l = w->layer;
    const int plain =
        !l->rotary_dim && !l->q_gain && !l->k_gain && !(l->soft_cap > 0) && !l->sinks;
    if (w->dtype != LIPSC_F32 || !plain || n > w->kernels->composed->most) return 0;
    if (l->d > MOST / l->heads) return 0;
    /* a quarter fewer operations, or more */
    return 4 * 4 * n * l->heads <= 3 * 2 * w->kw * (l->heads + l->kv_heads);
}

static size_t columns_of(const lipsc_cpu_weights *w, size_t n) {
    return 2 * n * w->layer->heads;
}

static void *probabilities_of(const lipsc_cpu_weights *w, const lipsc_cpu_member *of,
                              size_t h) {
    return (char *)of->composed_p + h * of->n * of->n * w->kernels->item;
}

/* ---- With the input ------------------------------------------------------------------ */

/* to, rows of a panel: (n, key_dim) a times the rows of head `head` of a transposed weight
 * whose panels have `inner` rows. */
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
                          .c_row = nr,
                          .group = 1,
                          .c_group = nr,
                          .columns = min_size(nr, w->layer->d - p * nr)};
    w->kernels->gemm(&g, 0, n, 0, 1);
}

static void compose_head(lipsc_cpu_batch *b, const lipsc_cpu_member *of, size_t h) {
    const lipsc_cpu_weights *w = b->w;
    const size_t n = of->n, d = w->layer->d, nr = w->kernels->nr, item = w->kernels->item;
    const size_t heads = w->layer->heads, kv = w->layer->kv_heads, g = h * kv / heads;
    const size_t columns = columns_of(w, n), first = 2 * n * h;
    const lipsc_head head = lipsc_cpu_head(b, of, h);
    w->kernels->composed->probabilities(&head, probabilities_of(w, of, h),
                                        lipsc_cpu_thread_scratch(b));
    for (size_t p = 0; p * nr < d; p++) {
        char *rows = (char *)of->composed_out + (p * columns + first) * nr * item;
        compose_panel(w, n, head.k, w->q_out, heads * w->kw, h, p, rows);
        compose_panel(w, n, head.q, w->k_out, kv * w->kw, g, p, rows + n * nr * item);
        for (size_t r = 0; r < 2 * n; r++)
            for (size_t c = p * nr; c < min_size((p + 1) * nr, d); c++) {
                const size_t column = first + r;
                char *to = (char *)of->composed_in +
                           ((column / nr * d + c) * nr + column % nr) * item;
                memcpy(to, rows + (r * nr + c - p * nr) * item, sizeof(float));
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
        if (!of->composed) continue;
        const size_t columns = columns_of(w, of->n), wide = ceil_div(columns, nr) * nr * d,
                     deep = ceil_div(d, nr) * nr * columns;
        /* some may be there, from a call that found no memory for the others */
        if (!of->composed_in) of->composed_in = lipsc_space_alloc(w->space, wide);
        if (!of->composed_out) of->composed_out = lipsc_space_alloc(w->space, deep);
        if (!of->composed_p)
            of->composed_p = lipsc_space_alloc(w->space, heads * of->n * of->n);
        if (!of->composed_in || !of->composed_out || !of->composed_p) return LIPSC_E_NOMEM;
        b->bytes += (wide + deep + heads * of->n * of->n) * item;
        memset(of->composed_in, 0, wide * item);
        memset(of->composed_out, 0, deep * item);
    }
#pragma omp parallel for num_threads(b->threads) schedule(dynamic, 1)
    for (size_t t = 0; t < b->inputs * heads; t++)
        if (b->member[t / heads].composed)
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
        lipsc_space_release(b->w->space, b->change);
        b->bytes += (elements - b->changes) * b->w->kernels->item;
        b->change = lipsc_space_alloc(b->w->space, elements);
        b->changes = b->change ? elements : 0;
        if (!b->change) return LIPSC_E_NOMEM;
    }
    return b->composed ? LIPSC_OK : compose(b);
}

void lipsc_cpu_composed_free(lipsc_cpu_batch *b) {
    for (size_t i = 0; b->member && i < b->inputs; i++) {
        lipsc_space_release(b->w->space, b->member[i].composed_in);
        lipsc_space_release(b->w->space, b->member[i].composed_out);
        lipsc_space_release(b->w->space, b->member[i].composed_p);
    }
    lipsc_space_release(b->w->space, b->change);
}

/* ---- Products ------------------------------------------------------------------------ */

static char *change_of(const lipsc_cpu_pass *pass, const lipsc_cpu_piece *p, size_t h) {
    const lipsc_cpu_batch *b = pass->batch;
    return (char *)b->change + (p->change + 2 * p->of->n * h) * b->w->kernels->item;
}

/* The product of one piece: its rows of x to the changes of scores, or these back, added
 * to its rows of y. */
static lipsc_gemm gemm_of(const lipsc_cpu_pass *pass, const lipsc_cpu_piece *p, int back,
                          char *rows) {
    const lipsc_cpu_weights *w = pass->batch->w;
    const size_t d = w->layer->d, columns = columns_of(w, p->of->n);
    char *own = rows + p->base * d * w->kernels->item, *change = change_of(pass, p, 0);
    return (lipsc_gemm){.a = back ? change : own,
                        .a_row = back ? columns : d,
                        .segs = 1,
                        .seg_len = back ? columns : d,
                        .b = back ? p->of->composed_out : p->of->composed_in,
                        .c = back ? own : change,
                        .c_row = back ? d : columns,
                        .group = 1,
                        .c_group = w->kernels->nr,
                        .columns = back ? d : columns,
                        .add = back};
}

/* Of all pieces, by panels: at least four tasks a thread where there are so many. */
static void multiply(const lipsc_cpu_pass *pass, int back, char *rows) {
    const lipsc_cpu_batch *b = pass->batch;
    const size_t nr = b->w->kernels->nr;
    const size_t cuts = ceil_div(4 * (size_t)b->threads, pass->pieces);
#pragma omp parallel for num_threads(b->threads) schedule(dynamic, 1)
    for (size_t t = 0; t < pass->pieces * cuts; t++) {
        const lipsc_cpu_piece *p = &pass->piece[t / cuts];
        const lipsc_gemm g = gemm_of(pass, p, back, rows);
        const size_t panels = ceil_div(g.columns, nr), per = ceil_div(panels, cuts);
        const size_t from = min_size(t % cuts * per, panels);
        b->w->kernels->gemm(&g, 0, p->dirs * p->of->n, from, min_size(from + per, panels));
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
        b->w->kernels->composed->forward(&head, &d, probabilities_of(b->w, p->of, h),
                                         change_of(pass, p, h), columns_of(b->w, p->of->n),
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
        if (h == g * share) memset(d.gz, 0, p->dirs * n * w->vw * w->kernels->item);
        w->kernels->composed->adjoint(&head, &d, probabilities_of(w, p->of, h),
                                      change_of(pass, p, h), columns_of(w, n),
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
