/* input.c - everything that depends on the inputs of a batch alone: projections, norms,
 * rotations and row statistics, computed once and reused by every product. */
#include "backend/cpu/cpu.h"
#include "core/error.h"
#include "core/mem.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* Rows of one parallel piece of a head: large enough to reuse packed keys. */
enum { PIECE = 192 };

static void batch_free(lipsc_cpu_batch *b) {
    if (!b) return;
    void *all[] = {b->q,        b->k,        b->z,         b->excess,       b->rowmax,
                   b->rowinv,   b->key_bias, b->root,      b->inverse_root, b->cosine,
                   b->sine,     b->q_unit,   b->q_inverse, b->k_unit,       b->k_inverse,
                   b->dq,       b->dk,       b->dz,        b->heads,        b->shift,
                   b->mean,     b->rows_in,  b->rows_out,  b->distance,     b->top_slope,
                   b->sink_mass};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        lipsc_cpu_release(b->w->space, all[i]);
    lipsc_cpu_composed_free(b);
    lipsc_cpu_kept_free(b);
    lipsc_release(b->member);
    lipsc_release(b->top);
    lipsc_release(b->lo);
    lipsc_release(b->hi);
    lipsc_release(b->order);
    lipsc_release(b->scratch);
    free(b);
}

void lipsc_cpu_input_free(void *input) {
    if (!input) return;
    lipsc_cpu_batch *b = ((lipsc_cpu_member *)input)->batch;
    if (!--b->users) batch_free(b);
}

/* Element `at` of an array that may be absent. */
static void *part(const lipsc_cpu_batch *b, void *array, size_t at) {
    return array ? (char *)array + at * b->w->kernels->item : NULL;
}

/* Biases by distance of one head at one input. */
static size_t distances(const lipsc_cpu_batch *b, size_t n) {
    return 2 * n - 1 + b->w->kernels->nr;
}

lipsc_head lipsc_cpu_head(const lipsc_cpu_batch *b, const lipsc_cpu_member *of, size_t h) {
    const lipsc_cpu_weights *w = b->w;
    const size_t g = h * w->layer->kv_heads / w->layer->heads;
    const size_t row = h * b->tokens + of->first, key = g * b->tokens + of->first;
    return (lipsc_head){.n = of->n,
                        .kw = w->kw,
                        .vw = w->vw,
                        .q = part(b, b->q, row * w->kw),
                        .k = part(b, b->k, key * w->kw),
                        .z = part(b, b->z, key * w->vw),
                        .rowmax = part(b, b->rowmax, row),
                        .rowinv = part(b, b->rowinv, row),
                        .excess = part(b, b->excess, row * w->vw),
                        .top = b->top + row,
                        .bias = part(b, b->key_bias, of->first),
                        .lo = b->lo + of->first,
                        .hi = b->hi + of->first,
                        .distance =
                            part(b, b->distance, of->distance + h * distances(b, of->n)),
                        .soft_cap = w->layer->soft_cap,
                        .top_slope = part(b, b->top_slope, row),
                        .has_sink = w->layer->sinks != NULL,
                        .sink = w->layer->sinks ? w->layer->sinks[h] : 0,
                        .sink_mass = part(b, b->sink_mass, row)};
}

/* to (n, width) = the first width of w columns */
static void download_rows(const lipsc_space *space, size_t n, size_t w, size_t width,
                          const void *from, double *to) {
    for (size_t i = 0; i < n; i++)
        lipsc_cpu_download(space, width, (const char *)from + i * w * space->item,
                           to + i * width);
}

void lipsc_cpu_projections(const void *input, size_t head, double *q, double *key,
                           double *z, double *q_over, double *k_over) {
    const lipsc_cpu_member *of = input;
    const lipsc_cpu_batch *b = of->batch;
    const lipsc_layer *layer = b->w->layer;
    const lipsc_space *space = b->w->space;
    const lipsc_head h = lipsc_cpu_head(b, of, head);
    const size_t n = of->n, group = head * layer->kv_heads / layer->heads;
    download_rows(space, n, h.kw, layer->key_dim, h.q, q);
    download_rows(space, n, h.kw, layer->key_dim, h.k, key);
    download_rows(space, n, h.vw, layer->value_dim, h.z, z);
    /* a norm over all heads has one row for all of them */
    const size_t at_q = layer->norm_whole ? 0 : head, at_k = layer->norm_whole ? 0 : group;
    for (size_t i = 0; i < n; i++) q_over[i] = k_over[i] = 1;
    if (layer->q_gain)
        lipsc_cpu_download(space, n, part(b, b->q_inverse, at_q * b->tokens + of->first),
                           q_over);
    if (layer->k_gain)
        lipsc_cpu_download(space, n, part(b, b->k_inverse, at_k * b->tokens + of->first),
                           k_over);
}

