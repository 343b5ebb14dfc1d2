/* exact.c - exact transport between any weighted points: network simplex on a short list of
 * arcs, made from a coarse solution and completed by pricing all pairs.
 *
 * A quarter of the points is solved first (and a quarter of those before, ...).  Its
 * potentials, carried to all points by f_i = min_j c_ij - g_j, are nearly optimal, so that
 * the few arcs of smallest reduced cost at each point hold nearly all of an optimal tree.
 * After the solve on that list every pair is priced; those of negative reduced cost join
 * the list until there are none.  Memory grows with n + m; the answer does not depend on
 * how good the list was. */
#include "ot/exact.h"

#include "core/extreme.h"
#include "core/mem.h"
#include "core/rng.h"
#include "ot/simplex.h"

#include <math.h>
#include <string.h>

enum {
    WHOLE = 64 * 64, /* at most so many pairs: all arcs are in the list from the start */
    COARSER = 4,     /* points per point of the coarse problem                         */
    FEWEST = 24,     /* ... which keeps at least so many                               */
    NEAR = 16,       /* arcs kept for each point                                       */
    ADDED = 4,       /* arcs added for a source in one round of pricing                */
    POLISH = 4       /* rounds with a finer tolerance                                  */
};

/* Reduced costs are sums of a few numbers of size 1.  Pairs outside the list have to be
 * worse than those in it, lest one that is in it already joins it again and again. */
static const double usual_tolerance = 2e-14, joining = 1.5;

/* Of mass that the list does not carry, in units of the cost: where all costs are equal the
 * list says nothing about it.  Above 2 it outweighs every arc. */
static const double least_penalty = 1e-4, largest_penalty = 100.0;

void lipsc_ot_transform(const lipsc_ot_cost *cost, const double *g, double *f) {
    for (size_t i = 0; i < cost->n; i++) {
        const double *c = lipsc_ot_cost_row(cost, i);
        double lane[4] = {INFINITY, INFINITY, INFINITY, INFINITY};
        size_t j = 0;
        for (; j + 4 <= cost->m; j += 4)
            for (size_t l = 0; l < 4; l++) {
                const double r = c[j + l] - g[j + l];
                lane[l] = r < lane[l] ? r : lane[l];
            }
        for (; j < cost->m; j++) {
            const double r = c[j] - g[j];
            lane[0] = r < lane[0] ? r : lane[0];
        }
        for (size_t l = 1; l < 4; l++) lane[0] = lane[l] < lane[0] ? lane[l] : lane[0];
        f[i] = lane[0];
    }
}

/* g_j = min_i c_ij - f_i, by rows all the same. */
static void transform_back(const lipsc_ot_cost *cost, const double *f, double *g) {
    for (size_t j = 0; j < cost->m; j++) g[j] = INFINITY;
    for (size_t i = 0; i < cost->n; i++) {
        const double *c = lipsc_ot_cost_row(cost, i);
        const double fi = f[i];
        for (size_t j = 0; j < cost->m; j++) {
            const double r = c[j] - fi;
            g[j] = r < g[j] ? r : g[j];
        }
    }
}

/* ---- Masses as whole numbers ---- */

static int all_equal(size_t count, const double *weights) {
    for (size_t i = 1; i < count; i++)
        if (weights[i] != weights[0]) return 0;
    return 1;
}

/* Weights of sum 1 in units of 2^-60; the largest takes what rounding has left.  A mass is
 * then off by 2^-61, the cost, which is at most 1 a unit of mass, by (n + m) 2^-61. */
static void count_units(size_t count, const double *weights, int64_t *units) {
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) sum += weights[i];
    int64_t rest = INT64_C(1) << 60;
    size_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        units[i] = (int64_t)llround(ldexp(weights[i] / sum, 60));
        rest -= units[i];
        if (units[i] > units[largest]) largest = i;
    }
    units[largest] += rest;
}

/* Returns the mass of one unit. */
static double make_units(size_t n, const double *a, size_t m, const double *b,
                         int64_t *supply, int64_t *demand) {
    if (all_equal(n, a) && all_equal(m, b)) { /* n and m equal: an assignment */
        for (size_t i = 0; i < n; i++) supply[i] = (int64_t)(n == m ? 1 : m);
        for (size_t j = 0; j < m; j++) demand[j] = (int64_t)(n == m ? 1 : n);
        return 1.0 / (n == m ? (double)n : (double)n * (double)m);
    }
    count_units(n, a, supply);
    count_units(m, b, demand);
    return 0x1p-60;
}

