/* fake.c - a plugin of the same table as liblipscope_cuda.so, made on the CPU, for tests of
 * what stands before it (src/backend/cuda/host*.c) on machines without a GPU.
 *
 * Its memory is that of the device `guard`, which the host cannot touch; its products are
 * the CPU's, f32 in the place of f16 x 3.  LIPSCOPE_FAKE says what goes wrong:
 *
 *     abi        it is of another build            none, driver   there is no GPU, no
 * driver old        a GPU that it has no code for memory:N   from allocation N on there is
 * no memory left lost:N     from call N on the GPU is lost */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda_api.h"
#include "core/error.h"
#include "core/mem.h"
#include "cuda/fake_travel.h"

struct lipsc_cuda_device {
    lipsc_device *guard;
};
struct lipsc_cuda_weights {
    lipsc_cuda_device *device;
    lipsc_layer layer;
    lipsc_dtype dtype;
    int half, narrow; /* f16 was asked for; it or f16 x 3 */
    void *made;
};
struct lipsc_cuda_batch {
    lipsc_cuda_weights *weights;
    size_t inputs, tokens, dirs;
    lipsc_rows *rows; /* whose arrays the caller keeps */
    size_t *n;
    int *active;
    void **input;
    int part; /* its one input is one that ranks share */
    lipsc_product *product;
};
struct lipsc_cuda_linear {
    lipsc_cuda_device *device;
    int wide;
    size_t in, out;
    void *made;
};

/* ---- What goes wrong -------------------------------------------------------------------
 */

static int fault_is(const char *name) {
    const char *fault = getenv("LIPSCOPE_FAKE");
    return fault && !strcmp(fault, name);
}

/* Whether the event number N of LIPSCOPE_FAKE=NAME:N, or a later one, is counted. */
static int fails_now(const char *name, atomic_long *count) {
    const char *fault = getenv("LIPSCOPE_FAKE");
    const size_t length = strlen(name);
    if (!fault || strncmp(fault, name, length) != 0 || fault[length] != ':') return 0;
    return atomic_fetch_add(count, 1) + 1 >= atol(fault + length + 1);
}

/* LIPSCOPE_FAKE=narrow:N: inputs of N tokens have numbers beyond those of f16. */
static int refuses(size_t n) {
    const char *fault = getenv("LIPSCOPE_FAKE");
    return fault && !strncmp(fault, "narrow:", 7) && strtoul(fault + 7, NULL, 10) == n;
}

/* LIPSCOPE_FAKE=begins:N: it is not ready before it is asked for the time N. */
static int ready(lipsc_cuda_device *device) {
    static atomic_long questions;
    const char *fault = getenv("LIPSCOPE_FAKE");
    (void)device;
    return !fault || strncmp(fault, "begins:", 7) != 0 || fails_now("begins", &questions);
}

static lipsc_status lost(lipsc_error *err) {
    static atomic_long calls;
    return fails_now("lost", &calls)
               ? lipsc_fail(err, LIPSC_E_REFUSED, "CUDA, waiting for the GPU: it is lost")
               : LIPSC_OK;
}

static lipsc_status no_memory(lipsc_error *err) {
    static atomic_long allocations;
    return fails_now("memory", &allocations)
               ? lipsc_fail(err, LIPSC_E_NOMEM, "the GPU is out of memory for a buffer")
               : lost(err);
}

#define USABLE(check)                            \
    do {                                         \
        const lipsc_status usable_ = check;      \
        if (usable_ != LIPSC_OK) return usable_; \
    } while (0)

/* A status of the guard, which has no sentence. */
static lipsc_status plain(lipsc_status status, lipsc_error *err) {
    return status ? lipsc_fail(err, status, "%s", lipsc_strerror(status)) : LIPSC_OK;
}

/* ---- Devices ---------------------------------------------------------------------------
 */

static lipsc_status count(int *devices, lipsc_error *err) {
    *devices = 0;
    if (fault_is("driver"))
        return lipsc_fail(err, LIPSC_E_REFUSED, "the NVIDIA driver is missing or too old");
    if (fault_is("none")) return lipsc_fail(err, LIPSC_E_REFUSED, "there is no NVIDIA GPU");
    *devices = 2;
    return LIPSC_OK;
}

