// block.cuh - a sum over the threads of a block, in an order that does not change.
#ifndef LIPSC_CUDA_BLOCK_CUH
#define LIPSC_CUDA_BLOCK_CUH

#include "mma.cuh"

template <int THREADS> DEV double block_sum(double v) {
    __shared__ double part[THREADS];
    part[threadIdx.x] = v;
    __syncthreads();
    for (int d = THREADS / 2; d; d >>= 1) {
        if (threadIdx.x < d) part[threadIdx.x] += part[threadIdx.x + d];
        __syncthreads();
    }
    const double sum = part[0];
    __syncthreads();
    return sum;
}

#endif
