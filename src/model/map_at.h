/* map_at.h - what a map is made of: inside map*.c only.
 *
 *     map.c          which maps have a meaning; they are made and freed
 *     map_product.c  products with the derivative, forwards and back
 *     map_value.c    the same map in double: sigma, certificate, released value */
#ifndef LIPSC_MODEL_MAP_AT_H
#define LIPSC_MODEL_MAP_AT_H

#include "model/block.h"

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
static inline const lipsc_space *lipsc_map_space(const lipsc_map *map) {
    return lipsc_device_space(map->blocks_on, map->options.dtype);
}

/* Of options that have a meaning; x (n, d) is copied.  *out stands only after a success. */
lipsc_status lipsc_map_make(lipsc_model *m, size_t n, const double *x,
                            const lipsc_map_options *options, lipsc_map **out,
                            lipsc_error *err);
/* Room for products; made again when they need it. */
void lipsc_map_free_work(lipsc_map *map);
/* x and y are doubles of the host. */
lipsc_status lipsc_map_apply_host(lipsc_map *map, int trans, size_t k, const double *x,
                                  double *y);

#endif
