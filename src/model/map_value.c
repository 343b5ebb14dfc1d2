/* map_value.c - the value of a map: its twin in double judges what was found. */
#include "model/map_at.h"
#include "model/rounding.h"

#include "certify/certify.h"
#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "core/vector.h"
#include "value/value.h"

#include <math.h>

/* The same map in double, at the same input: everything behind the input is computed anew.
 * *twin is map itself where that is in double already. */
static lipsc_status open_twin(lipsc_map *map, lipsc_map **twin) {
    lipsc_map_options options = map->options;
    lipsc_status status = LIPSC_OK;
    options.dtype = LIPSC_F64;
    if (map->options.dtype != LIPSC_F64 && !map->twin)
        status = lipsc_map_make(map->model, map->n, map->x, &options, &map->twin, NULL);
    *twin = map->twin ? map->twin : map;
    return status;
}

static lipsc_status judge_apply(size_t count, const lipsc_product *product) {
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; i < count && !status; i++) {
        lipsc_map *twin;
        status = open_twin(product[i].of, &twin);
        if (!status)
            status = lipsc_map_apply_host(twin, 0, product[i].k, product[i].x.at,
                                          product[i].y.at);
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
        size = lipsc_max(size, 1.0001 * lipsc_length(d, twin->x + i * d));
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
                               map, 0, NULL};
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
    if (!status) status = lipsc_map_apply_host(twin, 1, 1, twin->y, g);
    for (size_t e = 0; !status && e < length; e++) sum += g[e] * g[e];
    if (!status) *value = sqrt(sqrt(sum));
    lipsc_release(g);
    return status;
}
