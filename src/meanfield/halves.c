/* halves.c - |V C_i A| of every token at once: n Golub-Kahan-Lanczos iterations side by
 * side, which share their products because the query path is block diagonal.
 *
 * For each token, with B = V C_i A, orthonormal v_1 .. v_k and u_1 .. u_k,
 *
 *     B v_j = alpha_j u_j + beta_{j-1} u_{j-1},     B^T u_j = alpha_j v_j + beta_j v_{j+1},
 *
 * so that B restricted to the v_j is upper bidiagonal with alpha on and beta above its
 * diagonal.  Its largest singular value theta = p^T (.) q gives |B| >= theta, v = sum q_j
 * v_j reaches it, and |B^T B v - theta^2 v| = theta beta_k |p_k|.  Vectors are
 * orthogonalised against all earlier ones.  A token whose space is exhausted gets zero
 * vectors from there on, which change nothing; with k = d that has happened to all.  A full
 * basis is replaced by its best vector. */
#include "core/mem.h"
#include "core/extreme.h"
#include "core/rng.h"
#include "core/vector.h"
#include "linalg/dense.h"
#include "meanfield/meanfield.h"

#include <math.h>
#include <string.h>

enum { MOST_STEPS = 40, LEAST_STEPS = 6, CHECK_EVERY = 5, TRUSTED_STEPS = 10, CYCLES = 20 };
static const double most_bytes = 0x1p28; /* of both bases */
static const double rounding = 0x1p-52;

typedef struct {
    lipsc_attn *attn;
    size_t n, d, width, steps;      /* steps: most vectors of a basis              */
    double *V, *U;                  /* (steps + 1, n, d), (steps, n, width)        */
    double *alpha, *beta;           /* (n, steps)                                  */
    double *room;                   /* (n, 2 d)                                    */
    double *small, *p, *qt, *theta; /* of one token: (steps, steps), theta (steps) */
    double *norm, *residual;        /* (n)                                         */
    double *ritz;                   /* (n, d)                                      */
} work;

static double length(size_t count, const double *x) {
    double largest = 0.0, sum = 0.0;
    for (size_t e = 0; e < count; e++) largest = lipsc_max(largest, fabs(x[e]));
    for (size_t e = 0; largest > 0.0 && e < count; e++)
        sum += (x[e] / largest) * (x[e] / largest);
    return largest * sqrt(sum);
}

static void scale(size_t count, double factor, double *x) {
    for (size_t e = 0; e < count; e++) x[e] *= factor;
}

/* x := unit vector orthogonal to the k vectors basis + j stride; returns the length that
 * was left, 0 (and x = 0) when that is rounding beside `size`. */
static double orthogonalise(size_t count, size_t k, const double *basis, size_t stride,
                            double size, double *x) {
    for (int pass = 0; pass < 2; pass++)
        for (size_t j = 0; j < k; j++) {
            const double along = lipsc_dot(count, basis + j * stride, x);
            for (size_t e = 0; e < count; e++) x[e] -= along * basis[j * stride + e];
        }
    const double left = length(count, x);
    if (!(left > 64.0 * rounding * size)) {
        memset(x, 0, count * sizeof *x);
        return 0.0;
    }
    scale(count, 1.0 / left, x);
    return left;
}

/* Step j: column j of U from column j of V, then column j + 1 of V. */
static lipsc_status step(work *w, size_t j) {
    const size_t n = w->n, d = w->d, m = w->width, steps = w->steps;
    double *u = w->U + j * n * m, *next = w->V + (j + 1) * n * d;
    lipsc_status status = lipsc_paths_apply(w->attn, 0, w->V + j * n * d, w->room, u);
    for (size_t i = 0; !status && i < n; i++) {
        const double size = lipsc_max(length(m, u + i * m), w->norm[i]);
        if (j)
            for (size_t e = 0; e < m; e++)
                u[i * m + e] -= w->beta[i * steps + j - 1] * u[i * m + e - n * m];
        w->alpha[i * steps + j] = orthogonalise(m, j, w->U + i * m, n * m, size, u + i * m);
        w->norm[i] = lipsc_max(w->norm[i], w->alpha[i * steps + j]);
    }
    if (!status) status = lipsc_paths_apply(w->attn, 1, u, w->room, next);
    for (size_t i = 0; !status && i < n; i++)
        w->beta[i * steps + j] =
            orthogonalise(d, j + 1, w->V + i * d, n * d, w->norm[i], next + i * d);
    return status;
}

/* norm, residual of token i, and its Ritz vector, from k steps. */
static lipsc_status find_ritz(work *w, size_t i, size_t k) {
    const double *alpha = w->alpha + i * w->steps, *beta = w->beta + i * w->steps;
    memset(w->small, 0, k * k * sizeof *w->small);
    for (size_t j = 0; j < k; j++) {
        w->small[j * k + j] = alpha[j];
        if (j) w->small[j * k + j - 1] = beta[j - 1];
    }
    const lipsc_status status = lipsc_dense_svd(k, k, w->small, w->theta, w->p, w->qt);
    if (status) return status;
    const double theta = w->theta[0];
    w->norm[i] = theta;
    w->residual[i] = theta > 0.0 ? beta[k - 1] * fabs(w->p[k - 1]) / theta : 0.0;
    double *v = w->ritz + i * w->d;
    memset(v, 0, w->d * sizeof *v);
    for (size_t j = 0; j < k; j++)
        for (size_t e = 0; e < w->d; e++)
            v[e] += w->qt[j * k] * w->V[j * w->n * w->d + i * w->d + e];
    return LIPSC_OK;
}

