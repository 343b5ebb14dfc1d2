/* rounding.c - how far computed products with the Jacobian of a block are from exact ones
 * (docs/maths.md 7.9).
 *
 * Exact is the derivative of each part, a norm, attention, the MLP, at the input of that
 * part as the forward pass delivered it.  Follows the block as block.c does, with the norm
 * of each part and the error of its products in hand. */
#include "model/rounding.h"

#include "attn/norms.h"
#include "attn/rounding.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "core/vector.h"
#include "linalg/dense.h"

#include <float.h>
#include <math.h>

/* Errors below are of first order; they are small, or nothing is said. */
static const double small = 1e-3, second_order = 1.1;

/* Relative error of `count` operations in any order, with twice the unit for room. */
static double rounds(double count) { return count * DBL_EPSILON; }

static double length_of(size_t count, const double *x) {
    return lipsc_length(count, x) * (1.0 + rounds((double)count));
}

/* Of the longest of n vectors. */
static double longest_of(size_t n, size_t width, const double *x) {
    double longest = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double length = length_of(width, x + i * width);
        if (!(length <= longest)) longest = length;
    }
    return longest;
}

/* How far n vectors are from their mean, which is taken off them. */
static double spread_of(size_t n, size_t width, double *x) {
    lipsc_subtract_mean(n, width, x);
    return longest_of(n, width, x) * (1.0 + rounds(8.0));
}

/* ---- Linear maps ------------------------------------------------------------------- */

static const lipsc_stretch identity = {1.0, 0.0}, nothing_known = {INFINITY, INFINITY};

lipsc_stretch lipsc_stretch_after(lipsc_stretch s, lipsc_stretch t) {
    return (lipsc_stretch){s.norm * t.norm,
                           s.eps * (t.norm + t.eps) + (s.norm + s.eps) * t.eps};
}

static lipsc_stretch plus(lipsc_stretch s, lipsc_stretch t) {
    const double norm = s.norm + t.norm, eps = s.eps + t.eps;
    return (lipsc_stretch){norm, eps + rounds(2.0) * (norm + eps)};
}

/* A diagonal whose entries are at most `most` and off by `error`. */
static lipsc_stretch diagonal(double most, double error) {
    return (lipsc_stretch){most + error, error + rounds(2.0) * (most + error)};
}

/* Norms of a matrix: |W|_F, and above |W| the Schatten 8-norm |(W W^T)^2|_F^{1/4}. */
typedef struct {
    double frobenius, spectral;
} weight_size;

/* Column i (of count) of W has `length` entries and begins at W + i * step. */
static lipsc_status weigh(size_t count, size_t length, const double *W, size_t step,
                          weight_size *out) {
    double *gram = lipsc_alloc(2 * count, count * sizeof *gram);
    if (!gram) return LIPSC_E_NOMEM;
    double sum = 0.0;
    for (size_t i = 0; i < count; i++)
        for (size_t e = 0; e < length; e++) sum += W[i * step + e] * W[i * step + e];
    lipsc_dense_gemm(1, 0, count, count, length, 1.0, W, step, W, step, 0.0, gram, count);
    lipsc_dense_gemm(0, 0, count, count, count, 1.0, gram, count, gram, count, 0.0,
                     gram + count * count, count);
    out->frobenius = sqrt(sum) * (1.0 + rounds((double)count * (double)length));
    out->spectral = 1.0001 * sqrt(sqrt(length_of(count * count, gram + count * count)));
    if (!(out->spectral < out->frobenius)) out->spectral = out->frobenius;
    lipsc_release(gram);
    return LIPSC_OK;
}

/* ---- Norms and factors ------------------------------------------------------------- */

/* count doubles of the model's device on the host; NULL where they cannot be had. */
static double *fetch(const lipsc_model *m, size_t count, lipsc_buffer x) {
    double *host = x.at ? lipsc_alloc(count, sizeof *host) : NULL;
    const lipsc_space *space = lipsc_device_space(m->home, LIPSC_F64);
    if (!host || !lipsc_space_download(space, count, x, host)) return host;
    lipsc_release(host);
    return NULL;
}

