/* family_encoders.c - descriptions of the models that read text in both directions, and of
 * the text part of CLIP. */
#include "model/family_macros.h"

#include <stdint.h>

/* BERT: norms behind the additions, three embeddings and their norm. */
#define BERT_WITH(activation_field)                                                  \
    .field = {USUAL_SIZES, .activation = activation_field, .eps = "layer_norm_eps"}, \
    .activation = "gelu", .eps = 1e-12, .qkv_bias = ALWAYS, .out_bias = ALWAYS,      \
    .mlp_bias = ALWAYS

#define BERT_LIKE BERT_WITH("hidden_act"), .causal = {"is_decoder", 0}

#define BERT_EMBEDDINGS                                          \
    [LIPSC_TOKENS] = "embeddings.word_embeddings.weight",        \
    [LIPSC_POSITIONS] = "embeddings.position_embeddings.weight", \
    WITH_BIAS(LIPSC_EMBED_NORM, "embeddings.LayerNorm")

#define BERT_TYPES [LIPSC_TYPES] = "embeddings.token_type_embeddings.weight"

#define BERT_ATTENTION                                                              \
    ATTENTION("encoder.layer.#.attention.", "self.query", "self.key", "self.value", \
              "output.dense")

#define BERT_MLP MLP("encoder.layer.#.intermediate.dense", "encoder.layer.#.output.dense")

#define BERT_NORMS                                                                \
    WITH_BIAS(LIPSC_ATTN_SUM_NORM, "encoder.layer.#.attention.output.LayerNorm"), \
        WITH_BIAS(LIPSC_MLP_SUM_NORM, "encoder.layer.#.output.LayerNorm")

#define ALBERT_LAYER "encoder.albert_layer_groups.0.albert_layers.0."

#define ROBERTA_LIKE BERT_LIKE, .position_after_pad = 1, .pad = 1

#define ESM_LIKE                                            \
    BERT_WITH(NULL), .causal = {"is_decoder", 0}, .pad = 1, \
                     .mask_dropout = "token_dropout",       \
                     .only = {{"is_folding_model", "false"}}

#define ESM_EMBED_NORM WITH_BIAS(LIPSC_EMBED_NORM, "embeddings.layer_norm")

#define ESM_NAMES                                                                          \
    [LIPSC_TOKENS] = "embeddings.word_embeddings.weight",                                  \
    WITH_BIAS(LIPSC_FINAL_NORM, "encoder.emb_layer_norm_after"), BERT_ATTENTION, BERT_MLP, \
    WITH_BIAS(LIPSC_ATTN_NORM, "encoder.layer.#.attention.LayerNorm"),                     \
    WITH_BIAS(LIPSC_MLP_NORM, "encoder.layer.#.LayerNorm")

/* The encoder of T5; its first layer holds the bias of the scores for all of them. */
#define T5_LIKE                                        \
    .field = {.layers = "num_layers",                  \
              .width = "d_model",                      \
              .heads = "num_heads",                    \
              .head_dim = "d_kv",                      \
              .ffn = "d_ff",                           \
              .activation = "dense_act_fn",            \
              .eps = "layer_norm_epsilon"},            \
    .eps = 1e-6, .rms = 1, .unscaled = ALWAYS,         \
    .buckets = {"relative_attention_num_buckets", 32}, \
    .bucket_distance = {"relative_attention_max_distance", 128}

#define T5_FFN "encoder.block.#.layer.1.DenseReluDense."

#define T5_NAMES                                                                \
    [LIPSC_TOKENS] = "shared.weight",                                           \
    [LIPSC_FINAL_NORM] = "encoder.final_layer_norm.weight",                     \
    [LIPSC_SCORE_BIAS] =                                                        \
        "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", \
    ATTENTION("encoder.block.#.layer.0.SelfAttention.", "q", "k", "v", "o"),    \
    [LIPSC_ATTN_NORM] = "encoder.block.#.layer.0.layer_norm.weight",            \
    [LIPSC_MLP_NORM] = "encoder.block.#.layer.1.layer_norm.weight",             \
    [LIPSC_DOWN] = T5_FFN "wo.weight"

#define T5_GATED [LIPSC_GATE] = T5_FFN "wi_0.weight", [LIPSC_UP] = T5_FFN "wi_1.weight"

#define CLIP_TEXT_LIKE                                                           \
    .prefix = {"text_model."},                                                   \
    .field = {USUAL_SIZES, .activation = "hidden_act", .eps = "layer_norm_eps"}, \
    .pad = SIZE_MAX, .qkv_bias = ALWAYS, .out_bias = ALWAYS, .mlp_bias = ALWAYS

