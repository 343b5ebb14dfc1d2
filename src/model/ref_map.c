/* ref_map.c - the maps behind attention by their definition: a block is followed step by
 * step as block.h writes it,
 *
 *     serial:     s = N3(x + f N2(A(N1 x)))    y = N6(s + f' N5(M(N4 s)))
 *     parallel:   s = x + f N2(A(N1 x))        y = s + f' N5(M(N4 x)), N4 may be N1
 *
 * and its derivative by the chain rule, forwards and backwards.  One block is in memory at
 * a time: backwards each is made again from its stored input. */
#include "model/ref_map.h"

#include "core/error.h"
#include "core/mem.h"
#include "model/block.h"
#include "model/ref_experts.h"

#include <string.h>

enum { N1, N2, N3, N4, N5, N6, NORMS }; /* in the order of lipsc_norm_place */

typedef struct {
    lipsc_model *model;
    lipsc_extent extent;
    size_t n, d;
    lipsc_layer layer;
    lipsc_ref_norm norm[NORMS];
    lipsc_ref_mlp mlp;
    lipsc_ref_experts experts;      /* in its place where the model has some */
    double *factor[LIPSC_BRANCHES]; /* (d) or NULL */
    /* (n, d) each, at the point: what the norms and attention see */
    double *x, *in, *a, *sum, *s, *mlp_in, *m, *last;
    double *work;    /* (LIPSC_REF_MLP_WORK ffn) */
    double *t[3];    /* (n, d): scratch      */
    double *storage; /* all of these but x   */
} block;

static lipsc_status no_memory(size_t n, lipsc_error *err) {
    return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for %zu tokens", n);
}

/* ---- Weights ---- */

static lipsc_status load_norm(const lipsc_model *m, lipsc_role gain, size_t layer,
                              lipsc_ref_norm *out, lipsc_error *err) {
    out->eps = m->config.norm_eps;
    out->rms = m->config.family->rms;
    lipsc_status status = lipsc_model_load(m, gain, layer, &out->gain, err);
    if (!status)
        status = lipsc_model_load(m, (lipsc_role)(gain + 1), layer, &out->bias, err);
    return status;
}

static void free_norm(lipsc_ref_norm *norm) {
    lipsc_release(norm->gain);
    lipsc_release(norm->bias);
}

static lipsc_status load_factor(const block *b, lipsc_role role, size_t layer, double **out,
                                lipsc_error *err) {
    const double factor = b->model->config.residual_factor;
    lipsc_status status = lipsc_model_load(b->model, role, layer, out, err);
    if (status || (!*out && factor == 1.0)) return status;
    const int alone = !*out;
    if (alone && !(*out = lipsc_alloc(b->d, sizeof **out))) return no_memory(b->n, err);
    for (size_t c = 0; c < b->d; c++) (*out)[c] = (alone ? 1.0 : (*out)[c]) * factor;
    return LIPSC_OK;
}

static lipsc_status load_mlp(block *b, size_t layer, lipsc_error *err) {
    const lipsc_config *c = &b->model->config;
    lipsc_ref_mlp *mlp = &b->mlp;
    double **const to[][2] = {{&mlp->up, &mlp->up_bias},
                              {&mlp->gate, &mlp->gate_bias},
                              {&mlp->down, &mlp->down_bias}};
    lipsc_status status = LIPSC_OK;
    mlp->d = c->d;
    mlp->ffn = c->ffn;
    mlp->transposed = c->family->transposed;
    mlp->activation = c->activation;
    for (int what = LIPSC_DENSE_UP; what <= LIPSC_DENSE_DOWN; what++)
        for (int bias = 0; !status && bias < 2; bias++)
            if (what != LIPSC_DENSE_GATE || lipsc_config_gated(c))
                status =
                    lipsc_model_load_mlp(b->model, layer, what, bias, to[what][bias], err);
    if (!status && (!mlp->up || !mlp->down))
        status =
            lipsc_fail(err, LIPSC_E_REFUSED,
                       "the MLP of %s is not written out in plain loops", c->family->name);
    return status;
}

