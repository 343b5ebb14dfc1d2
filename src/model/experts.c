/* experts.c - a mixture of experts at one input, and products with its derivative.
 *
 * Tokens are gathered expert by expert, so that each one works on one block of rows.  With
 * w the weights of a token's experts, which router.c has, and F_p what that of pair p
 * returns, M' h   = sum_p w_p E_p' h  + dw_p F_p M'^T g = sum_p w_p E_p'^T g + what goes
 * through the weights where E_p' h = W_down (a o W_gate h + b o W_up h) with a, b kept at
 * the point. */
#include "model/experts_at.h"

#include "core/error.h"
#include "core/mem.h"
#include "core/vector.h"

#include <math.h>

/* Row `row` of an array of `width` numbers a row, in device memory. */
static lipsc_buffer row_at(const lipsc_experts *s, lipsc_buffer array, size_t row,
                           size_t width) {
    return lipsc_space_at(lipsc_experts_space(s), array, row * width);
}

void lipsc_experts_free(lipsc_experts *s) {
    if (!s) return;
    lipsc_release(s->token);
    lipsc_release(s->slot);
    lipsc_release(s->first);
    lipsc_release(s->expert);
    lipsc_release(s->weight);
    lipsc_release(s->value);
    lipsc_space_release(lipsc_experts_space(s), s->scale);
    lipsc_space_release(lipsc_experts_space(s), s->by_gate);
    lipsc_space_release(lipsc_experts_space(s), s->by_up);
    lipsc_release(s);
}

double lipsc_experts_gap(const lipsc_experts *s) { return s->gap; }

int lipsc_experts_takes(const lipsc_experts *s, size_t e) {
    return s->first[e] < s->first[e + 1];
}

/* The largest of count numbers in device memory. */
static lipsc_status largest_of(const lipsc_experts *s, size_t count, lipsc_buffer x,
                               double *largest) {
    double *host = lipsc_alloc(count, sizeof *host);
    const lipsc_status status =
        host ? lipsc_space_download(lipsc_experts_space(s), count, x, host) : LIPSC_E_NOMEM;
    *largest = status ? 0 : lipsc_largest(count, host);
    lipsc_release(host);
    return status;
}

lipsc_status lipsc_experts_measure(const lipsc_experts *s, lipsc_experts_size *out) {
    const lipsc_config *c = &s->model->config;
    *out = (lipsc_experts_size){.kink = s->kink};
    lipsc_status status = largest_of(s, s->pairs * c->ffn, s->by_gate, &out->by_gate);
    if (!status) status = largest_of(s, s->pairs * c->ffn, s->by_up, &out->by_up);
    for (size_t p = 0; p < s->pairs; p++) {
        double square = 0;
        for (size_t l = 0; l < c->d; l++)
            square += s->value[p * c->d + l] * s->value[p * c->d + l];
        out->value = lipsc_max(out->value, sqrt(square));
    }
    return status;
}

/* ---- One expert --------------------------------------------------------------------- */

/* The rows of expert e out of k directions x (k n, d): to (k count, d) */
static lipsc_status gather(const lipsc_experts *s, size_t e, size_t k, lipsc_buffer x,
                           lipsc_buffer to) {
    const size_t d = s->model->config.d, count = s->first[e + 1] - s->first[e];
    lipsc_status status = LIPSC_OK;
    for (size_t b = 0; b < k; b++)
        for (size_t c = 0; c < count && !status; c++)
            status = lipsc_space_copy(lipsc_experts_space(s), d,
                                      row_at(s, x, b * s->n + s->token[s->first[e] + c], d),
                                      row_at(s, to, b * count + c, d));
    return status;
}

/* y (k n, d) += weight times from (k count, d) */
static lipsc_status scatter(const lipsc_experts *s, size_t e, size_t k, lipsc_buffer from,
                            lipsc_buffer y) {
    const size_t d = s->model->config.d, count = s->first[e + 1] - s->first[e];
    lipsc_status status = LIPSC_OK;
    for (size_t b = 0; b < k; b++)
        for (size_t c = 0; c < count && !status; c++) {
            const size_t p = s->first[e] + c;
            status =
                lipsc_experts_rows(s)->multiply(s->device, d, 1, row_at(s, s->scale, p, 1),
                                                row_at(s, from, b * count + c, d), 1,
                                                row_at(s, y, b * s->n + s->token[p], d));
        }
    return status;
}

