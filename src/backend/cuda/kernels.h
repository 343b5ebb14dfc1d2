// kernels.h - the fused kernels of one precision and one width, as the host calls them.
#ifndef LIPSC_CUDA_KERNELS_H
#define LIPSC_CUDA_KERNELS_H

#include "statistics.cuh"

template <class S> struct Kernels {
    int width;           // of a head, padded
    int rows[MODES];     // rows per block
    int statistics_rows; // the same of the statistics
    int split;           // GV and GK stand for GKV
    cudaError_t (*launch)(Mode mode, const Args<S> &args, cudaStream_t stream);
    cudaError_t (*statistics)(const Args<S> &args,
                              const StatisticsArgs<typename S::Acc> &more,
                              cudaStream_t stream);
    // GKV and GQ in one launch, for few blocks; NULL: there is none
    cudaError_t (*both)(const Args<S> &keys, const Args<S> &queries, cudaStream_t stream);
};

// For sm_90a, heads of 64, scores without biases and caps.
const Kernels<StoreF16> *kernels_wgmma(void);

// Those that every GPU can run, by the shared memory that it has for a block.  NULL: the
// width (of key_dim and value_dim the larger) is beyond 256.
const Kernels<StoreF16> *kernels_for(StoreF16, Room room, size_t width);
const Kernels<StoreF16x3> *kernels_for(StoreF16x3, Room room, size_t width);
const Kernels<StoreBF16x3> *kernels_for(StoreBF16x3, Room room, size_t width);
const Kernels<StoreF64> *kernels_for(StoreF64, Room room, size_t width);

#endif
