/* simd.h - one vector type V of VL elements of type T, for the instruction set and the
 * precision this file is compiled for (CMakeLists.txt beside it compiles kernels.c once
 * for each pair).
 *
 * Arithmetic uses the compilers' vector extension, so that every instruction set shares
 * one source; only the fused multiply-add is asked for by name, since contraction of
 * a*b+c is switched off everywhere else. */
#ifndef LIPSC_BACKEND_CPU_SIMD_H
#define LIPSC_BACKEND_CPU_SIMD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(LIPSC_ISA_avx2) || defined(LIPSC_ISA_avx512)
#include <immintrin.h>
#elif defined(LIPSC_ISA_neon)
#include <arm_neon.h>
#endif

#if defined(LIPSC_ISA_avx512)
#define VECTOR_BYTES 64
#elif defined(LIPSC_ISA_avx2)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

/* Vectors in a row of a register block.  6 rows of 2 fill the 16 registers of AVX2; the 32
 * short ones of NEON hold 6 rows of 4, enough for four multiply-adds in flight per cycle.
 */
#if defined(LIPSC_ISA_neon)
enum { NV = 4 };
#else
enum { NV = 2 };
#endif

#if defined(LIPSC_TYPE_f32)
typedef float T;
typedef int32_t I;
typedef uint32_t U;
#define T_MANTISSA 23
#else
typedef double T;
typedef int64_t I;
typedef uint64_t U;
#define T_MANTISSA 52
#endif

typedef T V __attribute__((vector_size(VECTOR_BYTES)));
typedef I VI __attribute__((vector_size(VECTOR_BYTES))); /* lanes -1 (true) or 0 (false) */
typedef U VU __attribute__((vector_size(VECTOR_BYTES)));

enum { VL = VECTOR_BYTES / (int)sizeof(T), NR = NV * VL };

#define INLINE static inline __attribute__((always_inline))

INLINE V v_load(const T *p) {
    V x;
    memcpy(&x, p, sizeof x);
    return x;
}
INLINE void v_store(T *p, V x) { memcpy(p, &x, sizeof x); }

