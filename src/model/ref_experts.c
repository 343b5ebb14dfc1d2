/* ref_experts.c - a mixture of experts by its definition, in plain double loops.
 *
 * With l = R x + b the router's logits, w the softmax of the chosen ones, F_u what the
 * expert in place u returns and D = diag(w) - w w^T,
 *
 *     M' h   = sum_u w_u E_u' h + (D R h)_u F_u
 *     M'^T g = sum_u w_u E_u'^T g + R^T D v,   v_u = F_u . g                            */
#include "model/ref_experts.h"

#include "core/error.h"
#include "core/mem.h"

#include <math.h>
#include <string.h>

lipsc_status lipsc_ref_experts_load(const lipsc_model *model, size_t layer,
                                    lipsc_ref_experts *out, lipsc_error *err) {
    const lipsc_config *c = &model->config;
    *out = (lipsc_ref_experts){.model = model,
                               .layer = layer,
                               .d = c->d,
                               .count = c->experts,
                               .used = c->experts_used};
    lipsc_status status = lipsc_model_load(model, LIPSC_ROUTER, layer, &out->router, err);
    if (!status)
        status = lipsc_model_load(model, LIPSC_ROUTER_BIAS, layer, &out->router_bias, err);
    return status;
}

void lipsc_ref_experts_free(lipsc_ref_experts *experts) {
    lipsc_release(experts->router);
    lipsc_release(experts->router_bias);
}

/* ---- One expert ---- */

static void free_expert(lipsc_ref_mlp *m) {
    double *const arrays[] = {m->up,      m->gate,      m->down,
                              m->up_bias, m->gate_bias, m->down_bias};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) lipsc_release(arrays[i]);
}

static lipsc_status load_expert(const lipsc_ref_experts *s, size_t e, lipsc_ref_mlp *m,
                                lipsc_error *err) {
    const lipsc_config *c = &s->model->config;
    *m = (lipsc_ref_mlp){.d = c->d,
                         .ffn = c->ffn,
                         .activation = c->activation,
                         .limit = c->glu_limit,
                         .alpha = c->glu_alpha};
    double **const to[][2] = {
        {&m->up, &m->up_bias}, {&m->gate, &m->gate_bias}, {&m->down, &m->down_bias}};
    lipsc_status status = LIPSC_OK;
    for (int what = LIPSC_DENSE_UP; what <= LIPSC_DENSE_DOWN; what++)
        for (int bias = 0; !status && bias < 2; bias++) {
            int transposed;
            status = lipsc_model_load_expert(s->model, s->layer, e, what, bias,
                                             to[what][bias], &transposed, err);
            if (!bias) m->transposed = transposed;
        }
    if (status) free_expert(m);
    return status;
}

/* ---- The router ---- */

/* y (count) = R x, or with the bias */
static void logits_of(const lipsc_ref_experts *s, int bias, const double *x, double *y) {
    for (size_t e = 0; e < s->count; e++) {
        y[e] = bias && s->router_bias ? s->router_bias[e] : 0.0;
        for (size_t c = 0; c < s->d; c++) y[e] += s->router[e * s->d + c] * x[c];
    }
}

/* The largest logits, the largest first, and the softmax of them; logits is used up. */
static void choose(const lipsc_ref_experts *s, double *logits, size_t *expert, double *w) {
    double sum = 0.0;
    for (size_t u = 0; u < s->used; u++) {
        size_t best = 0;
        for (size_t e = 1; e < s->count; e++)
            if (logits[e] > logits[best]) best = e;
        expert[u] = best;
        w[u] = logits[best];
        logits[best] = -INFINITY;
    }
    for (size_t u = s->used; u-- > 0;) sum += w[u] = exp(w[u] - w[0]);
    for (size_t u = 0; u < s->used; u++) w[u] /= sum;
}

/* v = (diag(w) - w w^T) v */
static void softmax_slope(size_t used, const double *w, double *v) {
    double mean = 0.0;
    for (size_t u = 0; u < used; u++) mean += w[u] * v[u];
    for (size_t u = 0; u < used; u++) v[u] = w[u] * (v[u] - mean);
}

/* ---- All of them ---- */

/* What each token takes: (n, used) each. */
typedef struct {
    size_t *expert;
    double *weight;
    double *through;       /* JVP: D R h; VJP: F . g, and D of it */
    double *logits;        /* (count)                             */
    double *value, *moved; /* (d): F, and E' h or E'^T g    */
} taken;