/* ---- What the inputs bring ---------------------------------------------------------- */

/* a * b elements of the precision in use, added to the tally of bytes */
static void *array(lipsc_cpu_batch *b, size_t rows, size_t width) {
    size_t count;
    if (!lipsc_mul_size(rows, width, &count)) return NULL;
    b->bytes += count * b->w->space->item;
    return lipsc_cpu_alloc(b->w->space, count);
}

static void *uploaded(lipsc_cpu_batch *b, size_t count, const double *host) {
    void *p = array(b, count, 1);
    if (p) lipsc_cpu_upload(b->w->space, count, host, p);
    return p;
}

static size_t *new_indices(lipsc_cpu_batch *b, size_t count) {
    b->bytes += count * sizeof(size_t);
    return lipsc_alloc(count, sizeof(size_t));
}

/* The ranges of visible keys and, where an input has one, the order of the tokens. */
static int copy_ranges(lipsc_cpu_batch *b, const lipsc_rows *rows) {
    int ordered = 0;
    for (size_t i = 0; i < b->inputs; i++) ordered = ordered || rows[i].order;
    b->lo = new_indices(b, b->tokens);
    b->hi = new_indices(b, b->tokens);
    if (ordered) b->order = new_indices(b, b->tokens);
    if (!b->lo || !b->hi || (ordered && !b->order)) return 0;
    for (size_t i = 0; i < b->inputs; i++) {
        const size_t n = rows[i].n, first = b->member[i].first;
        memcpy(b->lo + first, rows[i].lo, n * sizeof *b->lo);
        memcpy(b->hi + first, rows[i].hi, n * sizeof *b->hi);
        for (size_t r = 0; ordered && r < n; r++)
            b->order[first + r] = rows[i].order ? rows[i].order[r] : r;
        lipsc_cpu_member *of = &b->member[i];
        of->way = lipsc_cpu_composes(b, of) ? LIPSC_CPU_COMPOSED
                  : lipsc_cpu_keeps(b, of)  ? LIPSC_CPU_KEPT
                                            : LIPSC_CPU_PLAIN;
    }
    return 1;
}

/* Log weights, the roots of the weights and their inverses; an input without weights has
 * equal ones. */
static int upload_weights(lipsc_cpu_batch *b, const lipsc_rows *rows) {
    int weighted = 0;
    for (size_t i = 0; i < b->inputs; i++) weighted = weighted || rows[i].log_weight;
    if (!weighted) return 1;
    double *host = lipsc_alloc(b->tokens, 3 * sizeof(double));
    if (!host) return 0;
    double *root = host + b->tokens, *inverse = root + b->tokens;
    for (size_t i = 0; i < b->inputs; i++)
        for (size_t r = 0, at = b->member[i].first; r < rows[i].n; r++, at++) {
            host[at] = rows[i].log_weight ? rows[i].log_weight[r] : 0;
            root[at] = rows[i].root_weight ? rows[i].root_weight[r] : 1;
            inverse[at] = 1 / root[at];
        }
    b->key_bias = uploaded(b, b->tokens, host);
    b->root = uploaded(b, b->tokens, root);
    b->inverse_root = uploaded(b, b->tokens, inverse);
    lipsc_release(host);
    return b->key_bias && b->root && b->inverse_root;
}

/* Biases by distance, each head with a panel of zeros behind. */
static int upload_distances(lipsc_cpu_batch *b, const lipsc_rows *rows) {
    const size_t heads = b->w->layer->heads;
    size_t total = 0;
    if (!rows->distance) return 1; /* the layer has them, or has not */
    for (size_t i = 0; i < b->inputs; i++) {
        b->member[i].distance = total;
        total += heads * distances(b, rows[i].n);
    }
    double *host = lipsc_alloc_zero(total, sizeof(double));
    if (!host) return 0;
    for (size_t i = 0; i < b->inputs; i++) {
        const size_t count = 2 * rows[i].n - 1, stride = distances(b, rows[i].n);
        for (size_t h = 0; h < heads; h++)
            memcpy(host + b->member[i].distance + h * stride, rows[i].distance + h * count,
                   count * sizeof *host);
    }
    b->distance = uploaded(b, total, host);
    lipsc_release(host);
    return b->distance != NULL;
}

