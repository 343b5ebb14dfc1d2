/* delta.c - the largest Delta that one outlier reaches in a ball (docs/maths.md 5.1).
 *
 * Maximise F(x) = R |w| - w.x over |x| <= R, w = A x + c.  F knows of x only what lies in
 * the span of the rows of Q and K: the search is made there, in coordinates of an
 * orthonormal basis.  F is not concave: projected
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
#include "core/vector.h"
#include "linalg/eigen.h"
#include "linalg/space.h"
#include "svd/orth.h"

enum { PAIRS = 2, RANDOM_STARTS = 4, STEPS = 400, PATIENCE = 8 };

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
            small[r + c * k] = f->scale * (f->K ? lipsc_dot(d, f->Q + r * d, f->K + c * d)
                                                : f->Q[r * d + c]);
    size_t found = 0;
    lipsc_status status = lipsc_real_eigenpairs(k, small, &found, lambda, g);
    *count = 0;
    for (size_t e = 0; !status && e < found && *count < d; e++) {
        double *u = vectors + *count * d;
        memset(u, 0, d * sizeof *u);
        for (size_t r = 0; r < k; r++)
            for (size_t c = 0; c < d; c++)
                u[c] += g[e * k + r] * (f->K ? f->K[r * d + c] : (double)(r == c));
        const double size = lipsc_length(d, u);
        if (!(size > 0.0) || lambda[e] == 0.0) continue;
        for (size_t c = 0; c < d; c++) u[c] /= size;
        lambda[(*count)++] = lambda[e];
    }
    lipsc_release(small);
    return status;
}

/* ---- The ascent --------------------------------------------------------------------- */

typedef struct {
    const lipsc_head_facts *f;
    double R;
    int sphere;
    double *room;                /* (k)                                       */
    double *w, *gradient, *back; /* (d) each                                  */
    double *x, *next, *best;     /* (d) each                                  */
    double best_value;
    double small_gain; /* relative: several in a row end a climb             */
} ascent;

/* F(x); leaves w = A x + c */
static double value_at(ascent *s, const double *x) {
    lipsc_head_facts_score(s->f, 1, x, s->room, s->w);
    return s->R * lipsc_length(s->f->d, s->w) - lipsc_dot(s->f->d, s->w, x);
}

/* grad F = A^T (R w/|w| - x) - w */
static void gradient_at(ascent *s, const double *x) {
    const size_t d = s->f->d;
    const double size = lipsc_length(d, s->w);
    for (size_t c = 0; c < d; c++)
        s->next[c] = (size > 0.0 ? s->R * s->w[c] / size : 0.0) - x[c];
    lipsc_head_facts_score_back(s->f, s->next, s->room, s->gradient);
    for (size_t c = 0; c < d; c++) s->gradient[c] -= s->w[c];
}

static void into_ball(const ascent *s, double *x) {
    const double size = lipsc_length(s->f->d, x);
    if (!(size > s->R) && !(s->sphere && size > 0.0)) return;
    for (size_t c = 0; c < s->f->d; c++) x[c] *= s->R / size;
}

static void climb(ascent *s, const double *start, double radius) {
    const size_t d = s->f->d;
    const double size = lipsc_length(d, start);
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
            small_gains = there > value + s->small_gain * fabs(value) ? 0 : small_gains + 1;
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

/* In R^d of f itself: roughly from everywhere, then to the end from the best. */
static lipsc_status search(const lipsc_head_facts *f, double R, int sphere, double *x) {
    const double rough = 1e-6, fine = 1e-12;
    const size_t d = f->d;
    double *room = lipsc_alloc_zero(f->k + 6 * d, sizeof *room);
    if (!room) return LIPSC_E_NOMEM;
    double *at = room + f->k;
    ascent s = {f,          R,          sphere,     room,       at,        at + d,
                at + 2 * d, at + 3 * d, at + 4 * d, at + 5 * d, -INFINITY, rough};
    lipsc_status status = LIPSC_OK;
    if (!sphere) s.best_value = value_at(&s, s.best); /* x = 0: R |c| */
    if (R > 0.0 && (f->norm_A > 0.0 || sphere)) status = climb_everywhere(&s);
    if (!status) memcpy(x, s.best, d * sizeof *x);
    s.small_gain = fine;
    if (!status) climb(&s, x, lipsc_length(d, x));
    if (!status) memcpy(x, s.best, d * sizeof *x);
    lipsc_release(room);
    return status;
}

/* ---- The span of Q and K ------------------------------------------------------------ */

/* f in coordinates of a basis of that span. */
typedef struct {
    lipsc_head_facts facts;
    double *basis;     /* (facts.d, d)                            */
    double *coef, *QK; /* (2 k, 2 k) of the basis; (2, k, facts.d) */
} narrow;

static void narrow_free(narrow *w) {
    lipsc_release(w->basis);
    lipsc_release(w->coef);
    lipsc_release(w->QK);
}

/* The rows of M (k, d) behind `rank` vectors of the basis, made orthonormal.
 * LIPSC_E_REFUSED where squares of their lengths overflow or vanish. */
static lipsc_status widen(const lipsc_head_facts *f, const double *M, size_t rank,
                          narrow *w, double *coef, double *work, size_t *more) {
    const double tiny = 1e-140;
    double largest = 0.0;
    memcpy(w->basis + rank * f->d, M, f->k * f->d * sizeof *M);
    const lipsc_orth rows = {.space = lipsc_space_host(LIPSC_F64),
                             .eps = DBL_EPSILON,
                             .len = f->d,
                             .j = rank,
                             .q = lipsc_host_view(2 * f->k * f->d, w->basis),
                             .k = f->k,
                             .known = rank,
                             .scale = &largest,
                             .coef = coef,
                             .ldc = 2 * f->k,
                             .work = work,
                             .rank = more};
    const lipsc_status status = lipsc_svd_orth(&rows);
    if (status == LIPSC_E_NONFIN) return LIPSC_E_REFUSED;
    return status || largest > tiny ? status : LIPSC_E_REFUSED;
}

static lipsc_status narrow_make(const lipsc_head_facts *f, narrow *w) {
    const size_t k = f->k, all = 2 * k;
    size_t queries = 0, keys = 0;
    *w = (narrow){.basis = lipsc_alloc(all, f->d * sizeof *w->basis),
                  .coef = lipsc_alloc_zero(all, all * sizeof *w->coef),
                  .QK = lipsc_alloc(all, all * sizeof *w->QK)};
    double *work = lipsc_alloc(all + 1, all * sizeof *work);
    lipsc_status status = w->basis && w->coef && w->QK && work ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) status = widen(f, f->Q, 0, w, w->coef, work, &queries);
    if (!status) status = widen(f, f->K, queries, w, w->coef + k * all, work, &keys);
    const size_t rank = queries + keys;
    for (size_t r = 0; !status && r < all; r++)
        for (size_t c = 0; c < rank; c++)
            w->QK[r * rank + c] = r < k && c >= queries ? 0.0 : w->coef[r * all + c];
    w->facts = *f;
    w->facts.d = rank;
    w->facts.Q = w->QK;
    w->facts.K = w->QK + k * rank;
    w->facts.value = NULL;
    lipsc_release(work);
    return status;
}

