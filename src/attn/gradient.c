/* gradient.c - gradients of <u, J(X) v> at inputs of one batch, on the device or where it
 * has them. */
#include <math.h>

#include "attn/attn.h"
#include "core/error.h"
#include "core/mem.h"

static size_t input_length(const lipsc_attn *attn) { return attn->input.n * attn->layer.d; }
static size_t output_length(const lipsc_attn *attn) {
    return attn->input.n * lipsc_layer_width(&attn->layer);
}

/* Adds (u_i.(K v)_i - v_i.(K^T u)_i) / 2, what the roots of the weights on both sides of
 * K = D^{1/2} J D^{-1/2} say. */
static lipsc_status add_root_weights(lipsc_attn *attn, const double *u, const double *v,
                                     double *grad_log_weight) {
    const size_t n = attn->input.n, d = attn->layer.d,
                 width = lipsc_layer_width(&attn->layer);
    double *Kv = lipsc_alloc(n * width, sizeof *Kv), *Ktu = lipsc_alloc(n * d, sizeof *Ktu);
    lipsc_status status = Kv && Ktu ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) status = lipsc_attn_apply(attn, 0, 1, v, Kv);
    if (!status) status = lipsc_attn_apply(attn, 1, 1, u, Ktu);
    for (size_t i = 0; !status && i < n; i++) {
        double twice = 0.0;
        for (size_t c = 0; c < width; c++) twice += u[i * width + c] * Kv[i * width + c];
        for (size_t c = 0; c < d; c++) twice -= v[i * d + c] * Ktu[i * d + c];
        grad_log_weight[i] += 0.5 * twice;
    }
    lipsc_release(Kv);
    lipsc_release(Ktu);
    return status;
}

/* ---- On the device ------------------------------------------------------------------ */

static void let_go(const lipsc_space *space, const lipsc_gradient_product *p) {
    lipsc_space_release(space, p->u);
    lipsc_space_release(space, p->v);
    lipsc_space_release(space, p->grad);
    lipsc_space_release(space, p->grad_score);
}

/* The vectors of a task in the device's memory; to be let go also after a failure. */
static lipsc_status bring(const lipsc_space *space, const lipsc_gradient_task *t,
                          lipsc_gradient_product *p) {
    const size_t n = t->attn->input.n;
    size_t from, to;
    *p = (lipsc_gradient_product){.of = t->attn->state, .k = t->k};
    if (!lipsc_mul_size(t->k, output_length(t->attn), &from) ||
        !lipsc_mul_size(t->k, input_length(t->attn), &to))
        return LIPSC_E_RANGE;
    p->u = lipsc_space_alloc(space, from);
    p->v = lipsc_space_alloc(space, to);
    p->grad = lipsc_space_alloc(space, to);
    if (t->grad_log_weight) p->grad_score = lipsc_space_alloc(space, t->k * n);
    if (!p->u.at || !p->v.at || !p->grad.at || (t->grad_log_weight && !p->grad_score.at))
        return LIPSC_E_NOMEM;
    const lipsc_status status = lipsc_space_upload(space, from, t->u, p->u);
    return status ? status : lipsc_space_upload(space, to, t->v, p->v);
}

static lipsc_status take(const lipsc_space *space, const lipsc_gradient_product *p,
                         const lipsc_gradient_task *t) {
    const size_t n = t->attn->input.n, in = input_length(t->attn),
                 out = output_length(t->attn);
    lipsc_status status = lipsc_space_download(space, t->k * in, p->grad, t->grad);
    if (!t->grad_log_weight) return status;
    if (!status)
        status = lipsc_space_download(space, t->k * n, p->grad_score, t->grad_log_weight);
    for (size_t i = 0; !status && i < t->k; i++)
        status = add_root_weights(t->attn, t->u + i * out, t->v + i * in,
                                  t->grad_log_weight + i * n);
    return status;
}

static lipsc_status make(const lipsc_device *device, size_t count,
                         const lipsc_gradient_product *p) {
    const lipsc_device_ops *ops = lipsc_device_table(device);
    if (ops->gradients) return ops->gradients(device, count, p);
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = ops->gradient(device, p[i].of, p[i].k, p[i].u, p[i].v, p[i].grad,
                               p[i].grad_score);
    return status;
}

static lipsc_status gradients(size_t count, const lipsc_gradient_task *task) {
    const lipsc_device *device = task->attn->device;
    const lipsc_space *space = lipsc_device_space(device, task->attn->dtype);
    lipsc_gradient_product *p = lipsc_alloc_zero(count, sizeof *p);
    lipsc_status status = p ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t i = 0; i < count && !status; i++) status = bring(space, &task[i], &p[i]);
    if (!status) status = make(device, count, p);
    for (size_t i = 0; i < count && !status; i++) status = take(space, &p[i], &task[i]);
    for (size_t i = 0; p && i < count; i++) let_go(space, &p[i]);
    lipsc_release(p);
    return status;
}

/* ---- Anywhere ------------------------------------------------------------------------ */

/* Where the device has none in this precision, in f64 or on its CPU. */
static lipsc_status gradients_somewhere(size_t count, const lipsc_gradient_task *task) {
    const lipsc_attn *first = task->attn;
    const lipsc_device_ops *ops = lipsc_device_table(first->device);
    const int here = ops->gradient != NULL;
    if (here && (first->dtype == LIPSC_F64 || !ops->coarse_f32))
        return gradients(count, task);
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; i < count && !status; i++) {
        lipsc_gradient_task elsewhere = task[i];
        lipsc_attn own;
        status =
            lipsc_attn_as(task[i].attn, here ? LIPSC_F64 : first->dtype,
                          here ? first->device : lipsc_device_cpu(first->device), &own);
        elsewhere.attn = &own;
        if (!status) status = gradients(1, &elsewhere);
        lipsc_attn_close(&own);
    }
    return status;
}

static int is_finite(size_t count, const double *x) {
    int finite = 1;
    for (size_t e = 0; x && e < count; e++) finite = finite && isfinite(x[e]);
    return finite;
}

lipsc_status lipsc_attn_gradients(size_t count, lipsc_gradient_task *task) {
    if (!count) return LIPSC_OK;
    const lipsc_status status = gradients_somewhere(count, task);
    for (size_t i = 0; i < count; i++) {
        const lipsc_gradient_task *t = &task[i];
        const int finite =
            status || (is_finite(t->k * input_length(t->attn), t->grad) &&
                       is_finite(t->k * t->attn->input.n, t->grad_log_weight));
        task[i].status = finite ? status : LIPSC_E_NONFIN;
    }
    return status;
}

lipsc_status lipsc_attn_gradient(lipsc_attn *attn, size_t k, const double *u,
                                 const double *v, double *grad, double *grad_log_weight,
                                 lipsc_error *err) {
    if (!attn || (k && (!u || !v || !grad)))
        return lipsc_fail(err, LIPSC_E_ARG, "attn, u, v or grad is NULL");
    if (k == 0) return LIPSC_OK;
    lipsc_gradient_task task = {.attn = attn,
                                .k = k,
                                .u = u,
                                .v = v,
                                .grad = grad,
                                .grad_log_weight = grad_log_weight};
    const lipsc_status status = lipsc_attn_gradients(1, &task);
    if (status)
        return lipsc_fail(err, status, "the gradient of %zu pairs does not fit into memory",
                          k);
    if (task.status)
        return lipsc_fail(err, task.status, "the gradient at this input overflows %s",
                          attn->dtype == LIPSC_F32 ? "f32" : "f64");
    return LIPSC_OK;
}
