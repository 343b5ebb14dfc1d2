/* groups.c - the windows of a sweep: which are open, and which go together. */
#include "study/groups.h"

#include <stdlib.h>

#include "backend/backend.h"

/* From here on (about 20 ms a pair) a product keeps all threads busy by itself. */
static const double large_pair = 2e9;

int lipsc_group_cell_open(const study_cell *cell, study_span at) {
    const int here =
        cell->layer == LIPSC_NONE || (cell->layer >= at.from && cell->layer < at.to);
    return here && !cell->elsewhere && !lipsc_cell_done(cell);
}

size_t lipsc_groups_find(const lipsc_study *study, study_group *groups) {
    size_t found = 0;
    for (size_t at = 0, count; at < study->cell_count; at += count) {
        const study_cell *first = &study->cells[at];
        study_group g = {
            .first = at, .n = first->n, .start = first->start, .cost = first->cost};
        int open = 0;
        for (count = 0; at + count < study->cell_count; count++) {
            const study_cell *cell = &first[count];
            if (cell->n != first->n || cell->window != first->window) break;
            if (cell->elsewhere || lipsc_cell_done(cell)) continue;
            open = 1;
            if (cell->layer != LIPSC_NONE && cell->layer > g.last) g.last = cell->layer;
        }
        g.count = count;
        if (open) groups[found++] = g;
    }
    return found;
}

static int by_start(const void *a, const void *b) {
    const study_group *g = a, *h = b;
    if (g->alone != h->alone) return g->alone ? 1 : -1;
    if (g->start != h->start) return g->start < h->start ? -1 : 1;
    return g->n > h->n ? -1 : g->n < h->n;
}

static int longest_first(const void *a, const void *b) {
    const study_group *g = a, *h = b;
    if (g->cost != h->cost) return g->cost < h->cost ? 1 : -1;
    return g->first < h->first ? -1 : g->first > h->first;
}

void lipsc_groups_by_start(size_t count, study_group *groups) {
    qsort(groups, count, sizeof *groups, by_start);
}
void lipsc_groups_longest_first(size_t count, study_group *groups) {
    qsort(groups, count, sizeof *groups, longest_first);
}

void lipsc_groups_choose_alone(const lipsc_study *study, const study_kind *kind,
                               size_t count, study_group *groups) {
    const size_t threads = (size_t)study->threads;
    /* products that no thread of ours makes need none for themselves */
    const int elsewhere = lipsc_device_table(study->set.device)->batch_tokens != 0;
    size_t large = 0, longest = 0;
    for (size_t i = 0; i < count; i++) {
        groups[i].alone = !elsewhere && groups[i].cost >= large_pair;
        large += (size_t)groups[i].alone;
        if (groups[i].n > longest) longest = groups[i].n;
    }
    if (!lipsc_study_side_by_side(kind, longest)) return;
    size_t shared = large - large % threads;
    for (size_t i = 0; i < count && shared; i++) {
        shared -= (size_t)groups[i].alone;
        groups[i].alone = 0;
    }
}

size_t lipsc_groups_count_shared(const lipsc_study *study, size_t count,
                                 const study_group *groups, study_span at) {
    size_t open = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < groups[i].count; c++)
            open += !groups[i].alone &&
                    lipsc_group_cell_open(&study->cells[groups[i].first + c], at);
    return open;
}

size_t lipsc_groups_last(size_t count, const study_group *groups) {
    size_t last = 0;
    for (size_t i = 0; i < count; i++)
        if (groups[i].last > last) last = groups[i].last;
    return last;
}

size_t lipsc_groups_move_through(size_t count, study_group *groups, study_span at) {
    size_t left = 0;
    for (size_t i = 0; i < count; i++)
        if (groups[i].last >= at.from) {
            const study_group moved = groups[left];
            groups[left++] = groups[i];
            groups[i] = moved;
        }
    return left;
}
