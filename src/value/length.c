/* length.c - lengths of vectors in double, with the relative error of each. */
#include "value/length.h"

#include "backend/backend.h"
#include "core/mem.h"
#include "core/vector.h"

#include <float.h>
#include <math.h>

/* Blocks of that length are summed, then the sums: short chains have small errors. */
enum { CHAIN = 256 };

/* A power of two that brings `largest` near one, as far as there is one. */
static double scale_for(double largest) {
    int exponent;
    if (!isfinite(largest)) return 1.0;
    frexp(largest, &exponent);
    return ldexp(1.0, exponent < -1000 ? 1000 : exponent > 1000 ? -1000 : -exponent);
}

static double square_sum(size_t n, const double *x, double scale) {
    double sum = 0.0;
    for (size_t first = 0; first < n; first += CHAIN) {
        const size_t last = n - first < CHAIN ? n : first + CHAIN;
        double part = 0.0;
#pragma omp simd reduction(+ : part)
        for (size_t e = first; e < last; e++) part += (scale * x[e]) * (scale * x[e]);
        sum += part;
    }
    return sum;
}

/* A sum of squares none of which that counts was lost. */
static int holds(double square) { return square > 1e-200 && square < 1e200; }

double lipsc_sum_all(const lipsc_space *in, double own) {
    return in->split ? lipsc_device_total(in->device, own) : own;
}
double lipsc_largest_of_all(const lipsc_space *in, double own) {
    return in->split ? lipsc_device_largest(in->device, own) : own;
}

/* Where squares would overflow or underflow, of x times a power of two. */
double lipsc_vector_length(const lipsc_space *in, size_t n, const double *x) {
    const size_t here = lipsc_space_here(in, n);
    const double plain = lipsc_sum_all(in, square_sum(here, x, 1.0));
    if (holds(plain)) return sqrt(plain);
    const double largest = lipsc_largest_of_all(in, lipsc_largest(here, x));
    if (largest == 0.0) return 0.0;
    const double scale = scale_for(largest);
    return sqrt(lipsc_sum_all(in, square_sum(here, x, scale))) / scale;
}

double lipsc_vector_error(const lipsc_space *in, size_t n) {
    const double longest = (double)(n < CHAIN ? n : CHAIN) + (double)(n / CHAIN) + 8.0;
    return (longest + (double)(in->split ? in->split->ranks : 0)) * DBL_EPSILON;
}

double lipsc_vector_normalise(const lipsc_space *in, size_t n, double *x) {
    const double length = lipsc_vector_length(in, n, x);
    const size_t here = lipsc_space_here(in, n);
    for (size_t e = 0; length > 0.0 && e < here; e++) x[e] /= length;
    return length;
}

/* ---- On a device --------------------------------------------------------------------- */

/* Once more on the host. */
static lipsc_status fetched_length(const lipsc_space *space, size_t len, lipsc_buffer x,
                                   double *length) {
    double *host = lipsc_alloc(len, sizeof *host);
    lipsc_status status = host ? lipsc_space_download(space, len, x, host) : LIPSC_E_NOMEM;
    if (!status) *length = lipsc_vector_length(lipsc_space_host(LIPSC_F64), len, host);
    lipsc_release(host);
    return status;
}

lipsc_status lipsc_vector_lengths_there(const lipsc_space *space, size_t count,
                                        const lipsc_gram *gram) {
    lipsc_status status = lipsc_space_grams(space, count, gram);
    for (size_t i = 0; i < count && !status; i++)
        if (holds(*gram[i].c))
            *gram[i].c = sqrt(*gram[i].c);
        else
            status = fetched_length(space, gram[i].len, gram[i].a, gram[i].c);
    return status;
}

double lipsc_vector_error_there(size_t n) {
    /* Chains of additions are 40 + n / 2^20 long on a GPU (cuda/vectors.cu), and on a CPU
     * at most 2200 + n / 2^17 (cpu/space_cpu.c).  Each loses half of epsilon, and the root
     * halves what they lose. */
    const double on_host = lipsc_vector_error(lipsc_space_host(LIPSC_F64), n);
    const double there = (1024.0 + (double)(n >> 16)) * DBL_EPSILON;
    return there > on_host ? there : on_host;
}
