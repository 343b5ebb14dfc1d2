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

/* y += x, k directions of (n, d) */
static void add(const lipsc_block_point *p, size_t k, const void *x, void *y) {
    p->model->backend->rowwise(p->dtype)->add(p->threads, k * p->n * p->model->config.d, x,
                                              y);
}

/* ---- Norms
 * ---------------------------------------------------------------------------------- */

static lipsc_status no_memory(const lipsc_model *m, size_t n, lipsc_error *err) {
    return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory for %zu tokens", m->shown, n);
}

lipsc_status lipsc_norm_at(lipsc_model *m, const lipsc_norm *weights, lipsc_dtype dtype,
                           int threads, size_t n, const void *x, void *y,
                           lipsc_norm_point *point, lipsc_error *err) {
    const lipsc_space *space = m->backend->space(dtype);
    const size_t d = m->config.d;
    point->weights = weights;
    point->z = space->alloc(n * d);
    point->over = space->alloc(n);
    if (!point->z || !point->over) return no_memory(m, n, err);
    m->backend->rowwise(dtype)->norm(threads, n, d, !m->config.family->rms,
                                     m->config.norm_eps, weights->gain, weights->bias, x, y,
                                     point->z, point->over);
    return LIPSC_OK;
}

void lipsc_norm_free(lipsc_model *m, lipsc_dtype dtype, lipsc_norm_point *point) {
    const lipsc_space *space = m->backend->space(dtype);
    space->release(point->z);
    space->release(point->over);
    point->z = point->over = NULL;
}

void lipsc_norm_apply(const lipsc_model *m, const lipsc_norm_point *point,
                      lipsc_dtype dtype, int threads, int trans, size_t rows, size_t n,
                      const void *x, void *y) {
    m->backend->rowwise(dtype)->norm_derivative(
        threads, rows, n, m->config.d, !m->config.family->rms, point->weights->gain,
        point->z, point->over, trans, x, y);
}

/* *seen = the norm of x in y, or x itself where there is none; y may be x. */
static lipsc_status norm_at(lipsc_block_point *p, lipsc_norm_place place, const void *x,
                            void *y, const void **seen, lipsc_error *err) {
    const lipsc_norm *weights;
    lipsc_status status =
        lipsc_model_norm(p->model, p->layer, place, p->dtype, &weights, err);
    *seen = weights ? y : x;
    if (!status && weights)
        status = lipsc_norm_at(p->model, weights, p->dtype, p->threads, p->n, x, y,
                               &p->norm[place], err);
    return status;
}

/* The derivative of that: returns y, or x itself where there is no norm. */
static const void *norm_apply(const lipsc_block_point *p, lipsc_norm_place place, int trans,
                              size_t k, const void *x, void *y) {
    if (!p->norm[place].weights) return x;
    lipsc_norm_apply(p->model, &p->norm[place], p->dtype, p->threads, trans, k * p->n, p->n,
                     x, y);
    return y;
}

/* x times the factors of a branch, in place */
static void scale(const lipsc_block_point *p, lipsc_branch branch, size_t k, void *x) {
    const size_t d = p->model->config.d;
    if (p->factor[branch])
        p->model->backend->rowwise(p->dtype)->multiply(p->threads, k * p->n * d, d,
                                                       p->factor[branch], x, 0, x);
}

/* ---- The MLP
 * ---------------------------------------------------------------------------------- */

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
static void dense(const lipsc_block_point *p, lipsc_dense which, size_t rows, const void *x,
                  int bias, int add_to, void *y) {
    p->model->backend->linear_apply(p->dense[which], p->threads, rows, x, bias, add_to, y);
}

/* The least |x_e| of count numbers in back-end memory. */
static lipsc_status find_kink(lipsc_block_point *p, size_t count, const void *x,
                              lipsc_error *err) {
    double *host = lipsc_alloc(count, sizeof *host);
    if (!host) return no_memory(p->model, p->n, err);
    p->model->backend->space(p->dtype)->download(count, x, host);
    p->kink = INFINITY;
    for (size_t e = 0; e < count; e++) p->kink = lipsc_min(p->kink, fabs(host[e]));
    lipsc_release(host);
    return LIPSC_OK;
}