/* The largest of them; NaN: not known. */
static double largest_there(const lipsc_model *m, size_t count, lipsc_buffer x) {
    double *host = fetch(m, count, x);
    const double largest = host ? lipsc_largest(count, host) : NAN;
    lipsc_release(host);
    return largest;
}

/* |D(1/r)| <= 1/r^2 and |D z| <= 1/r: with rho what the sums are off by, over r, both are
 * off by at most 3 rho of their sizes. */
lipsc_stretch lipsc_norm_rounding(const lipsc_model *m, const lipsc_norm_point *point,
                                  size_t n, double *size) {
    const size_t d = m->config.d;
    const double root = sqrt((double)d);
    double *over = fetch(m, n, point->over), *gain = fetch(m, d, point->weights->gain);
    double *bias = fetch(m, d, point->weights->bias);
    const int known = over && gain && (bias || !point->weights->bias.at);
    const double most = known ? lipsc_largest(n, over) : NAN;
    double least = known ? INFINITY : NAN;
    for (size_t i = 0; known && i < n; i++) least = over[i] < least ? over[i] : least;
    const double g = known ? lipsc_largest(d, gain) : NAN;
    const double b = known && bias ? length_of(d, bias) : 0.0;
    lipsc_release(over);
    lipsc_release(gain);
    lipsc_release(bias);
    const double sums = rounds(2.0 * (double)d + 16.0);
    const double rho = sums * *size * most / root + sums;
    *size = (g * root + b) * (1.0 + small);
    if (!(least > 0.0) || !(rho < small)) return nothing_known;
    const double norm = g * most * (1.0 + 4.0 * rho);
    return (lipsc_stretch){norm, norm * (10.0 * rho + 4.0 * sums)};
}

static lipsc_stretch norm_at(const lipsc_block_point *p, lipsc_norm_place place,
                             double *size) {
    if (!p->norm[place].weights) return identity;
    return lipsc_norm_rounding(p->model, &p->norm[place], p->n, size);
}

static lipsc_stretch factor_at(const lipsc_block_point *p, lipsc_branch branch,
                               double *size) {
    if (!p->factor[branch].at) return identity;
    const double most = largest_there(p->model, p->model->config.d, p->factor[branch]);
    *size *= most;
    return diagonal(most, 0.0);
}

/* ---- Attention --------------------------------------------------------------------- */

/* How far n vectors are from each other: from their mean, or from zero where zero is one of
 * them. */
static double apart(size_t n, size_t width, int with_zero, double *x) {
    return with_zero ? longest_of(n, width, x) : spread_of(n, width, x);
}

/* The largest gain of a head. */
static double gain_of(const lipsc_layer *l, const double *gain, size_t index) {
    if (!gain) return 1.0;
    return lipsc_largest(l->key_dim, gain + (l->norm_whole ? index * l->key_dim : 0));
}

/* |O_h J_h| by 1.2: a covariance is at most the product of the spreads, the key path by
 * Cauchy-Schwarz with the weights of a row, and no column of attention sums to more than
 * n.  A cap has slopes up to 1, keys times these are within their lengths; a sink is a key
 * and a value of zero.  *longest: the longest value. */
static lipsc_status head_norm(const lipsc_attn *attn, size_t h, double *norm,
                              double *longest) {
    const lipsc_layer *l = &attn->layer;
    const size_t n = attn->rows.n, k = l->key_dim, dv = l->value_dim;
    const size_t g = h * l->kv_heads / l->heads;
    const lipsc_head_norms *norms;
    lipsc_status status = lipsc_packed_norms(attn->packed, &norms);
    if (status) return status;
    double *q = lipsc_alloc(n * (2 * k + dv + 2), sizeof *q);
    if (!q) return LIPSC_E_NOMEM;
    double *key = q + n * k, *z = key + n * k, *q_over = z + n * dv, *k_over = q_over + n;
    status = lipsc_attn_projections(attn, h, q, key, z, q_over, k_over);
    if (status) {
        lipsc_release(q);
        return status;
    }
    const double q_map = fabs(l->scale) * gain_of(l, l->q_gain, h) *
                         lipsc_largest(n, q_over) *
                         lipsc_side_norms(l, norms, 0, h).spectral;
    const double k_map = gain_of(l, l->k_gain, g) * lipsc_largest(n, k_over) *
                         lipsc_side_norms(l, norms, 1, g).spectral;
    const double out = norms[h].out.spectral, query = longest_of(n, k, q);
    *longest = out * longest_of(n, dv, z);
    const double keys = apart(n, k, l->sinks || l->soft_cap > 0.0, key);
    const double values = apart(n, dv, l->sinks != NULL, z);
    *norm = out * 1.001 *
            (values * keys * q_map +
             sqrt((double)n) * (2.0 * values * query * k_map + norms[h].value.spectral));
    lipsc_release(q);
    return LIPSC_OK;
}

