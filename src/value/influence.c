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
 * The few strongest blocks are solved for their spectral norms, side by side: the vectors
 * of all of them go through the operator together. */
#include "value/influence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/vector.h"
#include "core/rng.h"
#include "svd/solver.h"

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
    double *in, *out;  /* BLOCK_PROBES host vectors of op->n and op->m */
    lipsc_buffer x, y; /* the same in the operator's space             */
    strength *columns;
} work;

/* The rows of token `to` (tokens: all rows) in the columns of token `from`. */
typedef struct {
    double square; /* estimate of its Frobenius norm */
    size_t to, from;
} block;

static int by_strength(const void *a, const void *b) {
    const strength *s = a, *t = b;
    if (s->square != t->square) return s->square < t->square ? 1 : -1;
    return (s->token > t->token) - (s->token < t->token);
}

/* k <= BLOCK_PROBES vectors that are in the operator's space go through it, to the host. */
static lipsc_status apply_there(work *w, int trans, size_t k) {
    const lipsc_linop *op = w->op;
    const lipsc_buffer x = trans ? w->y : w->x, y = trans ? w->x : w->y;
    if (w->stop && w->stop(w->ctx)) return LIPSC_E_STOPPED;
    const lipsc_status status = op->apply(op->ctx, trans, k, x, y);
    return status ? status
                  : lipsc_vectors_download(op->space, trans ? op->n : op->m, k, y,
                                           trans ? w->in : w->out);
}

/* k <= BLOCK_PROBES host vectors through the operator: in to out, or back with trans. */
static lipsc_status apply(work *w, int trans, size_t k) {
    const lipsc_linop *op = w->op;
    const lipsc_status status = lipsc_vectors_upload(
        op->space, trans ? op->m : op->n, k, trans ? w->out : w->in, trans ? w->y : w->x);
    return status ? status : apply_there(w, trans, k);
}

static lipsc_status column_strengths(work *w, uint64_t seed) {
    const size_t n = w->op->n, m = w->op->m;
    lipsc_status status = LIPSC_OK;
    for (size_t j = 0; j < w->tokens; j++) w->columns[j] = (strength){0.0, j};
    for (size_t done = 0; done < w->effort.probes && !status; done += BLOCK_PROBES) {
        status = lipsc_vectors_random(w->op->space, seed, (uint64_t)done * m, m,
                                      BLOCK_PROBES, w->y);
        if (!status) status = apply_there(w, 1, BLOCK_PROBES);
        for (size_t p = 0; p < BLOCK_PROBES && !status; p++)
            for (size_t j = 0; j < w->tokens; j++) {
                const double *token = w->in + p * n + j * w->width_in;
                w->columns[j].square +=
                    lipsc_dot(w->width_in, token, token) / (double)w->effort.probes;
            }
    }
    if (!status) qsort(w->columns, w->tokens, sizeof *w->columns, by_strength);
    return status;
}

/* ---- Spectral norms of blocks -------------------------------------------------------- */

/* An operator of its own. */
typedef struct {
    work *w;
    size_t row, rows, column; /* of the numbers that a vector of all tokens has */
} block_op;

static block_op block_op_of(work *w, const block *b) {
    const int all = b->to == w->tokens;
    return (block_op){.w = w,
                      .row = all ? 0 : b->to * w->width_out,
                      .rows = all ? w->op->m : w->width_out,
                      .column = b->from * w->width_in};
}

/* A product of each block with one vector, at most BLOCK_PROBES of them.  Fits
 * lipsc_products. */
static lipsc_status apply_blocks(int trans, size_t count, const lipsc_product *product) {
    work *w = ((const block_op *)product->of)->w;
    const size_t m = w->op->m, n = w->op->n, width = w->width_in;
    double *from = trans ? w->out : w->in;
    memset(from, 0, count * (trans ? m : n) * sizeof *from);
    for (size_t v = 0; v < count; v++) {
        const block_op *b = product[v].of;
        if (trans)
            memcpy(w->out + v * m + b->row, product[v].x.at, b->rows * sizeof *from);
        else
            memcpy(w->in + v * n + b->column, product[v].x.at, width * sizeof *from);
    }
    const lipsc_status status = apply(w, trans, count);
    for (size_t v = 0; v < count && !status; v++) {
        const block_op *b = product[v].of;
        if (trans)
            memcpy(product[v].y.at, w->in + v * n + b->column, width * sizeof *from);
        else
            memcpy(product[v].y.at, w->out + v * m + b->row, b->rows * sizeof *from);
    }
    return status;
}

