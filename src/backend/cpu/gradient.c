/* gradient.c - the gradients of <u, J(X) v> in the tokens of the inputs of a batch, for
 * pairs (u, v) held fixed.
 *
 *     dq, dk, dz = v Wq^T, v Wk^T, v Wv^T,   g = u O
 *     -> core, per head: gradients in q, k, z, and in dq, dk where these depend on X
 *     -> grad = gq Wq + gk Wk + gz Wv
 *
 * The core is cut into tasks like that of J^T: by pieces that depend on the sizes alone, so
 * that every bit of the result is the same for any number of threads and any neighbours.
 * Work memory is made for one call; it grows with n d. */
#include "backend/cpu/cpu.h"
#include "core/extreme.h"
#include "core/mem.h"

#include <omp.h>
#include <string.h>

/* What a block of pairs needs beyond the work memory of the products, which holds dq, dk,
 * dz and g.  Head layout with the rows of the pass. */
typedef struct {
    lipsc_cpu_pass *pass; /* pieces: x is v, y the gradient */
    size_t dirs;          /* the most that a piece has      */
    void *gq, *gk, *gz;
    void *gdq, *gdk, *eq, *ek; /* with norms: gradients in dq, dk; directions before them */
    void *score;               /* (kv_heads, rows) or NULL                                */
    char *rows;                /* (heads, rows) records of the kernels                    */
    char *scratch;             /* threads pieces of scratch_bytes                         */
    size_t scratch_bytes;
} work;

static void work_free(const lipsc_cpu_weights *w, work *k) {
    void *all[] = {k->gq, k->gk, k->gz, k->gdq, k->gdk, k->eq, k->ek, k->score};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        lipsc_cpu_release(w->space, all[i]);
    lipsc_release(k->rows);
    lipsc_release(k->scratch);
}

static lipsc_status work_new(lipsc_cpu_pass *pass, size_t dirs, int score, work *k) {
    const lipsc_cpu_batch *b = pass->batch;
    const lipsc_cpu_weights *w = b->w;
    const size_t rows = pass->rows;
    const lipsc_gradient_kernels *kernels = w->kernels->gradient;
    const size_t heads = w->layer->heads, kv = w->layer->kv_heads;
    const int norms = w->q_gain || w->k_gain;
    void **const arrays[] = {&k->gq,  &k->gk, &k->gz, &k->gdq,
                             &k->gdk, &k->eq, &k->ek, &k->score};
    const size_t widths[] = {heads * w->kw,
                             kv * w->kw,
                             kv * w->vw,
                             norms ? heads * w->kw : 0,
                             norms ? kv * w->kw : 0,
                             norms ? heads * w->kw : 0,
                             norms ? kv * w->kw : 0,
                             score ? kv : 0};
    *k = (work){.pass = pass, .dirs = dirs};
    int ok = 1;
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        size_t count;
        if (!widths[i]) continue;
        if (lipsc_mul_size(rows, widths[i], &count))
            *arrays[i] = lipsc_cpu_alloc(w->space, count);
        ok = ok && *arrays[i];
    }
    k->rows = lipsc_alloc(heads * rows, kernels->row_bytes);
    k->scratch_bytes = ceil_div(kernels->scratch_bytes(w->kw, w->vw, dirs), 4096) * 4096;
    k->scratch = lipsc_alloc((size_t)b->threads, k->scratch_bytes);
    if (ok && k->rows && k->scratch) return LIPSC_OK;
    work_free(w, k);
    return LIPSC_E_NOMEM;
}

/* Rows of head h that belong to a piece: of array a with `width` elements a row. */
static void *head_part(const work *k, const lipsc_cpu_piece *p, void *a, size_t h,
                       size_t width) {
    const size_t row = width * k->pass->batch->w->kernels->item;
    return a ? (char *)a + (h * k->pass->rows + p->base) * row : NULL;
}

