/* product.c - J x and J^T x at the inputs of a batch: project, attention core, output.
 *
 *     J:    dq, dk, dz = x Wq^T, x Wk^T, x Wv^T   -> core, per head -> y = heads O^T
 *     J^T:  g = x O                               -> core, per head -> y = gq Wq + gk Wk +
 * gz Wv
 *
 * Projections and output are one product each over the rows of all inputs.  Only the core
 * is quadratic in n and knows where an input ends.  Its tasks never write to the same
 * place: J is cut by inputs, heads and rows; J^T, which adds to rows and to keys, by
 * inputs, heads and phases in which each piece of rows meets another piece of keys.  The
 * pieces depend on the sizes of an input alone, so the order of every sum, and with it
 * every bit of the result, is the same for any number of threads and any neighbours. */
#include "backend/cpu/cpu.h"

#include "core/extreme.h"
#include "core/mem.h"

#include <omp.h>
#include <string.h>

/* ---- norms and rotations ------------------------------------------------------------ */

/* Those of one norm in one piece; x: its heads, rows of the whole pass apart. */
static void turn_piece(const lipsc_cpu_pass *pass, const lipsc_cpu_piece *p,
                       lipsc_cpu_norm_heads of, int trans, char *x) {
    const lipsc_cpu_batch *b = pass->batch;
    const lipsc_cpu_weights *w = b->w;
    const lipsc_stages *s = w->stages;
    const size_t item = w->kernels->item, kw = w->kw, half = w->layer->rotary_dim / 2;
    const size_t n = p->of->n, first = p->of->first, rows = p->dirs * n;
    const void *gain = of.query ? w->q_gain : w->k_gain;
    const char *unit = of.query ? b->q_unit : b->k_unit;
    const char *inverse = of.query ? b->q_inverse : b->k_inverse;
    const char *cosine = half ? (char *)b->cosine + first * half * item : NULL;
    const char *sine = half ? (char *)b->sine + first * half * item : NULL;
    const size_t at = of.first * b->tokens + first;
    for (size_t h = 0; trans && half && h < of.span; h++)
        s->rotate(rows, n, kw, half, cosine, sine, -1, x + h * pass->rows * kw * item);
    if (gain)
        s->norm_derivative(rows, n, pass->rows, b->tokens, kw, w->layer->key_dim, of.span,
                           gain, unit + at * kw * item, inverse + at * item, trans, x);
    for (size_t h = 0; !trans && half && h < of.span; h++)
        s->rotate(rows, n, kw, half, cosine, sine, 1, x + h * pass->rows * kw * item);
}

void lipsc_cpu_turn(const lipsc_cpu_pass *pass, int trans, void *dq, void *dk) {
    const lipsc_cpu_weights *w = pass->batch->w;
    const lipsc_layer *layer = w->layer;
    const size_t norms = lipsc_cpu_norms(layer), row = w->kw * w->kernels->item;
    if (!layer->rotary_dim && !layer->q_gain && !layer->k_gain) return;
#pragma omp parallel for num_threads(pass->batch->threads) schedule(static)
    for (size_t t = 0; t < norms * pass->pieces; t++) {
        const lipsc_cpu_piece *p = &pass->piece[t / norms];
        const lipsc_cpu_norm_heads of = lipsc_cpu_norm_at(layer, t % norms);
        char *x = (char *)(of.query ? dq : dk) + (of.first * pass->rows + p->base) * row;
        turn_piece(pass, p, of, trans, x);
    }
}

/* ---- the core ----------------------------------------------------------------------- */

lipsc_head_dirs lipsc_cpu_head_dirs(const lipsc_cpu_batch *b, size_t rows, size_t base,
                                    size_t dirs, size_t h) {
    const lipsc_cpu_weights *w = b->w;
    const size_t item = w->kernels->item;
    const size_t g = h * w->layer->kv_heads / w->layer->heads;
    const size_t row = h * rows + base, key = g * rows + base;
    char *dq = (char *)b->dq + row * w->kw * item;
    char *dk = (char *)b->dk + key * w->kw * item;
    char *dz = (char *)b->dz + key * w->vw * item;
    char *heads = (char *)b->heads + row * w->vw * item;
    return lipsc_head_dirs_at(dirs, dq, dk, dz, heads, (char *)b->shift + row * item,
                              (char *)b->mean + row * item);
}

