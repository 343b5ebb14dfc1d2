/* guard.c - a CPU whose memory the host cannot touch: a device for tests.
 *
 * A buffer is a range of pages without any right, so that whoever follows a pointer to it
 * ends there; the numbers are elsewhere, and only the operations of this device know where.
 * They ask for every place that they are given whether it lies in a buffer of this device,
 * as far as they will go: a pointer of the host, of another device, to memory that was
 * released, or one number too many end the program with a sentence.  New buffers are full
 * of NaN.  The work itself is the CPU's, so that the bits are the CPU's too. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "backend/guard/guard.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/error.h"
#include "core/mem.h"

/* What the host sees of a buffer, and where its numbers are. */
typedef struct {
    char *shown;
    size_t bytes;
    char *real;
} buffer;

typedef struct {
    pthread_mutex_t lock; /* of what follows */
    size_t count, room;
    buffer *buffers; /* in the order of shown */
} guard;

static guard *guard_of(const lipsc_device *device) { return device->state; }
static const lipsc_space *cpu_space(const lipsc_space *self) {
    return lipsc_device_space(self->device->cpu, self->dtype);
}

/* How many buffers begin at or before p. */
static size_t begun(const guard *g, const char *p) {
    size_t low = 0, high = g->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if ((uintptr_t)g->buffers[middle].shown <= (uintptr_t)p)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Where the numbers of a place are; the program ends where it is not one of this device. */
static void *reach(const lipsc_device *device, const void *place, size_t bytes) {
    guard *g = guard_of(device);
    const char *p = place;
    char *real = NULL;
    pthread_mutex_lock(&g->lock);
    const size_t found = begun(g, p);
    if (found) {
        const buffer *b = &g->buffers[found - 1];
        const size_t at = (size_t)((uintptr_t)p - (uintptr_t)b->shown);
        if (at <= b->bytes && bytes <= b->bytes - at) real = b->real + at;
    }
    pthread_mutex_unlock(&g->lock);
    if (real) return real;
    fprintf(stderr, "lipscope: guard: %zu bytes at %p are not in a buffer of this device\n",
            bytes, place);
    abort();
}

/* The CPU's buffer of k times len numbers that are in b; one that the CPU refuses where b
 * is of another device or type, or shorter than that. */
static lipsc_buffer there(const lipsc_device *device, lipsc_dtype type, lipsc_buffer b,
                          size_t k, size_t len) {
    const size_t item = device->space[type].item;
    const int fits = lipsc_buffer_fits(b, device->home, type, k, len);
    if (!fits || !k || !len) return (lipsc_buffer){.type = type, .at = b.at};
    return (lipsc_buffer){
        .type = type, .count = k * len, .at = reach(device, b.at, k * len * item)};
}

/* ---- Vectors ------------------------------------------------------------------------- */

static lipsc_buffer at(const lipsc_space *self, lipsc_buffer b, size_t elements) {
    return there(self->device, self->dtype, b, 1, elements);
}

/* The lock is held. */
static int remember(guard *g, buffer b) {
    if (g->count == g->room) {
        const size_t room = g->room ? 2 * g->room : 64;
        buffer *more = realloc(g->buffers, room * sizeof *more);
        if (!more) return 0;
        g->buffers = more;
        g->room = room;
    }
    const size_t place = begun(g, b.shown);
    memmove(g->buffers + place + 1, g->buffers + place,
            (g->count - place) * sizeof *g->buffers);
    g->buffers[place] = b;
    g->count++;
    return 1;
}

static void *alloc(const lipsc_space *self, size_t elements) {
    guard *g = guard_of(self->device);
    buffer b;
    if (!lipsc_mul_size(elements ? elements : 1, self->item, &b.bytes)) return NULL;
    b.real = lipsc_alloc(b.bytes, 1);
    b.shown =
        mmap(NULL, b.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int ok = b.real && b.shown != MAP_FAILED;
    if (ok) {
        memset(b.real, 0xff, b.bytes); /* NaN in both precisions */
        pthread_mutex_lock(&g->lock);
        ok = remember(g, b);
        pthread_mutex_unlock(&g->lock);
    }
    if (ok) return b.shown;
    if (b.shown != MAP_FAILED) munmap(b.shown, b.bytes);
    lipsc_release(b.real);
    return NULL;
}

static void release(const lipsc_space *self, lipsc_buffer which) {
    guard *g = guard_of(self->device);
    const char *p = which.at;
    pthread_mutex_lock(&g->lock);
    const size_t found = begun(g, p);
    buffer b = {0};
    if (found && g->buffers[found - 1].shown == p) {
        b = g->buffers[found - 1];
        memmove(g->buffers + found - 1, g->buffers + found,
                (g->count - found) * sizeof *g->buffers);
        g->count--;
    }
    pthread_mutex_unlock(&g->lock);
    if (!b.shown) {
        fprintf(stderr, "lipscope: guard: %p is no buffer of this device\n", which.at);
        abort();
    }
    munmap(b.shown, b.bytes);
    lipsc_release(b.real);
}

static lipsc_status upload(const lipsc_space *self, size_t elements, const double *host,
                           lipsc_buffer dst) {
    return lipsc_space_upload(cpu_space(self), elements, host, at(self, dst, elements));
}

static lipsc_status download(const lipsc_space *self, size_t elements, lipsc_buffer src,
                             double *host) {
    return lipsc_space_download(cpu_space(self), elements, at(self, src, elements), host);
}

static lipsc_status copy(const lipsc_space *self, size_t elements, lipsc_buffer src,
                         lipsc_buffer dst) {
    return lipsc_space_copy(cpu_space(self), elements, at(self, src, elements),
                            at(self, dst, elements));
}

static lipsc_status scale(const lipsc_space *self, size_t elements, double s,
                          lipsc_buffer x) {
    return lipsc_space_scale(cpu_space(self), elements, s, at(self, x, elements));
}

static lipsc_status random_numbers(const lipsc_space *self, uint64_t seed, uint64_t first,
                                   size_t elements, lipsc_buffer dst) {
    return lipsc_space_random(cpu_space(self), seed, first, elements,
                              at(self, dst, elements));
}

static lipsc_status gram(const lipsc_space *self, size_t len, size_t ka, lipsc_buffer a,
                         size_t kb, lipsc_buffer b, double *c) {
    return lipsc_space_gram(cpu_space(self), len, ka, at(self, a, ka * len), kb,
                            at(self, b, kb * len), c);
}

static lipsc_status combine(const lipsc_space *self, size_t len, size_t ka, lipsc_buffer a,
                            size_t kb, const double *c, double beta, lipsc_buffer b) {
    return lipsc_space_combine(cpu_space(self), len, ka, at(self, a, ka * len), kb, c, beta,
                               at(self, b, kb * len));
}

static const lipsc_space_ops space_ops = {.alloc = alloc,
                                          .release = release,
                                          .upload = upload,
                                          .download = download,
                                          .copy = copy,
                                          .scale = scale,
                                          .random = random_numbers,
                                          .gram = gram,
                                          .combine = combine};

/* ---- Attention ----------------------------------------------------------------------- */

/* What the CPU made, and how long its vectors are. */
typedef struct {
    const lipsc_layer *layer;
    lipsc_dtype type; /* of its vectors */
    void *cpu;
} weights;

typedef struct {
    void *cpu;
    lipsc_dtype type;
    size_t n, in, out; /* tokens; numbers of a vector of the input and of the output */
} input;

static lipsc_status weights_new(const lipsc_device *device, const lipsc_layer *layer,
                                lipsc_dtype dtype, void **out, lipsc_error *err) {
    weights *w = lipsc_alloc_zero(1, sizeof *w);
    if (!w) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for the packed weights");
    *w = (weights){.layer = layer, .type = dtype};
    const lipsc_status status =
        lipsc_cpu_ops.weights_new(device->cpu, layer, dtype, &w->cpu, err);
    if (status)
        lipsc_release(w);
    else
        *out = w;
    return status;
}

static void weights_free(const lipsc_device *device, void *made) {
    weights *w = made;
    lipsc_cpu_ops.weights_free(device->cpu, w->cpu);
    lipsc_release(w);
}

/* An input that the CPU has made or, at cpu NULL, has still to make. */
static input *new_input(const weights *w, size_t n, void *cpu) {
    input *in = lipsc_alloc_zero(1, sizeof *in);
    if (!in) return NULL;
    *in = (input){.cpu = cpu,
                  .type = w->type,
                  .n = n,
                  .in = n * w->layer->d,
                  .out = n * lipsc_layer_width(w->layer)};
    return in;
}

static lipsc_status input_new(const lipsc_device *device, const void *made,
                              const lipsc_rows *rows, void **out, lipsc_error *err) {
    const weights *w = made;
    input *in = new_input(w, rows->n, NULL);
    if (!in) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for an input");
    const lipsc_status status =
        lipsc_cpu_ops.input_new(device->cpu, w->cpu, rows, &in->cpu, err);
    if (status)
        lipsc_release(in);
    else
        *out = in;
    return status;
}

static void input_free(const lipsc_device *device, void *made) {
    input *in = made;
    lipsc_cpu_ops.input_free(device->cpu, in->cpu);
    lipsc_release(in);
}

static lipsc_status batch_new(const lipsc_device *device, const void *made, size_t count,
                              const lipsc_rows *rows, void **inputs, lipsc_error *err) {
    const weights *w = made;
    lipsc_status status =
        lipsc_cpu_ops.batch_new(device->cpu, w->cpu, count, rows, inputs, err);
    if (status) return status;
    for (size_t i = 0; i < count; i++) {
        input *in = new_input(w, rows[i].n, inputs[i]);
        if (!in) {
            lipsc_cpu_ops.input_free(device->cpu, inputs[i]);
            status = lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for an input");
        }
        inputs[i] = in;
    }
    for (size_t i = 0; status && i < count; i++)
        if (inputs[i]) input_free(device, inputs[i]);
    return status;
}

/* What the CPU takes for k vectors of the input, or of what comes out. */
static lipsc_buffer vectors(const lipsc_device *device, const input *in, int image,
                            lipsc_buffer b, size_t k) {
    return there(device, in->type, b, k, image ? in->out : in->in);
}

static lipsc_status product(const lipsc_device *device, void *made, int trans, size_t k,
                            lipsc_buffer x, lipsc_buffer y) {
    const input *in = made;
    return lipsc_cpu_ops.product(device->cpu, in->cpu, trans, k,
                                 vectors(device, in, trans, x, k),
                                 vectors(device, in, !trans, y, k));
}

static lipsc_status products(const lipsc_device *device, int trans, size_t count,
                             const lipsc_product *product) {
    lipsc_product *made = lipsc_alloc(count, sizeof *made);
    if (!made) return LIPSC_E_NOMEM;
    for (size_t i = 0; i < count; i++) {
        const lipsc_product *p = &product[i];
        const input *in = p->of;
        made[i] = (lipsc_product){.of = in->cpu,
                                  .k = p->k,
                                  .x = vectors(device, in, trans, p->x, p->k),
                                  .y = vectors(device, in, !trans, p->y, p->k)};
    }
    const lipsc_status status = lipsc_cpu_ops.products(device->cpu, trans, count, made);
    lipsc_release(made);
    return status;
}

static size_t bytes(const lipsc_device *device, const void *made) {
    return lipsc_cpu_ops.bytes(device->cpu, ((const input *)made)->cpu);
}

static lipsc_gradient_product gradient_there(const lipsc_device *device,
                                             const lipsc_gradient_product *p) {
    const input *in = p->of;
    return (lipsc_gradient_product){
        .of = in->cpu,
        .k = p->k,
        .u = vectors(device, in, 1, p->u, p->k),
        .v = vectors(device, in, 0, p->v, p->k),
        .grad = vectors(device, in, 0, p->grad, p->k),
        .grad_score = there(device, in->type, p->grad_score, p->k, in->n)};
}

static lipsc_status gradient(const lipsc_device *device, void *made, size_t k,
                             lipsc_buffer u, lipsc_buffer v, lipsc_buffer grad,
                             lipsc_buffer grad_score) {
    const lipsc_gradient_product p =
        gradient_there(device, &(lipsc_gradient_product){made, k, u, v, grad, grad_score});
    return lipsc_cpu_ops.gradient(device->cpu, p.of, k, p.u, p.v, p.grad, p.grad_score);
}

static lipsc_status gradients(const lipsc_device *device, size_t count,
                              const lipsc_gradient_product *of) {
    lipsc_gradient_product *made = lipsc_alloc(count, sizeof *made);
    if (!made) return LIPSC_E_NOMEM;
    for (size_t i = 0; i < count; i++) made[i] = gradient_there(device, &of[i]);
    const lipsc_status status = lipsc_cpu_ops.gradients(device->cpu, count, made);
    lipsc_release(made);
    return status;
}

static lipsc_status projections(const lipsc_device *device, const void *made, size_t head,
                                double *q, double *key, double *z, double *q_over,
                                double *k_over) {
    return lipsc_cpu_ops.projections(device->cpu, ((const input *)made)->cpu, head, q, key,
                                     z, q_over, k_over);
}

static lipsc_status output(const lipsc_device *device, void *made, lipsc_buffer y) {
    const input *in = made;
    const lipsc_buffer to = y.home ? there(device, y.type, y, 1, in->out) : y;
    return lipsc_cpu_ops.output(device->cpu, in->cpu, to);
}

/* ---- Rows of an input that ranks share ------------------------------------------------
 */

static lipsc_status part_make(const lipsc_device *device, const void *made,
                              const lipsc_rows *rows, const lipsc_share *share, void **out,
                              lipsc_error *err) {
    const weights *w = made;
    input *in = new_input(w, share->own, NULL);
    lipsc_status status =
        in ? LIPSC_OK : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for an input");
    status = share->agree(share->ctx, status, err);
    if (!status)
        status = lipsc_cpu_parts.make(device->cpu, w->cpu, rows, share, &in->cpu, err);
    if (status)
        lipsc_release(in);
    else
        *out = in;
    return status;
}

static void part_free(const lipsc_device *device, void *made) {
    input *in = made;
    lipsc_cpu_parts.free(device->cpu, in->cpu);
    lipsc_release(in);
}

static lipsc_status part_product(const lipsc_device *device, void *made, int trans,
                                 size_t k, lipsc_buffer x, lipsc_buffer y) {
    const input *in = made;
    return lipsc_cpu_parts.product(device->cpu, in->cpu, trans, k,
                                   vectors(device, in, trans, x, k),
                                   vectors(device, in, !trans, y, k));
}

static size_t part_bytes(const lipsc_device *device, const void *made) {
    return lipsc_cpu_parts.bytes(device->cpu, ((const input *)made)->cpu);
}

static lipsc_status part_projections(const lipsc_device *device, const void *made,
                                     size_t head, double *q, double *key, double *z,
                                     double *q_over, double *k_over) {
    return lipsc_cpu_parts.projections(device->cpu, ((const input *)made)->cpu, head, q,
                                       key, z, q_over, k_over);
}

static const lipsc_part_ops guard_parts = {.make = part_make,
                                           .free = part_free,
                                           .product = part_product,
                                           .bytes = part_bytes,
                                           .projections = part_projections};

/* ---- Around it ----------------------------------------------------------------------- */

typedef struct {
    size_t in, out;
    lipsc_dtype type;
    void *cpu;
} linear;

static lipsc_status linear_new(const lipsc_device *device, size_t in, size_t out,
                               const double *w, int transposed, const double *bias,
                               lipsc_dtype dtype, void **made, lipsc_error *err) {
    linear *l = lipsc_alloc_zero(1, sizeof *l);
    if (!l) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a dense layer");
    *l = (linear){.in = in, .out = out, .type = dtype};
    const lipsc_status status = lipsc_cpu_ops.linear_new(
        device->cpu, in, out, w, transposed, bias, dtype, &l->cpu, err);
    if (status)
        lipsc_release(l);
    else
        *made = l;
    return status;
}

static void linear_free(const lipsc_device *device, void *made) {
    linear *l = made;
    if (!l) return;
    lipsc_cpu_ops.linear_free(device->cpu, l->cpu);
    lipsc_release(l);
}

static lipsc_status linear_apply(const lipsc_device *device, const void *made, size_t rows,
                                 lipsc_buffer x, int bias, int add, lipsc_buffer y) {
    const linear *l = made;
    return lipsc_cpu_ops.linear_apply(device->cpu, l->cpu, rows,
                                      there(device, l->type, x, rows, l->in), bias, add,
                                      there(device, l->type, y, rows, l->out));
}

/* One precision. */
#define ROWWISE(name, type)                                                               \
    static lipsc_status norm_##name(const lipsc_device *dev, size_t n, size_t d,          \
                                    int centre, double eps, lipsc_buffer gain,            \
                                    lipsc_buffer bias, lipsc_buffer x, lipsc_buffer y,    \
                                    lipsc_buffer z, lipsc_buffer over) {                  \
        return lipsc_cpu_ops.rowwise(type)->norm(                                         \
            dev->cpu, n, d, centre, eps, there(dev, type, gain, 1, d),                    \
            there(dev, type, bias, 1, d), there(dev, type, x, n, d),                      \
            there(dev, type, y, n, d), there(dev, type, z, n, d),                         \
            there(dev, type, over, 1, n));                                                \
    }                                                                                     \
    static lipsc_status norm_derivative_##name(                                           \
        const lipsc_device *dev, size_t rows, size_t n, size_t d, int centre,             \
        lipsc_buffer gain, lipsc_buffer z, lipsc_buffer over, int trans, lipsc_buffer x,  \
        lipsc_buffer y) {                                                                 \
        return lipsc_cpu_ops.rowwise(type)->norm_derivative(                              \
            dev->cpu, rows, n, d, centre, there(dev, type, gain, 1, d),                   \
            there(dev, type, z, n, d), there(dev, type, over, 1, n), trans,               \
            there(dev, type, x, rows, d), there(dev, type, y, rows, d));                  \
    }                                                                                     \
    static lipsc_status activation_##name(const lipsc_device *dev, lipsc_activation kind, \
                                          size_t count, lipsc_buffer x, lipsc_buffer y,   \
                                          lipsc_buffer slope) {                           \
        return lipsc_cpu_ops.rowwise(type)->activation(                                   \
            dev->cpu, kind, count, there(dev, type, x, 1, count),                         \
            there(dev, type, y, 1, count), there(dev, type, slope, 1, count));            \
    }                                                                                     \
    static lipsc_status multiply_##name(const lipsc_device *dev, size_t count,            \
                                        size_t period, lipsc_buffer factor,               \
                                        lipsc_buffer x, int add, lipsc_buffer y) {        \
        return lipsc_cpu_ops.rowwise(type)->multiply(                                     \
            dev->cpu, count, period, there(dev, type, factor, 1, period),                 \
            there(dev, type, x, 1, count), add, there(dev, type, y, 1, count));           \
    }                                                                                     \
    static lipsc_status add_##name(const lipsc_device *dev, size_t count, lipsc_buffer x, \
                                   lipsc_buffer y) {                                      \
        return lipsc_cpu_ops.rowwise(type)->add(dev->cpu, count,                          \
                                                there(dev, type, x, 1, count),            \
                                                there(dev, type, y, 1, count));           \
    }                                                                                     \
    static const lipsc_rowwise rowwise_##name = {norm_##name, norm_derivative_##name,     \
                                                 activation_##name, multiply_##name,      \
                                                 add_##name};

