/* block.c - one transformer block at one input: its value, and products with its Jacobian.
 *
 * block.h has the formula.  With h a direction, g a cotangent and a prime for a derivative,
 *     J h:    t = N1' h,  s = N3'(h + f N2' A' t)
 *             u = N4' s (serial), N4' h (parallel) or t (parallel, one norm for both)
 *             y = N6'(s + f N5' M' u)
 * and J^T g the same backwards.  With u = W_up x, c = W_gate x at the point,
 *     M' h = W_down (a'(u) o W_up h)                                       plain
 *     M' h = W_down (a'(c) o u o W_gate h + a(c) o W_up h)                 gated */
#include "model/block.h"

#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"

#include <math.h>

static const lipsc_rowwise *row_of(const lipsc_block_point *p) {
    return lipsc_device_table(p->device)->rowwise(p->dtype);
}

static const lipsc_space *space_of(const lipsc_block_point *p) {
    return lipsc_device_space(p->device, p->dtype);
}

/* y += x, k directions of (n, d) */
static lipsc_status add(const lipsc_block_point *p, size_t k, lipsc_buffer x,
                        lipsc_buffer y) {
    return row_of(p)->add(p->device, k * p->n * p->model->config.d, x, y);
}

/* ---- Norms -------------------------------------------------------------------------- */

lipsc_status lipsc_norm_at(lipsc_model *m, const lipsc_norm *weights, lipsc_dtype dtype,
                           const lipsc_device *device, size_t n, lipsc_buffer x,
                           lipsc_buffer y, lipsc_norm_point *point, lipsc_error *err) {
    const lipsc_space *space = lipsc_device_space(device, dtype);
    const size_t d = m->config.d;
    point->weights = weights;
    point->z = lipsc_space_alloc(space, n * d);
    point->over = lipsc_space_alloc(space, n);
    if (!point->z.at || !point->over.at) return lipsc_short_of_tokens(m, n, err);
    return lipsc_device_table(device)->rowwise(dtype)->norm(
        device, n, d, !m->config.family->rms, m->config.norm_eps, weights->gain,
        weights->bias, x, y, point->z, point->over);
}

void lipsc_norm_free(lipsc_model *m, lipsc_dtype dtype, lipsc_norm_point *point) {
    const lipsc_space *space = lipsc_device_space(m->home, dtype);
    lipsc_space_release(space, point->z);
    lipsc_space_release(space, point->over);
    point->z = point->over = LIPSC_NOWHERE;
}

lipsc_status lipsc_norm_apply(const lipsc_model *m, const lipsc_norm_point *point,
                              lipsc_dtype dtype, const lipsc_device *device, int trans,
                              size_t rows, size_t n, lipsc_buffer x, lipsc_buffer y) {
    return lipsc_device_table(device)->rowwise(dtype)->norm_derivative(
        device, rows, n, m->config.d, !m->config.family->rms, point->weights->gain,
        point->z, point->over, trans, x, y);
}

/* *seen = the norm of x in y, or x itself where there is none; y may be x. */
static lipsc_status norm_at(lipsc_block_point *p, lipsc_norm_place place, lipsc_buffer x,
                            lipsc_buffer y, lipsc_buffer *seen, lipsc_error *err) {
    const lipsc_norm *weights;
    lipsc_status status =
        lipsc_model_norm(p->model, p->layer, place, p->dtype, &weights, err);
    *seen = weights ? y : x;
    if (!status && weights)
        status = lipsc_norm_at(p->model, weights, p->dtype, p->device, p->n, x, y,
                               &p->norm[place], err);
    return status;
}

/* The derivative of that; y may be x, and seen NULL then. */
static lipsc_status norm_apply(const lipsc_block_point *p, lipsc_norm_place place,
                               int trans, size_t k, lipsc_buffer x, lipsc_buffer y,
                               lipsc_buffer *seen) {
    const int normed = p->norm[place].weights != NULL;
    if (seen) *seen = normed ? y : x;
    if (!normed) return LIPSC_OK;
    return lipsc_norm_apply(p->model, &p->norm[place], p->dtype, p->device, trans, k * p->n,
                            p->n, x, y);
}

/* x times the factors of a branch, in place */
static lipsc_status scale(const lipsc_block_point *p, lipsc_branch branch, size_t k,
                          lipsc_buffer x) {
    const size_t d = p->model->config.d;
    if (!p->factor[branch].at) return LIPSC_OK;
    return row_of(p)->multiply(p->device, k * p->n * d, d, p->factor[branch], x, 0, x);
}

