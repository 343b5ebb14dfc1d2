// gemm.cu - products with weights by cuBLAS, row-major; two planes take three products.
#include "internal.h"

template <class T> static cudaDataType_t type_of();
template <> cudaDataType_t type_of<double>() { return CUDA_R_64F; }
template <> cudaDataType_t type_of<float>() { return CUDA_R_32F; }
template <> cudaDataType_t type_of<__half>() { return CUDA_R_16F; }

static const void *constant(lipsc_cuda_device *dev, int which, bool wide) {
    const char *p = (const char *)dev->constants;
    return wide ? p + 2 * sizeof(float) + (size_t)which * sizeof(double)
                : p + (size_t)which * sizeof(float);
}

// y (m, n) = alpha x (m, k) op(W) + (add ? y : 0)
template <class T, class Y>
static lipsc_status multiply(lipsc_cuda_device *dev, int trans, size_t m, size_t n,
                             size_t k, double alpha, const void *device_alpha, const T *x,
                             size_t ldx, const T *w, size_t ldw, int add, Y *y, size_t ldy,
                             lipsc_error *err) {
    const bool wide = sizeof(T) == 8;
    const float alpha32 = (float)alpha, beta32 = (float)add;
    const double beta64 = add;
    const void *a = device_alpha ? device_alpha : wide ? (const void *)&alpha : &alpha32;
    const void *b = device_alpha ? constant(dev, add, wide)
                    : wide       ? (const void *)&beta64
                                 : &beta32;
    cublasSetPointerMode(dev->lane()->blas, device_alpha ? CUBLAS_POINTER_MODE_DEVICE
                                                         : CUBLAS_POINTER_MODE_HOST);
    const cublasStatus_t e = cublasGemmEx(
        dev->lane()->blas, trans ? CUBLAS_OP_N : CUBLAS_OP_T, CUBLAS_OP_N, (int)n, (int)m,
        (int)k, a, w, type_of<T>(), (int)ldw, x, type_of<T>(), (int)ldx, b, y, type_of<Y>(),
        (int)ldy, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    return e == CUBLAS_STATUS_SUCCESS ? LIPSC_OK
                                      : fail_blas(err, e, "a product with weights");
}

template <class S>
lipsc_status gemm_stored(lipsc_cuda_device *dev, int trans, size_t m, size_t n, size_t k,
                         double alpha, const typename S::T *x, size_t ldx,
                         const typename S::T *w, size_t ldw, typename S::T *y, size_t ldy,
                         lipsc_error *err) {
    return multiply(dev, trans, m, n, k, alpha, nullptr, x, ldx, w, ldw, 0, y, ldy, err);
}

// The second plane of x and W lies half a leading dimension behind the first.
template <class S>
lipsc_status gemm_full(lipsc_cuda_device *dev, int trans, size_t m, size_t n, size_t k,
                       double alpha, const typename S::Acc *device_alpha,
                       const typename S::T *x, size_t ldx, const typename S::T *w,
                       size_t ldw, typename S::Acc *y, size_t ldy, lipsc_error *err) {
    if (S::PL == 2) {
        PASS(multiply(dev, trans, m, n, k, alpha, device_alpha, x + ldx / 2, ldx, w, ldw, 0,
                      y, ldy, err));
        PASS(multiply(dev, trans, m, n, k, alpha, device_alpha, x, ldx, w + ldw / 2, ldw, 1,
                      y, ldy, err));
    }
    return multiply(dev, trans, m, n, k, alpha, device_alpha, x, ldx, w, ldw, S::PL == 2, y,
                    ldy, err);
}

#define INSTANCE(S)                                                                        \
    template lipsc_status gemm_full<S>(                                                    \
        lipsc_cuda_device *, int, size_t, size_t, size_t, double, const S::Acc *,          \
        const S::T *, size_t, const S::T *, size_t, S::Acc *, size_t, lipsc_error *);      \
    template lipsc_status gemm_stored<S>(lipsc_cuda_device *, int, size_t, size_t, size_t, \
                                         double, const S::T *, size_t, const S::T *,       \
                                         size_t, S::T *, size_t, lipsc_error *);
INSTANCE(StoreF16)
INSTANCE(StoreF16x3)
INSTANCE(StoreF64)