static lipsc_status about(int index, lipsc_cuda_about *out, lipsc_error *err) {
    int devices;
    USABLE(count(&devices, err));
    *out = (lipsc_cuda_about){.memory = (size_t)1 << 30, .driver = 13000};
    snprintf(out->name, sizeof out->name, "a GPU that is none, number %d", index);
    out->usable = !fault_is("old");
    return LIPSC_OK;
}

static lipsc_status open_device(int index, int sleeps, lipsc_cuda_device **out,
                                lipsc_error *err) {
    lipsc_cuda_about it;
    (void)sleeps;
    USABLE(about(index, &it, err));
    if (!it.usable)
        return lipsc_fail(err, LIPSC_E_REFUSED, "%s is too old for this plugin", it.name);
    lipsc_cuda_device *device = calloc(1, sizeof *device);
    if (!device) return lipsc_fail(err, LIPSC_E_NOMEM, "no memory for a device");
    const lipsc_status status = lipsc_device_open("guard", 1, &device->guard, err);
    if (status)
        free(device);
    else
        *out = device;
    return status;
}

static void close_device(lipsc_cuda_device *device) {
    lipsc_device_close(device->guard);
    free(device);
}

static const lipsc_device_ops *ops(const lipsc_cuda_device *device) {
    return lipsc_device_table(device->guard);
}
static const lipsc_space *space(const lipsc_cuda_device *device, int wide) {
    return lipsc_device_space(device->guard, wide ? LIPSC_F64 : LIPSC_F32);
}

/* So many numbers at an address. */
static lipsc_buffer view(const lipsc_cuda_device *device, int wide, size_t elements,
                         const void *at) {
    return lipsc_space_view(space(device, wide), elements, at);
}

/* ---- Vectors ---------------------------------------------------------------------------
 */

static lipsc_status alloc(lipsc_cuda_device *device, size_t bytes, void **out,
                          lipsc_error *err) {
    USABLE(no_memory(err));
    *out = lipsc_space_alloc(space(device, 0), (bytes + 3) / 4).at;
    return *out ? LIPSC_OK : lipsc_fail(err, LIPSC_E_NOMEM, "no memory for a buffer");
}
static void release(lipsc_cuda_device *device, void *p) {
    lipsc_space_release(space(device, 0), view(device, 0, 0, p));
}
static lipsc_status put(lipsc_cuda_device *device, int wide, size_t elements,
                        const double *host, void *to, lipsc_error *err) {
    USABLE(lost(err));
    return plain(lipsc_space_upload(space(device, wide), elements, host,
                                    view(device, wide, elements, to)),
                 err);
}
static lipsc_status get(lipsc_cuda_device *device, int wide, size_t elements,
                        const void *from, double *host, lipsc_error *err) {
    USABLE(lost(err));
    return plain(lipsc_space_download(space(device, wide), elements,
                                      view(device, wide, elements, from), host),
                 err);
}
static lipsc_status copy(lipsc_cuda_device *device, size_t bytes, const void *from,
                         void *to, lipsc_error *err) {
    USABLE(lost(err));
    return plain(lipsc_space_copy(space(device, 0), bytes / 4,
                                  view(device, 0, bytes / 4, from),
                                  view(device, 0, bytes / 4, to)),
                 err);
}
static lipsc_status widen(lipsc_cuda_device *device, size_t elements, const void *from,
                          void *to, lipsc_error *err) {
    USABLE(lost(err));
    return plain(lipsc_space_widen(space(device, 1), elements,
                                   view(device, 0, elements, from),
                                   view(device, 1, elements, to)),
                 err);
}
static lipsc_status copies(lipsc_cuda_device *device, size_t pieces,
                           const lipsc_cuda_piece *piece, lipsc_error *err) {
    lipsc_status status = lost(err);
    for (size_t i = 0; i < pieces && !status; i++)
        status = copy(device, piece[i].bytes, piece[i].from, piece[i].to, err);
    return status;
}
static lipsc_status times(lipsc_cuda_device *device, int wide, size_t elements,
                          double factor, void *x, lipsc_error *err) {
    USABLE(lost(err));
    return plain(lipsc_space_scale(space(device, wide), elements, factor,
                                   view(device, wide, elements, x)),
                 err);
}
static lipsc_status random_numbers(lipsc_cuda_device *device, int wide, uint64_t seed,
                                   uint64_t first, size_t elements, void *to,
                                   lipsc_error *err) {
    USABLE(lost(err));
    return plain(lipsc_space_random(space(device, wide), seed, first, elements,
                                    view(device, wide, elements, to)),
                 err);
}
static lipsc_status dots(lipsc_cuda_device *device, int wide, size_t len, size_t ka,
                         const void *a, size_t kb, const void *b, double *c,
                         lipsc_error *err) {
    USABLE(lost(err));
    return plain(lipsc_space_gram(space(device, wide), len, ka,
                                  view(device, wide, ka * len, a), kb,
                                  view(device, wide, kb * len, b), c),
                 err);
}
static lipsc_status mix(lipsc_cuda_device *device, int wide, size_t len, size_t ka,
                        const void *a, size_t kb, const double *c, double beta, void *b,
                        lipsc_error *err) {
    USABLE(lost(err));
    return plain(lipsc_space_combine(space(device, wide), len, ka,
                                     view(device, wide, ka * len, a), kb, c, beta,
                                     view(device, wide, kb * len, b)),
                 err);
}

