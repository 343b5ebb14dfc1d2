/* space_cpu.c - vectors in host memory: the f64 and f32 spaces of the CPU.
 *
 * Both precisions share space_cpu.inc; compiled once per instruction set.  Long vectors are
 * bound by memory, so a call reads each once: work goes by chunks that stay in the cache
 * while every pair of vectors meets them.
 *
 * The same bits for any number of threads: sums are split into slabs whose borders
 * depend on the length alone; each slab is summed by one thread, in order, and the
 * slabs are added in order.
 *
 * Rounding: elements are converted to double before they are multiplied.  A product of
 * two f32 numbers is exact in double, so a sum carries only double's rounding, and
 * combine rounds to f32 once per element, whatever the number of vectors. */
#include <omp.h>
#include <string.h>

#include "backend/cpu/normals.h"
#include "core/mem.h"
#include "core/extreme.h"
#include "linalg/space.h"

#if defined(__clang__) /* warns in unoptimised builds, where nothing is vectorised */
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

/* a b + c, rounded once where the processor can: in sums of products of f32 numbers, which
 * are exact, that changes no bit. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define MULTIPLY_ADD(a, b, c) __builtin_fma(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

enum {
    CHUNK = 2048,          /* elements that meet all vectors while in cache     */
    SLABS = 64,            /* most parts of one sum; bounds the useful threads  */
    TILE_A = 16,           /* vectors of A and B that share one pass of gram:   */
    TILE_B = 8,            /* SLABS * TILE_A * TILE_B doubles live on the stack */
    SERIAL_LENGTH = 16384, /* below, starting threads costs more than the work  */
};

static int team(const lipsc_space *self, size_t len) {
    return len < SERIAL_LENGTH || omp_in_parallel() ? 1
                                                    : lipsc_device_threads(self->device);
}

/* One operation on elements begin .. end-1. */
typedef void part_of(const void *of, size_t begin, size_t end);

/* All elements, `step` of them at a time.  A team of one starts no region: that costs more
 * than the work on a short vector. */
static lipsc_status spread(const lipsc_space *self, size_t elements, size_t step,
                           part_of *part, const void *of) {
    const int threads = team(self, elements);
    if (threads == 1) {
        for (size_t at = 0; at < elements; at += step)
            part(of, at, min_size(at + step, elements));
        return LIPSC_OK;
    }
#pragma omp parallel for schedule(static) num_threads(threads)
    for (size_t at = 0; at < elements; at += step)
        part(of, at, min_size(at + step, elements));
    return LIPSC_OK;
}

/* What the operations work on. */
typedef struct {
    const void *from;
    void *to;
    double factor;
    uint64_t seed, first;
} elementwise;

typedef struct {
    size_t len, slab, na, nb;
    const void *a, *b;
    double (*part)[TILE_A * TILE_B]; /* sums of the slabs */
} pairing;

typedef struct {
    size_t len, ka, kb;
    const void *a;
    const double *c;
    double beta;
    void *b;
} combination;

static void release(const lipsc_space *self, lipsc_buffer b) {
    (void)self;
    lipsc_release(b.at);
}

/* lipsc_space_f64_avx2 and so on; isa.c chooses among them */
#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)

#define REAL        double
#define TYPED(name) name##_f64
#define TABLE       JOIN(lipsc_space_f64_, LIPSC_ISA)
#include "backend/cpu/space_cpu.inc"
#undef REAL
#undef TYPED
#undef TABLE

#define REAL        float
#define TYPED(name) name##_f32
#define TABLE       JOIN(lipsc_space_f32_, LIPSC_ISA)
#include "backend/cpu/space_cpu.inc"
