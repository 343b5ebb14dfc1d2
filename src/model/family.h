/* family.h - the description of a model family: everything that one differs from another
 * by.
 *
 * A description is data.  config.c reads config.json by it, tensors.c finds the weights by
 * it, block.c runs the forward pass and the derivatives by it; none of them knows a family
 * by name.  docs/families.md says what each entry means. */
#ifndef LIPSC_MODEL_FAMILY_H
#define LIPSC_MODEL_FAMILY_H

#include <stddef.h>

/* Every tensor that a hidden state depends on.  Those before LIPSC_LAYER_ROLES exist once,
 * the others once per layer.  A bias stands behind what it belongs to. */
typedef enum {
    LIPSC_TOKENS,
    LIPSC_POSITIONS,
    LIPSC_TYPES,
    LIPSC_CLASS_TOKEN,
    LIPSC_DISTILLATION_TOKEN,
    LIPSC_PATCH,
    LIPSC_PATCH_BIAS,
    LIPSC_EMBED_NORM,
    LIPSC_EMBED_NORM_BIAS,
    LIPSC_EMBED_PROJECT, /* from the width of the embeddings to that of the blocks   */
    LIPSC_EMBED_PROJECT_BIAS,
    LIPSC_FINAL_NORM,
    LIPSC_FINAL_NORM_BIAS,
    LIPSC_SCORE_BIAS, /* (buckets, heads), shared by all layers                       */
    LIPSC_LAYER_ROLES,
    /* The norms of a block: in front of attention, behind it but before the addition, and
     * behind the addition; the same for the MLP.  A place without a name has no norm. */
    LIPSC_ATTN_NORM = LIPSC_LAYER_ROLES,
    LIPSC_ATTN_NORM_BIAS,
    LIPSC_ATTN_POST_NORM,
    LIPSC_ATTN_POST_NORM_BIAS,
    LIPSC_ATTN_SUM_NORM,
    LIPSC_ATTN_SUM_NORM_BIAS,
    LIPSC_MLP_NORM,
    LIPSC_MLP_NORM_BIAS,
    LIPSC_MLP_POST_NORM,
    LIPSC_MLP_POST_NORM_BIAS,
    LIPSC_MLP_SUM_NORM,
    LIPSC_MLP_SUM_NORM_BIAS,
    LIPSC_ATTN_SCALE, /* a factor of each component of what attention adds            */
    LIPSC_MLP_SCALE,
    LIPSC_ATTN_ROLES,
    LIPSC_QKV = LIPSC_ATTN_ROLES, /* query, key and value in one matrix: see qkv      */
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
    LIPSC_SINKS,
    LIPSC_MLP_ROLES,
    LIPSC_GATE_UP = LIPSC_MLP_ROLES, /* rows of the gate, then those of up            */
    LIPSC_GATE_UP_BIAS,
    LIPSC_UP,
    LIPSC_UP_BIAS,
    LIPSC_GATE,
    LIPSC_GATE_BIAS,
    LIPSC_DOWN,
    LIPSC_DOWN_BIAS,
    LIPSC_ROUTER, /* with it: gate, up and down are those of one expert, '@' is its
                   * number, or without '@' of all experts in one tensor            */
    LIPSC_ROUTER_BIAS,
    LIPSC_ROLES
} lipsc_role;

/* A field of config.json and what it is where it is absent; without a field, what it is.
 * Several spellings of one field are separated by '|'; '!' in front of a flag turns it
 * round. */
typedef struct {
    const char *field;
    int otherwise;
} lipsc_flag;

typedef struct {
    const char *field;
    double otherwise;
} lipsc_number;

/* How a matrix of queries, keys and values is stacked. */
typedef enum {
    LIPSC_QKV_BLOCKS, /* all queries, all keys, all values                           */
    LIPSC_QKV_GROUPS  /* per key head: its queries, its key, its value               */
} lipsc_qkv_layout;

typedef enum {
    LIPSC_ROTARY_NONE,
    LIPSC_ROTARY_HALVES, /* component l turns with l + rotary_dim / 2                */
    LIPSC_ROTARY_PAIRS   /* component 2 l turns with 2 l + 1                         */
} lipsc_rotary_style;

/* Which layers see through the window, where layer_types does not say it. */
typedef enum {
    LIPSC_WINDOW_NEVER,
    LIPSC_WINDOW_ALL,
    LIPSC_WINDOW_FROM,         /* layers from number on                              */
    LIPSC_WINDOW_BUT_EVERY,    /* all but each number-th one, counted from one       */
    LIPSC_WINDOW_BUT_MULTIPLES /* all but the multiples of number, counted from zero */
} lipsc_window_rule;

/* A condition on config.json: the field, written as JSON, is this text. */
typedef struct {
    const char *field, *is;
} lipsc_condition;

enum { LIPSC_CONDITIONS = 2, LIPSC_REFUSALS = 6, LIPSC_PREFIXES = 4 };

