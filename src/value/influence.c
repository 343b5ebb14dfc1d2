/* influence.c - the strongest column and the strongest block of a Jacobian, by probes.
 *
 * The blocks themselves would cost one product for each of the n d input numbers.  With
 * w standard normal, E |(J^T w)_j|^2 = |J_:j|_F^2 for every token j at once, so a few
 * transposed products estimate all column norms c_j, to about 1/sqrt(probes rank).
 *
 * Token: the few columns with the largest c_j are solved for their spectral norms.
 * Pair: |J_ij|_F <= c_j, so columns are visited by falling c_j until c_j is below the best
 * block seen.  A visit costs BLOCK_PROBES products with vectors that live on token j alone
 * and estimates |J_ij|_F for all i.  At most VISITS columns: with n up to that all can be.
 * The few strongest blocks are solved for their spectral norms. */
#include "value/influence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"

enum { BLOCK_PROBES = 8, VISITS = 64, CANDIDATES = 4 };

/* Probes of the columns, a multiple of BLOCK_PROBES, and the residual of the solves: the
 * error of a value with a gap below it is the square of that. */
typedef struct {
    size_t probes;
    double tol;
    size_t solves; /* of the strongest columns */
} effort;

static const effort careful = {32, 1e-3, CANDIDATES}, quick = {16, 1e-2, 2};

typedef struct {
    double square;
    size_t token;
} strength;

typedef struct {
    const lipsc_linop *op;
    effort effort;
    int (*stop)(void *ctx);
    void *ctx; /* of stop */
    size_t tokens, width_in, width_out;
    double *in, *out; /* BLOCK_PROBES host vectors of op->n and op->m */
    void *x, *y;      /* the same in the operator's space             */
    strength *columns;
    size_t to, from; /* the block of a solve; to == tokens: all rows */
} work;

static int by_strength(const void *a, const void *b) {
    const strength *s = a, *t = b;
    if (s->square != t->square) return s->square < t->square ? 1 : -1;
    return (s->token > t->token) - (s->token < t->token);
}

/* k <= BLOCK_PROBES host vectors through the operator: in to out, or back with trans. */
static lipsc_status apply(work *w, int trans, size_t k) {
    const lipsc_linop *op = w->op;
    const double *from = trans ? w->out : w->in;
    double *to = trans ? w->in : w->out;
    void *x = trans ? w->y : w->x, *y = trans ? w->x : w->y;
    if (w->stop && w->stop(w->ctx)) return LIPSC_E_STOPPED;
    lipsc_status status =
        lipsc_vectors_upload(op->space, trans ? op->m : op->n, k, from, x);
    if (!status) status = op->apply(op->ctx, trans, k, x, y);
    if (!status)
        status = lipsc_vectors_download(op->space, trans ? op->n : op->m, k, y, to);
    return status;
}

static double square_sum(size_t count, const double *x) {
    double sum = 0.0;
    for (size_t e = 0; e < count; e++) sum += x[e] * x[e];
    return sum;
}

static lipsc_status column_strengths(work *w, uint64_t seed) {
    const size_t n = w->op->n, m = w->op->m;
    lipsc_status status = LIPSC_OK;
    uint64_t counter = 0;
    for (size_t j = 0; j < w->tokens; j++) w->columns[j] = (strength){0.0, j};
    for (size_t done = 0; done < w->effort.probes && !status; done += BLOCK_PROBES) {
        for (size_t e = 0; e < BLOCK_PROBES * m; e++)
            w->out[e] = lipsc_rng_normal(seed, counter++);
        status = apply(w, 1, BLOCK_PROBES);
        for (size_t p = 0; p < BLOCK_PROBES && !status; p++)
            for (size_t j = 0; j < w->tokens; j++)
                w->columns[j].square +=
                    square_sum(w->width_in, w->in + p * n + j * w->width_in) /
                    (double)w->effort.probes;
    }
    if (!status) qsort(w->columns, w->tokens, sizeof *w->columns, by_strength);
    return status;
}

/* ---- Spectral norm of a block ------------------------------------------------------ */

/* Fits lipsc_op: the rows of token `to` (or all) of the columns of token `from`. */
static int apply_block(void *ctx, int trans, size_t k, const double *x, double *y) {
    work *w = ctx;
    const size_t all = w->to == w->tokens, rows = all ? w->op->m : w->width_out;
    const size_t row = all ? 0 : w->to * w->width_out, column = w->from * w->width_in;
    for (size_t v = 0; v < k; v++) {
        if (!trans) {
            memset(w->in, 0, w->op->n * sizeof *w->in);
            memcpy(w->in + column, x + v * w->width_in, w->width_in * sizeof *x);
        } else {
            memset(w->out, 0, w->op->m * sizeof *w->out);
            memcpy(w->out + row, x + v * rows, rows * sizeof *x);
        }
        if (apply(w, trans, 1)) return -1;
        if (!trans)
            memcpy(y + v * rows, w->out + row, rows * sizeof *y);
        else
            memcpy(y + v * w->width_in, w->in + column, w->width_in * sizeof *y);
    }
    return 0;
}