static int upload_angles(lipsc_cpu_batch *b, const lipsc_rows *rows) {
    const lipsc_layer *layer = b->w->layer;
    const size_t half = layer->rotary_dim / 2;
    if (!half) return 1;
    double *host = lipsc_alloc(b->tokens, 2 * half * sizeof(double));
    if (!host) return 0;
    double *cosine = host, *sine = host + b->tokens * half;
    for (size_t i = 0; i < b->inputs; i++)
        for (size_t r = 0; r < rows[i].n; r++)
            for (size_t l = 0; l < half; l++) {
                const double angle = rows[i].positions[r] * layer->rotary_freq[l];
                *cosine++ = cos(angle);
                *sine++ = sin(angle);
            }
    b->cosine = uploaded(b, b->tokens * half, host);
    b->sine = uploaded(b, b->tokens * half, host + b->tokens * half);
    lipsc_release(host);
    return b->cosine && b->sine;
}

/* ---- Queries, keys and values ------------------------------------------------------- */

/* Each head alone, or all of them together. */
static void norm_heads(const lipsc_cpu_batch *b, size_t heads, const void *gain, void *x,
                       void *unit, void *inverse) {
    const lipsc_layer *layer = b->w->layer;
    const size_t span = layer->norm_whole ? heads : 1;
    b->w->stages->norm(heads / span * b->tokens, b->w->kw, layer->key_dim, span,
                       layer->norm_eps, gain, x, unit, inverse);
}

/* Heads of one input: to (heads, tokens, w) = factor times from (heads, n, width), zeros
 * behind. */
static lipsc_status upload_heads(const lipsc_cpu_batch *b, const lipsc_cpu_member *of,
                                 size_t heads, size_t w, size_t width, double factor,
                                 const double *from, void *to) {
    const size_t n = of->n;
    double *host = lipsc_alloc_zero(n, w * sizeof *host);
    if (!host) return LIPSC_E_NOMEM;
    for (size_t h = 0; h < heads; h++) {
        for (size_t i = 0; i < n; i++)
            for (size_t c = 0; c < width; c++)
                host[i * w + c] = factor * from[(h * n + i) * width + c];
        lipsc_cpu_upload(b->w->space, n * w, host,
                         part(b, to, (h * b->tokens + of->first) * w));
    }
    lipsc_release(host);
    return LIPSC_OK;
}

/* The projections that were found elsewhere; the scale is where the weights have it. */
static lipsc_status take_raw(lipsc_cpu_batch *b, const lipsc_cpu_member *of,
                             const lipsc_raw *raw) {
    const lipsc_cpu_weights *w = b->w;
    const lipsc_layer *layer = w->layer;
    const size_t kv = layer->kv_heads, dk = layer->key_dim;
    const double scale = layer->q_gain ? 1 : layer->scale;
    lipsc_status status = upload_heads(b, of, layer->heads, w->kw, dk, scale, raw->q, b->q);
    if (!status) status = upload_heads(b, of, kv, w->kw, dk, 1, raw->key, b->k);
    if (!status) status = upload_heads(b, of, kv, w->vw, layer->value_dim, 1, raw->z, b->z);
    return status;
}

/* Tokens in the precision of the products, whatever theirs is. */
static void take_tokens(const lipsc_space *space, size_t count, lipsc_buffer X, void *to) {
    if (X.type == LIPSC_F64)
        lipsc_cpu_upload(space, count, X.at, to);
    else if (space->dtype == LIPSC_F64)
        lipsc_cpu_download(lipsc_space_host(LIPSC_F32), count, X.at, to);
    else
        memcpy(to, X.at, count * space->item);
}

