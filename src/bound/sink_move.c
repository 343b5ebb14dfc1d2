/* sink_move.c - what the column of blocks of a sink moves by (docs/maths.md 3.15, "A
 * sink").
 *
 * Rows and heads act on different directions g of the sink's token: the lengths of their
 * parts are not added, but their Gram matrices in g,
 *
 *     sum_i change_i^2 T_is^T T_is   and   sum_i shift_i^2 w_i w_i^T,
 *
 * both through [F V; K] of the head, whose rows are few.  Rounding: the sums over rows and
 * dimensions are wrong by (n + d + k + dv + 16) eps of the sums of the sizes, which the
 * slack has 64 times. */
#include "bound/sink_move.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "bound/around_sums.h"
#include "bound/psd.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "linalg/dense.h"

enum { SQUARINGS = 6 };

lipsc_status lipsc_sink_new(const lipsc_layer *layer, size_t n, size_t sink,
                            lipsc_sink *out) {
    const size_t d = layer->d, k = layer->key_dim, dv = layer->value_dim;
    const size_t heads = layer->heads, rank = layer->O ? min_size(layer->out_dim, dv) : dv;
    const size_t m = rank + k, wide = max_size(dv, k);
    memset(out, 0, sizeof *out);
    out->sink = n;
    if (sink >= n) return LIPSC_OK;
    double **const arrays[] = {&out->change, &out->shift,   &out->turn,   &out->y,
                               &out->stack,  &out->between, &out->shifts, &out->turns,
                               &out->slack,  &out->pack_a,  &out->pack_b};
    const size_t rows[] = {n, n, n, n, heads, heads, heads, heads, heads, n, n};
    const size_t cols[] = {1, 1, 1, dv, d * m, m * m, k * k, 1, 2, wide, wide};
    size_t total = 0;
    for (size_t a = 0; a < sizeof rows / sizeof rows[0]; a++) {
        size_t count;
        if (!lipsc_mul_size(rows[a], cols[a], &count)) return LIPSC_E_NOMEM;
        total += count;
    }
    out->storage = lipsc_alloc_zero(total, sizeof *out->storage);
    if (!out->storage) return LIPSC_E_NOMEM;
    double *at = out->storage;
    for (size_t a = 0; a < sizeof rows / sizeof rows[0]; a++) {
        *arrays[a] = at;
        at += rows[a] * cols[a];
    }
    out->n = n;
    out->d = d;
    out->k = k;
    out->rank = rank;
    out->heads = heads;
    out->sink = sink;
    return LIPSC_OK;
}

void lipsc_sink_free(lipsc_sink *sink) { lipsc_release(sink->storage); }

void lipsc_sink_row(const lipsc_head_at *head, const lipsc_around_row *row, size_t i,
                    lipsc_sink *sink) {
    const double *root = head->rows->root_weight;
    const size_t dv = head->dv;
    if (sink->heads == 0) return;
    sink->change[i] = sink->shift[i] = sink->turn[i] = 0.0;
    memset(sink->y + i * dv, 0, dv * sizeof *sink->y);
    if (sink->sink < row->lo || sink->sink >= row->lo + row->count) return;
    const double ratio = root ? root[i] / root[sink->sink] : 1.0;
    sink->change[i] = ratio * row->sink_change;
    sink->shift[i] = ratio * row->sink_shift;
    sink->turn[i] = ratio * row->sink_turn;
    memcpy(sink->y + i * dv, row->y + (sink->sink - row->lo) * dv, dv * sizeof *sink->y);
}

/* ---- One head ------------------------------------------------------------------------ */

/* (F V)^T, times ratio, and K^T side by side; returns |F V|_F, |K|_F in sizes. */
static void make_stack(const lipsc_layer *layer, const lipsc_head_at *head, double ratio,
                       const lipsc_sink *sink, double *stack, double *sizes) {
    const size_t d = sink->d, k = sink->k, dv = head->dv, rank = sink->rank;
    const size_t group = head->index * layer->kv_heads / layer->heads;
    const double *V = layer->V + group * dv * d; /* row-major: V^T column-major */
    double *keys = stack + rank * d;
    if (head->out.rank) {
        lipsc_dense_gemm(0, 1, d, rank, dv, ratio * head->unit, V, d, head->out.values,
                         rank, 0.0, stack, d);
    } else {
        for (size_t e = 0; e < dv * d; e++) stack[e] = ratio * head->unit * V[e];
    }
    for (size_t r = 0; r < k; r++)
        for (size_t e = 0; e < d; e++)
            keys[r * d + e] =
                layer->K ? layer->K[(group * k + r) * d + e] : (r == e ? 1.0 : 0.0);
    sizes[0] = lipsc_length(rank * d, stack);
    sizes[1] = lipsc_length(k * d, keys);
}

/* sum_i x_i^2 q_i q_i^T (k, k) with leading dimension ld; returns its trace. */
static double key_moments(const lipsc_head_at *head, const double *x, size_t ld,
                          lipsc_sink *sink, double *to) {
    const size_t n = sink->n, k = sink->k;
    double trace = 0.0;
    for (size_t i = 0; i < n; i++)
        for (size_t l = 0; l < k; l++) sink->pack_b[i * k + l] = x[i] * head->q[i * k + l];
    lipsc_dense_gemm(0, 1, k, k, n, 1.0, sink->pack_b, k, sink->pack_b, k, 0.0, to, ld);
    for (size_t l = 0; l < k; l++) trace += to[l + l * ld];
    return trace;
}

