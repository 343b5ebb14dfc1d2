/* line.c - exact transport on a line: both measures in order, mass against mass.
 *
 * |x - y|^p with p >= 1 satisfies c(x,y) + c(x',y') <= c(x,y') + c(x',y) for x <= x',
 * y <= y', so the monotone coupling is optimal, and the potentials found by following it
 * (f_i + g_j = c_ij at each step) are feasible. */
#include "ot/exact.h"

#include "core/mem.h"
#include "core/order.h"

static void couple(const lipsc_ot_cost *cost, const double *a, const double *b,
                   const lipsc_placed *x, const lipsc_placed *y, lipsc_ot_plan *plan) {
    size_t i = 0, j = 0;
    double left = a[x[0].index], right = b[y[0].index];
    plan->f[x[0].index] = 0.0;
    plan->g[y[0].index] = lipsc_ot_cost_at(cost, x[0].index, y[0].index);
    for (;;) {
        /* what rounding leaves over stays with the last atom of the other side */
        const int last_i = i + 1 == cost->n, last_j = j + 1 == cost->m;
        const double mass = last_j && !last_i   ? left
                            : last_i && !last_j ? right
                            : left < right      ? left
                                                : right;
        if (mass > 0)
            plan->moves[plan->count++] = (lipsc_move){x[i].index, y[j].index, mass};
        if (last_i && last_j) return;
        left -= mass;
        right -= mass;
        if (last_j || (!last_i && left <= right)) {
            i++;
            left = a[x[i].index];
            plan->f[x[i].index] =
                lipsc_ot_cost_at(cost, x[i].index, y[j].index) - plan->g[y[j].index];
        } else {
            j++;
            right = b[y[j].index];
            plan->g[y[j].index] =
                lipsc_ot_cost_at(cost, x[i].index, y[j].index) - plan->f[x[i].index];
        }
    }
}

lipsc_status lipsc_ot_line(const lipsc_ot_cost *cost, const double *a, const double *b,
                           lipsc_ot_plan *plan) {
    lipsc_placed *x = lipsc_alloc(cost->n, sizeof *x), *y = lipsc_alloc(cost->m, sizeof *y);
    plan->moves = lipsc_alloc(cost->n + cost->m, sizeof *plan->moves);
    plan->count = 0;
    const int ready = x && y && plan->moves;
    if (ready) {
        lipsc_order_up(cost->n, cost->x, x);
        lipsc_order_up(cost->m, cost->y, y);
        couple(cost, a, b, x, y, plan);
    }
    lipsc_release(x);
    lipsc_release(y);
    return ready ? LIPSC_OK : LIPSC_E_NOMEM;
}
