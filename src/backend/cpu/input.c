/* input.c - everything that depends on the input alone: projections, norms, rotations and
 * row statistics, computed once and reused by every product. */
#include "backend/cpu/cpu.h"
#include "core/error.h"
#include "core/mem.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* Rows of one parallel piece of a head: large enough to reuse packed keys. */
enum { PIECE = 192 };

void lipsc_cpu_input_free(void *input) {
    lipsc_cpu_input *in = input;
    if (!in) return;
    void *all[] = {
        in->q,        in->k,        in->z,         in->excess,       in->rowmax,
        in->rowinv,   in->key_bias, in->root,      in->inverse_root, in->cosine,
        in->sine,     in->q_unit,   in->q_inverse, in->k_unit,       in->k_inverse,
        in->dq,       in->dk,       in->dz,        in->heads,        in->shift,
        in->mean,     in->rows_in,  in->rows_out,  in->distance,     in->top_slope,
        in->sink_mass};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        lipsc_space_release(in->w->space, all[i]);
    lipsc_release(in->top);
    lipsc_release(in->lo);
    lipsc_release(in->hi);
    lipsc_release(in->order);
    lipsc_release(in->scratch);
    free(in);
}

/* Element `at` of an array that may be absent. */
static void *part(const lipsc_cpu_input *in, void *array, size_t at) {
    return array ? (char *)array + at * in->w->kernels->item : NULL;
}

lipsc_head lipsc_cpu_head(const lipsc_cpu_input *in, size_t h) {
    const lipsc_cpu_weights *w = in->w;
    const size_t n = in->n, item = w->kernels->item;
    const size_t g = h * w->layer->kv_heads / w->layer->heads;
    return (lipsc_head){.n = n,
                        .kw = w->kw,
                        .vw = w->vw,
                        .q = (char *)in->q + h * n * w->kw * item,
                        .k = (char *)in->k + g * n * w->kw * item,
                        .z = (char *)in->z + g * n * w->vw * item,
                        .rowmax = (char *)in->rowmax + h * n * item,
                        .rowinv = (char *)in->rowinv + h * n * item,
                        .excess = (char *)in->excess + h * n * w->vw * item,
                        .top = in->top + h * n,
                        .bias = in->key_bias,
                        .lo = in->lo,
                        .hi = in->hi,
                        .distance = part(in, in->distance, h * in->distance_stride),
                        .soft_cap = w->layer->soft_cap,
                        .top_slope = part(in, in->top_slope, h * n),
                        .has_sink = w->layer->sinks != NULL,
                        .sink = w->layer->sinks ? w->layer->sinks[h] : 0,
                        .sink_mass = part(in, in->sink_mass, h * n)};
}

/* to (n, width) = the first width of w columns */
static void download_rows(const lipsc_cpu_input *in, size_t w, size_t width,
                          const void *from, double *to) {
    const lipsc_space *space = in->w->space;
    for (size_t i = 0; i < in->n; i++)
        lipsc_cpu_download(space, width, (const char *)from + i * w * space->item,
                           to + i * width);
}

void lipsc_cpu_projections(const void *input, size_t head, double *q, double *key,
                           double *z, double *q_over, double *k_over) {
    const lipsc_cpu_input *in = input;
    const lipsc_layer *layer = in->w->layer;
    const lipsc_head h = lipsc_cpu_head(in, head);
    const size_t n = in->n, item = in->w->space->item;
    const size_t group = head * layer->kv_heads / layer->heads;
    download_rows(in, h.kw, layer->key_dim, h.q, q);
    download_rows(in, h.kw, layer->key_dim, h.k, key);
    download_rows(in, h.vw, layer->value_dim, h.z, z);
    /* a norm over all heads has one row for all of them */
    const size_t at_q = layer->norm_whole ? 0 : head, at_k = layer->norm_whole ? 0 : group;
    for (size_t i = 0; i < n; i++) q_over[i] = k_over[i] = 1;
    if (layer->q_gain)
        lipsc_cpu_download(in->w->space, n, (const char *)in->q_inverse + at_q * n * item,
                           q_over);
    if (layer->k_gain)
        lipsc_cpu_download(in->w->space, n, (const char *)in->k_inverse + at_k * n * item,
                           k_over);
}

