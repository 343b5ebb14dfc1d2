/* model.h - a checkpoint, its activations on a window, and the maps that are
 * differentiated (CONTRACT: heads, attention, norm-attention, residual, block, model).
 *
 * model/ knows checkpoints and families; it builds lipsc_layer descriptions and composed
 * operators, and leaves solving to value/. */
#ifndef LIPSC_MODEL_MODEL_H
#define LIPSC_MODEL_MODEL_H

#include "linalg/space.h"
#include "lipscope.h"

typedef struct lipsc_model lipsc_model;

typedef struct {
    const char *architecture; /* "gpt2", "bert", ...                               */
    size_t layers, d, heads, kv_heads, head_dim, ffn, vocab;
    size_t experts;     /* 0: one MLP for every token                         */
    size_t positions;   /* longest window; 0: no limit                       */
    int pre_norm;       /* 1: norm before attention (gpt2, llama, vit)       */
    int has_embeddings; /* 0: only some layers' attention is stored          */
    int has_pixels;     /* 1: the input is an image (vit)                    */
    lipsc_mask mask;
    size_t window;       /* LIPSC_MASK_SLIDING                                */
    uint64_t parameters; /* stored numbers                                    */
    const char *stored;  /* "F16", "F32", "mixed", "random", ...              */
    char hash[65];       /* SHA-256 of config and weight files, hex; of the
                          * configuration and seed for random:...             */
} lipsc_model_info;

/* Which part of a model that holds several (clip, siglip, gemma3). */
typedef enum {
    LIPSC_PART_WHOLE,
    LIPSC_PART_TEXT,
    LIPSC_PART_VISION,
    LIPSC_PARTS
} lipsc_part;

/* spec: a Hugging Face folder; random:FAMILY[:size]; random:DIR.  seed: of random
 * weights.  Files are mapped and must not change while the model is open. */
lipsc_status lipsc_model_open(const char *spec, uint64_t seed, lipsc_model **out,
                              lipsc_error *err);
lipsc_status lipsc_model_open_part(const char *spec, lipsc_part part, uint64_t seed,
                                   lipsc_model **out, lipsc_error *err);
/* Whether a file holds the weights of a model: a GGUF file, or a safetensors file with
 * config.json beside it that is no layer file. */
int lipsc_model_recognised(const char *path);
void lipsc_model_free(lipsc_model *model);
const lipsc_model_info *lipsc_model_describe(const lipsc_model *model);
int lipsc_model_has_layer(const lipsc_model *model, size_t layer);

/* Weights are made ready from the mapped files when they are needed, block by block.  Maps
 * and forward passes hold the blocks that they work with; who needs a block for several of
 * them holds it as well, so that it is made ready once.  A block that nobody holds may be
 * freed and made ready again.  As often let go as held; from any thread. */
void lipsc_model_hold(lipsc_model *model, size_t layer);
void lipsc_model_let_go(lipsc_model *model, size_t layer);

typedef enum {
    LIPSC_MAP_HEADS,
    LIPSC_MAP_ATTENTION,
    LIPSC_MAP_NORM_ATTENTION,
    LIPSC_MAP_RESIDUAL,
    LIPSC_MAP_BLOCK,
    LIPSC_MAP_MODEL
} lipsc_map_kind;

/* Bytes that the weights of the largest block take when they are ready for such a map, for
 * the value in double that goes with it, and for the forward pass. */
uint64_t lipsc_model_block_bytes(const lipsc_model *model, lipsc_map_kind map,
                                 lipsc_dtype dtype);

/* Bytes that come on top while the largest matrix of a block is made ready. */
uint64_t lipsc_model_reading_bytes(const lipsc_model *model);

/* ---- Activations ------------------------------------------------------------------ */

/* One window run through the model: every block's input and output, every attention's
 * input and output (after the output projection), the last hidden state; (n, d) doubles. */
typedef struct lipsc_acts lipsc_acts;

/* ids (n), or pixels (channels, height, width) for a vit.  through: only as far as the
 * input of attention in block through-1 (0: all blocks and the final norm).  What was not
 * reached is NULL.  threads >= 1. */
lipsc_status lipsc_acts_new(lipsc_model *model, lipsc_dtype dtype, int threads, size_t n,
                            const uint32_t *ids, size_t through, lipsc_acts **out,
                            lipsc_error *err);
lipsc_status lipsc_acts_new_pixels(lipsc_model *model, lipsc_dtype dtype, int threads,
                                   const size_t shape[3], const double *pixels,
                                   size_t through, lipsc_acts **out, lipsc_error *err);
