/* gradient.c - the gradient of <u, J(X) v> in the tokens of one input of a batch, for pairs
 * (u, v) held fixed.
 *
 *     dq, dk, dz = v Wq^T, v Wk^T, v Wv^T,   g = u O
 *     -> core, per head: gradients in q, k, z, and in dq, dk where these depend on X
 *     -> grad = gq Wq + gk Wk + gz Wv
 *
 * The core is cut into tasks like that of J^T: by pieces that depend on the sizes alone, so
 * that every bit of the result is the same for any number of threads.  Work memory is made
 * for one call; it grows with n d. */
#include "backend/cpu/cpu.h"
#include "core/extreme.h"
#include "core/mem.h"

#include <omp.h>
#include <string.h>

static size_t ceil_div(size_t a, size_t b) { return (a + b - 1) / b; }

/* What a block of pairs needs beyond the work memory of the products, which holds dq, dk,
 * dz and g.  Head layout with dirs*n rows. */
typedef struct {
    lipsc_cpu_piece piece; /* the pairs, */
    lipsc_cpu_pass pass;   /* and nothing beside them */
    size_t dirs;
    void *gq, *gk, *gz;
    void *gdq, *gdk, *eq, *ek; /* with norms: gradients in dq, dk; directions before them */
    void *score;               /* (kv_heads, dirs*n) or NULL                              */
    char *rows;                /* (heads, dirs*n) records of the kernels                  */
    char *scratch;             /* threads pieces of scratch_bytes                         */
    size_t scratch_bytes;
} work;

static void work_free(const lipsc_cpu_weights *w, work *k) {
    void *all[] = {k->gq, k->gk, k->gz, k->gdq, k->gdk, k->eq, k->ek, k->score};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        lipsc_space_release(w->space, all[i]);
    lipsc_release(k->rows);
    lipsc_release(k->scratch);
}

static lipsc_status work_new(lipsc_cpu_batch *b, const lipsc_cpu_member *of, size_t dirs,
                             int score, work *k) {
    const lipsc_cpu_weights *w = b->w;
    const size_t rows = dirs * of->n;
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
    *k = (work){.dirs = dirs, .piece = {.of = of, .dirs = dirs}};
    k->pass = (lipsc_cpu_pass){.batch = b, .pieces = 1, .rows = rows, .piece = &k->piece};
    int ok = 1;
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        size_t count;
        if (!widths[i]) continue;
        if (lipsc_mul_size(rows, widths[i], &count))
            *arrays[i] = lipsc_space_alloc(w->space, count);
        ok = ok && *arrays[i];
    }
    k->rows = lipsc_alloc(heads * rows, kernels->row_bytes);
    k->scratch_bytes = ceil_div(kernels->scratch_bytes(w->kw, w->vw, dirs), 4096) * 4096;
    k->scratch = lipsc_alloc((size_t)b->threads, k->scratch_bytes);
    if (ok && k->rows && k->scratch) return LIPSC_OK;
    work_free(w, k);
    return LIPSC_E_NOMEM;
}

/* The kernels' view of query head h: array a of `width` elements a row. */
static void *head_part(const work *k, void *a, size_t h, size_t width) {
    return a ? (char *)a + h * k->pass.rows * width * k->pass.batch->w->kernels->item
             : NULL;
}

static lipsc_head_pairs head_pairs(const work *k, size_t h) {
    const lipsc_cpu_batch *b = k->pass.batch;
    const lipsc_cpu_weights *w = b->w;
    const size_t g = h * w->layer->kv_heads / w->layer->heads;
    return (lipsc_head_pairs){.dirs = k->dirs,
                              .dq = head_part(k, b->dq, h, w->kw),
                              .dk = head_part(k, b->dk, g, w->kw),
                              .dz = head_part(k, b->dz, g, w->vw),
                              .g = head_part(k, b->heads, h, w->vw),
                              .gq = head_part(k, k->gq, h, w->kw),
                              .gk = head_part(k, k->gk, g, w->kw),
                              .gz = head_part(k, k->gz, g, w->vw),
                              .gdq = head_part(k, k->gdq, h, w->kw),
                              .gdk = head_part(k, k->gdk, g, w->kw),
                              .score = head_part(k, k->score, g, 1),
                              .rows = k->rows +
                                      h * k->pass.rows * w->kernels->gradient->row_bytes};
}

