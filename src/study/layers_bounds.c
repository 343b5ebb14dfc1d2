/* layers_bounds.c - the bounds of several layers of a model, each by one of the ranks. */
#include <stdio.h>

#include "core/error.h"
#include "core/mem.h"
#include "ranks/deal.h"
#include "row/pack.h"
#include "study/alike.h"
#include "study/place.h"

typedef struct {
    lipsc_place *place;
    lipsc_sizes layers;
    int radius_of_norm;
    lipsc_bounds_settings set;
    const lipsc_bounds_settings *given;
    lipsc_layers_bounds *out;
} work;

/* ---- On their way to rank 0 ------------------------------------------------------------
 */

static int pack(lipsc_status status, const lipsc_bounds *b, lipsc_yield *out) {
    lipsc_packet to = {.at = NULL};
    lipsc_pack(&to, sizeof status, &status);
    lipsc_pack(&to, sizeof *b, b); /* its pointers are made anew */
    lipsc_pack_record(&to, lipsc_regime_fields(), &b->regime);
    lipsc_pack_record(&to, lipsc_neighbourhood_fields(), &b->around);
    for (size_t i = 0; i < b->count; i++)
        lipsc_pack_record(&to, lipsc_bound_fields(), &b->at[i]);
    *out = (lipsc_yield){to.bytes, to.at};
    return !to.bad;
}

static int unpack(const lipsc_yield *from, lipsc_pool *pool, lipsc_layer_bounds *out) {
    lipsc_unpacking at = {from->at, (const char *)from->at + from->bytes, 0};
    lipsc_bounds *b = &out->bounds;
    lipsc_unpack(&at, sizeof out->status, &out->status);
    lipsc_unpack(&at, sizeof *b, b);
    b->storage = NULL;
    b->at = lipsc_alloc(b->count, sizeof *b->at);
    if (!b->at) return 0;
    lipsc_unpack_record(&at, lipsc_regime_fields(), pool, &b->regime);
    lipsc_unpack_record(&at, lipsc_neighbourhood_fields(), pool, &b->around);
    for (size_t i = 0; i < b->count; i++)
        lipsc_unpack_record(&at, lipsc_bound_fields(), pool, &b->at[i]);
    return !at.bad;
}

/* ---- One layer -------------------------------------------------------------------------
 */

static lipsc_status bound_layer(const work *w, size_t layer, lipsc_bounds *out,
                                lipsc_error *err) {
    lipsc_place *place;
    lipsc_place_options of = w->place->set;
    if (!w->place->model || layer == of.layer)
        return lipsc_place_bounds(w->place, w->radius_of_norm, &w->set, out, err);
    of.open = w->place->model;
    of.layer = layer;
    of.ranks = NULL; /* this one is alone with it */
    lipsc_status status = lipsc_place_open(&of, &place, err);
    if (status) return status;
    status = lipsc_place_bounds(place, w->radius_of_norm, &w->set, out, err);
    lipsc_place_close(place);
    return status;
}

static lipsc_status compute(void *ctx, size_t piece, lipsc_yield *out, lipsc_error *err) {
    const work *w = ctx;
    lipsc_bounds bounds;
    const lipsc_status status = bound_layer(w, w->layers.at[piece], &bounds, err);
    if (status && status != LIPSC_E_NOCONV) return status;
    const int packed = pack(status, &bounds, out);
    lipsc_bounds_free(&bounds);
    return packed ? LIPSC_OK : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for bounds");
}

static lipsc_status take(void *ctx, size_t piece, const lipsc_yield *from,
                         lipsc_error *err) {
    const work *w = ctx;
    return unpack(from, &w->out->pool, &w->out->at[piece])
               ? LIPSC_OK
               : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for bounds");
}

/* ---- Together --------------------------------------------------------------------------
 */

static int asked_to_stop(void *ctx) {
    const work *w = ctx;
    return w->given->stop && w->given->stop(w->given->ctx);
}

static int shall_stop(void *ctx) {
    const work *w = ctx;
    return asked_to_stop(ctx) || lipsc_deal_over(w->place->set.ranks);
}

static void tell_solve(void *ctx, long products, double sigma, double residual) {
    const lipsc_bounds_settings *given = ((const work *)ctx)->given;
    if (given->progress) given->progress(given->ctx, products, sigma, residual);
}

static void tell_steps(void *ctx, size_t done, size_t total) {
    const lipsc_bounds_settings *given = ((const work *)ctx)->given;
    if (given->steps) given->steps(given->ctx, done, total);
}

static lipsc_status check(const work *w, lipsc_error *err) {
    const lipsc_model_info *info = w->place->info;
    if (!info && w->layers.count > 1)
        return lipsc_fail(err, LIPSC_E_ARG, "a layer file has one layer");
    for (size_t i = 0; info && i < w->layers.count; i++)
        if (w->layers.at[i] >= info->layers)
            return lipsc_fail(err, LIPSC_E_RANGE,
                              "%s: layer %zu: the model has layers 0 to %zu",
                              w->place->set.from, w->layers.at[i], info->layers - 1);
    return LIPSC_OK;
}

lipsc_status lipsc_place_layers_bounds(lipsc_place *place, lipsc_sizes layers,
                                       int radius_of_norm, const lipsc_bounds_settings *set,
                                       lipsc_layers_bounds *out, lipsc_error *err) {
    work w = {place, layers, radius_of_norm, *set, set, out};
    const lipsc_deal deal = {.count = layers.count,
                             .compute = compute,
                             .take = take,
                             .stop = asked_to_stop,
                             .ctx = &w};
    w.set.stop = shall_stop;
    w.set.progress = tell_solve;
    w.set.steps = tell_steps;
    w.set.ctx = &w;
    *out = (lipsc_layers_bounds){.at = lipsc_alloc_zero(layers.count, sizeof *out->at)};
    if (!out->at) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for bounds");
    out->count = layers.count;
    for (size_t i = 0; i < layers.count; i++) out->at[i].layer = layers.at[i];
    char said[80];
    snprintf(said, sizeof said, "choice of layers: %llx\nset of options: %llx",
             (unsigned long long)lipsc_sizes_digest(layers),
             (unsigned long long)lipsc_bounds_digest(set, radius_of_norm));
    const lipsc_status status =
        lipsc_ranks_meet(place->set.ranks, check(&w, err), said, err);
    return status ? status : lipsc_ranks_deal(place->set.ranks, &deal, err);
}

void lipsc_layers_bounds_free(lipsc_layers_bounds *all) {
    for (size_t i = 0; i < all->count; i++) lipsc_bounds_free(&all->at[i].bounds);
    lipsc_pool_free(&all->pool);
    lipsc_release(all->at);
    *all = (lipsc_layers_bounds){0};
}
