/* product.c - J x and J^T x at one input whose rows several ranks share.
 *
 *     J:    own rows: dq, dk, dz   -> dk, dz of everybody   -> core, own rows x all keys
 *     J^T:  core, own rows x all keys: gq, and what they add to all gk, gz
 *                                  -> sums of own gk, gz    -> own rows of y
 *
 * Each row of J x is found by one rank, with the very operations of a CPU that has all of
 * them: the same bits.  J^T adds up in another order.  Projections, queries and outputs are
 * those of own rows; of keys and values every rank has all. */
#include <string.h>

#include "backend/ranks/split.h"
#include "core/mem.h"

static size_t ceil_div(size_t a, size_t b) { return (a + b - 1) / b; }
static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Rows of one pass, one after the other; head layout. */
typedef struct {
    lipsc_row_split *split;
    lipsc_cpu_pass pass; /* all rows, in the work memory of the batch */
    size_t dirs;
    void *q, *k, *z, *heads; /* own rows                              */
    void *rows;              /* own rows weighted; NULL: without       */
} shared;

static lipsc_cpu_batch *batch_of(const shared *s) { return s->pass.batch; }

/* ---- Between own rows and all -------------------------------------------------------- */

typedef enum { SPREAD, COLLECT, GATHER, REDUCE } travel;

/* Every head and direction of an array: own (heads, dirs, own rows, width), all (heads,
 * dirs, n, width). */
static lipsc_status move(const shared *s, travel how, size_t heads, size_t width, void *own,
                         void *all) {
    const size_t item = batch_of(s)->w->kernels->item, row = width * item;
    const size_t here = s->split->rows.own * row, there = s->split->rows.rows * row;
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; i < heads * s->dirs && !status; i++) {
        char *a = (char *)own + i * here, *b = (char *)all + i * there;
        if (how == SPREAD) lipsc_split_spread(s->split, row, a, b);
        if (how == COLLECT) lipsc_split_collect(s->split, row, b, a);
        if (how == GATHER) status = lipsc_split_gather(s->split, row, a, b);
        if (how == REDUCE) status = lipsc_split_reduce(s->split, row, item, b, a);
    }
    return status;
}

/* Own rows times the roots of their weights, or divided by them; in place where to is x. */
static void weigh(const shared *s, const void *factors, size_t width, const void *x,
                  void *to) {
    const lipsc_cpu_batch *b = batch_of(s);
    const size_t item = b->w->kernels->item, vector = s->split->rows.own * width * item;
    const size_t *own = s->split->own, first = own[1] - own[0];
    for (size_t dir = 0; dir < s->dirs; dir++)
        for (int part = 0; part < 2; part++) {
            const size_t at = dir * vector + (part ? first * width * item : 0);
            b->w->stages->gather(own[2 * part + 1] - own[2 * part], width, NULL,
                                 (const char *)factors + own[2 * part] * item,
                                 (const char *)x + at, (char *)to + at);
        }
}

/* ---- The core ------------------------------------------------------------------------ */

static lipsc_head_dirs head_dirs(const shared *s, size_t h) {
    return lipsc_cpu_head_dirs(batch_of(s), s->pass.rows, 0, s->dirs, h);
}

/* Cuts of own rows, none of more than `size`: how many, and the c-th. */
static size_t count_cuts(const size_t own[4], size_t size) {
    return ceil_div(own[1] - own[0], size) + ceil_div(own[3] - own[2], size);
}
static void cut_at(const size_t own[4], size_t size, size_t c, size_t *i0, size_t *i1) {
    const size_t front = ceil_div(own[1] - own[0], size);
    const size_t part = c < front ? 0 : 2;
    *i0 = own[part] + (c < front ? c : c - front) * size;
    *i1 = least(*i0 + size, own[part + 1]);
}

