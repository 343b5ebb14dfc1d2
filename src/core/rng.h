/* rng.h - counter-based random numbers: the i-th number depends on seed and i alone,
 * so any thread, and any back end, can make any part of a stream. */
#ifndef LIPSC_CORE_RNG_H
#define LIPSC_CORE_RNG_H

#include <stdint.h>

/* The i-th word of a stream from what its seed becomes, for those who need many. */
static inline uint64_t lipsc_rng_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
static inline uint64_t lipsc_rng_base(uint64_t seed) {
    return lipsc_rng_mix(seed + UINT64_C(0x9e3779b97f4a7c15));
}
static inline uint64_t lipsc_rng_from(uint64_t base, uint64_t i) {
    return lipsc_rng_mix(base + UINT64_C(0x9e3779b97f4a7c15) * (i + 1));
}

uint64_t lipsc_rng_bits(uint64_t seed, uint64_t i);
double lipsc_rng_uniform(uint64_t seed, uint64_t i); /* in (0, 1)            */
double lipsc_rng_normal(uint64_t seed, uint64_t i);  /* standard normal law  */
/* The two normal numbers 2j and 2j+1 for the price of one. */
void lipsc_rng_normals(uint64_t seed, uint64_t j, double pair[2]);

#endif
