/* router.c - which experts the tokens take and with which weights, and what the weights add
 * to products with the derivative.
 *
 * With l the router logits of a token, w its weights and F_p what the expert of pair p
 * returns: to M' h comes dw_p F_p with dw = w o (dl - w.dl), dl = R h; to M'^T g comes
 * R^T t with t = w o (v - w.v), v_p = F_p . g.  The choice is the host's, and so are the
 * sums over a token's few experts, in double. */
#include "model/experts_at.h"

#include "core/extreme.h"
#include "core/mem.h"

#include <math.h>

/* ---- The choice ---------------------------------------------------------------------- */

/* One of the router's two matrices, and room on the device for (rows, experts) numbers. */
static lipsc_status open_router(const lipsc_experts *s, lipsc_dense which, size_t rows,
                                const void **router, lipsc_buffer *numbers) {
    const lipsc_status status =
        lipsc_model_expert(s->model, s->layer, which, 0, s->dtype, router, NULL);
    if (status) return status;
    *numbers = lipsc_space_alloc(lipsc_experts_space(s), rows * s->model->config.experts);
    return numbers->at ? LIPSC_OK : LIPSC_E_NOMEM;
}

lipsc_status lipsc_router_logits(const lipsc_experts *s, size_t rows, lipsc_buffer x,
                                 int bias, double *y) {
    const lipsc_space *space = lipsc_experts_space(s);
    const void *router;
    lipsc_buffer logits;
    lipsc_status status = open_router(s, LIPSC_ROUTER_FORTH, rows, &router, &logits);
    if (status) return status;
    status = lipsc_linear_apply(s->device, router, rows, x, bias, 0, logits);
    if (!status)
        status = lipsc_space_download(space, rows * s->model->config.experts, logits, y);
    lipsc_space_release(space, logits);
    return status;
}

/* y (rows, d) += R^T t, t (rows, experts) of the host */
static lipsc_status route_back(const lipsc_experts *s, size_t rows, const double *t,
                               lipsc_buffer y) {
    const lipsc_space *space = lipsc_experts_space(s);
    const void *router;
    lipsc_buffer there;
    lipsc_status status = open_router(s, LIPSC_ROUTER_BACK, rows, &router, &there);
    if (status) return status;
    status = lipsc_space_upload(space, rows * s->model->config.experts, t, there);
    if (!status) status = lipsc_linear_apply(s->device, router, rows, there, 0, 1, y);
    lipsc_space_release(space, there);
    return status;
}

/* The `used` largest logits of a token, largest first; equal ones by their number. */
static void choose(size_t experts, size_t used, const double *logits, size_t *chosen,
                   double *gap) {
    for (size_t u = 0; u < used; u++) {
        size_t best = experts;
        for (size_t e = 0; e < experts; e++) {
            int taken = 0;
            for (size_t b = 0; b < u; b++) taken |= chosen[b] == e;
            if (!taken && (best == experts || logits[e] > logits[best])) best = e;
        }
        chosen[u] = best;
    }
    for (size_t e = 0; e < experts; e++) {
        int taken = 0;
        for (size_t b = 0; b < used; b++) taken |= chosen[b] == e;
        if (!taken) *gap = lipsc_min(*gap, logits[chosen[used - 1]] - logits[e]);
    }
}

static void weigh(size_t used, const size_t *chosen, const double *logits, double *weight) {
    double sum = 0;
    for (size_t u = 0; u < used; u++)
        sum += weight[u] = exp(logits[chosen[u]] - logits[chosen[0]]);
    for (size_t u = 0; u < used; u++) weight[u] /= sum;
}

void lipsc_router_assign(lipsc_experts *s, const double *logits) {
    const size_t experts = s->model->config.experts, used = s->model->config.experts_used;
    s->gap = INFINITY;
    for (size_t i = 0; i < s->n; i++) {
        choose(experts, used, logits + i * experts, s->expert + i * used, &s->gap);
        weigh(used, s->expert + i * used, logits + i * experts, s->weight + i * used);
    }
    size_t p = 0;
    for (size_t e = 0; e < experts; e++) {
        s->first[e] = p;
        for (size_t at = 0; at < s->pairs; at++)
            if (s->expert[at] == e) {
                s->token[p] = at / used;
                s->slot[p++] = at % used;
            }
    }
    s->first[experts] = p;
}