static lipsc_head_dirs head_dirs(const lipsc_cpu_pass *pass, const lipsc_cpu_piece *p,
                                 size_t h) {
    return lipsc_cpu_head_dirs(pass->batch, pass->rows, p->base, p->dirs, h);
}

void *lipsc_cpu_thread_scratch(const lipsc_cpu_batch *b) {
    return b->scratch + (size_t)omp_get_thread_num() * b->scratch_bytes;
}

lipsc_cpu_cuts lipsc_cpu_cut(size_t n, size_t wanted) {
    const size_t pieces = min_size(wanted, ceil_div(n, 384));
    const size_t size = ceil_div(ceil_div(n, pieces), 96) * 96;
    return (lipsc_cpu_cuts){size, ceil_div(n, size)};
}

size_t lipsc_cpu_number_tasks(lipsc_cpu_pass *pass, size_t heads, size_t wanted) {
    size_t total = 0;
    for (size_t i = 0; i < pass->pieces; i++) {
        pass->piece[i].first_task = total;
        total += heads * lipsc_cpu_cut(pass->piece[i].of->n, wanted).count;
    }
    return total;
}

const lipsc_cpu_piece *lipsc_cpu_piece_of(const lipsc_cpu_pass *pass, size_t task) {
    size_t from = 0, to = pass->pieces;
    while (to - from > 1) {
        const size_t middle = (from + to) / 2;
        *(pass->piece[middle].first_task <= task ? &from : &to) = middle;
    }
    return &pass->piece[from];
}

lipsc_cpu_tile lipsc_cpu_tile_of(size_t n, lipsc_cpu_cuts cut, size_t phase, size_t a) {
    const size_t i0 = a * cut.size, j0 = (a + phase) % cut.count * cut.size;
    return (lipsc_cpu_tile){i0, min_size(i0 + cut.size, n), j0, min_size(j0 + cut.size, n)};
}

size_t lipsc_cpu_phases(const lipsc_cpu_pass *pass, size_t wanted) {
    size_t phases = 1;
    for (size_t i = 0; i < pass->pieces; i++) {
        const size_t count = lipsc_cpu_cut(pass->piece[i].of->n, wanted).count;
        if (count > phases) phases = count;
    }
    return phases;
}

/* Rows are independent, so their cut may follow the number of threads: whole heads, or
 * pieces of at least 384 rows when there are more threads than heads. */
static void core_forward(lipsc_cpu_pass *pass) {
    const lipsc_cpu_batch *b = pass->batch;
    const size_t heads = b->w->layer->heads;
    const size_t wanted = ceil_div(4 * (size_t)b->threads, heads * pass->pieces);
    const size_t tasks = lipsc_cpu_number_tasks(pass, heads, wanted);
#pragma omp parallel for num_threads(b->threads) schedule(dynamic, 1)
    for (size_t t = 0; t < tasks; t++) {
        const lipsc_cpu_piece *p = lipsc_cpu_piece_of(pass, t);
        const lipsc_cpu_cuts cut = lipsc_cpu_cut(p->of->n, wanted);
        const size_t task = t - p->first_task, h = task % heads;
        /* last rows first: under a causal mask they are the longest tasks */
        const size_t i0 = (cut.count - 1 - task / heads) * cut.size;
        const lipsc_head head = lipsc_cpu_head(b, p->of, h);
        const lipsc_head_dirs d = head_dirs(pass, p, h);
        b->w->kernels->forward(&head, &d, i0, min_size(i0 + cut.size, p->of->n),
                               lipsc_cpu_thread_scratch(b));
    }
}