static void core(const work *k) {
    const lipsc_cpu_batch *b = k->pass.batch;
    const lipsc_cpu_member *of = k->piece.of;
    const lipsc_cpu_weights *w = b->w;
    const lipsc_gradient_kernels *kernels = w->kernels->gradient;
    const size_t n = of->n, heads = w->layer->heads, kv = w->layer->kv_heads,
                 share = heads / kv;
    /* enough pieces to occupy 32 threads, none shorter than 384 rows */
    size_t pieces = min_size(ceil_div(32, kv), ceil_div(n, 384));
    const size_t piece = ceil_div(ceil_div(n, pieces), 96) * 96;
    pieces = ceil_div(n, piece);
#pragma omp parallel num_threads(b->threads)
    {
        char *scratch = k->scratch + (size_t)omp_get_thread_num() * k->scratch_bytes;
#pragma omp for schedule(dynamic, 1)
        for (size_t task = 0; task < heads * pieces; task++) {
            const size_t i0 = (pieces - 1 - task / heads) * piece;
            const lipsc_head head = lipsc_cpu_head(b, of, task % heads);
            const lipsc_head_pairs d = head_pairs(k, task % heads);
            kernels->rows(&head, &d, i0, min_size(i0 + piece, n), scratch);
        }
        for (size_t phase = 0; phase < pieces; phase++)
#pragma omp for schedule(dynamic, 1)
            for (size_t task = 0; task < kv * pieces; task++) {
                const size_t a = pieces - 1 - task / kv, c = (a + phase) % pieces;
                const size_t i0 = a * piece, i1 = min_size(i0 + piece, n);
                const size_t j0 = c * piece, j1 = min_size(j0 + piece, n);
                for (size_t s = 0; s < share; s++) { /* query heads of one key head */
                    const lipsc_head head = lipsc_cpu_head(b, of, task % kv * share + s);
                    const lipsc_head_pairs d = head_pairs(k, task % kv * share + s);
                    kernels->tile(&head, &d, i0, i1, j0, j1, scratch);
                }
            }
    }
}

/* Rotations and norms turned back: gq, gk become gradients in the raw projections.  A norm
 * also passes on what its derivative, applied to the direction, says (norm_second). */
static void turn_back(const work *k) {
    const lipsc_cpu_batch *b = k->pass.batch;
    const lipsc_cpu_weights *w = b->w;
    const lipsc_layer *layer = w->layer;
    const lipsc_stages *s = w->stages;
    const size_t n = k->piece.of->n, first = k->piece.of->first, rows = k->pass.rows;
    const size_t kw = w->kw, half = layer->rotary_dim / 2, item = w->kernels->item;
    lipsc_cpu_turn(&k->pass, 1, k->gq, k->gk);
    if (!k->gdq) return;
#pragma omp parallel for num_threads(b->threads) schedule(static)
    for (size_t t = 0; t < lipsc_cpu_norms(layer); t++) {
        const lipsc_cpu_norm_heads of = lipsc_cpu_norm_at(layer, t);
        const int query = of.query;
        const size_t h = of.first, at = h * b->tokens + first;
        const void *gain = query ? w->q_gain : w->k_gain;
        if (!gain) continue;
        void *by_direction = head_part(k, query ? k->gdq : k->gdk, h, kw);
        const char *unit = query ? b->q_unit : b->k_unit;
        const char *inverse = query ? b->q_inverse : b->k_inverse;
        if (half)
            s->rotate(of.span * rows, n, kw, half, (char *)b->cosine + first * half * item,
                      (char *)b->sine + first * half * item, -1, by_direction);
        s->norm_second(rows, n, b->tokens, kw, layer->key_dim, of.span, gain,
                       unit + at * kw * item, inverse + at * item,
                       head_part(k, query ? k->eq : k->ek, h, kw), by_direction,
                       head_part(k, query ? k->gq : k->gk, h, kw));
    }
}