static lipsc_status dots_of(lipsc_cuda_device *device, int wide, size_t sums,
                            const lipsc_cuda_gram *g, lipsc_error *err) {
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; i < sums && !status; i++)
        status =
            dots(device, wide, g[i].len, g[i].ka, g[i].a, g[i].kb, g[i].b, g[i].c, err);
    return status;
}
static lipsc_status mix_of(lipsc_cuda_device *device, int wide, size_t mixtures,
                           const lipsc_cuda_combination *m, lipsc_error *err) {
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; i < mixtures && !status; i++)
        status = mix(device, wide, m[i].len, m[i].ka, m[i].a, m[i].kb, m[i].c, m[i].beta,
                     m[i].b, err);
    return status;
}

/* ---- Attention -------------------------------------------------------------------------
 */

static lipsc_status weights_new(lipsc_cuda_device *device, const lipsc_layer *layer,
                                lipsc_cuda_precision precision, lipsc_cuda_weights **out,
                                lipsc_error *err) {
    USABLE(no_memory(err));
    lipsc_cuda_weights *w = calloc(1, sizeof *w);
    if (!w) return lipsc_fail(err, LIPSC_E_NOMEM, "no memory for weights");
    w->device = device;
    w->layer = *layer;
    w->dtype = precision == LIPSC_CUDA_F64 ? LIPSC_F64 : LIPSC_F32;
    w->half = precision == LIPSC_CUDA_F16;
    w->narrow = w->half || precision == LIPSC_CUDA_F16X3;
    const lipsc_status status =
        ops(device)->weights_new(device->guard, &w->layer, w->dtype, &w->made, err);
    if (status)
        free(w);
    else
        *out = w;
    return status;
}
static void weights_free(lipsc_cuda_weights *w) {
    ops(w->device)->weights_free(w->device->guard, w->made);
    free(w);
}

static void batch_free(lipsc_cuda_batch *b) {
    lipsc_cuda_device *device = b->weights->device;
    for (size_t i = 0; b->input && i < b->inputs; i++)
        if (b->input[i])
            (b->part ? ops(device)->part->free : ops(device)->input_free)(device->guard,
                                                                          b->input[i]);
    free(b->input);
    free(b->rows);
    free(b->n);
    free(b->active);
    free(b->product);
    free(b);
}

