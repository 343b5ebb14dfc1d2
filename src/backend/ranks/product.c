/* product.c - J x and J^T x at one input whose rows several ranks share.
 *
 *     J:    own rows: dq, dk, dz   -> dk, dz of everybody   -> core, own rows x all keys
 *     J^T:  core, own rows x all keys: gq, and what they add to all gk, gz
 *                                  -> sums of own gk, gz    -> own rows of y
 *
 * Each row of J x is found by one rank, with the very operations of a CPU that has all of
 * them: the same bits.  J^T adds up in another order.  Of keys and values a rank has its
 * own; those of everybody come for some heads at a time, with their directions. */
#include <string.h>

#include "backend/ranks/part.h"
#include "core/extreme.h"

/* Key heads that are worked on together: g .. g+count-1, and the query heads of each. */
typedef struct {
    size_t g, count, share;
} some_heads;

static some_heads heads_at(const lipsc_rank_part *p, size_t g) {
    const lipsc_layer *l = p->w->layer;
    return (some_heads){g, min_size(p->some, l->kv_heads - g), l->heads / l->kv_heads};
}

/* Where the arrays of own rows of key head g begin. */
static char *own_head(const lipsc_rank_part *p, void *array, size_t g, size_t width) {
    return (char *)array + g * p->split->rows.own * width * p->w->kernels->item;
}

/* Own rows times the roots of their weights, or divided by them; to may be x. */
static void weigh(const lipsc_rank_part *p, const void *factors, size_t width,
                  const void *x, void *to) {
    p->w->stages->gather(p->split->rows.own, width, NULL, factors, x, to);
}

/* ---- The core ------------------------------------------------------------------------ */

/* Rows of one piece of a head: as many pieces as keep the threads busy, because each packs
 * all its keys.  What a row finds does not depend on it. */
static size_t forward_cut(const lipsc_rank_part *p, size_t heads) {
    enum { LEAST = 192 };
    const size_t pieces = ceil_div(4 * (size_t)p->threads, heads);
    const size_t size = ceil_div(ceil_div(p->split->rows.own, pieces), 96) * 96;
    return size > LEAST ? size : LEAST;
}

static void core_forward(const lipsc_rank_part *p, some_heads s) {
    const size_t heads = s.count * s.share, size = forward_cut(p, heads);
    const size_t cuts = lipsc_part_cuts(p, size);
#pragma omp parallel for num_threads(p->threads) schedule(dynamic, 1)
    for (size_t task = 0; task < heads * cuts; task++) {
        const size_t h = s.g * s.share + task % heads;
        size_t i0, i1; /* long ones first */
        const int block = lipsc_part_cut(p, size, cuts - 1 - task / heads, &i0, &i1);
        const lipsc_head head = lipsc_part_head(p, h, s.g, block);
        const lipsc_head_dirs d = lipsc_part_dirs(p, h, s.g, block);
        p->w->kernels->forward(&head, &d, i0, i1, lipsc_part_scratch(p));
    }
}

/* Cut a of the rows against cut c of the keys, for all query heads of key head g. */
static void adjoint_task(const lipsc_rank_part *p, some_heads s, size_t size, size_t a,
                         size_t c, size_t g) {
    const size_t j0 = c * size, j1 = min_size(j0 + size, p->split->rows.rows);
    size_t i0, i1;
    const int block = lipsc_part_cut(p, size, a, &i0, &i1);
    for (size_t h = g * s.share; h < (g + 1) * s.share; h++) {
        const lipsc_head head = lipsc_part_head(p, h, s.g, block);
        const lipsc_head_dirs d = lipsc_part_dirs(p, h, s.g, block);
        p->w->kernels->adjoint(&head, &d, i0, i1, j0, j1, lipsc_part_scratch(p));
    }
}

static void adjoint_statistics(const lipsc_rank_part *p, some_heads s, size_t size) {
    const size_t heads = s.count * s.share, cuts = lipsc_part_cuts(p, size);
#pragma omp parallel for num_threads(p->threads) schedule(dynamic, 1)
    for (size_t task = 0; task < heads * cuts; task++) {
        const size_t h = s.g * s.share + task % heads;
        size_t i0, i1;
        const int block = lipsc_part_cut(p, size, task / heads, &i0, &i1);
        const lipsc_head head = lipsc_part_head(p, h, s.g, block);
        const lipsc_head_dirs d = lipsc_part_dirs(p, h, s.g, block);
        p->w->kernels->adjoint_rows(&head, &d, i0, i1);
    }
}

/* Tasks that run at once never write to the same place: in each phase a cut of the rows
 * meets another cut of the keys. */