/* change_i F y_i, (n, rank), into pack_a, and its length in place of turn's room. */
static void turned_values(const lipsc_head_at *head, double ratio, lipsc_sink *sink,
                          double *length) {
    const size_t n = sink->n, dv = head->dv, rank = sink->rank;
    if (head->out.rank)
        lipsc_dense_gemm(0, 0, rank, n, dv, ratio, head->out.values, rank, sink->y, dv, 0.0,
                         sink->pack_a, rank);
    else
        for (size_t e = 0; e < n * dv; e++) sink->pack_a[e] = ratio * sink->y[e];
    for (size_t i = 0; i < n; i++) {
        for (size_t c = 0; c < rank; c++) sink->pack_a[i * rank + c] *= sink->change[i];
        length[i] = lipsc_length(rank, sink->pack_a + i * rank);
    }
}

/* sum_i change_i^2 [I; q_i y_i^T] [..]^T; returns the trace of its part of the keys. */
static double make_between(const lipsc_head_at *head, double ratio, double changes,
                           lipsc_sink *sink, double *between) {
    const size_t n = sink->n, k = sink->k, rank = sink->rank, m = rank + k;
    double *length = sink->shift; /* done with */
    turned_values(head, ratio, sink, length);
    for (size_t c = 0; c < rank; c++) between[c + c * m] = changes;
    const double trace = key_moments(head, length, m, sink, between + rank + rank * m);
    for (size_t i = 0; i < n; i++)
        for (size_t l = 0; l < k; l++)
            sink->pack_b[i * k + l] = sink->change[i] * head->q[i * k + l];
    lipsc_dense_gemm(0, 1, rank, k, n, 1.0, sink->pack_a, rank, sink->pack_b, k, 0.0,
                     between + rank * m, m);
    for (size_t c = 0; c < rank; c++)
        for (size_t l = 0; l < k; l++)
            between[rank + l + c * m] = between[c + (rank + l) * m];
    return trace;
}

void lipsc_sink_keep(const lipsc_layer *layer, const lipsc_head_at *head, size_t h,
                     lipsc_sink *sink) {
    if (sink->heads == 0) return;
    const size_t n = sink->n, k = sink->k, m = sink->rank + k;
    const double own = head->unit * (head->out.rank ? head->out_unit : 1.0);
    if (h == 0) sink->unit = own;
    /* at least 1e-140: its square stays a number, and a larger one does no harm */
    const double ratio = lipsc_max(sink->unit / own, 1e-140);
    const double loss = 64.0 * (double)(n + sink->d + k + head->dv + 16) * DBL_EPSILON;
    double sizes[2], changes = 0.0, turns = 0.0;
    for (size_t i = 0; i < n; i++) {
        changes += sink->change[i] * sink->change[i];
        turns += ratio * sink->turn[i] * (ratio * sink->turn[i]);
        sink->shift[i] *= ratio;
    }
    make_stack(layer, head, ratio, sink, sink->stack + h * sink->d * m, sizes);
    const double moved = key_moments(head, sink->shift, k, sink, sink->shifts + h * k * k);
    const double keys = make_between(head, ratio, changes, sink, sink->between + h * m * m);
    const double both = sqrt(changes) * sizes[0] + sqrt(keys) * sizes[1];
    sink->turns[h] = turns;
    sink->slack[2 * h] = loss * both * both;
    sink->slack[2 * h + 1] = loss * sizes[1] * sizes[1] * moved;
}

/* ---- All heads ----------------------------------------------------------------------- */

/* gram += stack middle stack^T / c, stack (d, m) */
static void add_gram(size_t d, size_t m, const double *stack, const double *middle,
                     double c, double *half, double *gram) {
    lipsc_dense_gemm(0, 0, d, m, m, 1.0 / c, stack, d, middle, m, 0.0, half, d);
    lipsc_dense_gemm(0, 1, d, d, m, 1.0, half, d, stack, d, 1.0, gram, d);
}

lipsc_status lipsc_sink_bound(const lipsc_sink *sink, const double *c, double *value) {
    const size_t d = sink->d, k = sink->k, rank = sink->rank, m = rank + k;
    double *gram = lipsc_alloc(d, (2 * d + m) * sizeof *gram), part[2], turns = 0.0;
    if (!gram) return LIPSC_E_NOMEM;
    double *room = gram + d * d, *half = room + d * d;
    lipsc_status status = LIPSC_OK;
    for (int which = 0; !status && which < 2; which++) { /* change, then shift */
        double slack = 0.0, square = 0.0;
        memset(gram, 0, d * d * sizeof *gram);
        for (size_t h = 0; h < sink->heads; h++) {
            const double *stack = sink->stack + h * d * m, weight = c ? c[h] : 1.0;
            slack += sink->slack[2 * h + (size_t)which] / weight;
            if (which)
                add_gram(d, k, stack + rank * d, sink->shifts + h * k * k, weight, half,
                         gram);
            else
                add_gram(d, m, stack, sink->between + h * m * m, weight, half, gram);
        }
        status = lipsc_psd_norm(d, gram, SQUARINGS, room, &square);
        part[which] = sqrt(square + slack);
    }
    for (size_t h = 0; h < sink->heads; h++) turns += sink->turns[h] / (c ? c[h] : 1.0);
    *value = status ? INFINITY : part[0] + part[1] + sqrt(turns);
    lipsc_release(gram);
    return status == LIPSC_E_RANGE ? LIPSC_OK : status;
}
