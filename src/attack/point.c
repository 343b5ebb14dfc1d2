/* point.c - sigma at inputs, several at once, and its gradients with respect to the
 * parameters. */
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
    set->seed = s->set->seed;
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

lipsc_status lipsc_view_new(const lipsc_search *s, lipsc_view *view) {
    *view = (lipsc_view){.X = lipsc_alloc(s->in, sizeof *view->X)};
    view->u = lipsc_alloc(LIPSC_FORMS, s->out * sizeof *view->u);
    view->v = lipsc_alloc(LIPSC_FORMS, s->in * sizeof *view->v);
    view->forms = lipsc_alloc(LIPSC_FORMS, s->region.size * sizeof *view->forms);
    view->grad_X = lipsc_alloc(LIPSC_FORMS, s->in * sizeof *view->grad_X);
    if (s->region.masses) {
        view->weights = lipsc_alloc(s->region.n, sizeof *view->weights);
        view->grad_t = lipsc_alloc(LIPSC_FORMS, s->region.n * sizeof *view->grad_t);
    }
    const int masses = !s->region.masses || (view->weights && view->grad_t);
    return view->X && view->u && view->v && view->forms && view->grad_X && masses
               ? LIPSC_OK
               : LIPSC_E_NOMEM;
}

void lipsc_view_free(lipsc_view *view) {
    double *const all[] = {view->X,      view->weights, view->u,    view->v,
                           view->grad_X, view->grad_t,  view->forms};
    lipsc_view_close(view);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) lipsc_release(all[i]);
}

void lipsc_view_close(lipsc_view *view) {
    lipsc_attn_free(view->attn);
    view->attn = NULL;
}

/* What a batch of views works with. */
typedef struct {
    lipsc_input *input;
    lipsc_attn **attn;
    lipsc_linop *op;
    lipsc_svd_task *task;
    lipsc_buffer *start;
} crowd;

static void crowd_free(size_t count, crowd *c) {
    for (size_t i = 0; c->op && c->task && c->start && i < count; i++) {
        if (!c->op[i].space) continue;
        lipsc_space_release(c->op[i].space, c->task[i].u);
        lipsc_space_release(c->op[i].space, c->task[i].v);
        lipsc_space_release(c->op[i].space, c->start[i]);
    }
    lipsc_release(c->input);
    lipsc_release(c->attn);
    lipsc_release(c->op);
    lipsc_release(c->task);
    lipsc_release(c->start);
}

static lipsc_status crowd_new(size_t count, crowd *c) {
    *c = (crowd){.input = lipsc_alloc(count, sizeof *c->input),
                 .attn = lipsc_alloc_zero(count, sizeof *c->attn),
                 .op = lipsc_alloc_zero(count, sizeof *c->op),
                 .task = lipsc_alloc_zero(count, sizeof *c->task),
                 .start = lipsc_alloc_zero(count, sizeof *c->start)};
    return c->input && c->attn && c->op && c->task && c->start ? LIPSC_OK : LIPSC_E_NOMEM;
}

/* Memory of the device for one solve, and where it begins. */
static lipsc_status prepare(const lipsc_view *view, size_t count, const lipsc_linop *op,
                            lipsc_svd_task *task, lipsc_buffer *start) {
    task->u = lipsc_space_alloc(op->space, count * op->m);
    task->v = lipsc_space_alloc(op->space, count * op->n);
    if (!task->u.at || !task->v.at) return LIPSC_E_NOMEM;
    if (view->look != LIPSC_LOOK_NEAR) return LIPSC_OK;
    task->start = *start = lipsc_space_alloc(op->space, op->n);
    return start->at ? lipsc_space_upload(op->space, op->n, view->near, *start)
                     : LIPSC_E_NOMEM;
}