/* What J^T adds to, rows i0..i1-1 of each direction. */
static void clear_rows(const lipsc_cpu_weights *w, size_t n, size_t dirs, size_t width,
                       size_t i0, size_t i1, void *x) {
    const size_t row = width * w->kernels->item;
    for (size_t dir = 0; dir < dirs; dir++)
        memset((char *)x + (dir * n + i0) * row, 0, (i1 - i0) * row);
}

/* Rows of cut a against keys of cut a + phase, for the query heads of key head g in turn.
 * The first phase, in which both are the same, comes to its places before all others. */
static void adjoint_task(const lipsc_cpu_pass *pass, const lipsc_cpu_piece *p,
                         lipsc_cpu_cuts cut, size_t phase, size_t a, size_t g) {
    const lipsc_cpu_batch *b = pass->batch;
    const lipsc_cpu_weights *w = b->w;
    const size_t n = p->of->n, share = w->layer->heads / w->layer->kv_heads;
    const lipsc_cpu_tile t = lipsc_cpu_tile_of(n, cut, phase, a);
    for (size_t s = 0; s < share; s++) {
        const lipsc_head head = lipsc_cpu_head(b, p->of, g * share + s);
        const lipsc_head_dirs d = head_dirs(pass, p, g * share + s);
        if (!phase) {
            clear_rows(w, n, p->dirs, w->kw, t.i0, t.i1, d.gq);
            if (!s) clear_rows(w, n, p->dirs, w->kw, t.i0, t.i1, d.gk);
            if (!s) clear_rows(w, n, p->dirs, w->vw, t.i0, t.i1, d.gz);
            w->kernels->adjoint_rows(&head, &d, t.i0, t.i1);
        }
        w->kernels->adjoint(&head, &d, t.i0, t.i1, t.j0, t.j1, lipsc_cpu_thread_scratch(b));
    }
}

static void core_adjoint(lipsc_cpu_pass *pass) {
    const lipsc_cpu_batch *b = pass->batch;
    const size_t kv = b->w->layer->kv_heads;
    const size_t wanted = ceil_div(32, kv); /* to occupy 32 threads */
    const size_t tasks = lipsc_cpu_number_tasks(pass, kv, wanted);
    const size_t phases = lipsc_cpu_phases(pass, wanted);
#pragma omp parallel num_threads(b->threads)
    for (size_t phase = 0; phase < phases; phase++)
#pragma omp for schedule(dynamic, 1)
        for (size_t t = 0; t < tasks; t++) {
            const lipsc_cpu_piece *p = lipsc_cpu_piece_of(pass, t);
            const lipsc_cpu_cuts cut = lipsc_cpu_cut(p->of->n, wanted);
            const size_t task = t - p->first_task;
            if (phase < cut.count)
                adjoint_task(pass, p, cut, phase, cut.count - 1 - task / kv, task % kv);
        }
}

/* ---- products ----------------------------------------------------------------------- */

void lipsc_cpu_stage_rows(const lipsc_cpu_batch *b, const lipsc_cpu_member *of, int trans,
                          int outgoing, size_t dirs, size_t width, const void *src,
                          void *dst) {
    const size_t item = b->w->kernels->item, vector = of->n * width * item;
    const char *factor = trans == outgoing ? b->inverse_root : b->root;
    const size_t *order = b->order ? b->order + of->first : NULL;
    if (!order && !factor) {
        memcpy(dst, src, dirs * vector);
        return;
    }
    for (size_t k = 0; k < dirs; k++)
        (outgoing ? b->w->stages->scatter : b->w->stages->gather)(
            of->n, width, order, factor ? factor + of->first * item : NULL,
            (const char *)src + k * vector, (char *)dst + k * vector);
}

static void stage_piece(const lipsc_cpu_pass *pass, const lipsc_cpu_piece *p, int trans,
                        int outgoing, size_t width, char *rows) {
    char *at = rows + p->base * width * pass->batch->w->kernels->item;
    lipsc_cpu_stage_rows(pass->batch, p->of, trans, outgoing, p->dirs, width,
                         outgoing ? at : p->x, outgoing ? p->y : at);
}