/* ---- The short list ---- */

/* The NEAR smallest numbers seen so far at one point, in order. */
typedef struct {
    float value[NEAR];
    uint32_t other[NEAR];
} nearest;

static void keep_nearest(nearest *at, float value, size_t other) {
    int k = NEAR - 1;
    for (; k > 0 && at->value[k - 1] > value; k--) {
        at->value[k] = at->value[k - 1];
        at->other[k] = at->other[k - 1];
    }
    at->value[k] = value;
    at->other[k] = (uint32_t)other;
}

static void forget(size_t count, nearest *list) {
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < NEAR; k++) list[i].value[k] = INFINITY;
}

/* Reduced costs in single precision: they choose arcs, nothing else. */
static void find_nearest(const lipsc_ot_cost *cost, const double *f, const double *g,
                         nearest *rows, nearest *columns, float *worst) {
    forget(cost->n, rows);
    forget(cost->m, columns);
    for (size_t j = 0; j < cost->m; j++) worst[j] = INFINITY;
    for (size_t i = 0; i < cost->n; i++) {
        const double *c = lipsc_ot_cost_row(cost, i);
        const double fi = f[i];
        float row_worst = INFINITY;
        for (size_t j = 0; j < cost->m; j++) {
            const float r = (float)(c[j] - fi - g[j]);
            if (r < row_worst) {
                keep_nearest(&rows[i], r, j);
                row_worst = rows[i].value[NEAR - 1];
            }
            if (r < worst[j]) {
                keep_nearest(&columns[j], r, i);
                worst[j] = columns[j].value[NEAR - 1];
            }
        }
    }
}

/* Arcs of the simplex with the keys that the first tree is filled by. */
typedef struct {
    lipsc_simplex *simplex;
    float *key;
    size_t room;
    double penalty; /* of what the first tree leaves over */
} list;

static lipsc_status add_key(list *to, const lipsc_ot_cost *cost, size_t i, size_t j,
                            float key) {
    const size_t k = lipsc_simplex_arcs(to->simplex);
    if (k == to->room) return LIPSC_E_RANGE;
    to->key[k] = key;
    return lipsc_simplex_add(to->simplex, i, j, lipsc_ot_cost_at(cost, i, j));
}

static lipsc_status list_all(list *to, const lipsc_ot_cost *cost) {
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; i < cost->n && !status; i++)
        for (size_t j = 0; j < cost->m && !status; j++)
            status = add_key(to, cost, i, j, (float)lipsc_ot_cost_at(cost, i, j));
    return status;
}

static lipsc_status list_near(list *to, const lipsc_ot_cost *cost, const double *f,
                              const double *g) {
    nearest *rows = lipsc_alloc(cost->n, sizeof *rows);
    nearest *columns = lipsc_alloc(cost->m, sizeof *columns);
    float *worst = lipsc_alloc(cost->m, sizeof *worst);
    lipsc_status status = rows && columns && worst ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) find_nearest(cost, f, g, rows, columns, worst);
    for (size_t i = 0; i < cost->n && !status; i++)
        for (int k = 0; k < NEAR && !status && isfinite(rows[i].value[k]); k++)
            status = add_key(to, cost, i, rows[i].other[k], rows[i].value[k]);
    for (size_t j = 0; j < cost->m && !status; j++)
        for (int k = 0; k < NEAR && !status && isfinite(columns[j].value[k]); k++) {
            const size_t i = columns[j].other[k];
            if (columns[j].value[k] > rows[i].value[NEAR - 1]) /* else it is there */
                status = add_key(to, cost, i, j, columns[j].value[k]);
        }
    lipsc_release(rows);
    lipsc_release(columns);
    lipsc_release(worst);
    return status;
}

/* ---- Pricing of all pairs ---- */

