/* isa.c - which instruction set the kernels use on this machine.
 *
 * The environment variable LIPSCOPE_ISA (generic, avx2, avx512) asks for a smaller one, so
 * that tests can run each of them; one that the machine lacks is not taken. */
#include "backend/cpu/kernels.h"
#include "lipscope.h"

#include <stdlib.h>
#include <string.h>

extern const lipsc_kernels lipsc_kernels_f32_generic, lipsc_kernels_f64_generic;
#ifdef LIPSC_X86_KERNELS
extern const lipsc_kernels lipsc_kernels_f32_avx2, lipsc_kernels_f64_avx2;
extern const lipsc_kernels lipsc_kernels_f32_avx512, lipsc_kernels_f64_avx512;
#endif

const char *lipsc_cpu_isa(void) {
#ifdef LIPSC_X86_KERNELS
    const char *asked = getenv("LIPSCOPE_ISA");
    const int avx512 =
        __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
    const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (asked && !strcmp(asked, "generic")) return "generic";
    if (avx512 && !(asked && !strcmp(asked, "avx2"))) return "avx512";
    if (avx2) return "avx2";
#endif
    return "generic";
}

const lipsc_kernels *lipsc_kernels_best(int f32) {
#ifdef LIPSC_X86_KERNELS
    const char *isa = lipsc_cpu_isa();
    if (!strcmp(isa, "avx512"))
        return f32 ? &lipsc_kernels_f32_avx512 : &lipsc_kernels_f64_avx512;
    if (!strcmp(isa, "avx2"))
        return f32 ? &lipsc_kernels_f32_avx2 : &lipsc_kernels_f64_avx2;
#endif
    return f32 ? &lipsc_kernels_f32_generic : &lipsc_kernels_f64_generic;
}