static void core_forward(const shared *s) {
    enum { CUT = 192 };
    const lipsc_cpu_batch *b = batch_of(s);
    const size_t heads = b->w->layer->heads, cuts = count_cuts(s->split->own, CUT);
#pragma omp parallel for num_threads(b->threads) schedule(dynamic, 1)
    for (size_t task = 0; task < heads * cuts; task++) {
        size_t i0, i1;
        cut_at(s->split->own, CUT, cuts - 1 - task / heads, &i0, &i1); /* long ones first */
        const lipsc_head head = lipsc_cpu_head(b, s->pass.piece->of, task % heads);
        const lipsc_head_dirs d = head_dirs(s, task % heads);
        b->w->kernels->forward(&head, &d, i0, i1, lipsc_cpu_thread_scratch(b));
    }
}

/* Cut a of the rows against cut c of the keys, for all query heads of key head g. */
static void adjoint_task(const shared *s, size_t size, size_t a, size_t c, size_t g) {
    const lipsc_cpu_batch *b = batch_of(s);
    const size_t share = b->w->layer->heads / b->w->layer->kv_heads;
    const size_t j0 = c * size, j1 = least(j0 + size, s->split->rows.rows);
    size_t i0, i1;
    cut_at(s->split->own, size, a, &i0, &i1);
    for (size_t h = g * share; h < (g + 1) * share; h++) {
        const lipsc_head head = lipsc_cpu_head(b, s->pass.piece->of, h);
        const lipsc_head_dirs d = head_dirs(s, h);
        b->w->kernels->adjoint(&head, &d, i0, i1, j0, j1, lipsc_cpu_thread_scratch(b));
    }
}

static void adjoint_statistics(const shared *s, size_t size) {
    const lipsc_cpu_batch *b = batch_of(s);
    const size_t heads = b->w->layer->heads, cuts = count_cuts(s->split->own, size);
#pragma omp parallel for num_threads(b->threads) schedule(dynamic, 1)
    for (size_t task = 0; task < heads * cuts; task++) {
        size_t i0, i1;
        cut_at(s->split->own, size, task / heads, &i0, &i1);
        const lipsc_head head = lipsc_cpu_head(b, s->pass.piece->of, task % heads);
        const lipsc_head_dirs d = head_dirs(s, task % heads);
        b->w->kernels->adjoint_rows(&head, &d, i0, i1);
    }
}

/* Tasks that run at once never write to the same place: in each phase a cut of the rows
 * meets another cut of the keys. */
static void core_adjoint(const shared *s) {
    const lipsc_cpu_batch *b = batch_of(s);
    const lipsc_cpu_weights *w = b->w;
    const size_t n = s->split->rows.rows, kv = w->layer->kv_heads;
    const size_t wanted = least(ceil_div(32, kv), ceil_div(n, 384));
    const size_t size = ceil_div(ceil_div(n, wanted), 96) * 96;
    const size_t rows = count_cuts(s->split->own, size), keys = ceil_div(n, size);
    const size_t phases = rows > keys ? rows : keys, all = s->pass.rows * w->kernels->item;
    memset(b->dq, 0, w->layer->heads * w->kw * all);
    memset(b->dk, 0, kv * w->kw * all);
    memset(b->dz, 0, kv * w->vw * all);
    adjoint_statistics(s, size);
#pragma omp parallel num_threads(b->threads)
    for (size_t phase = 0; phase < phases; phase++)
#pragma omp for schedule(dynamic, 1)
        for (size_t task = 0; task < rows * kv; task++) {
            const size_t a = task / kv, c = (a + phase) % phases;
            if (c < keys) adjoint_task(s, size, a, c, task % kv);
        }
}

/* ---- Products ------------------------------------------------------------------------ */

static lipsc_status forward(shared *s, const void *x, void *y) {
    lipsc_cpu_batch *b = batch_of(s);
    const lipsc_cpu_weights *w = b->w;
    const size_t own = s->dirs * s->split->rows.own, kv = w->layer->kv_heads;
    if (b->root) {
        weigh(s, b->inverse_root, w->layer->d, x, s->rows);
        x = s->rows;
    }
    if (own) lipsc_cpu_project(w, b->threads, own, x, s->q, s->k, s->z, 0);
    memset(b->dq, 0, w->layer->heads * w->kw * s->pass.rows * w->kernels->item);
    lipsc_status status = move(s, SPREAD, w->layer->heads, w->kw, s->q, b->dq);
    if (!status) status = move(s, GATHER, kv, w->kw, s->k, b->dk);
    if (!status) status = move(s, GATHER, kv, w->vw, s->z, b->dz);
    if (status) return status;
    lipsc_cpu_turn(&s->pass, 0, b->dq, b->dk);
    core_forward(s);
    status = move(s, COLLECT, w->layer->heads, w->vw, s->heads, b->heads);
    if (own) lipsc_cpu_combine_heads(w, b->threads, own, s->heads, y);
    if (b->root) weigh(s, b->root, w->width, y, y);
    return status;
}

