/* map.c - the maps that are differentiated, as operators: heads, attention, norm-attention,
 * residual, block, model. */
#include "model/block.h"
#include "model/rounding.h"

#include "certify/certify.h"
#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "value/value.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIRECTIONS = 8 }; /* per pass; larger blocks are cut */

struct lipsc_map {
    lipsc_model *model;
    lipsc_map_options options;
    lipsc_mask mask; /* what options.mask_override points to, where it is not NULL */
    size_t n;
    const lipsc_device *device;    /* that of the options                                */
    const lipsc_device *blocks_on; /* the same, or its CPU where it knows no blocks     */
    double *x;        /* (n, d): input of the map, for the twin in double           */
    double *y;        /* (n, d): its output; NULL for heads and attention           */
    int holds;        /* 1: the block of attn, from before it is made               */
    lipsc_attn *attn; /* heads and attention: the whole map                         */
    lipsc_block_point *points; /* the blocks of the others, in order                */
    size_t count;
    lipsc_norm_point last; /* model: the final norm; weights NULL: none             */
    lipsc_block_work work;
    lipsc_buffer between[2]; /* (work.k n, d): directions between blocks */
    double rounding; /* what products of the twin can be off by, inside a solve    */
    lipsc_map *twin; /* the same in double, when it was asked for; NULL otherwise  */
};

/* Of the maps of blocks. */
static const lipsc_space *space_of(const lipsc_map *map) {
    return lipsc_device_space(map->blocks_on, map->options.dtype);
}

static int is_attention(lipsc_map_kind map) {
    return map == LIPSC_MAP_HEADS || map == LIPSC_MAP_ATTENTION;
}

/* ---- What has a meaning
 * -------------------------------------------------------------------- */

static lipsc_status check(const lipsc_model *m, const lipsc_map_options *o,
                          lipsc_error *err) {
    if (o->map == LIPSC_MAP_NORM_ATTENTION && !m->info.pre_norm)
        return lipsc_fail(
            err, LIPSC_E_ARG,
            "%s: norm-attention is a map of pre-norm models, but %s normalises "
            "after attention",
            m->shown, m->config.family->name);
    if (o->head >= 0 && !is_attention(o->map))
        return lipsc_fail(err, LIPSC_E_ARG,
                          "one head is a part of the maps heads and attention only");
    if (o->map != LIPSC_MAP_MODEL && o->layer >= m->config.layers)
        return lipsc_fail(err, LIPSC_E_ARG, "%s: has %zu layers, so there is no layer %zu",
                          m->shown, m->config.layers, o->layer);
    return LIPSC_OK;
}

/* The input of a map at a window, in doubles: its twin and its rounding are found there. */
static lipsc_status input_of(const lipsc_acts *acts, const lipsc_map_options *o,
                             const double **x, lipsc_error *err) {
    const size_t layer = o->map == LIPSC_MAP_MODEL ? 0 : o->layer;
    lipsc_status status = LIPSC_OK;
    *x = NULL;
    for (int again = 0; !*x && !status && again < 2; again++) {
        if (again) status = lipsc_acts_ask(acts, layer, err); /* or it is not known */
        *x = is_attention(o->map) ? lipsc_acts_attention_input(acts, layer)
                                  : lipsc_acts_block_input(acts, layer);
    }
    if (status) return status;
    return *x ? LIPSC_OK
              : lipsc_fail(err, LIPSC_E_ARG, "the window was not run as far as layer %zu",
                           o->layer);
}

/* ---- Making
 * --------------------------------------------------------------------------------- */

static lipsc_status no_memory(const lipsc_map *map, lipsc_error *err) {
    return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory for %zu tokens",
                      map->model->shown, map->n);
}