/* Adds the most violated arcs of every source; *added counts them. */
static lipsc_status price_all(lipsc_simplex *simplex, const lipsc_ot_cost *cost,
                              const double *f, const double *g, double tolerance,
                              size_t *added) {
    *added = 0;
    for (size_t i = 0; i < cost->n; i++) {
        const double *c = lipsc_ot_cost_row(cost, i);
        const double limit = f[i] - joining * tolerance;
        double value[ADDED];
        size_t other[ADDED];
        int count = 0;
        for (size_t first = 0; first < cost->m; first += 32) {
            const size_t end = first + 32 < cost->m ? first + 32 : cost->m;
            int any = 0;
            for (size_t j = first; j < end; j++) any |= c[j] - g[j] < limit;
            if (!any) continue;
            for (size_t j = first; j < end; j++) {
                const double r = c[j] - g[j];
                if (!(r < limit) || (count == ADDED && r >= value[ADDED - 1])) continue;
                int k = count < ADDED ? count++ : ADDED - 1;
                for (; k > 0 && value[k - 1] > r; k--) {
                    value[k] = value[k - 1];
                    other[k] = other[k - 1];
                }
                value[k] = r;
                other[k] = j;
            }
        }
        for (int k = 0; k < count; k++) {
            const lipsc_status status =
                lipsc_simplex_add(simplex, i, other[k], c[other[k]]);
            if (status) return status;
        }
        *added += (size_t)count;
    }
    return LIPSC_OK;
}

/* ---- One level ---- */

static lipsc_status solve(const lipsc_ot_cost *cost, const double *a, const double *b,
                          double *f, double *g, lipsc_simplex **out, double *unit);

/* `count` of `of` indices in random order, the same for every run. */
static void choose(size_t of, size_t count, uint64_t seed, size_t *chosen, size_t *room) {
    for (size_t i = 0; i < of; i++) room[i] = i;
    for (size_t i = 0; i < count; i++) {
        const size_t k = i + (size_t)(lipsc_rng_bits(seed, i) % (of - i));
        const size_t taken = room[k];
        room[k] = room[i];
        chosen[i] = taken;
    }
}

static size_t coarse_count(size_t count) {
    const size_t fewer = count / COARSER;
    return fewer > FEWEST ? fewer : count < FEWEST ? count : FEWEST;
}

/* Potentials of the coarse problem, carried to all points. */
static lipsc_status guess(const lipsc_ot_cost *cost, const double *a, const double *b,
                          double *f, double *g) {
    const size_t n = coarse_count(cost->n), m = coarse_count(cost->m);
    const size_t longest = cost->n > cost->m ? cost->n : cost->m;
    size_t *index = lipsc_alloc(n + m + longest, sizeof *index);
    double *values = lipsc_alloc(2 * (n + m), sizeof *values);
    lipsc_ot_cost part = {0};
    lipsc_status status = index && values ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) {
        choose(cost->n, n, 1, index, index + n + m);
        choose(cost->m, m, 2, index + n, index + n + m);
        status = lipsc_ot_cost_part(cost, n, index, m, index + n, &part);
    }
    if (!status) {
        double *fn = values, *gm = values + n, *an = gm + m, *bm = an + n, unit;
        for (size_t i = 0; i < n; i++) an[i] = a[index[i]];
        for (size_t j = 0; j < m; j++) bm[j] = b[index[n + j]];
        status = solve(&part, an, bm, fn, gm, NULL, &unit);
        for (size_t j = 0; j < cost->m && !status; j++) g[j] = INFINITY;
        for (size_t i = 0; i < n && !status; i++) { /* g_j = min over the chosen i */
            const double *c = lipsc_ot_cost_row(cost, index[i]);
            for (size_t j = 0; j < cost->m; j++) {
                const double r = c[j] - fn[i];
                g[j] = r < g[j] ? r : g[j];
            }
        }
        if (!status) lipsc_ot_transform(cost, g, f);
        if (!status) transform_back(cost, f, g);
    }
    lipsc_ot_cost_free(&part);
    lipsc_release(index);
    lipsc_release(values);
    return status;
}

static double mean_key(const list *of) {
    const size_t count = lipsc_simplex_arcs(of->simplex);
    double sum = 0.0;
    for (size_t k = 0; k < count; k++) sum += of->key[k];
    return sum / (double)count;
}

static lipsc_status make_list(list *to, const lipsc_ot_cost *cost, const double *a,
                              const double *b, double *f, double *g) {
    const size_t total = cost->n + cost->m;
    const int whole = cost->n <= WHOLE / cost->m; /* n m <= WHOLE */
    to->room = whole ? cost->n * cost->m : NEAR * total;
    to->key = lipsc_alloc(to->room, sizeof *to->key);
    if (!to->key) return LIPSC_E_NOMEM;
    if (whole) {
        for (size_t i = 0; i < cost->n; i++) f[i] = 0.0;
        for (size_t j = 0; j < cost->m; j++) g[j] = 0.0;
        to->penalty = 2.0;
        return list_all(to, cost);
    }
    lipsc_status status = guess(cost, a, b, f, g);
    if (!status) status = list_near(to, cost, f, g);
    to->penalty = lipsc_max(16.0 * mean_key(to), least_penalty);
    return status;
}