typedef struct {
    const char *name; /* model_type in config.json                                   */
    /* several descriptions of one name: the first whose conditions hold is taken */
    lipsc_condition when[LIPSC_CONDITIONS];
    /* fields that must be absent, null or this; everything else is refused by name */
    lipsc_condition only[LIPSC_REFUSALS];

    /* what published files put in front of the names below, beside what every wrapper adds
     */
    const char *prefix[LIPSC_PREFIXES];

    struct {
        const char *layers, *width, *heads, *kv_heads, *head_dim, *ffn, *positions;
        const char *activation, *eps;
    } field;
    size_t head_dim;        /* where the field is absent; 0: width / heads              */
    int kv_heads_needed;    /* the field may be null, but not absent                    */
    lipsc_flag one_kv_head; /* all queries share one key and value                      */
    lipsc_number ffn_times; /* where the field of ffn is absent: times width            */
    int ffn_thirds; /* and two thirds of that, rounded up to a multiple of 8            */
    const char *activation; /* where the field is absent, as the published code does    */
    const char *gelu;       /* what the name gelu stands for; NULL: itself              */
    double eps;             /* the same                                                 */

    /* ---- the input ---- */
    int pixels;              /* an image                                                 */
    int position_after_pad;  /* the first position is pad_token_id + 1                   */
    size_t position_offset;  /* rows of the position table before the first              */
    int position_last;       /* positions are added behind the projection               */
    size_t pad;              /* where pad_token_id is absent                             */
    int pad_fixed;           /* it is that one whatever pad_token_id says                */
    const char *embed_width; /* field: width of the embeddings, then projected      */
    int embed_projected;     /* also where it is that of the blocks                      */
    int no_logits;           /* causal, but made to predict no next token                */
    int embed_root;          /* embeddings are multiplied by sqrt(width)            */
    const char *embed_multiplier; /* field: embeddings are multiplied by it             */
    const char *mask_dropout;     /* flag: embeddings rescaled as in training (esm)      */

    /* ---- a block ---- */
    int rms;              /* root-mean-square norms, else layer norms                */
    double gain_offset;   /* gains are stored as offsets from this                   */
    int first_unnormed;   /* the first layer has no norm in front of attention       */
    lipsc_flag norm_last; /* norms named "in front" stand behind the additions       */
    lipsc_flag parallel;  /* the MLP reads the block's input, not attention's sum    */
    int parallel_shares;  /* and then through attention's norm                       */
    const char *residual_multiplier; /* field: both additions are multiplied by it      */

    /* ---- attention ---- */
    lipsc_flag causal;
    int transposed; /* dense weights are stored (in, out)                               */
    lipsc_qkv_layout qkv;
    lipsc_flag qkv_bias, out_bias;
    int norm_whole;            /* query and key norms span all heads of a token         */
    lipsc_flag unscaled;       /* scores are not divided by sqrt(head_dim)              */
    lipsc_flag scale_by_layer; /* scores of layer l are divided by l + 1                */
    const char *scale;         /* field: the factor of the scores                       */
    lipsc_number scale_root;   /* scores are divided by its root; 0: that of head_dim   */
    lipsc_number soft_cap;     /* scores are capped by its tanh; null: not              */
    lipsc_flag alibi;          /* a bias by distance, the published slopes              */
    lipsc_number buckets, bucket_distance; /* of the table LIPSC_SCORE_BIAS             */

    /* ---- rotary positions ---- */
    lipsc_rotary_style rotary;
    lipsc_number theta, local_theta; /* local: of layers that see through the window    */
    int rope_needed; /* how they are stretched must stand there                         */
    int longrope;    /* the only stretching, also under the names su and yarn           */
    size_t trained;  /* original_max_position_embeddings where it is absent; 0: none    */
    lipsc_number rotary_part;  /* share of head_dim that turns                    */
    const char *rotary_dim;    /* field: how many components turn                 */
    const char *rotary_layers; /* field: list, 1 where a layer turns              */
    lipsc_number rotary_skip;  /* else each number-th layer does not turn; 0: all */

    /* ---- windows ---- */
    lipsc_window_rule window_rule;
    lipsc_number window_number;
    lipsc_number window;       /* its width; null or 0: none                            */
    int window_both;           /* half of it on each side                               */
    const char *window_used;   /* flag that must be true                                */
    const char *window_layers; /* field: list of names; see config.c                    */

    /* ---- the MLP ---- */
    lipsc_flag mlp_bias;
    const char *experts, *experts_used; /* fields: how many there are, and per token    */
    const char *packed;      /* quant_method in which experts may be stored: mxfp4     */
    int experts_interleaved; /* of one tensor (experts, in, out): gate and up alternate */
    int experts_rows; /* of one tensor: (experts, out, in)                              */
    lipsc_number glu_alpha, glu_limit; /* clamped gate: see lipsc_config               */

    const char *tensor[LIPSC_ROLES]; /* '#' stands for the layer; NULL: has none        */
} lipsc_family;

/* i counts from 0 and ends with NULL. */
const lipsc_family *lipsc_family_at(size_t i);

/* Its name without what marks the descriptions of GGUF files. */
const char *lipsc_family_shown(const lipsc_family *family);

/* The tables, each ending with a family without a name. */
extern const lipsc_family lipsc_families_decoders[], lipsc_families_encoders[],
    lipsc_families_images[], lipsc_families_gguf[];

#endif
