/* bias.c - the bias of the scores by the distance of key and query. */
#include "attn/attn.h"

#include <math.h>

/* As the published code does it, in single precision: what counts is on which side of a
 * whole number the logarithm falls. */
static size_t far_bucket(size_t near, size_t far, size_t most, size_t distance) {
    const float place = logf((float)distance / (float)near) /
                        (float)log((double)most / (double)near) * (float)(far - near);
    const size_t bucket = near + (size_t)place;
    return bucket < far ? bucket : far - 1;
}

static size_t bucket_of(const lipsc_layer *l, size_t distance, int ahead) {
    const size_t half = l->bias_buckets / 2, near = half / 2;
    const size_t bucket =
        distance < near ? distance : far_bucket(near, half, l->bias_distance, distance);
    return bucket + (ahead && distance ? half : 0);
}

double lipsc_layer_bias(const lipsc_layer *l, size_t h, size_t distance, int ahead) {
    switch (l->bias_rule) {
    case LIPSC_BIAS_LINEAR:
        return l->score_bias[h] * (ahead ? (double)distance : -(double)distance);
    case LIPSC_BIAS_BUCKETS:
        return l->score_bias[h * l->bias_buckets + bucket_of(l, distance, ahead)];
    default:
        return 0.0;
    }
}
