/* host_dense.c - dense layers and maps of single tokens on a GPU, by the plugin's. */
#include "backend/cuda/host_parts.h"
#include "core/error.h"

lipsc_status lipsc_gpu_linear_new(const lipsc_device *device, size_t in, size_t out,
                                  const double *w, int transposed, const double *bias,
                                  lipsc_dtype dtype, void **linear, lipsc_error *err) {
    const lipsc_gpu *gpu = lipsc_gpu_of(device);
    lipsc_cuda_linear *made = NULL;
    lipsc_error why = {.text = ""};
    const lipsc_status status = gpu->api->linear_new(gpu->there, dtype == LIPSC_F64, in,
                                                     out, w, transposed, bias, &made, &why);
    *linear = made;
    if (!status) return LIPSC_OK;
    return lipsc_fail(err, lipsc_gpu_said(device, status, &why), "%s", why.text);
}

void lipsc_gpu_linear_free(const lipsc_device *device, void *linear) {
    lipsc_gpu_of(device)->api->linear_free(linear);
}

lipsc_status lipsc_gpu_linear_apply(const lipsc_device *device, const void *linear,
                                    size_t rows, lipsc_buffer x, int bias, int add,
                                    lipsc_buffer y) {
    lipsc_cuda_linear *made = (lipsc_cuda_linear *)(uintptr_t)linear;
    LIPSC_GPU_CALL(linear_apply, made, rows, x.at, bias, add, y.at);
}

/* f32 and f64 differ in one argument alone. */
#define ROWWISE(name, wide)                                                              \
    static lipsc_status norm_##name(const lipsc_device *device, size_t n, size_t d,      \
                                    int centre, double eps, lipsc_buffer gain,           \
                                    lipsc_buffer bias, lipsc_buffer x, lipsc_buffer y,   \
                                    lipsc_buffer z, lipsc_buffer over) {                 \
        LIPSC_GPU_CALL(norm, lipsc_gpu_of(device)->there, wide, n, d, centre, eps,       \
                       gain.at, bias.at, x.at, y.at, z.at, over.at);                     \
    }                                                                                    \
    static lipsc_status norm_derivative_##name(                                          \
        const lipsc_device *device, size_t rows, size_t n, size_t d, int centre,         \
        lipsc_buffer gain, lipsc_buffer z, lipsc_buffer over, int trans, lipsc_buffer x, \
        lipsc_buffer y) {                                                                \
        LIPSC_GPU_CALL(norm_derivative, lipsc_gpu_of(device)->there, wide, rows, n, d,   \
                       centre, gain.at, z.at, over.at, trans, x.at, y.at);               \
    }                                                                                    \
    static lipsc_status activation_##name(                                               \
        const lipsc_device *device, lipsc_activation kind, size_t count, lipsc_buffer x, \
        lipsc_buffer y, lipsc_buffer slope) {                                            \
        LIPSC_GPU_CALL(activation, lipsc_gpu_of(device)->there, wide, kind, count, x.at, \
                       y.at, slope.at);                                                  \
    }                                                                                    \
    static lipsc_status multiply_##name(const lipsc_device *device, size_t count,        \
                                        size_t period, lipsc_buffer factor,              \
                                        lipsc_buffer x, int add, lipsc_buffer y) {       \
        LIPSC_GPU_CALL(multiply, lipsc_gpu_of(device)->there, wide, count, period,       \
                       factor.at, x.at, add, y.at);                                      \
    }                                                                                    \
    static lipsc_status add_##name(const lipsc_device *device, size_t count,             \
                                   lipsc_buffer x, lipsc_buffer y) {                     \
        LIPSC_GPU_CALL(add, lipsc_gpu_of(device)->there, wide, count, x.at, y.at);       \
    }                                                                                    \
    static const lipsc_rowwise rowwise_##name = {norm_##name, norm_derivative_##name,    \
                                                 activation_##name, multiply_##name,     \
                                                 add_##name};

ROWWISE(f32, 0)
ROWWISE(f64, 1)

const lipsc_rowwise *lipsc_gpu_rowwise(lipsc_dtype dtype) {
    return dtype == LIPSC_F32 ? &rowwise_f32 : &rowwise_f64;
}
