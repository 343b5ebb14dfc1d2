/* rounding.c - how far computed products with J can be from exact ones (docs/maths.md 7.6).
 *
 * Per head: lengths and errors of queries, keys and values from the norms of the weights
 * and of the tokens (rounding_side.c); then row by row what these errors, those of the
 * softmax and those of the sums can do (rounding_row.c); then rows together,
 *
 *     |error| <= max_i own_i + sqrt( max_j sum_i key_i^2 near_ij a_i/a_j )
 *                            + sqrt( max_j sum_i value_i^2 seen_ij a_i/a_j ),
 *
 * and heads together, sum_h |O_h| |error_h|.  Terms of second order and the rounding of
 * this computation itself are covered by SECOND_ORDER. */
#include "attn/rounding.h"

#include "attn/rounding_side.h"
#include "core/mem.h"
#include "core/vector.h"
#include "linalg/dense.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROW_BLOCK = 32 }; /* rows of scores made at once */

static const double SECOND_ORDER = 1.1;
static const double UNDECIDED = 0.125;   /* of a row's mass */
static const double OWN_ERROR = 0.03125; /* of scores from projections in f32 */

/* ---- One head: lengths and errors ---------------------------------------------------- */

/* Everything of one head at one input; all arrays in one block. */
typedef struct {
    double *storage;
    double *q, *key, *z, *q_over, *k_over;
    double *tile, *near, *seen, *centre;
    lipsc_norms out; /* of the slice of O */
    double underflow, unit;
    double *by_key, *by_value; /* (n) sums over the rows */
    lipsc_rounded_head rows;
} work;

static size_t place(work *w, size_t n, size_t k, size_t dv, double *base) {
    lipsc_projected *q = &w->rows.q, *key = &w->rows.k;
    double **const arrays[] = {&w->q,
                               &w->key,
                               &w->z,
                               &w->q_over,
                               &w->k_over,
                               &w->tile,
                               &w->near,
                               &w->seen,
                               &w->centre,
                               &w->by_key,
                               &w->by_value,
                               &q->length,
                               &q->error,
                               &q->own_error,
                               &q->stretch,
                               &q->spread,
                               &key->length,
                               &key->error,
                               &key->own_error,
                               &key->stretch,
                               &key->spread,
                               &q->stretch_error,
                               &key->stretch_error,
                               &w->rows.z_spread};
    size_t used = 0;
    for (size_t a = 0; a < sizeof arrays / sizeof arrays[0]; a++) {
        const size_t width = a < 2 ? k : a == 2 ? dv : a == 5 ? ROW_BLOCK : 1;
        if (base) *arrays[a] = base + used;
        used += arrays[a] == &w->centre ? 2 * (k + dv) : (n + 1) * width; /* and a sink */
    }
    return used;
}

/* spread_i = |y_i - centre| + error of y_i, and of zero, the sink, at n; returns the
 * largest.  The centre is the mean, or zero where the cap bends what keys have in common.
 */
static double spread_of(size_t n, size_t width, const double *y, const double *error,
                        int sink, int capped, double *centre, double *spread) {
    double widest = 0.0, *away = centre + width;
    memset(centre, 0, width * sizeof *centre);
    for (size_t i = 0; !capped && i < n; i++)
        for (size_t l = 0; l < width; l++) centre[l] += y[i * width + l] / (double)n;
    for (size_t i = 0; i < n; i++) {
        for (size_t l = 0; l < width; l++) away[l] = y[i * width + l] - centre[l];
        spread[i] = lipsc_safe_length(width, away) + error[i];
        widest = lipsc_max(widest, spread[i]);
    }
    spread[n] = lipsc_safe_length(width, centre);
    return sink ? lipsc_max(widest, spread[n]) : widest;
}

static double norm_ratio(lipsc_norms a) {
    return a.spectral > 0.0 ? a.frobenius / a.spectral : 1.0;
}

/* log a_j, and what is added to it: the largest, in size */
static double largest_log(const lipsc_input *input) {
    double largest = 0.0;
    for (size_t i = 0; input->weights && i < input->n; i++)
        largest = lipsc_max(largest, fabs(log(input->weights[i])));
    return largest;
}

/* What scores have beyond query times key. */
static void score_rules(const lipsc_attn *attn, size_t h, lipsc_rounded_head *r) {
    const lipsc_layer *l = &attn->layer;
    const size_t n = attn->rows.n;
    r->bias = attn->rows.distance ? attn->rows.distance + h * (2 * n - 1) : NULL;
    r->cap = l->soft_cap;
    r->has_sink = l->sinks != NULL;
    r->sink = l->sinks ? l->sinks[h] : 0.0;
    r->most_bias =
        lipsc_max(fabs(r->sink), r->bias ? lipsc_largest(2 * n - 1, r->bias) : 0.0);
    r->k.length[n] = r->k.error[n] = r->k.own_error[n] = 0.0;
}

