/* delta.c - the largest Delta that one outlier reaches in a ball (docs/maths.md 5.1).
 *
 * Maximise F(x) = R |w| - w.x over |x| <= R, w = A x + c.  F is not concave: projected
 * ascent with a step that grows on success and halves on failure, from the singular vectors
 * and the real eigenvectors of A, from c, and from random points.  Half the top right
 * singular vector alone gives |A| R^2 / 4 without a bias. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "bound/outlier.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "core/rng.h"
#include "linalg/eigen.h"

enum { PAIRS = 2, RANDOM_STARTS = 4, STEPS = 400, PATIENCE = 8 };

static double dot(size_t d, const double *x, const double *y) {
    double sum = 0.0;
    for (size_t c = 0; c < d; c++) sum += x[c] * y[c];
    return sum;
}

static double length(size_t d, const double *x) { return sqrt(dot(d, x, x)); }

/* ---- Directions that belong to A ---------------------------------------------------- */

/* A / |A|: the squares that a solve takes shall not overflow. */
typedef struct {
    const lipsc_head_facts *f;
    double *room, unit;
} score_op;

static int apply_score(void *ctx, int trans, size_t k, const double *x, double *y) {
    const score_op *s = ctx;
    for (size_t v = 0; v < k; v++) {
        const size_t at = v * s->f->d;
        if (trans)
            lipsc_head_facts_score_back(s->f, x + at, s->room, y + at);
        else
            lipsc_head_facts_score(s->f, 0, x + at, s->room, y + at);
        for (size_t c = 0; c < s->f->d; c++) y[at + c] *= s->unit;
    }
    return 0;
}

lipsc_status lipsc_score_vectors(const lipsc_head_facts *f, size_t count, double *sigma,
                                 double *u, double *v) {
    score_op s = {f, lipsc_alloc(f->k, sizeof *s.room),
                  f->norm_A > DBL_MIN ? 1.0 / f->norm_A : 1.0};
    if (!s.room) return LIPSC_E_NOMEM;
    const lipsc_op op = {f->d, f->d, apply_score, &s};
    lipsc_svd_settings set;
    lipsc_svd_info info;
    lipsc_svd_defaults(&set);
    set.count = count;
    set.tol = 1e-10;
    set.max_products = 2000;
    if (f->d <= 64) set.method = LIPSC_DENSE;
    const lipsc_status status = lipsc_svd(&op, &set, sigma, u, v, &info);
    for (size_t i = 0; i < count; i++) sigma[i] /= s.unit;
    lipsc_release(s.room);
    return status == LIPSC_E_NOCONV ? LIPSC_OK : status;
}

/* The nonzero eigenvalues of A = scale K^T Q are those of scale Q K^T (k x k), and
 * g -> K^T g takes eigenvectors of the one to those of the other. */
lipsc_status lipsc_score_eigenvectors(const lipsc_head_facts *f, size_t *count,
                                      double *lambda, double *vectors) {
    const size_t d = f->d, k = f->k;
    double *small = lipsc_alloc(k, 2 * k * sizeof *small);
    if (!small) return LIPSC_E_NOMEM;
    double *g = small + k * k;
    for (size_t r = 0; r < k; r++)
        for (size_t c = 0; c < k; c++) /* column-major */
            small[r + c * k] =
                f->scale * (f->K ? dot(d, f->Q + r * d, f->K + c * d) : f->Q[r * d + c]);
    size_t found = 0;
    lipsc_status status = lipsc_real_eigenpairs(k, small, &found, lambda, g);
    *count = 0;
    for (size_t e = 0; !status && e < found && *count < d; e++) {
        double *u = vectors + *count * d;
        memset(u, 0, d * sizeof *u);
        for (size_t r = 0; r < k; r++)
            for (size_t c = 0; c < d; c++)
                u[c] += g[e * k + r] * (f->K ? f->K[r * d + c] : (double)(r == c));
        const double size = length(d, u);
        if (!(size > 0.0) || lambda[e] == 0.0) continue;
        for (size_t c = 0; c < d; c++) u[c] /= size;
        lambda[(*count)++] = lambda[e];
    }
    lipsc_release(small);
    return status;
}

/* ---- The ascent -----------------------------------------------------------------------
 */

typedef struct {
    const lipsc_head_facts *f;
    double R;
    int sphere;
    double *room;                /* (k)                                       */
    double *w, *gradient, *back; /* (d) each                                  */
    double *x, *next, *best;     /* (d) each                                  */
    double best_value;
} ascent;

/* F(x); leaves w = A x + c */
static double value_at(ascent *s, const double *x) {
    lipsc_head_facts_score(s->f, 1, x, s->room, s->w);
    return s->R * length(s->f->d, s->w) - dot(s->f->d, s->w, x);
}

/* grad F = A^T (R w/|w| - x) - w */
static void gradient_at(ascent *s, const double *x) {
    const size_t d = s->f->d;
    const double size = length(d, s->w);
    for (size_t c = 0; c < d; c++)
        s->next[c] = (size > 0.0 ? s->R * s->w[c] / size : 0.0) - x[c];
    lipsc_head_facts_score_back(s->f, s->next, s->room, s->gradient);
    for (size_t c = 0; c < d; c++) s->gradient[c] -= s->w[c];
}