static lipsc_status optimise(lipsc_simplex *simplex, const lipsc_ot_cost *cost,
                             double penalty, double *f, double *g) {
    const long most = 1000000 + 1000 * (long)(cost->n + cost->m); /* far beyond need */
    for (;;) {
        size_t added;
        lipsc_status status = lipsc_simplex_run(simplex, usual_tolerance, most);
        lipsc_simplex_potentials(simplex, f, g);
        if (!status) status = price_all(simplex, cost, f, g, usual_tolerance, &added);
        if (status) return status;
        if (added) continue;
        if (lipsc_simplex_left_over(simplex) == 0) return LIPSC_OK;
        if (penalty > largest_penalty) return LIPSC_E_NOCONV; /* masses do not balance */
        lipsc_simplex_raise(simplex, 3.0 * penalty);
        penalty *= 4.0;
    }
}

/* Some rounds with a tolerance that suits the cost that was found, as far as rounding lets
 * it: it matters where that is far below the largest cost.  Every round keeps a plan. */
static lipsc_status polish(lipsc_simplex *simplex, const lipsc_ot_cost *cost, double unit,
                           double *f, double *g) {
    const size_t total = cost->n + cost->m;
    double value = 0.0, largest = 0.0;
    for (size_t v = 0; v < total; v++) {
        lipsc_ot_arc arc;
        int64_t flow;
        if (lipsc_simplex_flow(simplex, v, &arc, &flow))
            value += (double)flow * unit * arc.cost;
        largest = lipsc_max(largest, fabs(v < cost->n ? f[v] : g[v - cost->n]));
    }
    const double tolerance = lipsc_max(1e-13 * value, 1e-15 * largest);
    lipsc_status status = LIPSC_OK;
    size_t added = 1;
    for (int round = 0; round < POLISH && !status && added; round++) {
        if (tolerance >= usual_tolerance) break;
        status = price_all(simplex, cost, f, g, tolerance, &added);
        /* stopped or not, the tree is a plan */
        (void)lipsc_simplex_run(simplex, tolerance, (long)total);
        lipsc_simplex_potentials(simplex, f, g);
    }
    return status;
}

static lipsc_status solve(const lipsc_ot_cost *cost, const double *a, const double *b,
                          double *f, double *g, lipsc_simplex **out, double *unit) {
    int64_t *units = lipsc_alloc(cost->n + cost->m, sizeof *units);
    list to = {0};
    if (!units) return LIPSC_E_NOMEM;
    *unit = make_units(cost->n, a, cost->m, b, units, units + cost->n);
    lipsc_status status =
        lipsc_simplex_new(cost->n, cost->m, units, units + cost->n, &to.simplex);
    if (!status) status = make_list(&to, cost, a, b, f, g);
    if (!status) status = lipsc_simplex_begin(to.simplex, to.key, f, g, to.penalty);
    lipsc_release(to.key);
    lipsc_release(units);
    if (!status) status = optimise(to.simplex, cost, to.penalty, f, g);
    if (!status && out) status = polish(to.simplex, cost, *unit, f, g);
    if (out && !status)
        *out = to.simplex;
    else
        lipsc_simplex_free(to.simplex);
    return status;
}

lipsc_status lipsc_ot_exact(const lipsc_ot_cost *cost, const double *a, const double *b,
                            lipsc_ot_plan *plan) {
    lipsc_simplex *simplex;
    double unit;
    const lipsc_status status = solve(cost, a, b, plan->f, plan->g, &simplex, &unit);
    if (status) return status;
    plan->moves = lipsc_alloc(cost->n + cost->m, sizeof *plan->moves);
    plan->count = 0;
    plan->pivots = lipsc_simplex_pivots(simplex);
    for (size_t v = 0; plan->moves && v < cost->n + cost->m; v++) {
        lipsc_ot_arc arc;
        int64_t flow;
        if (lipsc_simplex_flow(simplex, v, &arc, &flow) && flow > 0)
            plan->moves[plan->count++] =
                (lipsc_move){arc.from, arc.to, (double)flow * unit};
    }
    lipsc_simplex_free(simplex);
    return plan->moves ? LIPSC_OK : LIPSC_E_NOMEM;
}
