/* arena.h - one block of memory for many arrays. */
#ifndef LIPSC_ATTN_ARENA_H
#define LIPSC_ATTN_ARENA_H

#include "core/mem.h"

#include <stdint.h>
#include <string.h>

/* Hands out pieces of one block, each on its own cache lines.  Run with base NULL it
 * only counts, so that the same code measures the block and fills it. */
typedef struct {
    char *base;
    size_t used;
    int overflow;
} lipsc_arena;

static inline void *lipsc_arena_take(lipsc_arena *a, size_t count, size_t size) {
    size_t bytes;
    if (!lipsc_mul_size(count, size, &bytes) || bytes > SIZE_MAX - 64 ||
        a->used > SIZE_MAX - 64 - bytes) {
        a->overflow = 1;
        return NULL;
    }
    void *piece = a->base ? a->base + a->used : NULL;
    a->used += (bytes + 63) / 64 * 64;
    return piece;
}

/* Long arrays by all threads: their pages are new. */
static inline void lipsc_arena_fill(size_t count, const double *from, double *to) {
    enum { MANY = 1 << 24, PART = 1 << 20 };
    const size_t parts = count < MANY ? 1 : (count + PART - 1) / PART;
    const size_t part = parts == 1 ? count : PART;
#pragma omp parallel for schedule(static) if (parts > 1)
    for (size_t p = 0; p < parts; p++) {
        const size_t first = p * part, left = count - first;
        memcpy(to + first, from + first, (left < part ? left : part) * sizeof *to);
    }
}

/* A copy of count numbers; an absent array stays absent. */
static inline const double *lipsc_arena_copy(lipsc_arena *a, size_t count,
                                             const double *from) {
    if (!from) return NULL;
    double *copy = lipsc_arena_take(a, count, sizeof *copy);
    if (copy) lipsc_arena_fill(count, from, copy);
    return copy;
}

#endif
