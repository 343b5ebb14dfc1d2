/* host_parts.h - what the files behind `cuda` share: the plugin's table and a GPU's state.
 *
 *     host.c            the plugin is found and opened; devices are listed
 *     host_space.c      vectors
 *     host_attention.c  weights, batches of inputs
 *     host_product.c    products, outputs, gradients; host_batch.h: what both know
 *     host_dense.c      dense layers, norms, activations */
#ifndef LIPSC_BACKEND_CUDA_HOST_PARTS_H
#define LIPSC_BACKEND_CUDA_HOST_PARTS_H

#include "backend/cuda/cuda_api.h"

/* An open GPU.  Nothing but `why` changes after that. */
typedef struct {
    const lipsc_cuda_api *api;
    lipsc_cuda_device *there;
    char why[sizeof((lipsc_error *)0)->text]; /* what failed last; "": nothing has */
} lipsc_gpu;

static inline lipsc_gpu *lipsc_gpu_of(const lipsc_device *device) { return device->state; }

/* What became of a call of the plugin, with its sentence: kept where it failed, for whoever
 * asks the device. */
lipsc_status lipsc_gpu_said(const lipsc_device *device, lipsc_status status,
                            const lipsc_error *err);

/* A call of the plugin's function `call` by a device that is named `device`, which is given
 * all arguments but err. */
#define LIPSC_GPU_CALL(call, ...)                                                          \
    do {                                                                                   \
        lipsc_error said_ = {.text = ""};                                                  \
        const lipsc_status status_ = lipsc_gpu_of(device)->api->call(__VA_ARGS__, &said_); \
        return status_ ? lipsc_gpu_said(device, status_, &said_) : LIPSC_OK;               \
    } while (0)

extern const lipsc_space_ops lipsc_gpu_space;

/* host_attention.c */
lipsc_status lipsc_gpu_weights_new(const lipsc_device *device, const lipsc_layer *layer,
                                   lipsc_dtype dtype, void **out, lipsc_error *err);
void lipsc_gpu_weights_free(const lipsc_device *device, void *weights);
lipsc_status lipsc_gpu_input_new(const lipsc_device *device, const void *weights,
                                 const lipsc_rows *rows, void **out, lipsc_error *err);
void lipsc_gpu_input_free(const lipsc_device *device, void *input);
lipsc_status lipsc_gpu_batch_new(const lipsc_device *device, const void *weights,
                                 size_t count, const lipsc_rows *rows, void **inputs,
                                 lipsc_error *err);
extern const lipsc_part_ops lipsc_gpu_parts;

/* host_product.c */
lipsc_status lipsc_gpu_product(const lipsc_device *device, void *input, int trans, size_t k,
                               lipsc_buffer x, lipsc_buffer y);
lipsc_status lipsc_gpu_products(const lipsc_device *device, int trans, size_t count,
                                const lipsc_product *product);
size_t lipsc_gpu_bytes(const lipsc_device *device, const void *input);
lipsc_status lipsc_gpu_projections(const lipsc_device *device, const void *input,
                                   size_t head, double *q, double *key, double *z,
                                   double *q_over, double *k_over);
lipsc_status lipsc_gpu_spread(const lipsc_device *device, void *input, double *entropy,
                              double *columns);
lipsc_status lipsc_gpu_gradient(const lipsc_device *device, void *input, size_t k,
                                lipsc_buffer u, lipsc_buffer v, lipsc_buffer grad,
                                lipsc_buffer grad_score);
lipsc_status lipsc_gpu_output(const lipsc_device *device, void *input, lipsc_buffer y);

/* host_dense.c */
lipsc_status lipsc_gpu_linear_new(const lipsc_device *device, size_t in, size_t out,
                                  const double *w, int transposed, const double *bias,
                                  lipsc_dtype dtype, void **linear, lipsc_error *err);
void lipsc_gpu_linear_free(const lipsc_device *device, void *linear);
lipsc_status lipsc_gpu_linear_apply(const lipsc_device *device, const void *linear,
                                    size_t rows, lipsc_buffer x, int bias, int add,
                                    lipsc_buffer y);
const lipsc_rowwise *lipsc_gpu_rowwise(lipsc_dtype dtype);

#endif
