/* block.c - one transformer block at one input: its value, and products with its Jacobian.
 *
 * With h a direction and g a cotangent,
 *     pre-norm    J h:    s = h + A' N1' h,  y = s + M' N2' s
 *                 J^T g:  s = g + N2'^T M'^T g,  y = s + N1'^T A'^T s
 *     post-norm   J h:    s = N1'(h + A' h),  y = N2'(s + M' s)
 *                 J^T g:  t = N2'^T g, s = t + M'^T t,  t = N1'^T s, y = t + A'^T t
 * and, with u = W_up x, c = W_gate x at the point,
 *     M' h = W_down (a'(u) o W_up h)                                       plain
 *     M' h = W_down (a'(c) o u o W_gate h + a(c) o W_up h)                 gated */
#include "model/block.h"

#include "core/error.h"
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

static lipsc_status norm_at(lipsc_block_point *p, lipsc_norm_place place, const void *x,
                            void *y, lipsc_error *err) {
    const lipsc_norm *weights;
    lipsc_status status =
        lipsc_model_norm(p->model, p->layer, place, p->dtype, &weights, err);
    if (!status)
        status = lipsc_norm_at(p->model, weights, p->dtype, p->threads, p->n, x, y,
                               &p->norm[place], err);
    return status;
}

static void norm_apply(const lipsc_block_point *p, lipsc_norm_place place, int trans,
                       size_t k, const void *x, void *y) {
    lipsc_norm_apply(p->model, &p->norm[place], p->dtype, p->threads, trans, k * p->n, p->n,
                     x, y);
}

/* ---- The MLP
 * ---------------------------------------------------------------------------------- */

