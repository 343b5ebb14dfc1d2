/* light.c - one more construction, found by the search itself: a token that cannot decide
 * between itself and all the others.
 *
 * n - 1 tokens at x, one at y (last, so that with a causal mask it sees all), w = A y + c,
 * b = y - x, Delta' = w.b.  Its own row gives itself p = 1/(1 + (n-1) e^{-Delta'}), so that
 * m = p y + (1-p) x, C = p (1-p) b b^T, and its own block of J is
 *
 *     V [ C A + p (I + (1-p) b w^T) ] = V [ p (1-p) b (A^T b + w)^T + p I ].
 *
 * For A = gI, V = I, y = -x of length R that is 6 a p (1-p) + p, at most
 * 3a/2 + 1/2 + 1/(24a): more than the a of (L4), but with Delta' = 2a it needs n near
 * e^{2a}, or a measure whose lighter atom has the mass e^{-2a}.  For smaller n y moves
 * towards 0 until Delta' = ln(n-1). */
#include <math.h>
#include <string.h>

#include "attack/search.h"
#include "bound/outlier.h"
#include "core/mem.h"

/* Delta' = w.y + R |w| with y = t from, x = -R w/|w|; w and room as they are left. */
static double gain(const lipsc_head_facts *f, double R, double t, const double *from,
                   double *room, double *y, double *w) {
    double wy = 0.0, square = 0.0;
    for (size_t c = 0; c < f->d; c++) y[c] = t * from[c];
    lipsc_head_facts_score(f, 1, y, room, w);
    for (size_t c = 0; c < f->d; c++) {
        wy += w[c] * y[c];
        square += w[c] * w[c];
    }
    return wy + R * sqrt(square);
}

/* y: Delta' = R |w| - w.z at z = -y with w = -A z + c is Delta of the head of -A. */
static lipsc_status best_token(const lipsc_head_facts *f, double R, int sphere, double *y) {
    lipsc_head_facts negated = *f;
    double *bq = lipsc_alloc(f->k, sizeof *bq), delta;
    if (!bq) return LIPSC_E_NOMEM;
    for (size_t k = 0; f->bq && k < f->k; k++) bq[k] = -f->bq[k];
    negated.scale = -f->scale;
    negated.bq = f->bq ? bq : NULL;
    const lipsc_status status = lipsc_best_delta(&negated, R, sphere, y, &delta);
    for (size_t c = 0; !status && c < f->d; c++) y[c] = -y[c];
    lipsc_release(bq);
    return status;
}

/* t in [0, 1] with Delta' = wanted, 1 when Delta' stays below. */
static double shorten(const lipsc_head_facts *f, double R, double wanted,
                      const double *from, double *room, double *y, double *w) {
    enum { HALVINGS = 50 };
    double low = 0.0, high = 1.0;
    if (gain(f, R, 1.0, from, room, y, w) <= wanted) return 1.0;
    for (int i = 0; i < HALVINGS; i++) {
        const double t = 0.5 * (low + high);
        if (gain(f, R, t, from, room, y, w) > wanted)
            high = t;
        else
            low = t;
    }
    return high;
}

lipsc_status lipsc_construct_light(const lipsc_head_facts *f, double R, size_t n,
                                   int sphere, lipsc_worst *out) {
    const size_t d = f->d;
    if (n == 1) return LIPSC_E_REFUSED;
    double *y = lipsc_alloc(3 * d + f->k, sizeof *y);
    if (!y) return LIPSC_E_NOMEM;
    double *w = y + d, *from = w + d, *room = from + d, delta = 0.0, square = 0.0;
    lipsc_status status = best_token(f, R, sphere, from);
    if (!status) {
        const double t =
            n && !sphere ? shorten(f, R, log((double)(n - 1)), from, room, y, w) : 1.0;
        delta = gain(f, R, t, from, room, y, w);
        for (size_t c = 0; c < d; c++) square += w[c] * w[c];
        if (!(square > 0.0) || !isfinite(delta) || delta > 2.0 * LIPSC_MASS_SPAN)
            status = LIPSC_E_REFUSED;
    }
    if (!status && !(status = lipsc_worst_new(2, d, 0, out))) {
        for (size_t c = 0; c < d; c++) {
            out->X[c] = -R * w[c] / sqrt(square);
            out->X[d + c] = y[c];
        }
        out->n = n;
        out->count[0] = n ? (double)(n - 1) : 1.0;
        out->count[1] = n ? 1.0 : exp(-delta);
        out->sphere = sphere;
        out->delta = delta;
    }
    lipsc_release(y);
    return status;
}
