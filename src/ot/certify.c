/* certify.c - checks a distance in plain loops: the plan and the potentials against the
 * measures, nothing else.
 *
 * If f_i + g_j <= c_ij + v for all pairs, every coupling costs at least dual - v; if the
 * plan is a coupling, its cost is at most that of primal.  So distance^p lies between. */
#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"

#include <math.h>

static double length_power(size_t d, const double *x, const double *y, double p) {
    double largest = 0.0, sum = 0.0;
    for (size_t k = 0; k < d; k++) largest = lipsc_max(largest, fabs(x[k] - y[k]));
    if (largest == 0.0) return 0.0;
    for (size_t k = 0; k < d; k++) {
        const double ratio = (x[k] - y[k]) / largest;
        sum += ratio * ratio;
    }
    return pow(largest * sqrt(sum), p);
}

static double weight_of(const lipsc_measure *of, size_t i) {
    return of->weights ? of->weights[i] : 1.0 / (double)of->n;
}

static lipsc_status check_plan(const lipsc_measure *a, const lipsc_measure *b,
                               const lipsc_distance *distance, lipsc_distance_proof *out) {
    double *rest = lipsc_alloc(a->n + b->n, sizeof *rest);
    if (!rest) return LIPSC_E_NOMEM;
    for (size_t i = 0; i < a->n; i++) rest[i] = weight_of(a, i);
    for (size_t j = 0; j < b->n; j++) rest[a->n + j] = weight_of(b, j);
    out->primal = 0.0;
    for (size_t k = 0; k < distance->moves; k++) {
        const lipsc_move *move = &distance->plan[k];
        if (move->from >= a->n || move->to >= b->n || !(move->mass >= 0)) {
            lipsc_release(rest);
            return LIPSC_E_ARG;
        }
        out->primal += move->mass * length_power(a->d, a->points + move->from * a->d,
                                                 b->points + move->to * b->d, distance->p);
        rest[move->from] -= move->mass;
        rest[a->n + move->to] -= move->mass;
        if (distance->conditional && a->times[move->from] != b->times[move->to])
            out->imbalance = INFINITY; /* mass has changed its time */
    }
    for (size_t v = 0; v < a->n + b->n; v++)
        out->imbalance = lipsc_max(out->imbalance, fabs(rest[v]));
    lipsc_release(rest);
    return LIPSC_OK;
}

lipsc_status lipsc_distance_certify(const lipsc_measure *a, const lipsc_measure *b,
                                    const lipsc_distance *distance,
                                    lipsc_distance_proof *out, lipsc_error *err) {
    if (!distance->f || !distance->g || a->d != b->d)
        return lipsc_fail(err, LIPSC_E_ARG, "no potentials, or measures of two widths");
    if (distance->conditional && (!a->times || !b->times))
        return lipsc_fail(err, LIPSC_E_ARG, "a conditional distance needs times");
    lipsc_distance_proof proof = {.primal = NAN};
    if (distance->plan) {
        const lipsc_status status = check_plan(a, b, distance, &proof);
        if (status)
            return lipsc_fail(err, status, "the plan cannot be checked: %s",
                              lipsc_strerror(status));
    } else {
        proof.imbalance = NAN;
    }
    for (size_t i = 0; i < a->n; i++) proof.dual += weight_of(a, i) * distance->f[i];
    for (size_t j = 0; j < b->n; j++) proof.dual += weight_of(b, j) * distance->g[j];
    for (size_t i = 0; i < a->n; i++)
        for (size_t j = 0; j < b->n; j++) {
            if (distance->conditional && a->times[i] != b->times[j]) continue;
            const double cost =
                length_power(a->d, a->points + i * a->d, b->points + j * b->d, distance->p);
            proof.violation =
                lipsc_max(proof.violation, distance->f[i] + distance->g[j] - cost);
        }
    *out = proof;
    return LIPSC_OK;
}