/* All pieces between the caller's memory and rows (the rows of the pass).  No region that
 * has both num_threads and if: where the condition fails, clang's OpenMP keeps the number
 * for the next region, be it one of BLAS, which then waits for ever for the others. */
static void stage(const lipsc_cpu_pass *pass, int trans, int outgoing, size_t width,
                  char *rows) {
    if (pass->pieces == 1) {
        stage_piece(pass, pass->piece, trans, outgoing, width, rows);
        return;
    }
#pragma omp parallel for num_threads(pass->batch->threads) schedule(dynamic, 1)
    for (size_t i = 0; i < pass->pieces; i++)
        stage_piece(pass, &pass->piece[i], trans, outgoing, width, rows);
}

/* Whether the rows of all pieces follow each other in the caller's memory, in and out. */
static int is_adjacent(const lipsc_cpu_pass *pass, size_t from, size_t to) {
    const size_t item = pass->batch->w->kernels->item;
    const lipsc_cpu_piece *first = pass->piece;
    for (size_t i = 1; i < pass->pieces; i++) {
        const lipsc_cpu_piece *p = &pass->piece[i];
        if ((const char *)p->x != (const char *)first->x + p->base * from * item ||
            (char *)p->y != (char *)first->y + p->base * to * item)
            return 0;
    }
    return 1;
}

/* J up to its heads, and J^T from there on. */
static void rows_to_heads(lipsc_cpu_pass *pass, const void *x) {
    const lipsc_cpu_batch *b = pass->batch;
    lipsc_cpu_project(b->w, b->threads, pass->rows, x, b->dq, b->dk, b->dz, 0);
    lipsc_cpu_turn(pass, 0, b->dq, b->dk);
    if (pass->piece->of->way == LIPSC_CPU_KEPT)
        lipsc_cpu_kept_forward(pass);
    else
        core_forward(pass);
}

static void back_to_rows(lipsc_cpu_pass *pass, void *y) {
    const lipsc_cpu_batch *b = pass->batch;
    if (pass->piece->of->way == LIPSC_CPU_KEPT)
        lipsc_cpu_kept_adjoint(pass);
    else
        core_adjoint(pass);
    lipsc_cpu_turn(pass, 1, b->dq, b->dk);
    lipsc_cpu_project_back(b->w, b->threads, pass->rows, b->dq, b->dk, b->dz, y);
}

/* All pieces go the same way. */
static lipsc_status product_pass(lipsc_cpu_pass *pass, int trans, size_t dirs) {
    lipsc_cpu_batch *b = pass->batch;
    const lipsc_cpu_weights *w = b->w;
    const size_t rows = pass->rows;
    const size_t from = trans ? w->width : w->layer->d, to = trans ? w->layer->d : w->width;
    const int staged = b->order || b->root || !is_adjacent(pass, from, to);
    const lipsc_cpu_way way = pass->piece->of->way;
    const int composed = way == LIPSC_CPU_COMPOSED;
    lipsc_status status = lipsc_cpu_reserve(b, rows, dirs, staged);
    if (!status && way != LIPSC_CPU_PLAIN) status = lipsc_cpu_keep(b);
    if (!status && composed) status = lipsc_cpu_compose(pass);
    if (status) return status;
    const void *x = pass->piece->x;
    void *y = pass->piece->y;
    if (staged) { /* J maps (n, d) to (n, width): the buffers swap roles for J^T */
        x = trans ? b->rows_out : b->rows_in;
        y = trans ? b->rows_in : b->rows_out;
        stage(pass, trans, 0, from, trans ? b->rows_out : b->rows_in);
    }
    if (trans) lipsc_cpu_split_heads(w, b->threads, rows, x, b->heads);
    if (composed && trans)
        lipsc_cpu_composed_adjoint(pass, y);
    else if (composed)
        lipsc_cpu_composed_forward(pass, x);
    else if (trans)
        back_to_rows(pass, y);
    else
        rows_to_heads(pass, x);
    if (!trans) lipsc_cpu_combine_heads(w, b->threads, rows, b->heads, y);
    if (staged) stage(pass, trans, 1, to, y);
    return LIPSC_OK;
}

