/* conditional.c - the distance of the masked mean field: mass stays at its time.
 *
 *     d_p(a, b)^p = sum over times t of theta(t) W_p(a(.|t), b(.|t))^p
 *
 * for measures with the same masses theta(t) at the same times. */
#include "ot/block.h"
#include "core/extreme.h"

#include "core/error.h"
#include "core/mem.h"
#include "core/order.h"

#include <math.h>

static const double mass_tolerance = 1e-9; /* as for the sum of the weights */

static lipsc_placed *in_order(const lipsc_measure *of) {
    lipsc_placed *order = lipsc_alloc(of->n, sizeof *order);
    if (!order) return NULL;
    lipsc_order_up(of->n, of->times, order);
    return order;
}

/* Atoms first ... first + count - 1 in the order of time have the same time. */
typedef struct {
    size_t first, count;
    double time, mass;
} fibre;

static fibre fibre_at(const lipsc_placed *order, size_t n, const double *weights,
                      size_t first) {
    fibre at = {.first = first, .time = order[first].at};
    for (size_t k = first; k < n && order[k].at == at.time; k++, at.count++)
        at.mass += weights[order[k].index];
    return at;
}

/* Points and conditional weights of a fibre. */
static void gather(const lipsc_measure *of, const double *weights,
                   const lipsc_placed *order, const fibre *at, double *points,
                   double *conditional) {
    for (size_t k = 0; k < at->count; k++) {
        const size_t i = order[at->first + k].index;
        for (size_t c = 0; c < of->d; c++)
            points[k * of->d + c] = of->points[i * of->d + c];
        conditional[k] = weights[i] / at->mass;
    }
}

typedef struct {
    const lipsc_measure *a, *b;
    lipsc_placed *order_a, *order_b;
    double *room; /* points, weights and potentials of two fibres */
    lipsc_ot_block *whole;
} work;

/* Takes over what one fibre gave. */
static void collect(const work *w, const fibre *fa, const fibre *fb,
                    const lipsc_ot_block *part) {
    lipsc_ot_block *whole = w->whole;
    whole->cost += fa->mass * part->cost;
    whole->gap += fa->mass * part->gap;
    whole->imbalance = lipsc_max(whole->imbalance, fa->mass * part->imbalance);
    whole->pivots += part->pivots;
    for (size_t k = 0; k < fa->count; k++)
        whole->f[w->order_a[fa->first + k].index] = part->f[k];
    for (size_t k = 0; k < fb->count; k++)
        whole->g[w->order_b[fb->first + k].index] = part->g[k];
    for (size_t k = 0; k < part->count; k++)
        whole->moves[whole->count++] =
            (lipsc_move){w->order_a[fa->first + part->moves[k].from].index,
                         w->order_b[fb->first + part->moves[k].to].index,
                         fa->mass * part->moves[k].mass};
}

static lipsc_status solve_fibre(const work *w, const fibre *fa, const fibre *fb) {
    const size_t n = fa->count, m = fb->count, d = w->a->d;
    double *x = w->room, *y = x + n * d, *a = y + m * d, *b = a + n, *f = b + m, *g = f + n;
    lipsc_ot_block part = *w->whole;
    gather(w->a, w->whole->a, w->order_a, fa, x, a);
    gather(w->b, w->whole->b, w->order_b, fb, y, b);
    part.n = n;
    part.m = m;
    part.x = x;
    part.y = y;
    part.a = a;
    part.b = b;
    part.f = f;
    part.g = g;
    part.pivots = 0;
    const lipsc_status status = lipsc_ot_block_solve(&part);
    if (!status || (status == LIPSC_E_NOCONV && part.epsilon > 0))
        collect(w, fa, fb, &part);
    lipsc_release(part.moves);
    return status;
}

/* Times and masses of both have to agree before anything is solved. */
static lipsc_status compare_times(const work *w, lipsc_error *err) {
    size_t i = 0, j = 0;
    while (i < w->a->n || j < w->b->n) {
        const double none = INFINITY;
        const double ta = i < w->a->n ? w->order_a[i].at : none;
        const double tb = j < w->b->n ? w->order_b[j].at : none;
        if (ta != tb)
            return lipsc_fail(err, LIPSC_E_REFUSED,
                              "the time marginals differ: only the %s measure has atoms at "
                              "time %.17g",
                              ta < tb ? "first" : "second", lipsc_min(ta, tb));
        const fibre fa = fibre_at(w->order_a, w->a->n, w->whole->a, i);
        const fibre fb = fibre_at(w->order_b, w->b->n, w->whole->b, j);
        if (fabs(fa.mass - fb.mass) > mass_tolerance)
            return lipsc_fail(err, LIPSC_E_REFUSED,
                              "the time marginals differ: at time %.17g the first measure "
                              "has mass %.17g, the second %.17g",
                              ta, fa.mass, fb.mass);
        i += fa.count;
        j += fb.count;
    }
    return LIPSC_OK;
}

static lipsc_status solve_all(const work *w) {
    lipsc_status worst = LIPSC_OK;
    for (size_t i = 0, j = 0; i < w->a->n;) {
        const fibre fa = fibre_at(w->order_a, w->a->n, w->whole->a, i);
        const fibre fb = fibre_at(w->order_b, w->b->n, w->whole->b, j);
        const lipsc_status status = solve_fibre(w, &fa, &fb);
        if (status && !(status == LIPSC_E_NOCONV && w->whole->epsilon > 0)) return status;
        if (status) worst = status;
        i += fa.count;
        j += fb.count;
    }
    return worst;
}

lipsc_status lipsc_ot_conditional(const lipsc_measure *a, const lipsc_measure *b,
                                  lipsc_ot_block *whole, lipsc_error *err) {
    work w = {.a = a, .b = b, .whole = whole};
    w.order_a = in_order(a);
    w.order_b = in_order(b);
    w.room = lipsc_alloc((a->n + b->n), (a->d + 2) * sizeof *w.room);
    whole->moves = lipsc_alloc(a->n + b->n, sizeof *whole->moves);
    whole->count = 0;
    whole->cost = whole->gap = whole->imbalance = 0.0;
    lipsc_status status =
        w.order_a && w.order_b && w.room && whole->moves ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) status = compare_times(&w, err);
    if (!status) status = solve_all(&w);
    whole->method = whole->epsilon > 0 ? "sinkhorn" : "conditional";
    if (whole->epsilon > 0) whole->imbalance = NAN;
    lipsc_release(w.order_a);
    lipsc_release(w.order_b);
    lipsc_release(w.room);
    return status;
}
