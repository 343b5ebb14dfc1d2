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
    if (!bytes) return (void *)(uintptr_t)place;
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

/* ---- Vectors ------------------------------------------------------------------------- */

static void *at(const lipsc_space *self, const void *place, size_t elements) {
    return reach(self->device, place, elements * self->item);
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

static void release(const lipsc_space *self, void *p) {
    guard *g = guard_of(self->device);
    pthread_mutex_lock(&g->lock);
    const size_t found = begun(g, p);
    buffer b = {0};
    if (found && g->buffers[found - 1].shown == (char *)p) {
        b = g->buffers[found - 1];
        memmove(g->buffers + found - 1, g->buffers + found,
                (g->count - found) * sizeof *g->buffers);
        g->count--;
    }
    pthread_mutex_unlock(&g->lock);
    if (!b.shown) {
        fprintf(stderr, "lipscope: guard: %p is no buffer of this device\n", p);
        abort();
    }
    munmap(b.shown, b.bytes);
    lipsc_release(b.real);
}

static lipsc_status upload(const lipsc_space *self, size_t elements, const double *host,
                           void *dst) {
    return lipsc_space_upload(cpu_space(self), elements, host, at(self, dst, elements));
}

static lipsc_status download(const lipsc_space *self, size_t elements, const void *src,
                             double *host) {
    return lipsc_space_download(cpu_space(self), elements, at(self, src, elements), host);
}

static lipsc_status copy(const lipsc_space *self, size_t elements, const void *src,
                         void *dst) {
    return lipsc_space_copy(cpu_space(self), elements, at(self, src, elements),
                            at(self, dst, elements));
}

static lipsc_status scale(const lipsc_space *self, size_t elements, double s, void *x) {
    return lipsc_space_scale(cpu_space(self), elements, s, at(self, x, elements));
}

static lipsc_status random_numbers(const lipsc_space *self, uint64_t seed, uint64_t first,
                                   size_t elements, void *dst) {
    return lipsc_space_random(cpu_space(self), seed, first, elements,
                              at(self, dst, elements));
}

static lipsc_status gram(const lipsc_space *self, size_t len, size_t ka, const void *a,
                         size_t kb, const void *b, double *c) {
    return lipsc_space_gram(cpu_space(self), len, ka, at(self, a, ka * len), kb,
                            at(self, b, kb * len), c);
}

static lipsc_status combine(const lipsc_space *self, size_t len, size_t ka, const void *a,
                            size_t kb, const double *c, double beta, void *b) {
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
    size_t item;
    void *cpu;
} weights;

typedef struct {
    void *cpu;
    size_t item, n, in,
        out; /* tokens; numbers of a vector of the input and of the output */
} input;

static lipsc_status weights_new(const lipsc_device *device, const lipsc_layer *layer,
                                lipsc_dtype dtype, void **out, lipsc_error *err) {
    weights *w = lipsc_alloc_zero(1, sizeof *w);
    if (!w) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for the packed weights");
    *w = (weights){.layer = layer, .item = device->space[dtype].item};
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
                  .item = w->item,
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

static lipsc_status product(const lipsc_device *device, void *made, int trans, size_t k,
                            const void *x, void *y) {
    const input *in = made;
    const size_t from = trans ? in->out : in->in, to = trans ? in->in : in->out;
    return lipsc_cpu_ops.product(device->cpu, in->cpu, trans, k,
                                 reach(device, x, k * from * in->item),
                                 reach(device, y, k * to * in->item));
}

static lipsc_status products(const lipsc_device *device, int trans, size_t count,
                             const lipsc_product *product) {
    lipsc_product *there = lipsc_alloc(count, sizeof *there);
    if (!there) return LIPSC_E_NOMEM;
    for (size_t i = 0; i < count; i++) {
        const input *in = product[i].of;
        const size_t item = product[i].k * in->item;
        const size_t from = trans ? in->out : in->in, to = trans ? in->in : in->out;
        there[i] = (lipsc_product){.of = in->cpu,
                                   .k = product[i].k,
                                   .x = reach(device, product[i].x, from * item),
                                   .y = reach(device, product[i].y, to * item)};
    }
    const lipsc_status status = lipsc_cpu_ops.products(device->cpu, trans, count, there);
    lipsc_release(there);
    return status;
}

static size_t bytes(const lipsc_device *device, const void *made) {
    return lipsc_cpu_ops.bytes(device->cpu, ((const input *)made)->cpu);
}

static lipsc_status gradient(const lipsc_device *device, void *made, size_t k,
                             const void *u, const void *v, void *grad, void *grad_score) {
    const input *in = made;
    const size_t deep = k * in->in * in->item;
    void *score = grad_score ? reach(device, grad_score, k * in->n * in->item) : NULL;
    return lipsc_cpu_ops.gradient(device->cpu, in->cpu, k,
                                  reach(device, u, k * in->out * in->item),
                                  reach(device, v, deep), reach(device, grad, deep), score);
}

static lipsc_status gradients(const lipsc_device *device, size_t count,
                              const lipsc_gradient_product *of) {
    lipsc_gradient_product *there = lipsc_alloc(count, sizeof *there);
    if (!there) return LIPSC_E_NOMEM;
    for (size_t i = 0; i < count; i++) {
        const input *in = of[i].of;
        const size_t item = of[i].k * in->item;
        there[i] = (lipsc_gradient_product){
            .of = in->cpu,
            .k = of[i].k,
            .u = reach(device, of[i].u, in->out * item),
            .v = reach(device, of[i].v, in->in * item),
            .grad = reach(device, of[i].grad, in->in * item),
            .grad_score =
                of[i].grad_score ? reach(device, of[i].grad_score, in->n * item) : NULL};
    }
    const lipsc_status status = lipsc_cpu_ops.gradients(device->cpu, count, there);
    lipsc_release(there);
    return status;
}

static lipsc_status projections(const lipsc_device *device, const void *made, size_t head,
                                double *q, double *key, double *z, double *q_over,
                                double *k_over) {
    return lipsc_cpu_ops.projections(device->cpu, ((const input *)made)->cpu, head, q, key,
                                     z, q_over, k_over);
}

static lipsc_status output(const lipsc_device *device, void *made, double *y) {
    return lipsc_cpu_ops.output(device->cpu, ((input *)made)->cpu, y);
}

/* ---- Around it ----------------------------------------------------------------------- */

typedef struct {
    size_t in, out, item;
    void *cpu;
} linear;

static lipsc_status linear_new(const lipsc_device *device, size_t in, size_t out,
                               const double *w, int transposed, const double *bias,
                               lipsc_dtype dtype, void **made, lipsc_error *err) {
    linear *l = lipsc_alloc_zero(1, sizeof *l);
    if (!l) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a dense layer");
    *l = (linear){.in = in, .out = out, .item = device->space[dtype].item};
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
                                 const void *x, int bias, int add, void *y) {
    const linear *l = made;
    return lipsc_cpu_ops.linear_apply(device->cpu, l->cpu, rows,
                                      reach(device, x, rows * l->in * l->item), bias, add,
                                      reach(device, y, rows * l->out * l->item));
}

/* One precision; f32 and f64 differ in the size of a number alone. */
#define ROWWISE(name, dtype, item)                                                         \
    static lipsc_status norm_##name(                                                       \
        const lipsc_device *dev, size_t n, size_t d, int centre, double eps,               \
        const void *gain, const void *bias, const void *x, void *y, void *z, void *over) { \
        const size_t all = n * d * (item), row = d * (item);                               \
        return lipsc_cpu_ops.rowwise(dtype)->norm(                                         \
            dev->cpu, n, d, centre, eps, reach(dev, gain, row),                            \
            bias ? reach(dev, bias, row) : NULL, reach(dev, x, all), reach(dev, y, all),   \
            reach(dev, z, all), reach(dev, over, n * (item)));                             \
    }                                                                                      \
    static lipsc_status norm_derivative_##name(                                            \
        const lipsc_device *dev, size_t rows, size_t n, size_t d, int centre,              \
        const void *gain, const void *z, const void *over, int trans, const void *x,       \
        void *y) {                                                                         \
        const size_t all = rows * d * (item);                                              \
        return lipsc_cpu_ops.rowwise(dtype)->norm_derivative(                              \
            dev->cpu, rows, n, d, centre, reach(dev, gain, d * (item)),                    \
            reach(dev, z, n * d * (item)), reach(dev, over, n * (item)), trans,            \
            reach(dev, x, all), reach(dev, y, all));                                       \
    }                                                                                      \
    static lipsc_status activation_##name(const lipsc_device *dev, lipsc_activation kind,  \
                                          size_t count, const void *x, void *y,            \
                                          void *slope) {                                   \
        const size_t all = count * (item);                                                 \
        return lipsc_cpu_ops.rowwise(dtype)->activation(                                   \
            dev->cpu, kind, count, reach(dev, x, all), reach(dev, y, all),                 \
            reach(dev, slope, all));                                                       \
    }                                                                                      \
    static lipsc_status multiply_##name(const lipsc_device *dev, size_t count,             \
                                        size_t period, const void *factor, const void *x,  \
                                        int add, void *y) {                                \
        const size_t all = count * (item);                                                 \
        return lipsc_cpu_ops.rowwise(dtype)->multiply(                                     \
            dev->cpu, count, period, reach(dev, factor, period * (item)),                  \
            reach(dev, x, all), add, reach(dev, y, all));                                  \
    }                                                                                      \
    static lipsc_status add_##name(const lipsc_device *dev, size_t count, const void *x,   \
                                   void *y) {                                              \
        return lipsc_cpu_ops.rowwise(dtype)->add(dev->cpu, count,                          \
                                                 reach(dev, x, count * (item)),            \
                                                 reach(dev, y, count * (item)));           \
    }                                                                                      \
    static const lipsc_rowwise rowwise_##name = {norm_##name, norm_derivative_##name,      \
                                                 activation_##name, multiply_##name,       \
                                                 add_##name};

ROWWISE(f32, LIPSC_F32, sizeof(float))
ROWWISE(f64, LIPSC_F64, sizeof(double))

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