static void free_taken(taken *t) {
    lipsc_release(t->expert);
    lipsc_release(t->weight);
    lipsc_release(t->through);
    lipsc_release(t->logits);
    lipsc_release(t->value);
    lipsc_release(t->moved);
}

static lipsc_status new_taken(const lipsc_ref_experts *s, size_t n, taken *t,
                              lipsc_error *err) {
    *t = (taken){.expert = lipsc_alloc(n * s->used, sizeof *t->expert),
                 .weight = lipsc_alloc(n * s->used, sizeof *t->weight),
                 .through = lipsc_alloc_zero(n * s->used, sizeof *t->through),
                 .logits = lipsc_alloc(s->count, sizeof *t->logits),
                 .value = lipsc_alloc(s->d, sizeof *t->value),
                 .moved = lipsc_alloc(s->d, sizeof *t->moved)};
    if (t->expert && t->weight && t->through && t->logits && t->value && t->moved)
        return LIPSC_OK;
    return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for %zu tokens", n);
}

/* Choice and weights of token i, and for a JVP how its weights move. */
static void route(const lipsc_ref_experts *s, size_t i, const double *x, const double *h,
                  int jvp, taken *t) {
    size_t *expert = t->expert + i * s->used;
    double *weight = t->weight + i * s->used, *through = t->through + i * s->used;
    logits_of(s, 1, x + i * s->d, t->logits);
    choose(s, t->logits, expert, weight);
    if (!jvp) return;
    logits_of(s, 0, h + i * s->d, t->logits);
    for (size_t u = 0; u < s->used; u++) through[u] = t->logits[expert[u]];
    softmax_slope(s->used, weight, through);
}

/* What the expert in place p of all (n, used) adds to y, of its token. */
static void add_expert(const lipsc_ref_experts *s, const lipsc_ref_mlp *m,
                       lipsc_ref_what what, size_t p, const double *x, const double *h,
                       double *work, taken *t, double *y) {
    lipsc_ref_mlp_apply(m, LIPSC_REF_VALUE, 1, x, NULL, work, t->value);
    if (what == LIPSC_REF_VALUE) {
        for (size_t c = 0; c < s->d; c++) y[c] += t->weight[p] * t->value[c];
        return;
    }
    lipsc_ref_mlp_apply(m, what, 1, x, h, work, t->moved);
    for (size_t c = 0; c < s->d; c++) y[c] += t->weight[p] * t->moved[c];
    if (what == LIPSC_REF_JVP)
        for (size_t c = 0; c < s->d; c++) y[c] += t->through[p] * t->value[c];
    else
        for (size_t c = 0; c < s->d; c++) t->through[p] += t->value[c] * h[c];
}

static lipsc_status add_tokens(const lipsc_ref_experts *s, size_t e, lipsc_ref_what what,
                               size_t n, const double *x, const double *h, double *work,
                               taken *t, double *y, lipsc_error *err) {
    lipsc_ref_mlp m;
    int loaded = 0;
    for (size_t p = 0; p < n * s->used; p++) {
        const size_t row = p / s->used * s->d;
        if (t->expert[p] != e) continue;
        const lipsc_status status = loaded ? LIPSC_OK : load_expert(s, e, &m, err);
        if (status) return status;
        loaded = 1;
        add_expert(s, &m, what, p, x + row, h ? h + row : NULL, work, t, y + row);
    }
    if (loaded) free_expert(&m);
    return LIPSC_OK;
}

/* y += R^T D v of token i */
static void add_router(const lipsc_ref_experts *s, size_t i, taken *t, double *y) {
    double *v = t->through + i * s->used;
    softmax_slope(s->used, t->weight + i * s->used, v);
    for (size_t u = 0; u < s->used; u++)
        for (size_t c = 0; c < s->d; c++)
            y[i * s->d + c] += s->router[t->expert[i * s->used + u] * s->d + c] * v[u];
}

lipsc_status lipsc_ref_experts_apply(const lipsc_ref_experts *s, lipsc_ref_what what,
                                     size_t n, const double *x, const double *h,
                                     double *work, double *y, lipsc_error *err) {
    taken t;
    lipsc_status status = new_taken(s, n, &t, err);
    if (!status) memset(y, 0, n * s->d * sizeof *y);
    for (size_t i = 0; !status && i < n; i++) route(s, i, x, h, what == LIPSC_REF_JVP, &t);
    for (size_t e = 0; !status && e < s->count; e++)
        status = add_tokens(s, e, what, n, x, h, work, &t, y, err);
    for (size_t i = 0; !status && what == LIPSC_REF_VJP && i < n; i++)
        add_router(s, i, &t, y);
    free_taken(&t);
    return status;
}
