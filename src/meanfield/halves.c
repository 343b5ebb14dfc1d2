/* halves.c - |V C_i A| of every token: solves side by side, which share their products
 * because the query path is block diagonal.
 *
 * All tokens are solved roughly first.  Of a value whose residual is rho there is a
 * singular value within rho sigma^2 of its square: only those tokens are solved as exactly
 * as asked for that could then still have the largest norm. */
#include "core/mem.h"
#include "core/extreme.h"
#include "meanfield/meanfield.h"
#include "svd/solver.h"

#include <math.h>
#include <string.h>

enum { MOST_STEPS = 40, LEAST_STEPS = 10, ROUGH_PRODUCTS = 60, EXACT_PRODUCTS = 800 };
static const double rough = 1e-2;
static const double most_bytes = 0x1p28; /* of all bases */

/* The tokens, and what their products go through. */
typedef struct {
    lipsc_attn *attn;
    size_t n, d, width;
    double *x, *y, *room; /* (n, d), (n, width), (n, 2 d) */
} paths;

/* One token's operator. */
typedef struct {
    paths *all;
    size_t token;
} path;

/* Fits lipsc_products: tokens that are not asked for get zeros. */
static lipsc_status apply_paths(int trans, size_t count, const lipsc_product *product) {
    const paths *p = ((const path *)product->of)->all;
    const size_t from = trans ? p->width : p->d, to = trans ? p->d : p->width;
    double *x = trans ? p->y : p->x, *y = trans ? p->x : p->y;
    memset(x, 0, p->n * from * sizeof *x);
    for (size_t i = 0; i < count; i++)
        memcpy(x + ((const path *)product[i].of)->token * from, product[i].x.at,
               from * sizeof *x);
    const lipsc_status status = lipsc_paths_apply(p->attn, trans, x, p->room, y);
    for (size_t i = 0; i < count && !status; i++)
        memcpy(product[i].y.at, y + ((const path *)product[i].of)->token * to,
               to * sizeof *y);
    return status;
}

static lipsc_status apply_path(void *ctx, int trans, size_t k, lipsc_buffer x,
                               lipsc_buffer y) {
    const lipsc_product one = {.of = ctx, .k = k, .x = x, .y = y};
    return k == 1 ? apply_paths(trans, 1, &one) : LIPSC_E_ARG;
}

/* What is known of the tokens, and the tasks of those that are solved. */
typedef struct {
    paths paths;
    path *path;           /* (n) */
    lipsc_linop *op;      /* (n) */
    lipsc_svd_task *task; /* (n) */
    lipsc_svd_info *info; /* (n) by token */
    size_t *token;        /* (n) of each task */
    double *norm, *direction;
} work;

static int open_work(lipsc_attn *attn, double *norm, double *direction, work *w) {
    const size_t n = attn->input.n, d = attn->layer.d / 2;
    const size_t width = lipsc_layer_width(&attn->layer);
    *w = (work){.paths = {.attn = attn,
                          .n = n,
                          .d = d,
                          .width = width,
                          .x = lipsc_alloc(n, d * sizeof(double)),
                          .y = lipsc_alloc(n, width * sizeof(double)),
                          .room = lipsc_alloc(n, 2 * d * sizeof(double))},
                .path = lipsc_alloc(n, sizeof *w->path),
                .op = lipsc_alloc(n, sizeof *w->op),
                .task = lipsc_alloc(n, sizeof *w->task),
                .info = lipsc_alloc_zero(n, sizeof *w->info),
                .token = lipsc_alloc(n, sizeof *w->token),
                .norm = norm,
                .direction = direction};
    if (!w->paths.x || !w->paths.y || !w->paths.room || !w->path || !w->op || !w->task ||
        !w->info || !w->token)
        return 0;
    for (size_t i = 0; i < n; i++) {
        w->path[i] = (path){.all = &w->paths, .token = i};
        w->op[i] = (lipsc_linop){.m = width,
                                 .n = d,
                                 .space = lipsc_space_host(LIPSC_F64),
                                 .apply = apply_path,
                                 .ctx = &w->path[i]};
    }
    return 1;
}

static void close_work(work *w) {
    lipsc_release(w->paths.x);
    lipsc_release(w->paths.y);
    lipsc_release(w->paths.room);
    lipsc_release(w->path);
    lipsc_release(w->op);
    lipsc_release(w->task);
    lipsc_release(w->info);
    lipsc_release(w->token);
}

/* Solves the first `count` tokens of w->token.  What does not converge is a lower bound
 * like the others. */
static lipsc_status solve(work *w, size_t count, const lipsc_svd_settings *set) {
    const paths *p = &w->paths;
    for (size_t i = 0; i < count; i++) {
        const size_t token = w->token[i];
        w->task[i] =
            (lipsc_svd_task){.op = &w->op[token],
                             .sigma = &w->norm[token],
                             .v = lipsc_host_view(p->d, w->direction + token * p->d),
                             .info = &w->info[token]};
    }
    lipsc_svd_batch(count, w->task, set, apply_paths,
                    lipsc_device_threads(p->attn->device));
    for (size_t i = 0; i < count; i++)
        if (w->task[i].status && w->task[i].status != LIPSC_E_NOCONV)
            return w->task[i].status;
    return LIPSC_OK;
}

static size_t largest(const work *w) {
    size_t top = 0;
    for (size_t i = 1; i < w->paths.n; i++)
        if (w->norm[i] > w->norm[top]) top = i;
    return top;
}

/* Those that have not met tol and may have the largest norm, into w->token. */
static size_t find_open(const work *w, double tol) {
    const double top = w->norm[largest(w)];
    size_t open = 0;
    for (size_t i = 0; i < w->paths.n; i++) {
        const double rho = w->info[i].residual;
        if (rho > tol && w->norm[i] * sqrt(1.0 + 2.0 * rho) >= top) w->token[open++] = i;
    }
    return open;
}

lipsc_status lipsc_halves_find(lipsc_attn *attn, double tol, uint64_t seed,
                               int (*stop)(void *ctx), void *ctx, double *norm,
                               double *direction, double *residual) {
    work w;
    lipsc_svd_settings set;
    lipsc_status status = open_work(attn, norm, direction, &w) ? LIPSC_OK : LIPSC_E_NOMEM;
    const double one = (double)w.paths.n * (double)(w.paths.d + w.paths.width) * 8.0;
    lipsc_svd_defaults(&set);
    set.seed = seed;
    set.stop = stop;
    set.ctx = ctx;
    set.basis = (size_t)lipsc_min(MOST_STEPS, lipsc_max(LEAST_STEPS, most_bytes / one));
    set.tol = lipsc_max(tol, rough);
    set.max_products = ROUGH_PRODUCTS;
    for (size_t i = 0; i < w.paths.n && !status; i++) w.token[i] = i;
    if (!status) status = solve(&w, w.paths.n, &set);
    set.tol = tol;
    set.max_products = EXACT_PRODUCTS;
    const size_t open = status ? 0 : find_open(&w, tol);
    if (open) status = solve(&w, open, &set);
    if (!status) {
        *residual = w.info[largest(&w)].residual;
        if (!(*residual <= tol)) status = LIPSC_E_NOCONV;
    }
    close_work(&w);
    return status;
}