static void core_adjoint(const lipsc_rank_part *p, some_heads s) {
    const lipsc_cpu_weights *w = p->w;
    const size_t n = p->split->rows.rows, row = n * w->kernels->item;
    const size_t wanted = min_size(ceil_div(32, w->layer->kv_heads), ceil_div(n, 384));
    const size_t size = ceil_div(ceil_div(n, wanted), 96) * 96;
    const size_t rows = lipsc_part_cuts(p, size), keys = ceil_div(n, size);
    const size_t phases = rows > keys ? rows : keys;
    memset(p->all_dk, 0, s.count * w->kw * row);
    memset(p->all_dz, 0, s.count * w->vw * row);
    adjoint_statistics(p, s, size);
#pragma omp parallel num_threads(p->threads)
    for (size_t phase = 0; phase < phases; phase++)
#pragma omp for schedule(dynamic, 1)
        for (size_t task = 0; task < rows * s.count; task++) {
            const size_t a = task / s.count, c = (a + phase) % phases;
            if (c < keys) adjoint_task(p, s, size, a, c, s.g + task % s.count);
        }
}

/* ---- Products ------------------------------------------------------------------------ */

/* Own gk or gz of these heads: the sum of what all ranks have found. */
static lipsc_status reduce(const lipsc_rank_part *p, some_heads s, size_t width,
                           const void *all, void *own) {
    const size_t item = p->w->kernels->item;
    return lipsc_split_reduce_heads(p->split, s.count, width * item, item, all,
                                    own_head(p, own, s.g, width));
}

static lipsc_status forward(lipsc_rank_part *p, const void *x, void *y) {
    const lipsc_cpu_weights *w = p->w;
    const size_t own = p->split->rows.own;
    if (p->root) {
        weigh(p, p->inverse_root, w->layer->d, x, p->rows);
        x = p->rows;
    }
    if (own) lipsc_cpu_project(w, p->threads, own, x, p->dq, p->dk, p->dz, 0);
    lipsc_part_turn(p, 0, p->dq, p->dk);
    for (size_t g = 0; g < w->layer->kv_heads; g += p->some) {
        const some_heads s = heads_at(p, g);
        lipsc_status status = lipsc_part_fetch(p, g, s.count);
        if (!status)
            status = lipsc_part_gather(p, s.count, w->kw, own_head(p, p->dk, g, w->kw),
                                       p->all_dk);
        if (!status)
            status = lipsc_part_gather(p, s.count, w->vw, own_head(p, p->dz, g, w->vw),
                                       p->all_dz);
        if (status) return status;
        core_forward(p, s);
    }
    if (own) lipsc_cpu_combine_heads(w, p->threads, own, p->heads, y);
    if (p->root) weigh(p, p->root, w->width, y, y);
    return LIPSC_OK;
}

static lipsc_status adjoint(lipsc_rank_part *p, const void *x, void *y) {
    const lipsc_cpu_weights *w = p->w;
    const size_t own = p->split->rows.own;
    if (p->root) {
        weigh(p, p->root, w->width, x, p->rows);
        x = p->rows;
    }
    if (own) lipsc_cpu_split_heads(w, p->threads, own, x, p->heads);
    memset(p->dq, 0, w->layer->heads * w->kw * own * w->kernels->item);
    for (size_t g = 0; g < w->layer->kv_heads; g += p->some) {
        const some_heads s = heads_at(p, g);
        lipsc_status status = lipsc_part_fetch(p, g, s.count);
        if (status) return status;
        core_adjoint(p, s);
        status = reduce(p, s, w->kw, p->all_dk, p->dk);
        if (!status) status = reduce(p, s, w->vw, p->all_dz, p->dz);
        if (status) return status;
    }
    lipsc_part_turn(p, 1, p->dq, p->dk);
    if (own) lipsc_cpu_project_back(w, p->threads, own, p->dq, p->dk, p->dz, y);
    if (p->root) weigh(p, p->inverse_root, w->layer->d, y, y);
    return LIPSC_OK;
}

lipsc_status lipsc_part_product(lipsc_rank_part *p, int trans, size_t k, const void *x,
                                void *y) {
    const lipsc_cpu_weights *w = p->w;
    const size_t row = p->split->rows.own * w->kernels->item;
    const size_t in = row * (trans ? w->width : w->layer->d),
                 out = row * (trans ? w->layer->d : w->width);
    lipsc_status status = LIPSC_OK;
    for (size_t dir = 0; dir < k && !status; dir++) {
        const void *from = (const char *)x + dir * in;
        void *to = (char *)y + dir * out;
        status = trans ? adjoint(p, from, to) : forward(p, from, to);
    }
    return status;
}
