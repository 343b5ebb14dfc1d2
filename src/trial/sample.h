/* sample.h - random layers with an input, for trials that need no file. */
#ifndef LIPSC_TRIAL_SAMPLE_H
#define LIPSC_TRIAL_SAMPLE_H

#include "lipscope.h"

typedef struct {
    size_t n, d, heads, kv_heads, key_dim, value_dim;
    size_t out_dim;       /* 0: no O                                          */
    double query_spread;  /* standard deviation of Q, K, V and their biases   */
    double output_spread; /* of O and bo                                      */
    int biases, weights;
    lipsc_mask mask;
    size_t window;
    uint64_t seed;
} lipsc_sample_shape;

typedef struct {
    lipsc_layer layer;
    lipsc_input input;
    double *storage; /* NULL after lipsc_sample_new: no memory */
} lipsc_sample;

/* Normal entries; tokens normalised to mean 0 and variance 1 where d > 1. */
lipsc_sample lipsc_sample_new(const lipsc_sample_shape *shape);
void lipsc_sample_free(lipsc_sample *sample);

/* One attention layer of GPT-2's size (d 768, 12 heads) and with entries of the size
 * that training leaves there. */
lipsc_sample_shape lipsc_sample_gpt2(size_t n, lipsc_mask mask);

#endif