/* count elements of the precision in use, added to the tally of bytes */
static void *array(lipsc_cpu_input *in, size_t a, size_t b) {
    size_t count;
    if (!lipsc_mul_size(a, b, &count)) return NULL;
    in->bytes += count * in->w->space->item;
    return lipsc_space_alloc(in->w->space, count);
}

static void *uploaded(lipsc_cpu_input *in, size_t count, const double *host) {
    void *p = array(in, count, 1);
    if (p) lipsc_cpu_upload(in->w->space, count, host, p);
    return p;
}

static size_t *copied(lipsc_cpu_input *in, size_t n, const size_t *src) {
    size_t *p = lipsc_alloc(n, sizeof *p);
    if (p) memcpy(p, src, n * sizeof *p);
    in->bytes += n * sizeof *p;
    return p;
}

/* square roots of the weights and their inverses */
static int upload_weights(lipsc_cpu_input *in, const lipsc_rows *rows) {
    double *host = lipsc_alloc(in->n, sizeof(double));
    if (!host) return 0;
    for (size_t i = 0; i < in->n; i++) host[i] = 1 / rows->root_weight[i];
    in->root = uploaded(in, in->n, rows->root_weight);
    in->inverse_root = uploaded(in, in->n, host);
    lipsc_release(host);
    return in->root && in->inverse_root;
}

/* biases by distance, each head with a panel of zeros behind */
static int upload_distances(lipsc_cpu_input *in, const lipsc_rows *rows) {
    const size_t heads = in->w->layer->heads, count = 2 * in->n - 1;
    in->distance_stride = count + in->w->kernels->nr;
    double *host = lipsc_alloc_zero(heads * in->distance_stride, sizeof(double));
    if (!host) return 0;
    for (size_t h = 0; h < heads; h++)
        memcpy(host + h * in->distance_stride, rows->distance + h * count,
               count * sizeof *host);
    in->distance = uploaded(in, heads * in->distance_stride, host);
    lipsc_release(host);
    return in->distance != NULL;
}

static int upload_angles(lipsc_cpu_input *in, const lipsc_rows *rows) {
    const lipsc_layer *layer = in->w->layer;
    const size_t half = layer->rotary_dim / 2;
    double *host = lipsc_alloc(in->n, 2 * half * sizeof(double));
    if (!host) return 0;
    double *sine = host + in->n * half;
    for (size_t i = 0; i < in->n; i++)
        for (size_t l = 0; l < half; l++) {
            const double angle = rows->positions[i] * layer->rotary_freq[l];
            host[i * half + l] = cos(angle);
            sine[i * half + l] = sin(angle);
        }
    in->cosine = uploaded(in, in->n * half, host);
    in->sine = uploaded(in, in->n * half, sine);
    lipsc_release(host);
    return in->cosine && in->sine;
}

/* Each head alone, or all of them together. */
static void norm_heads(const lipsc_cpu_input *in, size_t heads, const void *gain, void *x,
                       void *unit, void *inverse) {
    const lipsc_layer *layer = in->w->layer;
    const size_t span = layer->norm_whole ? heads : 1;
    in->w->stages->norm(heads / span * in->n, in->w->kw, layer->key_dim, span,
                        layer->norm_eps, gain, x, unit, inverse);
}

/* to (rows, w) = factor times from (rows, width), zeros behind */
static lipsc_status upload_rows(const lipsc_cpu_input *in, size_t rows, size_t w,
                                size_t width, double factor, const double *from, void *to) {
    double *host = lipsc_alloc_zero(rows, w * sizeof *host);
    if (!host) return LIPSC_E_NOMEM;
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < width; c++) host[i * w + c] = factor * from[i * width + c];
    lipsc_cpu_upload(in->w->space, rows * w, host, to);
    lipsc_release(host);
    return LIPSC_OK;
}

