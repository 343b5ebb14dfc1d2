/* point.c - sigma at one input, and its gradient with respect to the parameters. */
#include <math.h>
#include <string.h>

#include "attack/search.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "core/rng.h"
#include "core/vector.h"
#include "svd/solver.h"

/* ---- sigma -------------------------------------------------------------------------- */

static void solver_settings(const lipsc_search *s, lipsc_look look,
                            lipsc_svd_settings *set) {
    /* A look nearby starts with a vector whose error is of the size of the step: a few
     * products make it better than the step's own effect.  What they leave is a lower
     * bound like any other. */
    enum { NEAR_PRODUCTS = 6, FRESH_PRODUCTS = 200 };
    lipsc_svd_defaults(set);
    set->seed = s->set->seed + (uint64_t)s->evaluations;
    set->stop = s->set->stop;
    set->ctx = s->set->ctx;
    set->tol = s->dtype == LIPSC_F32 ? 1e-3 : 1e-5; /* sigma to 1e-6, 1e-10 */
    if (s->dense) {
        set->method = LIPSC_DENSE;
        set->count = LIPSC_PAIRS;
    } else {
        set->count = look == LIPSC_LOOK_PAIRS ? LIPSC_PAIRS : 1;
        set->max_products = look == LIPSC_LOOK_NEAR ? NEAR_PRODUCTS : FRESH_PRODUCTS;
    }
    const size_t smaller = s->in < s->out ? s->in : s->out;
    if (set->count > smaller) set->count = smaller;
}

static lipsc_status solve(lipsc_search *s, lipsc_look look, const double *near,
                          lipsc_view *view) {
    const lipsc_linop op = lipsc_attn_linop(view->attn);
    lipsc_svd_settings set;
    lipsc_svd_info info;
    solver_settings(s, look, &set);
    void *u = lipsc_space_alloc(op.space, set.count * op.m),
         *v = lipsc_space_alloc(op.space, set.count * op.n);
    void *start =
        near && look == LIPSC_LOOK_NEAR ? lipsc_space_alloc(op.space, op.n) : NULL;
    lipsc_status status = LIPSC_E_NOMEM;
    if (u && v && (start || look != LIPSC_LOOK_NEAR || !near)) {
        status = start ? lipsc_space_upload(op.space, op.n, near, start) : LIPSC_OK;
        if (!status)
            status = lipsc_svd_linop_from(&op, &set, start, view->sigma, u, v, &info);
        if (status == LIPSC_E_NOCONV) status = LIPSC_OK;
    }
    if (!status) {
        view->pairs = set.count;
        status = lipsc_space_download(op.space, set.count * op.m, u, s->u);
        if (!status) status = lipsc_space_download(op.space, set.count * op.n, v, s->v);
        if (!status && !isfinite(view->sigma[0])) status = LIPSC_E_NONFIN;
    }
    lipsc_space_release(op.space, u);
    lipsc_space_release(op.space, v);
    lipsc_space_release(op.space, start);
    return status;
}

/* The input with parameters y; X and, where masses are free, weights are written. */
static lipsc_input input_at(const lipsc_search *s, const double *y, double *X,
                            double *weights) {
    lipsc_region_place(&s->region, y, X, weights);
    return (lipsc_input){.n = s->region.n,
                         .X = X,
                         .weights = weights ? weights : s->set->weights,
                         .times = s->set->times,
                         .positions = s->set->positions};
}

lipsc_status lipsc_view_open(lipsc_search *s, const double *y, lipsc_look look,
                             const double *near, lipsc_view *view) {
    *view = (lipsc_view){0};
    const lipsc_input input = input_at(s, y, s->X, s->weights);
    lipsc_status status =
        lipsc_attn_at(s->packed, NULL, &input, s->dtype, s->set->device, &view->attn, NULL);
    if (!status) status = solve(s, look, near, view);
    if (status) lipsc_view_close(view);
    s->evaluations++;
    return status;
}

void lipsc_view_close(lipsc_view *view) {
    lipsc_attn_free(view->attn);
    view->attn = NULL;
}

/* ---- Several together ---------------------------------------------------------------- */

size_t lipsc_spots_together(const lipsc_search *s) {
    enum { MOST_SPOTS = 16, MOST_TOKENS = 512 };
    const size_t wanted = lipsc_device_table(s->set->device)->batch_tokens;
    const size_t fit = (wanted ? wanted : MOST_TOKENS) / s->region.n;
    return s->dense || fit < 1 ? 1 : min_size(fit, MOST_SPOTS);
}