/* From a given input of block 0, x (n, d), as lipsc_acts_block_input(acts, 0) gives it. */
lipsc_status lipsc_acts_new_from(lipsc_model *model, lipsc_dtype dtype, int threads,
                                 size_t n, const double *x, size_t through,
                                 lipsc_acts **out, lipsc_error *err);

/* The same in steps, so that many windows can pass a block together.  A window begins
 * before block 0; it passes blocks until `blocks` of them are behind, which makes their
 * inputs and outputs known; attend finds the input of attention in the block that it stands
 * before. What belongs to blocks that are behind stays until it is forgotten. */
lipsc_status lipsc_acts_begin(lipsc_model *model, lipsc_dtype dtype, size_t n,
                              const uint32_t *ids, lipsc_acts **out, lipsc_error *err);
lipsc_status lipsc_acts_begin_pixels(lipsc_model *model, lipsc_dtype dtype,
                                     const size_t shape[3], const double *pixels,
                                     lipsc_acts **out, lipsc_error *err);
lipsc_status lipsc_acts_pass(lipsc_model *model, lipsc_acts *acts, int threads,
                             size_t blocks, lipsc_error *err);
lipsc_status lipsc_acts_attend(lipsc_model *model, lipsc_acts *acts, int threads,
                               lipsc_error *err);
void lipsc_acts_forget(lipsc_acts *acts);

void lipsc_acts_free(lipsc_acts *acts);
size_t lipsc_acts_length(const lipsc_acts *acts);
const double *lipsc_acts_attention_input(const lipsc_acts *acts, size_t layer);
const double *lipsc_acts_attention_output(const lipsc_acts *acts, size_t layer);
const double *lipsc_acts_block_input(const lipsc_acts *acts, size_t layer);
const double *lipsc_acts_block_output(const lipsc_acts *acts, size_t layer);
const double *lipsc_acts_output(const lipsc_acts *acts); /* NULL when not run through */

/* ---- Layers and maps -------------------------------------------------------------- */

/* Layer `layer` as the core sees it; head < 0: all heads, else that query head alone with
 * its key/value head and its slice of the output projection.  mask_override: NULL for the
 * model's own.  Arrays stay valid until the model is freed. */
lipsc_status lipsc_model_layer(lipsc_model *model, size_t layer, long head,
                               lipsc_map_kind map, const lipsc_mask *mask_override,
                               lipsc_layer *out, lipsc_error *err);

typedef struct {
    lipsc_map_kind map;
    size_t layer; /* ignored by LIPSC_MAP_MODEL                       */
    long head;    /* -1: all; only with heads and attention           */
    const lipsc_mask *mask_override;
    lipsc_dtype dtype;
    int threads;
} lipsc_map_options;

/* The map's Jacobian at the activations, as an operator; packed weights are the model's and
 * shared by all windows.  Refuses by name what has no meaning (norm-attention of
 * a post-norm model, one head of a block).  Any number of maps may be used from different
 * threads at once, each map from one thread at a time. */
typedef struct lipsc_map lipsc_map;
lipsc_status lipsc_map_new(lipsc_model *model, const lipsc_acts *acts,
                           const lipsc_map_options *options, lipsc_map **out,
                           lipsc_error *err);
/* The same at x (n, d), the map's own input: that of attention for heads and attention, of
 * the block for the others.  x is copied. */
lipsc_status lipsc_map_new_at(lipsc_model *model, size_t n, const double *x,
                              const lipsc_map_options *options, lipsc_map **out,
                              lipsc_error *err);
void lipsc_map_free(lipsc_map *map);
lipsc_linop lipsc_map_linop(lipsc_map *map);
lipsc_attn *lipsc_map_attn(lipsc_map *map); /* the attention inside, NULL for model */

/* How far the nearest switch of experts is: the smallest lead, in router logits, of an
 * expert that a token takes over one that it does not; NaN where the map has none. */
double lipsc_map_routing_gap(const lipsc_map *map);

/* sigma, u, v, info as lipsc_attn_sigma: solved in the map's precision, re-evaluated in
 * double with the stored weights and the activations as doubles. */
lipsc_status lipsc_map_sigma(lipsc_map *map, const lipsc_svd_settings *set, double *sigma,
                             double *u, double *v, lipsc_svd_info *info);

/* A proved and tight upper bound, as lipsc_attn_certify, by products in double. */
lipsc_status lipsc_map_certify(lipsc_map *map, const double *v,
                               const lipsc_certify_settings *set, lipsc_certificate *out,
                               lipsc_error *err);

/* |J^T f(x)|^(1/2) in double, what the authors' released scripts return in place of sigma:
 * lipsc_attn_released for any map. */
lipsc_status lipsc_map_released(lipsc_map *map, double *value);

#endif