static lipsc_status mlp_at(lipsc_block_point *p, int keep, const void *x, void *y,
                           lipsc_error *err) {
    const lipsc_config *c = &p->model->config;
    const lipsc_space *space = p->model->backend->space(p->dtype);
    const lipsc_rowwise *row = p->model->backend->rowwise(p->dtype);
    const size_t count = p->n * c->ffn;
    const int gated = lipsc_config_gated(c);
    void *up = space->alloc(count);
    p->slope = space->alloc(count);
    if (gated) p->gate = space->alloc(count);
    if (!up || !p->slope || (gated && !p->gate)) {
        space->release(up);
        return no_memory(p->model, p->n, err);
    }
    dense(p, LIPSC_DENSE_UP, p->n, x, 1, 0, up);
    if (gated) dense(p, LIPSC_DENSE_GATE, p->n, x, 1, 0, p->gate);
    if (keep && c->activation == LIPSC_ACT_RELU) {
        const lipsc_status status = find_kink(p, count, gated ? p->gate : up, err);
        if (status) {
            space->release(up);
            return status;
        }
    }
    if (gated) {
        row->activation(c->activation, p->threads, count, p->gate, p->gate, p->slope);
        row->multiply(p->threads, count, count, up, p->slope, 0, p->slope);
        row->multiply(p->threads, count, count, p->gate, up, 0, up);
    } else {
        row->activation(c->activation, p->threads, count, up, up, p->slope);
    }
    dense(p, LIPSC_DENSE_DOWN, p->n, up, 1, 0, y);
    space->release(up);
    return LIPSC_OK;
}

/* y = M' x or M'^T x; y must not be x */
static lipsc_status mlp_apply(const lipsc_block_point *p, lipsc_block_work *w, int trans,
                              size_t k, const void *x, void *y) {
    const lipsc_rowwise *row = p->model->backend->rowwise(p->dtype);
    const size_t period = p->n * p->model->config.ffn, count = k * period, rows = k * p->n;
    const lipsc_dense back = LIPSC_DENSE_UP_BACK;
    if (p->experts) return lipsc_experts_apply(p->experts, trans, k, x, y);
    if (!p->gate) {
        dense(p, trans ? LIPSC_DENSE_DOWN_BACK : LIPSC_DENSE_UP, rows, x, 0, 0, w->t[0]);
        row->multiply(p->threads, count, period, p->slope, w->t[0], 0, w->t[0]);
        dense(p, trans ? back : LIPSC_DENSE_DOWN, rows, w->t[0], 0, 0, y);
    } else if (!trans) {
        dense(p, LIPSC_DENSE_GATE, rows, x, 0, 0, w->t[0]);
        dense(p, LIPSC_DENSE_UP, rows, x, 0, 0, w->t[1]);
        row->multiply(p->threads, count, period, p->slope, w->t[0], 0, w->t[0]);
        row->multiply(p->threads, count, period, p->gate, w->t[1], 1, w->t[0]);
        dense(p, LIPSC_DENSE_DOWN, rows, w->t[0], 0, 0, y);
    } else {
        dense(p, LIPSC_DENSE_DOWN_BACK, rows, x, 0, 0, w->t[0]);
        row->multiply(p->threads, count, period, p->slope, w->t[0], 0, w->t[1]);
        row->multiply(p->threads, count, period, p->gate, w->t[0], 0, w->t[0]);
        dense(p, LIPSC_DENSE_GATE_BACK, rows, w->t[1], 0, 0, y);
        dense(p, back, rows, w->t[0], 0, 1, y);
    }
    return LIPSC_OK;
}

/* ---- At a point
 * --------------------------------------------------------------------------------- */

/* Attention at x (back-end memory); o (n, d) receives its output. */
static lipsc_status attention_at(lipsc_block_point *p, const lipsc_mask *mask_override,
                                 const void *x, void *o, const lipsc_block_seen *seen,
                                 lipsc_error *err) {
    const lipsc_space *space = p->model->backend->space(p->dtype);
    const size_t count = p->n * p->model->config.d;
    lipsc_mask mask;
    lipsc_packed *packed;
    lipsc_status status = lipsc_model_mask(p->model, p->layer, mask_override, &mask, err);
    if (!status) status = lipsc_model_packed(p->model, p->layer, -1, 1, &packed, err);
    if (status) return status;
    double *host = lipsc_alloc(count, sizeof *host);
    if (!host) return no_memory(p->model, p->n, err);
    space->download(count, x, host);
    if (seen && seen->attention_input)
        for (size_t e = 0; e < count; e++) seen->attention_input[e] = host[e];
    const lipsc_input input = {.n = p->n, .X = host};
    status = lipsc_attn_at(packed, &mask, &input, p->dtype, p->threads, &p->attn, err);
    if (!status) {
        status = lipsc_attn_output(p->attn, host);
        if (status) no_memory(p->model, p->n, err);
    }
    if (!status) {
        if (seen && seen->attention_output)
            for (size_t e = 0; e < count; e++) seen->attention_output[e] = host[e];
        space->upload(count, host, o);
    }
    lipsc_release(host);
    return status;
}

