/* construct_two.c - two outliers, and the bound that is linear in a (docs/maths.md 5.2). */
#include <math.h>
#include <string.h>

#include "bound/construct.h"
#include "bound/outlier.h"
#include "core/error.h"
#include "core/mem.h"
#include "core/vector.h"
#include "linalg/dense.h"

/* ---- Two outliers ------------------------------------------------------------------- */

/* b: the unit vector orthogonal to w that V stretches most; *gain = |V b|.  The top right
 * singular vector of V (I - w w^T / |w|^2). */
static lipsc_status across(const lipsc_head_facts *f, const double *w, double *b,
                           double *gain) {
    const size_t d = f->d, r = f->rank < d ? f->rank : d;
    double *M = lipsc_alloc(f->rank, d * sizeof *M), *s = lipsc_alloc(r, sizeof *s);
    double *u = lipsc_alloc(d, r * sizeof *u);
    lipsc_status status = M && s && u ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) {
        const double square = lipsc_dot(d, w, w);
        for (size_t row = 0; row < f->rank; row++) {
            const double *v = f->value + row * d;
            const double along = square > 0.0 ? lipsc_dot(d, v, w) / square : 0.0;
            for (size_t c = 0; c < d; c++) M[row * d + c] = v[c] - along * w[c];
        }
        status = lipsc_dense_svd(d, f->rank, M, s, u, NULL); /* M^T column-major */
    }
    if (!status) {
        memcpy(b, u, d * sizeof *b);
        *gain = s[0];
    }
    lipsc_release(M);
    lipsc_release(s);
    lipsc_release(u);
    return status;
}

/* log of sqrt(2(n-2)) p |w| |V b|, p = 1/(2 + (n-2) e^{-Delta}), with c at t R w/|w| */
static double promise(double R, size_t n, double t, double w, double wx, double gain,
                      double *delta) {
    *delta = t * R * w - wx;
    const double others = (double)(n - 2), b = R * sqrt(1.0 - t * t);
    return 0.5 * log(2.0 * others) - log(2.0 + others * exp(-*delta)) + log(w) +
           log(gain * b);
}

typedef struct {
    double log_value, t, delta;
    double *x, *w, *b; /* (d) each */
} two_best;

/* Tries the bulk at x. */
static lipsc_status try_bulk(const lipsc_head_facts *f, double R, size_t n, double along,
                             const double *x, double *room, two_best *best) {
    enum { GRID = 200 };
    const size_t d = f->d;
    double *w = room + f->k, *b = w + d, gain = 0.0, delta;
    lipsc_head_facts_score(f, 1, x, room, w);
    const double size = sqrt(lipsc_dot(d, w, w)), wx = lipsc_dot(d, w, x);
    if (!(size > 0.0)) return LIPSC_OK;
    const lipsc_status status = across(f, w, b, &gain);
    for (int g = 0; !status && g < (isnan(along) ? GRID : 1); g++) {
        const double t = isnan(along) ? (double)g / GRID : along;
        const double here = promise(R, n, t, size, wx, gain, &delta);
        if (!(here > best->log_value)) continue;
        best->log_value = here;
        best->t = t;
        best->delta = delta;
        memcpy(best->x, x, d * sizeof *x);
        memcpy(best->w, w, d * sizeof *w);
        memcpy(best->b, b, d * sizeof *b);
    }
    return status;
}

/* The bulk: where Delta is largest, and the top right singular vectors, both signs. */
static lipsc_status try_all(const lipsc_head_facts *f, double R, size_t n, double along,
                            int sphere, double *room, two_best *best) {
    enum { PAIRS = 4 };
    const size_t d = f->d, pairs = d < PAIRS ? d : PAIRS;
    double sigma[PAIRS], delta;
    double *u = lipsc_alloc(2 * pairs + 1, d * sizeof *u);
    if (!u) return LIPSC_E_NOMEM;
    double *v = u + pairs * d, *x = v + pairs * d;
    lipsc_status status = lipsc_best_delta(f, R, sphere, x, &delta);
    if (!status) status = try_bulk(f, R, n, along, x, room, best);
    if (!status) status = lipsc_score_vectors(f, pairs, sigma, u, v);
    for (size_t p = 0; !status && p < 2 * pairs; p++)
        for (int sign = 0; !status && sign < 2; sign++) {
            for (size_t c = 0; c < d; c++) x[c] = (sign ? -R : R) * u[p * d + c];
            status = try_bulk(f, R, n, along, x, room, best);
        }
    lipsc_release(u);
    return status;
}

