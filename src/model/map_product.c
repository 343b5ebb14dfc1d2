/* map_product.c - products with the derivative of a map, block by block. */
#include "model/map_at.h"

enum { MOST_DIRECTIONS = 8 }; /* per pass; larger blocks are cut */

void lipsc_map_free_work(lipsc_map *map) {
    const lipsc_space *space = lipsc_map_space(map);
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

static int take(const lipsc_space *space, size_t elements, lipsc_buffer *out) {
    *out = lipsc_space_alloc(space, elements);
    return out->at != NULL;
}

static lipsc_status reserve(lipsc_map *map, size_t k) {
    if (k <= map->work.k) return LIPSC_OK;
    const lipsc_config *c = &map->model->config;
    const lipsc_space *space = lipsc_map_space(map);
    const int mlp = map->points[0].extent == LIPSC_UP_TO_BLOCK;
    const size_t rows = k * map->n;
    lipsc_map_free_work(map);
    int ok = !mlp || take(space, rows * c->d, &map->work.r[2]);
    for (int i = 0; i < 2; i++) {
        ok = take(space, rows * c->d, &map->work.r[i]) && ok;
        if (mlp && !c->experts && (i == 0 || lipsc_config_gated(c)))
            ok = take(space, rows * c->ffn, &map->work.t[i]) && ok;
        if (map->count > 1 || map->last.weights)
            ok = take(space, rows * c->d, &map->between[i]) && ok;
    }
    if (!ok) {
        lipsc_map_free_work(map);
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
    const lipsc_space *space = lipsc_map_space(map);
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
                         .space = lipsc_map_space(map),
                         .apply = map_apply,
                         .ctx = map,
                         .work = (double)map->count * (double)length * block};
}

lipsc_status lipsc_map_apply_host(lipsc_map *map, int trans, size_t k, const double *x,
                                  double *y) {
    const lipsc_linop op = lipsc_map_linop(map);
    return lipsc_linop_host(&op, trans, k, x, y);
}

static int op_apply(void *ctx, int trans, size_t k, const double *x, double *y) {
    return lipsc_map_apply_host(ctx, trans, k, x, y) != LIPSC_OK;
}

lipsc_op lipsc_map_op(lipsc_map *map) {
    const lipsc_linop op = lipsc_map_linop(map);
    return (lipsc_op){.m = op.m, .n = op.n, .apply = op_apply, .ctx = map};
}
