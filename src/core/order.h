/* order.h - numbers in their order, with where each one stood. */
#ifndef LIPSC_CORE_ORDER_H
#define LIPSC_CORE_ORDER_H

#include <stddef.h>

typedef struct {
    double at;
    size_t index;
} lipsc_placed;

/* order (count): x from the least up, or from the largest down; equal ones as they stood.
 */
void lipsc_order_up(size_t count, const double *x, lipsc_placed *order);
void lipsc_order_down(size_t count, const double *x, lipsc_placed *order);

#endif