/* The operators at the views. */
static lipsc_status meet(const lipsc_search *s, size_t pairs, size_t count,
                         lipsc_view *const *views, crowd *c) {
    for (size_t i = 0; i < count; i++)
        c->input[i] = input_at(s, views[i]->y, views[i]->X, views[i]->weights);
    lipsc_status status = lipsc_attn_batch_at(s->packed, NULL, count, c->input, s->dtype,
                                              s->set->device, c->attn, NULL);
    for (size_t i = 0; i < count && !status; i++) {
        views[i]->attn = c->attn[i];
        c->op[i] = lipsc_attn_linop(c->attn[i]);
        c->task[i] = (lipsc_svd_task){
            .op = &c->op[i], .sigma = views[i]->sigma, .seed = views[i]->seed};
    }
    for (size_t i = 0; i < count && !status; i++)
        status = prepare(views[i], pairs, &c->op[i], &c->task[i], &c->start[i]);
    return status;
}

/* What one solve has found. */
static lipsc_status take(const lipsc_svd_task *task, size_t pairs, lipsc_view *view) {
    const lipsc_linop *op = task->op;
    lipsc_status status = task->status == LIPSC_E_NOCONV ? LIPSC_OK : task->status;
    view->pairs = pairs;
    if (!status && !isfinite(view->sigma[0])) status = LIPSC_E_NONFIN;
    if (!status) status = lipsc_space_download(op->space, pairs * op->m, task->u, view->u);
    if (!status) status = lipsc_space_download(op->space, pairs * op->n, task->v, view->v);
    view->status = status;
    return status == LIPSC_E_NONFIN ? LIPSC_OK : status;
}

static lipsc_status look(lipsc_search *s, size_t count, lipsc_view *const *views) {
    const lipsc_device_ops *ops = lipsc_device_table(s->set->device);
    const int handed = ops->concurrent && !ops->batch_tokens; /* vectors, among threads */
    lipsc_svd_settings set;
    crowd c;
    solver_settings(s, views[0]->look, &set);
    lipsc_status status = crowd_new(count, &c);
    if (!status) status = meet(s, set.count, count, views, &c);
    if (!status)
        lipsc_svd_batch(count, c.task, &set, lipsc_attn_products,
                        handed ? lipsc_device_threads(s->set->device) : 1);
    for (size_t i = 0; i < count && !status; i++)
        status = take(&c.task[i], set.count, views[i]);
    crowd_free(count, &c);
    return status;
}

lipsc_status lipsc_views_look(lipsc_search *s, size_t count, lipsc_view *const *views) {
    for (size_t i = 0; i < count; i++) {
        lipsc_view_close(views[i]);
        views[i]->slopes = 0;
        views[i]->status = LIPSC_OK;
    }
    lipsc_status status = look(s, count, views);
    if (status != LIPSC_E_NONFIN) { /* an input has scores that overflow */
        s->evaluations += (long)count;
    } else if (count > 1) { /* each alone, to see which */
        status = LIPSC_OK;
        for (size_t i = 0; i < count && !status; i++)
            status = lipsc_views_look(s, 1, &views[i]);
    } else {
        views[0]->status = status;
        status = LIPSC_OK;
        s->evaluations++;
    }
    return status;
}

/* ---- Its gradients ------------------------------------------------------------------ */

/* Values that cannot be told from the largest. */
static size_t count_tied(const lipsc_view *view) {
    const double tie = 1e-6;
    size_t tied = 1;
    while (tied < view->pairs && view->sigma[tied] >= (1.0 - tie) * view->sigma[0]) tied++;
    return tied;
}

/* With orthonormal pairs (u_k, v_k) of one value and unit coefficients c the pair (sum c_k
 * u_k, sum c_k v_k) has gradient sum_kl c_k c_l G_kl.  forms: G_kk, then G_kl + G_lk for
 * k < l, which is 2 G[(u_k + u_l)/sqrt2, ...] - G_kk - G_ll: these pairs stand behind the
 * others. */
static size_t mix(const lipsc_search *s, lipsc_view *view) {
    size_t form = view->slopes;
    for (size_t k = 0; k < view->tied; k++)
        for (size_t l = k + 1; l < view->tied; l++, form++) {
            double *u = view->u + form * s->out, *v = view->v + form * s->in;
            for (size_t e = 0; e < s->out; e++)
                u[e] = (view->u[k * s->out + e] + view->u[l * s->out + e]) * sqrt(0.5);
            for (size_t e = 0; e < s->in; e++)
                v[e] = (view->v[k * s->in + e] + view->v[l * s->in + e]) * sqrt(0.5);
        }
    return form;
}

