/* product.c - J x and J^T x at an input: project, attention core, output.
 *
 *     J:    dq, dk, dz = x Wq^T, x Wk^T, x Wv^T   -> core, per head -> y = heads O^T
 *     J^T:  g = x O                               -> core, per head -> y = gq Wq + gk Wk +
 * gz Wv
 *
 * Only the core is quadratic in n.  Its tasks never write to the same place: J is cut by
 * heads and rows; J^T, which adds to rows and to keys, by heads and by phases in which each
 * piece of rows meets another piece of keys.  The pieces depend on the sizes alone, so the
 * order of every sum, and with it every bit of the result, is the same for any number of
 * threads. */
#include "backend/cpu/cpu.h"

#include <omp.h>
#include <string.h>

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }
static size_t ceil_div(size_t a, size_t b) { return (a + b - 1) / b; }

/* ---- projections -----------------------------------------------------------------------
 */

/* Rows per task: about 144, so that its activations stay in the L2 cache, and near equal.
 */
static size_t rows_per_task(size_t rows) {
    const size_t per = ceil_div(rows, ceil_div(rows, 144));
    return ceil_div(per, 6) * 6;
}

void lipsc_cpu_gemms(const lipsc_kernels *kernels, int threads, size_t rows, size_t count,
                     const lipsc_gemm *g, int chained) {
    const size_t nr = kernels->nr, chunk = rows_per_task(rows),
                 chunks = ceil_div(rows, chunk);
    const size_t lists = chained ? 1 : count;
    size_t panels[3] = {0}, total = 0;
    for (size_t i = 0; i < lists; i++) total += panels[i] = ceil_div(g[i].columns, nr);
    /* at least four tasks a thread, at most 12 panels a task */
    size_t per = total * chunks / (4 * (size_t)threads);
    per = per < 1 ? 1 : min_size(per, 12);
    size_t first[4] = {0};
    for (size_t i = 0; i < lists; i++)
        first[i + 1] = first[i] + ceil_div(panels[i], per) * chunks;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (size_t task = 0; task < first[lists]; task++) {
        size_t i = 0;
        while (task >= first[i + 1]) i++;
        const size_t pieces = ceil_div(panels[i], per);
        const size_t r0 = (task - first[i]) / pieces * chunk,
                     r1 = min_size(r0 + chunk, rows);
        const size_t p0 = (task - first[i]) % pieces * per,
                     p1 = min_size(p0 + per, panels[i]);
        for (size_t c = chained ? 0 : i; c < (chained ? count : i + 1); c++)
            kernels->gemm(&g[c], r0, r1, p0, p1);
    }
}

void lipsc_cpu_project(const lipsc_cpu_weights *w, int threads, size_t rows, const void *a,
                       void *q, void *k, void *z, int bias) {
    const size_t nr = w->kernels->nr, d = w->layer->d;
    void *c[3] = {q, k, z};
    const void *b[3] = {w->q_in, w->k_in, w->v_in};
    const void *biases[3] = {w->q_bias, w->k_bias, w->v_bias};
    const size_t heads[3] = {w->layer->heads, w->layer->kv_heads, w->layer->kv_heads};
    lipsc_gemm g[3];
    for (int i = 0; i < 3; i++) {
        const size_t hw = i < 2 ? w->kw : w->vw;
        g[i] = (lipsc_gemm){.a = a,
                            .a_row = d,
                            .segs = 1,
                            .seg_len = d,
                            .b = b[i],
                            .c = c[i],
                            .c_row = hw,
                            .group = hw / nr,
                            .c_group = rows * hw,
                            .columns = heads[i] * hw,
                            .bias = bias ? biases[i] : NULL};
    }
    lipsc_cpu_gemms(w->kernels, threads, rows, 3, g, 0);
}

/* Between head layout (heads, rows, vw) and plain rows (rows, heads*dv), without O. */
static void concatenate(const lipsc_cpu_weights *w, size_t rows, char *heads, char *plain,
                        int to_heads) {
    const size_t dv = w->layer->value_dim, H = w->layer->heads, item = w->kernels->item;
    for (size_t h = 0; h < H; h++)
        for (size_t i = 0; i < rows; i++) {
            char *a = heads + (h * rows + i) * w->vw * item,
                 *b = plain + (i * H + h) * dv * item;
            if (to_heads) {
                memcpy(a, b, dv * item);
                memset(a + dv * item, 0, (w->vw - dv) * item);
            } else {
                memcpy(b, a, dv * item);
            }
        }
}