/* norms: of all heads. */
static void head_errors(const lipsc_attn *attn, size_t h, const double *sizes,
                        const lipsc_head_norms *norms, lipsc_precision in,
                        lipsc_precision own, work *w) {
    const lipsc_layer *l = &attn->layer;
    const size_t n = attn->rows.n, d = l->d, k = l->key_dim, dv = l->value_dim;
    const size_t g = h * l->kv_heads / l->heads;
    const lipsc_raw raw = attn->rows.raw;
    const lipsc_side query = lipsc_side_of(attn, norms, 0, h),
                     key = lipsc_side_of(attn, norms, 1, g);
    const lipsc_side value = {.dim = dv,
                              .norm_dim = dv,
                              .n = n,
                              .weight = norms[h].value,
                              .bias = l->bv ? lipsc_safe_length(dv, l->bv + g * dv) : 0.0,
                              .scale = 1.0,
                              .raw = raw.q ? raw.z + g * n * dv : NULL};
    lipsc_rounded_head *r = &w->rows;
    lipsc_side_errors(&query, n, d, sizes, w->q, w->q_over, in, own, &r->q);
    lipsc_side_errors(&key, n, d, sizes, w->key, w->k_over, in, own, &r->k);
    score_rules(attn, h, r);
    r->k.widest = spread_of(n, k, w->key, r->k.own_error, r->has_sink, r->cap > 0.0,
                            w->centre, r->k.spread);

    r->z_error = r->z_longest = r->z_widest = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double size = sizes[i], length = lipsc_safe_length(dv, w->z + i * dv);
        r->z_error = lipsc_max(r->z_error, lipsc_side_raw_error(&value, i, d, in, size));
        w->near[i] = lipsc_side_raw_error(&value, i, d, own, size); /* a free array */
        r->z_longest = lipsc_max(r->z_longest, length + w->near[i]);
    }
    r->z_longest += r->z_error;
    r->z_widest = spread_of(n, dv, w->z, w->near, r->has_sink, 0, w->centre, r->z_spread);
    r->v_norm = value.weight.spectral;
    r->v_error = value.weight.frobenius * lipsc_precision_gamma((double)d + 4.0, in) +
                 ((double)d + 4.0) * sqrt((double)dv) * in.tiny;

    const double heads = (double)l->heads, width = (double)lipsc_layer_width(l);
    const double head_dim = (double)(k > dv ? k : dv);
    r->n = n;
    r->log_weight = attn->rows.log_weight;
    r->root = attn->rows.root_weight;
    r->unit = in.unit;
    r->own_unit = ldexp(1.0, -53); /* the scores of this pass are made in double */
    r->dots = lipsc_precision_gamma(2.0 * head_dim + 4.0, in);
    r->own_dots =
        lipsc_precision_gamma((double)k + 2.0, lipsc_precision_of(LIPSC_F64, NULL));
    /* matrix products err by |W|_F, what they are compared with has |W| */
    w->out = norms[h].out;
    const double ratio =
        lipsc_max(lipsc_max(norm_ratio(w->out), norm_ratio(query.weight)),
                  lipsc_max(norm_ratio(key.weight), norm_ratio(value.weight)));
    r->sums = lipsc_precision_gamma(2.0 * (double)n + 2.0 * heads + 32.0, in) + r->dots +
              ratio * lipsc_precision_gamma(
                          heads * (2.0 * (double)k + (double)dv) + width + 16.0, in);
    r->smallest = 4.0 * in.least;
}

/* ---- One head: its rows -------------------------------------------------------------- */

typedef struct {
    double eps, score_error, own_error, score_size;
    size_t token;
    int undecided;
} head_rounding;

static void add_row(const lipsc_rounded_head *r, size_t i, size_t lo, size_t hi,
                    const lipsc_rounded_row *row, work *w) {
    for (size_t j = lo; j < hi; j++) {
        const double ratio = r->root ? r->root[i] / r->root[j] : 1.0;
        w->by_key[j] += row->key * row->key * w->near[j - lo] * ratio * ratio;
        w->by_value[j] += row->value * row->value * w->seen[j - lo] * ratio * ratio;
    }
}

/* Products that underflow: absolute errors, carried through the largest sizes there are. */
static double underflow(const lipsc_rounded_head *r, size_t width, lipsc_precision in) {
    const double n = (double)r->n;
    double least = 1.0; /* roots of weights divide what may have underflowed */
    for (size_t i = 0; r->root && i < r->n; i++) least = lipsc_min(r->root[i], least);
    return in.tiny / least * 8.0 * n * sqrt(n) * (double)width * (1.0 + r->z_longest) *
           (1.0 + r->q.longest + r->k.longest) *
           (1.0 + r->q.most_stretch + r->k.most_stretch + r->v_norm);
}