static lipsc_status load_weights(block *b, size_t layer, const lipsc_mask *mask,
                                 lipsc_error *err) {
    const lipsc_config *c = &b->model->config;
    lipsc_role role;
    lipsc_status status =
        lipsc_model_layer(b->model, layer, -1, LIPSC_MAP_ATTENTION, mask, &b->layer, err);
    for (int i = 0; !status && i < NORMS; i++)
        if (lipsc_config_norm(c, layer, (lipsc_norm_place)i, &role))
            status = load_norm(b->model, role, layer, &b->norm[i], err);
    if (!status)
        status =
            load_factor(b, LIPSC_ATTN_SCALE, layer, &b->factor[LIPSC_BRANCH_ATTN], err);
    if (!status)
        status = load_factor(b, LIPSC_MLP_SCALE, layer, &b->factor[LIPSC_BRANCH_MLP], err);
    if (status || b->extent != LIPSC_UP_TO_BLOCK) return status;
    return c->experts ? lipsc_ref_experts_load(b->model, layer, &b->experts, err)
                      : load_mlp(b, layer, err);
}

static void block_free(block *b) {
    double *const arrays[] = {b->mlp.up,      b->mlp.gate,      b->mlp.down,
                              b->mlp.up_bias, b->mlp.gate_bias, b->mlp.down_bias,
                              b->factor[0],   b->factor[1],     b->storage};
    lipsc_ref_experts_free(&b->experts);
    for (int i = 0; i < NORMS; i++) free_norm(&b->norm[i]);
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) lipsc_release(arrays[i]);
}

/* ---- The point ---- */

static void norm(const block *b, int which, lipsc_ref_what what, const double *x,
                 const double *h, double *y) {
    lipsc_ref_norm_apply(&b->norm[which], what, b->n, b->d, x, h, y);
}

static lipsc_status mlp(const block *b, lipsc_ref_what what, const double *h, double *y,
                        lipsc_error *err) {
    if (b->experts.router)
        return lipsc_ref_experts_apply(&b->experts, what, b->n, b->mlp_in, h, b->work, y,
                                       err);
    lipsc_ref_mlp_apply(&b->mlp, what, b->n, b->mlp_in, h, b->work, y);
    return LIPSC_OK;
}

static void scale(const block *b, lipsc_branch branch, const double *x, double *y) {
    for (size_t e = 0; e < b->n * b->d; e++)
        y[e] = (b->factor[branch] ? b->factor[branch][e % b->d] : 1.0) * x[e];
}

static void add(const block *b, const double *x, double *y) {
    for (size_t e = 0; e < b->n * b->d; e++) y[e] += x[e];
}

static int parallel(const block *b) { return b->model->config.parallel; }
static int shares(const block *b) {
    return parallel(b) && b->model->config.family->parallel_shares;
}

/* Every value on the way; y (n, d) is the output. */
static lipsc_status follow(block *b, double *y, lipsc_error *err) {
    norm(b, N1, LIPSC_REF_VALUE, b->x, NULL, b->in);
    const lipsc_input input = {.n = b->n, .X = b->in};
    lipsc_status status = lipsc_ref_output(&b->layer, &input, b->a, err);
    if (status) return status;
    memcpy(y, b->a, b->n * b->d * sizeof *y);
    if (b->extent == LIPSC_UP_TO_NORM_ATTENTION) return LIPSC_OK;
    norm(b, N2, LIPSC_REF_VALUE, b->a, NULL, b->t[0]);
    scale(b, LIPSC_BRANCH_ATTN, b->t[0], b->sum);
    add(b, b->x, b->sum);
    norm(b, N3, LIPSC_REF_VALUE, b->sum, NULL, b->s);
    memcpy(y, b->s, b->n * b->d * sizeof *y);
    if (b->extent == LIPSC_UP_TO_RESIDUAL) return LIPSC_OK;
    if (shares(b))
        memcpy(b->mlp_in, b->in, b->n * b->d * sizeof *y);
    else
        norm(b, N4, LIPSC_REF_VALUE, parallel(b) ? b->x : b->s, NULL, b->mlp_in);
    status = mlp(b, LIPSC_REF_VALUE, NULL, b->m, err);
    norm(b, N5, LIPSC_REF_VALUE, b->m, NULL, b->t[0]);
    scale(b, LIPSC_BRANCH_MLP, b->t[0], b->last);
    add(b, b->s, b->last);
    norm(b, N6, LIPSC_REF_VALUE, b->last, NULL, y);
    return status;
}

