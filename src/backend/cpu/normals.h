/* normals.h - standard normal numbers of a stream, many at a time.
 *
 * The numbers of core/rng.h (Box and Muller, numbers 2j and 2j+1 from the uniforms 2j and
 * 2j+1), to a few units in the last place: every loop here is free of branches and calls,
 * so that the compiler makes vectors of it.  The polynomials are those of fdlibm (Sun
 * Microsystems 1993), whose errors stay below one unit in the last place on these
 * intervals.  Additions and multiplications only, never fused: the same bits on every
 * instruction set, wherever a part begins. */
#ifndef LIPSC_BACKEND_CPU_NORMALS_H
#define LIPSC_BACKEND_CPU_NORMALS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "core/rng.h"

enum { NORMAL_PAIRS = 128 }; /* that are made at a time */

typedef union {
    uint64_t bits;
    double value;
} lipsc_word;

/* A whole number below 2^52, by the exponent that makes its unit the last bit. */
static inline double whole(uint64_t i) {
    const lipsc_word w = {.bits = i | UINT64_C(0x4330000000000000)};
    return w.value - 0x1p52;
}

/* lipsc_rng_uniform: 53 bits and a half, in two exact parts. */
static inline double uniform_of(uint64_t bits) {
    const double high = whole(bits >> 38), low = whole((bits >> 11) & 0x7ffffff);
    return ((high * 0x1p27 + low) + 0.5) * 0x1p-53;
}

/* log x for normal x > 0: x = 2^k m with m between sqrt(1/2) and sqrt(2). */
static inline double log_of(double x) {
    const uint64_t root_half = UINT64_C(0x3fe6a09e667f3bcd);
    const lipsc_word from = {.value = x};
    const uint64_t moved = from.bits + (UINT64_C(0x3ff0000000000000) - root_half);
    const lipsc_word m = {.bits = (moved & UINT64_C(0x000fffffffffffff)) + root_half};
    const double k = whole(moved >> 52) - 1023.0;
    const double f = m.value - 1.0, s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
    double r = 1.479819860511658591e-01;
    r = r * z + 1.531383769920937332e-01;
    r = r * z + 1.818357216161805012e-01;
    r = r * z + 2.222219843214978396e-01;
    r = r * z + 2.857142874366239149e-01;
    r = r * z + 3.999999999940941908e-01;
    r = r * z + 6.666666666666735130e-01;
    const double rest = s * (half + r * z) + k * 1.90821492927058770002e-10;
    return k * 6.93147180369123816490e-01 - ((half - rest) - f);
}

/* sin x for |x| <= pi / 4 */
static inline double sine_of(double x) {
    const double z = x * x;
    double r = 1.58969099521155010221e-10;
    r = r * z - 2.50507602534068634195e-08;
    r = r * z + 2.75573137070700676789e-06;
    r = r * z - 1.98412698298579493134e-04;
    r = r * z + 8.33333333332248946124e-03;
    r = r * z - 1.66666666666666324348e-01;
    return x + x * z * r;
}

/* cos x for |x| <= pi / 4 */
static inline double cosine_of(double x) {
    const double z = x * x, half = 0.5 * z, w = 1.0 - half;
    double r = -1.13596475577881948265e-11;
    r = r * z + 2.08757232129817482790e-09;
    r = r * z - 2.75573143513906633035e-07;
    r = r * z + 2.48015872894767294178e-05;
    r = r * z - 1.38888888888741095749e-03;
    r = r * z + 4.16666666666666019037e-02;
    return w + (((1.0 - w) - half) + z * z * r);
}

/* Numbers 2j .. 2j + 2 pairs - 1 of stream `seed`; pairs <= NORMAL_PAIRS. */
static inline void normals(uint64_t seed, uint64_t j, size_t pairs, double *x) {
    double length[NORMAL_PAIRS], turn[NORMAL_PAIRS];
    const uint64_t base = lipsc_rng_base(seed);
#pragma omp simd
    for (size_t i = 0; i < pairs; i++) {
        const uint64_t at = 2 * (j + i);
        length[i] = uniform_of(lipsc_rng_from(base, at));
        turn[i] = uniform_of(lipsc_rng_from(base, at + 1));
    }
#pragma omp simd
    for (size_t i = 0; i < pairs; i++) length[i] = sqrt(-2.0 * log_of(length[i]));
#pragma omp simd
    for (size_t i = 0; i < pairs; i++) {
        /* quarters of a turn: the nearest whole number, and what is left of it */
        const lipsc_word quarter = {.value = 4.0 * turn[i] + 0x1.8p52};
        const double left = 4.0 * turn[i] - (quarter.value - 0x1.8p52);
        const double angle = left * 1.57079632679489661923;
        const lipsc_word c = {.value = length[i] * cosine_of(angle)};
        const lipsc_word s = {.value = length[i] * sine_of(angle)};
        /* an odd quarter changes the two, the second and third turn the cosine's sign,
         * the third and fourth that of the sine */
        const uint64_t q = quarter.bits, odd = 0 - (q & 1);
        const lipsc_word first = {.bits = ((c.bits & ~odd) | (s.bits & odd)) ^
                                          (((q + 1) & 2) << 62)};
        const lipsc_word second = {.bits = ((s.bits & ~odd) | (c.bits & odd)) ^
                                           ((q & 2) << 62)};
        x[2 * i] = first.value;
        x[2 * i + 1] = second.value;
    }
}

#endif