static lipsc_status attention_at(const lipsc_block_point *p, double *size,
                                 lipsc_stretch *out) {
    const lipsc_layer *l = &p->attn->layer;
    lipsc_rounding rounding;
    lipsc_status status = lipsc_attn_rounding(p->attn, LIPSC_F64, &rounding);
    *out = nothing_known;
    if (status || rounding.undecided || !(rounding.eps < INFINITY)) return status;
    *size = l->bo ? length_of(l->out_dim, l->bo) : 0.0;
    *out = (lipsc_stretch){0.0, rounding.eps};
    for (size_t h = 0; !status && h < l->heads; h++) {
        double norm = 0.0, longest = 0.0;
        status = head_norm(p->attn, h, &norm, &longest);
        out->norm += norm;
        *size += longest;
    }
    *size *= 1.0 + small;
    return status;
}

/* ---- The MLP ----------------------------------------------------------------------- */

/* |a''| <= 2 and |a'| <= 1.2 for every activation but relu, whose slope is 0 or 1 and does
 * not move as long as no argument can pass zero; values and slopes are computed to 64 units
 * of their sizes and of 1. */
static const double most_bend = 2.0, most_slope = 1.2, activation_rounds = 64.0;

/* How much slopes move with their arguments, which err by `error`. */
static double bend_of(const lipsc_block_point *p, double error) {
    if (p->model->config.activation != LIPSC_ACT_RELU) return most_bend;
    return p->kink > error ? 0.0 : INFINITY;
}

/* y (rows, out) = x (rows, in) W^T on the host, with the bias or without. */
static lipsc_status dense_host(const lipsc_block_point *p, const void *linear, size_t rows,
                               size_t in, size_t out, const double *x, int bias,
                               double *y) {
    const lipsc_space *space = lipsc_device_space(p->device, p->dtype);
    const lipsc_buffer bx = lipsc_space_alloc(space, rows * in),
                       by = lipsc_space_alloc(space, rows * out);
    lipsc_status status = bx.at && by.at ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) status = lipsc_space_upload(space, rows * in, x, bx);
    if (!status) status = lipsc_linear_apply(p->device, linear, rows, bx, bias, 0, by);
    if (!status) status = lipsc_space_download(space, rows * out, by, y);
    lipsc_space_release(space, bx);
    lipsc_space_release(space, by);
    return status;
}

/* From products with unit vectors, which show the weights as they are.  which: goes from d
 * to ffn; own: the layer in its own direction. */
static lipsc_status measure_dense(const lipsc_block_point *p, lipsc_dense which,
                                  lipsc_dense own, lipsc_dense_size *out) {
    const size_t d = p->model->config.d, ffn = p->model->config.ffn;
    const size_t longest = d > ffn ? d : ffn, width = own == LIPSC_DENSE_DOWN ? d : ffn;
    const size_t in = own == LIPSC_DENSE_DOWN ? ffn : d;
    double *unit = lipsc_alloc_zero(d, longest * sizeof *unit);
    double *W = lipsc_alloc(d, ffn * sizeof *W);
    lipsc_status status = unit && W ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) /* zeros: the bias alone */
        status = dense_host(p, p->dense[own], 1, in, width, unit, 1, W);
    if (!status) {
        weight_size size;
        const double bias = length_of(width, W);
        for (size_t c = 0; c < d; c++) unit[c * d + c] = 1.0;
        status = dense_host(p, p->dense[which], d, d, ffn, unit, 0, W);
        if (!status) status = weigh(d, ffn, W, ffn, &size);
        if (!status) *out = (lipsc_dense_size){size.frobenius, size.spectral, bias};
    }
    lipsc_release(unit);
    lipsc_release(W);
    return status;
}

