/* order.c - numbers in their order, with where each one stood. */
#include "core/order.h"

#include <stdlib.h>

static int by_place(const lipsc_placed *a, const lipsc_placed *b) {
    return (a->index > b->index) - (a->index < b->index);
}

static int upwards(const void *a, const void *b) {
    const lipsc_placed *x = a, *y = b;
    return x->at != y->at ? (x->at < y->at ? -1 : 1) : by_place(x, y);
}

static int downwards(const void *a, const void *b) {
    const lipsc_placed *x = a, *y = b;
    return x->at != y->at ? (x->at < y->at ? 1 : -1) : by_place(x, y);
}

static void sort(size_t count, const double *x, lipsc_placed *order,
                 int (*compare)(const void *, const void *)) {
    for (size_t i = 0; i < count; i++) order[i] = (lipsc_placed){x[i], i};
    qsort(order, count, sizeof *order, compare);
}

void lipsc_order_up(size_t count, const double *x, lipsc_placed *order) {
    sort(count, x, order, upwards);
}

void lipsc_order_down(size_t count, const double *x, lipsc_placed *order) {
    sort(count, x, order, downwards);
}
