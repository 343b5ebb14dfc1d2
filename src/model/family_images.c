/* family_images.c - descriptions of the models that read images. */
#include "model/family_macros.h"

#include <stdint.h>

#define IMAGE_LIKE(activation_field, ffn_field) \
    .field = {.layers = "num_hidden_layers",    \
              .width = "hidden_size",           \
              .heads = "num_attention_heads",   \
              .ffn = ffn_field,                 \
              .activation = activation_field,   \
              .eps = "layer_norm_eps"},         \
    .pixels = 1, .pad = SIZE_MAX, .out_bias = ALWAYS, .mlp_bias = ALWAYS

#define VIT_EMBEDDINGS                                                \
    [LIPSC_CLASS_TOKEN] = "embeddings.cls_token",                     \
    [LIPSC_POSITIONS] = "embeddings.position_embeddings",             \
    WITH_BIAS(LIPSC_PATCH, "embeddings.patch_embeddings.projection"), \
    WITH_BIAS(LIPSC_FINAL_NORM, "layernorm")

#define VIT_ATTENTION                                                           \
    ATTENTION("encoder.layer.#.attention.", "attention.query", "attention.key", \
              "attention.value", "output.dense")

#define VIT_BLOCK                                                                    \
    WITH_BIAS(LIPSC_ATTN_NORM, "encoder.layer.#.layernorm_before"),                  \
        WITH_BIAS(LIPSC_MLP_NORM, "encoder.layer.#.layernorm_after"), VIT_ATTENTION, \
        MLP("encoder.layer.#.intermediate.dense", "encoder.layer.#.output.dense")

#define DINOV2_BLOCK                                                                    \
    VIT_EMBEDDINGS, VIT_ATTENTION, WITH_BIAS(LIPSC_ATTN_NORM, "encoder.layer.#.norm1"), \
        WITH_BIAS(LIPSC_MLP_NORM, "encoder.layer.#.norm2"),                             \
        [LIPSC_ATTN_SCALE] = "encoder.layer.#.layer_scale1.lambda1",                    \
        [LIPSC_MLP_SCALE] = "encoder.layer.#.layer_scale2.lambda1"

#define CLIP_BLOCK                                                             \
    WITH_BIAS(LIPSC_ATTN_NORM, "encoder.layers.#.layer_norm1"),                \
        WITH_BIAS(LIPSC_MLP_NORM, "encoder.layers.#.layer_norm2"),             \
        ATTENTION("encoder.layers.#.self_attn.", "q_proj", "k_proj", "v_proj", \
                  "out_proj"),                                                 \
        MLP("encoder.layers.#.mlp.fc1", "encoder.layers.#.mlp.fc2"),           \
        [LIPSC_POSITIONS] = "embeddings.position_embedding.weight"

const lipsc_family lipsc_families_images[] = {
    {.name = "vit",
     IMAGE_LIKE("hidden_act", "intermediate_size"),
     .activation = "gelu",
     .eps = 1e-12,
     .qkv_bias = {"qkv_bias", 1},
     .tensor = {VIT_EMBEDDINGS, VIT_BLOCK}},
    {.name = "deit",
     IMAGE_LIKE("hidden_act", "intermediate_size"),
     .activation = "gelu",
     .eps = 1e-12,
     .qkv_bias = {"qkv_bias", 1},
     .tensor = {VIT_EMBEDDINGS,
                VIT_BLOCK, [LIPSC_DISTILLATION_TOKEN] = "embeddings.distillation_token"}},
    {.name = "dinov2",
     .when = {{"use_swiglu_ffn", "true"}},
     IMAGE_LIKE(NULL, NULL),
     .activation = "silu",
     .ffn_times = {"mlp_ratio", 4},
     .ffn_thirds = 1,
     .eps = 1e-6,
     .qkv_bias = {"qkv_bias", 1},
     .tensor = {DINOV2_BLOCK, WITH_BIAS(LIPSC_GATE_UP, "encoder.layer.#.mlp.weights_in"),
                WITH_BIAS(LIPSC_DOWN, "encoder.layer.#.mlp.weights_out")}},
    {.name = "dinov2",
     IMAGE_LIKE("hidden_act", NULL),
     .activation = "gelu",
     .ffn_times = {"mlp_ratio", 4},
     .eps = 1e-6,
     .qkv_bias = {"qkv_bias", 1},
     .tensor = {DINOV2_BLOCK, MLP("encoder.layer.#.mlp.fc1", "encoder.layer.#.mlp.fc2")}},
    {.name = "clip_vision_model",
     .prefix = {"vision_model."},
     IMAGE_LIKE("hidden_act", "intermediate_size"),
     .activation = "quick_gelu",
     .eps = 1e-5,
     .qkv_bias = ALWAYS,
     .tensor = {CLIP_BLOCK, [LIPSC_CLASS_TOKEN] = "embeddings.class_embedding",
                [LIPSC_PATCH] = "embeddings.patch_embedding.weight",
                WITH_BIAS(LIPSC_EMBED_NORM, "pre_layrnorm")}},
    {.name = "siglip_vision_model",
     .prefix = {"vision_model.", "vision_tower.vision_model.", "vision_tower."},
     IMAGE_LIKE("hidden_act", "intermediate_size"),
     .activation = "gelu_pytorch_tanh",
     .eps = 1e-6,
     .qkv_bias = ALWAYS,
     .tensor = {CLIP_BLOCK, WITH_BIAS(LIPSC_PATCH, "embeddings.patch_embedding"),
                WITH_BIAS(LIPSC_FINAL_NORM, "post_layernorm")}},
    {0}};
