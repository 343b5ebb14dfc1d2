/* rng.h - counter-based random numbers: the i-th number depends on seed and i alone,
 * so any thread, and any back end, can make any part of a stream. */
#ifndef LIPSC_CORE_RNG_H
#define LIPSC_CORE_RNG_H

#include <stdint.h>

uint64_t lipsc_rng_bits(uint64_t seed, uint64_t i);
double lipsc_rng_uniform(uint64_t seed, uint64_t i); /* in (0, 1)            */
double lipsc_rng_normal(uint64_t seed, uint64_t i);  /* standard normal law  */
/* The two normal numbers 2j and 2j+1 for the price of one. */
void lipsc_rng_normals(uint64_t seed, uint64_t j, double pair[2]);

#endif