/* The next vectors, from number `done` on, of every product of one way that has some left;
 * the most that one has. */
static size_t fill_pass(lipsc_cpu_pass *pass, int trans, int way, size_t done, size_t count,
                        const lipsc_product *product) {
    const lipsc_cpu_weights *w = pass->batch->w;
    const size_t item = w->kernels->item, d = w->layer->d;
    size_t most = 0;
    pass->pieces = pass->rows = 0;
    for (size_t i = 0; i < count; i++) {
        const lipsc_cpu_member *of = product[i].of;
        if (product[i].k <= done || (int)of->way != way) continue;
        const size_t row = done * of->n * item;
        const size_t dirs = min_size(product[i].k - done, LIPSC_CPU_DIRS);
        pass->piece[pass->pieces++] = (lipsc_cpu_piece){
            .of = of,
            .dirs = dirs,
            .base = pass->rows,
            .x = (const char *)product[i].x.at + row * (trans ? w->width : d),
            .y = (char *)product[i].y.at + row * (trans ? d : w->width)};
        pass->rows += dirs * of->n;
        if (dirs > most) most = dirs;
    }
    return most;
}

lipsc_status lipsc_cpu_products(int trans, size_t count, const lipsc_product *product) {
    enum { FEW = 8 };
    lipsc_cpu_piece few[FEW], *piece = few;
    if (!count) return LIPSC_OK;
    if (count > FEW && !(piece = lipsc_alloc(count, sizeof *piece))) return LIPSC_E_NOMEM;
    lipsc_cpu_pass pass = {.batch = ((lipsc_cpu_member *)product->of)->batch,
                           .piece = piece};
    lipsc_status status = LIPSC_OK;
    for (int way = 0; way < LIPSC_CPU_WAYS; way++)
        for (size_t done = 0, most; !status; done += LIPSC_CPU_DIRS) {
            most = fill_pass(&pass, trans, way, done, count, product);
            if (!most) break;
            status = product_pass(&pass, trans, most);
        }
    if (piece != few) lipsc_release(piece);
    return status;
}

lipsc_status lipsc_cpu_output(void *input, lipsc_buffer y) {
    const lipsc_cpu_member *of = input;
    lipsc_cpu_batch *b = of->batch;
    const lipsc_cpu_weights *w = b->w;
    const lipsc_space *to = lipsc_space_host(y.type);
    const size_t n = of->n, width = w->width, item = w->kernels->item;
    if (!lipsc_space_fits(to, y, n, width)) return LIPSC_E_ARG;
    char *out = lipsc_cpu_alloc(w->space, n * width);
    double *row = lipsc_alloc(width, sizeof *row);
    for (size_t h = 0; out && row && h < w->layer->heads; h++) {
        const lipsc_head head = lipsc_cpu_head(b, of, h);
        w->kernels->head_output(&head, 0, n, (char *)b->heads + h * n * w->vw * item);
    }
    if (out && row) lipsc_cpu_combine_heads(w, b->threads, n, b->heads, out);
    for (size_t i = 0; out && row && i < n; i++) {
        const size_t place = b->order ? b->order[of->first + i] : i;
        lipsc_cpu_download(w->space, width, out + i * width * item, row);
        for (size_t c = 0; c < width; c++) row[c] += w->layer->bo ? w->layer->bo[c] : 0;
        lipsc_cpu_upload(to, width, row, (char *)y.at + place * width * to->item);
    }
    lipsc_cpu_release(w->space, out);
    lipsc_release(row);
    return out && row ? LIPSC_OK : LIPSC_E_NOMEM;
}