/* The kernels' view of query head h. */
static lipsc_head_pairs head_pairs(const work *k, const lipsc_cpu_piece *p, size_t h) {
    const lipsc_cpu_batch *b = k->pass->batch;
    const lipsc_cpu_weights *w = b->w;
    const size_t g = h * w->layer->kv_heads / w->layer->heads;
    const size_t record = w->kernels->gradient->row_bytes;
    return (lipsc_head_pairs){.dirs = p->dirs,
                              .dq = head_part(k, p, b->dq, h, w->kw),
                              .dk = head_part(k, p, b->dk, g, w->kw),
                              .dz = head_part(k, p, b->dz, g, w->vw),
                              .g = head_part(k, p, b->heads, h, w->vw),
                              .gq = head_part(k, p, k->gq, h, w->kw),
                              .gk = head_part(k, p, k->gk, g, w->kw),
                              .gz = head_part(k, p, k->gz, g, w->vw),
                              .gdq = head_part(k, p, k->gdq, h, w->kw),
                              .gdk = head_part(k, p, k->gdk, g, w->kw),
                              .score = head_part(k, p, k->score, g, 1),
                              .rows = k->rows + (h * k->pass->rows + p->base) * record};
}

static char *thread_scratch(const work *k) {
    return k->scratch + (size_t)omp_get_thread_num() * k->scratch_bytes;
}

static void core_rows(const work *k, size_t wanted) {
    const lipsc_cpu_batch *b = k->pass->batch;
    const size_t heads = b->w->layer->heads;
    const size_t tasks = lipsc_cpu_number_tasks(k->pass, heads, wanted);
#pragma omp parallel for num_threads(b->threads) schedule(dynamic, 1)
    for (size_t t = 0; t < tasks; t++) {
        const lipsc_cpu_piece *p = lipsc_cpu_piece_of(k->pass, t);
        const lipsc_cpu_cuts cut = lipsc_cpu_cut(p->of->n, wanted);
        const size_t task = t - p->first_task;
        const size_t i0 = (cut.count - 1 - task / heads) * cut.size;
        const lipsc_head head = lipsc_cpu_head(b, p->of, task % heads);
        const lipsc_head_pairs d = head_pairs(k, p, task % heads);
        b->w->kernels->gradient->rows(&head, &d, i0, min_size(i0 + cut.size, p->of->n),
                                      thread_scratch(k));
    }
}

/* Rows of cut a against keys of cut a + phase, for the query heads of key head g. */
static void tile_task(const work *k, const lipsc_cpu_piece *p, lipsc_cpu_cuts cut,
                      size_t phase, size_t a, size_t g) {
    const lipsc_cpu_batch *b = k->pass->batch;
    const size_t n = p->of->n, share = b->w->layer->heads / b->w->layer->kv_heads;
    const lipsc_cpu_tile t = lipsc_cpu_tile_of(n, cut, phase, a);
    for (size_t s = 0; s < share; s++) {
        const lipsc_head head = lipsc_cpu_head(b, p->of, g * share + s);
        const lipsc_head_pairs d = head_pairs(k, p, g * share + s);
        b->w->kernels->gradient->tile(&head, &d, t.i0, t.i1, t.j0, t.j1, thread_scratch(k));
    }
}

static void core_tiles(const work *k, size_t wanted) {
    const lipsc_cpu_batch *b = k->pass->batch;
    const size_t kv = b->w->layer->kv_heads;
    const size_t tasks = lipsc_cpu_number_tasks(k->pass, kv, wanted),
                 phases = lipsc_cpu_phases(k->pass, wanted);
#pragma omp parallel num_threads(b->threads)
    for (size_t phase = 0; phase < phases; phase++)
#pragma omp for schedule(dynamic, 1)
        for (size_t t = 0; t < tasks; t++) {
            const lipsc_cpu_piece *p = lipsc_cpu_piece_of(k->pass, t);
            const lipsc_cpu_cuts cut = lipsc_cpu_cut(p->of->n, wanted);
            const size_t task = t - p->first_task;
            if (phase < cut.count)
                tile_task(k, p, cut, phase, cut.count - 1 - task / kv, task % kv);
        }
}

static void core(const work *k) {
    const size_t wanted = ceil_div(32, k->pass->batch->w->layer->kv_heads);
    core_rows(k, wanted);
    core_tiles(k, wanted);
}

