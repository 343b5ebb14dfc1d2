// linear.cu - one direction of a dense layer by cuBLAS.
#include "internal.h"

#include <new>

struct lipsc_cuda_linear {
    lipsc_cuda_device *device;
    Memory memory;
    bool wide, transposed; // W is stored (in, out)
    size_t in, out;
    void *w = nullptr, *bias = nullptr;
};

void Linear::free(lipsc_cuda_linear *linear) {
    if (!linear) return;
    const Hold hold(linear->device);
    delete linear;
}

static Gemm product_of(const lipsc_cuda_linear *l, size_t rows, const void *x, int add,
                       void *y) {
    const cudaDataType_t type = l->wide ? CUDA_R_64F : CUDA_R_32F;
    const size_t ldw = l->transposed ? l->out : l->in;
    return {type, type, l->transposed, rows, l->out, l->in,  x, l->in, l->w,
            ldw,  y,    l->out,        add,  1,      nullptr};
}

static lipsc_status fill(lipsc_cuda_linear *l, const double *w, const double *bias,
                         lipsc_error *err) {
    const size_t item = l->wide ? sizeof(double) : sizeof(float);
    PASS(l->memory.take(&l->w, l->in * l->out * item, err));
    PASS(put_held(l->device, l->wide, l->in * l->out, w, l->w, err));
    if (!bias) return LIPSC_OK;
    PASS(l->memory.take(&l->bias, l->out * item, err));
    return put_held(l->device, l->wide, l->out, bias, l->bias, err);
}

lipsc_status Linear::make(lipsc_cuda_device *device, int wide, size_t in, size_t out,
                          const double *w, int transposed, const double *bias,
                          lipsc_cuda_linear **linear, lipsc_error *err) {
    if (!in || !out || in > 0x7fffffff || out > 0x7fffffff)
        return fail(err, LIPSC_E_RANGE, "a dense layer of %zu x %zu", out, in);
    const Hold hold(device);
    lipsc_cuda_linear *l = new (std::nothrow) lipsc_cuda_linear();
    if (!l) return fail(err, LIPSC_E_NOMEM, "out of memory for a dense layer");
    l->device = l->memory.device = device;
    l->wide = wide != 0;
    l->transposed = transposed != 0;
    l->in = in;
    l->out = out;
    foresee(device, product_of(l, 0, nullptr, 0, nullptr));
    lipsc_status status = fill(l, w, bias, err);
    if (!status) status = finish(device, "a dense layer", err); // other threads may use it
    if (status) {
        delete l;
        return status;
    }
    *linear = l;
    return LIPSC_OK;
}

template <class V>
static __global__ void begin(size_t count, size_t width, const V *bias, int add, V *y) {
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += (size_t)gridDim.x * blockDim.x)
        y[i] = (add ? y[i] : 0) + bias[i % width];
}

lipsc_status Linear::apply(lipsc_cuda_linear *l, size_t rows, const void *x, int bias,
                           int add, void *y, lipsc_error *err) {
    if (!rows) return LIPSC_OK;
    if (rows > 0x7fffffff) return fail(err, LIPSC_E_RANGE, "%zu rows at once", rows);
    const Hold hold(l->device);
    if (bias && l->bias) {
        const size_t count = rows * l->out, need = (count + 255) / 256;
        const unsigned blocks = (unsigned)(need < 16384 ? need : 16384);
        BY_WIDTH(l->wide, (begin<V><<<blocks, 256, 0, l->device->stream()>>>(
                              count, l->out, (const V *)l->bias, add, (V *)y)));
        TRY(cudaGetLastError(), "a bias");
        add = 1;
    }
    return gemm(l->device, product_of(l, rows, x, add, y), true, err);
}