/* A unit vector orthogonal to the span. */
static lipsc_status outside(const narrow *w, size_t d, double *e) {
    const size_t rank = w->facts.d;
    double *along = lipsc_alloc(rank, sizeof *along);
    if (!along) return LIPSC_E_NOMEM;
    const lipsc_space *space = lipsc_space_host(LIPSC_F64);
    const lipsc_buffer basis = lipsc_host_view(rank * d, w->basis);
    const lipsc_buffer vector = lipsc_host_view(d, e);
    lipsc_status status = LIPSC_OK;
    for (size_t c = 0; c < d; c++) e[c] = lipsc_rng_normal(19, c);
    for (int pass = 0; !status && pass < 3; pass++) {
        status = lipsc_space_gram(space, d, rank, basis, 1, vector, along);
        for (size_t r = 0; r < rank; r++) along[r] = -along[r];
        if (!status)
            status = lipsc_space_combine(space, d, rank, basis, 1, along, 1.0, vector);
        const double size = lipsc_length(d, e);
        for (size_t c = 0; c < d; c++) e[c] /= size;
    }
    lipsc_release(along);
    return status;
}

/* On the sphere what is missing to R stands across the span, where F does not see it. */
static lipsc_status search_narrow(const lipsc_head_facts *f, double R, int sphere,
                                  double *x) {
    narrow w;
    lipsc_status status = narrow_make(f, &w);
    const size_t rank = w.facts.d;
    double *y = lipsc_alloc(rank + 1, sizeof *y);
    if (!status && !y) status = LIPSC_E_NOMEM;
    if (!status) status = search(&w.facts, R, 0, y);
    memset(x, 0, f->d * sizeof *x);
    if (!status && sphere) status = outside(&w, f->d, x);
    if (!status) {
        const double rest = R * R - lipsc_dot(rank, y, y);
        for (size_t c = 0; c < f->d; c++) x[c] *= rest > 0.0 ? sqrt(rest) : 0.0;
        status = lipsc_space_combine(lipsc_space_host(LIPSC_F64), f->d, rank,
                                     lipsc_host_view(rank * f->d, w.basis), 1, y, 1.0,
                                     lipsc_host_view(f->d, x));
    }
    lipsc_release(y);
    narrow_free(&w);
    return status;
}

lipsc_status lipsc_best_delta(const lipsc_head_facts *f, double R, int sphere, double *x,
                              double *delta) {
    const size_t d = f->d;
    lipsc_status status = f->K && 2 * f->k < d && R > 0.0 && f->norm_A > 0.0
                              ? search_narrow(f, R, sphere, x)
                              : LIPSC_E_REFUSED;
    if (status == LIPSC_E_REFUSED) status = search(f, R, sphere, x);
    double *room = lipsc_alloc(f->k + d, sizeof *room);
    if (!room) return LIPSC_E_NOMEM;
    if (!status) {
        lipsc_head_facts_score(f, 1, x, room, room + f->k);
        *delta = R * lipsc_length(d, room + f->k) - lipsc_dot(d, room + f->k, x);
    }
    lipsc_release(room);
    return status;
}
