/* dense.c - what stands around attention in a model: dense layers and maps of rows. */
#include "backend/guard/parts.h"
#include "core/error.h"
#include "core/mem.h"

typedef struct {
    size_t in, out;
    lipsc_dtype type;
    void *cpu;
} linear;

lipsc_status lipsc_guard_linear_new(const lipsc_device *device, size_t in, size_t out,
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

void lipsc_guard_linear_free(const lipsc_device *device, void *made) {
    linear *l = made;
    if (!l) return;
    lipsc_cpu_ops.linear_free(device->cpu, l->cpu);
    lipsc_release(l);
}

lipsc_status lipsc_guard_linear_apply(const lipsc_device *device, const void *made,
                                      size_t rows, lipsc_buffer x, int bias, int add,
                                      lipsc_buffer y) {
    const linear *l = made;
    return lipsc_cpu_ops.linear_apply(
        device->cpu, l->cpu, rows, lipsc_guard_there(device, l->type, x, rows, l->in), bias,
        add, lipsc_guard_there(device, l->type, y, rows, l->out));
}

/* One precision. */
#define ROWWISE(name, type)                                                               \
    static lipsc_status norm_##name(const lipsc_device *dev, size_t n, size_t d,          \
                                    int centre, double eps, lipsc_buffer gain,            \
                                    lipsc_buffer bias, lipsc_buffer x, lipsc_buffer y,    \
                                    lipsc_buffer z, lipsc_buffer over) {                  \
        return lipsc_cpu_ops.rowwise(type)->norm(                                         \
            dev->cpu, n, d, centre, eps, lipsc_guard_there(dev, type, gain, 1, d),        \
            lipsc_guard_there(dev, type, bias, 1, d),                                     \
            lipsc_guard_there(dev, type, x, n, d), lipsc_guard_there(dev, type, y, n, d), \
            lipsc_guard_there(dev, type, z, n, d),                                        \
            lipsc_guard_there(dev, type, over, 1, n));                                    \
    }                                                                                     \
    static lipsc_status norm_derivative_##name(                                           \
        const lipsc_device *dev, size_t rows, size_t n, size_t d, int centre,             \
        lipsc_buffer gain, lipsc_buffer z, lipsc_buffer over, int trans, lipsc_buffer x,  \
        lipsc_buffer y) {                                                                 \
        return lipsc_cpu_ops.rowwise(type)->norm_derivative(                              \
            dev->cpu, rows, n, d, centre, lipsc_guard_there(dev, type, gain, 1, d),       \
            lipsc_guard_there(dev, type, z, n, d),                                        \
            lipsc_guard_there(dev, type, over, 1, n), trans,                              \
            lipsc_guard_there(dev, type, x, rows, d),                                     \
            lipsc_guard_there(dev, type, y, rows, d));                                    \
    }                                                                                     \
    static lipsc_status activation_##name(const lipsc_device *dev, lipsc_activation kind, \
                                          size_t count, lipsc_buffer x, lipsc_buffer y,   \
                                          lipsc_buffer slope) {                           \
        return lipsc_cpu_ops.rowwise(type)->activation(                                   \
            dev->cpu, kind, count, lipsc_guard_there(dev, type, x, 1, count),             \
            lipsc_guard_there(dev, type, y, 1, count),                                    \
            lipsc_guard_there(dev, type, slope, 1, count));                               \
    }                                                                                     \
    static lipsc_status multiply_##name(const lipsc_device *dev, size_t count,            \
                                        size_t period, lipsc_buffer factor,               \
                                        lipsc_buffer x, int add, lipsc_buffer y) {        \
        return lipsc_cpu_ops.rowwise(type)->multiply(                                     \
            dev->cpu, count, period, lipsc_guard_there(dev, type, factor, 1, period),     \
            lipsc_guard_there(dev, type, x, 1, count), add,                               \
            lipsc_guard_there(dev, type, y, 1, count));                                   \
    }                                                                                     \
    static lipsc_status add_##name(const lipsc_device *dev, size_t count, lipsc_buffer x, \
                                   lipsc_buffer y) {                                      \
        return lipsc_cpu_ops.rowwise(type)->add(                                          \
            dev->cpu, count, lipsc_guard_there(dev, type, x, 1, count),                   \
            lipsc_guard_there(dev, type, y, 1, count));                                   \
    }                                                                                     \
    static const lipsc_rowwise rowwise_##name = {norm_##name, norm_derivative_##name,     \
                                                 activation_##name, multiply_##name,      \
                                                 add_##name};

ROWWISE(f32, LIPSC_F32)
ROWWISE(f64, LIPSC_F64)

const lipsc_rowwise *lipsc_guard_rowwise(lipsc_dtype dtype) {
    return dtype == LIPSC_F32 ? &rowwise_f32 : &rowwise_f64;
}