/* Every token has met tol, or stays below the largest even if its residual, which says how
 * far a singular value can be, were all to its favour. */
static int decided(const work *w, double tol) {
    double largest = 0.0;
    for (size_t i = 0; i < w->n; i++) largest = lipsc_max(largest, w->norm[i]);
    for (size_t i = 0; i < w->n; i++)
        if (w->residual[i] > tol && w->norm[i] * sqrt(1.0 + 2.0 * w->residual[i]) > largest)
            return 0;
    return 1;
}

/* One basis from the unit vectors in ritz.  *done: all tokens are decided. */
static lipsc_status cycle(work *w, double tol, int (*stop)(void *ctx), void *ctx,
                          int *done) {
    lipsc_status status = LIPSC_OK;
    memcpy(w->V, w->ritz, w->n * w->d * sizeof *w->V);
    memset(w->norm, 0, w->n * sizeof *w->norm);
    *done = 0;
    for (size_t j = 0; j < w->steps && !*done; j++) {
        if ((status = step(w, j))) return status;
        const size_t k = j + 1;
        if (k < w->steps && (k < TRUSTED_STEPS || k % CHECK_EVERY)) continue;
        for (size_t i = 0; i < w->n; i++)
            if ((status = find_ritz(w, i, k))) return status;
        *done = decided(w, tol);
        if (stop && stop(ctx)) return LIPSC_E_STOPPED;
    }
    return LIPSC_OK;
}

/* |B v| of the vectors found, for all tokens; the products made for this alone. */
static lipsc_status evaluate(work *w) {
    for (size_t i = 0; i < w->n; i++) {
        const double size = length(w->d, w->ritz + i * w->d);
        if (size > 0.0) scale(w->d, 1.0 / size, w->ritz + i * w->d);
    }
    const lipsc_status status = lipsc_paths_apply(w->attn, 0, w->ritz, w->room, w->U);
    for (size_t i = 0; !status && i < w->n; i++)
        w->norm[i] = length(w->width, w->U + i * w->width);
    return status;
}

static int open_work(lipsc_attn *attn, work *w) {
    *w = (work){.attn = attn,
                .n = attn->input.n,
                .d = attn->layer.d / 2,
                .width = lipsc_layer_width(&attn->layer)};
    const double one = (double)w->n * ((double)w->d + (double)w->width) * sizeof(double);
    w->steps = w->d < MOST_STEPS ? w->d : MOST_STEPS;
    while (w->steps > LEAST_STEPS && (double)w->steps * one > most_bytes) w->steps--;
    const size_t n = w->n, square = w->steps * w->steps;
    w->V = lipsc_alloc(n * w->d, (w->steps + 1) * sizeof *w->V);
    w->U = lipsc_alloc(n * w->width, w->steps * sizeof *w->U);
    w->alpha = lipsc_alloc_zero(n, w->steps * sizeof *w->alpha);
    w->beta = lipsc_alloc_zero(n, w->steps * sizeof *w->beta);
    w->room = lipsc_alloc(n, 2 * w->d * sizeof *w->room);
    w->small = lipsc_alloc(3 * square + w->steps, sizeof *w->small);
    if (!w->V || !w->U || !w->alpha || !w->beta || !w->room || !w->small) return 0;
    w->p = w->small + square;
    w->qt = w->p + square;
    w->theta = w->qt + square;
    return 1;
}

static void close_work(work *w) {
    lipsc_release(w->V);
    lipsc_release(w->U);
    lipsc_release(w->alpha);
    lipsc_release(w->beta);
    lipsc_release(w->room);
    lipsc_release(w->small);
    lipsc_release(w->residual);
}

lipsc_status lipsc_halves_find(lipsc_attn *paths, double tol, uint64_t seed,
                               int (*stop)(void *ctx), void *ctx, double *norm,
                               double *direction, double *residual) {
    work w;
    int done = 0;
    lipsc_status status = open_work(paths, &w) ? LIPSC_OK : LIPSC_E_NOMEM;
    w.norm = norm;
    w.ritz = direction;
    w.residual = lipsc_alloc_zero(w.n, sizeof *w.residual);
    if (!w.residual) status = LIPSC_E_NOMEM;
    for (size_t i = 0; !status && i < w.n; i++) {
        double *v = direction + i * w.d;
        for (size_t e = 0; e < w.d; e++) v[e] = lipsc_rng_normal(seed, i * w.d + e);
        scale(w.d, 1.0 / length(w.d, v), v);
    }
    for (int c = 0; c < CYCLES && !done && !status; c++)
        status = cycle(&w, tol, stop, ctx, &done);
    if (!status) status = evaluate(&w);
    size_t top = 0;
    for (size_t i = 0; !status && i < w.n; i++)
        if (norm[i] > norm[top]) top = i;
    if (!status) {
        *residual = w.residual[top];
        if (!(*residual <= tol)) status = LIPSC_E_NOCONV;
    }
    close_work(&w);
    return status;
}
