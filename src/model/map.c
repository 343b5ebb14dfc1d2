/* map.c - the maps that are differentiated, as operators: heads, attention, norm-attention,
 * residual, block, model. */
#include "model/acts.h"
#include "model/map_at.h"

#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"

#include <math.h>
#include <string.h>

const char *lipsc_map_name(lipsc_map_kind map) {
    static const char *const names[] = {"heads",    "attention", "norm-attention",
                                        "residual", "block",     "model"};
    return (size_t)map < sizeof names / sizeof *names ? names[map] : "unknown";
}

static int is_attention(lipsc_map_kind map) {
    return map == LIPSC_MAP_HEADS || map == LIPSC_MAP_ATTENTION;
}

/* ---- What has a meaning ------------------------------------------------------------- */

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

/* ---- Making ------------------------------------------------------------------------- */

/* The inputs of maps at windows whose tokens the device can take from where they are; 0:
 * it cannot. */
static int find_there(size_t count, lipsc_map *const *map, const lipsc_acts *const *acts,
                      lipsc_buffer *there) {
    const lipsc_map_options *o = &map[0]->options;
    if (o->mask_override && *o->mask_override == LIPSC_MASK_TIMES) return 0;
    for (size_t i = 0; i < count; i++) {
        there[i] = lipsc_acts_attention_there(acts[i], o->layer);
        if (!there[i].home || !lipsc_device_takes_tokens(map[0]->device, there[i]))
            return 0;
    }
    return 1;
}

/* Maps with the same options, at windows of their own; acts NULL: at x alone. */
static lipsc_status make_attentions(size_t count, lipsc_map *const *map,
                                    const lipsc_acts *const *acts, lipsc_error *err) {
    const lipsc_map_options *o = &map[0]->options;
    lipsc_model *m = map[0]->model;
    lipsc_packed *packed;
    lipsc_mask mask;
    lipsc_input *input = lipsc_alloc(count, sizeof *input);
    lipsc_attn **attn = lipsc_alloc(count, sizeof *attn);
    lipsc_buffer *there = lipsc_alloc(count, sizeof *there);
    for (size_t i = 0; i < count; i++) {
        lipsc_model_hold(m, o->layer);
        map[i]->holds = 1;
        if (input) input[i] = (lipsc_input){.n = map[i]->n, .X = map[i]->x};
    }
    lipsc_status status = input && attn && there
                              ? LIPSC_OK
                              : lipsc_short_of_tokens(map[0]->model, map[0]->n, err);
    if (!status)
        status = lipsc_model_packed(m, o->layer, o->head, o->map == LIPSC_MAP_ATTENTION,
                                    &packed, err);
    if (!status) status = lipsc_model_mask(m, o->layer, o->mask_override, &mask, err);
    if (!status)
        status = lipsc_attn_batch_there(packed, &mask, count, input,
                                        acts && find_there(count, map, acts, there) ? there
                                                                                    : NULL,
                                        o->dtype, map[0]->device, attn, err);
    for (size_t i = 0; i < count && !status; i++) {
        map[i]->attn = attn[i];
        attn[i]->device = map[i]->device; /* which lives as long */
    }
    lipsc_release(input);
    lipsc_release(attn);
    lipsc_release(there);
    return status;
}

static lipsc_status make_blocks(lipsc_map *map, lipsc_error *err) {
    const lipsc_map_options *o = &map->options;
    lipsc_model *m = map->model;
    const lipsc_device *device = map->blocks_on;
    const lipsc_space *space = lipsc_map_space(map);
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
    lipsc_status status = map->points && map->y && x.at && y.at
                              ? LIPSC_OK
                              : lipsc_short_of_tokens(map->model, map->n, err);
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
    if (!map->x) return lipsc_short_of_tokens(map->model, map->n, err);
    memcpy(map->x, x, n * m->config.d * sizeof *x);
    return LIPSC_OK;
}

lipsc_status lipsc_map_make(lipsc_model *m, size_t n, const double *x,
                            const lipsc_map_options *options, lipsc_map **out,
                            lipsc_error *err) {
    lipsc_map *map;
    lipsc_status status = begin(m, n, x, options, &map, err);
    if (!status)
        status = is_attention(options->map) ? make_attentions(1, &map, NULL, err)
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
    if (!status && is_attention(options->map))
        status = make_attentions(count, out, acts, err);
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
    return lipsc_map_make(m, lipsc_acts_length(acts), x, options, out, err);
}

lipsc_status lipsc_map_new_at(lipsc_model *m, size_t n, const double *x,
                              const lipsc_map_options *options, lipsc_map **out,
                              lipsc_error *err) {
    const lipsc_status status = check(m, options, err);
    if (status) return status;
    if (n == 0) return lipsc_fail(err, LIPSC_E_ARG, "a window of no tokens");
    return lipsc_map_make(m, n, x, options, out, err);
}

void lipsc_map_free(lipsc_map *map) {
    if (!map) return;
    lipsc_map_free(map->twin);
    lipsc_map_free_work(map);
    lipsc_attn_free(map->attn);
    if (map->holds) lipsc_model_let_go(map->model, map->options.layer);
    for (size_t i = 0; i < map->count; i++) lipsc_block_free(&map->points[i]);
    lipsc_norm_free(map->model, map->options.dtype, &map->last);
    lipsc_release(map->points);
    lipsc_release(map->x);
    lipsc_release(map->y);
    lipsc_release(map);
}

/* ---- What it is made of ------------------------------------------------------------- */

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
