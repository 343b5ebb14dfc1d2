/* family.c - the table of model families. */
#include "model/family.h"

#include <string.h>

#define BERT_TENSORS                                                            \
    [LIPSC_TOKENS] = "embeddings.word_embeddings.weight",                       \
    [LIPSC_POSITIONS] = "embeddings.position_embeddings.weight",                \
    [LIPSC_TYPES] = "embeddings.token_type_embeddings.weight",                  \
    [LIPSC_EMBED_NORM] = "embeddings.LayerNorm.weight",                         \
    [LIPSC_EMBED_NORM_BIAS] = "embeddings.LayerNorm.bias",                      \
    [LIPSC_QUERY] = "encoder.layer.#.attention.self.query.weight",              \
    [LIPSC_QUERY_BIAS] = "encoder.layer.#.attention.self.query.bias",           \
    [LIPSC_KEY] = "encoder.layer.#.attention.self.key.weight",                  \
    [LIPSC_KEY_BIAS] = "encoder.layer.#.attention.self.key.bias",               \
    [LIPSC_VALUE] = "encoder.layer.#.attention.self.value.weight",              \
    [LIPSC_VALUE_BIAS] = "encoder.layer.#.attention.self.value.bias",           \
    [LIPSC_OUT] = "encoder.layer.#.attention.output.dense.weight",              \
    [LIPSC_OUT_BIAS] = "encoder.layer.#.attention.output.dense.bias",           \
    [LIPSC_ATTN_NORM] = "encoder.layer.#.attention.output.LayerNorm.weight",    \
    [LIPSC_ATTN_NORM_BIAS] = "encoder.layer.#.attention.output.LayerNorm.bias", \
    [LIPSC_UP] = "encoder.layer.#.intermediate.dense.weight",                   \
    [LIPSC_UP_BIAS] = "encoder.layer.#.intermediate.dense.bias",                \
    [LIPSC_DOWN] = "encoder.layer.#.output.dense.weight",                       \
    [LIPSC_DOWN_BIAS] = "encoder.layer.#.output.dense.bias",                    \
    [LIPSC_MLP_NORM] = "encoder.layer.#.output.LayerNorm.weight",               \
    [LIPSC_MLP_NORM_BIAS] = "encoder.layer.#.output.LayerNorm.bias"

#define LLAMA_TENSORS                                                           \
    [LIPSC_TOKENS] = "embed_tokens.weight", [LIPSC_FINAL_NORM] = "norm.weight", \
    [LIPSC_ATTN_NORM] = "layers.#.input_layernorm.weight",                      \
    [LIPSC_QUERY] = "layers.#.self_attn.q_proj.weight",                         \
    [LIPSC_QUERY_BIAS] = "layers.#.self_attn.q_proj.bias",                      \
    [LIPSC_KEY] = "layers.#.self_attn.k_proj.weight",                           \
    [LIPSC_KEY_BIAS] = "layers.#.self_attn.k_proj.bias",                        \
    [LIPSC_VALUE] = "layers.#.self_attn.v_proj.weight",                         \
    [LIPSC_VALUE_BIAS] = "layers.#.self_attn.v_proj.bias",                      \
    [LIPSC_OUT] = "layers.#.self_attn.o_proj.weight",                           \
    [LIPSC_OUT_BIAS] = "layers.#.self_attn.o_proj.bias",                        \
    [LIPSC_MLP_NORM] = "layers.#.post_attention_layernorm.weight",              \
    [LIPSC_UP] = "layers.#.mlp.up_proj.weight",                                 \
    [LIPSC_UP_BIAS] = "layers.#.mlp.up_proj.bias",                              \
    [LIPSC_GATE] = "layers.#.mlp.gate_proj.weight",                             \
    [LIPSC_GATE_BIAS] = "layers.#.mlp.gate_proj.bias",                          \
    [LIPSC_DOWN] = "layers.#.mlp.down_proj.weight",                             \
    [LIPSC_DOWN_BIAS] = "layers.#.mlp.down_proj.bias"

