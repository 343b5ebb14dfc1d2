/* alike.c - whether ranks that share a work were given the same. */
#include "study/alike.h"

#include <string.h>

#include "attn/attn.h"
#include "backend/backend.h"
#include "core/error.h"
#include "core/rng.h"

static void add(uint64_t *digest, uint64_t word) {
    *digest = lipsc_rng_mix(*digest ^ word) + word;
}

static void add_real(uint64_t *digest, double x) {
    uint64_t word;
    memcpy(&word, &x, sizeof word);
    add(digest, word);
}

static void add_text(uint64_t *digest, const char *text) {
    add(digest, text ? strlen(text) + 1 : 0);
    for (; text && *text; text++) add(digest, (unsigned char)*text);
}

static void add_sizes(uint64_t *digest, lipsc_sizes sizes) {
    add(digest, sizes.count);
    for (size_t i = 0; i < sizes.count; i++) add(digest, sizes.at[i]);
}

/* x may be NULL, which is another one than any numbers. */
static void add_reals(uint64_t *digest, size_t count, const double *x) {
    add(digest, x ? count + 1 : 0);
    for (size_t i = 0; x && i < count; i++) add_real(digest, x[i]);
}

/* ---- A layer and its input ----------------------------------------------------------- */

static uint64_t of_layer(const lipsc_layer *l) {
    const size_t sizes[] = {
        l->d,         l->heads,        l->kv_heads,     l->key_dim, l->value_dim,
        l->out_dim,   l->window,       l->rotary_dim,   l->mask,    (size_t)l->norm_whole,
        l->bias_rule, l->bias_buckets, l->bias_distance};
    const size_t q = l->heads * l->key_dim, k = l->kv_heads * l->key_dim,
                 v = l->kv_heads * l->value_dim;
    const int buckets = l->bias_rule == LIPSC_BIAS_BUCKETS;
    uint64_t digest = 1;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) add(&digest, sizes[i]);
    add_real(&digest, l->scale);
    add_real(&digest, l->norm_eps);
    add_real(&digest, l->soft_cap);
    add_reals(&digest, q * l->d, l->Q);
    add_reals(&digest, k * l->d, l->K);
    add_reals(&digest, v * l->d, l->V);
    add_reals(&digest, l->out_dim * l->heads * l->value_dim, l->O);
    add_reals(&digest, q, l->bq);
    add_reals(&digest, k, l->bk);
    add_reals(&digest, v, l->bv);
    add_reals(&digest, l->out_dim, l->bo);
    add_reals(&digest, l->rotary_dim / 2, l->rotary_dim ? l->rotary_freq : NULL);
    add_reals(&digest, l->norm_whole ? q : l->key_dim, l->q_gain);
    add_reals(&digest, l->norm_whole ? k : l->key_dim, l->k_gain);
    add_reals(&digest, l->heads * (buckets ? l->bias_buckets : 1),
              l->bias_rule == LIPSC_BIAS_NONE ? NULL : l->score_bias);
    add_reals(&digest, l->heads, l->sinks);
    return digest;
}

static uint64_t of_input(const lipsc_layer *l, const lipsc_input *in) {
    uint64_t digest = 2;
    add(&digest, in->n);
    add_reals(&digest, in->n * l->d, in->X);
    add_reals(&digest, in->n, in->weights);
    add_reals(&digest, in->n, in->times);
    add_reals(&digest, in->n, in->positions);
    return digest;
}

/* ---- A study ------------------------------------------------------------------------- */

static void add_source(uint64_t *digest, const lipsc_source_options *source) {
    add(digest, source->special != 0);
    add(digest, source->stride);
    add(digest, source->tiled != 0);
}

/* The model's own mask is none of them. */
static void add_mask(uint64_t *digest, const lipsc_mask *mask) {
    add(digest, mask ? (uint64_t)*mask + 1 : 0);
}

uint64_t lipsc_study_cells_digest(const lipsc_study *study) {
    const lipsc_study_settings *s = &study->set;
    uint64_t digest = 4;
    add_sizes(&digest, s->lengths);
    add_sizes(&digest, s->windows);
    add(&digest, s->window_count);
    add_sizes(&digest, s->layers);
    add_sizes(&digest, s->heads);
    add(&digest, s->each_head != 0);
    add(&digest, s->shard);
    add(&digest, s->shards);
    return digest;
}

