/* pool.c - texts and lists in a few large blocks. */
#include "core/pool.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 16, ALIGN = sizeof(double), RECENT = 64 };

struct lipsc_pool_block {
    lipsc_pool_block *older;
    size_t used, room;
    const char *recent[RECENT]; /* texts of this block, by a hash of their bytes */
    double bytes[];             /* aligned for lists */
};

static void *take(lipsc_pool *pool, size_t size) {
    lipsc_pool_block *b = pool->newest;
    if (size > (size_t)-1 / 2) return NULL;
    size = (size + ALIGN - 1) / ALIGN * ALIGN;
    if (!b || size > b->room - b->used) {
        const size_t room = size > BLOCK ? size : BLOCK;
        b = malloc(sizeof *b + room);
        if (!b) return NULL;
        memset(b, 0, sizeof *b);
        b->older = pool->newest;
        b->room = room;
        pool->newest = b;
    }
    void *at = (char *)b->bytes + b->used;
    b->used += size;
    return at;
}

static size_t slot(const char *text) {
    size_t hash = 1469598103u;
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 1099511u;
    return hash % RECENT;
}

const char *lipsc_pool_text(lipsc_pool *pool, const char *text) {
    const size_t at = slot(text), size = strlen(text) + 1;
    const char *seen = pool->newest ? pool->newest->recent[at] : NULL;
    if (seen && !strcmp(seen, text)) return seen;
    char *copy = take(pool, size);
    if (!copy) return NULL;
    memcpy(copy, text, size);
    pool->newest->recent[at] = copy;
    return copy;
}

const double *lipsc_pool_reals(lipsc_pool *pool, size_t count, const double *values) {
    if (count > (size_t)-1 / 2 / sizeof *values) return NULL;
    double *copy = take(pool, count ? count * sizeof *values : 1);
    if (copy && count) memcpy(copy, values, count * sizeof *values);
    return copy;
}

void lipsc_pool_free(lipsc_pool *pool) {
    while (pool->newest) {
        lipsc_pool_block *older = pool->newest->older;
        free(pool->newest);
        pool->newest = older;
    }
}
