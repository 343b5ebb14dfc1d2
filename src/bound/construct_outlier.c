/* construct_outlier.c - one outlier and n - 1 equal tokens (docs/maths.md 5.1, 5.4, 5.5).
 *
 * Every bulk row gives the outlier p = 1 / (1 + (n-1) e^{-Delta}), and moving the outlier
 * by v moves every bulk output by p V (I + (1-p) b w^T) v. */
#include <math.h>
#include <string.h>

#include "bound/construct.h"
#include "bound/outlier.h"
#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"

lipsc_status lipsc_worst_new(size_t points, size_t d, int timed, lipsc_worst *out) {
    memset(out, 0, sizeof *out);
    size_t numbers;
    if (!lipsc_mul_size(points, d, &numbers)) return LIPSC_E_RANGE;
    out->d = d;
    out->points = points;
    out->log_promised = -INFINITY;
    out->X = lipsc_alloc_zero(numbers, sizeof *out->X);
    out->count = lipsc_alloc_zero(points, sizeof *out->count);
    if (timed) out->times = lipsc_alloc_zero(points, sizeof *out->times);
    if (out->X && out->count && (!timed || out->times)) return LIPSC_OK;
    lipsc_worst_free(out);
    return LIPSC_E_NOMEM;
}

/* ---- The pair ----------------------------------------------------------------------- */

lipsc_status lipsc_outlier_new(const lipsc_head_facts *f, lipsc_outlier *o) {
    const size_t d = f->d;
    memset(o, 0, sizeof *o);
    o->storage = lipsc_alloc_zero(5 * d + f->k, sizeof *o->storage);
    if (!o->storage) return LIPSC_E_NOMEM;
    o->x = o->storage;
    o->y = o->x + d;
    o->w = o->y + d;
    o->b = o->w + d;
    o->both = o->b + d;
    o->room = o->both + d;
    return LIPSC_OK;
}

void lipsc_outlier_free(lipsc_outlier *o) { lipsc_release(o->storage); }

void lipsc_outlier_finish(const lipsc_head_facts *f, lipsc_outlier *o) {
    double square = 0.0;
    lipsc_head_facts_score(f, 1, o->x, o->room, o->w);
    o->delta = 0.0;
    for (size_t c = 0; c < f->d; c++) {
        o->b[c] = o->y[c] - o->x[c];
        o->delta += o->w[c] * o->b[c];
        square += o->b[c] * o->b[c];
    }
    o->gain = square > 0.0 ? lipsc_head_facts_value_length(f, o->b) / sqrt(square) : 0.0;
}

lipsc_status lipsc_outlier_best(const lipsc_head_facts *f, double R, int sphere,
                                lipsc_outlier *o) {
    const lipsc_status status = lipsc_best_delta(f, R, sphere, o->x, &o->delta);
    if (status) return status;
    double square = 0.0;
    lipsc_head_facts_score(f, 1, o->x, o->room, o->w);
    for (size_t c = 0; c < f->d; c++) square += o->w[c] * o->w[c];
    for (size_t c = 0; c < f->d; c++)
        o->y[c] = square > 0.0 ? R * o->w[c] / sqrt(square) : o->x[c];
    lipsc_outlier_finish(f, o);
    return LIPSC_OK;
}

/* ---- What is promised --------------------------------------------------------------- */

static double share(double others, double delta) {
    return 1.0 / (1.0 + others * exp(-delta));
}

/* sqrt(n-1) p |V (I + (1-p) b w^T)|; on the sphere the outlier moves orthogonally to
 * itself, and only V (I - y y^T / R^2) is left because y points along w. */
static lipsc_status promise_unmasked(const lipsc_head_facts *f, const lipsc_outlier *o,
                                     size_t n, int sphere, double *log_promised) {
    const double others = (double)(n - 1), p = share(others, o->delta);
    double norm, square = 0.0;
    for (size_t c = 0; c < f->d; c++) square += o->y[c] * o->y[c];
    const lipsc_status status =
        sphere ? lipsc_head_facts_stretch(f, 1.0, square > 0.0 ? -1.0 / square : 0.0, o->y,
                                          o->y, &norm)
               : lipsc_head_facts_stretch(f, 1.0, 1.0 - p, o->b, o->w, &norm);
    if (!status) *log_promised = 0.5 * log(others) + log(p) + log(norm);
    return status;
}

