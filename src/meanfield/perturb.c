/* perturb.c - finite perturbations of a measure that show its local constants. */
#include "core/error.h"
#include "core/extreme.h"
#include "meanfield/meanfield.h"
#include "ot/check.h"

#include <math.h>
#include <string.h>

/* A light atom reaches further than step within the distance step; past `farthest` steps
 * the curvature of the map would show, so all displacements are shrunk together. */
static const double farthest = 10.0;

/* mu with room for `more` atoms behind its own.  The atoms of a causal sequence get the
 * times of their places, which its parts are to share. */
static lipsc_status copy(const lipsc_measure *mu, int timed, size_t more, lipsc_cloud *out,
                         lipsc_cloud_parts *parts, lipsc_error *err) {
    const size_t n = mu->n, d = mu->d;
    lipsc_status status = lipsc_cloud_new(n + more, d, timed, out, parts, err);
    if (status) return status;
    memcpy(parts->points, mu->points, n * d * sizeof *parts->points);
    for (size_t i = 0; i < n; i++) {
        parts->weights[i] = mu->weights ? mu->weights[i] : 1.0 / (double)n;
        if (timed) parts->times[i] = mu->times ? mu->times[i] : lipsc_time_of(i, n);
    }
    return LIPSC_OK;
}

static void move(const lipsc_slopes *s, double step, const lipsc_cloud_parts *parts) {
    double longest = 0.0;
    for (size_t i = 0; i < s->n; i++) {
        double square = 0.0;
        for (size_t c = 0; c < s->d; c++)
            square += s->direction[i * s->d + c] * s->direction[i * s->d + c];
        longest = lipsc_max(longest, sqrt(square));
    }
    const double factor = longest > farthest ? step * farthest / longest : step;
    for (size_t e = 0; e < s->n * s->d; e++) parts->points[e] += factor * s->direction[e];
}

/* A part of the weight of atom i, and its time, as the last atom. */
static void part_with(const lipsc_slopes *s, size_t i, double weight,
                      const lipsc_cloud_parts *parts) {
    parts->weights[i] -= weight;
    parts->weights[s->n] = weight;
    if (parts->times) parts->times[s->n] = parts->times[i];
}

static void split(const lipsc_slopes *s, double step, const lipsc_cloud_parts *parts) {
    double *x = parts->points + s->split_atom * s->d, *y = parts->points + s->n * s->d;
    part_with(s, s->split_atom, 0.5 * parts->weights[s->split_atom], parts);
    for (size_t c = 0; c < s->d; c++) {
        y[c] = x[c] - step * s->half[c];
        x[c] += step * s->half[c];
    }
}

static void teleport(const lipsc_slopes *s, double step, const lipsc_cloud_parts *parts) {
    const size_t i = s->teleport_atom;
    part_with(s, i, step * lipsc_min(step, 0.1 * parts->weights[i]), parts);
    memcpy(parts->points + s->n * s->d, s->target, s->d * sizeof *s->target);
}

lipsc_status lipsc_slopes_perturb(const lipsc_slopes *slopes, const lipsc_measure *mu,
                                  lipsc_perturbation kind, double step, lipsc_cloud *out,
                                  lipsc_error *err) {
    lipsc_cloud_parts parts = {0};
    lipsc_status status = lipsc_measure_check(mu, "given", err);
    if (status) return status;
    if (mu->n != slopes->n || mu->d != slopes->d)
        return lipsc_fail(err, LIPSC_E_ARG, "these slopes are those of another measure");
    if (!(step > 0.0 && step < 1.0))
        return lipsc_fail(err, LIPSC_E_ARG, "the step must lie between 0 and 1");
    if (kind != LIPSC_PERTURB_MOVE && kind != LIPSC_PERTURB_SPLIT &&
        kind != LIPSC_PERTURB_TELEPORT)
        return lipsc_fail(err, LIPSC_E_ARG, "kind = %d is no perturbation", (int)kind);
    status = copy(mu, slopes->masked, kind != LIPSC_PERTURB_MOVE, out, &parts, err);
    if (status) return status;
    if (kind == LIPSC_PERTURB_MOVE)
        move(slopes, step, &parts);
    else if (kind == LIPSC_PERTURB_SPLIT)
        split(slopes, step, &parts);
    else
        teleport(slopes, step, &parts);
    return LIPSC_OK;
}