/* ---- Products ------------------------------------------------------------------------ */

/* w o (v - w.v) of one token: the derivative of its weights applied to v, both ways */
static void softmax_derivative(size_t used, const double *w, double *v) {
    double mean = 0;
    for (size_t u = 0; u < used; u++) mean += w[u] * v[u];
    for (size_t u = 0; u < used; u++) v[u] = w[u] * (v[u] - mean);
}

/* y += sum_p dw_p F_p: v (k n, used) holds dw */
static lipsc_status add_values(const lipsc_experts *s, size_t k, const double *v,
                               lipsc_buffer y) {
    const size_t d = s->model->config.d, used = s->model->config.experts_used;
    const lipsc_space *space = lipsc_experts_space(s);
    double *sum = lipsc_alloc_zero(k * s->n * d, sizeof *sum);
    const lipsc_buffer host = lipsc_space_alloc(space, k * s->n * d);
    lipsc_status status = sum && host.at ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t b = 0; !status && b < k; b++)
        for (size_t p = 0; p < s->pairs; p++) {
            const size_t i = b * s->n + s->token[p];
            const double by = v[i * used + s->slot[p]];
            for (size_t c = 0; c < d; c++) sum[i * d + c] += by * s->value[p * d + c];
        }
    if (!status) status = lipsc_space_upload(space, k * s->n * d, sum, host);
    if (!status) status = lipsc_experts_rows(s)->add(s->device, k * s->n * d, host, y);
    lipsc_release(sum);
    lipsc_space_release(space, host);
    return status;
}

/* v_p = F_p . g for k cotangents (k n, d) on the host: v (k n, used) */
static void dot_values(const lipsc_experts *s, size_t k, const double *g, double *v) {
    const size_t d = s->model->config.d, used = s->model->config.experts_used;
    for (size_t b = 0; b < k; b++)
        for (size_t p = 0; p < s->pairs; p++) {
            const size_t i = b * s->n + s->token[p];
            double sum = 0;
            for (size_t c = 0; c < d; c++) sum += s->value[p * d + c] * g[i * d + c];
            v[i * used + s->slot[p]] = sum;
        }
}

lipsc_status lipsc_router_apply(const lipsc_experts *s, int trans, size_t k, lipsc_buffer x,
                                lipsc_buffer y) {
    const lipsc_config *c = &s->model->config;
    const size_t rows = k * s->n, used = c->experts_used;
    double *logits = lipsc_alloc_zero(rows * c->experts, sizeof *logits);
    double *v = lipsc_alloc(rows * used, sizeof *v), *g = NULL;
    if (trans) g = lipsc_alloc(rows * c->d, sizeof *g);
    lipsc_status status = logits && v && (g || !trans) ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status && trans) {
        status = lipsc_space_download(lipsc_experts_space(s), rows * c->d, x, g);
        if (!status) dot_values(s, k, g, v);
    } else if (!status) {
        status = lipsc_router_logits(s, rows, x, 0, logits);
        for (size_t i = 0; !status && i < rows * used; i++)
            v[i] = logits[i / used * c->experts + s->expert[i % (s->n * used)]];
    }
    for (size_t i = 0; !status && i < rows; i++)
        softmax_derivative(used, s->weight + i % s->n * used, v + i * used);
    if (!status && trans) {
        for (size_t i = 0; i < rows * used; i++)
            logits[i / used * c->experts + s->expert[i % (s->n * used)]] = v[i];
        status = route_back(s, rows, logits, y);
    } else if (!status) {
        status = add_values(s, k, v, y);
    }
    lipsc_release(logits);
    lipsc_release(v);
    lipsc_release(g);
    return status;
}