typedef struct {
    lipsc_dense_size weights;
    double sums; /* relative rounding of its sums */
} dense_size;

/* Measured once and kept with the block. */
static lipsc_status dense_at(const lipsc_block_point *p, lipsc_dense own, dense_size *out) {
    lipsc_model *m = p->model;
    lipsc_dense_size *known = &m->blocks[p->layer].dense_size[own];
    const size_t d = m->config.d, ffn = m->config.ffn;
    const lipsc_dense which = own == LIPSC_DENSE_DOWN ? LIPSC_DENSE_DOWN_BACK : own;
    lipsc_status status = LIPSC_OK;
    pthread_mutex_lock(&m->lock);
    if (!(known->frobenius > 0.0)) status = measure_dense(p, which, own, known);
    out->weights = *known;
    pthread_mutex_unlock(&m->lock);
    out->sums = rounds((double)(d > ffn ? d : ffn) + 4.0);
    return status;
}

static lipsc_stretch map_of(const dense_size *w) {
    return (lipsc_stretch){w->weights.spectral, w->sums * w->weights.frobenius};
}

/* Length of W x + b for |x| = size, and its error. */
static double image_of(const dense_size *w, double size) {
    return w->weights.spectral * size + w->weights.bias;
}
static double image_error(const dense_size *w, double size) {
    return w->sums * (w->weights.frobenius * size + w->weights.bias);
}

static lipsc_status mlp_at(const lipsc_block_point *p, double *size, lipsc_stretch *out) {
    const size_t count = p->n * p->model->config.ffn;
    const double extra = rounds(activation_rounds),
                 slope = largest_there(p->model, count, p->slope);
    dense_size up, down, gate;
    lipsc_status status = dense_at(p, LIPSC_DENSE_UP, &up);
    if (!status) status = dense_at(p, LIPSC_DENSE_DOWN, &down);
    if (!status && p->gate.at) status = dense_at(p, LIPSC_DENSE_GATE, &gate);
    *out = nothing_known;
    if (status) return status;
    const double u = image_of(&up, *size), u_error = image_error(&up, *size);
    double hidden = most_slope * u + 1.0;
    lipsc_stretch inner;
    if (p->gate.at) {
        const double c = image_of(&gate, *size), c_error = image_error(&gate, *size);
        const double gate_error = most_slope * c_error + extra * (c + 1.0);
        const double slope_error =
            bend_of(p, c_error) * c_error * u + most_slope * u_error + extra * (u + 1.0);
        inner = plus(lipsc_stretch_after(diagonal(slope, slope_error), map_of(&gate)),
                     lipsc_stretch_after(
                         diagonal(largest_there(p->model, count, p->gate), gate_error),
                         map_of(&up)));
        hidden = (most_slope * c + 1.0) * u;
    } else {
        inner = lipsc_stretch_after(
            diagonal(slope, bend_of(p, u_error) * u_error + 2.0 * extra), map_of(&up));
    }
    *out = lipsc_stretch_after(map_of(&down), inner);
    *size = image_of(&down, hidden) * (1.0 + small);
    return LIPSC_OK;
}

/* ---- Experts ------------------------------------------------------------------------ */

/* One dense layer of the experts that are taken, the largest sizes of them.  own: in its
 * own direction; back: from d to its other side, `wide` long. */