uint64_t lipsc_study_options_digest(const lipsc_study *study) {
    const lipsc_study_settings *s = &study->set;
    const uint64_t words[] = {s->part,         s->map,       s->dtype,
                              s->pinned != 0,  s->method,    s->max_products,
                              s->count,        s->seed,      s->upper != 0,
                              s->details != 0, s->sink != 0, s->as_released != 0};
    uint64_t digest = 5;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) add(&digest, words[i]);
    add_mask(&digest, s->mask_override);
    add_source(&digest, &s->source);
    add_real(&digest, s->tol);
    add_real(&digest, s->probability);
    add_real(&digest, s->certify);
    add_real(&digest, s->certify_seconds);
    add_real(&digest, s->certify_memory);
    add_text(&digest, s->experiment);
    return digest;
}

/* ---- A place ------------------------------------------------------------------------- */

uint64_t lipsc_place_digest(const lipsc_place_options *set, const lipsc_layer *layer,
                            const lipsc_input *input) {
    uint64_t digest = 6;
    add(&digest, set->part);
    add(&digest, set->seed);
    add(&digest, set->layer);
    add(&digest, (uint64_t)set->head);
    add(&digest, set->map);
    add_mask(&digest, set->mask_override);
    add_source(&digest, &set->source);
    add(&digest, set->length);
    add(&digest, set->window);
    if (input) add(&digest, of_layer(layer));
    if (input) add(&digest, of_input(layer, input));
    return digest;
}

uint64_t lipsc_bounds_digest(const lipsc_bounds_settings *set, int radius_of_norm) {
    uint64_t digest = 7;
    add_real(&digest, set->radius);
    add_real(&digest, set->p);
    add_real(&digest, set->around);
    add_real(&digest, set->below);
    add(&digest, set->relative != 0);
    add(&digest, radius_of_norm != 0);
    return digest;
}

uint64_t lipsc_sizes_digest(lipsc_sizes sizes) {
    uint64_t digest = 8;
    add_sizes(&digest, sizes);
    return digest;
}

/* ---- One input that ranks share -------------------------------------------------------
 */

/* What rank 0 alone writes or certifies is not among it. */
static uint64_t of_settings(const lipsc_layer_row_settings *set) {
    const lipsc_svd_settings *s = &set->solve;
    const uint64_t words[] = {set->dtype,
                              s->method,
                              (uint64_t)s->max_products,
                              s->count,
                              s->basis,
                              s->block,
                              s->seed,
                              s->pinned != 0,
                              set->upper != 0,
                              set->as_released != 0};
    uint64_t digest = 3;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) add(&digest, words[i]);
    add_real(&digest, s->tol);
    add_real(&digest, s->value_tol);
    add_real(&digest, s->probability);
    return digest;
}

/* Whether all ranks have this one; a NaN of ranks that are out of reach is none. */
static int same(const lipsc_device *device, uint64_t digest) {
    const double own = (double)(digest >> 12);
    const double most = lipsc_device_largest(device, own),
                 least = -lipsc_device_largest(device, -own);
    return most == least;
}

lipsc_status lipsc_layer_row_alike(const lipsc_layer *layer, const lipsc_input *input,
                                   const lipsc_layer_row_settings *set, lipsc_error *err) {
    lipsc_layer resolved;
    if (!lipsc_device_table(set->device)->largest) return LIPSC_OK;
    lipsc_status status = lipsc_layer_check(layer, &resolved, err);
    if (!status) status = lipsc_input_check(&resolved, input, err);
    if (status) return status;
    const int settings = same(set->device, of_settings(set)),
              layers = same(set->device, of_layer(&resolved)),
              inputs = same(set->device, of_input(&resolved, input));
    if (settings && layers && inputs) return LIPSC_OK;
    return lipsc_fail(err, LIPSC_E_RANGE, "not all ranks have the same %s",
                      !settings ? "settings of the solve"
                      : !layers ? "layer"
                                : "input");
}