/* y (rows, out) = x W^T of one matrix of expert e */
static lipsc_status dense(const lipsc_experts *s, size_t e, lipsc_dense which, size_t rows,
                          lipsc_buffer x, int bias, int add, lipsc_buffer y) {
    const void *linear;
    const lipsc_status status =
        lipsc_model_expert(s->model, s->layer, which, e, s->dtype, &linear, NULL);
    return status ? status : lipsc_linear_apply(s->device, linear, rows, x, bias, add, y);
}

/* y = a o x, or y += with add, over k directions of `period` numbers each */
static lipsc_status times(const lipsc_experts *s, size_t k, size_t period, lipsc_buffer a,
                          lipsc_buffer x, int add, lipsc_buffer y) {
    return lipsc_experts_rows(s)->multiply(s->device, k * period, period, a, x, add, y);
}

/* (up + 1) gate s(alpha gate) with both clamped: value, and its derivatives; *kink falls to
 * the least distance from a clamp */
static void clamped_glu(const lipsc_config *c, size_t count, double *gate, double *up,
                        double *value, double *kink) {
    for (size_t i = 0; i < count; i++) {
        const double far_gate = fabs(gate[i] - c->glu_limit);
        const double far_up = fabs(fabs(up[i]) - c->glu_limit);
        *kink = lipsc_min(*kink, lipsc_min(far_gate, far_up));
        const int open_gate = gate[i] < c->glu_limit, open_up = fabs(up[i]) < c->glu_limit;
        const double g = lipsc_min(gate[i], c->glu_limit);
        const double u = lipsc_max(lipsc_min(up[i], c->glu_limit), -c->glu_limit);
        const double s = 1 / (1 + exp(-c->glu_alpha * g));
        value[i] = (u + 1) * g * s;
        gate[i] = open_gate ? (u + 1) * (s + c->glu_alpha * g * s * (1 - s)) : 0;
        up[i] = open_up ? g * s : 0;
    }
}

/* gate and up become a and b on the host, where clamps are not a device's business */
static lipsc_status activate_clamped(lipsc_experts *s, size_t all, lipsc_buffer gate,
                                     lipsc_buffer up, lipsc_buffer value) {
    const lipsc_space *space = lipsc_experts_space(s);
    double *host = lipsc_alloc(3 * all, sizeof *host);
    if (!host) return LIPSC_E_NOMEM;
    lipsc_status status = lipsc_space_download(space, all, gate, host);
    if (!status) status = lipsc_space_download(space, all, up, host + all);
    if (!status)
        clamped_glu(&s->model->config, all, host, host + all, host + 2 * all, &s->kink);
    if (!status) status = lipsc_space_upload(space, all, host, gate);
    if (!status) status = lipsc_space_upload(space, all, host + all, up);
    if (!status) status = lipsc_space_upload(space, all, host + 2 * all, value);
    lipsc_release(host);
    return status;
}

/* gate and up (count, ffn) become a and b; value = what goes into W_down */
static lipsc_status activate(lipsc_experts *s, size_t count, lipsc_buffer gate,
                             lipsc_buffer up, lipsc_buffer value) {
    const lipsc_config *c = &s->model->config;
    const lipsc_space *space = lipsc_experts_space(s);
    const size_t all = count * c->ffn;
    if (c->glu_limit > 0) return activate_clamped(s, all, gate, up, value);
    const lipsc_buffer slope = lipsc_space_alloc(space, all);
    if (!slope.at) return LIPSC_E_NOMEM;
    lipsc_status status =
        lipsc_experts_rows(s)->activation(s->device, c->activation, all, gate, gate, slope);
    if (!status) status = times(s, 1, all, gate, up, 0, value);
    if (!status) status = times(s, 1, all, up, slope, 0, slope);
    if (!status) status = lipsc_space_copy(space, all, gate, up);
    if (!status) status = lipsc_space_copy(space, all, slope, gate);
    lipsc_space_release(space, slope);
    return status;
}