/* x stays the caller's. */
static lipsc_status block_at(lipsc_model *model, size_t layer, lipsc_extent extent,
                             const lipsc_mask *mask, size_t n, double *x, double *y,
                             block *b, lipsc_error *err) {
    const size_t count = n * model->config.d;
    *b = (block){.model = model, .extent = extent, .n = n, .d = model->config.d, .x = x};
    double **const arrays[] = {&b->in, &b->a,    &b->sum,  &b->s,    &b->mlp_in,
                               &b->m,  &b->last, &b->t[0], &b->t[1], &b->t[2]};
    const size_t places = sizeof arrays / sizeof arrays[0];
    b->storage = lipsc_alloc_zero(places * count + LIPSC_REF_MLP_WORK * model->config.ffn,
                                  sizeof(double));
    if (!b->storage) return no_memory(n, err);
    for (size_t i = 0; i < places; i++) *arrays[i] = b->storage + i * count;
    b->work = b->storage + places * count;
    lipsc_status status = load_weights(b, layer, mask, err);
    if (!status) status = follow(b, y, err);
    return status;
}

/* ---- The derivative ---- */

static lipsc_status block_jvp(const block *b, const double *v, double *y,
                              lipsc_error *err) {
    const size_t bytes = b->n * b->d * sizeof *y;
    const lipsc_input input = {.n = b->n, .X = b->in};
    double *in = b->t[0], *t = b->t[1], *s = b->t[2];
    norm(b, N1, LIPSC_REF_JVP, b->x, v, in);
    lipsc_status status = lipsc_ref_apply(&b->layer, &input, 0, 1, in, t, err);
    if (status || b->extent == LIPSC_UP_TO_NORM_ATTENTION) {
        memcpy(y, t, bytes);
        return status;
    }
    norm(b, N2, LIPSC_REF_JVP, b->a, t, t);
    scale(b, LIPSC_BRANCH_ATTN, t, t);
    add(b, v, t);
    norm(b, N3, LIPSC_REF_JVP, b->sum, t, s);
    if (b->extent == LIPSC_UP_TO_RESIDUAL) {
        memcpy(y, s, bytes);
        return LIPSC_OK;
    }
    if (!shares(b))
        norm(b, N4, LIPSC_REF_JVP, parallel(b) ? b->x : b->s, parallel(b) ? v : s, in);
    status = mlp(b, LIPSC_REF_JVP, in, t, err);
    norm(b, N5, LIPSC_REF_JVP, b->m, t, t);
    scale(b, LIPSC_BRANCH_MLP, t, t);
    add(b, s, t);
    norm(b, N6, LIPSC_REF_JVP, b->last, t, y);
    return status;
}

/* y = J^T g; the letters are those of the values whose cotangents they are. */
static lipsc_status block_vjp(const block *b, const double *g, double *y,
                              lipsc_error *err) {
    const lipsc_input input = {.n = b->n, .X = b->in};
    double *s = b->t[0], *t = b->t[1], *mlp_in = b->t[2];
    const int whole = b->extent == LIPSC_UP_TO_BLOCK;
    const int adds = b->extent != LIPSC_UP_TO_NORM_ATTENTION;
    lipsc_status status = LIPSC_OK;
    memcpy(s, g, b->n * b->d * sizeof *s);
    if (whole) {
        norm(b, N6, LIPSC_REF_VJP, b->last, s, s);
        scale(b, LIPSC_BRANCH_MLP, s, t);
        norm(b, N5, LIPSC_REF_VJP, b->m, t, t);
        status = mlp(b, LIPSC_REF_VJP, t, mlp_in, err);
        if (!shares(b))
            norm(b, N4, LIPSC_REF_VJP, parallel(b) ? b->x : b->s, mlp_in, mlp_in);
        if (!parallel(b)) add(b, mlp_in, s);
    }
    if (adds) norm(b, N3, LIPSC_REF_VJP, b->sum, s, s); /* of the sum from here on */
    memcpy(t, s, b->n * b->d * sizeof *t);
    if (adds) {
        scale(b, LIPSC_BRANCH_ATTN, s, t);
        norm(b, N2, LIPSC_REF_VJP, b->a, t, t);
    }
    if (!status) status = lipsc_ref_apply(&b->layer, &input, 1, 1, t, y, err);
    if (status) return status;
    if (whole && shares(b)) add(b, mlp_in, y);
    norm(b, N1, LIPSC_REF_VJP, b->x, y, y);
    if (adds) add(b, s, y);
    if (whole && parallel(b) && !shares(b)) add(b, mlp_in, y);
    return LIPSC_OK;
}

