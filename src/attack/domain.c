/* domain.c - parametrisation, projection and tangent gradient of every domain. */
#include "attack/domain.h"

#include <math.h>
#include <string.h>

#include "core/error.h"
#include "core/extreme.h"
#include "core/vector.h"

lipsc_status lipsc_region_make(const lipsc_attack_settings *set, size_t d,
                               lipsc_region *out, lipsc_error *err) {
    *out = (lipsc_region){.kind = set->domain,
                          .n = set->n,
                          .d = d,
                          .masses = set->masses,
                          .radius = set->radius,
                          .centre = set->centre,
                          .gain = set->gain,
                          .shift = set->shift,
                          .centred = set->centred};
    if (set->domain == LIPSC_ATTACK_NORM) {
        if (!set->gain)
            return lipsc_fail(err, LIPSC_E_ARG, "domain norm: the layer has no norm");
        out->radius = sqrt((double)d);
    } else if (!(set->radius >= 0.0) || !isfinite(set->radius)) {
        return lipsc_fail(err, LIPSC_E_ARG, "the radius is not a number from 0 on");
    }
    if (set->domain == LIPSC_ATTACK_AROUND && !set->centre)
        return lipsc_fail(err, LIPSC_E_ARG, "domain around: there is no input to be near");
    if (set->domain != LIPSC_ATTACK_AROUND) out->centre = NULL;
    if (set->n == 0) return lipsc_fail(err, LIPSC_E_ARG, "an input of 0 tokens");
    const size_t each = d + (set->masses ? 1 : 0);
    if (d == 0 || set->n > SIZE_MAX / sizeof(double) / each)
        return lipsc_fail(err, LIPSC_E_RANGE, "an input of %zu tokens is too large",
                          set->n);
    out->size = set->n * each;
    return LIPSC_OK;
}

double lipsc_region_reach(const lipsc_region *r) {
    double largest = 0.0;
    if (r->kind == LIPSC_ATTACK_NORM) {
        for (size_t c = 0; c < r->d; c++) largest = lipsc_max(largest, fabs(r->gain[c]));
        return r->radius * largest + (r->shift ? lipsc_length(r->d, r->shift) : 0.0);
    }
    for (size_t i = 0; r->centre && i < r->n; i++)
        largest = lipsc_max(largest, lipsc_length(r->d, r->centre + i * r->d));
    return r->radius + largest;
}

void lipsc_region_place(const lipsc_region *r, const double *y, double *X,
                        double *weights) {
    for (size_t i = 0; i < r->n; i++)
        for (size_t c = 0; c < r->d; c++) {
            const size_t e = i * r->d + c;
            double x = r->radius * y[e];
            if (r->kind == LIPSC_ATTACK_NORM)
                x = r->gain[c] * x + (r->shift ? r->shift[c] : 0.0);
            if (r->centre) x += r->centre[e];
            X[e] = x;
        }
    for (size_t i = 0; r->masses && i < r->n; i++) weights[i] = exp(y[r->n * r->d + i]);
}

static int on_sphere(const lipsc_region *r) {
    return r->kind == LIPSC_ATTACK_SPHERE || r->kind == LIPSC_ATTACK_NORM;
}

static void centre_token(const lipsc_region *r, double *y) {
    double mean = 0.0;
    if (r->kind != LIPSC_ATTACK_NORM || !r->centred) return;
    for (size_t c = 0; c < r->d; c++) mean += y[c];
    mean /= (double)r->d;
    for (size_t c = 0; c < r->d; c++) y[c] -= mean;
}

/* Some unit vector, the same for every token: what a zero is sent to on a sphere. */
static void any_direction(const lipsc_region *r, double *y) {
    memset(y, 0, r->d * sizeof *y);
    y[0] = 1.0;
    if (r->kind == LIPSC_ATTACK_NORM && r->centred && r->d > 1) {
        y[0] = sqrt(0.5);
        y[1] = -y[0];
    }
}

/* y becomes the nearest point of the region. */
static void project(const lipsc_region *r, double *y) {
    for (size_t i = 0; i < r->n; i++) {
        double *token = y + i * r->d;
        centre_token(r, token);
        const double length = lipsc_length(r->d, token);
        if (on_sphere(r) ? length > 0.0 : length > 1.0)
            for (size_t c = 0; c < r->d; c++) token[c] /= length;
        else if (on_sphere(r))
            any_direction(r, token);
    }
    if (!r->masses) return;
    double *t = y + r->n * r->d, largest = t[0];
    for (size_t i = 1; i < r->n; i++) largest = lipsc_max(largest, t[i]);
    for (size_t i = 0; i < r->n; i++) t[i] = lipsc_max(t[i] - largest, -LIPSC_MASS_SPAN);
}

void lipsc_region_enter(const lipsc_region *r, const double *X, const double *log_weights,
                        double *y) {
    for (size_t i = 0; i < r->n; i++)
        for (size_t c = 0; c < r->d; c++) {
            const size_t e = i * r->d + c;
            double x = X[e], unit = r->radius;
            if (r->centre) x -= r->centre[e];
            if (r->kind == LIPSC_ATTACK_NORM) {
                x -= r->shift ? r->shift[c] : 0.0;
                unit *= r->gain[c];
            }
            y[e] = unit != 0.0 ? x / unit : 0.0;
        }
    for (size_t i = 0; r->masses && i < r->n; i++)
        y[r->n * r->d + i] = log_weights ? log_weights[i] : 0.0;
    project(r, y);
}

void lipsc_region_pull(const lipsc_region *r, double *grad_X, const double *grad_log_weight,
                       double *g) {
    for (size_t i = 0; i < r->n; i++)
        for (size_t c = 0; c < r->d; c++) {
            const size_t e = i * r->d + c;
            g[e] = r->radius * grad_X[e];
            if (r->kind == LIPSC_ATTACK_NORM) g[e] *= r->gain[c];
        }
    for (size_t i = 0; i < r->n; i++) centre_token(r, g + i * r->d);
    if (r->masses) memcpy(g + r->n * r->d, grad_log_weight, r->n * sizeof *g);
}

void lipsc_region_move(const lipsc_region *r, const double *y, double step, const double *g,
                       double *to) {
    for (size_t e = 0; e < r->size; e++) to[e] = y[e] + step * g[e];
    project(r, to);
}

void lipsc_region_tangent(const lipsc_region *r, const double *y, double *g) {
    for (size_t i = 0; i < r->n; i++) {
        const double *at = y + i * r->d;
        double *to = g + i * r->d, along = 0.0, length = 0.0;
        for (size_t c = 0; c < r->d; c++) {
            along += at[c] * to[c];
            length += at[c] * at[c];
        }
        if (!on_sphere(r) && (along <= 0.0 || length < 1.0 - 1e-12)) continue;
        for (size_t c = 0; c < r->d; c++) to[c] -= along * at[c];
    }
}