/* What a branch adds, in o, goes through its norm and its factors and onto s; sum is then
 * the norm of s, in place. */
static lipsc_status join(lipsc_block_point *p, lipsc_branch branch, void *o, const void *x,
                         void *s, lipsc_error *err) {
    const int mlp = branch == LIPSC_BRANCH_MLP;
    const void *seen;
    lipsc_status status =
        norm_at(p, mlp ? LIPSC_NORM_MLP_POST : LIPSC_NORM_ATTN_POST, o, o, &seen, err);
    if (!status)
        status = lipsc_model_factor(p->model, p->layer, branch, p->dtype,
                                    &p->factor[branch], err);
    if (status) return status;
    scale(p, branch, 1, o);
    add(p, 1, mlp ? (const void *)o : x, s); /* attention's o is s */
    return norm_at(p, mlp ? LIPSC_NORM_MLP_SUM : LIPSC_NORM_ATTN_SUM, s, s, &seen, err);
}

/* r: three buffers (n, d); the result is in r[1] */
static lipsc_status follow(lipsc_block_point *p, const lipsc_mask *mask_override,
                           const void *x, int keep, void *r[3],
                           const lipsc_block_seen *seen, lipsc_error *err) {
    const lipsc_config *c = &p->model->config;
    const void *in, *mlp_in;
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
        status = c->experts ? lipsc_experts_at(p->model, p->layer, p->dtype, p->threads,
                                               p->n, mlp_in, keep, r[2], &p->experts, err)
                            : mlp_at(p, keep, mlp_in, r[2], err);
    if (!status) status = join(p, LIPSC_BRANCH_MLP, r[2], x, r[1], err);
    return status;
}

lipsc_status lipsc_block_at(lipsc_model *m, size_t layer, lipsc_extent extent,
                            const lipsc_mask *mask_override, lipsc_dtype dtype, int threads,
                            size_t n, const void *x, int keep, lipsc_block_point *point,
                            void *y, const lipsc_block_seen *seen, lipsc_error *err) {
    const lipsc_space *space = m->backend->space(dtype);
    const size_t count = n * m->config.d;
    lipsc_block_point p = {.model = m,
                           .layer = layer,
                           .n = n,
                           .extent = extent,
                           .dtype = dtype,
                           .threads = threads};
    lipsc_model_hold(m, layer); /* until lipsc_block_free */
    void *r[3] = {space->alloc(count), space->alloc(count), space->alloc(count)};
    lipsc_status status = r[0] && r[1] && r[2] ? LIPSC_OK : no_memory(m, n, err);
    if (!status && extent == LIPSC_UP_TO_BLOCK) status = get_dense(&p, keep, err);
    if (!status) status = follow(&p, mask_override, x, keep, r, seen, err);
    if (!status && y) space->copy(count, r[1], y);
    for (int i = 0; i < 3; i++) space->release(r[i]);
    if (status || !keep)
        lipsc_block_free(&p);
    else
        *point = p;
    return status;
}

void lipsc_block_free(lipsc_block_point *p) {
    if (!p->model) return;
    const lipsc_space *space = p->model->backend->space(p->dtype);
    lipsc_attn_free(p->attn);
    for (int i = 0; i < LIPSC_NORM_COUNT; i++)
        lipsc_norm_free(p->model, p->dtype, &p->norm[i]);
    space->release(p->slope);
    space->release(p->gate);
    lipsc_experts_free(p->experts);
    lipsc_model_let_go(p->model, p->layer);
    p->experts = NULL;
    p->model = NULL;
}

/* ---- Products
 * -------------------------------------------------------------------------------------- */