/* ---- The map ---- */

typedef struct {
    lipsc_model *model;
    lipsc_extent extent;
    const lipsc_mask *mask;
    size_t n, first, blocks;
    double *x; /* (blocks + 1, n, d): the input of each block, and the output */
} chain;

static lipsc_status chain_jvp(const chain *c, double *v, lipsc_error *err) {
    const size_t count = c->n * c->model->config.d;
    double *next = lipsc_alloc(count, sizeof *next);
    lipsc_status status = next ? LIPSC_OK : no_memory(c->n, err);
    for (size_t i = 0; !status && i < c->blocks; i++) {
        block b;
        status = block_at(c->model, c->first + i, c->extent, c->mask, c->n,
                          c->x + i * count, c->x + (i + 1) * count, &b, err);
        if (!status) status = block_jvp(&b, v, next, err);
        if (!status) memcpy(v, next, count * sizeof *v);
        block_free(&b);
    }
    lipsc_release(next);
    return status;
}

static lipsc_status chain_vjp(const chain *c, double *g, lipsc_error *err) {
    const size_t count = c->n * c->model->config.d;
    double *next = lipsc_alloc(2 * count, sizeof *next);
    lipsc_status status = next ? LIPSC_OK : no_memory(c->n, err);
    for (size_t i = c->blocks; !status && i-- > 0;) {
        block b;
        status = block_at(c->model, c->first + i, c->extent, c->mask, c->n,
                          c->x + i * count, next + count, &b, err);
        if (!status) status = block_vjp(&b, g, next, err);
        if (!status) memcpy(g, next, count * sizeof *g);
        block_free(&b);
    }
    lipsc_release(next);
    return status;
}

lipsc_status lipsc_model_ref_gram(lipsc_model *model, const lipsc_map_options *options,
                                  size_t n, const double *x, const double *v, double *image,
                                  double *back, lipsc_error *err) {
    const size_t d = model->config.d, count = n * d;
    const int whole = options->map == LIPSC_MAP_MODEL;
    chain c = {.model = model,
               .extent = options->map == LIPSC_MAP_NORM_ATTENTION
                             ? LIPSC_UP_TO_NORM_ATTENTION
                         : options->map == LIPSC_MAP_RESIDUAL ? LIPSC_UP_TO_RESIDUAL
                                                              : LIPSC_UP_TO_BLOCK,
               .mask = options->mask_override,
               .n = n,
               .first = whole ? 0 : options->layer,
               .blocks = whole ? model->config.layers : 1};
    const int normed =
        whole && model->config.family->tensor[LIPSC_FINAL_NORM] && !model->config.norm_last;
    lipsc_ref_norm last = {.gain = NULL};
    c.x = lipsc_alloc((c.blocks + 1) * count, sizeof *c.x);
    lipsc_status status = c.x ? LIPSC_OK : no_memory(n, err);
    if (!status && normed) status = load_norm(model, LIPSC_FINAL_NORM, 0, &last, err);
    if (!status) {
        const double *out = c.x + c.blocks * count;
        memcpy(c.x, x, count * sizeof *x);
        memcpy(image, v, count * sizeof *v);
        status = chain_jvp(&c, image, err);
        if (!status) {
            lipsc_ref_norm_apply(&last, LIPSC_REF_JVP, n, d, out, image, image);
            lipsc_ref_norm_apply(&last, LIPSC_REF_VJP, n, d, out, image, back);
            status = chain_vjp(&c, back, err);
        }
    }
    free_norm(&last);
    lipsc_release(c.x);
    return status;
}