/* Gradients in the parameters, of log sigma, from those in X. */
static void make_forms(const lipsc_search *s, size_t count, lipsc_view *view) {
    const size_t size = s->region.size, n = s->region.n;
    for (size_t k = 0; k < count; k++) {
        double *g = view->forms + k * size;
        lipsc_region_pull(&s->region, view->grad_X + k * s->in,
                          view->grad_t ? view->grad_t + k * n : NULL, g);
        for (size_t e = 0; e < size; e++) {
            g[e] /= view->sigma[0];
            if (!isfinite(g[e])) view->status = LIPSC_E_NONFIN;
        }
    }
    size_t form = view->slopes;
    for (size_t k = 0; k < view->tied; k++)
        for (size_t l = k + 1; l < view->tied; l++, form++) {
            double *mixed = view->forms + form * size;
            const double *a = view->forms + k * size, *b = view->forms + l * size;
            for (size_t e = 0; e < size; e++) mixed[e] = 2.0 * mixed[e] - a[e] - b[e];
        }
}

lipsc_status lipsc_views_differentiate(lipsc_search *s, size_t count,
                                       lipsc_view *const *views) {
    if (!count) return LIPSC_OK;
    lipsc_gradient_task *task = lipsc_alloc(count, sizeof *task);
    if (!task) return LIPSC_E_NOMEM;
    for (size_t i = 0; i < count; i++) {
        lipsc_view *view = views[i];
        view->tied = count_tied(view);
        if (view->slopes < view->tied) view->slopes = view->tied;
        task[i] = (lipsc_gradient_task){.attn = view->attn,
                                        .k = mix(s, view),
                                        .u = view->u,
                                        .v = view->v,
                                        .grad = view->grad_X,
                                        .grad_log_weight = view->grad_t};
    }
    const lipsc_status status = lipsc_attn_gradients(count, task);
    for (size_t i = 0; i < count && !status; i++) {
        views[i]->status = task[i].status;
        if (!task[i].status) make_forms(s, task[i].k, views[i]);
    }
    lipsc_release(task);
    return status;
}

void lipsc_view_branch(const lipsc_search *s, const lipsc_view *view, size_t k, double *g) {
    const double *form = view->forms + k * s->region.size;
    const double rate = view->sigma[0] / view->sigma[k];
    for (size_t e = 0; e < s->region.size; e++) g[e] = form[e] * rate;
    lipsc_region_tangent(&s->region, view->y, g);
}

/* g = sum_kl c_k c_l G_kl */
static void combine_forms(const lipsc_search *s, const lipsc_view *view, const double *c,
                          double *g) {
    const size_t size = s->region.size;
    memset(g, 0, size * sizeof *g);
    size_t form = view->slopes;
    for (size_t k = 0; k < view->tied; k++) {
        for (size_t e = 0; e < size; e++) g[e] += c[k] * c[k] * view->forms[k * size + e];
        for (size_t l = k + 1; l < view->tied; l++, form++)
            for (size_t e = 0; e < size; e++)
                g[e] += c[k] * c[l] * view->forms[form * size + e];
    }
    lipsc_region_tangent(&s->region, view->y, g);
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

void lipsc_view_gradient(const lipsc_search *s, const lipsc_view *view, double *g) {
    enum { SAMPLES = 40 };
    if (view->tied == 1) {
        lipsc_view_branch(s, view, 0, g);
        return;
    }
    double c[LIPSC_PAIRS], best[LIPSC_PAIRS] = {1.0}, steepest = -1.0;
    for (size_t sample = 0; sample < SAMPLES; sample++) {
        choose_coefficients(s->set->seed, sample, view->tied, c);
        combine_forms(s, view, c, g);
        const double slope = lipsc_length(s->region.size, g);
        if (slope > steepest) {
            steepest = slope;
            memcpy(best, c, sizeof c);
        }
    }
    combine_forms(s, view, best, g);
}