/* sqrt(sum_{i=2}^n p_i^2 |V (I + (1-p_i) b w^T) v|^2), p_i = 1/(1 + (i-1) e^{-Delta}), for
 * the better of two unit moves v of the outlier:
 *     along b   (1 + (1-p) Delta) |V b| / |b|
 *     along w   |V w/|w| + (1-p) |w| V b|, whose square is A + 2 (1-p) B + (1-p)^2 C */
static double promise_masked(const lipsc_head_facts *f, const lipsc_outlier *o, size_t n) {
    double square = 0.0, by_b = 0.0, by_w = 0.0;
    for (size_t c = 0; c < f->d; c++) square += o->w[c] * o->w[c];
    const double w = sqrt(square);
    double A = 0.0, B = 0.0, C = 0.0;
    if (w > 0.0) {
        const double Vw = lipsc_head_facts_value_length(f, o->w) / w;
        const double Vb = w * lipsc_head_facts_value_length(f, o->b);
        for (size_t c = 0; c < f->d; c++) o->both[c] = o->w[c] / w + w * o->b[c];
        const double sum = lipsc_head_facts_value_length(f, o->both);
        A = Vw * Vw;
        C = Vb * Vb;
        B = 0.5 * (sum * sum - A - C);
    }
    for (size_t i = 1; i < n; i++) {
        const double p = share((double)i, o->delta), q = 1.0 - p;
        const double part = p * (1.0 + q * o->delta) * o->gain;
        by_b += part * part;
        by_w += p * p * lipsc_max(A + 2.0 * q * B + q * q * C, 0.0);
    }
    return 0.5 * log(lipsc_max(by_b, by_w));
}

static lipsc_status finish(const lipsc_head_facts *f, lipsc_outlier *o, size_t n,
                           int masked, int sphere, lipsc_worst *out, lipsc_error *err) {
    lipsc_status status = lipsc_worst_new(2, f->d, 0, out);
    if (!status) {
        out->n = n;
        out->sphere = sphere;
        out->delta = o->delta;
        out->count[0] = 1.0;
        out->count[1] = (double)(n - 1);
        memcpy(out->X, o->y, f->d * sizeof *o->y);
        memcpy(out->X + f->d, o->x, f->d * sizeof *o->x);
        if (masked)
            out->log_promised = promise_masked(f, o, n);
        else
            status = promise_unmasked(f, o, n, sphere, &out->log_promised);
        if (status) lipsc_worst_free(out);
    }
    return status ? lipsc_fail(err, status, "%s", lipsc_strerror(status)) : LIPSC_OK;
}

static lipsc_status too_few(size_t n, size_t least, lipsc_error *err) {
    return n < least ? lipsc_fail(err, LIPSC_E_REFUSED, "needs at least %zu tokens", least)
                     : LIPSC_OK;
}

static lipsc_status no_memory(lipsc_error *err) {
    return lipsc_fail(err, LIPSC_E_NOMEM, "%s", lipsc_strerror(LIPSC_E_NOMEM));
}

/* ---- The constructions -------------------------------------------------------------- */

lipsc_status lipsc_construct_outlier(const lipsc_head_facts *f, double R, size_t n,
                                     int masked, int sphere, lipsc_worst *out,
                                     lipsc_error *err) {
    lipsc_outlier o;
    lipsc_status status = too_few(n, 2, err);
    if (status) return status;
    if (lipsc_outlier_new(f, &o)) return no_memory(err);
    status = lipsc_outlier_best(f, R, sphere, &o);
    if (status)
        lipsc_fail(err, status, "%s", lipsc_strerror(status));
    else
        status = finish(f, &o, n, masked, sphere, out, err);
    lipsc_outlier_free(&o);
    return status;
}

/* u and lambda by the rule of the released code: lambda_max when lambda_max > -8 lambda_min
 * over the real eigenvalues, else lambda_min. */
static lipsc_status choose_eigenvector(const lipsc_head_facts *f, double *u, double *lambda,
                                       lipsc_error *err) {
    const size_t room = f->d < f->k ? f->d : f->k;
    double *values = lipsc_alloc(f->k, sizeof *values);
    double *vectors = lipsc_alloc(room, f->d * sizeof *vectors);
    size_t count = 0;
    lipsc_status status = values && vectors
                              ? lipsc_score_eigenvectors(f, &count, values, vectors)
                              : LIPSC_E_NOMEM;
    if (status) {
        lipsc_fail(err, status, "%s", lipsc_strerror(status));
    } else if (count == 0) {
        status = lipsc_fail(err, LIPSC_E_REFUSED,
                            "A has no real eigenvalue other than zero; see one-outlier");
    } else {
        size_t least = 0, most = 0;
        for (size_t e = 1; e < count; e++) {
            if (values[e] < values[least]) least = e;
            if (values[e] > values[most]) most = e;
        }
        const double low = lipsc_min(values[least], 0.0),
                     high = lipsc_max(values[most], 0.0);
        const size_t chosen = high > -8.0 * low ? most : least;
        *lambda = values[chosen];
        memcpy(u, vectors + chosen * f->d, f->d * sizeof *u);
    }
    lipsc_release(values);
    lipsc_release(vectors);
    return status;
}