/* What the derivative of one norm, applied to the directions of a piece, says. */
static void second_piece(const work *k, const lipsc_cpu_piece *p, lipsc_cpu_norm_heads of) {
    const lipsc_cpu_batch *b = k->pass->batch;
    const lipsc_cpu_weights *w = b->w;
    const lipsc_stages *s = w->stages;
    const size_t n = p->of->n, first = p->of->first, rows = p->dirs * n, kw = w->kw;
    const size_t half = w->layer->rotary_dim / 2, item = w->kernels->item;
    const size_t at = of.first * b->tokens + first;
    const void *gain = of.query ? w->q_gain : w->k_gain;
    const char *unit = of.query ? b->q_unit : b->k_unit;
    const char *inverse = of.query ? b->q_inverse : b->k_inverse;
    void *by_direction = of.query ? k->gdq : k->gdk;
    if (!gain) return;
    for (size_t h = of.first; half && h < of.first + of.span; h++)
        s->rotate(rows, n, kw, half, (char *)b->cosine + first * half * item,
                  (char *)b->sine + first * half * item, -1,
                  head_part(k, p, by_direction, h, kw));
    s->norm_second(rows, n, k->pass->rows, b->tokens, kw, w->layer->key_dim, of.span, gain,
                   unit + at * kw * item, inverse + at * item,
                   head_part(k, p, of.query ? k->eq : k->ek, of.first, kw),
                   head_part(k, p, by_direction, of.first, kw),
                   head_part(k, p, of.query ? k->gq : k->gk, of.first, kw));
}

/* Rotations and norms turned back: gq, gk become gradients in the raw projections.  A norm
 * also passes on what its derivative, applied to the direction, says (norm_second). */
static void turn_back(const work *k) {
    const lipsc_layer *layer = k->pass->batch->w->layer;
    const size_t norms = lipsc_cpu_norms(layer);
    lipsc_cpu_turn(k->pass, 1, k->gq, k->gk);
    if (!k->gdq) return;
#pragma omp parallel for num_threads(k->pass->batch->threads) schedule(static)
    for (size_t t = 0; t < norms * k->pass->pieces; t++)
        second_piece(k, &k->pass->piece[t / norms], lipsc_cpu_norm_at(layer, t % norms));
}

/* score: the sum over the heads. */
static void add_scores(const work *k) {
    const lipsc_cpu_weights *w = k->pass->batch->w;
    const size_t rows = k->pass->rows, item = w->kernels->item;
    const lipsc_rowwise *rowwise = lipsc_rowwise_best(w->dtype);
    const lipsc_buffer sum = lipsc_space_view(w->space, rows, k->score);
    for (size_t g = 1; g < w->layer->kv_heads; g++)
        (void)!rowwise->add(
            NULL, rows,
            lipsc_space_view(w->space, rows, (char *)k->score + g * rows * item), sum);
}

/* from: the rows of the pass, `width` elements each; to: vectors in the caller's order. */
static void hand_back(const work *k, const lipsc_cpu_piece *p, size_t width,
                      const void *from, void *to) {
    const lipsc_cpu_batch *b = k->pass->batch;
    const size_t row = width * b->w->kernels->item, n = p->of->n;
    for (size_t dir = 0; dir < p->dirs; dir++)
        b->w->stages->scatter(n, width, b->order ? b->order + p->of->first : NULL, NULL,
                              (const char *)from + (p->base + dir * n) * row,
                              (char *)to + dir * n * row);
}