/* Backwards through what join does: s becomes the cotangent of the sum, and the result is
 * that of the branch, in o or s itself. */
static const void *part(const lipsc_block_point *p, lipsc_branch branch, size_t k, void *s,
                        void *o) {
    const int mlp = branch == LIPSC_BRANCH_MLP;
    const lipsc_norm_place post = mlp ? LIPSC_NORM_MLP_POST : LIPSC_NORM_ATTN_POST;
    norm_apply(p, mlp ? LIPSC_NORM_MLP_SUM : LIPSC_NORM_ATTN_SUM, 1, k, s, s);
    if (!p->factor[branch] && !p->norm[post].weights) return s;
    p->model->backend->space(p->dtype)->copy(k * p->n * p->model->config.d, s, o);
    scale(p, branch, k, o);
    norm_apply(p, post, 1, k, o, o);
    return o;
}

static lipsc_status apply_forward(const lipsc_block_point *p, lipsc_block_work *w, size_t k,
                                  const void *x, void *y) {
    const lipsc_linop attn = lipsc_attn_linop(p->attn);
    const lipsc_config *c = &p->model->config;
    void *const *r = w->r;
    const void *in = norm_apply(p, LIPSC_NORM_ATTN, 0, k, x, r[0]);
    lipsc_status status = attn.apply(attn.ctx, 0, k, in, y);
    if (status || p->extent == LIPSC_UP_TO_NORM_ATTENTION) return status;
    norm_apply(p, LIPSC_NORM_ATTN_POST, 0, k, y, y);
    scale(p, LIPSC_BRANCH_ATTN, k, y);
    add(p, k, x, y);
    norm_apply(p, LIPSC_NORM_ATTN_SUM, 0, k, y, y);
    if (p->extent == LIPSC_UP_TO_RESIDUAL) return status;

    if (!c->parallel || !c->family->parallel_shares)
        in = norm_apply(p, LIPSC_NORM_MLP, 0, k, c->parallel ? x : y, r[0]);
    status = mlp_apply(p, w, 0, k, in, r[1]);
    norm_apply(p, LIPSC_NORM_MLP_POST, 0, k, r[1], r[1]);
    scale(p, LIPSC_BRANCH_MLP, k, r[1]);
    add(p, k, r[1], y);
    norm_apply(p, LIPSC_NORM_MLP_SUM, 0, k, y, y);
    return status;
}

static lipsc_status apply_backward(const lipsc_block_point *p, lipsc_block_work *w,
                                   size_t k, const void *x, void *y) {
    const lipsc_space *space = p->model->backend->space(p->dtype);
    const lipsc_linop attn = lipsc_attn_linop(p->attn);
    const lipsc_config *c = &p->model->config;
    const int shares = c->parallel && c->family->parallel_shares;
    void *const *r = w->r;
    if (p->extent == LIPSC_UP_TO_NORM_ATTENTION) {
        const lipsc_status status = attn.apply(attn.ctx, 1, k, x, y);
        norm_apply(p, LIPSC_NORM_ATTN, 1, k, y, y);
        return status;
    }
    lipsc_status status = LIPSC_OK;
    space->copy(k * p->n * c->d, x, r[0]);
    if (p->extent == LIPSC_UP_TO_BLOCK) {
        const void *branch = part(p, LIPSC_BRANCH_MLP, k, r[0], r[1]);
        status = mlp_apply(p, w, 1, k, branch, r[2]);
        if (status) return status;
        if (!shares) norm_apply(p, LIPSC_NORM_MLP, 1, k, r[2], r[2]);
        if (!c->parallel) add(p, k, r[2], r[0]);
    }
    status = attn.apply(attn.ctx, 1, k, part(p, LIPSC_BRANCH_ATTN, k, r[0], r[1]), y);
    if (shares && p->extent == LIPSC_UP_TO_BLOCK) add(p, k, r[2], y);
    norm_apply(p, LIPSC_NORM_ATTN, 1, k, y, y);
    add(p, k, r[0], y);
    if (c->parallel && !shares && p->extent == LIPSC_UP_TO_BLOCK) add(p, k, r[2], y);
    return status;
}

lipsc_status lipsc_block_apply(const lipsc_block_point *p, lipsc_block_work *w, int trans,
                               size_t k, const void *x, void *y) {
    return (trans ? apply_backward : apply_forward)(p, w, k, x, y);
}