lipsc_status lipsc_construct_eigenvector(const lipsc_head_facts *f, double R, size_t n,
                                         int sign, int masked, lipsc_worst *out,
                                         lipsc_error *err) {
    lipsc_outlier o;
    double lambda = 0.0;
    lipsc_status status = too_few(n, 2, err);
    if (status) return status;
    if (lipsc_outlier_new(f, &o)) return no_memory(err);
    status = choose_eigenvector(f, o.y, &lambda, err);
    if (!status) {
        const double bulk = lambda > 0.0 ? 0.5 : -1.0;
        for (size_t c = 0; c < f->d; c++) {
            o.y[c] *= (sign < 0 ? -R : R);
            o.x[c] = bulk * o.y[c];
        }
        lipsc_outlier_finish(f, &o);
        status = finish(f, &o, n, masked, 0, out, err);
    }
    lipsc_outlier_free(&o);
    return status;
}

/* log of p |V (I + (1-p) b w^T) w| / |w| with the bulk at t x: what a move along w does */
static double at_radius(const lipsc_head_facts *f, lipsc_outlier *o, const double *x,
                        double t, size_t n, int masked, double *move) {
    double square = 0.0;
    for (size_t c = 0; c < f->d; c++) o->x[c] = t * x[c];
    lipsc_outlier_finish(f, o);
    if (masked) return promise_masked(f, o, n);
    for (size_t c = 0; c < f->d; c++) square += o->w[c] * o->w[c];
    if (!(square > 0.0)) return -INFINITY;
    const double p = share((double)(n - 1), o->delta), size = sqrt(square);
    for (size_t c = 0; c < f->d; c++) move[c] = o->w[c] / size + (1.0 - p) * size * o->b[c];
    return log(p) + log(lipsc_head_facts_value_length(f, move));
}

/* The best t in [0, 1]: a grid, then ever smaller steps. */
static double best_radius(const lipsc_head_facts *f, lipsc_outlier *o, const double *x,
                          size_t n, int masked, double *move) {
    enum { GRID = 64 };
    double best = 1.0, top = at_radius(f, o, x, 1.0, n, masked, move);
    for (int g = 0; g < GRID; g++) {
        const double t = (double)g / GRID, here = at_radius(f, o, x, t, n, masked, move);
        if (here > top) top = here, best = t;
    }
    for (double step = 0.5 / GRID; step > 1e-9; step *= 0.5)
        for (int side = -1; side <= 1; side += 2) {
            const double t = lipsc_min(lipsc_max(best + side * step, 0.0), 1.0);
            const double here = at_radius(f, o, x, t, n, masked, move);
            if (here > top) top = here, best = t;
        }
    return best;
}

lipsc_status lipsc_construct_adapted(const lipsc_head_facts *f, double R, size_t n,
                                     int masked, lipsc_worst *out, lipsc_error *err) {
    lipsc_outlier o;
    lipsc_worst plain;
    lipsc_status status = too_few(n, 2, err);
    if (status) return status;
    double *x = lipsc_alloc(f->d, 2 * sizeof *x);
    if (!x || lipsc_outlier_new(f, &o)) {
        lipsc_release(x);
        return no_memory(err);
    }
    status = lipsc_outlier_best(f, R, 0, &o);
    if (status)
        lipsc_fail(err, status, "%s", lipsc_strerror(status));
    else
        status = finish(f, &o, n, masked, 0, &plain, err);
    if (!status) {
        memcpy(x, o.x, f->d * sizeof *x);
        double *move = x + f->d;
        const double t = best_radius(f, &o, x, n, masked, move);
        at_radius(f, &o, x, t, n, masked, move);
        status = finish(f, &o, n, masked, 0, out, err);
        if (!status && plain.log_promised > out->log_promised) { /* nothing gained */
            const lipsc_worst swap = *out;
            *out = plain;
            plain = swap;
        }
        lipsc_worst_free(&plain);
    }
    lipsc_outlier_free(&o);
    lipsc_release(x);
    return status;
}