static lipsc_status fill_batch(lipsc_cuda_batch *b, const lipsc_rows *rows,
                               lipsc_error *err) {
    const lipsc_cuda_device *device = b->weights->device;
    b->input = calloc(b->inputs, sizeof *b->input);
    b->rows = calloc(b->inputs, sizeof *b->rows);
    b->n = calloc(b->inputs, sizeof *b->n);
    b->active = calloc(b->inputs, sizeof *b->active);
    b->product = calloc(b->inputs, sizeof *b->product);
    if (!b->input || !b->rows || !b->n || !b->active || !b->product)
        return lipsc_fail(err, LIPSC_E_NOMEM, "no memory for a batch");
    for (size_t i = 0; i < b->inputs; i++) {
        b->rows[i] = rows[i];
        if (rows[i].X.home)
            b->rows[i].X =
                view(device, rows[i].X.type == LIPSC_F64, rows[i].X.count, rows[i].X.at);
        b->n[i] = rows[i].n;
        b->active[i] = 1;
        b->tokens += rows[i].n;
    }
    return ops(device)->batch_new(device->guard, b->weights->made, b->inputs, b->rows,
                                  b->input, err);
}

static lipsc_status batch_new(lipsc_cuda_weights *weights, size_t inputs,
                              const lipsc_rows *rows, size_t dirs, lipsc_cuda_batch **out,
                              lipsc_error *err) {
    USABLE(no_memory(err));
    if (weights->half && fault_is("half"))
        return lipsc_fail(err, LIPSC_E_NONFIN, "a score is not finite in f16");
    for (size_t i = 0; weights->narrow && i < inputs; i++)
        if (refuses(rows[i].n)) return lipsc_fail(err, LIPSC_E_NONFIN, "beyond f16");
    lipsc_cuda_batch *b = calloc(1, sizeof *b);
    if (!b) return lipsc_fail(err, LIPSC_E_NOMEM, "no memory for a batch");
    b->weights = weights;
    b->inputs = inputs;
    b->dirs = dirs;
    const lipsc_status status = fill_batch(b, rows, err);
    if (status)
        batch_free(b);
    else
        *out = b;
    return status;
}

static lipsc_status part_new(lipsc_cuda_weights *weights, const lipsc_rows *rows,
                             const lipsc_share *share, lipsc_cuda_batch **out,
                             lipsc_error *err) {
    lipsc_cuda_device *device = weights->device;
    lipsc_cuda_batch *b = calloc(1, sizeof *b);
    lipsc_status status = no_memory(err);
    if (!status && weights->half && fault_is("half"))
        status = lipsc_fail(err, LIPSC_E_NONFIN, "a score is not finite in f16");
    if (!status && weights->narrow && refuses(share->n))
        status = lipsc_fail(err, LIPSC_E_NONFIN, "beyond f16");
    if (!status && b) {
        *b = (lipsc_cuda_batch){.weights = weights,
                                .inputs = 1,
                                .dirs = 1,
                                .part = 1,
                                .tokens = share->own,
                                .input = calloc(1, sizeof *b->input)};
    }
    if (!status && (!b || !b->input))
        status = lipsc_fail(err, LIPSC_E_NOMEM, "no memory for a batch");
    status = share->agree(share->ctx, status, err);
    if (!status) status = share->agree(share->ctx, fake_travel(share, err), err);
    if (!status)
        status = ops(device)->part->make(device->guard, weights->made, rows, share,
                                         b->input, err);
    if (status && b) {
        free(b->input);
        free(b);
    }
    if (!status) *out = b;
    return status;
}

static size_t batch_bytes(const lipsc_cuda_batch *b) {
    const lipsc_cuda_device *device = b->weights->device;
    return (b->part ? ops(device)->part->bytes : ops(device)->bytes)(device->guard,
                                                                     b->input[0]);
}
static size_t batch_tokens(const lipsc_cuda_batch *b) { return b->tokens; }

static lipsc_status activate(lipsc_cuda_batch *b, const int *active, lipsc_error *err) {
    USABLE(lost(err));
    for (size_t i = 0; i < b->inputs; i++) b->active[i] = active ? active[i] : 1;
    return LIPSC_OK;
}
static void headroom(lipsc_cuda_batch *b, int bits) { (void)b, (void)bits; }