static lipsc_status expert_dense(const lipsc_block_point *p, lipsc_dense own,
                                 lipsc_dense back, size_t wide, dense_size *out) {
    lipsc_model *m = p->model;
    const size_t d = m->config.d, longest = d > wide ? d : wide;
    const size_t in = own == LIPSC_DENSE_DOWN ? wide : d, width = d + wide - in;
    const int router = own == LIPSC_ROUTER_FORTH;
    double *unit = lipsc_alloc_zero(d, longest * sizeof *unit);
    double *W = lipsc_alloc(longest, longest * sizeof *W);
    lipsc_status status = unit && W ? LIPSC_OK : LIPSC_E_NOMEM;
    *out = (dense_size){.sums = rounds((double)longest + 4.0)};
    for (size_t e = 0; !status && e < (router ? 1 : m->config.experts); e++) {
        const void *forth, *there;
        if (!router && !lipsc_experts_takes(p->experts, e)) continue;
        status = lipsc_model_expert(m, p->layer, own, e, p->dtype, &forth, NULL);
        if (!status)
            status = lipsc_model_expert(m, p->layer, back, e, p->dtype, &there, NULL);
        for (size_t c = 0; c < d; c++) unit[c * d + c] = 0.0; /* the bias alone */
        if (!status) status = dense_host(p, forth, 1, in, width, unit, 1, W);
        const double bias = status ? NAN : length_of(width, W);
        for (size_t c = 0; c < d; c++) unit[c * d + c] = 1.0;
        if (!status) status = dense_host(p, there, d, d, wide, unit, 0, W);
        if (status) break;
        const double size = length_of(d * wide, W);
        out->weights.frobenius = lipsc_max(out->weights.frobenius, size);
        out->weights.bias = lipsc_max(out->weights.bias, bias);
    }
    out->weights.spectral = out->weights.frobenius;
    lipsc_release(unit);
    lipsc_release(W);
    return status;
}

/* What is known of the experts of a block. */
typedef struct {
    dense_size up, gate, down, router;
    lipsc_experts_size size;
} expert_sizes;

static lipsc_status measure_experts(const lipsc_block_point *p, expert_sizes *out) {
    const size_t ffn = p->model->config.ffn, experts = p->model->config.experts;
    lipsc_status status = expert_dense(p, LIPSC_DENSE_UP, LIPSC_DENSE_UP, ffn, &out->up);
    if (!status)
        status = expert_dense(p, LIPSC_DENSE_GATE, LIPSC_DENSE_GATE, ffn, &out->gate);
    if (!status)
        status = expert_dense(p, LIPSC_DENSE_DOWN, LIPSC_DENSE_DOWN_BACK, ffn, &out->down);
    if (!status)
        status =
            expert_dense(p, LIPSC_ROUTER_FORTH, LIPSC_ROUTER_FORTH, experts, &out->router);
    if (!status) status = lipsc_experts_measure(p->experts, &out->size);
    return status;
}

/* E' of one expert, and in *value the error of what it returns. */
static lipsc_stretch expert_map(const lipsc_block_point *p, const expert_sizes *e,
                                double size, double *value) {
    const double extra = rounds(activation_rounds), alpha = p->model->config.glu_alpha;
    const double bend = alpha > most_bend ? alpha : most_bend;
    const double u = image_of(&e->up, size) + 1.0, u_error = image_error(&e->up, size);
    const double c = image_of(&e->gate, size), c_error = image_error(&e->gate, size);
    const double a_error = bend * c_error * u + most_slope * u_error + extra * (u + 1.0);
    const double b_error = most_slope * c_error + extra * (c + 1.0);
    const double hidden = (most_slope * c + 1.0) * u;
    const double hidden_error = most_slope * c_error * u +
                                (most_slope * c + 1.0) * u_error + extra * (hidden + 1.0);
    *value = e->down.weights.spectral * hidden_error + image_error(&e->down, hidden);
    if (!(e->size.kink > c_error && e->size.kink > u_error)) return nothing_known;
    const lipsc_stretch inner =
        plus(lipsc_stretch_after(diagonal(e->size.by_gate, a_error), map_of(&e->gate)),
             lipsc_stretch_after(diagonal(e->size.by_up, b_error), map_of(&e->up)));
    return lipsc_stretch_after(map_of(&e->down), inner);
}