/* ---- The MLP ------------------------------------------------------------------------ */

static lipsc_status get_dense(lipsc_block_point *p, int keep, lipsc_error *err) {
    if (p->model->config.experts) return LIPSC_OK; /* experts.c has its own */
    const int gated = lipsc_config_gated(&p->model->config);
    const int count = keep ? LIPSC_DENSE_COUNT : LIPSC_DENSE_UP_BACK;
    lipsc_status status = LIPSC_OK;
    for (int i = 0; !status && i < count; i++)
        if (gated || (i != LIPSC_DENSE_GATE && i != LIPSC_DENSE_GATE_BACK))
            status = lipsc_model_dense(p->model, p->layer, (lipsc_dense)i, p->dtype,
                                       &p->dense[i], err);
    return status;
}

/* y (rows, out) = x W^T, with the bias at a point and without it for a direction */
static lipsc_status dense(const lipsc_block_point *p, lipsc_dense which, size_t rows,
                          lipsc_buffer x, int bias, int add_to, lipsc_buffer y) {
    return lipsc_linear_apply(p->device, p->dense[which], rows, x, bias, add_to, y);
}

/* y[e] = factor[e mod period] x[e], or y += with add_to: (k n, ffn) numbers */
static lipsc_status times(const lipsc_block_point *p, size_t k, lipsc_buffer factor,
                          lipsc_buffer x, int add_to, lipsc_buffer y) {
    const size_t period = p->n * p->model->config.ffn;
    return row_of(p)->multiply(p->device, k * period, period, factor, x, add_to, y);
}

/* The least |x_e| of count numbers in device memory. */
static lipsc_status find_kink(lipsc_block_point *p, size_t count, lipsc_buffer x,
                              lipsc_error *err) {
    double *host = lipsc_alloc(count, sizeof *host);
    if (!host) return lipsc_short_of_tokens(p->model, p->n, err);
    const lipsc_status status = lipsc_space_download(space_of(p), count, x, host);
    p->kink = INFINITY;
    for (size_t e = 0; !status && e < count; e++)
        p->kink = lipsc_min(p->kink, fabs(host[e]));
    lipsc_release(host);
    return status;
}

/* up and, where there is one, the gate become what goes into W_down; the slopes stay. */
static lipsc_status activate(lipsc_block_point *p, lipsc_buffer up) {
    const lipsc_activation kind = p->model->config.activation;
    const size_t count = p->n * p->model->config.ffn;
    const lipsc_buffer bent = p->gate.at ? p->gate : up;
    lipsc_status status =
        row_of(p)->activation(p->device, kind, count, bent, bent, p->slope);
    if (!status && p->gate.at) status = times(p, 1, up, p->slope, 0, p->slope);
    if (!status && p->gate.at) status = times(p, 1, p->gate, up, 0, up);
    return status;
}

static lipsc_status mlp_at(lipsc_block_point *p, int keep, lipsc_buffer x, lipsc_buffer y,
                           lipsc_error *err) {
    const lipsc_config *c = &p->model->config;
    const lipsc_space *space = space_of(p);
    const size_t count = p->n * c->ffn;
    const int gated = lipsc_config_gated(c);
    const lipsc_buffer up = lipsc_space_alloc(space, count);
    p->slope = lipsc_space_alloc(space, count);
    if (gated) p->gate = lipsc_space_alloc(space, count);
    lipsc_status status = up.at && p->slope.at && (p->gate.at || !gated)
                              ? dense(p, LIPSC_DENSE_UP, p->n, x, 1, 0, up)
                              : lipsc_short_of_tokens(p->model, p->n, err);
    if (!status && gated) status = dense(p, LIPSC_DENSE_GATE, p->n, x, 1, 0, p->gate);
    if (!status && keep && c->activation == LIPSC_ACT_RELU)
        status = find_kink(p, count, gated ? p->gate : up, err);
    if (!status) status = activate(p, up);
    if (!status) status = dense(p, LIPSC_DENSE_DOWN, p->n, up, 1, 0, y);
    lipsc_space_release(space, up);
    return status;
}

