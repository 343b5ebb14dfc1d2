// widths.cu - which compiled width serves a head, in which room.
#include "kernels.h"

#define WIDTHS(P)                                                                    \
    extern const Kernels<Store##P> kernels_##P##_32[ROOMS], kernels_##P##_64[ROOMS], \
        kernels_##P##_96[ROOMS], kernels_##P##_128[ROOMS], kernels_##P##_256[ROOMS]; \
    const Kernels<Store##P> *kernels_for(Store##P, Room room, size_t width) {        \
        return width <= 32    ? &kernels_##P##_32[room]                              \
               : width <= 64  ? &kernels_##P##_64[room]                              \
               : width <= 96  ? &kernels_##P##_96[room]                              \
               : width <= 128 ? &kernels_##P##_128[room]                             \
               : width <= 256 ? &kernels_##P##_256[room]                             \
                              : NULL;                                                \
    }
WIDTHS(F16)
WIDTHS(F16x3)
WIDTHS(BF16x3)
WIDTHS(F64)