/* Everything is linear in the values: times a power of two they have a size at which no
 * square underflows. */
static double scale_values(lipsc_rounded_head *r) {
    const double size = lipsc_max(r->v_norm, r->z_longest);
    int exponent = 0;
    if (size > 0.0 && size < INFINITY) frexp(size, &exponent);
    const double unit = ldexp(1.0, exponent < -1000 ? 1000 : -exponent);
    for (size_t i = 0; i <= r->n; i++) r->z_spread[i] *= unit;
    r->z_longest *= unit;
    r->z_widest *= unit;
    r->z_error *= unit;
    r->v_norm *= unit;
    r->v_error *= unit;
    return unit;
}

static head_rounding bound_head(const lipsc_attn *attn, work *w) {
    const lipsc_rows *rows = &attn->rows;
    const size_t n = rows->n, k = attn->layer.key_dim;
    const lipsc_rounded_head *r = &w->rows;
    head_rounding out = {.score_size = r->q.longest * r->k.longest};
    double own = 0.0;
    memset(w->by_key, 0, n * sizeof *w->by_key);
    memset(w->by_value, 0, n * sizeof *w->by_value);
    for (size_t i0 = 0; i0 < n; i0 += ROW_BLOCK) {
        const size_t i1 = n - i0 < ROW_BLOCK ? n : i0 + ROW_BLOCK;
        const size_t first = rows->lo[i0], count = rows->hi[i1 - 1] - first;
        const size_t stride = count + 1; /* room for a sink */
        lipsc_dense_gemm(1, 0, count, i1 - i0, k, 1.0, w->key + first * k, k, w->q + i0 * k,
                         k, 0.0, w->tile, stride);
        for (size_t i = i0; i < i1; i++) {
            const size_t lo = rows->lo[i], hi = rows->hi[i];
            double *score = w->tile + (i - i0) * stride + (lo - first);
            const lipsc_rounded_row row =
                lipsc_rounded_row_of(r, i, lo, hi, score, w->near, w->seen);
            add_row(r, i, lo, hi, &row, w);
            if (!(row.own <= own)) own = row.own; /* a NaN stays */
            if (!(row.score_error <= out.score_error)) {
                out.score_error = row.score_error;
                out.token = rows->order ? rows->order[i] : i;
            }
            if (!(row.own_error <= out.own_error)) out.own_error = row.own_error;
            out.undecided |= !(row.open < UNDECIDED);
        }
    }
    const double key = lipsc_largest(n, w->by_key), value = lipsc_largest(n, w->by_value);
    out.eps = w->out.spectral * ((own + sqrt(key) + sqrt(value)) / w->unit) + w->underflow;
    return out;
}

/* Without a look at the scores: coarser, and O(n). */
static head_rounding cover_head(const work *w) {
    const lipsc_rounded_head *r = &w->rows;
    head_rounding out = {.score_size = r->q.longest * r->k.longest};
    const double error = lipsc_rounded_cover(r, &out.score_error);
    out.eps = w->out.spectral * (error / w->unit) + w->underflow;
    return out;
}

/* ---- All heads ---------------------------------------------------------------------- */

static lipsc_status one_head(lipsc_attn *attn, size_t h, const double *sizes,
                             const lipsc_head_norms *norms, lipsc_precision in, int quick,
                             head_rounding *out) {
    work room = {0}, *w = &room;
    const lipsc_layer *l = &attn->layer;
    const size_t count = place(w, attn->rows.n, l->key_dim, l->value_dim, NULL);
    const lipsc_precision own = lipsc_precision_of(attn->dtype, attn->device);
    w->storage = lipsc_alloc(count, sizeof *w->storage);
    if (!w->storage) return LIPSC_E_NOMEM;
    place(w, attn->rows.n, l->key_dim, l->value_dim, w->storage);
    const lipsc_status status =
        lipsc_attn_projections(attn, h, w->q, w->key, w->z, w->q_over, w->k_over);
    if (status) {
        lipsc_release(w->storage);
        return status;
    }
    head_errors(attn, h, sizes, norms, in, own, w);
    w->rows.log_weight_error = 8.0 * largest_log(&attn->input);
    w->underflow =
        (1.0 + w->out.frobenius) * underflow(&w->rows, l->key_dim + l->value_dim, in);
    w->unit = scale_values(&w->rows);
    *out = quick ? cover_head(w) : bound_head(attn, w);
    lipsc_release(w->storage);
    return LIPSC_OK;
}

