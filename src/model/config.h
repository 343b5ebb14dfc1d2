/* config.h - config.json as plain numbers: everything that changes the computation. */
#ifndef LIPSC_MODEL_CONFIG_H
#define LIPSC_MODEL_CONFIG_H

#include "backend/backend.h"
#include "model/family.h"

#define LIPSC_NO_TOKEN SIZE_MAX

typedef struct {
    const lipsc_family *family;
    size_t layers, d, heads, kv_heads, head_dim, ffn, vocab;
    size_t positions; /* rows of the position table; rotary: longest text, 0: not said */
    size_t pad;       /* id of the padding token, or LIPSC_NO_TOKEN                    */
    size_t types;     /* rows of the token type table                                  */
    size_t channels, image[2], patch[2]; /* height, width                               */
    double norm_eps, rope_theta;
    double initializer_range; /* only of random weights                                 */
    int sinusoidal;           /* positions are sines; matters only to random weights    */
    lipsc_activation activation;
    int qkv_bias, out_bias, mlp_bias;
    int causal;
    int unscaled;       /* gpt2: scores are not divided by sqrt(head_dim)              */
    int scale_by_layer; /* gpt2: scores of layer l are divided by l + 1                */
    size_t window;      /* of the layers marked in `sliding`                           */
    unsigned char *sliding; /* (layers)                                                 */
} lipsc_config;

/* The bytes of a config.json; name stands for the file in sentences.  Nothing of the bytes
 * is kept.  A field whose value is not supported is refused by its name. */
lipsc_status lipsc_config_parse(const char *json, size_t size, const char *name,
                                lipsc_config *out, lipsc_error *err);
void lipsc_config_free(lipsc_config *config);

/* The published configuration of a family as JSON: random:FAMILY[:SIZE].  NULL when there
 * is none of that name; size NULL or "" is the usual one. */
const char *lipsc_published_config(const char *family, size_t family_length,
                                   const char *size);

#endif