/* y = M' x or M'^T x; y must not be x */
static lipsc_status mlp_apply(const lipsc_block_point *p, lipsc_block_work *w, int trans,
                              size_t k, lipsc_buffer x, lipsc_buffer y) {
    const size_t rows = k * p->n;
    const lipsc_dense back = LIPSC_DENSE_UP_BACK;
    lipsc_status status;
    if (p->experts) return lipsc_experts_apply(p->experts, trans, k, x, y);
    if (!p->gate.at) {
        status = dense(p, trans ? LIPSC_DENSE_DOWN_BACK : LIPSC_DENSE_UP, rows, x, 0, 0,
                       w->t[0]);
        if (!status) status = times(p, k, p->slope, w->t[0], 0, w->t[0]);
        if (!status)
            status = dense(p, trans ? back : LIPSC_DENSE_DOWN, rows, w->t[0], 0, 0, y);
    } else if (!trans) {
        status = dense(p, LIPSC_DENSE_GATE, rows, x, 0, 0, w->t[0]);
        if (!status) status = dense(p, LIPSC_DENSE_UP, rows, x, 0, 0, w->t[1]);
        if (!status) status = times(p, k, p->slope, w->t[0], 0, w->t[0]);
        if (!status) status = times(p, k, p->gate, w->t[1], 1, w->t[0]);
        if (!status) status = dense(p, LIPSC_DENSE_DOWN, rows, w->t[0], 0, 0, y);
    } else {
        status = dense(p, LIPSC_DENSE_DOWN_BACK, rows, x, 0, 0, w->t[0]);
        if (!status) status = times(p, k, p->slope, w->t[0], 0, w->t[1]);
        if (!status) status = times(p, k, p->gate, w->t[0], 0, w->t[0]);
        if (!status) status = dense(p, LIPSC_DENSE_GATE_BACK, rows, w->t[1], 0, 0, y);
        if (!status) status = dense(p, back, rows, w->t[0], 0, 1, y);
    }
    return status;
}

/* ---- At a point --------------------------------------------------------------------- */

/* A copy for who sees it. */
static lipsc_status show(const lipsc_block_point *p, lipsc_buffer x, lipsc_buffer seen) {
    if (!seen.at) return LIPSC_OK;
    return lipsc_space_copy(space_of(p), p->n * p->model->config.d, x, seen);
}

/* Attention at x; o (n, d) receives its output. */
static lipsc_status attention_at(lipsc_block_point *p, const lipsc_mask *mask_override,
                                 lipsc_buffer x, lipsc_buffer o,
                                 const lipsc_block_seen *seen, lipsc_error *err) {
    const lipsc_block_seen nobody = {LIPSC_NOWHERE, LIPSC_NOWHERE};
    lipsc_mask mask;
    lipsc_packed *packed;
    if (!seen) seen = &nobody;
    lipsc_status status = lipsc_model_mask(p->model, p->layer, mask_override, &mask, err);
    if (!status) status = lipsc_model_packed(p->model, p->layer, -1, 1, &packed, err);
    if (!status) status = show(p, x, seen->attention_input);
    if (!status)
        status =
            lipsc_attn_there(packed, &mask, p->n, x, p->dtype, p->device, &p->attn, err);
    if (!status) {
        status = lipsc_attn_output_to(p->attn, o);
        if (!status) status = show(p, o, seen->attention_output);
        if (status) lipsc_short_of_tokens(p->model, p->n, err);
    }
    return status;
}

/* What a branch adds, in o, goes through its norm and its factors and onto s; sum is then
 * the norm of s, in place. */
static lipsc_status join(lipsc_block_point *p, lipsc_branch branch, lipsc_buffer o,
                         lipsc_buffer x, lipsc_buffer s, lipsc_error *err) {
    const int mlp = branch == LIPSC_BRANCH_MLP;
    lipsc_buffer seen;
    lipsc_status status =
        norm_at(p, mlp ? LIPSC_NORM_MLP_POST : LIPSC_NORM_ATTN_POST, o, o, &seen, err);
    if (!status)
        status = lipsc_model_factor(p->model, p->layer, branch, p->dtype,
                                    &p->factor[branch], err);
    if (!status) status = scale(p, branch, 1, o);
    if (!status) status = add(p, 1, mlp ? o : x, s); /* attention's o is s */
    if (status) return status;
    return norm_at(p, mlp ? LIPSC_NORM_MLP_SUM : LIPSC_NORM_ATTN_SUM, s, s, &seen, err);
}