/* What a batch of spots works with. */
typedef struct {
    double *X, *weights;
    lipsc_input *input;
    lipsc_attn **attn;
    lipsc_linop *op;
    lipsc_svd_task *task;
} crowd;

static void crowd_free(size_t count, crowd *c) {
    for (size_t i = 0; c->attn && c->op && c->task && i < count; i++) {
        if (c->task[i].v) lipsc_space_release(c->op[i].space, c->task[i].v);
        lipsc_attn_free(c->attn[i]);
    }
    lipsc_release(c->X);
    lipsc_release(c->weights);
    lipsc_release(c->input);
    lipsc_release(c->attn);
    lipsc_release(c->op);
    lipsc_release(c->task);
}

static lipsc_status crowd_new(const lipsc_search *s, size_t count, crowd *c) {
    size_t all;
    *c = (crowd){0};
    if (!lipsc_mul_size(count, s->in, &all)) return LIPSC_E_NOMEM;
    c->X = lipsc_alloc(all, sizeof *c->X);
    if (s->weights) c->weights = lipsc_alloc(count * s->region.n, sizeof *c->weights);
    c->input = lipsc_alloc(count, sizeof *c->input);
    c->attn = lipsc_alloc_zero(count, sizeof *c->attn);
    c->op = lipsc_alloc(count, sizeof *c->op);
    c->task = lipsc_alloc_zero(count, sizeof *c->task);
    return c->X && (c->weights || !s->weights) && c->input && c->attn && c->op && c->task
               ? LIPSC_OK
               : LIPSC_E_NOMEM;
}

/* The operators at the spots, and room for what is found of each. */
static lipsc_status meet(const lipsc_search *s, size_t count, lipsc_spot *const *spots,
                         crowd *c) {
    for (size_t i = 0; i < count; i++)
        c->input[i] = input_at(s, spots[i]->y, c->X + i * s->in,
                               c->weights ? c->weights + i * s->region.n : NULL);
    lipsc_status status = lipsc_attn_batch_at(s->packed, NULL, count, c->input, s->dtype,
                                              s->set->device, c->attn, NULL);
    for (size_t i = 0; i < count && !status; i++) {
        c->op[i] = lipsc_attn_linop(c->attn[i]);
        c->task[i] = (lipsc_svd_task){.op = &c->op[i],
                                      .sigma = &spots[i]->sigma,
                                      .v = lipsc_space_alloc(c->op[i].space, s->in),
                                      .seed = i};
        if (!c->task[i].v) status = LIPSC_E_NOMEM;
    }
    return status;
}

lipsc_status lipsc_spots_look(lipsc_search *s, size_t count, lipsc_spot *const *spots) {
    const lipsc_device_ops *ops = lipsc_device_table(s->set->device);
    const int handed = ops->concurrent && !ops->batch_tokens; /* vectors, among threads */
    lipsc_svd_settings set;
    crowd c;
    solver_settings(s, LIPSC_LOOK_FRESH, &set);
    lipsc_status status = crowd_new(s, count, &c);
    if (!status) status = meet(s, count, spots, &c);
    if (!status)
        lipsc_svd_batch(count, c.task, &set, lipsc_attn_products,
                        handed ? lipsc_device_threads(s->set->device) : 1);
    for (size_t i = 0; i < count && !status; i++) {
        status = c.task[i].status == LIPSC_E_NOCONV ? LIPSC_OK : c.task[i].status;
        if (!status && !isfinite(spots[i]->sigma)) status = LIPSC_E_NONFIN;
        if (!status)
            status = lipsc_space_download(c.op[i].space, s->in, c.task[i].v, spots[i]->v);
    }
    crowd_free(count, &c);
    if (!status) s->evaluations += (long)count;
    return status;
}

/* ---- Its gradient ------------------------------------------------------------------- */

/* g = d log sigma for the pair u, v with value sigma. */
static lipsc_status pair_gradient(lipsc_search *s, const lipsc_view *view, double sigma,
                                  const double *u, const double *v, double *g) {
    const lipsc_status status = lipsc_attn_gradient(
        view->attn, 1, u, v, s->grad_X, s->region.masses ? s->grad_t : NULL, NULL);
    if (status) return status;
    lipsc_region_pull(&s->region, s->grad_X, s->grad_t, g);
    for (size_t e = 0; e < s->region.size; e++) {
        g[e] /= sigma;
        if (!isfinite(g[e])) return LIPSC_E_NONFIN;
    }
    return LIPSC_OK;
}