static lipsc_status project_tokens(lipsc_cpu_batch *b, const lipsc_rows *rows) {
    const lipsc_cpu_weights *w = b->w;
    const size_t d = w->layer->d;
    void *x = lipsc_cpu_alloc(w->space, b->tokens * d);
    if (!x) return LIPSC_E_NOMEM;
    for (size_t i = 0; i < b->inputs; i++)
        take_tokens(w->space, rows[i].n * d, rows[i].X, part(b, x, b->member[i].first * d));
    lipsc_cpu_project(w, b->threads, b->tokens, x, b->q, b->k, b->z, 1);
    lipsc_cpu_release(w->space, x);
    return LIPSC_OK;
}

/* q, k, z at the inputs, in head layout */
static lipsc_status project_inputs(lipsc_cpu_batch *b, const lipsc_rows *rows) {
    const lipsc_cpu_weights *w = b->w;
    const lipsc_layer *layer = w->layer;
    const size_t tokens = b->tokens, half = layer->rotary_dim / 2;
    lipsc_status status = LIPSC_OK;
    int all_raw = 1;
    for (size_t i = 0; i < b->inputs; i++) all_raw = all_raw && rows[i].raw.q;
    if (!all_raw) status = project_tokens(b, rows);
    for (size_t i = 0; i < b->inputs && !status; i++)
        if (rows[i].raw.q) status = take_raw(b, &b->member[i], &rows[i].raw);
    if (status) return status;
    if (layer->q_gain) {
        b->q_unit = array(b, layer->heads * tokens, w->kw);
        b->q_inverse = array(b, layer->heads, tokens);
        if (!b->q_unit || !b->q_inverse) return LIPSC_E_NOMEM;
        norm_heads(b, layer->heads, w->q_gain, b->q, b->q_unit, b->q_inverse);
    }
    if (layer->k_gain) {
        b->k_unit = array(b, layer->kv_heads * tokens, w->kw);
        b->k_inverse = array(b, layer->kv_heads, tokens);
        if (!b->k_unit || !b->k_inverse) return LIPSC_E_NOMEM;
        norm_heads(b, layer->kv_heads, w->k_gain, b->k, b->k_unit, b->k_inverse);
    }
    if (half) {
        w->stages->rotate(layer->heads * tokens, tokens, w->kw, half, b->cosine, b->sine, 1,
                          b->q);
        w->stages->rotate(layer->kv_heads * tokens, tokens, w->kw, half, b->cosine, b->sine,
                          1, b->k);
    }
    return LIPSC_OK;
}

static int piece_statistics(const lipsc_cpu_batch *b, const lipsc_cpu_member *of, size_t h,
                            size_t i0) {
    const lipsc_head head = lipsc_cpu_head(b, of, h);
    const size_t i1 = i0 + PIECE < of->n ? i0 + PIECE : of->n;
    void *scratch = b->scratch + (size_t)omp_get_thread_num() * b->scratch_bytes;
    return b->w->kernels->statistics(&head, i0, i1, scratch);
}

static int all_statistics(lipsc_cpu_batch *b) {
    const size_t heads = b->w->layer->heads;
    int finite = 1;
#pragma omp parallel num_threads(b->threads) reduction(&& : finite)
    for (size_t i = 0; i < b->inputs; i++) {
        const lipsc_cpu_member *of = &b->member[i];
        const size_t pieces = (of->n + PIECE - 1) / PIECE;
#pragma omp for schedule(dynamic, 1) nowait
        for (size_t task = 0; task < heads * pieces; task++)
            finite =
                piece_statistics(b, of, task / pieces, task % pieces * PIECE) && finite;
    }
    return finite;
}

/* ---- Life of a batch ---------------------------------------------------------------- */