/* A vector of the batch is the rows of its inputs, one after the other. */
static lipsc_status product(lipsc_cuda_batch *b, int trans, size_t k, const void *x,
                            void *y, int plainly, lipsc_error *err) {
    const lipsc_cuda_weights *w = b->weights;
    const lipsc_space *s = space(w->device, w->dtype == LIPSC_F64);
    const size_t d = w->layer.d, width = lipsc_layer_width(&w->layer);
    const size_t from = trans ? width : d, to = trans ? d : width;
    const lipsc_buffer in = lipsc_space_view(s, k * b->tokens * from, x),
                       out = lipsc_space_view(s, k * b->tokens * to, y);
    lipsc_status status = lost(err);
    (void)plainly;
    if (k > b->dirs) return lipsc_fail(err, LIPSC_E_ARG, "too many directions at once");
    if (b->part && !status)
        return plain(
            ops(w->device)->part->product(w->device->guard, b->input[0], trans, k, in, out),
            err);
    for (size_t dir = 0; dir < k && !status; dir++) {
        size_t first = dir * b->tokens, found = 0;
        for (size_t i = 0; i < b->inputs; first += b->n[i++])
            if (b->active[i])
                b->product[found++] = (lipsc_product){
                    b->input[i], 1, lipsc_slice(s, in, first * from, b->n[i] * from),
                    lipsc_slice(s, out, first * to, b->n[i] * to)};
        status = plain(ops(w->device)->products(w->device->guard, trans, found, b->product),
                       err);
    }
    return status;
}

static lipsc_status output(lipsc_cuda_batch *b, size_t input, int wide, void *y,
                           lipsc_error *err) {
    const lipsc_cuda_weights *w = b->weights;
    const size_t count = b->n[input] * lipsc_layer_width(&w->layer);
    const lipsc_status status = lost(err);
    return status ? status
                  : plain(ops(w->device)->output(w->device->guard, b->input[input],
                                                 view(w->device, wide, count, y)),
                          err);
}

static lipsc_status gradient(lipsc_cuda_batch *b, const void *u, const void *v, void *grad,
                             void *grad_score, lipsc_error *err) {
    const lipsc_cuda_weights *w = b->weights;
    const lipsc_space *s = space(w->device, 1);
    const size_t d = w->layer.d, width = lipsc_layer_width(&w->layer);
    const lipsc_buffer us = lipsc_space_view(s, b->tokens * width, u),
                       vs = lipsc_space_view(s, b->tokens * d, v),
                       grads = lipsc_space_view(s, b->tokens * d, grad),
                       scores = lipsc_space_view(s, b->tokens, grad_score);
    lipsc_status status = lost(err);
    if (w->dtype != LIPSC_F64)
        return lipsc_fail(err, LIPSC_E_REFUSED, "gradients are made in f64 only");
    for (size_t i = 0, first = 0; i < b->inputs && !status; first += b->n[i++])
        status = plain(
            ops(w->device)->gradient(
                w->device->guard, b->input[i], 1, lipsc_space_at(s, us, first * width),
                lipsc_space_at(s, vs, first * d), lipsc_space_at(s, grads, first * d),
                grad_score ? lipsc_space_at(s, scores, first) : LIPSC_NOWHERE),
            err);
    return status;
}

static lipsc_status projections(lipsc_cuda_batch *b, size_t input, size_t head, double *q,
                                double *key, double *z, double *q_over, double *k_over,
                                lipsc_error *err) {
    const lipsc_cuda_weights *w = b->weights;
    USABLE(lost(err));
    if (w->dtype != LIPSC_F64)
        return lipsc_fail(err, LIPSC_E_REFUSED, "projections are told in f64 only");
    return plain((b->part ? ops(w->device)->part->projections
                          : ops(w->device)->projections)(w->device->guard, b->input[input],
                                                         head, q, key, z, q_over, k_over),
                 err);
}

/* ---- How attention is spread, by the definition ---------------------------------------
 */