/* What expert e does at its tokens; adds it to y. */
static lipsc_status run_expert(lipsc_experts *s, size_t e, lipsc_buffer x, lipsc_buffer y) {
    const lipsc_config *c = &s->model->config;
    const size_t first = s->first[e], count = s->first[e + 1] - first;
    const lipsc_space *space = lipsc_experts_space(s);
    if (!count) return LIPSC_OK;
    const lipsc_buffer in = lipsc_space_alloc(space, count * c->d),
                       value = lipsc_space_alloc(space, count * c->ffn);
    const lipsc_buffer gate = row_at(s, s->by_gate, first, c->ffn),
                       up = row_at(s, s->by_up, first, c->ffn);
    lipsc_status status = in.at && value.at ? gather(s, e, 1, x, in) : LIPSC_E_NOMEM;
    if (!status) status = dense(s, e, LIPSC_DENSE_GATE, count, in, 1, 0, gate);
    if (!status) status = dense(s, e, LIPSC_DENSE_UP, count, in, 1, 0, up);
    if (!status) status = activate(s, count, gate, up, value);
    if (!status) status = dense(s, e, LIPSC_DENSE_DOWN, count, value, 1, 0, in);
    if (!status)
        status = lipsc_space_download(space, count * c->d, in, s->value + first * c->d);
    if (!status) status = scatter(s, e, 1, in, y);
    lipsc_space_release(space, in);
    lipsc_space_release(space, value);
    return status;
}

/* y += w E' x or w E'^T x of expert e, k directions */
static lipsc_status apply_expert(const lipsc_experts *s, size_t e, int trans, size_t k,
                                 lipsc_buffer x, lipsc_buffer y) {
    const lipsc_config *c = &s->model->config;
    const lipsc_space *space = lipsc_experts_space(s);
    const size_t first = s->first[e], count = s->first[e + 1] - first, rows = k * count;
    const size_t period = count * c->ffn, all = k * period;
    if (!count) return LIPSC_OK;
    const lipsc_buffer a = row_at(s, s->by_gate, first, c->ffn),
                       b = row_at(s, s->by_up, first, c->ffn);
    const lipsc_buffer in = lipsc_space_alloc(space, rows * c->d);
    const lipsc_buffer t[2] = {lipsc_space_alloc(space, all),
                               lipsc_space_alloc(space, all)};
    lipsc_status status =
        in.at && t[0].at && t[1].at ? gather(s, e, k, x, in) : LIPSC_E_NOMEM;
    if (!status && !trans) {
        status = dense(s, e, LIPSC_DENSE_GATE, rows, in, 0, 0, t[0]);
        if (!status) status = dense(s, e, LIPSC_DENSE_UP, rows, in, 0, 0, t[1]);
        if (!status) status = times(s, k, period, a, t[0], 0, t[0]);
        if (!status) status = times(s, k, period, b, t[1], 1, t[0]);
        if (!status) status = dense(s, e, LIPSC_DENSE_DOWN, rows, t[0], 0, 0, in);
    } else if (!status) {
        status = dense(s, e, LIPSC_DENSE_DOWN_BACK, rows, in, 0, 0, t[0]);
        if (!status) status = times(s, k, period, a, t[0], 0, t[1]);
        if (!status) status = times(s, k, period, b, t[0], 0, t[0]);
        if (!status) status = dense(s, e, LIPSC_DENSE_GATE_BACK, rows, t[1], 0, 0, in);
        if (!status) status = dense(s, e, LIPSC_DENSE_UP_BACK, rows, t[0], 0, 1, in);
    }
    if (!status) status = scatter(s, e, k, in, y);
    lipsc_space_release(space, in);
    lipsc_space_release(space, t[0]);
    lipsc_space_release(space, t[1]);
    return status;
}

/* y = 0, count numbers in device memory */
static lipsc_status clear(const lipsc_experts *s, size_t count, lipsc_buffer y) {
    const double none = 0.0; /* an empty sum of vectors is zero */
    return lipsc_space_combine(lipsc_experts_space(s), count, 0, y, 1, &none, 0.0, y);
}

/* ---- All of them -------------------------------------------------------------------- */

static int allocate(lipsc_experts *s) {
    const lipsc_config *c = &s->model->config;
    const lipsc_space *space = lipsc_experts_space(s);
    s->token = lipsc_alloc(s->pairs, sizeof *s->token);
    s->slot = lipsc_alloc(s->pairs, sizeof *s->slot);
    s->first = lipsc_alloc(c->experts + 1, sizeof *s->first);
    s->expert = lipsc_alloc(s->pairs, sizeof *s->expert);
    s->weight = lipsc_alloc(s->pairs, sizeof *s->weight);
    s->value = lipsc_alloc(s->pairs * c->d, sizeof *s->value);
    s->scale = lipsc_space_alloc(space, s->pairs);
    s->by_gate = lipsc_space_alloc(space, s->pairs * c->ffn);
    s->by_up = lipsc_space_alloc(space, s->pairs * c->ffn);
    return s->token && s->slot && s->first && s->expert && s->weight && s->value &&
           s->scale.at && s->by_gate.at && s->by_up.at;
}