lipsc_status lipsc_construct_two(const lipsc_head_facts *f, double R, size_t n,
                                 double along, int sphere, lipsc_worst *out,
                                 lipsc_error *err) {
    const size_t d = f->d;
    if (n < 3) return lipsc_fail(err, LIPSC_E_REFUSED, "needs at least 3 tokens");
    if (d < 2) return lipsc_fail(err, LIPSC_E_REFUSED, "needs tokens of width 2 or more");
    double *room = lipsc_alloc_zero(f->k + 5 * d, sizeof *room);
    if (!room) return lipsc_fail(err, LIPSC_E_NOMEM, "%s", lipsc_strerror(LIPSC_E_NOMEM));
    double *at = room + f->k + 2 * d;
    two_best best = {-INFINITY, 0.0, 0.0, at, at + d, at + 2 * d};
    lipsc_status status = try_all(f, R, n, sphere ? 0.0 : along, sphere, room, &best);
    if (!status && best.log_value == -INFINITY) {
        status = lipsc_fail(err, LIPSC_E_REFUSED, "A, V or the radius is zero");
    } else if (!status && !(status = lipsc_worst_new(3, d, 0, out))) {
        const double size = sqrt(lipsc_dot(d, best.w, best.w));
        const double b = R * sqrt(1.0 - best.t * best.t);
        for (size_t c = 0; c < d; c++) {
            const double centre = best.t * R * best.w[c] / size;
            out->X[c] = centre + b * best.b[c];
            out->X[d + c] = centre - b * best.b[c];
            out->X[2 * d + c] = best.x[c];
        }
        out->n = n;
        out->sphere = sphere;
        out->count[0] = out->count[1] = 1.0;
        out->count[2] = (double)(n - 2);
        out->delta = best.delta;
        out->log_promised = best.log_value;
    }
    lipsc_release(room);
    if (status && status != LIPSC_E_REFUSED)
        lipsc_fail(err, status, "%s", lipsc_strerror(status));
    return status;
}

/* ---- Linear in a -------------------------------------------------------------------- */

/* The token at 0 sees all alike: its own block is V (C A + I/n), C = (2m/n) R^2 u u^T. */
lipsc_status lipsc_construct_linear(const lipsc_head_facts *f, double R, size_t n,
                                    lipsc_worst *out, lipsc_error *err) {
    const size_t d = f->d, m = (n - 1) / 2;
    if (n < 3) return lipsc_fail(err, LIPSC_E_REFUSED, "needs at least 3 tokens");
    if (f->norm_c > 0.0)
        return lipsc_fail(err, LIPSC_E_REFUSED,
                          "a query bias: the token at 0 does not see all alike");
    double *u = lipsc_alloc(3 * d + f->k, sizeof *u), sigma, norm = 0.0;
    if (!u) return lipsc_fail(err, LIPSC_E_NOMEM, "%s", lipsc_strerror(LIPSC_E_NOMEM));
    double *v = u + d, *Atu = v + d;
    lipsc_status status = lipsc_score_vectors(f, 1, &sigma, u, v);
    if (!status && !(sigma > 0.0)) { /* A = 0: any direction */
        memset(u, 0, d * sizeof *u);
        u[0] = 1.0;
    }
    if (!status) {
        const double part = 2.0 * (double)m / (double)n * R * R;
        lipsc_head_facts_score_back(f, u, Atu + d, Atu);
        status = lipsc_head_facts_stretch(f, 1.0 / (double)n, part, u, Atu, &norm);
    }
    if (!status && !(status = lipsc_worst_new(3, d, 0, out))) {
        for (size_t c = 0; c < d; c++) {
            out->X[c] = R * u[c];
            out->X[d + c] = -R * u[c];
        }
        out->n = n;
        out->count[0] = out->count[1] = (double)m;
        out->count[2] = (double)(n - 2 * m);
        out->log_promised = log(norm);
    }
    lipsc_release(u);
    if (status) lipsc_fail(err, status, "%s", lipsc_strerror(status));
    return status;
}