static lipsc_status block_norm(work *w, size_t to, size_t from, uint64_t seed,
                               double *norm) {
    const lipsc_op op = {.m = to == w->tokens ? w->op->m : w->width_out,
                         .n = w->width_in,
                         .apply = apply_block,
                         .ctx = w};
    lipsc_svd_settings set;
    lipsc_svd_defaults(&set);
    set.tol = w->effort.tol;
    set.seed = seed;
    set.stop = w->stop;
    set.ctx = w->ctx;
    w->to = to;
    w->from = from;
    lipsc_status status = lipsc_svd(&op, &set, norm, NULL, NULL, NULL);
    if (status && w->stop && w->stop(w->ctx)) return LIPSC_E_STOPPED;
    return status == LIPSC_E_NOCONV ? LIPSC_OK : status;
}

/* ---- Winners ----------------------------------------------------------------------- */

static lipsc_status strongest_token(work *w, uint64_t seed, lipsc_influence *out) {
    lipsc_status status = LIPSC_OK;
    for (size_t c = 0; c < w->effort.solves && c < w->tokens && !status; c++) {
        double norm = 0.0;
        status = block_norm(w, w->tokens, w->columns[c].token, seed, &norm);
        if (c == 0 || norm > out->token_norm) {
            out->token = w->columns[c].token;
            out->token_norm = norm;
        }
    }
    return status;
}

typedef struct {
    double square;
    size_t to, from;
} block;

/* Keeps the CANDIDATES strongest, strongest first. */
static void remember(block best[CANDIDATES], block new_one) {
    for (size_t c = 0; c < CANDIDATES; c++)
        if (new_one.square > best[c].square) {
            const block pushed = best[c];
            best[c] = new_one;
            new_one = pushed;
        }
}

/* Estimates of all blocks in the columns of token j. */
static lipsc_status visit(work *w, size_t j, uint64_t seed, block best[CANDIDATES]) {
    const size_t n = w->op->n, m = w->op->m;
    memset(w->in, 0, BLOCK_PROBES * n * sizeof *w->in);
    for (size_t p = 0; p < BLOCK_PROBES; p++)
        for (size_t e = j * w->width_in; e < (j + 1) * w->width_in; e++)
            w->in[p * n + e] = lipsc_rng_normal(seed + 1, p * n + e);
    const lipsc_status status = apply(w, 0, BLOCK_PROBES);
    for (size_t i = 0; i < w->tokens && !status; i++) {
        block found = {.to = i, .from = j};
        for (size_t p = 0; p < BLOCK_PROBES; p++)
            found.square +=
                square_sum(w->width_out, w->out + p * m + i * w->width_out) / BLOCK_PROBES;
        remember(best, found);
    }
    return status;
}

static lipsc_status strongest_pair(work *w, uint64_t seed, lipsc_influence *out) {
    block best[CANDIDATES];
    lipsc_status status = LIPSC_OK;
    for (size_t c = 0; c < CANDIDATES; c++) best[c] = (block){.square = -1.0};
    for (size_t c = 0; c < VISITS && c < w->tokens && !status; c++) {
        if (w->columns[c].square <= best[0].square) break;
        status = visit(w, w->columns[c].token, seed, best);
    }
    for (size_t c = 0; c < CANDIDATES && best[c].square >= 0.0 && !status; c++) {
        double norm = 0.0;
        status = block_norm(w, best[c].to, best[c].from, seed, &norm);
        if (c == 0 || norm > out->pair_norm) {
            out->pair_to = best[c].to;
            out->pair_from = best[c].from;
            out->pair_norm = norm;
        }
    }
    return status;
}

static lipsc_status find(const lipsc_linop *op, size_t tokens, uint64_t seed,
                         int (*stop)(void *ctx), void *ctx, int pairs,
                         lipsc_influence *out) {
    size_t all_in, all_out;
    if (!op || !out || tokens == 0 || op->n % tokens || op->m % tokens) return LIPSC_E_ARG;
    if (!lipsc_mul_size(op->n, BLOCK_PROBES, &all_in) ||
        !lipsc_mul_size(op->m, BLOCK_PROBES, &all_out))
        return LIPSC_E_RANGE;
    work w = {.op = op,
              .effort = pairs ? careful : quick,
              .stop = stop,
              .ctx = ctx,
              .tokens = tokens,
              .width_in = op->n / tokens,
              .width_out = op->m / tokens,
              .in = lipsc_alloc(all_in, sizeof *w.in),
              .out = lipsc_alloc(all_out, sizeof *w.out),
              .x = lipsc_space_alloc(op->space, all_in),
              .y = lipsc_space_alloc(op->space, all_out),
              .columns = lipsc_alloc(tokens, sizeof *w.columns)};
    lipsc_status status =
        w.in && w.out && w.x && w.y && w.columns ? LIPSC_OK : LIPSC_E_NOMEM;
    *out = (lipsc_influence){0};
    if (!status) status = column_strengths(&w, seed);
    if (!status) status = strongest_token(&w, seed, out);
    if (!status && pairs) status = strongest_pair(&w, seed, out);
    lipsc_release(w.in);
    lipsc_release(w.out);
    lipsc_space_release(op->space, w.x);
    lipsc_space_release(op->space, w.y);
    lipsc_release(w.columns);
    return status;
}

lipsc_status lipsc_influence_find(const lipsc_linop *op, size_t tokens, uint64_t seed,
                                  int (*stop)(void *ctx), void *ctx, lipsc_influence *out) {
    return find(op, tokens, seed, stop, ctx, 1, out);
}

lipsc_status lipsc_influence_token(const lipsc_linop *op, size_t tokens, uint64_t seed,
                                   lipsc_influence *out) {
    return find(op, tokens, seed, NULL, NULL, 0, out);
}
