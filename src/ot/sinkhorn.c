/* sinkhorn.c - the Sinkhorn divergence, iterated on logarithms so that a small epsilon does
 * not underflow:
 *
 *     f_i = -e log sum_j b_j exp((g_j - c_ij)/e)        and the same for g
 *
 * with e halved from 1 down to the one asked for.  The symmetric problems of a measure with
 * itself take the mean of old and new potential, which converges fast. */
#include "ot/sinkhorn.h"

#include "core/mem.h"
#include "core/vector.h"

#include <math.h>
#include <omp.h>
#include <string.h>

enum { ITERATIONS = 2000 };
static const double marginal_error = 1e-6;

/* Cost rows in one direction, with one row of room per thread. */
typedef struct {
    lipsc_ot_cost cost;
    double *rows;
} side;

static lipsc_status make_side(size_t n, const double *x, size_t m, const double *y,
                              size_t d, double p, side *out) {
    const lipsc_status status = lipsc_ot_cost_make(n, m, d, p, x, y, 1.0, 0, &out->cost);
    if (status) return status;
    size_t room;
    out->rows = lipsc_mul_size((size_t)omp_get_max_threads(), m, &room)
                    ? lipsc_alloc(room, sizeof *out->rows)
                    : NULL;
    return out->rows ? LIPSC_OK : LIPSC_E_NOMEM;
}

static void free_side(side *s) {
    lipsc_ot_cost_free(&s->cost);
    lipsc_release(s->rows);
}

/* f_i = -e log sum_j exp((g_j - c_ij)/e + log b_j) */
static void soften(const side *s, const double *log_b, double e, const double *g,
                   double *f) {
    const size_t m = s->cost.m;
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < s->cost.n; i++) {
        double *row = s->rows + (size_t)omp_get_thread_num() * m;
        lipsc_ot_cost_compute(&s->cost, i, row);
        double largest = -INFINITY, sum = 0.0;
        for (size_t j = 0; j < m; j++) {
            row[j] = (g[j] - row[j]) / e + log_b[j];
            largest = row[j] > largest ? row[j] : largest;
        }
        for (size_t j = 0; j < m; j++) sum += exp(row[j] - largest);
        f[i] = -e * (largest + log(sum));
    }
}

/* sum_i a_i |mass that the coupling gives row i, over a_i, less 1| */
static double row_error(size_t n, const double *a, const double *old, const double *renewed,
                        double e) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) sum += a[i] * fabs(expm1((old[i] - renewed[i]) / e));
    return sum;
}

static lipsc_status iterate(const side *ab, const side *ba, const double *a,
                            const double *log_a, const double *log_b, double epsilon,
                            double *f, double *g, double *room) {
    const size_t n = ab->cost.n;
    const int symmetric = !ba;
    double e = epsilon > 1.0 ? epsilon : 1.0;
    memset(f, 0, n * sizeof *f);
    if (!symmetric) memset(g, 0, ab->cost.m * sizeof *g);
    for (int k = 0; k < ITERATIONS; k++) {
        soften(ab, log_b, e, symmetric ? f : g, room);
        const double error = k ? row_error(n, a, f, room, e) : INFINITY;
        if (symmetric)
            for (size_t i = 0; i < n; i++) f[i] = 0.5 * (f[i] + room[i]);
        else
            memcpy(f, room, n * sizeof *f);
        if (e == epsilon && error <= marginal_error) return LIPSC_OK;
        if (!symmetric) soften(ba, log_a, e, f, g);
        e = 0.5 * e > epsilon ? 0.5 * e : epsilon;
    }
    return LIPSC_E_NOCONV;
}

static lipsc_status worse(lipsc_status a, lipsc_status b) { return a ? a : b; }

/* The points of the columns, (m, d). */
static double *transposed(const lipsc_ot_cost *cost) {
    double *y = lipsc_alloc(cost->m * cost->d, sizeof *y);
    for (size_t j = 0; y && j < cost->m; j++)
        for (size_t k = 0; k < cost->d; k++) y[j * cost->d + k] = cost->y[k * cost->m + j];
    return y;
}

lipsc_status lipsc_ot_sinkhorn(const lipsc_ot_cost *cost, const double *a, const double *b,
                               double epsilon, double *f, double *g, double *value) {
    const size_t n = cost->n, m = cost->m, d = cost->d, longest = n > m ? n : m;
    side ab = {0}, ba = {0}, aa = {0}, bb = {0};
    double *logs = lipsc_alloc(n + m, sizeof *logs), *y = transposed(cost);
    double *room = lipsc_alloc(2 * longest, sizeof *room),
           *own = room ? room + longest : NULL;
    lipsc_status status = logs && y && room ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) status = make_side(n, cost->x, m, y, d, cost->p, &ab);
    if (!status) status = make_side(m, y, n, cost->x, d, cost->p, &ba);
    if (!status) status = make_side(n, cost->x, n, cost->x, d, cost->p, &aa);
    if (!status) status = make_side(m, y, m, y, d, cost->p, &bb);
    if (!status) {
        double *log_a = logs, *log_b = logs + n;
        for (size_t i = 0; i < n; i++) log_a[i] = log(a[i]);
        for (size_t j = 0; j < m; j++) log_b[j] = log(b[j]);
        status = iterate(&ab, &ba, a, log_a, log_b, epsilon, f, g, room);
        status =
            worse(status, iterate(&aa, NULL, a, NULL, log_a, epsilon, own, NULL, room));
        for (size_t i = 0; i < n; i++) f[i] -= own[i];
        status =
            worse(status, iterate(&bb, NULL, b, NULL, log_b, epsilon, own, NULL, room));
        for (size_t j = 0; j < m; j++) g[j] -= own[j];
        *value = lipsc_dot(n, a, f) + lipsc_dot(m, b, g);
    }
    free_side(&ab);
    free_side(&ba);
    free_side(&aa);
    free_side(&bb);
    lipsc_release(logs);
    lipsc_release(y);
    lipsc_release(room);
    return status;
}