/* Every weight that is needed, so that products cannot fail for want of them. */
static lipsc_status load_all(const lipsc_experts *s, int keep, lipsc_error *err) {
    const void *linear;
    lipsc_status status = LIPSC_OK;
    for (int w = LIPSC_ROUTER_FORTH;
         !status && w <= (keep ? LIPSC_ROUTER_BACK : LIPSC_ROUTER_FORTH); w++)
        status = lipsc_model_expert(s->model, s->layer, (lipsc_dense)w, 0, s->dtype,
                                    &linear, err);
    return status;
}

static lipsc_status load_chosen(const lipsc_experts *s, int keep, lipsc_error *err) {
    const int count = keep ? LIPSC_DENSE_COUNT : LIPSC_DENSE_UP_BACK;
    const void *linear;
    lipsc_status status = LIPSC_OK;
    for (size_t e = 0; !status && e < s->model->config.experts; e++)
        for (int w = 0; !status && s->first[e] < s->first[e + 1] && w < count; w++)
            status = lipsc_model_expert(s->model, s->layer, (lipsc_dense)w, e, s->dtype,
                                        &linear, err);
    return status;
}

static lipsc_status follow(lipsc_experts *s, int keep, lipsc_buffer x, lipsc_buffer y,
                           lipsc_error *err) {
    const lipsc_config *c = &s->model->config;
    const lipsc_space *space = lipsc_experts_space(s);
    double *logits = lipsc_alloc(s->n * c->experts, sizeof *logits);
    double *scale = lipsc_alloc(s->pairs, sizeof *scale);
    lipsc_status status =
        logits && scale ? LIPSC_OK : lipsc_short_of_tokens(s->model, s->n, err);
    if (!status) status = load_all(s, keep, err);
    if (!status) status = lipsc_router_logits(s, s->n, x, 1, logits);
    for (size_t e = 0; !status && e < s->n * c->experts; e++)
        if (!isfinite(logits[e]))
            status = lipsc_fail(err, LIPSC_E_NONFIN,
                                "%s: a router logit of block %zu is not finite",
                                s->model->shown, s->layer);
    if (!status) {
        lipsc_router_assign(s, logits);
        for (size_t p = 0; p < s->pairs; p++) scale[p] = lipsc_experts_weight(s, p);
        status = lipsc_space_upload(space, s->pairs, scale, s->scale);
    }
    if (!status) status = load_chosen(s, keep, err);
    lipsc_release(logits);
    lipsc_release(scale);
    if (!status) status = clear(s, s->n * c->d, y);
    for (size_t e = 0; !status && e < c->experts; e++) status = run_expert(s, e, x, y);
    return status;
}

lipsc_status lipsc_experts_at(lipsc_model *m, size_t layer, lipsc_dtype dtype,
                              const lipsc_device *device, size_t n, lipsc_buffer x,
                              int keep, lipsc_buffer y, lipsc_experts **out,
                              lipsc_error *err) {
    lipsc_experts *s = lipsc_alloc_zero(1, sizeof *s);
    if (!s) return lipsc_short_of_tokens(m, n, err);
    *s = (lipsc_experts){.model = m,
                         .layer = layer,
                         .n = n,
                         .pairs = n * m->config.experts_used,
                         .dtype = dtype,
                         .device = device,
                         .kink = m->config.activation == LIPSC_ACT_RELU ? 0 : INFINITY};
    const lipsc_status status =
        allocate(s) ? follow(s, keep, x, y, err) : lipsc_short_of_tokens(m, n, err);
    if (status)
        lipsc_experts_free(s);
    else
        *out = s;
    return status;
}

lipsc_status lipsc_experts_apply(const lipsc_experts *s, int trans, size_t k,
                                 lipsc_buffer x, lipsc_buffer y) {
    const lipsc_config *c = &s->model->config;
    lipsc_status status = clear(s, k * s->n * c->d, y);
    for (size_t e = 0; !status && e < c->experts; e++)
        status = apply_expert(s, e, trans, k, x, y);
    if (!status) status = lipsc_router_apply(s, trans, k, x, y);
    return status;
}