#if defined(LIPSC_TYPE_f32) && defined(LIPSC_ISA_avx2)
INLINE V v_set(T s) { return (V)_mm256_set1_ps(s); }
INLINE V v_fma(V a, V b, V c) {
    return (V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
#elif defined(LIPSC_TYPE_f64) && defined(LIPSC_ISA_avx2)
INLINE V v_set(T s) { return (V)_mm256_set1_pd(s); }
INLINE V v_fma(V a, V b, V c) {
    return (V)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
#elif defined(LIPSC_TYPE_f32) && defined(LIPSC_ISA_avx512)
INLINE V v_set(T s) { return (V)_mm512_set1_ps(s); }
INLINE V v_fma(V a, V b, V c) {
    return (V)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
#elif defined(LIPSC_TYPE_f64) && defined(LIPSC_ISA_avx512)
INLINE V v_set(T s) { return (V)_mm512_set1_pd(s); }
INLINE V v_fma(V a, V b, V c) {
    return (V)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}
#elif defined(LIPSC_TYPE_f32) && defined(LIPSC_ISA_neon)
INLINE V v_set(T s) { return (V)vdupq_n_f32(s); }
INLINE V v_fma(V a, V b, V c) {
    return (V)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
#elif defined(LIPSC_TYPE_f64) && defined(LIPSC_ISA_neon)
INLINE V v_set(T s) { return (V)vdupq_n_f64(s); }
INLINE V v_fma(V a, V b, V c) {
    return (V)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}
#else
INLINE V v_set(T s) {
    V x;
    for (int l = 0; l < VL; l++) x[l] = s;
    return x;
}
INLINE V v_fma(V a, V b, V c) { return a * b + c; }
#endif

/* The same operation on one element, with the same rounding as a lane of v_fma. */
INLINE T s_fma(T a, T b, T c) {
#if defined(LIPSC_ISA_avx2) || defined(LIPSC_ISA_avx512) || defined(LIPSC_ISA_neon)
#if defined(LIPSC_TYPE_f32)
    return __builtin_fmaf(a, b, c);
#else
    return __builtin_fma(a, b, c);
#endif
#else
    return a * b + c;
#endif
}

/* lane where mask, else 0 */
INLINE V v_keep(V x, VI mask) { return (V)((VI)x & mask); }

INLINE V v_max(V a, V b) {
    VI m = a > b;
    return (V)(((VI)a & m) | ((VI)b & ~m));
}

INLINE VI v_lanes(void) {
    VI x;
    for (int l = 0; l < VL; l++) x[l] = l;
    return x;
}

/* a0 b0 a1 b1 ... of the lower and of the upper halves; not every compiler can say it */
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define V_PAIR(f)  f, (f) + VL
#define V_PAIR2(f) V_PAIR(f), V_PAIR((f) + 1)
#define V_PAIR4(f) V_PAIR2(f), V_PAIR2((f) + 2)
#define V_PAIR8(f) V_PAIR4(f), V_PAIR4((f) + 4)
#if VECTOR_BYTES == 64 && defined(LIPSC_TYPE_f32)
#define V_HALF V_PAIR8
#elif VECTOR_BYTES == 64 || (VECTOR_BYTES == 32 && defined(LIPSC_TYPE_f32))
#define V_HALF V_PAIR4
#elif VECTOR_BYTES == 32 || defined(LIPSC_TYPE_f32)
#define V_HALF V_PAIR2
#else
#define V_HALF V_PAIR
#endif
#define V_LOW(a, b)  __builtin_shufflevector(a, b, V_HALF(0))
#define V_HIGH(a, b) __builtin_shufflevector(a, b, V_HALF(VL / 2))

/* The columns of VL rows: each step turns the digits of (row, lane) by one place. */
INLINE void v_transpose(V x[VL]) {
    V y[VL];
    for (int step = 1; step < VL; step *= 2) {
#pragma GCC unroll 8
        for (int r = 0; r < VL / 2; r++) {
            y[2 * r] = V_LOW(x[r], x[r + VL / 2]);
            y[2 * r + 1] = V_HIGH(x[r], x[r + VL / 2]);
        }
#pragma GCC unroll 16
        for (int r = 0; r < VL; r++) x[r] = y[r];
    }
}
#endif
#endif

/* 2^x for x <= about 1, to about one unit in the last place; 0 below the normal range.
 * x = i + f with i an integer and |f| <= 1/2; 2^f by the polynomial of smallest relative
 * error there (Remez): 7.5e-8 of degree 5 in f32, 3.1e-18 of degree 11 in f64.  Adding
 * 1.5 * 2^mantissa rounds x to an integer and leaves it in the low bits. */
INLINE V v_exp2(V x) {
#if defined(LIPSC_TYPE_f32)
    const T magic = 12582912.0f, lowest = -126.0f;
    static const T c[] = {1.000000072f,   0.6931469671f,   0.2402211972f,
                          0.05550713273f, 0.009675541331f, 0.001327647217f};
#else
    const T magic = 6755399441055744.0, lowest = -1022.0;
    static const T c[] = {1.0,
                          0.693147180559945330461,
                          0.240226506959101562046,
                          0.055504108664819921483,
                          0.00961812910758833508332,
                          0.00133335581467899503225,
                          0.000154035304625146130256,
                          0.0000152527334899608046001,
                          0.00000132154330895946290369,
                          1.01781980333285276616e-7,
                          7.07410562624565937085e-9,
                          4.43528094461033616106e-10};
#endif
    enum { DEGREE = (int)(sizeof c / sizeof c[0]) - 1 };
    const VI normal = x > v_set(lowest);
    x = v_max(x, v_set(lowest));
    const V shifted = x + v_set(magic);
    const V f = x - (shifted - v_set(magic));
    V p = v_set(c[DEGREE]);
    for (int i = DEGREE - 1; i >= 0; i--) p = v_fma(p, f, v_set(c[i]));
    const VU power = (VU)shifted
                     << T_MANTISSA; /* the integer part, in the exponent's place */
    return v_keep((V)((VU)p + power), normal);
}

#endif
