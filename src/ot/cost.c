/* cost.c - the cost |x_i - y_j|^p between two sets of points, row by row.
 *
 * Squared distances are sums of squared differences, not |x|^2 - 2 x.y + |y|^2: equal
 * points have cost zero exactly, and near ones keep their digits. */
#include "ot/cost.h"

#include "core/mem.h"

#include <math.h>
#include <string.h>

enum { STRIP = 512 }; /* entries of a row that stay in the first cache while d runs */

static double power_of_square(double square, double p) {
    if (p == 2.0) return square;
    if (p == 1.0) return sqrt(square);
    if (p == 3.0) return square * sqrt(square);
    if (p == 4.0) return square * square;
    if (p == 1.5) {
        const double length = sqrt(square);
        return length * sqrt(length);
    }
    return pow(square, 0.5 * p);
}

static void raise_squares(size_t count, double p, double *row) {
    if (p == 2.0) return;
    if (p == 1.0) {
        for (size_t j = 0; j < count; j++) row[j] = sqrt(row[j]);
    } else if (p == 3.0) {
        for (size_t j = 0; j < count; j++) row[j] *= sqrt(row[j]);
    } else if (p == 1.5) {
        for (size_t j = 0; j < count; j++) {
            const double length = sqrt(row[j]);
            row[j] = length * sqrt(length);
        }
    } else {
        for (size_t j = 0; j < count; j++) row[j] = power_of_square(row[j], p);
    }
}

void lipsc_ot_cost_compute(const lipsc_ot_cost *cost, size_t i, double *row) {
    const size_t m = cost->m, d = cost->d;
    const double *x = cost->x + i * d;
    for (size_t first = 0; first < m; first += STRIP) {
        const size_t count = m - first < STRIP ? m - first : STRIP;
        double *restrict to = row + first;
        memset(to, 0, count * sizeof *to);
        for (size_t k = 0; k < d; k++) {
            const double *restrict y = cost->y + k * m + first;
            const double at = x[k];
            for (size_t j = 0; j < count; j++) {
                const double difference = at - y[j];
                to[j] += difference * difference;
            }
        }
        raise_squares(count, cost->p, to);
    }
}

const double *lipsc_ot_cost_row(const lipsc_ot_cost *cost, size_t i) {
    if (cost->dense) return cost->dense + i * cost->m;
    lipsc_ot_cost_compute(cost, i, cost->room);
    return cost->room;
}

double lipsc_ot_cost_at(const lipsc_ot_cost *cost, size_t i, size_t j) {
    if (cost->dense) return cost->dense[i * cost->m + j];
    double square = 0.0;
    for (size_t k = 0; k < cost->d; k++) {
        const double difference = cost->x[i * cost->d + k] - cost->y[k * cost->m + j];
        square += difference * difference;
    }
    return power_of_square(square, cost->p);
}

void lipsc_ot_cost_free(lipsc_ot_cost *cost) {
    lipsc_release(cost->x);
    lipsc_release(cost->y);
    lipsc_release(cost->dense);
    lipsc_release(cost->room);
    *cost = (lipsc_ot_cost){0};
}

static lipsc_status allocate(lipsc_ot_cost *cost, size_t dense_limit) {
    size_t left, right, entries;
    if (!lipsc_mul_size(cost->n, cost->d, &left) ||
        !lipsc_mul_size(cost->m, cost->d, &right) ||
        !lipsc_mul_size(cost->n, cost->m, &entries))
        return LIPSC_E_RANGE;
    cost->x = lipsc_alloc(left, sizeof *cost->x);
    cost->y = lipsc_alloc(right, sizeof *cost->y);
    cost->room = lipsc_alloc(cost->m, sizeof *cost->room);
    if (!cost->x || !cost->y || !cost->room) return LIPSC_E_NOMEM;
    /* without memory for the matrix the costs are computed when asked for */
    if (entries <= dense_limit) cost->dense = lipsc_alloc(entries, sizeof *cost->dense);
    return LIPSC_OK;
}

static void fill_dense(lipsc_ot_cost *cost) {
    if (!cost->dense) return;
    for (size_t i = 0; i < cost->n; i++)
        lipsc_ot_cost_compute(cost, i, cost->dense + i * cost->m);
}

lipsc_status lipsc_ot_cost_make(size_t n, size_t m, size_t d, double p, const double *x,
                                const double *y, double scale, size_t dense_limit,
                                lipsc_ot_cost *out) {
    *out = (lipsc_ot_cost){.n = n, .m = m, .d = d, .p = p};
    const lipsc_status status = allocate(out, dense_limit);
    if (status) {
        lipsc_ot_cost_free(out);
        return status;
    }
    for (size_t i = 0; i < n * d; i++) out->x[i] = x[i] * scale;
    for (size_t j = 0; j < m; j++)
        for (size_t k = 0; k < d; k++) out->y[k * m + j] = y[j * d + k] * scale;
    fill_dense(out);
    return LIPSC_OK;
}

lipsc_status lipsc_ot_cost_part(const lipsc_ot_cost *of, size_t n, const size_t *rows,
                                size_t m, const size_t *columns, lipsc_ot_cost *out) {
    const size_t d = of->d;
    *out = (lipsc_ot_cost){.n = n, .m = m, .d = d, .p = of->p};
    const lipsc_status status = allocate(out, of->dense ? of->n * of->m : 0);
    if (status) {
        lipsc_ot_cost_free(out);
        return status;
    }
    for (size_t i = 0; i < n; i++)
        memcpy(out->x + i * d, of->x + rows[i] * d, d * sizeof *out->x);
    for (size_t k = 0; k < d; k++)
        for (size_t j = 0; j < m; j++) out->y[k * m + j] = of->y[k * of->m + columns[j]];
    fill_dense(out);
    return LIPSC_OK;
}