lipsc_status lipsc_view_branch(lipsc_search *s, const lipsc_view *view, const double *y,
                               size_t k, double *g) {
    const lipsc_status status =
        pair_gradient(s, view, view->sigma[k], s->u + k * s->out, s->v + k * s->in, g);
    if (!status) lipsc_region_tangent(&s->region, y, g);
    return status;
}

/* With orthonormal pairs (u_k, v_k) of one value and unit coefficients c the pair (sum c_k
 * u_k, sum c_k v_k) has gradient sum_kl c_k c_l G_kl.  forms: G_kk, then G_kl + G_lk for
 * k < l, which is 2 G[(u_k + u_l)/sqrt2, ...] - G_kk - G_ll. */
static lipsc_status make_forms(lipsc_search *s, const lipsc_view *view, size_t pairs) {
    const size_t size = s->region.size;
    lipsc_status status = LIPSC_OK;
    for (size_t k = 0; !status && k < pairs; k++)
        status = pair_gradient(s, view, view->sigma[0], s->u + k * s->out, s->v + k * s->in,
                               s->forms + k * size);
    size_t form = pairs;
    for (size_t k = 0; k < pairs; k++)
        for (size_t l = k + 1; !status && l < pairs; l++, form++) {
            double *mixed = s->forms + form * size;
            const double *a = s->forms + k * size, *b = s->forms + l * size;
            for (size_t e = 0; e < s->out; e++)
                s->mixed_u[e] = (s->u[k * s->out + e] + s->u[l * s->out + e]) * sqrt(0.5);
            for (size_t e = 0; e < s->in; e++)
                s->mixed_v[e] = (s->v[k * s->in + e] + s->v[l * s->in + e]) * sqrt(0.5);
            status = pair_gradient(s, view, view->sigma[0], s->mixed_u, s->mixed_v, mixed);
            for (size_t e = 0; e < size; e++) mixed[e] = 2.0 * mixed[e] - a[e] - b[e];
        }
    return status;
}

/* g = sum_kl c_k c_l G_kl */
static void combine_forms(const lipsc_search *s, size_t pairs, const double *c, double *g) {
    const size_t size = s->region.size;
    memset(g, 0, size * sizeof *g);
    size_t form = pairs;
    for (size_t k = 0; k < pairs; k++) {
        for (size_t e = 0; e < size; e++) g[e] += c[k] * c[k] * s->forms[k * size + e];
        for (size_t l = k + 1; l < pairs; l++, form++)
            for (size_t e = 0; e < size; e++)
                g[e] += c[k] * c[l] * s->forms[form * size + e];
    }
}

/* Coefficients: the pairs themselves, then random ones. */
static void choose_coefficients(uint64_t seed, size_t sample, size_t pairs, double *c) {
    double square = 0.0;
    for (size_t k = 0; k < pairs; k++) {
        c[k] = sample < pairs ? sample == k
                              : lipsc_rng_normal(seed, (uint64_t)(sample * pairs + k));
        square += c[k] * c[k];
    }
    for (size_t k = 0; k < pairs; k++) c[k] /= sqrt(square);
}

lipsc_status lipsc_view_gradient(lipsc_search *s, const lipsc_view *view, const double *y,
                                 double *g) {
    enum { SAMPLES = 40 };
    const double tie = 1e-6;
    size_t pairs = 1;
    while (pairs < view->pairs && view->sigma[pairs] >= (1.0 - tie) * view->sigma[0])
        pairs++;
    if (pairs == 1) return lipsc_view_branch(s, view, y, 0, g);
    const lipsc_status status = make_forms(s, view, pairs);
    double c[LIPSC_PAIRS], best[LIPSC_PAIRS] = {1.0}, steepest = -1.0;
    for (size_t sample = 0; !status && sample < SAMPLES; sample++) {
        choose_coefficients(s->set->seed, sample, pairs, c);
        combine_forms(s, pairs, c, g);
        lipsc_region_tangent(&s->region, y, g);
        const double slope = lipsc_length(s->region.size, g);
        if (slope > steepest) {
            steepest = slope;
            memcpy(best, c, sizeof c);
        }
    }
    if (!status) {
        combine_forms(s, pairs, best, g);
        lipsc_region_tangent(&s->region, y, g);
    }
    return status;
}
