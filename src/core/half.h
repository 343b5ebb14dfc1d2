/* half.h - f16 and bf16 bit patterns to float, exactly.
 *
 *     f16:   sign 1, exponent e 5, fraction m 10
 *            0 < e < 31:  2^(e-15) (1 + m/1024)      e = 0:  m 2^-24
 *     bf16:  the upper half of a float
 * Every f16 and bf16 is a float, so nothing is rounded; a NaN keeps its fraction. */
#ifndef LIPSC_CORE_HALF_H
#define LIPSC_CORE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float lipsc_float_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float lipsc_bf16_to_float(uint16_t h) {
    return lipsc_float_from_bits((uint32_t)h << 16);
}

static inline float lipsc_f16_to_float(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    const uint32_t exponent = (h >> 10) & 0x1fu;
    const uint32_t fraction = h & 0x3ffu;
    if (exponent == 0) { /* zero or subnormal: a normal float all the same */
        const float magnitude = (float)fraction * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    if (exponent == 31) return lipsc_float_from_bits(sign | 0x7f800000u | fraction << 13);
    return lipsc_float_from_bits(sign | (exponent + 127 - 15) << 23 | fraction << 13);
}

#endif