ROWWISE(f32, LIPSC_F32)
ROWWISE(f64, LIPSC_F64)

static const lipsc_rowwise *rowwise(lipsc_dtype dtype) {
    return dtype == LIPSC_F32 ? &rowwise_f32 : &rowwise_f64;
}

/* ---- Life ---------------------------------------------------------------------------- */

static void close_guard(lipsc_device *device) {
    guard *g = guard_of(device);
    for (size_t i = 0; i < g->count; i++) {
        munmap(g->buffers[i].shown, g->buffers[i].bytes);
        lipsc_release(g->buffers[i].real);
    }
    free(g->buffers);
    pthread_mutex_destroy(&g->lock);
    lipsc_release(g);
}

static const lipsc_device_ops guard_ops = {.name = "guard",
                                           .concurrent = 1,
                                           .proved = 1,
                                           .raw = 1,
                                           .rows_alone = 1,
                                           .weights_new = weights_new,
                                           .weights_free = weights_free,
                                           .input_new = input_new,
                                           .input_free = input_free,
                                           .product = product,
                                           .bytes = bytes,
                                           .part = &guard_parts,
                                           .close = close_guard,
                                           .batch_new = batch_new,
                                           .products = products,
                                           .gradient = gradient,
                                           .gradients = gradients,
                                           .projections = projections,
                                           .output = output,
                                           .linear_new = linear_new,
                                           .linear_free = linear_free,
                                           .linear_apply = linear_apply,
                                           .rowwise = rowwise};

lipsc_status lipsc_guard_open(int index, int threads, lipsc_device *device,
                              lipsc_error *err) {
    if (index)
        return lipsc_fail(err, LIPSC_E_BACKEND, "there is one guard, not guard:%d", index);
    guard *g = lipsc_alloc_zero(1, sizeof *g);
    if (!g || pthread_mutex_init(&g->lock, NULL)) {
        lipsc_release(g);
        return lipsc_fail(err, LIPSC_E_NOMEM, "no memory for a device");
    }
    lipsc_device_fill(device, &guard_ops, &space_ops, g, threads);
    return LIPSC_OK;
}