/* Maps with the same options, at windows of their own. */
static lipsc_status make_attentions(size_t count, lipsc_map *const *map, lipsc_error *err) {
    const lipsc_map_options *o = &map[0]->options;
    lipsc_model *m = map[0]->model;
    lipsc_packed *packed;
    lipsc_mask mask;
    lipsc_input *input = lipsc_alloc(count, sizeof *input);
    lipsc_attn **attn = lipsc_alloc(count, sizeof *attn);
    for (size_t i = 0; i < count; i++) {
        lipsc_model_hold(m, o->layer);
        map[i]->holds = 1;
        if (input) input[i] = (lipsc_input){.n = map[i]->n, .X = map[i]->x};
    }
    lipsc_status status = input && attn ? LIPSC_OK : no_memory(map[0], err);
    if (!status)
        status = lipsc_model_packed(m, o->layer, o->head, o->map == LIPSC_MAP_ATTENTION,
                                    &packed, err);
    if (!status) status = lipsc_model_mask(m, o->layer, o->mask_override, &mask, err);
    if (!status)
        status = lipsc_attn_batch_at(packed, &mask, count, input, o->dtype, map[0]->device,
                                     attn, err);
    for (size_t i = 0; i < count && !status; i++) {
        map[i]->attn = attn[i];
        attn[i]->device = map[i]->device; /* which lives as long */
    }
    lipsc_release(input);
    lipsc_release(attn);
    return status;
}

static lipsc_status make_blocks(lipsc_map *map, lipsc_error *err) {
    const lipsc_map_options *o = &map->options;
    lipsc_model *m = map->model;
    const lipsc_device *device = map->blocks_on;
    const lipsc_space *space = space_of(map);
    const size_t length = map->n * m->config.d;
    const int whole = o->map == LIPSC_MAP_MODEL;
    const size_t blocks = whole ? m->config.layers : 1;
    const lipsc_extent extent = o->map == LIPSC_MAP_NORM_ATTENTION
                                    ? LIPSC_UP_TO_NORM_ATTENTION
                                : o->map == LIPSC_MAP_RESIDUAL ? LIPSC_UP_TO_RESIDUAL
                                                               : LIPSC_UP_TO_BLOCK;
    const lipsc_status moved = lipsc_model_use(m, o->device, err);
    if (moved) return moved;
    map->points = lipsc_alloc_zero(blocks, sizeof *map->points);
    map->y = lipsc_alloc(length, sizeof *map->y);
    lipsc_buffer x = lipsc_space_alloc(space, length), y = lipsc_space_alloc(space, length);
    lipsc_status status =
        map->points && map->y && x.at && y.at ? LIPSC_OK : no_memory(map, err);
    if (!status) status = lipsc_space_upload(space, length, map->x, x);
    while (!status && map->count < blocks) {
        status = lipsc_block_at(m, whole ? map->count : o->layer, extent, o->mask_override,
                                o->dtype, device, map->n, x, 1, &map->points[map->count], y,
                                NULL, err);
        if (!status) map->count++;
        if (!status)
            status = lipsc_acts_check_there(m, space, length, y,
                                            whole ? map->count - 1 : o->layer, err);
        const lipsc_buffer swap = x;
        x = y;
        y = swap;
    }
    const lipsc_norm *final = NULL;
    if (!status && whole) status = lipsc_model_final_norm(m, o->dtype, &final, err);
    if (!status && final)
        status = lipsc_norm_at(m, final, o->dtype, device, map->n, x, y, &map->last, err);
    if (!status) status = lipsc_space_download(space, length, final ? y : x, map->y);
    lipsc_space_release(space, x);
    lipsc_space_release(space, y);
    return status;
}

/* A map without its operator; *out also after a failure.  x (n, d) is copied. */
static lipsc_status begin(lipsc_model *m, size_t n, const double *x,
                          const lipsc_map_options *options, lipsc_map **out,
                          lipsc_error *err) {
    lipsc_map *map = lipsc_alloc_zero(1, sizeof *map);
    *out = map;
    if (!map) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a map");
    map->model = m;
    map->n = n;
    map->options = *options;
    map->device = options->device;
    map->blocks_on = lipsc_device_dense(map->device);
    if (options->mask_override) {
        map->mask = *options->mask_override;
        map->options.mask_override = &map->mask;
    }
    map->x = lipsc_alloc(n * m->config.d, sizeof *map->x);
    if (!map->x) return no_memory(map, err);
    memcpy(map->x, x, n * m->config.d * sizeof *x);
    return LIPSC_OK;
}

static lipsc_status make(lipsc_model *m, size_t n, const double *x,
                         const lipsc_map_options *options, lipsc_map **out,
                         lipsc_error *err) {
    lipsc_map *map;
    lipsc_status status = begin(m, n, x, options, &map, err);
    if (!status)
        status = is_attention(options->map) ? make_attentions(1, &map, err)
                                            : make_blocks(map, err);
    if (status)
        lipsc_map_free(map);
    else
        *out = map;
    return status;
}

