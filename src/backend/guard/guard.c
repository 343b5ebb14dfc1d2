/* guard.c - a CPU whose memory the host cannot touch (memory.c): a device for tests.
 *
 * The work itself is the CPU's, so that the bits are the CPU's too. */
#include "backend/guard/guard.h"

#include "backend/guard/parts.h"
#include "core/error.h"
#include "core/mem.h"

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

/* The same rows with tokens that the CPU takes: those of the host as they are. */
static lipsc_rows rows_there(const lipsc_device *device, const weights *w,
                             const lipsc_rows *rows) {
    lipsc_rows own = *rows;
    if (own.X.home)
        own.X = lipsc_guard_there(device, own.X.type, own.X, own.n, w->layer->d);
    return own;
}

static lipsc_status input_new(const lipsc_device *device, const void *made,
                              const lipsc_rows *rows, void **out, lipsc_error *err) {
    const weights *w = made;
    const lipsc_rows own = rows_there(device, w, rows);
    input *in = new_input(w, rows->n, NULL);
    if (!in) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for an input");
    const lipsc_status status =
        lipsc_cpu_ops.input_new(device->cpu, w->cpu, &own, &in->cpu, err);
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
    lipsc_rows *own = lipsc_alloc(count, sizeof *own);
    if (!own) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for %zu inputs", count);
    for (size_t i = 0; i < count; i++) own[i] = rows_there(device, w, &rows[i]);
    lipsc_status status =
        lipsc_cpu_ops.batch_new(device->cpu, w->cpu, count, own, inputs, err);
    lipsc_release(own);
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
    return lipsc_guard_there(device, in->type, b, k, image ? in->out : in->in);
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
        .grad_score = lipsc_guard_there(device, in->type, p->grad_score, p->k, in->n)};
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
    const lipsc_buffer to = y.home ? lipsc_guard_there(device, y.type, y, 1, in->out) : y;
    return lipsc_cpu_ops.output(device->cpu, in->cpu, to);
}

/* ---- Rows of an input that ranks share ---------------------------------------------- */

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

/* ---- Life ---------------------------------------------------------------------------- */

static const lipsc_device_ops guard_ops = {.name = "guard",
                                           .concurrent = 1,
                                           .proved = 1,
                                           .raw = 1,
                                           .tokens_there = 1,
                                           .leaves_zeros = 1,
                                           .rows_alone = 1,
                                           .weights_new = weights_new,
                                           .weights_free = weights_free,
                                           .input_new = input_new,
                                           .input_free = input_free,
                                           .product = product,
                                           .bytes = bytes,
                                           .part = &guard_parts,
                                           .close = lipsc_guard_memory_free,
                                           .batch_new = batch_new,
                                           .products = products,
                                           .gradient = gradient,
                                           .gradients = gradients,
                                           .projections = projections,
                                           .output = output,
                                           .linear_new = lipsc_guard_linear_new,
                                           .linear_free = lipsc_guard_linear_free,
                                           .linear_apply = lipsc_guard_linear_apply,
                                           .rowwise = lipsc_guard_rowwise};

lipsc_status lipsc_guard_open(int index, int threads, lipsc_device *device,
                              lipsc_error *err) {
    if (index)
        return lipsc_fail(err, LIPSC_E_BACKEND, "there is one guard, not guard:%d", index);
    void *memory;
    if (lipsc_guard_memory_new(&memory))
        return lipsc_fail(err, LIPSC_E_NOMEM, "no memory for a device");
    lipsc_device_fill(device, &guard_ops, &lipsc_guard_space_ops, memory, threads);
    return LIPSC_OK;
}