/* sum_p w_p E_p' + F_p dw_p: the first is a mean of the E_p', the second Cov_w(F, R h). */
static lipsc_status experts_at(const lipsc_block_point *p, double *size,
                               lipsc_stretch *out) {
    const double used = (double)p->model->config.experts_used,
                 d = (double)p->model->config.d;
    expert_sizes e;
    lipsc_status status = measure_experts(p, &e);
    *out = nothing_known;
    if (status) return status;
    double value_error = 0.0;
    const lipsc_stretch own = expert_map(p, &e, *size, &value_error);
    const double logit = image_of(&e.router, *size), error = image_error(&e.router, *size);
    const double theta = 2.0 * (error + rounds(8.0) * (1.0 + logit)); /* of the weights */
    const double F = e.size.value * (1.0 + rounds(d)) + value_error;
    const double R = e.router.weights.frobenius;
    *size = F * (1.0 + small);
    /* a choice that exact logits might not make is none */
    if (!(theta < small && lipsc_experts_gap(p->experts) > 2.0 * error)) return LIPSC_OK;
    const double sums = rounds(2.0 * used + 8.0), through = rounds(d + 4.0 * used + 16.0);
    out->norm = own.norm + F * R;
    out->eps = own.eps + (2.0 * theta + sums) * (own.norm + own.eps) +
               R * (4.0 * F * (2.0 * theta + through + e.router.sums) + 2.0 * value_error);
    return LIPSC_OK;
}

/* ---- Together ---------------------------------------------------------------------- */

/* What a branch adds: its norm and its factors behind `map`. */
static lipsc_stretch branch_of(const lipsc_block_point *p, lipsc_branch branch,
                               lipsc_stretch map, double *size) {
    const lipsc_norm_place post =
        branch == LIPSC_BRANCH_MLP ? LIPSC_NORM_MLP_POST : LIPSC_NORM_ATTN_POST;
    map = lipsc_stretch_after(norm_at(p, post, size), map);
    return lipsc_stretch_after(factor_at(p, branch, size), map);
}

/* y = N6(s + ...): from s of size s_size and map s to y, by the MLP that reads `in`. */
static lipsc_status add_mlp(const lipsc_block_point *p, lipsc_stretch in, double in_size,
                            lipsc_stretch *map, double *size) {
    lipsc_stretch mlp;
    const lipsc_status status =
        p->experts ? experts_at(p, &in_size, &mlp) : mlp_at(p, &in_size, &mlp);
    if (status) return status;
    mlp = branch_of(p, LIPSC_BRANCH_MLP, lipsc_stretch_after(mlp, in), &in_size);
    *map = plus(*map, mlp);
    *size += in_size;
    *map = lipsc_stretch_after(norm_at(p, LIPSC_NORM_MLP_SUM, size), *map);
    return LIPSC_OK;
}

lipsc_status lipsc_block_rounding(const lipsc_block_point *p, double *size,
                                  lipsc_stretch *out) {
    const lipsc_config *c = &p->model->config;
    const double x = *size;
    lipsc_stretch attention;
    double seen = x;
    const lipsc_stretch before = norm_at(p, LIPSC_NORM_ATTN, &seen);
    lipsc_status status = attention_at(p, size, &attention);
    if (status) return status;
    lipsc_stretch map = lipsc_stretch_after(attention, before);
    if (p->extent != LIPSC_UP_TO_NORM_ATTENTION) {
        map = plus(identity, branch_of(p, LIPSC_BRANCH_ATTN, map, size));
        *size += x;
        map = lipsc_stretch_after(norm_at(p, LIPSC_NORM_ATTN_SUM, size), map);
    }
    if (p->extent == LIPSC_UP_TO_BLOCK) {
        lipsc_stretch in = before;
        if (!c->parallel || !c->family->parallel_shares) {
            seen = c->parallel ? x : *size;
            in = norm_at(p, LIPSC_NORM_MLP, &seen);
            if (!c->parallel) in = lipsc_stretch_after(in, map);
        }
        status = add_mlp(p, in, seen, &map, size);
    }
    *out = (lipsc_stretch){map.norm, second_order * map.eps};
    if (!(map.eps < small * map.norm)) *out = nothing_known; /* a NaN too */
    return status;
}
