/* cpu.c - the CPU's table. */
#include "backend/cpu/cpu.h"

static lipsc_status weights_new(const lipsc_device *device, const lipsc_layer *layer,
                                lipsc_dtype dtype, void **weights, lipsc_error *err) {
    (void)device;
    return lipsc_cpu_weights_new(layer, dtype, weights, err);
}

static void weights_free(const lipsc_device *device, void *weights) {
    (void)device;
    lipsc_cpu_weights_free(weights);
}

static lipsc_status batch_new(const lipsc_device *device, const void *weights, size_t count,
                              const lipsc_rows *rows, void **inputs, lipsc_error *err) {
    const lipsc_cpu_weights *w = weights;
    size_t tokens = 0;
    for (size_t i = 0; i < count; i++) tokens += rows[i].n;
    const int threads = lipsc_device_useful_threads(device, w->layer, tokens);
    return lipsc_cpu_batch_new(weights, count, rows, threads, inputs, err);
}

static lipsc_status input_new(const lipsc_device *device, const void *weights,
                              const lipsc_rows *rows, void **input, lipsc_error *err) {
    return batch_new(device, weights, 1, rows, input, err);
}

static void input_free(const lipsc_device *device, void *input) {
    (void)device;
    lipsc_cpu_input_free(input);
}

/* Whether b holds k vectors of the input, or of what comes out. */
static int fits(const lipsc_cpu_member *of, lipsc_buffer b, size_t k, int image) {
    const lipsc_cpu_weights *w = of->batch->w;
    return lipsc_buffer_fits(b, NULL, w->dtype, k,
                             of->n * (image ? w->width : w->layer->d));
}

static lipsc_status products(const lipsc_device *device, int trans, size_t count,
                             const lipsc_product *product) {
    (void)device;
    for (size_t i = 0; i < count; i++) {
        const lipsc_product *p = &product[i];
        if (!fits(p->of, trans ? p->y : p->x, p->k, 0) ||
            !fits(p->of, trans ? p->x : p->y, p->k, 1))
            return LIPSC_E_ARG;
    }
    return lipsc_cpu_products(trans, count, product);
}

static lipsc_status product(const lipsc_device *device, void *input, int trans, size_t k,
                            lipsc_buffer x, lipsc_buffer y) {
    const lipsc_product alone = {.of = input, .k = k, .x = x, .y = y};
    return products(device, trans, 1, &alone);
}

static size_t bytes(const lipsc_device *device, const void *input) {
    (void)device;
    return ((const lipsc_cpu_member *)input)->batch->bytes;
}

static lipsc_status gradients(const lipsc_device *device, size_t count,
                              const lipsc_gradient_product *of) {
    (void)device;
    for (size_t i = 0; i < count; i++) {
        const lipsc_gradient_product *p = &of[i];
        const lipsc_cpu_member *m = p->of;
        const int scored = p->grad_score.at != NULL;
        if (!fits(m, p->u, p->k, 1) || !fits(m, p->v, p->k, 0) ||
            !fits(m, p->grad, p->k, 0) ||
            (scored &&
             !lipsc_buffer_fits(p->grad_score, NULL, m->batch->w->dtype, p->k, m->n)))
            return LIPSC_E_ARG;
    }
    return lipsc_cpu_gradients(count, of);
}

static lipsc_status gradient(const lipsc_device *device, void *input, size_t k,
                             lipsc_buffer u, lipsc_buffer v, lipsc_buffer grad,
                             lipsc_buffer grad_score) {
    const lipsc_gradient_product alone = {
        .of = input, .k = k, .u = u, .v = v, .grad = grad, .grad_score = grad_score};
    return gradients(device, 1, &alone);
}

static lipsc_status projections(const lipsc_device *device, const void *input, size_t head,
                                double *q, double *key, double *z, double *q_over,
                                double *k_over) {
    (void)device;
    lipsc_cpu_projections(input, head, q, key, z, q_over, k_over);
    return LIPSC_OK;
}

static lipsc_status output(const lipsc_device *device, void *input, lipsc_buffer y) {
    (void)device;
    return lipsc_cpu_output(input, y);
}

static lipsc_status linear_new(const lipsc_device *device, size_t in, size_t out,
                               const double *w, int transposed, const double *bias,
                               lipsc_dtype dtype, void **linear, lipsc_error *err) {
    (void)device;
    return lipsc_cpu_linear_new(in, out, w, transposed, bias, dtype, linear, err);
}

static void linear_free(const lipsc_device *device, void *linear) {
    (void)device;
    lipsc_cpu_linear_free(linear);
}

static lipsc_status linear_apply(const lipsc_device *device, const void *linear,
                                 size_t rows, lipsc_buffer x, int bias, int add,
                                 lipsc_buffer y) {
    return lipsc_cpu_linear_apply(linear, lipsc_device_threads(device), rows, x, bias, add,
                                  y);
}

const lipsc_device_ops lipsc_cpu_ops = {.name = "cpu",
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
                                        .part = &lipsc_cpu_parts,
                                        .batch_new = batch_new,
                                        .products = products,
                                        .gradient = gradient,
                                        .gradients = gradients,
                                        .projections = projections,
                                        .output = output,
                                        .linear_new = linear_new,
                                        .linear_free = linear_free,
                                        .linear_apply = linear_apply,
                                        .rowwise = lipsc_rowwise_best};
