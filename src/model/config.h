/* config.h - config.json as plain numbers: everything that changes the computation. */
#ifndef LIPSC_MODEL_CONFIG_H
#define LIPSC_MODEL_CONFIG_H

#include "backend/backend.h"
#include "model/family.h"
#include "model/model.h"

#define LIPSC_NO_TOKEN SIZE_MAX

/* Rotary positions of one kind of layers. */
typedef struct {
    size_t dim;    /* components that turn; 0: none                                  */
    double *freq;  /* (dim / 2)                                                      */
    double factor; /* of the sines and cosines                                       */
} lipsc_rope;

/* What a layer sees. */
typedef enum { LIPSC_LAYER_FULL, LIPSC_LAYER_WINDOW, LIPSC_LAYER_KINDS } lipsc_layer_kind;

/* The places of a block where a norm may stand; the roles have the same order. */
typedef enum {
    LIPSC_NORM_ATTN,
    LIPSC_NORM_ATTN_POST,
    LIPSC_NORM_ATTN_SUM,
    LIPSC_NORM_MLP,
    LIPSC_NORM_MLP_POST,
    LIPSC_NORM_MLP_SUM,
    LIPSC_NORM_COUNT
} lipsc_norm_place;

typedef struct {
    const lipsc_family *family;
    size_t layers, d, heads, kv_heads, head_dim, ffn, vocab;
    size_t positions;   /* longest text or rows of the position table, 0: not said       */
    size_t pad;         /* id of the padding token, or LIPSC_NO_TOKEN                    */
    size_t types;       /* rows of the token type table                                  */
    size_t embed_width; /* of the embeddings before they are projected */
    int embed_projected;
    size_t channels, image[2], patch[2]; /* height, width                               */
    double norm_eps;
    double initializer_range; /* only of random weights                                 */
    int sinusoidal;           /* positions are sines; matters only to random weights    */
    lipsc_activation activation;
    int qkv_bias, out_bias, mlp_bias;
    int causal, parallel, norm_last;
    int tied;           /* the table of the output is that of the embeddings            */
    double logit_cap;   /* of the logits; 0: none, below 0: not a number                */
    double scale;       /* of the scores                            */
    int scale_by_layer; /* those of layer l are divided by l + 1    */
    double embed_factor, residual_factor; /* 1: none                                  */
    double soft_cap; /* 0: none                                                         */
    int alibi;
    size_t buckets, bucket_distance; /* 0: none                                         */
    size_t experts, experts_used;    /* 0: one MLP for every token                      */
    /* > 0: (up + 1) gate s(alpha gate) with gate <= limit and |up| <= limit instead of
     * act(gate) up */
    double glu_alpha, glu_limit;
    int mask_dropout;  /* esm: see embed.c                         */
    size_t mask_token; /* the same                                 */
    lipsc_rope rope[LIPSC_LAYER_KINDS];
    size_t window;           /* of the layers marked in `sliding`                       */
    unsigned char *sliding;  /* (layers)                                                */
    unsigned char *unturned; /* (layers) 1: without the rotary positions of the others  */
} lipsc_config;

/* The bytes of a config.json; name stands for the file in sentences.  Nothing of the bytes
 * is kept.  A field whose value is not supported is refused by its name.  part: of a model
 * that has several, LIPSC_PART_WHOLE of the others. */
lipsc_status lipsc_config_parse(const char *json, size_t size, const char *name,
                                lipsc_part part, lipsc_config *out, lipsc_error *err);
void lipsc_config_free(lipsc_config *config);

/* 1 and the role of the gain, or 0 when layer has no norm there. */
int lipsc_config_norm(const lipsc_config *config, size_t layer, lipsc_norm_place place,
                      lipsc_role *gain);
lipsc_mask lipsc_config_mask(const lipsc_config *config, size_t layer);

/* The i-th name of models of several parts, NULL behind the last. */
const char *lipsc_config_wrapper(size_t i);
/* Names of all families, separated by commas. */
enum { LIPSC_FAMILY_NAMES = 600 };
void lipsc_config_families(int gguf, char names[LIPSC_FAMILY_NAMES]);

/* The MLP is down(act(gate x) * up x). */
static inline int lipsc_config_gated(const lipsc_config *config) {
    return config->family->tensor[LIPSC_GATE] || config->family->tensor[LIPSC_GATE_UP];
}

/* The published configuration of a family as JSON: random:FAMILY[:SIZE].  NULL when there
 * is none of that name; size NULL or "" is the usual one. */
const char *lipsc_published_config(const char *family, size_t family_length,
                                   const char *size);

#endif
