// widths.cu - which compiled width serves a head.
#include "kernels.h"

#define WIDTHS(P)                                                                        \
    extern const Kernels<Store##P> kernels_##P##_32, kernels_##P##_64, kernels_##P##_96, \
        kernels_##P##_128, kernels_##P##_256;                                            \
    const Kernels<Store##P> *kernels_for(Store##P, size_t width) {                       \
        return width <= 32    ? &kernels_##P##_32                                        \
               : width <= 64  ? &kernels_##P##_64                                        \
               : width <= 96  ? &kernels_##P##_96                                        \
               : width <= 128 ? &kernels_##P##_128                                       \
               : width <= 256 ? &kernels_##P##_256                                       \
                              : NULL;                                                    \
    }
WIDTHS(F16)
WIDTHS(F16x3)
WIDTHS(F64)