static double score(const lipsc_layer *l, const lipsc_rows *r, size_t head, size_t i,
                    size_t j, const double *q, const double *key) {
    double s = 0;
    for (size_t c = 0; c < l->key_dim; c++)
        s += q[i * l->key_dim + c] * key[j * l->key_dim + c];
    if (l->soft_cap > 0) s = l->soft_cap * tanh(s / l->soft_cap);
    if (r->distance) s += r->distance[head * (2 * r->n - 1) + r->n - 1 + j - i];
    return s + (r->log_weight ? r->log_weight[j] : 0);
}

static double spread_row(const lipsc_layer *l, const lipsc_rows *r, size_t head, size_t i,
                         const double *q, const double *key, double *columns) {
    const double sink = l->sinks ? l->sinks[head] : -INFINITY;
    double total = exp(sink), entropy = 0;
    for (size_t j = r->lo[i]; j < r->hi[i]; j++)
        total += exp(score(l, r, head, i, j, q, key));
    for (size_t j = r->lo[i]; j < r->hi[i]; j++) {
        const double p = exp(score(l, r, head, i, j, q, key)) / total;
        entropy -= p > 0 ? p * log(p) : 0;
        columns[j] += p;
    }
    return entropy - (exp(sink) > 0 ? exp(sink) / total * log(exp(sink) / total) : 0);
}

static lipsc_status spread(lipsc_cuda_batch *b, size_t input, double *entropy,
                           double *columns, lipsc_error *err) {
    const lipsc_layer *l = &b->weights->layer;
    const size_t n = b->n[input], all = n * (2 * l->key_dim + l->value_dim + 2);
    if (b->weights->dtype != LIPSC_F64)
        return lipsc_fail(err, LIPSC_E_REFUSED, "attention is told in f64 only");
    double *q = calloc(all, sizeof *q), *key = q + n * l->key_dim,
           *z = key + n * l->key_dim, *over = z + n * l->value_dim;
    lipsc_status status = q ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t h = 0; h < l->heads && !status; h++) {
        status = projections(b, input, h, q, key, z, over, over + n, err);
        for (size_t j = 0; j < n; j++) columns[h * n + j] = 0;
        for (size_t i = 0; i < n && !status; i++)
            entropy[h * n + i] =
                spread_row(l, &b->rows[input], h, i, q, key, columns + h * n);
    }
    free(q);
    return status;
}

/* ---- What stands around attention -------------------------------------------------------
 */

static lipsc_status linear_new(lipsc_cuda_device *device, int wide, size_t in, size_t out,
                               const double *w, int transposed, const double *bias,
                               lipsc_cuda_linear **linear, lipsc_error *err) {
    USABLE(no_memory(err));
    lipsc_cuda_linear *made = calloc(1, sizeof *made);
    if (!made) return lipsc_fail(err, LIPSC_E_NOMEM, "no memory for a dense layer");
    *made = (lipsc_cuda_linear){.device = device, .wide = wide, .in = in, .out = out};
    const lipsc_status status =
        ops(device)->linear_new(device->guard, in, out, w, transposed, bias,
                                wide ? LIPSC_F64 : LIPSC_F32, &made->made, err);
    if (status)
        free(made);
    else
        *linear = made;
    return status;
}
static void linear_free(lipsc_cuda_linear *linear) {
    if (!linear) return;
    ops(linear->device)->linear_free(linear->device->guard, linear->made);
    free(linear);
}
static lipsc_status linear_apply(lipsc_cuda_linear *linear, size_t rows, const void *x,
                                 int bias, int add, void *y, lipsc_error *err) {
    USABLE(lost(err));
    const lipsc_cuda_device *device = linear->device;
    return plain(
        ops(device)->linear_apply(device->guard, linear->made, rows,
                                  view(device, linear->wide, rows * linear->in, x), bias,
                                  add, view(device, linear->wide, rows * linear->out, y)),
        err);
}