/* The projections that were found elsewhere; the scale is where the weights have it. */
static lipsc_status take_raw(lipsc_cpu_input *in, const lipsc_raw *raw) {
    const lipsc_cpu_weights *w = in->w;
    const lipsc_layer *layer = w->layer;
    const size_t n = in->n, kv = layer->kv_heads;
    const double scale = layer->q_gain ? 1 : layer->scale;
    lipsc_status status =
        upload_rows(in, layer->heads * n, w->kw, layer->key_dim, scale, raw->q, in->q);
    if (!status)
        status = upload_rows(in, kv * n, w->kw, layer->key_dim, 1, raw->key, in->k);
    if (!status)
        status = upload_rows(in, kv * n, w->vw, layer->value_dim, 1, raw->z, in->z);
    return status;
}

static lipsc_status project_tokens(lipsc_cpu_input *in, const lipsc_rows *rows) {
    const lipsc_cpu_weights *w = in->w;
    const size_t n = in->n, d = w->layer->d;
    void *x = lipsc_space_alloc(w->space, n * d);
    if (!x) return LIPSC_E_NOMEM;
    lipsc_cpu_upload(w->space, n * d, rows->X, x);
    lipsc_cpu_project(w, in->threads, n, x, in->q, in->k, in->z, 1);
    lipsc_space_release(w->space, x);
    return LIPSC_OK;
}

/* q, k, z at the input, in head layout */
static lipsc_status project_input(lipsc_cpu_input *in, const lipsc_rows *rows) {
    const lipsc_cpu_weights *w = in->w;
    const lipsc_layer *layer = w->layer;
    const size_t n = in->n, half = layer->rotary_dim / 2;
    const lipsc_status status =
        rows->raw.q ? take_raw(in, &rows->raw) : project_tokens(in, rows);
    if (status) return status;
    if (layer->q_gain) {
        in->q_unit = array(in, layer->heads * n, w->kw);
        in->q_inverse = array(in, layer->heads, n);
        if (!in->q_unit || !in->q_inverse) return LIPSC_E_NOMEM;
        norm_heads(in, layer->heads, w->q_gain, in->q, in->q_unit, in->q_inverse);
    }
    if (layer->k_gain) {
        in->k_unit = array(in, layer->kv_heads * n, w->kw);
        in->k_inverse = array(in, layer->kv_heads, n);
        if (!in->k_unit || !in->k_inverse) return LIPSC_E_NOMEM;
        norm_heads(in, layer->kv_heads, w->k_gain, in->k, in->k_unit, in->k_inverse);
    }
    if (half) {
        w->stages->rotate(layer->heads * n, n, w->kw, half, in->cosine, in->sine, 1, in->q);
        w->stages->rotate(layer->kv_heads * n, n, w->kw, half, in->cosine, in->sine, 1,
                          in->k);
    }
    return LIPSC_OK;
}

static int all_statistics(lipsc_cpu_input *in) {
    const lipsc_cpu_weights *w = in->w;
    const size_t pieces = (in->n + PIECE - 1) / PIECE, heads = w->layer->heads;
    int finite = 1;
#pragma omp parallel for num_threads(in->threads) schedule(dynamic, 1) reduction(&& : finite)
    for (size_t task = 0; task < heads * pieces; task++) {
        const lipsc_head h = lipsc_cpu_head(in, task / pieces);
        const size_t i0 = task % pieces * PIECE,
                     i1 = i0 + PIECE < in->n ? i0 + PIECE : in->n;
        void *scratch = in->scratch + (size_t)omp_get_thread_num() * in->scratch_bytes;
        finite = w->kernels->statistics(&h, i0, i1, scratch) && finite;
    }
    return finite;
}