static lipsc_status get_dense(lipsc_block_point *p, int keep, lipsc_error *err) {
    const int gated = p->model->config.family->gated;
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

static lipsc_status mlp_at(lipsc_block_point *p, const void *x, void *y, lipsc_error *err) {
    const lipsc_config *c = &p->model->config;
    const lipsc_space *space = p->model->backend->space(p->dtype);
    const lipsc_rowwise *row = p->model->backend->rowwise(p->dtype);
    const size_t count = p->n * c->ffn;
    void *up = space->alloc(count);
    p->slope = space->alloc(count);
    if (c->family->gated) p->gate = space->alloc(count);
    if (!up || !p->slope || (c->family->gated && !p->gate)) {
        space->release(up);
        return no_memory(p->model, p->n, err);
    }
    dense(p, LIPSC_DENSE_UP, p->n, x, 1, 0, up);
    if (c->family->gated) {
        dense(p, LIPSC_DENSE_GATE, p->n, x, 1, 0, p->gate);
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
static void mlp_apply(const lipsc_block_point *p, lipsc_block_work *w, int trans, size_t k,
                      const void *x, void *y) {
    const lipsc_rowwise *row = p->model->backend->rowwise(p->dtype);
    const size_t period = p->n * p->model->config.ffn, count = k * period, rows = k * p->n;
    const lipsc_dense back = LIPSC_DENSE_UP_BACK;
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

/* r: two buffers (n, d) */
static lipsc_status follow(lipsc_block_point *p, const lipsc_mask *mask_override,
                           const void *x, void *r[2], const lipsc_block_seen *seen,
                           void **result, lipsc_error *err) {
    const lipsc_space *space = p->model->backend->space(p->dtype);
    const size_t count = p->n * p->model->config.d;
    const int pre = p->model->config.family->pre_norm;
    lipsc_status status = LIPSC_OK;
    if (pre) status = norm_at(p, LIPSC_NORM_ATTN, x, r[0], err);
    if (!status) status = attention_at(p, mask_override, pre ? r[0] : x, r[1], seen, err);
    *result = r[1];
    if (status || p->extent == LIPSC_UP_TO_NORM_ATTENTION) return status;

    add(p, 1, x, r[1]);
    if (!pre) {
        status = norm_at(p, LIPSC_NORM_ATTN, r[1], r[0], err);
        space->copy(count, r[0], r[1]);
    }
    if (status || p->extent == LIPSC_UP_TO_RESIDUAL) return status;

    void *m = space->alloc(count); /* s is in r[1] */
    if (!m) return no_memory(p->model, p->n, err);
    if (pre) status = norm_at(p, LIPSC_NORM_MLP, r[1], r[0], err);
    if (!status) status = mlp_at(p, pre ? r[0] : r[1], m, err);
    if (!status) {
        add(p, 1, m, r[1]);
        if (!pre) {
            status = norm_at(p, LIPSC_NORM_MLP, r[1], r[0], err);
            *result = r[0];
        }
    }
    space->release(m);
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
    void *r[2] = {space->alloc(count), space->alloc(count)}, *result = NULL;
    lipsc_status status = r[0] && r[1] ? LIPSC_OK : no_memory(m, n, err);
    if (!status && extent == LIPSC_UP_TO_BLOCK) status = get_dense(&p, keep, err);
    if (!status) status = follow(&p, mask_override, x, r, seen, &result, err);
    if (!status && y) space->copy(count, result, y);
    space->release(r[0]);
    space->release(r[1]);
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
    p->model = NULL;
}

/* ---- Products
 * -------------------------------------------------------------------------------------- */

lipsc_status lipsc_block_apply(const lipsc_block_point *p, lipsc_block_work *w, int trans,
                               size_t k, const void *x, void *y) {
    const lipsc_space *space = p->model->backend->space(p->dtype);
    const lipsc_linop attn = lipsc_attn_linop(p->attn);
    const size_t count = k * p->n * p->model->config.d;
    const int whole = p->extent == LIPSC_UP_TO_BLOCK;
    void *const *r = w->r;
    lipsc_status status;
    if (p->extent == LIPSC_UP_TO_NORM_ATTENTION) {
        if (trans) {
            status = attn.apply(attn.ctx, 1, k, x, r[0]);
            norm_apply(p, LIPSC_NORM_ATTN, 1, k, r[0], y);
        } else {
            norm_apply(p, LIPSC_NORM_ATTN, 0, k, x, r[0]);
            status = attn.apply(attn.ctx, 0, k, r[0], y);
        }
    } else if (p->model->config.family->pre_norm && !trans) {
        norm_apply(p, LIPSC_NORM_ATTN, 0, k, x, r[0]);
        status = attn.apply(attn.ctx, 0, k, r[0], y);
        add(p, k, x, y);
        if (whole) {
            norm_apply(p, LIPSC_NORM_MLP, 0, k, y, r[0]);
            mlp_apply(p, w, 0, k, r[0], r[1]);
            add(p, k, r[1], y);
        }
    } else if (p->model->config.family->pre_norm) {
        space->copy(count, x, y);
        if (whole) {
            mlp_apply(p, w, 1, k, x, r[0]);
            norm_apply(p, LIPSC_NORM_MLP, 1, k, r[0], r[0]);
            add(p, k, r[0], y);
        }
        status = attn.apply(attn.ctx, 1, k, y, r[0]);
        norm_apply(p, LIPSC_NORM_ATTN, 1, k, r[0], r[0]);
        add(p, k, r[0], y);
    } else if (!trans) {
        status = attn.apply(attn.ctx, 0, k, x, r[0]);
        add(p, k, x, r[0]);
        norm_apply(p, LIPSC_NORM_ATTN, 0, k, r[0], y);
        if (whole) {
            mlp_apply(p, w, 0, k, y, r[0]);
            add(p, k, r[0], y);
            norm_apply(p, LIPSC_NORM_MLP, 0, k, y, y);
        }
    } else {
        space->copy(count, x, r[0]);
        if (whole) {
            norm_apply(p, LIPSC_NORM_MLP, 1, k, r[0], r[0]);
            mlp_apply(p, w, 1, k, r[0], r[1]);
            add(p, k, r[1], r[0]);
        }
        norm_apply(p, LIPSC_NORM_ATTN, 1, k, r[0], r[0]);
        status = attn.apply(attn.ctx, 1, k, r[0], y);
        add(p, k, r[0], y);
    }
    return status;
}