/* r: three buffers (n, d); the result is in r[1] */
static lipsc_status follow(lipsc_block_point *p, const lipsc_mask *mask_override,
                           lipsc_buffer x, int keep, const lipsc_buffer r[3],
                           const lipsc_block_seen *seen, lipsc_error *err) {
    const lipsc_config *c = &p->model->config;
    lipsc_buffer in, mlp_in;
    lipsc_status status = norm_at(p, LIPSC_NORM_ATTN, x, r[0], &in, err);
    if (!status) status = attention_at(p, mask_override, in, r[1], seen, err);
    if (status || p->extent == LIPSC_UP_TO_NORM_ATTENTION) return status;
    status = join(p, LIPSC_BRANCH_ATTN, r[1], x, r[1], err);
    if (status || p->extent == LIPSC_UP_TO_RESIDUAL) return status;

    if (c->parallel && c->family->parallel_shares)
        mlp_in = in;
    else
        status = norm_at(p, LIPSC_NORM_MLP, c->parallel ? x : r[1], r[0], &mlp_in, err);
    if (!status)
        status = c->experts ? lipsc_experts_at(p->model, p->layer, p->dtype, p->device,
                                               p->n, mlp_in, keep, r[2], &p->experts, err)
                            : mlp_at(p, keep, mlp_in, r[2], err);
    if (!status) status = join(p, LIPSC_BRANCH_MLP, r[2], x, r[1], err);
    return status;
}

lipsc_status lipsc_block_at(lipsc_model *m, size_t layer, lipsc_extent extent,
                            const lipsc_mask *mask_override, lipsc_dtype dtype,
                            const lipsc_device *device, size_t n, lipsc_buffer x, int keep,
                            lipsc_block_point *point, lipsc_buffer y,
                            const lipsc_block_seen *seen, lipsc_error *err) {
    const lipsc_space *space = lipsc_device_space(device, dtype);
    const size_t count = n * m->config.d;
    lipsc_block_point p = {.model = m,
                           .layer = layer,
                           .n = n,
                           .extent = extent,
                           .dtype = dtype,
                           .device = device};
    if (err) err->text[0] = '\0';
    lipsc_model_hold(m, layer); /* until lipsc_block_free */
    const lipsc_buffer r[3] = {lipsc_space_alloc(space, count),
                               lipsc_space_alloc(space, count),
                               lipsc_space_alloc(space, count)};
    lipsc_status status =
        r[0].at && r[1].at && r[2].at ? LIPSC_OK : lipsc_short_of_tokens(m, n, err);
    if (!status && extent == LIPSC_UP_TO_BLOCK) status = get_dense(&p, keep, err);
    if (!status) status = follow(&p, mask_override, x, keep, r, seen, err);
    if (!status && y.at) status = lipsc_space_copy(space, count, r[1], y);
    for (int i = 0; i < 3; i++) lipsc_space_release(space, r[i]);
    if (status && err && !err->text[0]) /* an operation of the device */
        lipsc_fail(err, status, "%s: block %zu of %zu tokens: %s", m->shown, layer, n,
                   lipsc_strerror(status));
    if (status || !keep)
        lipsc_block_free(&p);
    else
        *point = p;
    return status;
}

void lipsc_block_free(lipsc_block_point *p) {
    if (!p->model) return;
    const lipsc_space *space = space_of(p);
    lipsc_attn_free(p->attn);
    for (int i = 0; i < LIPSC_NORM_COUNT; i++)
        lipsc_norm_free(p->model, p->dtype, &p->norm[i]);
    lipsc_space_release(space, p->slope);
    lipsc_space_release(space, p->gate);
    lipsc_experts_free(p->experts);
    lipsc_model_let_go(p->model, p->layer);
    p->experts = NULL;
    p->model = NULL;
}

/* ---- Products ----------------------------------------------------------------------- */

/* Backwards through what join does: s becomes the cotangent of the sum, and *out that of
 * the branch, in o or s itself. */
static lipsc_status part(const lipsc_block_point *p, lipsc_branch branch, size_t k,
                         lipsc_buffer s, lipsc_buffer o, lipsc_buffer *out) {
    const int mlp = branch == LIPSC_BRANCH_MLP;
    const lipsc_norm_place post = mlp ? LIPSC_NORM_MLP_POST : LIPSC_NORM_ATTN_POST;
    const int apart = p->factor[branch].at || p->norm[post].weights;
    *out = apart ? o : s;
    lipsc_status status =
        norm_apply(p, mlp ? LIPSC_NORM_MLP_SUM : LIPSC_NORM_ATTN_SUM, 1, k, s, s, NULL);
    if (status || !apart) return status;
    status = lipsc_space_copy(space_of(p), k * p->n * p->model->config.d, s, o);
    if (!status) status = scale(p, branch, k, o);
    if (!status) status = norm_apply(p, post, 1, k, o, o, NULL);
    return status;
}

/* Forwards: o, what the branch's map gives, goes through its norm and its factors, and onto
 * s, whose norm is then taken; x is what is added where o and s are the same. */