static lipsc_status adjoint(shared *s, const void *x, void *y) {
    lipsc_cpu_batch *b = batch_of(s);
    const lipsc_cpu_weights *w = b->w;
    const size_t own = s->dirs * s->split->rows.own, kv = w->layer->kv_heads;
    if (b->root) {
        weigh(s, b->root, w->width, x, s->rows);
        x = s->rows;
    }
    if (own) lipsc_cpu_split_heads(w, b->threads, own, x, s->heads);
    lipsc_status status = move(s, SPREAD, w->layer->heads, w->vw, s->heads, b->heads);
    core_adjoint(s);
    lipsc_cpu_turn(&s->pass, 1, b->dq, b->dk);
    if (!status) status = move(s, COLLECT, w->layer->heads, w->kw, s->q, b->dq);
    if (!status) status = move(s, REDUCE, kv, w->kw, s->k, b->dk);
    if (!status) status = move(s, REDUCE, kv, w->vw, s->z, b->dz);
    if (!status && own) lipsc_cpu_project_back(w, b->threads, own, s->q, s->k, s->z, y);
    if (!status && b->root) weigh(s, b->inverse_root, w->layer->d, y, y);
    return status;
}

static lipsc_status reserve(shared *s) {
    lipsc_cpu_batch *b = batch_of(s);
    const lipsc_cpu_weights *w = b->w;
    const size_t own = s->dirs * s->split->rows.own;
    const size_t widest = w->layer->d > w->width ? w->layer->d : w->width;
    const lipsc_status status = lipsc_cpu_reserve(b, s->pass.rows, s->dirs, 0);
    if (status) return status;
    s->q = lipsc_space_alloc(w->space, own * w->layer->heads * w->kw);
    s->k = lipsc_space_alloc(w->space, own * w->layer->kv_heads * w->kw);
    s->z = lipsc_space_alloc(w->space, own * w->layer->kv_heads * w->vw);
    s->heads = lipsc_space_alloc(w->space, own * w->layer->heads * w->vw);
    if (b->root) s->rows = lipsc_space_alloc(w->space, own * widest);
    return s->q && s->k && s->z && s->heads && (s->rows || !b->root) ? LIPSC_OK
                                                                     : LIPSC_E_NOMEM;
}

static void release(const shared *s) {
    const lipsc_space *space = batch_of(s)->w->space;
    lipsc_space_release(space, s->q);
    lipsc_space_release(space, s->k);
    lipsc_space_release(space, s->z);
    lipsc_space_release(space, s->heads);
    lipsc_space_release(space, s->rows);
}

lipsc_status lipsc_split_product(lipsc_row_split *split, void *cpu_input, int trans,
                                 size_t k, const void *x, void *y) {
    const lipsc_cpu_member *of = cpu_input;
    const lipsc_cpu_weights *w = of->batch->w;
    const size_t item = w->kernels->item, d = w->layer->d, own = split->rows.own;
    lipsc_status status = LIPSC_OK;
    for (size_t done = 0; done < k && !status; done += LIPSC_CPU_DIRS) {
        const size_t dirs = least(k - done, LIPSC_CPU_DIRS), row = done * own * item;
        lipsc_cpu_piece piece = {.of = of, .dirs = dirs};
        shared s = {.split = split,
                    .pass = {.batch = of->batch,
                             .pieces = 1,
                             .rows = dirs * split->rows.rows,
                             .piece = &piece},
                    .dirs = dirs};
        const void *from = (const char *)x + row * (trans ? w->width : d);
        void *to = (char *)y + row * (trans ? d : w->width);
        status = reserve(&s);
        if (!status) status = trans ? adjoint(&s, from, to) : forward(&s, from, to);
        release(&s);
    }
    return status;
}
