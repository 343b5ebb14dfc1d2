/* quant.c - the block formats of GGUF, one small function each, and their table.
 *
 * Written out by hand: the one library that has them (ggml) brings a whole runtime, and the
 * reference for the values is a Python package.  What counts is the order of the float
 * operations, which is that of the package `gguf`: scales are formed first, one product
 * and at most one sum follow, nothing is fused.
 *
 * Quarters and nibbles are stored in strides: one byte of a run of 32 (or 16, or 64) holds
 * entries that lie a whole run apart, low bits first. */
#include "io/quant.h"

#include "core/half.h"

#include <string.h>

static uint16_t u16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }

static uint32_t u32(const uint8_t *p) {
    return (uint32_t)u16(p) | (uint32_t)u16(p + 2) << 16;
}

static float half(const uint8_t *p) { return lipsc_f16_to_float(u16(p)); }

/* ---- Plain numbers ------------------------------------------------------------------- */

static void f32(const uint8_t *b, float *y) { *y = lipsc_float_from_bits(u32(b)); }

static void f16(const uint8_t *b, float *y) { *y = half(b); }

static void bf16(const uint8_t *b, float *y) { *y = lipsc_bf16_to_float(u16(b)); }

static double f64_value(const uint8_t *b) {
    const uint64_t bits = (uint64_t)u32(b) | (uint64_t)u32(b + 4) << 32;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void f64(const uint8_t *b, float *y) { *y = (float)f64_value(b); }

/* ---- Blocks of 32 -------------------------------------------------------------------- */

/* Entry e of 32 nibbles in 16 bytes: the low ones are the first half. */
static int nibble(const uint8_t *q, int e) { return q[e % 16] >> (e / 16 * 4) & 15; }

static int bit(uint32_t bits, int e) { return (int)(bits >> e & 1); }

static void q4_0(const uint8_t *b, float *y) {
    const float d = half(b);
    for (int e = 0; e < 32; e++) y[e] = d * (float)(nibble(b + 2, e) - 8);
}

static void q4_1(const uint8_t *b, float *y) {
    const float d = half(b), m = half(b + 2);
    for (int e = 0; e < 32; e++) y[e] = d * (float)nibble(b + 4, e) + m;
}

static void q5_0(const uint8_t *b, float *y) {
    const float d = half(b);
    const uint32_t high = u32(b + 2);
    for (int e = 0; e < 32; e++)
        y[e] = d * (float)((nibble(b + 6, e) | bit(high, e) << 4) - 16);
}

static void q5_1(const uint8_t *b, float *y) {
    const float d = half(b), m = half(b + 2);
    const uint32_t high = u32(b + 4);
    for (int e = 0; e < 32; e++)
        y[e] = d * (float)(nibble(b + 8, e) | bit(high, e) << 4) + m;
}

static void q8_0(const uint8_t *b, float *y) {
    const float d = half(b);
    for (int e = 0; e < 32; e++) y[e] = (float)(int8_t)b[2 + e] * d;
}

/* Sixteen levels that are not evenly spaced. */
static const int8_t uneven[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};

static void iq4_nl(const uint8_t *b, float *y) {
    const float d = half(b);
    for (int e = 0; e < 32; e++) y[e] = d * (float)uneven[nibble(b + 2, e)];
}

/* Twice the values of a four-bit float, with half the power of two that scales them. */
static void mxfp4(const uint8_t *b, float *y) {
    static const int8_t level[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                     0, -1, -2, -3, -4, -6, -8, -12};
    const uint32_t power = b[0];
    const float d =
        lipsc_float_from_bits(power < 2 ? 0x00200000u << power : (power - 1) << 23);
    for (int e = 0; e < 32; e++) y[e] = d * (float)level[nibble(b + 1, e)];
}

/* ---- Blocks of 256 ------------------------------------------------------------------- */

/* Entry e of 128-entry runs of quarters in 32 bytes each. */
static int quarter(const uint8_t *q, int e) {
    return q[e / 128 * 32 + e % 32] >> (e % 128 / 32 * 2) & 3;
}

/* Entry e of 64-entry runs of nibbles in 32 bytes each. */
static int long_nibble(const uint8_t *q, int e) {
    return q[e / 64 * 32 + e % 32] >> (e % 64 / 32 * 4) & 15;
}

static void q2_k(const uint8_t *b, float *y) {
    const uint8_t *scales = b, *q = b + 16;
    const float d = half(b + 80), min = half(b + 82);
    for (int e = 0; e < 256; e++) {
        const int scale = scales[e / 16];
        const float step = d * (float)(scale & 15), offset = min * (float)(scale >> 4);
        y[e] = step * (float)quarter(q, e) - offset;
    }
}

static void q3_k(const uint8_t *b, float *y) {
    const uint8_t *high = b, *q = b + 32, *scales = b + 96;
    const float d = half(b + 108);
    for (int e = 0; e < 256; e++) {
        const int s = e / 16, low = scales[s % 8] >> (s / 8 * 4) & 15;
        const int scale = (low | (scales[8 + s % 4] >> (s / 4 * 2) & 3) << 4) - 32;
        const int missing = ~(high[e % 32] >> (e / 32)) & 1;
        y[e] = d * (float)scale * (float)(quarter(q, e) - 4 * missing);
    }
}

/* The s-th of eight six-bit scales and offsets in 12 bytes. */
static void scale_min(const uint8_t *p, int s, int *scale, int *min) {
    if (s < 4) {
        *scale = p[s] & 63;
        *min = p[s + 4] & 63;
    } else {
        *scale = (p[s + 4] & 15) | p[s - 4] >> 6 << 4;
        *min = p[s + 4] >> 4 | p[s] >> 6 << 4;
    }
}

/* high NULL: four bits a value, else a fifth from there */
static void scaled_nibbles(const uint8_t *b, const uint8_t *high, const uint8_t *q,
                           float *y) {
    const float d = half(b), dmin = half(b + 2);
    for (int s = 0; s < 8; s++) {
        int scale, min;
        scale_min(b + 4, s, &scale, &min);
        const float step = d * (float)scale, offset = dmin * (float)min;
        for (int e = 32 * s; e < 32 * s + 32; e++) {
            const int fifth = high ? (high[e % 32] >> s & 1) << 4 : 0;
            y[e] = step * (float)(long_nibble(q, e) | fifth) - offset;
        }
    }
}

static void q4_k(const uint8_t *b, float *y) { scaled_nibbles(b, NULL, b + 16, y); }

static void q5_k(const uint8_t *b, float *y) { scaled_nibbles(b, b + 16, b + 48, y); }

static void q6_k(const uint8_t *b, float *y) {
    const uint8_t *low = b, *high = b + 128, *scales = b + 192;
    const float d = half(b + 208);
    for (int e = 0; e < 256; e++) {
        const int four = low[e / 128 * 64 + e % 64] >> (e % 128 / 64 * 4) & 15;
        const int value = (four | quarter(high, e) << 4) - 32;
        y[e] = d * (float)(int8_t)scales[e / 16] * (float)value;
    }
}

static void iq4_xs(const uint8_t *b, float *y) {
    const uint8_t *low = b + 4, *q = b + 8;
    const uint32_t high = u16(b + 2);
    const float d = half(b);
    for (int e = 0; e < 256; e++) {
        const int s = e / 32;
        const int scale =
            ((low[s / 2] >> (s % 2 * 4) & 15) | (int)(high >> 2 * s & 3) << 4) - 32;
        y[e] = d * (float)scale * (float)uneven[nibble(q + 16 * s, e % 32)];
    }
}

/* ---- The table ----------------------------------------------------------------------- */

static const lipsc_quant types[] = {
    {0, "F32", 1, 4, f32},          {1, "F16", 1, 2, f16},
    {2, "Q4_0", 32, 18, q4_0},      {3, "Q4_1", 32, 20, q4_1},
    {6, "Q5_0", 32, 22, q5_0},      {7, "Q5_1", 32, 24, q5_1},
    {8, "Q8_0", 32, 34, q8_0},      {9, "Q8_1", 32, 40, NULL},
    {10, "Q2_K", 256, 84, q2_k},    {11, "Q3_K", 256, 110, q3_k},
    {12, "Q4_K", 256, 144, q4_k},   {13, "Q5_K", 256, 176, q5_k},
    {14, "Q6_K", 256, 210, q6_k},   {15, "Q8_K", 256, 292, NULL},
    {16, "IQ2_XXS", 256, 66, NULL}, {17, "IQ2_XS", 256, 74, NULL},
    {18, "IQ3_XXS", 256, 98, NULL}, {19, "IQ1_S", 256, 50, NULL},
    {20, "IQ4_NL", 32, 18, iq4_nl}, {21, "IQ3_S", 256, 110, NULL},
    {22, "IQ2_S", 256, 82, NULL},   {23, "IQ4_XS", 256, 136, iq4_xs},
    {24, "I8", 1, 1, NULL},         {25, "I16", 1, 2, NULL},
    {26, "I32", 1, 4, NULL},        {27, "I64", 1, 8, NULL},
    {28, "F64", 1, 8, f64},         {29, "IQ1_M", 256, 56, NULL},
    {30, "BF16", 1, 2, bf16},       {34, "TQ1_0", 256, 54, NULL},
    {35, "TQ2_0", 256, 66, NULL},   {39, "MXFP4", 32, 17, mxfp4},
};

const lipsc_quant *lipsc_quant_of(uint32_t id) {
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        if (types[t].id == id) return &types[t];
    return NULL;
}

void lipsc_quant_read(const lipsc_quant *type, const uint8_t *data, size_t first,
                      size_t count, double *out) {
    float block[LIPSC_QUANT_VALUES];
    const size_t end = first + count;
    for (size_t at = first; at < end;) {
        const size_t start = at % type->values, left = type->values - start;
        const size_t take = left < end - at ? left : end - at;
        const uint8_t *bytes = data + at / type->values * type->bytes;
        if (type->unpack == f64) {
            out[at - first] = f64_value(bytes);
        } else {
            type->unpack(bytes, block);
            for (size_t e = 0; e < take; e++) out[at - first + e] = block[start + e];
        }
        at += take;
    }
}
