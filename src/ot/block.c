/* block.c - one transport problem, solved by the method that suits it. */
#include "ot/block.h"
#include "core/extreme.h"

#include "core/mem.h"
#include "ot/exact.h"
#include "ot/sinkhorn.h"

#include <math.h>

/* Up to here the matrix of costs is kept: 80 MB.  Beyond, rows are computed again. */
static const size_t dense_limit = 10 * 1000 * 1000;
/* On a line the solution is a matter of milliseconds; proving it over more pairs than
 * this would be a matter of minutes. */
static const double line_check_limit = 4e9;

static int all_equal(size_t count, const double *weights) {
    for (size_t i = 1; i < count; i++)
        if (weights[i] != weights[0]) return 0;
    return 1;
}

/* One atom on a side: everything goes from it, or to it. */
static lipsc_status solve_point(const lipsc_ot_cost *cost, const lipsc_ot_block *block,
                                lipsc_ot_plan *plan) {
    plan->count = cost->n * cost->m;
    plan->moves = lipsc_alloc(plan->count, sizeof *plan->moves);
    if (!plan->moves) return LIPSC_E_NOMEM;
    for (size_t i = 0; i < cost->n; i++)
        for (size_t j = 0; j < cost->m; j++)
            plan->moves[i + j] =
                (lipsc_move){i, j, cost->n == 1 ? block->b[j] : block->a[i]};
    for (size_t i = 0; i < cost->n; i++)
        plan->f[i] = cost->n == 1 ? 0.0 : lipsc_ot_cost_at(cost, i, 0);
    for (size_t j = 0; j < cost->m; j++)
        plan->g[j] = cost->n == 1 ? lipsc_ot_cost_at(cost, 0, j) : 0.0;
    return LIPSC_OK;
}

static lipsc_status solve_exactly(const lipsc_ot_cost *cost, lipsc_ot_block *block,
                                  lipsc_ot_plan *plan) {
    if (block->n == 1 || block->m == 1) {
        block->method = "point";
        return solve_point(cost, block, plan);
    }
    if (block->d == 1) {
        block->method = "line";
        return lipsc_ot_line(cost, block->a, block->b, plan);
    }
    block->method = block->n == block->m && all_equal(block->n, block->a) &&
                            all_equal(block->m, block->b)
                        ? "assignment"
                        : "simplex";
    return lipsc_ot_exact(cost, block->a, block->b, plan);
}

/* f becomes the best partner of g over all pairs: what is then proved does not depend on
 * how the potentials were found. */
static void prove(const lipsc_ot_cost *cost, lipsc_ot_block *block) {
    block->gap = NAN;
    if (!block->check) return;
    if (block->d == 1 && (double)block->n * (double)block->m > line_check_limit) return;
    lipsc_ot_transform(cost, block->g, block->f);
    double dual = 0.0;
    for (size_t i = 0; i < block->n; i++) dual += block->a[i] * block->f[i];
    for (size_t j = 0; j < block->m; j++) dual += block->b[j] * block->g[j];
    block->gap = block->cost - dual;
}

static lipsc_status measure_plan(const lipsc_ot_cost *cost, lipsc_ot_block *block) {
    double *rest = lipsc_alloc(block->n + block->m, sizeof *rest);
    if (!rest) return LIPSC_E_NOMEM;
    for (size_t i = 0; i < block->n; i++) rest[i] = block->a[i];
    for (size_t j = 0; j < block->m; j++) rest[block->n + j] = block->b[j];
    block->cost = 0.0;
    for (size_t k = 0; k < block->count; k++) {
        const lipsc_move *move = &block->moves[k];
        block->cost += move->mass * lipsc_ot_cost_at(cost, move->from, move->to);
        rest[move->from] -= move->mass;
        rest[block->n + move->to] -= move->mass;
    }
    block->imbalance = 0.0;
    for (size_t v = 0; v < block->n + block->m; v++)
        block->imbalance = lipsc_max(block->imbalance, fabs(rest[v]));
    lipsc_release(rest);
    return LIPSC_OK;
}

lipsc_status lipsc_ot_block_solve(lipsc_ot_block *block) {
    lipsc_ot_cost cost;
    lipsc_ot_plan plan = {.f = block->f, .g = block->g};
    block->moves = NULL;
    block->count = 0;
    const int sparse =
        block->n == 1 || block->m == 1 || block->d == 1 || block->epsilon > 0;
    lipsc_status status =
        lipsc_ot_cost_make(block->n, block->m, block->d, block->p, block->x, block->y,
                           block->scale, sparse ? 0 : dense_limit, &cost);
    if (status) return status;
    if (block->epsilon > 0) {
        block->method = "sinkhorn";
        block->gap = block->imbalance = NAN;
        status = lipsc_ot_sinkhorn(&cost, block->a, block->b, block->epsilon, block->f,
                                   block->g, &block->cost);
    } else {
        status = solve_exactly(&cost, block, &plan);
        block->moves = plan.moves;
        block->count = plan.count;
        block->pivots = plan.pivots;
        if (!status) status = measure_plan(&cost, block);
        if (!status) prove(&cost, block);
    }
    lipsc_ot_cost_free(&cost);
    return status;
}