/* With the projections of attn's own precision; *own_error: what they do to the scores. */
static lipsc_status rounding_at(lipsc_attn *attn, lipsc_dtype dtype, int quick,
                                lipsc_rounding *out, double *own_error) {
    const lipsc_layer *l = &attn->layer;
    const lipsc_precision in = lipsc_precision_of(dtype, attn->device);
    const lipsc_head_norms *norms;
    lipsc_status status = lipsc_packed_norms(attn->packed, &norms);
    if (status) return status;
    head_rounding *heads = lipsc_alloc_zero(l->heads, sizeof *heads);
    double *sizes = lipsc_alloc(attn->rows.n, sizeof *sizes); /* of the tokens */
    if (!heads || !sizes) status = LIPSC_E_NOMEM;
    if (!status) status = lipsc_attn_token_lengths(attn, sizes);
    /* ranks that share it ask for the heads in one order */
    const int shared = lipsc_device_space(attn->device, attn->dtype)->split != NULL;
    const int threads = shared ? 1 : lipsc_attn_threads(attn);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (size_t h = 0; h < l->heads; h++) {
        if (!sizes || !heads) continue;
        const lipsc_status mine = one_head(attn, h, sizes, norms, in, quick, &heads[h]);
        if (mine) {
#pragma omp atomic write
            status = mine;
        }
    }
    *out = (lipsc_rounding){0};
    *own_error = 0.0;
    for (size_t h = 0; !status && h < l->heads; h++) {
        const double eps = heads[h].eps;
        out->eps = l->O ? out->eps + eps : hypot(out->eps, eps);
        out->undecided |= heads[h].undecided;
        if (!(heads[h].own_error <= *own_error)) *own_error = heads[h].own_error;
        if (h == 0 || !(heads[h].score_error <= out->score_error)) {
            out->score_error = heads[h].score_error;
            out->score_size = heads[h].score_size;
            out->head = h;
            out->token = heads[h].token;
        }
    }
    const double width = (double)lipsc_layer_width(l), n = (double)attn->rows.n;
    out->eps = SECOND_ORDER * (out->eps + in.tiny * 8.0 * n * width * (double)l->d);
    if (!(out->eps < INFINITY)) out->eps = INFINITY; /* a NaN too */
    lipsc_release(sizes);
    lipsc_release(heads);
    return status;
}

/* First without a look at the scores where that may be enough. */
static lipsc_status rounding_here(lipsc_attn *attn, lipsc_dtype dtype, double enough,
                                  lipsc_rounding *out, double *own_error) {
    if (enough > 0.0 && !attn->input.weights) {
        const lipsc_status status = rounding_at(attn, dtype, 1, out, own_error);
        *own_error = 0.0; /* of scores, which nobody has looked at */
        if (status || out->eps <= enough) return status;
    }
    return rounding_at(attn, dtype, 0, out, own_error);
}

/* The same with projections in double where values are evaluated. */
static lipsc_status rounding_in_double(lipsc_attn *attn, lipsc_dtype dtype, double enough,
                                       lipsc_rounding *out) {
    double own_error;
    lipsc_attn own;
    if (attn->twin) return rounding_here(attn->twin, dtype, enough, out, &own_error);
    lipsc_status status =
        lipsc_attn_as(attn, LIPSC_F64, lipsc_device_proved(attn->device), &own);
    if (!status) status = rounding_here(&own, dtype, enough, out, &own_error);
    lipsc_attn_close(&own);
    return status;
}

/* Whether attn can say what its products work with. */
static int tells(const lipsc_attn *attn) {
    const lipsc_device_ops *ops = lipsc_device_table(attn->device);
    return ops->projections && (attn->dtype == LIPSC_F64 || !ops->coarse_f32);
}

lipsc_status lipsc_attn_rounding_within(lipsc_attn *attn, lipsc_dtype dtype, double enough,
                                        lipsc_rounding *out) {
    double own_error;
    if (!tells(attn)) return rounding_in_double(attn, dtype, enough, out);
    const lipsc_status status = rounding_here(attn, dtype, enough, out, &own_error);
    if (status || attn->dtype == LIPSC_F64 || own_error <= OWN_ERROR) return status;
    return rounding_in_double(attn, dtype, 0.0, out);
}

lipsc_status lipsc_attn_rounding(lipsc_attn *attn, lipsc_dtype dtype, lipsc_rounding *out) {
    return lipsc_attn_rounding_within(attn, dtype, 0.0, out);
}

void lipsc_rounding_reason(const lipsc_rounding *rounding, char *text, size_t size) {
    snprintf(text, size,
             "double precision cannot tell the scores of token %zu in head %zu apart: of "
             "size up to %.1e, they are known to %.1e only",
             rounding->token, rounding->head, rounding->score_size, rounding->score_error);
}
