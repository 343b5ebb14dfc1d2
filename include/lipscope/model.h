/* model.h - a transformer: its checkpoint, its activations on a window, and the maps that
 * are differentiated.
 *
 *     lipsc_model *model;                              // a folder, a file, a name
 *     lipsc_model_open("builtin:gpt2-nano", 1, &model, &err);
 *     lipsc_acts *acts;                                // one window run through it
 *     lipsc_acts_new(model, LIPSC_F32, NULL, n, ids, 0, &acts, &err);
 *     lipsc_map_options of = {.map = LIPSC_MAP_ATTENTION, .layer = 3, .head = -1};
 *     lipsc_map *map;                                  // its Jacobian there
 *     lipsc_map_new(model, acts, &of, &map, &err);
 *     lipsc_map_sigma(map, &set, &sigma, NULL, NULL, &info); */
#ifndef LIPSCOPE_MODEL_H
#define LIPSCOPE_MODEL_H

#include "lipscope/sigma.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- A checkpoint ----------------------------------------------------------------- */

/* One thread may open and free it; maps and forward passes of several threads may use it
 * at once. */
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
                          * configuration and seed for random:...; of the
                          * configuration and the tensors for those in memory */
} lipsc_model_info;

/* Which part of a model that holds several (clip, siglip, gemma3). */
typedef enum {
    LIPSC_PART_WHOLE,
    LIPSC_PART_TEXT,
    LIPSC_PART_VISION,
    LIPSC_PARTS
} lipsc_part;

/* spec names it:
 *     DIR, FILE          a Hugging Face folder; one safetensors file with config.json
 *                        beside it; a GGUF file
 *     NAME, ORG/NAME     a model of the hub that the local cache has; nothing is fetched
 *     builtin:gpt2-nano  what comes with the library
 *     random:FAMILY[:SIZE], random:DIR   random weights, by `seed`
 * Files are mapped and must not change while the model is open. */
LIPSC_API lipsc_status lipsc_model_open(const char *spec, uint64_t seed, lipsc_model **out,
                                        lipsc_error *err);
LIPSC_API lipsc_status lipsc_model_open_part(const char *spec, lipsc_part part,
                                             uint64_t seed, lipsc_model **out,
                                             lipsc_error *err);
LIPSC_API void lipsc_model_free(lipsc_model *model);

/* Where what comes with the library lies: "gpt2-nano", the model, and "lighthouse", a text
 * of 4900 words.  Looked for in the folder that the environment variable LIPSCOPE_DATA
 * names and nowhere else when it is set; otherwise in share/lipscope beside the bin/ of the
 * program or the lib/ of this library, in data/ beside either (a build tree), and where it
 * was configured to be installed.  LIPSC_E_IO names these places. */
enum { LIPSC_PATH_ROOM = 4096 };
LIPSC_API lipsc_status lipsc_builtin_path(const char *name, char path[LIPSC_PATH_ROOM],
                                          lipsc_error *err);

/* Whether a file holds the weights of a model: a GGUF file, or a safetensors file with
 * config.json beside it that is no layer file. */
LIPSC_API int lipsc_model_recognised(const char *path);

/* A tensor that is in memory already. */
typedef struct {
    const char *name;  /* as in a checkpoint: "transformer.h.0.attn.c_attn.weight" */
    const char *dtype; /* "F64", "F32", "F16" or "BF16"                            */
    size_t ndim;
    const size_t *shape;
    const void *data;
    const ptrdiff_t *strides; /* in bytes, for each axis; NULL: row-major           */
} lipsc_model_tensor;

/* The same from the text of a config.json and such tensors, which may come in any order
 * and must stay as they are while the model is open; names and shapes are copied.  name
 * stands for the model in sentences. */
LIPSC_API lipsc_status lipsc_model_from_memory(const char *name, const char *config,
                                               size_t config_size, lipsc_part part,
                                               size_t count,
                                               const lipsc_model_tensor *tensors,
                                               lipsc_model **out, lipsc_error *err);

LIPSC_API const lipsc_model_info *lipsc_model_describe(const lipsc_model *model);
LIPSC_API int lipsc_model_has_layer(const lipsc_model *model, size_t layer);

/* ---- Activations ------------------------------------------------------------------ */

/* One window run through the model: every block's input and output, every attention's
 * input and output (after the output projection), the last hidden state, (n, d) each.  It
 * stays in the device's memory in the precision of the run, and is freed before the device
 * is closed; the doubles of the functions below are made when they are first asked for, and
 * valid as long as it is. */
typedef struct lipsc_acts lipsc_acts;

/* ids (n), or pixels (channels, height, width) for a model of images.  through: only as
 * far as the input of attention in block through-1 (0: all blocks and the final norm).
 * What was not reached is NULL. */
LIPSC_API lipsc_status lipsc_acts_new(lipsc_model *model, lipsc_dtype dtype,
                                      lipsc_device *device, size_t n, const uint32_t *ids,
                                      size_t through, lipsc_acts **out, lipsc_error *err);
LIPSC_API lipsc_status lipsc_acts_new_pixels(lipsc_model *model, lipsc_dtype dtype,
                                             lipsc_device *device, const size_t shape[3],
                                             const double *pixels, size_t through,
                                             lipsc_acts **out, lipsc_error *err);
/* From a given input of block 0, x (n, d), as lipsc_acts_block_input(acts, 0) gives it. */
LIPSC_API lipsc_status lipsc_acts_new_from(lipsc_model *model, lipsc_dtype dtype,
                                           lipsc_device *device, size_t n, const double *x,
                                           size_t through, lipsc_acts **out,
                                           lipsc_error *err);