lipsc_status lipsc_cpu_reserve(lipsc_cpu_batch *b, size_t rows, size_t dirs, int staged) {
    if (rows <= b->rows && dirs <= b->dirs && staged <= b->staged) return LIPSC_OK;
    const lipsc_cpu_weights *w = b->w;
    const lipsc_layer *layer = w->layer;
    void **work[] = {&b->dq,    &b->dk,   &b->dz,      &b->heads,
                     &b->shift, &b->mean, &b->rows_in, &b->rows_out};
    const size_t heads = layer->heads, kv = layer->kv_heads, threads = (size_t)b->threads;
    if (rows < b->rows) rows = b->rows;
    if (dirs < b->dirs) dirs = b->dirs;
    staged = staged || b->staged;
    const size_t sizes[] = {heads * w->kw,
                            kv * w->kw,
                            kv * w->vw,
                            heads * w->vw,
                            heads,
                            heads,
                            staged ? layer->d : 0,
                            staged ? w->width : 0};
    for (size_t i = 0; i < sizeof work / sizeof work[0]; i++) {
        lipsc_cpu_release(w->space, *work[i]);
        *work[i] = NULL;
    }
    lipsc_release(b->scratch);
    b->bytes -= b->work_bytes;
    b->rows = b->dirs = 0;
    const size_t before = b->bytes;
    b->scratch_bytes = (w->kernels->scratch_bytes(w->kw, w->vw, dirs) + 4095) / 4096 * 4096;
    b->scratch = lipsc_alloc(threads, b->scratch_bytes);
    int ok = b->scratch != NULL;
    b->bytes += b->scratch_bytes * threads;
    for (size_t i = 0; i < sizeof work / sizeof work[0]; i++)
        if (sizes[i]) {
            *work[i] = array(b, rows, sizes[i]);
            ok = ok && *work[i];
        }
    b->work_bytes = b->bytes - before;
    if (!ok) return LIPSC_E_NOMEM;
    b->rows = rows;
    b->dirs = dirs;
    b->staged = staged;
    return LIPSC_OK;
}

/* Places of the inputs, arrays of all tokens; 0 when memory is short. */
static int lay_out(lipsc_cpu_batch *b, const lipsc_rows *rows) {
    const lipsc_cpu_weights *w = b->w;
    const lipsc_layer *layer = w->layer;
    b->member = lipsc_alloc_zero(b->inputs, sizeof *b->member);
    if (!b->member) return 0;
    for (size_t i = 0; i < b->inputs; i++) {
        b->member[i] = (lipsc_cpu_member){.batch = b, .n = rows[i].n, .first = b->tokens};
        b->tokens += rows[i].n;
    }
    const size_t tokens = b->tokens, heads = layer->heads, kv = layer->kv_heads;
    b->q = array(b, heads * w->kw, tokens);
    b->k = array(b, kv * w->kw, tokens);
    b->z = array(b, kv * w->vw, tokens);
    b->excess = array(b, heads * w->vw, tokens);
    b->rowmax = array(b, heads, tokens);
    b->rowinv = array(b, heads, tokens);
    b->top = new_indices(b, heads * tokens);
    int ok = b->q && b->k && b->z && b->excess && b->rowmax && b->rowinv && b->top;
    if (layer->soft_cap > 0) ok = (b->top_slope = array(b, heads, tokens)) && ok;
    if (layer->sinks) ok = (b->sink_mass = array(b, heads, tokens)) && ok;
    return copy_ranges(b, rows) && upload_weights(b, rows) && upload_distances(b, rows) &&
           upload_angles(b, rows) && ok;
}

lipsc_status lipsc_cpu_batch_new(const void *weights, size_t inputs, const lipsc_rows *rows,
                                 int threads, void **input, lipsc_error *err) {
    const lipsc_cpu_weights *w = weights;
    for (size_t i = 0; i < inputs; i++)
        if (!rows[i].raw.q &&
            !lipsc_buffer_fits(rows[i].X, NULL, rows[i].X.type, rows[i].n, w->layer->d))
            return lipsc_fail(err, LIPSC_E_ARG, "the tokens are not in this memory");
    lipsc_cpu_batch *b = calloc(1, sizeof *b);
    lipsc_status status = LIPSC_E_NOMEM;
    if (b) {
        b->w = w;
        b->threads = threads;
        b->inputs = inputs;
        if (lay_out(b, rows))
            status = lipsc_cpu_reserve(b, b->tokens, 1, b->order || b->root);
    }
    if (!status) status = project_inputs(b, rows);
    if (status) {
        lipsc_fail(err, status, "out of memory for an input of %zu tokens", rows->n);
    } else if (!all_statistics(b)) {
        status =
            lipsc_fail(err, LIPSC_E_NONFIN, "attention scores overflow %s at this input%s",
                       w->dtype == LIPSC_F32 ? "f32" : "f64",
                       w->dtype == LIPSC_F32 ? "; f64 reaches further" : "");
    }
    if (status) {
        batch_free(b);
        return status;
    }
    b->users = inputs;
    for (size_t i = 0; i < inputs; i++) input[i] = &b->member[i];
    return LIPSC_OK;
}
