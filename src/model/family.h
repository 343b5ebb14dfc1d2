/* family.h - the model families: how they differ, what their files call things. */
#ifndef LIPSC_MODEL_FAMILY_H
#define LIPSC_MODEL_FAMILY_H

#include <stddef.h>

/* Every tensor that a hidden state depends on.  Those before LIPSC_LAYER_ROLES exist once,
 * the others once per layer. */
typedef enum {
    LIPSC_TOKENS,
    LIPSC_POSITIONS,
    LIPSC_TYPES,
    LIPSC_CLASS_TOKEN,
    LIPSC_PATCH,
    LIPSC_PATCH_BIAS,
    LIPSC_EMBED_NORM,
    LIPSC_EMBED_NORM_BIAS,
    LIPSC_FINAL_NORM,
    LIPSC_FINAL_NORM_BIAS,
    LIPSC_LAYER_ROLES,
    LIPSC_ATTN_NORM = LIPSC_LAYER_ROLES,
    LIPSC_ATTN_NORM_BIAS,
    LIPSC_QKV, /* query, key and value side by side (gpt2) */
    LIPSC_QKV_BIAS,
    LIPSC_QUERY,
    LIPSC_QUERY_BIAS,
    LIPSC_KEY,
    LIPSC_KEY_BIAS,
    LIPSC_VALUE,
    LIPSC_VALUE_BIAS,
    LIPSC_OUT,
    LIPSC_OUT_BIAS,
    LIPSC_QUERY_NORM,
    LIPSC_KEY_NORM,
    LIPSC_MLP_ROLES, /* from here on: not needed by attention */
    LIPSC_MLP_NORM = LIPSC_MLP_ROLES,
    LIPSC_MLP_NORM_BIAS,
    LIPSC_UP,
    LIPSC_UP_BIAS,
    LIPSC_GATE,
    LIPSC_GATE_BIAS,
    LIPSC_DOWN,
    LIPSC_DOWN_BIAS,
    LIPSC_ROLES
} lipsc_role;

typedef struct {
    const char *name; /* model_type in config.json                                    */
    int pre_norm;     /* norm in front of attention and MLP, not behind their sums    */
    int rms;          /* root-mean-square norms without bias                          */
    int causal;
    int rotary;
    int gated;      /* MLP: down(act(gate x) * up x)                                */
    int transposed; /* weights are stored (in, out)                                 */
    int pixels;     /* the input is an image                                        */
    int position_after_pad; /* the first position is pad_token_id + 1                   */
    /* names of the fields of config.json that every family has under some name */
    struct {
        const char *layers, *width, *heads, *ffn, *positions, *activation, *eps;
    } field;
    const char *activation; /* where the field is absent, as the published code does    */
    double eps;             /* the same                                                 */
    const char *tensor[LIPSC_ROLES]; /* '#' stands for the layer; NULL: has none        */
} lipsc_family;

/* NULL when there is no such family.  i counts from 0 and ends with NULL. */
const lipsc_family *lipsc_family_find(const char *name);
const lipsc_family *lipsc_family_at(size_t i);

#endif