LIPSC_API void lipsc_acts_free(lipsc_acts *acts);

/* From any thread; NULL: the window was not run so far, or memory is short. */
LIPSC_API size_t lipsc_acts_length(const lipsc_acts *acts);
LIPSC_API const double *lipsc_acts_attention_input(const lipsc_acts *acts, size_t layer);
LIPSC_API const double *lipsc_acts_attention_output(const lipsc_acts *acts, size_t layer);
LIPSC_API const double *lipsc_acts_block_input(const lipsc_acts *acts, size_t layer);
LIPSC_API const double *lipsc_acts_block_output(const lipsc_acts *acts, size_t layer);
LIPSC_API const double *lipsc_acts_output(const lipsc_acts *acts);

/* ---- Maps ------------------------------------------------------------------------- */

/* What is differentiated (docs/maths.md 1): the heads' outputs, attention with its output
 * projection, the norm and attention, x + that, the block, all blocks and the last norm. */
typedef enum {
    LIPSC_MAP_HEADS,
    LIPSC_MAP_ATTENTION,
    LIPSC_MAP_NORM_ATTENTION,
    LIPSC_MAP_RESIDUAL,
    LIPSC_MAP_BLOCK,
    LIPSC_MAP_MODEL
} lipsc_map_kind;

LIPSC_API const char *lipsc_map_name(lipsc_map_kind map); /* "norm-attention", ... */

/* Layer `layer` as the core sees it; head < 0: all heads, else that query head alone with
 * its key/value head and its slice of the output projection.  map: heads or attention.
 * mask_override: NULL for the model's own.  Arrays stay valid until the model is freed, or
 * until whoever is done with them lets the layer go (lipsc_model_let_go). */
LIPSC_API lipsc_status lipsc_model_layer(lipsc_model *model, size_t layer, long head,
                                         lipsc_map_kind map,
                                         const lipsc_mask *mask_override, lipsc_layer *out,
                                         lipsc_error *err);

typedef struct {
    lipsc_map_kind map;
    size_t layer;                    /* ignored by LIPSC_MAP_MODEL                       */
    long head;                       /* -1: all; only with heads and attention           */
    const lipsc_mask *mask_override; /* NULL: the model's own                            */
    lipsc_dtype dtype;
    lipsc_device *device; /* NULL: the CPU                                               */
} lipsc_map_options;

/* The map's Jacobian at the activations; packed weights are the model's and shared by all
 * windows.  Refuses by name what has no meaning (norm-attention of a post-norm model, one
 * head of a block).  Any number of maps may be used from different threads at once, each
 * map from one thread at a time. */
typedef struct lipsc_map lipsc_map;
LIPSC_API lipsc_status lipsc_map_new(lipsc_model *model, const lipsc_acts *acts,
                                     const lipsc_map_options *options, lipsc_map **out,
                                     lipsc_error *err);
/* The same at x (n, d), the map's own input: that of attention for heads and attention, of
 * the block for the others.  x is copied. */
LIPSC_API lipsc_status lipsc_map_new_at(lipsc_model *model, size_t n, const double *x,
                                        const lipsc_map_options *options, lipsc_map **out,
                                        lipsc_error *err);
LIPSC_API void lipsc_map_free(lipsc_map *map);

/* Products in the map's precision, handed over in double; valid as long as the map. */
LIPSC_API lipsc_op lipsc_map_op(lipsc_map *map);

/* The attention inside, for the bounds of bound.h; NULL for LIPSC_MAP_MODEL. */
LIPSC_API lipsc_attn *lipsc_map_attn(lipsc_map *map);

/* How far the nearest switch of experts is: the smallest lead, in router logits, of an
 * expert that a token takes over one that it does not; NaN where the map has none. */
LIPSC_API double lipsc_map_routing_gap(const lipsc_map *map);

/* sigma, u, v, info as lipsc_attn_sigma: solved in the map's precision, re-evaluated in
 * double with the stored weights and the activations as doubles.  rounding and lower are
 * NaN for LIPSC_MAP_MODEL. */
LIPSC_API lipsc_status lipsc_map_sigma(lipsc_map *map, const lipsc_svd_settings *set,
                                       double *sigma, double *u, double *v,
                                       lipsc_svd_info *info);

/* A proved and tight upper bound, as lipsc_attn_certify, by products in double. */
LIPSC_API lipsc_status lipsc_map_certify(lipsc_map *map, const double *v,
                                         const lipsc_certify_settings *set,
                                         lipsc_certificate *out, lipsc_error *err);

/* lipsc_attn_released for any map. */
LIPSC_API lipsc_status lipsc_map_released(lipsc_map *map, double *value);

/* ---- Memory ----------------------------------------------------------------------- */

/* Weights are made ready from the mapped files when they are needed, block by block.  Maps
 * and forward passes hold the blocks that they work with; who needs a block for several of
 * them holds it as well, so that it is made ready once.  A block that nobody holds may be
 * freed and made ready again.  As often let go as held; from any thread. */
LIPSC_API void lipsc_model_hold(lipsc_model *model, size_t layer);
LIPSC_API void lipsc_model_let_go(lipsc_model *model, size_t layer);

/* Bytes that the weights of the largest block take when they are ready for such a map, for
 * the value in double that goes with it, and for the forward pass. */
LIPSC_API uint64_t lipsc_model_block_bytes(const lipsc_model *model, lipsc_map_kind map,
                                           lipsc_dtype dtype);

/* Bytes that come on top while the largest matrix of a block is made ready. */
LIPSC_API uint64_t lipsc_model_reading_bytes(const lipsc_model *model);

#ifdef __cplusplus
}
#endif
#endif