#define CLIP_TEXT_NAMES                                                                 \
    [LIPSC_TOKENS] = "embeddings.token_embedding.weight",                               \
    [LIPSC_POSITIONS] = "embeddings.position_embedding.weight",                         \
    WITH_BIAS(LIPSC_FINAL_NORM, "final_layer_norm"),                                    \
    WITH_BIAS(LIPSC_ATTN_NORM, "encoder.layers.#.layer_norm1"),                         \
    WITH_BIAS(LIPSC_MLP_NORM, "encoder.layers.#.layer_norm2"),                          \
    ATTENTION("encoder.layers.#.self_attn.", "q_proj", "k_proj", "v_proj", "out_proj"), \
    MLP("encoder.layers.#.mlp.fc1", "encoder.layers.#.mlp.fc2")

const lipsc_family lipsc_families_encoders[] = {
    {.name = "bert",
     BERT_LIKE,
     .tensor = {BERT_EMBEDDINGS, BERT_TYPES, BERT_ATTENTION, BERT_MLP, BERT_NORMS}},
    {.name = "roberta",
     ROBERTA_LIKE,
     .tensor = {BERT_EMBEDDINGS, BERT_TYPES, BERT_ATTENTION, BERT_MLP, BERT_NORMS}},
    {.name = "xlm-roberta",
     ROBERTA_LIKE,
     .tensor = {BERT_EMBEDDINGS, BERT_TYPES, BERT_ATTENTION, BERT_MLP, BERT_NORMS}},
    {.name = "electra",
     BERT_LIKE,
     .embed_width = "embedding_size",
     .tensor = {BERT_EMBEDDINGS, BERT_TYPES, BERT_ATTENTION, BERT_MLP, BERT_NORMS,
                WITH_BIAS(LIPSC_EMBED_PROJECT, "embeddings_project")}},
    {.name = "albert", /* one layer, passed as often as there are layers */
     .field = {USUAL_SIZES, .activation = "hidden_act", .eps = "layer_norm_eps"},
     .only = {{"num_hidden_groups", "1"}, {"inner_group_num", "1"}},
     .activation = "gelu_new",
     .eps = 1e-12,
     .qkv_bias = ALWAYS,
     .out_bias = ALWAYS,
     .mlp_bias = ALWAYS,
     .embed_width = "embedding_size",
     .embed_projected = 1,
     .tensor = {BERT_EMBEDDINGS, BERT_TYPES,
                WITH_BIAS(LIPSC_EMBED_PROJECT, "encoder.embedding_hidden_mapping_in"),
                ATTENTION(ALBERT_LAYER "attention.", "query", "key", "value", "dense"),
                MLP(ALBERT_LAYER "ffn", ALBERT_LAYER "ffn_output"),
                WITH_BIAS(LIPSC_ATTN_SUM_NORM, ALBERT_LAYER "attention.LayerNorm"),
                WITH_BIAS(LIPSC_MLP_SUM_NORM, ALBERT_LAYER "full_layer_layer_norm")}},
    {.name = "mpnet",
     BERT_WITH("hidden_act"),
     .only = {{"relative_attention_num_buckets", "32"}},
     .position_after_pad = 1,
     .pad = 1,
     .pad_fixed = 1,
     .buckets = {NULL, 32},
     .bucket_distance = {NULL, 128},
     .tensor = {BERT_EMBEDDINGS, BERT_MLP,
                ATTENTION("encoder.layer.#.attention.attn.", "q", "k", "v", "o"),
                [LIPSC_SCORE_BIAS] = "encoder.relative_attention_bias.weight",
                WITH_BIAS(LIPSC_ATTN_SUM_NORM, "encoder.layer.#.attention.LayerNorm"),
                WITH_BIAS(LIPSC_MLP_SUM_NORM, "encoder.layer.#.output.LayerNorm")}},
    {.name = "t5",
     .when = {{"feed_forward_proj", "\"gated-gelu\""}},
     T5_LIKE,
     .only = {{"is_encoder_decoder", "true"}},
     .activation = "gelu_new",
     .tensor = {T5_NAMES, T5_GATED}},
    {.name = "t5",
     .when = {{"feed_forward_proj", "\"gated-silu\""}},
     T5_LIKE,
     .only = {{"is_encoder_decoder", "true"}},
     .activation = "silu",
     .tensor = {T5_NAMES, T5_GATED}},
    {.name = "t5",
     T5_LIKE,
     .only = {{"feed_forward_proj", "\"relu\""}, {"is_encoder_decoder", "true"}},
     .activation = "relu",
     .tensor = {T5_NAMES, [LIPSC_UP] = T5_FFN "wi.weight"}},
    {.name = "distilbert",
     .field = {.layers = "n_layers",
               .width = "dim",
               .heads = "n_heads",
               .ffn = "hidden_dim",
               .positions = "max_position_embeddings",
               .activation = "activation"},
     .activation = "gelu",
     .eps = 1e-12,
     .qkv_bias = ALWAYS,
     .out_bias = ALWAYS,
     .mlp_bias = ALWAYS,
     .tensor = {BERT_EMBEDDINGS,
                ATTENTION("transformer.layer.#.attention.", "q_lin", "k_lin", "v_lin",
                          "out_lin"),
                MLP("transformer.layer.#.ffn.lin1", "transformer.layer.#.ffn.lin2"),
                WITH_BIAS(LIPSC_ATTN_SUM_NORM, "transformer.layer.#.sa_layer_norm"),
                WITH_BIAS(LIPSC_MLP_SUM_NORM, "transformer.layer.#.output_layer_norm")}},
    {.name = "esm",
     .when = {{"position_embedding_type", "\"rotary\""}, {"emb_layer_norm_before", "true"}},
     ESM_LIKE,
     .rotary = LIPSC_ROTARY_HALVES,
     .theta = {"rope_theta", 1e4},
     .tensor = {ESM_NAMES, ESM_EMBED_NORM}},
    {.name = "esm",
     .when = {{"position_embedding_type", "\"rotary\""}},
     ESM_LIKE,
     .rotary = LIPSC_ROTARY_HALVES,
     .theta = {"rope_theta", 1e4},
     .tensor = {ESM_NAMES}},
    {.name = "esm",
     .when = {{"emb_layer_norm_before", "true"}},
     ESM_LIKE,
     .position_after_pad = 1,
     .tensor =
         {ESM_NAMES,
          ESM_EMBED_NORM, [LIPSC_POSITIONS] = "embeddings.position_embeddings.weight"}},
    {.name = "esm",
     ESM_LIKE,
     .position_after_pad = 1,
     .tensor = {ESM_NAMES, [LIPSC_POSITIONS] = "embeddings.position_embeddings.weight"}},
    {.name = "modernbert",
     .field = {USUAL_SIZES, .activation = "hidden_activation", .eps = "norm_eps"},
     .activation = "gelu",
     .eps = 1e-5,
     .only = {{"norm_bias", "false"}, {"rope_scaling", "null"}, {"sliding_window", "null"}},
     .pad = SIZE_MAX,
     .first_unnormed = 1,
     .qkv_bias = {"attention_bias", 0},
     .out_bias = {"attention_bias", 0},
     .rotary = LIPSC_ROTARY_HALVES,
     .theta = {"global_rope_theta", 160000},
     .local_theta = {"local_rope_theta", 10000},
     .window_rule = LIPSC_WINDOW_BUT_MULTIPLES,
     .window_number = {"global_attn_every_n_layers", 3},
     .window = {"local_attention", 128},
     .window_both = 1,
     .mlp_bias = {"mlp_bias", 0},
     .tensor = {[LIPSC_TOKENS] = "embeddings.tok_embeddings.weight",
                [LIPSC_EMBED_NORM] = "embeddings.norm.weight",
                [LIPSC_FINAL_NORM] = "final_norm.weight",
                [LIPSC_ATTN_NORM] = "layers.#.attn_norm.weight",
                [LIPSC_MLP_NORM] = "layers.#.mlp_norm.weight",
                WITH_BIAS(LIPSC_QKV, "layers.#.attn.Wqkv"),
                WITH_BIAS(LIPSC_OUT, "layers.#.attn.Wo"),
                WITH_BIAS(LIPSC_GATE_UP, "layers.#.mlp.Wi"),
                WITH_BIAS(LIPSC_DOWN, "layers.#.mlp.Wo")}},
    {.name = "clip_text_model",
     CLIP_TEXT_LIKE,
     .activation = "quick_gelu",
     .eps = 1e-5,
     .causal = ALWAYS,
     .no_logits = 1,
     .tensor = {CLIP_TEXT_NAMES}},
    {.name = "siglip_text_model",
     CLIP_TEXT_LIKE,
     .activation = "gelu_pytorch_tanh",
     .eps = 1e-6,
     .tensor = {CLIP_TEXT_NAMES}},
    {.name = "siglip2_text_model",
     CLIP_TEXT_LIKE,
     .activation = "gelu_pytorch_tanh",
     .eps = 1e-6,
     .tensor = {CLIP_TEXT_NAMES}},
    {0}};