lipsc_status lipsc_map_batch_new(lipsc_model *m, size_t count,
                                 const lipsc_acts *const *acts,
                                 const lipsc_map_options *options, lipsc_map **out,
                                 lipsc_error *err) {
    lipsc_status status = check(m, options, err);
    for (size_t i = 0; i < count; i++) out[i] = NULL;
    for (size_t i = 0; i < count && !status; i++) {
        const double *x;
        status = input_of(acts[i], options, &x, err);
        if (!status)
            status = begin(m, lipsc_acts_length(acts[i]), x, options, &out[i], err);
    }
    if (!status && is_attention(options->map)) status = make_attentions(count, out, err);
    for (size_t i = 0; i < count && !status && !is_attention(options->map); i++)
        status = make_blocks(out[i], err);
    for (size_t i = 0; i < count && status; i++) {
        lipsc_map_free(out[i]);
        out[i] = NULL;
    }
    return status;
}

lipsc_status lipsc_map_new(lipsc_model *m, const lipsc_acts *acts,
                           const lipsc_map_options *options, lipsc_map **out,
                           lipsc_error *err) {
    const double *x;
    lipsc_status status = check(m, options, err);
    if (!status) status = input_of(acts, options, &x, err);
    if (status) return status;
    return make(m, lipsc_acts_length(acts), x, options, out, err);
}

lipsc_status lipsc_map_new_at(lipsc_model *m, size_t n, const double *x,
                              const lipsc_map_options *options, lipsc_map **out,
                              lipsc_error *err) {
    const lipsc_status status = check(m, options, err);
    if (status) return status;
    if (n == 0) return lipsc_fail(err, LIPSC_E_ARG, "a window of no tokens");
    return make(m, n, x, options, out, err);
}

static void free_work(lipsc_map *map) {
    const lipsc_space *space = space_of(map);
    lipsc_space_release(space, map->work.r[2]);
    map->work.r[2] = LIPSC_NOWHERE;
    for (int i = 0; i < 2; i++) {
        lipsc_space_release(space, map->work.r[i]);
        lipsc_space_release(space, map->work.t[i]);
        lipsc_space_release(space, map->between[i]);
        map->work.r[i] = map->work.t[i] = map->between[i] = LIPSC_NOWHERE;
    }
    map->work.k = 0;
}

void lipsc_map_free(lipsc_map *map) {
    if (!map) return;
    lipsc_map_free(map->twin);
    free_work(map);
    lipsc_attn_free(map->attn);
    if (map->holds) lipsc_model_let_go(map->model, map->options.layer);
    for (size_t i = 0; i < map->count; i++) lipsc_block_free(&map->points[i]);
    lipsc_norm_free(map->model, map->options.dtype, &map->last);
    lipsc_release(map->points);
    lipsc_release(map->x);
    lipsc_release(map->y);
    lipsc_release(map);
}

/* ---- Products
 * -------------------------------------------------------------------------------- */

static int take(const lipsc_space *space, size_t elements, lipsc_buffer *out) {
    *out = lipsc_space_alloc(space, elements);
    return out->at != NULL;
}

static lipsc_status reserve(lipsc_map *map, size_t k) {
    if (k <= map->work.k) return LIPSC_OK;
    const lipsc_config *c = &map->model->config;
    const lipsc_space *space = space_of(map);
    const int mlp = map->points[0].extent == LIPSC_UP_TO_BLOCK;
    const size_t rows = k * map->n;
    free_work(map);
    int ok = !mlp || take(space, rows * c->d, &map->work.r[2]);
    for (int i = 0; i < 2; i++) {
        ok = take(space, rows * c->d, &map->work.r[i]) && ok;
        if (mlp && !c->experts && (i == 0 || lipsc_config_gated(c)))
            ok = take(space, rows * c->ffn, &map->work.t[i]) && ok;
        if (map->count > 1 || map->last.weights)
            ok = take(space, rows * c->d, &map->between[i]) && ok;
    }
    if (!ok) {
        free_work(map);
        return LIPSC_E_NOMEM;
    }
    map->work.k = k;
    return LIPSC_OK;
}

static lipsc_status last_norm(lipsc_map *map, int trans, size_t k, lipsc_buffer x,
                              lipsc_buffer y) {
    return lipsc_norm_apply(map->model, &map->last, map->options.dtype, map->blocks_on,
                            trans, k * map->n, map->n, x, y);
}

