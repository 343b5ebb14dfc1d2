/* rng.c - counter-based random numbers by mixing seed and counter.
 *
 * The mixer is the 64-bit finaliser of the splitmix family (multiply, xor-shift),
 * applied to the seed and then to seed + golden ratio * counter.  By hand because the
 * C library has no counter-based generator and a CUDA back end must make the same
 * numbers. */
#include "core/rng.h"

#include <math.h>

uint64_t lipsc_rng_bits(uint64_t seed, uint64_t i) {
    return lipsc_rng_from(lipsc_rng_base(seed), i);
}

double lipsc_rng_uniform(uint64_t seed, uint64_t i) {
    /* 53 bits, moved by half a step so that neither 0 nor 1 occurs */
    return ((double)(lipsc_rng_bits(seed, i) >> 11) + 0.5) * 0x1p-53;
}

/* Box-Muller: numbers 2j and 2j+1 come from the same pair of uniforms. */
void lipsc_rng_normals(uint64_t seed, uint64_t j, double pair[2]) {
    const double pi = 3.14159265358979323846;
    const double r = sqrt(-2.0 * log(lipsc_rng_uniform(seed, 2 * j)));
    const double angle = 2.0 * pi * lipsc_rng_uniform(seed, 2 * j + 1);
    pair[0] = r * cos(angle);
    pair[1] = r * sin(angle);
}

double lipsc_rng_normal(uint64_t seed, uint64_t i) {
    double pair[2];
    lipsc_rng_normals(seed, i / 2, pair);
    return pair[i % 2];
}
