/* measure_shard.c - a sweep in parts: which cells belong to the I-th of K.
 *
 * Windows stay whole, because their cells share a forward pass.  They are handed out by
 * falling cost, each to the part that has least so far: all parts know the same hand-out
 * without talking to each other. */
#include <stdlib.h>

#include "core/mem.h"
#include "measure.h"

typedef struct {
    size_t first, count; /* cells of one window and length, which stand together */
    double cost;
} bundle;

static int parse(const char *text, size_t *part, size_t *parts) {
    char *end;
    if (*text < '0' || *text > '9') return 0;
    const unsigned long i = strtoul(text, &end, 10);
    if (*end != '/' || end[1] < '0' || end[1] > '9') return 0;
    const unsigned long k = strtoul(end + 1, &end, 10);
    *part = i - 1;
    *parts = k;
    return !*end && i >= 1 && i <= k && k <= 1000000;
}

static size_t find_bundles(const measure_job *job, bundle *out) {
    size_t found = 0;
    for (size_t at = 0; at < job->cell_count; at += out[found++].count) {
        const measure_cell *first = &job->cells[at];
        bundle b = {.first = at};
        while (at + b.count < job->cell_count && first[b.count].n == first->n &&
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

int measure_shard(measure_job *job) {
    size_t part, parts, used = 0;
    if (!parse(job->set->shard, &part, &parts))
        return cli_wrong_use(job->self,
                             "invalid value '%s' for '--shard': expected I/K with "
                             "1 <= I <= K",
                             job->set->shard);
    bundle *bundles = lipsc_alloc(job->cell_count, sizeof *bundles);
    double *load = lipsc_alloc(parts, sizeof *load);
    const int good = bundles && load;
    if (good) {
        const size_t kept = choose(find_bundles(job, bundles), bundles, part, parts, load);
        for (size_t b = 0; b < kept; b++)
            for (size_t c = 0; c < bundles[b].count; c++)
                job->cells[used++] = job->cells[bundles[b].first + c];
        job->cell_count = used;
    }
    lipsc_release(bundles);
    lipsc_release(load);
    return good ? CLI_RUN : cli_failure(job->self, "out of memory for so many cells");
}
