/* shard.c - a sweep in parts: which cells belong to the I-th of K.
 *
 * Windows stay whole, because their cells share a forward pass.  They are handed out by
 * falling cost, each to the part that has least so far: all parts know the same hand-out
 * without talking to each other. */
#include <stdlib.h>

#include "core/error.h"
#include "core/mem.h"
#include "study/study.h"

enum { MOST_PARTS = 1000000 };

typedef struct {
    size_t first, count; /* cells of one window and length, which stand together */
    double cost;
} bundle;

static size_t find_bundles(const lipsc_study *study, bundle *out) {
    size_t found = 0;
    for (size_t at = 0; at < study->cell_count; at += out[found++].count) {
        const study_cell *first = &study->cells[at];
        bundle b = {.first = at};
        while (at + b.count < study->cell_count && first[b.count].n == first->n &&
               first[b.count].window == first->window)
            b.cost += first[b.count++].cost;
        out[found] = b;
    }
    return found;
}

/* Equal costs in the order of the cells. */
static int by_cost(const void *a, const void *b) {
    const bundle *x = a, *y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? 1 : -1;
    return (x->first > y->first) - (x->first < y->first);
}

static int by_first(const void *a, const void *b) {
    const bundle *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

/* The bundles of one part, in the order of the cells; how many. */
static size_t choose(size_t count, bundle *bundles, size_t part, size_t parts,
                     double *load) {
    size_t kept = 0;
    for (size_t p = 0; p < parts; p++) load[p] = 0.0;
    if (count) qsort(bundles, count, sizeof *bundles, by_cost);
    for (size_t i = 0; i < count; i++) {
        const bundle b = bundles[i];
        size_t least = 0;
        for (size_t p = 1; p < parts; p++)
            if (load[p] < load[least]) least = p;
        load[least] += b.cost;
        if (least == part) bundles[kept++] = b;
    }
    if (kept) qsort(bundles, kept, sizeof *bundles, by_first);
    return kept;
}

lipsc_status lipsc_study_shard(lipsc_study *study, lipsc_error *err) {
    const size_t part = study->set.shard, parts = study->set.shards;
    size_t used = 0;
    if (part < 1 || part > parts || parts > MOST_PARTS)
        return lipsc_fail(err, LIPSC_E_ARG, "there is no part %zu of %zu parts", part,
                          parts);
    bundle *bundles = lipsc_alloc(study->cell_count, sizeof *bundles);
    double *load = lipsc_alloc(parts, sizeof *load);
    const int good = bundles && load;
    if (good) {
        const size_t kept =
            choose(find_bundles(study, bundles), bundles, part - 1, parts, load);
        for (size_t b = 0; b < kept; b++)
            for (size_t c = 0; c < bundles[b].count; c++)
                study->cells[used++] = study->cells[bundles[b].first + c];
        study->cell_count = used;
    }
    lipsc_release(bundles);
    lipsc_release(load);
    return good ? LIPSC_OK
                : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for so many cells");
}