void lipsc_cpu_combine_heads(const lipsc_cpu_weights *w, int threads, size_t rows,
                             const void *heads, void *y) {
    if (!w->o_in) {
        concatenate(w, rows, (char *)heads, y, 0);
        return;
    }
    const lipsc_gemm g = {.a = heads,
                          .a_row = w->vw,
                          .a_seg = rows * w->vw,
                          .segs = w->layer->heads,
                          .seg_len = w->vw,
                          .b = w->o_in,
                          .c = y,
                          .c_row = w->width,
                          .group = 1,
                          .c_group = w->kernels->nr,
                          .columns = w->width};
    lipsc_cpu_gemms(w->kernels, threads, rows, 1, &g, 0);
}

void lipsc_cpu_split_heads(const lipsc_cpu_weights *w, int threads, size_t rows,
                           const void *x, void *heads) {
    if (!w->o_out) {
        concatenate(w, rows, heads, (char *)x, 1);
        return;
    }
    const lipsc_gemm g = {.a = x,
                          .a_row = w->width,
                          .segs = 1,
                          .seg_len = w->width,
                          .b = w->o_out,
                          .c = heads,
                          .c_row = w->vw,
                          .group = w->vw / w->kernels->nr,
                          .c_group = rows * w->vw,
                          .columns = w->layer->heads * w->vw};
    lipsc_cpu_gemms(w->kernels, threads, rows, 1, &g, 0);
}

void lipsc_cpu_project_back(const lipsc_cpu_weights *w, int threads, size_t rows,
                            const void *q, const void *k, const void *z, void *y) {
    const size_t d = w->layer->d;
    const void *a[3] = {q, k, z}, *b[3] = {w->q_out, w->k_out, w->v_out};
    const size_t heads[3] = {w->layer->heads, w->layer->kv_heads, w->layer->kv_heads};
    lipsc_gemm g[3];
    for (int i = 0; i < 3; i++) {
        const size_t hw = i < 2 ? w->kw : w->vw;
        g[i] = (lipsc_gemm){.a = a[i],
                            .a_row = hw,
                            .a_seg = rows * hw,
                            .segs = heads[i],
                            .seg_len = hw,
                            .b = b[i],
                            .c = y,
                            .c_row = d,
                            .group = 1,
                            .c_group = w->kernels->nr,
                            .columns = d,
                            .add = i > 0};
    }
    lipsc_cpu_gemms(w->kernels, threads, rows, 3, g, 1);
}

void lipsc_cpu_turn(const lipsc_cpu_input *in, size_t dirs, int trans, void *dq, void *dk) {
    const lipsc_cpu_weights *w = in->w;
    const lipsc_layer *layer = w->layer;
    const lipsc_stages *s = w->stages;
    const size_t n = in->n, rows = dirs * n, half = layer->rotary_dim / 2, kw = w->kw;
    const size_t item = w->kernels->item;
    if (!half && !layer->q_gain && !layer->k_gain) return;
#pragma omp parallel for num_threads(in->threads) schedule(static)
    for (size_t t = 0; t < lipsc_cpu_norms(layer); t++) {
        const lipsc_cpu_norm_heads of = lipsc_cpu_norm_at(layer, t);
        const int query = of.query;
        const size_t h = of.first;
        char *x = (char *)(query ? dq : dk) + h * rows * kw * item;
        const void *gain = query ? w->q_gain : w->k_gain;
        const char *unit = query ? in->q_unit : in->k_unit;
        const char *inverse = query ? in->q_inverse : in->k_inverse;
        const size_t all = of.span * rows;
        if (trans && half) s->rotate(all, n, kw, half, in->cosine, in->sine, -1, x);
        if (gain)
            s->norm_derivative(rows, n, kw, layer->key_dim, of.span, gain,
                               unit + h * n * kw * item, inverse + h * n * item, trans, x);
        if (!trans && half) s->rotate(all, n, kw, half, in->cosine, in->sine, 1, x);
    }
}

