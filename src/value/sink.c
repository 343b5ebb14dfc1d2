/* sink.c - a Jacobian with one token's columns alone, and without them.
 *
 * Both are J P with a projection P on the tokens that move: vectors keep their length, the
 * places of the others are set to zero before J and behind J^T. */
#include "value/sink.h"

#include "core/mem.h"
#include "svd/solver.h"

typedef struct {
    const lipsc_linop *op;
    size_t token, width; /* of an input token */
    int alone;
    lipsc_buffer x; /* one vector of op->n */
} projected;

static lipsc_status zero(const projected *p, size_t from, size_t to, lipsc_buffer x) {
    const lipsc_space *space = p->op->space;
    if (to <= from) return LIPSC_OK;
    return lipsc_space_scale(space, to - from, 0.0, lipsc_space_at(space, x, from));
}

static lipsc_status project(const projected *p, lipsc_buffer x) {
    const size_t from = p->token * p->width, to = from + p->width;
    if (!p->alone) return zero(p, from, to, x);
    const lipsc_status status = zero(p, 0, from, x);
    return status ? status : zero(p, to, p->op->n, x);
}

static lipsc_status apply(void *ctx, int trans, size_t k, lipsc_buffer x, lipsc_buffer y) {
    const projected *p = ctx;
    const lipsc_linop *op = p->op;
    const size_t in = trans ? op->m : op->n, out = trans ? op->n : op->m;
    lipsc_status status = LIPSC_OK;
    for (size_t v = 0; v < k && !status; v++) {
        lipsc_buffer from = lipsc_space_at(op->space, x, v * in);
        const lipsc_buffer to = lipsc_space_at(op->space, y, v * out);
        if (!trans) {
            status = lipsc_space_copy(op->space, op->n, from, p->x);
            if (!status) status = project(p, p->x);
            from = p->x;
        }
        if (!status) status = op->apply(op->ctx, trans, 1, from, to);
        if (!status && trans) status = project(p, to);
    }
    return status;
}

static lipsc_status norm(projected *p, int alone, uint64_t seed, int (*stop)(void *ctx),
                         void *ctx, double *out) {
    const lipsc_linop op = {
        .m = p->op->m, .n = p->op->n, .space = p->op->space, .apply = apply, .ctx = p};
    lipsc_svd_settings set;
    lipsc_svd_defaults(&set);
    set.tol = 1e-3;
    set.seed = seed;
    set.stop = stop;
    set.ctx = ctx;
    p->alone = alone;
    const lipsc_status status =
        lipsc_svd_linop(&op, &set, out, LIPSC_NOWHERE, LIPSC_NOWHERE, NULL);
    return status == LIPSC_E_NOCONV ? LIPSC_OK : status;
}

lipsc_status lipsc_sink_share_find(const lipsc_linop *op, size_t tokens, size_t token,
                                   uint64_t seed, int (*stop)(void *ctx), void *ctx,
                                   lipsc_sink_share *out) {
    if (!op || !out || token >= tokens || op->n % tokens) return LIPSC_E_ARG;
    projected p = {.op = op,
                   .token = token,
                   .width = op->n / tokens,
                   .x = lipsc_space_alloc(op->space, op->n)};
    lipsc_status status =
        p.x.at ? norm(&p, 1, seed, stop, ctx, &out->alone) : LIPSC_E_NOMEM;
    out->rest = 0.0; /* one token: no other one moves */
    if (!status && tokens > 1) status = norm(&p, 0, seed, stop, ctx, &out->rest);
    lipsc_space_release(op->space, p.x);
    return status;
}
