/* mem.c - allocation with checked products and 64-byte alignment. */
#include "core/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

int lipsc_mul_size(size_t a, size_t b, size_t *product) {
    if (b && a > SIZE_MAX / b) return 0;
    *product = a * b;
    return 1;
}

void *lipsc_alloc(size_t count, size_t size) {
    size_t bytes;
    if (!lipsc_mul_size(count, size, &bytes) || bytes > PTRDIFF_MAX - ALIGNMENT)
        return NULL;
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; /* as aligned_alloc asks */
    return aligned_alloc(ALIGNMENT, bytes ? bytes : ALIGNMENT);
}

void *lipsc_alloc_zero(size_t count, size_t size) {
    void *p = lipsc_alloc(count, size);
    if (p) memset(p, 0, count * size);
    return p;
}

double *lipsc_alloc_arrays(size_t count, double **const *arrays, const size_t *sizes) {
    size_t total = 0;
    for (size_t a = 0; a < count; a++) total += sizes[a];
    double *const storage = lipsc_alloc_zero(total, sizeof *storage);
    double *at = storage;
    for (size_t a = 0; storage && a < count; a++) {
        *arrays[a] = at;
        at += sizes[a];
    }
    return storage;
}

void lipsc_release(void *p) { free(p); }