lipsc_status lipsc_cpu_reserve(lipsc_cpu_input *in, size_t dirs) {
    if (dirs <= in->dirs) return LIPSC_OK;
    const lipsc_cpu_weights *w = in->w;
    const lipsc_layer *layer = w->layer;
    const size_t n = in->n;
    void **work[] = {&in->dq,    &in->dk,   &in->dz,      &in->heads,
                     &in->shift, &in->mean, &in->rows_in, &in->rows_out};
    const int staged = in->order || in->root;
    const size_t heads = layer->heads, kv = layer->kv_heads;
    const size_t sizes[] = {heads * w->kw,
                            kv * w->kw,
                            kv * w->vw,
                            heads * w->vw,
                            heads,
                            heads,
                            staged ? layer->d : 0,
                            staged ? w->width : 0};
    for (size_t i = 0; i < sizeof work / sizeof work[0]; i++) {
        lipsc_space_release(w->space, *work[i]);
        *work[i] = NULL;
        in->bytes -= in->dirs * n * sizes[i] * w->space->item;
    }
    lipsc_release(in->scratch);
    in->bytes -= in->dirs ? in->scratch_bytes * (size_t)in->threads : 0;
    in->dirs = 0;
    in->scratch_bytes =
        (w->kernels->scratch_bytes(w->kw, w->vw, dirs) + 4095) / 4096 * 4096;
    in->scratch = lipsc_alloc((size_t)in->threads, in->scratch_bytes);
    int ok = in->scratch != NULL;
    in->bytes += in->scratch_bytes * (size_t)in->threads;
    for (size_t i = 0; i < sizeof work / sizeof work[0]; i++)
        if (sizes[i]) {
            *work[i] = array(in, dirs * n, sizes[i]);
            ok = ok && *work[i];
        }
    if (!ok) return LIPSC_E_NOMEM;
    in->dirs = dirs;
    return LIPSC_OK;
}

lipsc_status lipsc_cpu_input_new(const void *weights, const lipsc_rows *rows, int threads,
                                 void **input, lipsc_error *err) {
    const lipsc_cpu_weights *w = weights;
    const lipsc_layer *layer = w->layer;
    const size_t n = rows->n;
    lipsc_cpu_input *in = calloc(1, sizeof *in);
    if (!in)
        return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for an input of %zu tokens",
                          n);
    in->w = w;
    in->threads = threads;
    in->n = n;
    in->q = array(in, layer->heads * w->kw, n);
    in->k = array(in, layer->kv_heads * w->kw, n);
    in->z = array(in, layer->kv_heads * w->vw, n);
    in->excess = array(in, layer->heads * w->vw, n);
    in->rowmax = array(in, layer->heads, n);
    in->rowinv = array(in, layer->heads, n);
    in->top = lipsc_alloc(layer->heads * n, sizeof(size_t));
    in->bytes += layer->heads * n * sizeof(size_t);
    in->lo = copied(in, n, rows->lo);
    in->hi = copied(in, n, rows->hi);
    int ok = in->q && in->k && in->z && in->excess && in->rowmax && in->rowinv && in->top &&
             in->lo && in->hi;
    if (rows->order) ok = (in->order = copied(in, n, rows->order)) && ok;
    if (rows->log_weight) ok = (in->key_bias = uploaded(in, n, rows->log_weight)) && ok;
    if (rows->root_weight) ok = upload_weights(in, rows) && ok;
    if (rows->distance) ok = upload_distances(in, rows) && ok;
    if (layer->soft_cap > 0) ok = (in->top_slope = array(in, layer->heads, n)) && ok;
    if (layer->sinks) ok = (in->sink_mass = array(in, layer->heads, n)) && ok;
    if (layer->rotary_dim) ok = upload_angles(in, rows) && ok;
    lipsc_status status = ok ? lipsc_cpu_reserve(in, 1) : LIPSC_E_NOMEM;
    if (status == LIPSC_OK) status = project_input(in, rows);
    if (status != LIPSC_OK) {
        lipsc_cpu_input_free(in);
        return lipsc_fail(err, status, "out of memory for an input of %zu tokens", n);
    }
    if (!all_statistics(in)) {
        lipsc_cpu_input_free(in);
        return lipsc_fail(err, LIPSC_E_NONFIN,
                          "attention scores overflow %s at this input%s",
                          w->dtype == LIPSC_F32 ? "f32" : "f64",
                          w->dtype == LIPSC_F32 ? "; f64 reaches further" : "");
    }
    *input = in;
    return LIPSC_OK;
}
