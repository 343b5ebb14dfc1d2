/* isa.c - which instruction set the tables of the CPU back end use on this machine.
 *
 * The environment variable LIPSCOPE_ISA (generic, avx2, avx512, neon) asks for a smaller
 * one, so that tests can run each of them; one that the machine lacks is not taken. */
#include "backend/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

#define TABLES(isa)                                                              \
    extern const lipsc_kernels lipsc_kernels_f32_##isa, lipsc_kernels_f64_##isa; \
    extern const lipsc_rowwise lipsc_rowwise_f32_##isa, lipsc_rowwise_f64_##isa; \
    extern const lipsc_space lipsc_space_f32_##isa, lipsc_space_f64_##isa;
TABLES(generic)
#ifdef LIPSC_X86_KERNELS
TABLES(avx2)
#endif
#ifdef LIPSC_NEON_KERNELS
TABLES(neon)
#endif
#ifdef LIPSC_AVX512_KERNELS /* not in every build: CMakeLists.txt */
TABLES(avx512)
#define WIDEST(name) &lipsc_##name##_avx512
#else
#define WIDEST(name) &lipsc_##name##_avx2
#endif

const char *lipsc_cpu_isa(void) {
    const char *asked = getenv("LIPSCOPE_ISA");
    if (asked && !strcmp(asked, "generic")) return "generic";
#ifdef LIPSC_X86_KERNELS
    const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#ifdef LIPSC_AVX512_KERNELS
    const int avx512 =
        __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
    if (avx512 && !(asked && !strcmp(asked, "avx2"))) return "avx512";
#endif
    if (avx2) return "avx2";
#elif defined(LIPSC_NEON_KERNELS)
    return "neon";
#endif
    return "generic";
}

#ifdef LIPSC_X86_KERNELS
#define CHOOSE(name, isa)                          \
    (!strcmp(isa, "avx512") ? WIDEST(name)         \
     : !strcmp(isa, "avx2") ? &lipsc_##name##_avx2 \
                            : &lipsc_##name##_generic)
#elif defined(LIPSC_NEON_KERNELS)
#define CHOOSE(name, isa) \
    (!strcmp(isa, "neon") ? &lipsc_##name##_neon : &lipsc_##name##_generic)
#else
#define CHOOSE(name, isa) ((void)(isa), &lipsc_##name##_generic)
#endif

const lipsc_kernels *lipsc_kernels_best(int f32) {
    const char *isa = lipsc_cpu_isa();
    return f32 ? CHOOSE(kernels_f32, isa) : CHOOSE(kernels_f64, isa);
}

const lipsc_space *lipsc_space_host(lipsc_dtype dtype) {
    const char *isa = lipsc_cpu_isa();
    return dtype == LIPSC_F32 ? CHOOSE(space_f32, isa) : CHOOSE(space_f64, isa);
}

const lipsc_rowwise *lipsc_rowwise_best(lipsc_dtype dtype) {
    const char *isa = lipsc_cpu_isa();
    return dtype == LIPSC_F32 ? CHOOSE(rowwise_f32, isa) : CHOOSE(rowwise_f64, isa);
}
