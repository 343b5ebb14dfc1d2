/* host_batch.h - inputs of attention on a GPU as their products see them.  The vectors of
 * the plugin's batch are those of its inputs one after the other; the solver's are each
 * cell's own. */
#ifndef LIPSC_BACKEND_CUDA_HOST_BATCH_H
#define LIPSC_BACKEND_CUDA_HOST_BATCH_H

#include "backend/cuda/host_parts.h"

/* Directions of one call of the plugin; more go in turns. */
enum { DIRECTIONS = 4 };

/* Inputs that share the plugin's batch; x, y: DIRECTIONS vectors of all of them, where
 * there are several.  dirs: those that the plugin's batch has room for. */
typedef struct {
    lipsc_cuda_batch *there;
    size_t users, count, tokens, dirs;
    size_t item, d, width;
    int *active, *told;       /* who is worked on; what the plugin was told of that last */
    lipsc_cuda_piece *pieces; /* (DIRECTIONS count) */
    void *x, *y;
} batch;

typedef struct {
    batch *of;
    size_t place, first, n; /* number in the batch, its first token, tokens */
} input;

#endif