/* Of one alone: the operator itself. */
static lipsc_status apply_block(void *ctx, int trans, size_t k, lipsc_buffer x,
                                lipsc_buffer y) {
    const lipsc_product one = {.of = ctx, .k = k, .x = x, .y = y};
    return k == 1 ? apply_blocks(trans, 1, &one) : LIPSC_E_ARG;
}

/* The spectral norms of at most CANDIDATES blocks.  One that did not converge is a lower
 * bound like the others. */
static lipsc_status block_norms(work *w, size_t count, const block *blocks, uint64_t seed,
                                double *norm) {
    block_op of[CANDIDATES];
    lipsc_linop op[CANDIDATES];
    lipsc_svd_task task[CANDIDATES];
    lipsc_svd_settings set;
    lipsc_svd_defaults(&set);
    set.tol = w->effort.tol;
    set.seed = seed;
    set.stop = w->stop;
    set.ctx = w->ctx;
    for (size_t c = 0; c < count; c++) {
        of[c] = block_op_of(w, &blocks[c]);
        op[c] = (lipsc_linop){.m = of[c].rows,
                              .n = w->width_in,
                              .space = lipsc_space_host(LIPSC_F64),
                              .apply = apply_block,
                              .ctx = &of[c]};
        task[c] = (lipsc_svd_task){.op = &op[c], .sigma = &norm[c]};
        norm[c] = 0.0;
    }
    if (count) lipsc_svd_batch(count, task, &set, apply_blocks, 1);
    for (size_t c = 0; c < count; c++)
        if (task[c].status && task[c].status != LIPSC_E_NOCONV)
            return w->stop && w->stop(w->ctx) ? LIPSC_E_STOPPED : task[c].status;
    return LIPSC_OK;
}

/* ---- Winners ----------------------------------------------------------------------- */

static lipsc_status strongest_token(work *w, uint64_t seed, lipsc_influence *out) {
    const size_t count = w->effort.solves < w->tokens ? w->effort.solves : w->tokens;
    block column[CANDIDATES] = {{.square = 0.0}};
    double norm[CANDIDATES];
    for (size_t c = 0; c < count; c++)
        column[c] = (block){.to = w->tokens, .from = w->columns[c].token};
    const lipsc_status status = block_norms(w, count, column, seed, norm);
    for (size_t c = 0; c < count && !status; c++)
        if (c == 0 || norm[c] > out->token_norm) {
            out->token = column[c].from;
            out->token_norm = norm[c];
        }
    return status;
}

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
        for (size_t p = 0; p < BLOCK_PROBES; p++) {
            const double *token = w->out + p * m + i * w->width_out;
            found.square += lipsc_dot(w->width_out, token, token) / BLOCK_PROBES;
        }
        remember(best, found);
    }
    return status;
}

static lipsc_status strongest_pair(work *w, uint64_t seed, lipsc_influence *out) {
    block best[CANDIDATES];
    double norm[CANDIDATES];
    lipsc_status status = LIPSC_OK;
    for (size_t c = 0; c < CANDIDATES; c++) best[c] = (block){.square = -1.0};
    for (size_t c = 0; c < VISITS && c < w->tokens && !status; c++) {
        if (w->columns[c].square <= best[0].square) break;
        status = visit(w, w->columns[c].token, seed, best);
    }
    size_t count = 0;
    while (count < CANDIDATES && best[count].square >= 0.0) count++;
    if (!status) status = block_norms(w, count, best, seed, norm);
    for (size_t c = 0; c < count && !status; c++)
        if (c == 0 || norm[c] > out->pair_norm) {
            out->pair_to = best[c].to;
            out->pair_from = best[c].from;
            out->pair_norm = norm[c];
        }
    return status;
}

static lipsc_status find(const lipsc_linop *op, size_t tokens, uint64_t seed,
                         int (*stop)(void *ctx), void *ctx, int pairs, double *strengths,
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
        w.in && w.out && w.x.at && w.y.at && w.columns ? LIPSC_OK : LIPSC_E_NOMEM;
    *out = (lipsc_influence){0};
    if (!status) status = column_strengths(&w, seed);
    for (size_t c = 0; c < tokens && strengths && !status; c++)
        strengths[w.columns[c].token] = sqrt(w.columns[c].square);
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
                                  int (*stop)(void *ctx), void *ctx, double *strengths,
                                  lipsc_influence *out) {
    return find(op, tokens, seed, stop, ctx, 1, strengths, out);
}

lipsc_status lipsc_influence_token(const lipsc_linop *op, size_t tokens, uint64_t seed,
                                   lipsc_influence *out) {
    return find(op, tokens, seed, NULL, NULL, 0, NULL, out);
}