static const lipsc_rowwise *rowwise(const lipsc_cuda_device *device, int wide) {
    return ops(device)->rowwise(wide ? LIPSC_F64 : LIPSC_F32);
}
static lipsc_status norm(lipsc_cuda_device *device, int wide, size_t n, size_t d,
                         int centre, double eps, const void *gain, const void *bias,
                         const void *x, void *y, void *z, void *over, lipsc_error *err) {
    USABLE(lost(err));
    return plain(rowwise(device, wide)
                     ->norm(device->guard, n, d, centre, eps, view(device, wide, d, gain),
                            view(device, wide, d, bias), view(device, wide, n * d, x),
                            view(device, wide, n * d, y), view(device, wide, n * d, z),
                            view(device, wide, n, over)),
                 err);
}
static lipsc_status norm_derivative(lipsc_cuda_device *device, int wide, size_t rows,
                                    size_t n, size_t d, int centre, const void *gain,
                                    const void *z, const void *over, int trans,
                                    const void *x, void *y, lipsc_error *err) {
    USABLE(lost(err));
    return plain(rowwise(device, wide)
                     ->norm_derivative(
                         device->guard, rows, n, d, centre, view(device, wide, d, gain),
                         view(device, wide, n * d, z), view(device, wide, n, over), trans,
                         view(device, wide, rows * d, x), view(device, wide, rows * d, y)),
                 err);
}
static lipsc_status activation(lipsc_cuda_device *device, int wide, lipsc_activation kind,
                               size_t elements, const void *x, void *y, void *slope,
                               lipsc_error *err) {
    USABLE(lost(err));
    return plain(rowwise(device, wide)
                     ->activation(device->guard, kind, elements,
                                  view(device, wide, elements, x),
                                  view(device, wide, elements, y),
                                  view(device, wide, elements, slope)),
                 err);
}
static lipsc_status multiply(lipsc_cuda_device *device, int wide, size_t elements,
                             size_t period, const void *factor, const void *x, int add_to,
                             void *y, lipsc_error *err) {
    USABLE(lost(err));
    return plain(rowwise(device, wide)
                     ->multiply(device->guard, elements, period,
                                view(device, wide, period, factor),
                                view(device, wide, elements, x), add_to,
                                view(device, wide, elements, y)),
                 err);
}
static lipsc_status add(lipsc_cuda_device *device, int wide, size_t elements, const void *x,
                        void *y, lipsc_error *err) {
    USABLE(lost(err));
    return plain(rowwise(device, wide)
                     ->add(device->guard, elements, view(device, wide, elements, x),
                           view(device, wide, elements, y)),
                 err);
}

/* What host*.c does not call is NULL. */
__attribute__((visibility("default"))) const lipsc_cuda_api *lipsc_cuda_plugin(void) {
    static lipsc_cuda_api api = {.abi = LIPSC_CUDA_ABI,
                                 .size = sizeof(lipsc_cuda_api),
                                 .ready = ready,
                                 .count = count,
                                 .about = about,
                                 .open = open_device,
                                 .close = close_device,
                                 .alloc = alloc,
                                 .release = release,
                                 .weights_new = weights_new,
                                 .weights_free = weights_free,
                                 .batch_new = batch_new,
                                 .part_new = part_new,
                                 .batch_free = batch_free,
                                 .batch_bytes = batch_bytes,
                                 .batch_tokens = batch_tokens,
                                 .product = product,
                                 .activate = activate,
                                 .headroom = headroom,
                                 .output = output,
                                 .projections = projections,
                                 .spread = spread,
                                 .gradient = gradient,
                                 .put = put,
                                 .get = get,
                                 .copy = copy,
                                 .widen = widen,
                                 .copies = copies,
                                 .times = times,
                                 .random = random_numbers,
                                 .dots = dots,
                                 .mix = mix,
                                 .dots_of = dots_of,
                                 .mix_of = mix_of,
                                 .linear_new = linear_new,
                                 .linear_free = linear_free,
                                 .linear_apply = linear_apply,
                                 .norm = norm,
                                 .norm_derivative = norm_derivative,
                                 .activation = activation,
                                 .multiply = multiply,
                                 .add = add};
    if (fault_is("abi")) api.abi = LIPSC_CUDA_ABI - 1;
    return &api;
}