static void into_ball(const ascent *s, double *x) {
    const double size = length(s->f->d, x);
    if (!(size > s->R) && !(s->sphere && size > 0.0)) return;
    for (size_t c = 0; c < s->f->d; c++) x[c] *= s->R / size;
}

static void climb(ascent *s, const double *start, double radius) {
    const size_t d = s->f->d;
    const double size = length(d, start);
    if (!(size > 0.0)) return;
    for (size_t c = 0; c < d; c++) s->x[c] = start[c] * radius / size;
    into_ball(s, s->x);
    double value = value_at(s, s->x);
    double step = 0.3 / lipsc_max(s->f->norm_A, DBL_MIN);
    int fresh = 1;       /* gradient must be taken again      */
    int small_gains = 0; /* in a row: the climb is at its end */
    for (int it = 0; it < STEPS && step * s->f->norm_A > 1e-13; it++) {
        if (fresh) gradient_at(s, s->x);
        for (size_t c = 0; c < d; c++) s->next[c] = s->x[c] + step * s->gradient[c];
        into_ball(s, s->next);
        memcpy(s->back, s->w, d * sizeof *s->back);
        const double there = value_at(s, s->next);
        fresh = there > value + 1e-15 * fabs(value);
        if (fresh) {
            small_gains = there > value + 1e-12 * fabs(value) ? 0 : small_gains + 1;
            if (small_gains > PATIENCE) it = STEPS;
            memcpy(s->x, s->next, d * sizeof *s->x);
            value = there;
            step *= 1.3;
        } else {
            memcpy(s->w, s->back, d * sizeof *s->w);
            step *= 0.5;
        }
    }
    if (value > s->best_value) {
        s->best_value = value;
        memcpy(s->best, s->x, d * sizeof *s->x);
    }
}

/* From v and -v, at the whole radius and at half of it. */
static void climb_from(ascent *s, double *v) {
    for (int sign = 0; sign < 2; sign++) {
        climb(s, v, s->R);
        if (!s->sphere) climb(s, v, 0.5 * s->R);
        for (size_t c = 0; c < s->f->d; c++) v[c] = -v[c];
    }
}

static lipsc_status climb_everywhere(ascent *s) {
    const lipsc_head_facts *f = s->f;
    const size_t d = f->d, pairs = d < PAIRS ? d : PAIRS;
    double sigma[PAIRS];
    const size_t eigenvectors = d < f->k ? d : f->k;
    const size_t rows = eigenvectors > 2 * PAIRS ? eigenvectors : 2 * PAIRS;
    double *starts = lipsc_alloc(rows, d * sizeof *starts);
    double *lambda = lipsc_alloc(f->k, sizeof *lambda);
    lipsc_status status = starts && lambda ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) status = lipsc_score_vectors(f, pairs, sigma, starts, starts + pairs * d);
    for (size_t v = 0; !status && v < 2 * pairs; v++) climb_from(s, starts + v * d);
    size_t count = 0;
    if (!status) status = lipsc_score_eigenvectors(f, &count, lambda, starts);
    if (status == LIPSC_E_NOCONV) status = LIPSC_OK; /* the other starts remain */
    size_t least = 0, most = 0;
    for (size_t e = 1; e < count; e++) {
        if (lambda[e] < lambda[least]) least = e;
        if (lambda[e] > lambda[most]) most = e;
    }
    if (!status && count) {
        climb_from(s, starts + least * d);
        if (most != least) climb_from(s, starts + most * d);
    }
    for (uint64_t r = 0; !status && r < RANDOM_STARTS; r++) {
        for (size_t c = 0; c < d; c++) starts[c] = lipsc_rng_normal(20 + r, c);
        climb_from(s, starts);
    }
    if (!status && f->norm_c > 0.0) { /* where the bias points */
        memset(s->x, 0, d * sizeof *s->x);
        value_at(s, s->x);
        memcpy(starts, s->w, d * sizeof *starts);
        climb_from(s, starts);
    }
    lipsc_release(starts);
    lipsc_release(lambda);
    return status;
}

lipsc_status lipsc_best_delta(const lipsc_head_facts *f, double R, int sphere, double *x,
                              double *delta) {
    const size_t d = f->d;
    double *room = lipsc_alloc_zero(f->k + 6 * d, sizeof *room);
    if (!room) return LIPSC_E_NOMEM;
    double *at = room + f->k;
    ascent s = {f,          R,          sphere,     room,       at,       at + d,
                at + 2 * d, at + 3 * d, at + 4 * d, at + 5 * d, -INFINITY};
    lipsc_status status = LIPSC_OK;
    if (!sphere) s.best_value = value_at(&s, s.best); /* x = 0: R |c| */
    if (R > 0.0 && (f->norm_A > 0.0 || sphere)) status = climb_everywhere(&s);
    if (!status) {
        memcpy(x, s.best, d * sizeof *x);
        *delta = s.best_value > -INFINITY ? s.best_value : 0.0;
    }
    lipsc_release(room);
    return status;
}