#define COMMON_FIELDS                                                                   \
    {                                                                                   \
        "num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", \
            "max_position_embeddings", "hidden_act"

#define LAYER_NORM_FIELDS           \
    COMMON_FIELDS, "layer_norm_eps" \
    }
#define RMS_NORM_FIELDS           \
    COMMON_FIELDS, "rms_norm_eps" \
    }

#define LLAMA_LIKE                                                 \
    .pre_norm = 1, .rms = 1, .causal = 1, .rotary = 1, .gated = 1, \
    .field = RMS_NORM_FIELDS, .activation = "silu", .eps = 1e-6

static const lipsc_family families[] = {
    {.name = "gpt2",
     .pre_norm = 1,
     .causal = 1,
     .transposed = 1,
     .field = {"n_layer", "n_embd", "n_head", "n_inner", "n_positions",
               "activation_function", "layer_norm_epsilon"},
     .activation = "gelu_new",
     .eps = 1e-5,
     .tensor = {[LIPSC_TOKENS] = "wte.weight",
                [LIPSC_POSITIONS] = "wpe.weight",
                [LIPSC_FINAL_NORM] = "ln_f.weight",
                [LIPSC_FINAL_NORM_BIAS] = "ln_f.bias",
                [LIPSC_ATTN_NORM] = "h.#.ln_1.weight",
                [LIPSC_ATTN_NORM_BIAS] = "h.#.ln_1.bias",
                [LIPSC_QKV] = "h.#.attn.c_attn.weight",
                [LIPSC_QKV_BIAS] = "h.#.attn.c_attn.bias",
                [LIPSC_OUT] = "h.#.attn.c_proj.weight",
                [LIPSC_OUT_BIAS] = "h.#.attn.c_proj.bias",
                [LIPSC_MLP_NORM] = "h.#.ln_2.weight",
                [LIPSC_MLP_NORM_BIAS] = "h.#.ln_2.bias",
                [LIPSC_UP] = "h.#.mlp.c_fc.weight",
                [LIPSC_UP_BIAS] = "h.#.mlp.c_fc.bias",
                [LIPSC_DOWN] = "h.#.mlp.c_proj.weight",
                [LIPSC_DOWN_BIAS] = "h.#.mlp.c_proj.bias"}},
    {.name = "bert",
     .field = LAYER_NORM_FIELDS,
     .activation = "gelu",
     .eps = 1e-12,
     .tensor = {BERT_TENSORS}},
    {.name = "roberta",
     .position_after_pad = 1,
     .field = LAYER_NORM_FIELDS,
     .activation = "gelu",
     .eps = 1e-12,
     .tensor = {BERT_TENSORS}},
    {.name = "distilbert",
     .field = {"n_layers", "dim", "n_heads", "hidden_dim", "max_position_embeddings",
               "activation", NULL},
     .activation = "gelu",
     .eps = 1e-12,
     .tensor = {[LIPSC_TOKENS] = "embeddings.word_embeddings.weight",
                [LIPSC_POSITIONS] = "embeddings.position_embeddings.weight",
                [LIPSC_EMBED_NORM] = "embeddings.LayerNorm.weight",
                [LIPSC_EMBED_NORM_BIAS] = "embeddings.LayerNorm.bias",
                [LIPSC_QUERY] = "transformer.layer.#.attention.q_lin.weight",
                [LIPSC_QUERY_BIAS] = "transformer.layer.#.attention.q_lin.bias",
                [LIPSC_KEY] = "transformer.layer.#.attention.k_lin.weight",
                [LIPSC_KEY_BIAS] = "transformer.layer.#.attention.k_lin.bias",
                [LIPSC_VALUE] = "transformer.layer.#.attention.v_lin.weight",
                [LIPSC_VALUE_BIAS] = "transformer.layer.#.attention.v_lin.bias",
                [LIPSC_OUT] = "transformer.layer.#.attention.out_lin.weight",
                [LIPSC_OUT_BIAS] = "transformer.layer.#.attention.out_lin.bias",
                [LIPSC_ATTN_NORM] = "transformer.layer.#.sa_layer_norm.weight",
                [LIPSC_ATTN_NORM_BIAS] = "transformer.layer.#.sa_layer_norm.bias",
                [LIPSC_UP] = "transformer.layer.#.ffn.lin1.weight",
                [LIPSC_UP_BIAS] = "transformer.layer.#.ffn.lin1.bias",
                [LIPSC_DOWN] = "transformer.layer.#.ffn.lin2.weight",
                [LIPSC_DOWN_BIAS] = "transformer.layer.#.ffn.lin2.bias",
                [LIPSC_MLP_NORM] = "transformer.layer.#.output_layer_norm.weight",
                [LIPSC_MLP_NORM_BIAS] = "transformer.layer.#.output_layer_norm.bias"}},
    {.name = "llama", LLAMA_LIKE, .tensor = {LLAMA_TENSORS}},
    {.name = "mistral", LLAMA_LIKE, .tensor = {LLAMA_TENSORS}},
    {.name = "qwen2", LLAMA_LIKE, .tensor = {LLAMA_TENSORS}},
    {.name = "qwen3",
     LLAMA_LIKE,
     .tensor = {LLAMA_TENSORS, [LIPSC_QUERY_NORM] = "layers.#.self_attn.q_norm.weight",
                [LIPSC_KEY_NORM] = "layers.#.self_attn.k_norm.weight"}},
    {.name = "vit",
     .pre_norm = 1,
     .pixels = 1,
     .field = LAYER_NORM_FIELDS,
     .activation = "gelu",
     .eps = 1e-12,
     .tensor = {[LIPSC_CLASS_TOKEN] = "embeddings.cls_token",
                [LIPSC_POSITIONS] = "embeddings.position_embeddings",
                [LIPSC_PATCH] = "embeddings.patch_embeddings.projection.weight",
                [LIPSC_PATCH_BIAS] = "embeddings.patch_embeddings.projection.bias",
                [LIPSC_FINAL_NORM] = "layernorm.weight",
                [LIPSC_FINAL_NORM_BIAS] = "layernorm.bias",
                [LIPSC_ATTN_NORM] = "encoder.layer.#.layernorm_before.weight",
                [LIPSC_ATTN_NORM_BIAS] = "encoder.layer.#.layernorm_before.bias",
                [LIPSC_QUERY] = "encoder.layer.#.attention.attention.query.weight",
                [LIPSC_QUERY_BIAS] = "encoder.layer.#.attention.attention.query.bias",
                [LIPSC_KEY] = "encoder.layer.#.attention.attention.key.weight",
                [LIPSC_KEY_BIAS] = "encoder.layer.#.attention.attention.key.bias",
                [LIPSC_VALUE] = "encoder.layer.#.attention.attention.value.weight",
                [LIPSC_VALUE_BIAS] = "encoder.layer.#.attention.attention.value.bias",
                [LIPSC_OUT] = "encoder.layer.#.attention.output.dense.weight",
                [LIPSC_OUT_BIAS] = "encoder.layer.#.attention.output.dense.bias",
                [LIPSC_MLP_NORM] = "encoder.layer.#.layernorm_after.weight",
                [LIPSC_MLP_NORM_BIAS] = "encoder.layer.#.layernorm_after.bias",
                [LIPSC_UP] = "encoder.layer.#.intermediate.dense.weight",
                [LIPSC_UP_BIAS] = "encoder.layer.#.intermediate.dense.bias",
                [LIPSC_DOWN] = "encoder.layer.#.output.dense.weight",
                [LIPSC_DOWN_BIAS] = "encoder.layer.#.output.dense.bias"}},
};

const lipsc_family *lipsc_family_at(size_t i) {
    return i < sizeof families / sizeof families[0] ? &families[i] : NULL;
}

const lipsc_family *lipsc_family_find(const char *name) {
    const lipsc_family *family;
    for (size_t i = 0; (family = lipsc_family_at(i)); i++)
        if (!strcmp(name, family->name)) return family;
    return NULL;
}