/* The pairs of each piece, u and grad_score beside those that it has itself. */
static void gradient_block(const work *k, int staged, const void *const *us,
                           void *const *scores) {
    const lipsc_cpu_pass *pass = k->pass;
    lipsc_cpu_batch *b = pass->batch;
    const lipsc_cpu_weights *w = b->w;
    const size_t rows = pass->rows, d = w->layer->d, item = w->kernels->item;
    const size_t heads = w->layer->heads, kv = w->layer->kv_heads;
    const void *v = staged ? b->rows_in : pass->piece->x, *u = staged ? b->rows_out : us[0];
    for (size_t i = 0; staged && i < pass->pieces; i++) {
        const lipsc_cpu_piece *p = &pass->piece[i];
        lipsc_cpu_stage_rows(b, p->of, 0, 0, p->dirs, d, p->x,
                             (char *)b->rows_in + p->base * d * item);
        lipsc_cpu_stage_rows(b, p->of, 1, 0, p->dirs, w->width, us[i],
                             (char *)b->rows_out + p->base * w->width * item);
    }
    lipsc_cpu_project(w, b->threads, rows, v, b->dq, b->dk, b->dz, 0);
    lipsc_cpu_split_heads(w, b->threads, rows, u, b->heads);
    if (k->eq) {
        memcpy(k->eq, b->dq, heads * rows * w->kw * item);
        memcpy(k->ek, b->dk, kv * rows * w->kw * item);
        memset(k->gdq, 0, heads * rows * w->kw * item);
        memset(k->gdk, 0, kv * rows * w->kw * item);
    }
    lipsc_cpu_turn(pass, 0, b->dq, b->dk);
    memset(k->gq, 0, heads * rows * w->kw * item);
    memset(k->gk, 0, kv * rows * w->kw * item);
    memset(k->gz, 0, kv * rows * w->vw * item);
    if (k->score) memset(k->score, 0, kv * rows * item);
    core(k);
    turn_back(k);
    void *out = staged ? b->rows_in : pass->piece->y;
    lipsc_cpu_project_back(w, b->threads, rows, k->gq, k->gk, k->gz, out);
    if (k->score) add_scores(k);
    for (size_t i = 0; i < pass->pieces; i++) {
        const lipsc_cpu_piece *p = &pass->piece[i];
        if (staged) hand_back(k, p, d, out, p->y);
        if (k->score) hand_back(k, p, 1, k->score, scores[i]);
    }
}

/* What a block is made of: pieces of a pass, and what these have no place for. */
typedef struct {
    lipsc_cpu_pass pass;
    const void **u;
    void **score;
} block;

/* The next pairs, from number `done` on, of all that have some left; the most that one
 * has. */
static size_t fill_block(block *f, size_t done, size_t count,
                         const lipsc_gradient_product *of) {
    const lipsc_cpu_weights *w = f->pass.batch->w;
    const size_t item = w->kernels->item;
    size_t most = 0;
    f->pass.pieces = f->pass.rows = 0;
    for (size_t i = 0; i < count; i++) {
        if (of[i].k <= done) continue;
        const lipsc_cpu_member *member = of[i].of;
        const size_t dirs = min_size(of[i].k - done, LIPSC_CPU_DIRS),
                     row = done * member->n * item, at = f->pass.pieces++;
        f->pass.piece[at] =
            (lipsc_cpu_piece){.of = member,
                              .dirs = dirs,
                              .base = f->pass.rows,
                              .x = (const char *)of[i].v.at + row * w->layer->d,
                              .y = (char *)of[i].grad.at + row * w->layer->d};
        f->u[at] = (const char *)of[i].u.at + row * w->width;
        f->score[at] = of[i].grad_score.at ? (char *)of[i].grad_score.at + row : NULL;
        f->pass.rows += dirs * member->n;
        if (dirs > most) most = dirs;
    }
    return most;
}

static lipsc_status make_block(block *f, size_t dirs) {
    lipsc_cpu_batch *b = f->pass.batch;
    const int staged = b->order || b->root || f->pass.pieces > 1;
    work k;
    lipsc_status status = lipsc_cpu_reserve(b, f->pass.rows, dirs, staged);
    if (!status) status = work_new(&f->pass, dirs, f->score[0] != NULL, &k);
    if (status) return status;
    gradient_block(&k, staged, f->u, f->score);
    work_free(b->w, &k);
    return LIPSC_OK;
}

lipsc_status lipsc_cpu_gradients(size_t count, const lipsc_gradient_product *of) {
    if (!count) return LIPSC_OK;
    block f = {.pass = {.batch = ((lipsc_cpu_member *)of->of)->batch,
                        .piece = lipsc_alloc(count, sizeof *f.pass.piece)},
               .u = lipsc_alloc(count, sizeof *f.u),
               .score = lipsc_alloc(count, sizeof *f.score)};
    lipsc_status status = f.pass.piece && f.u && f.score ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t done = 0, most; !status; done += LIPSC_CPU_DIRS) {
        most = fill_block(&f, done, count, of);
        if (!most) break;
        status = make_block(&f, most);
    }
    lipsc_release(f.pass.piece);
    lipsc_release(f.u);
    lipsc_release(f.score);
    return status;
}