/* ---- the core
 * ------------------------------------------------------------------------------ */

static lipsc_head_dirs head_dirs(const lipsc_cpu_input *in, size_t h, size_t dirs) {
    const lipsc_cpu_weights *w = in->w;
    const size_t rows = dirs * in->n, item = w->kernels->item;
    const size_t g = h * w->layer->kv_heads / w->layer->heads;
    char *dq = (char *)in->dq + h * rows * w->kw * item;
    char *dk = (char *)in->dk + g * rows * w->kw * item;
    char *dz = (char *)in->dz + g * rows * w->vw * item;
    char *heads = (char *)in->heads + h * rows * w->vw * item;
    return (lipsc_head_dirs){.dirs = dirs,
                             .dq = dq,
                             .dk = dk,
                             .dz = dz,
                             .out = heads,
                             .g = heads,
                             .gq = dq,
                             .gk = dk,
                             .gz = dz,
                             .shift = (char *)in->shift + h * rows * item,
                             .mean = (char *)in->mean + h * rows * item};
}

static void *thread_scratch(const lipsc_cpu_input *in) {
    return in->scratch + (size_t)omp_get_thread_num() * in->scratch_bytes;
}

/* Rows are independent, so their cut may follow the number of threads: whole heads, or
 * pieces of at least 384 rows when there are more threads than heads. */
static void core_forward(const lipsc_cpu_input *in, size_t dirs) {
    const lipsc_cpu_weights *w = in->w;
    const size_t n = in->n, heads = w->layer->heads;
    size_t pieces = ceil_div(4 * (size_t)in->threads, heads);
    pieces = min_size(pieces, ceil_div(n, 384));
    const size_t piece = ceil_div(ceil_div(n, pieces), 96) * 96;
    pieces = ceil_div(n, piece);
#pragma omp parallel for num_threads(in->threads) schedule(dynamic, 1)
    for (size_t task = 0; task < heads * pieces; task++) {
        /* last rows first: under a causal mask they are the longest tasks */
        const size_t i0 = (pieces - 1 - task / heads) * piece, i1 = min_size(i0 + piece, n);
        const lipsc_head h = lipsc_cpu_head(in, task % heads);
        const lipsc_head_dirs d = head_dirs(in, task % heads, dirs);
        w->kernels->forward(&h, &d, i0, i1, thread_scratch(in));
    }
}

static void core_adjoint(const lipsc_cpu_input *in, size_t dirs) {
    const lipsc_cpu_weights *w = in->w;
    const size_t n = in->n, heads = w->layer->heads, kv = w->layer->kv_heads,
                 share = heads / kv;
    /* enough pieces to occupy 32 threads, none shorter than 384 rows */
    size_t pieces = min_size(ceil_div(32, kv), ceil_div(n, 384));
    const size_t piece = ceil_div(ceil_div(n, pieces), 96) * 96;
    pieces = ceil_div(n, piece);
    const size_t rows = dirs * n, item = w->kernels->item;
    memset(in->dq, 0, heads * rows * w->kw * item);
    memset(in->dk, 0, kv * rows * w->kw * item);
    memset(in->dz, 0, kv * rows * w->vw * item);
#pragma omp parallel num_threads(in->threads)
    {
#pragma omp for schedule(static)
        for (size_t h = 0; h < heads; h++) {
            const lipsc_head head = lipsc_cpu_head(in, h);
            const lipsc_head_dirs d = head_dirs(in, h, dirs);
            w->kernels->adjoint_rows(&head, &d, 0, n);
        }
        for (size_t phase = 0; phase < pieces; phase++)
#pragma omp for schedule(dynamic, 1)
            for (size_t task = 0; task < kv * pieces; task++) {
                const size_t a = pieces - 1 - task / kv, b = (a + phase) % pieces;
                const size_t i0 = a * piece, i1 = min_size(i0 + piece, n);
                const size_t j0 = b * piece, j1 = min_size(j0 + piece, n);
                for (size_t s = 0; s < share;
                     s++) { /* query heads of one key head in turn */
                    const lipsc_head head = lipsc_cpu_head(in, task % kv * share + s);
                    const lipsc_head_dirs d = head_dirs(in, task % kv * share + s, dirs);
                    w->kernels->adjoint(&head, &d, i0, i1, j0, j1, thread_scratch(in));
                }
            }
    }
}