static lipsc_status join_direction(const lipsc_block_point *p, lipsc_branch branch,
                                   size_t k, lipsc_buffer o, lipsc_buffer x,
                                   lipsc_buffer s) {
    const int mlp = branch == LIPSC_BRANCH_MLP;
    lipsc_status status =
        norm_apply(p, mlp ? LIPSC_NORM_MLP_POST : LIPSC_NORM_ATTN_POST, 0, k, o, o, NULL);
    if (!status) status = scale(p, branch, k, o);
    if (!status) status = add(p, k, x, s);
    if (!status)
        status =
            norm_apply(p, mlp ? LIPSC_NORM_MLP_SUM : LIPSC_NORM_ATTN_SUM, 0, k, s, s, NULL);
    return status;
}

static lipsc_status apply_forward(const lipsc_block_point *p, lipsc_block_work *w, size_t k,
                                  lipsc_buffer x, lipsc_buffer y) {
    const lipsc_linop attn = lipsc_attn_linop(p->attn);
    const lipsc_config *c = &p->model->config;
    const lipsc_buffer *r = w->r;
    lipsc_buffer in;
    lipsc_status status = norm_apply(p, LIPSC_NORM_ATTN, 0, k, x, r[0], &in);
    if (!status) status = attn.apply(attn.ctx, 0, k, in, y);
    if (status || p->extent == LIPSC_UP_TO_NORM_ATTENTION) return status;
    status = join_direction(p, LIPSC_BRANCH_ATTN, k, y, x, y);
    if (status || p->extent == LIPSC_UP_TO_RESIDUAL) return status;

    if (!c->parallel || !c->family->parallel_shares)
        status = norm_apply(p, LIPSC_NORM_MLP, 0, k, c->parallel ? x : y, r[0], &in);
    if (!status) status = mlp_apply(p, w, 0, k, in, r[1]);
    if (!status) status = join_direction(p, LIPSC_BRANCH_MLP, k, r[1], r[1], y);
    return status;
}

/* From the cotangent in r[0]: behind it r[0] is that of the sum after attention, and r[2]
 * what comes through the MLP, which is added to r[0] where that came after. */
static lipsc_status mlp_backward(const lipsc_block_point *p, lipsc_block_work *w, size_t k,
                                 int shares) {
    const lipsc_buffer *r = w->r;
    lipsc_buffer branch;
    lipsc_status status = part(p, LIPSC_BRANCH_MLP, k, r[0], r[1], &branch);
    if (!status) status = mlp_apply(p, w, 1, k, branch, r[2]);
    if (!status && !shares) status = norm_apply(p, LIPSC_NORM_MLP, 1, k, r[2], r[2], NULL);
    if (!status && !p->model->config.parallel) status = add(p, k, r[2], r[0]);
    return status;
}

static lipsc_status apply_backward(const lipsc_block_point *p, lipsc_block_work *w,
                                   size_t k, lipsc_buffer x, lipsc_buffer y) {
    const lipsc_linop attn = lipsc_attn_linop(p->attn);
    const lipsc_config *c = &p->model->config;
    const int shares = c->parallel && c->family->parallel_shares;
    const int mlp = p->extent == LIPSC_UP_TO_BLOCK;
    const lipsc_buffer *r = w->r;
    lipsc_buffer branch;
    lipsc_status status;
    if (p->extent == LIPSC_UP_TO_NORM_ATTENTION) {
        status = attn.apply(attn.ctx, 1, k, x, y);
        return status ? status : norm_apply(p, LIPSC_NORM_ATTN, 1, k, y, y, NULL);
    }
    status = lipsc_space_copy(space_of(p), k * p->n * c->d, x, r[0]);
    if (!status && mlp) status = mlp_backward(p, w, k, shares);
    if (!status) status = part(p, LIPSC_BRANCH_ATTN, k, r[0], r[1], &branch);
    if (!status) status = attn.apply(attn.ctx, 1, k, branch, y);
    if (!status && shares && mlp) status = add(p, k, r[2], y);
    if (!status) status = norm_apply(p, LIPSC_NORM_ATTN, 1, k, y, y, NULL);
    if (!status) status = add(p, k, r[0], y);
    if (!status && c->parallel && !shares && mlp) status = add(p, k, r[2], y);
    return status;
}

lipsc_status lipsc_block_apply(const lipsc_block_point *p, lipsc_block_work *w, int trans,
                               size_t k, lipsc_buffer x, lipsc_buffer y) {
    return (trans ? apply_backward : apply_forward)(p, w, k, x, y);
}