/* grad_score (dirs, n): the sum over the heads, in the caller's order */
static void add_scores(const work *k, void *grad_score) {
    const lipsc_cpu_batch *b = k->pass.batch;
    const lipsc_cpu_weights *w = b->w;
    const lipsc_cpu_member *of = k->piece.of;
    const size_t rows = k->pass.rows, item = w->kernels->item;
    const lipsc_rowwise *rowwise = lipsc_rowwise_best(w->dtype);
    for (size_t g = 1; g < w->layer->kv_heads; g++)
        (void)!rowwise->add(NULL, rows, (char *)k->score + g * rows * item, k->score);
    for (size_t p = 0; p < k->dirs; p++)
        w->stages->scatter(of->n, 1, b->order ? b->order + of->first : NULL, NULL,
                           (char *)k->score + p * of->n * item,
                           (char *)grad_score + p * of->n * item);
}

static void gradient_block(const work *k, const void *u, const void *v, void *grad,
                           void *grad_score) {
    lipsc_cpu_batch *b = k->pass.batch;
    const lipsc_cpu_weights *w = b->w;
    const lipsc_cpu_member *of = k->piece.of;
    const size_t n = of->n, rows = k->pass.rows, d = w->layer->d, item = w->kernels->item;
    const size_t heads = w->layer->heads, kv = w->layer->kv_heads;
    if (b->order || b->root) {
        lipsc_cpu_stage_rows(b, of, 0, 0, k->dirs, d, v, b->rows_in);
        lipsc_cpu_stage_rows(b, of, 1, 0, k->dirs, w->width, u, b->rows_out);
        v = b->rows_in;
        u = b->rows_out;
    }
    lipsc_cpu_project(w, b->threads, rows, v, b->dq, b->dk, b->dz, 0);
    lipsc_cpu_split_heads(w, b->threads, rows, u, b->heads);
    if (k->eq) {
        memcpy(k->eq, b->dq, heads * rows * w->kw * item);
        memcpy(k->ek, b->dk, kv * rows * w->kw * item);
        memset(k->gdq, 0, heads * rows * w->kw * item);
        memset(k->gdk, 0, kv * rows * w->kw * item);
    }
    lipsc_cpu_turn(&k->pass, 0, b->dq, b->dk);
    memset(k->gq, 0, heads * rows * w->kw * item);
    memset(k->gk, 0, kv * rows * w->kw * item);
    memset(k->gz, 0, kv * rows * w->vw * item);
    if (k->score) memset(k->score, 0, kv * rows * item);
    core(k);
    turn_back(k);
    void *out = b->order ? b->rows_in : grad;
    lipsc_cpu_project_back(w, b->threads, rows, k->gq, k->gk, k->gz, out);
    for (size_t p = 0; b->order && p < k->dirs; p++)
        w->stages->scatter(n, d, b->order + of->first, NULL, (char *)out + p * n * d * item,
                           (char *)grad + p * n * d * item);
    if (k->score) add_scores(k, grad_score);
}

lipsc_status lipsc_cpu_gradient(void *input, size_t k, const void *u, const void *v,
                                void *grad, void *grad_score) {
    const lipsc_cpu_member *of = input;
    lipsc_cpu_batch *b = of->batch;
    const size_t item = b->w->kernels->item, n = of->n;
    const size_t wide = n * b->w->width * item, deep = n * b->w->layer->d * item;
    for (size_t done = 0; done < k;) {
        const size_t dirs = min_size(k - done, LIPSC_CPU_DIRS);
        work block;
        lipsc_status status = lipsc_cpu_reserve(b, dirs * n, dirs, b->order || b->root);
        if (!status) status = work_new(b, of, dirs, grad_score != NULL, &block);
        if (status) return status;
        gradient_block(&block, (const char *)u + done * wide, (const char *)v + done * deep,
                       (char *)grad + done * deep,
                       grad_score ? (char *)grad_score + done * n * item : NULL);
        work_free(b->w, &block);
        done += dirs;
    }
    return LIPSC_OK;
}