/* ---- products
 * --------------------------------------------------------------------------------- */

void lipsc_cpu_stage_rows(const lipsc_cpu_input *in, int trans, int outgoing, size_t dirs,
                          size_t width, const void *src, void *dst) {
    const size_t vector = in->n * width * in->w->kernels->item;
    const void *factor = trans == outgoing ? in->inverse_root : in->root;
    for (size_t k = 0; k < dirs; k++)
        (outgoing ? in->w->stages->scatter : in->w->stages->gather)(
            in->n, width, in->order, factor, (const char *)src + k * vector,
            (char *)dst + k * vector);
}

static void product_block(const lipsc_cpu_input *in, int trans, size_t dirs, const void *x,
                          void *y) {
    const lipsc_cpu_weights *w = in->w;
    const size_t rows = dirs * in->n, d = w->layer->d;
    const int staged = in->order || in->root;
    void *out = y;
    if (staged) { /* J maps (n, d) to (n, width): the buffers swap roles for J^T */
        void *rows_in = trans ? in->rows_out : in->rows_in;
        lipsc_cpu_stage_rows(in, trans, 0, dirs, trans ? w->width : d, x, rows_in);
        x = rows_in;
        out = trans ? in->rows_in : in->rows_out;
    }
    if (trans) {
        lipsc_cpu_split_heads(w, in->threads, rows, x, in->heads);
        core_adjoint(in, dirs);
        lipsc_cpu_turn(in, dirs, 1, in->dq, in->dk);
        lipsc_cpu_project_back(w, in->threads, rows, in->dq, in->dk, in->dz, out);
    } else {
        lipsc_cpu_project(w, in->threads, rows, x, in->dq, in->dk, in->dz, 0);
        lipsc_cpu_turn(in, dirs, 0, in->dq, in->dk);
        core_forward(in, dirs);
        lipsc_cpu_combine_heads(w, in->threads, rows, in->heads, out);
    }
    if (staged) lipsc_cpu_stage_rows(in, trans, 1, dirs, trans ? d : w->width, out, y);
}

lipsc_status lipsc_cpu_product(void *input, int trans, size_t k, const void *x, void *y) {
    lipsc_cpu_input *in = input;
    const size_t item = in->w->kernels->item;
    const size_t from = in->n * (trans ? in->w->width : in->w->layer->d) * item;
    const size_t to = in->n * (trans ? in->w->layer->d : in->w->width) * item;
    for (size_t done = 0; done < k;) {
        const size_t dirs = min_size(k - done, LIPSC_CPU_DIRS);
        const lipsc_status status = lipsc_cpu_reserve(in, dirs);
        if (status != LIPSC_OK) return status;
        product_block(in, trans, dirs, (const char *)x + done * from,
                      (char *)y + done * to);
        done += dirs;
    }
    return LIPSC_OK;
}

lipsc_status lipsc_cpu_output(void *input, double *y) {
    lipsc_cpu_input *in = input;
    const lipsc_cpu_weights *w = in->w;
    const size_t n = in->n, width = w->width, item = w->kernels->item;
    for (size_t h = 0; h < w->layer->heads; h++) {
        const lipsc_head head = lipsc_cpu_head(in, h);
        w->kernels->head_output(&head, 0, n, (char *)in->heads + h * n * w->vw * item);
    }
    void *out = lipsc_space_alloc(w->space, n * width);
    double *host =
        out ? lipsc_space_alloc(w->space, n * width * sizeof(double) / item + 1) : NULL;
    if (!host) {
        lipsc_space_release(w->space, out);
        return LIPSC_E_NOMEM;
    }
    lipsc_cpu_combine_heads(w, in->threads, n, in->heads, out);
    lipsc_cpu_download(w->space, n * width, out, host);
    for (size_t i = 0; i < n; i++) {
        double *row = y + (in->order ? in->order[i] : i) * width;
        for (size_t c = 0; c < width; c++)
            row[c] = host[i * width + c] + (w->layer->bo ? w->layer->bo[c] : 0);
    }
    lipsc_space_release(w->space, host);
    lipsc_space_release(w->space, out);
    return LIPSC_OK;
}