/* Blocks in order, then the final norm; the transpose the other way round. */
static lipsc_status apply_blocks(lipsc_map *map, int trans, size_t k, lipsc_buffer x,
                                 lipsc_buffer y) {
    lipsc_status status = reserve(map, k);
    if (status) return status;
    lipsc_buffer from = x;
    size_t turn = 0;
    if (trans && map->last.weights) {
        status = last_norm(map, 1, k, from, map->between[turn]);
        from = map->between[turn];
        turn ^= 1;
    }
    for (size_t i = 0; !status && i < map->count; i++) {
        const int to_y = i + 1 == map->count && (trans || !map->last.weights);
        lipsc_buffer to = to_y ? y : map->between[turn];
        status = lipsc_block_apply(&map->points[trans ? map->count - 1 - i : i], &map->work,
                                   trans, k, from, to);
        from = to;
        turn ^= 1;
    }
    if (!status && !trans && map->last.weights) status = last_norm(map, 0, k, from, y);
    return status;
}

static lipsc_status map_apply(void *ctx, int trans, size_t k, lipsc_buffer x,
                              lipsc_buffer y) {
    lipsc_map *map = ctx;
    const lipsc_space *space = space_of(map);
    const size_t step = map->n * map->model->config.d;
    lipsc_status status = LIPSC_OK;
    for (size_t done = 0; !status && done < k;) {
        const size_t now = k - done < MOST_DIRECTIONS ? k - done : MOST_DIRECTIONS;
        status = apply_blocks(map, trans, now, lipsc_space_at(space, x, done * step),
                              lipsc_space_at(space, y, done * step));
        done += now;
    }
    return status;
}

lipsc_linop lipsc_map_linop(lipsc_map *map) {
    if (map->attn) return lipsc_attn_linop(map->attn);
    const lipsc_config *config = &map->model->config;
    const size_t length = map->n * config->d;
    const double block = 8.0 * (double)(map->n + config->d) + 4.0 * (double)config->ffn;
    return (lipsc_linop){.m = length,
                         .n = length,
                         .space = space_of(map),
                         .apply = map_apply,
                         .ctx = map,
                         .work = (double)map->count * (double)length * block};
}

double lipsc_map_routing_gap(const lipsc_map *map) {
    double gap = INFINITY;
    int routed = 0;
    for (size_t i = 0; i < map->count; i++) {
        if (!map->points[i].experts) continue;
        gap = lipsc_min(gap, lipsc_experts_gap(map->points[i].experts));
        routed = 1;
    }
    return routed ? gap : NAN;
}

lipsc_attn *lipsc_map_attn(lipsc_map *map) {
    if (map->attn) return map->attn;
    return map->options.map == LIPSC_MAP_MODEL ? NULL : map->points[0].attn;
}

/* ---- The value
 * --------------------------------------------------------------------------------- */

static lipsc_status apply_host(lipsc_map *map, int trans, size_t k, const double *x,
                               double *y) {
    const lipsc_linop op = lipsc_map_linop(map);
    return lipsc_linop_host(&op, trans, k, x, y);
}

/* The same map in double, at the same input: everything behind the input is computed anew.
 * *twin is map itself where that is in double already. */
static lipsc_status open_twin(lipsc_map *map, lipsc_map **twin) {
    lipsc_map_options options = map->options;
    lipsc_status status = LIPSC_OK;
    options.dtype = LIPSC_F64;
    if (map->options.dtype != LIPSC_F64 && !map->twin)
        status = make(map->model, map->n, map->x, &options, &map->twin, NULL);
    *twin = map->twin ? map->twin : map;
    return status;
}

static lipsc_status judge_apply(size_t count, const lipsc_product *product) {
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; i < count && !status; i++) {
        lipsc_map *twin;
        status = open_twin(product[i].of, &twin);
        if (!status)
            status = apply_host(twin, 0, product[i].k, product[i].x.at, product[i].y.at);
    }
    return status;
}

/* What products with twin, in double, can be off by; infinite where nothing is proved. */
static lipsc_status find_rounding(const lipsc_map *twin, double *eps) {
    const size_t d = twin->model->config.d;
    double size = 0.0; /* of the longest token */
    lipsc_stretch total = {1.0, 0.0}, next;
    lipsc_status status = LIPSC_OK;
    *eps = INFINITY;
    if (!lipsc_device_table(twin->blocks_on)->proved) return LIPSC_OK;
    for (size_t i = 0; i < twin->n; i++) {
        double square = 0.0;
        for (size_t c = 0; c < d; c++) square += twin->x[i * d + c] * twin->x[i * d + c];
        if (!(1.0001 * sqrt(square) <= size))
            size = 1.0001 * sqrt(square); /* a NaN stays */
    }
    for (size_t i = 0; i < twin->count && !status; i++) {
        status = lipsc_block_rounding(&twin->points[i], &size, &next);
        if (!status) total = lipsc_stretch_after(next, total);
    }
    if (!status && twin->last.weights)
        total = lipsc_stretch_after(
            lipsc_norm_rounding(twin->model, &twin->last, twin->n, &size), total);
    if (!status && total.eps < INFINITY) *eps = total.eps; /* not a NaN */
    return status;
}

static lipsc_status judge_rounding(void *ctx, double enough, double *eps, char *why,
                                   size_t size) {
    (void)enough, (void)why, (void)size;
    *eps = ((const lipsc_map *)ctx)->rounding;
    return LIPSC_OK;
}

static int op_apply(void *ctx, int trans, size_t k, const double *x, double *y) {
    return apply_host(ctx, trans, k, x, y) != LIPSC_OK;
}

lipsc_op lipsc_map_op(lipsc_map *map) {
    const lipsc_linop op = lipsc_map_linop(map);
    return (lipsc_op){.m = op.m, .n = op.n, .apply = op_apply, .ctx = map};
}

const char *lipsc_map_name(lipsc_map_kind map) {
    static const char *const names[] = {"heads",    "attention", "norm-attention",
                                        "residual", "block",     "model"};
    return (size_t)map < sizeof names / sizeof *names ? names[map] : "unknown";
}

lipsc_status lipsc_map_sigma(lipsc_map *map, const lipsc_svd_settings *set, double *sigma,
                             double *u, double *v, lipsc_svd_info *info) {
    if (!map || !set || !sigma) return LIPSC_E_ARG;
    if (map->attn) return lipsc_attn_sigma(map->attn, set, sigma, u, v, info);
    const lipsc_linop op = lipsc_map_linop(map);
    lipsc_map *twin;
    lipsc_status status = open_twin(map, &twin);
    map->rounding = INFINITY; /* of many blocks the bound is of no use */
    if (!status && map->count == 1) status = find_rounding(twin, &map->rounding);
    if (status) return status;
    const lipsc_judge judge = {judge_apply, isinf(map->rounding) ? NULL : judge_rounding,
                               map, 0};
    return lipsc_linop_sigma(&op, &judge, set, sigma, u, v, info);
}

lipsc_status lipsc_map_certify(lipsc_map *map, const double *v,
                               const lipsc_certify_settings *set, lipsc_certificate *out,
                               lipsc_error *err) {
    if (!map || !set || !out) return lipsc_fail(err, LIPSC_E_ARG, "a pointer is NULL");
    if (map->attn) return lipsc_attn_certify(map->attn, v, set, out, err);
    lipsc_map *twin;
    lipsc_status status = open_twin(map, &twin);
    if (status) return lipsc_fail(err, status, "%s", lipsc_strerror(status));
    const lipsc_linop there = lipsc_map_linop(twin);
    const lipsc_op host = lipsc_map_op(twin); /* for vectors that ranks share */
    lipsc_certify_settings used = *set;
    status = find_rounding(twin, &used.rounding);
    if (status)
        lipsc_fail(err, status, "%s", lipsc_strerror(status));
    else if (there.space->split)
        status = lipsc_certify(&host, v, &used, out, err);
    else
        status = lipsc_certify_linop(&there, v, &used, LIPSC_ANY_WAY, out, err);
    return status;
}

lipsc_status lipsc_map_released(lipsc_map *map, double *value) {
    lipsc_map *twin;
    if (!map || !value) return LIPSC_E_ARG;
    if (map->attn) return lipsc_attn_released(map->attn, value);
    const size_t length = map->n * map->model->config.d;
    double *g = lipsc_alloc(length, sizeof *g), sum = 0.0;
    lipsc_status status = g ? open_twin(map, &twin) : LIPSC_E_NOMEM;
    if (!status) status = apply_host(twin, 1, 1, twin->y, g);
    for (size_t e = 0; !status && e < length; e++) sum += g[e] * g[e];
    if (!status) *value = sqrt(sqrt(sum));
    lipsc_release(g);
    return status;
}
