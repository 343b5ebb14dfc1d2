/* family_decoders.c - descriptions of the models that read text from left to right. */
#include "model/family_macros.h"

#include <stdint.h>

#define LLAMA_NAMES                                                             \
    [LIPSC_TOKENS] = "embed_tokens.weight", [LIPSC_FINAL_NORM] = "norm.weight", \
    ATTENTION("layers.#.self_attn.", "q_proj", "k_proj", "v_proj", "o_proj"),   \
    GATED_MLP("layers.#.mlp.")

#define LLAMA_NORMS                                        \
    [LIPSC_ATTN_NORM] = "layers.#.input_layernorm.weight", \
    [LIPSC_MLP_NORM] = "layers.#.post_attention_layernorm.weight"

#define HEAD_NORMS                                           \
    [LIPSC_QUERY_NORM] = "layers.#.self_attn.q_norm.weight", \
    [LIPSC_KEY_NORM] = "layers.#.self_attn.k_norm.weight"

/* RMSNorm in front, gated MLP, rotary positions, grouped keys. */
#define LLAMA_LIKE                                                                    \
    .field = {USUAL_SIZES, .kv_heads = "num_key_value_heads", .head_dim = "head_dim", \
              .activation = "hidden_act", .eps = "rms_norm_eps"},                     \
    .activation = "silu", .eps = 1e-6, .pad = SIZE_MAX, .rms = 1, .causal = ALWAYS,   \
    .rotary = LIPSC_ROTARY_HALVES, .theta = {"rope_theta", 1e4}

#define ATTENTION_BIAS .qkv_bias = {"attention_bias", 0}, .out_bias = {"attention_bias", 0}

/* Sliding windows of the layers that layer_types names, or from max_window_layers on. */
#define QWEN_WINDOWS                                                              \
    .window_rule = LIPSC_WINDOW_FROM, .window_number = {"max_window_layers", 28}, \
    .window = {"sliding_window", 4096}, .window_used = "use_sliding_window"

/* Gains stored as offsets from one, embeddings times sqrt(width). */
#define GEMMA_LIKE                                                                       \
    .field = {USUAL_SIZES, .kv_heads = "num_key_value_heads", .head_dim = "head_dim",    \
              .activation = "hidden_activation|hidden_act", .eps = "rms_norm_eps"},      \
    .activation = "gelu_pytorch_tanh", .eps = 1e-6, .head_dim = 256, .pad = 0, .rms = 1, \
    .gain_offset = 1, .embed_root = 1, .causal = ALWAYS, .rotary = LIPSC_ROTARY_HALVES,  \
    ATTENTION_BIAS

#define SANDWICH_NORMS                                                   \
    [LIPSC_ATTN_NORM] = "layers.#.input_layernorm.weight",               \
    [LIPSC_ATTN_POST_NORM] = "layers.#.post_attention_layernorm.weight", \
    [LIPSC_MLP_NORM] = "layers.#.pre_feedforward_layernorm.weight",      \
    [LIPSC_MLP_POST_NORM] = "layers.#.post_feedforward_layernorm.weight"

#define FALCON_LIKE(kv)                                                            \
    .field = {.layers = "num_hidden_layers|n_layer",                               \
              .width = "hidden_size",                                              \
              .heads = "num_attention_heads|n_head",                               \
              .ffn = "ffn_hidden_size",                                            \
              .positions = "max_position_embeddings",                              \
              .activation = "activation",                                          \
              .kv_heads = kv,                                                      \
              .eps = "layer_norm_epsilon"},                                        \
    .ffn_times = {NULL, 4}, .activation = "gelu", .eps = 1e-5, .pad = SIZE_MAX,    \
    .causal = ALWAYS, .rotary = LIPSC_ROTARY_HALVES, .theta = {"rope_theta", 1e4}, \
    .qkv = LIPSC_QKV_GROUPS, .qkv_bias = {"bias", 0}, .out_bias = {"bias", 0},     \
    .mlp_bias = {"bias", 0}, .only = {{"alibi", "false"}}

#define FALCON_NAMES                                                                \
    [LIPSC_TOKENS] = "word_embeddings.weight", WITH_BIAS(LIPSC_FINAL_NORM, "ln_f"), \
    WITH_BIAS(LIPSC_QKV, "h.#.self_attention.query_key_value"),                     \
    WITH_BIAS(LIPSC_OUT, "h.#.self_attention.dense"),                               \
    MLP("h.#.mlp.dense_h_to_4h", "h.#.mlp.dense_4h_to_h")

const lipsc_family lipsc_families_decoders[] =
    {{.name = "gpt2",
      .field = {.layers = "n_layer",
                .width = "n_embd",
                .heads = "n_head",
                .ffn = "n_inner",
                .positions = "n_positions",
                .activation = "activation_function",
                .eps = "layer_norm_epsilon"},
      .ffn_times = {NULL, 4},
      .activation = "gelu_new",
      .eps = 1e-5,
      .pad = SIZE_MAX,
      .causal = ALWAYS,
      .transposed = 1,
      .qkv_bias = ALWAYS,
      .out_bias = ALWAYS,
      .unscaled = {"!scale_attn_weights", 0},
      .scale_by_layer = {"scale_attn_by_inverse_layer_idx", 0},
      .mlp_bias = ALWAYS,
      .tensor = {[LIPSC_TOKENS] = "wte.weight",
                 [LIPSC_POSITIONS] = "wpe.weight",
                 WITH_BIAS(LIPSC_FINAL_NORM, "ln_f"),
                 WITH_BIAS(LIPSC_ATTN_NORM, "h.#.ln_1"),
                 WITH_BIAS(LIPSC_MLP_NORM, "h.#.ln_2"),
                 WITH_BIAS(LIPSC_QKV, "h.#.attn.c_attn"),
                 WITH_BIAS(LIPSC_OUT, "h.#.attn.c_proj"),
                 MLP("h.#.mlp.c_fc", "h.#.mlp.c_proj")}},
     {.name = "gpt_neo",
      .field = {.layers = "num_layers",
                .width = "hidden_size",
                .heads = "num_heads",
                .ffn = "intermediate_size",
                .positions = "max_position_embeddings",
                .activation = "activation_function",
                .eps = "layer_norm_epsilon"},
      .ffn_times = {NULL, 4},
      .activation = "gelu_new",
      .eps = 1e-5,
      .pad = SIZE_MAX,
      .causal = ALWAYS,
      .out_bias = ALWAYS,
      .unscaled = ALWAYS,
      .window_rule = LIPSC_WINDOW_BUT_MULTIPLES,
      .window_number = {NULL, 2},
      .window = {"window_size", 256},
      .window_layers = "attention_layers|attention_types",
      .mlp_bias = ALWAYS,
      .tensor = {[LIPSC_TOKENS] = "wte.weight",
                 [LIPSC_POSITIONS] = "wpe.weight",
                 WITH_BIAS(LIPSC_FINAL_NORM, "ln_f"),
                 WITH_BIAS(LIPSC_ATTN_NORM, "h.#.ln_1"),
                 WITH_BIAS(LIPSC_MLP_NORM, "h.#.ln_2"),
                 ATTENTION("h.#.attn.attention.", "q_proj", "k_proj", "v_proj", "out_proj"),
                 MLP("h.#.mlp.c_fc", "h.#.mlp.c_proj")}},
     {.name = "gpt_neox",
      .field = {USUAL_SIZES, .activation = "hidden_act", .eps = "layer_norm_eps"},
      .activation = "gelu",
      .eps = 1e-5,
      .pad = SIZE_MAX,
      .parallel = {"use_parallel_residual", 1},
      .causal = ALWAYS,
      .qkv = LIPSC_QKV_GROUPS,
      .qkv_bias = {"attention_bias", 1},
      .out_bias = {"attention_bias", 1},
      .rotary = LIPSC_ROTARY_HALVES,
      .theta = {"rope_theta|rotary_emb_base", 1e4},
      .rotary_part = {"partial_rotary_factor|rotary_pct", 0.25},
      .mlp_bias = ALWAYS,
      .tensor = {[LIPSC_TOKENS] = "embed_in.weight",
                 WITH_BIAS(LIPSC_FINAL_NORM, "final_layer_norm"),
                 WITH_BIAS(LIPSC_ATTN_NORM, "layers.#.input_layernorm"),
                 WITH_BIAS(LIPSC_MLP_NORM, "layers.#.post_attention_layernorm"),
                 WITH_BIAS(LIPSC_QKV, "layers.#.attention.query_key_value"),
                 WITH_BIAS(LIPSC_OUT, "layers.#.attention.dense"),
                 MLP("layers.#.mlp.dense_h_to_4h", "layers.#.mlp.dense_4h_to_h")}},
     {.name = "gptj",
      .field = {.layers = "n_layer",
                .width = "n_embd",
                .heads = "n_head",
                .ffn = "n_inner",
                .positions = "n_positions",
                .activation = "activation_function",
                .eps = "layer_norm_epsilon"},
      .ffn_times = {NULL, 4},
      .activation = "gelu_new",
      .eps = 1e-5,
      .pad = SIZE_MAX,
      .parallel = ALWAYS,
      .parallel_shares = 1,
      .causal = ALWAYS,
      .rotary = LIPSC_ROTARY_PAIRS,
      .theta = {NULL, 1e4},
      .rotary_dim = "rotary_dim",
      .mlp_bias = ALWAYS,
      .tensor = {[LIPSC_TOKENS] = "wte.weight",
                 WITH_BIAS(LIPSC_FINAL_NORM, "ln_f"),
                 WITH_BIAS(LIPSC_ATTN_NORM, "h.#.ln_1"),
                 ATTENTION("h.#.attn.", "q_proj", "k_proj", "v_proj", "out_proj"),
                 MLP("h.#.mlp.fc_in", "h.#.mlp.fc_out")}},
     {.name = "opt",
      .field = {.layers = "num_hidden_layers",
                .width = "hidden_size",
                .heads = "num_attention_heads",
                .ffn = "ffn_dim",
                .positions = "max_position_embeddings",
                .activation = "activation_function"},
      .only = {{"layer_norm_elementwise_affine", "true"},
               {"_remove_final_layer_norm", "false"}},
      .activation = "relu",
      .eps = 1e-5,
      .pad = 1,
      .position_offset = 2,
      .embed_width = "word_embed_proj_dim",
      .norm_last = {"!do_layer_norm_before", 0},
      .causal = ALWAYS,
      .qkv_bias = {"enable_bias", 1},
      .out_bias = {"enable_bias", 1},
      .mlp_bias = {"enable_bias", 1},
      .tensor = {[LIPSC_TOKENS] = "decoder.embed_tokens.weight",
                 [LIPSC_POSITIONS] = "decoder.embed_positions.weight",
                 WITH_BIAS(LIPSC_FINAL_NORM, "decoder.final_layer_norm"),
                 WITH_BIAS(LIPSC_ATTN_NORM, "decoder.layers.#.self_attn_layer_norm"),
                 WITH_BIAS(LIPSC_MLP_NORM, "decoder.layers.#.final_layer_norm"),
                 ATTENTION("decoder.layers.#.self_attn.", "q_proj", "k_proj", "v_proj",
                           "out_proj"),
                 MLP("decoder.layers.#.fc1", "decoder.layers.#.fc2")}},
     {.name = "llama",
      LLAMA_LIKE,
      ATTENTION_BIAS,
      .mlp_bias = {"mlp_bias", 0},
      .tensor = {LLAMA_NAMES, LLAMA_NORMS}},
     {.name = "mistral",
      LLAMA_LIKE,
      .kv_heads_needed = 1,
      .window_rule = LIPSC_WINDOW_ALL,
      .window = {"sliding_window", 4096},
      .tensor = {LLAMA_NAMES, LLAMA_NORMS}},
     {.name = "qwen2",
      LLAMA_LIKE,
      .kv_heads_needed = 1,
      .qkv_bias = ALWAYS,
      QWEN_WINDOWS,
      .tensor = {LLAMA_NAMES, LLAMA_NORMS}},
     {.name = "qwen3",
      LLAMA_LIKE,
      .kv_heads_needed = 1,
      .head_dim = 128,
      ATTENTION_BIAS,
      QWEN_WINDOWS,
      .tensor = {LLAMA_NAMES, LLAMA_NORMS, HEAD_NORMS}},
     {.name = "granite",
      LLAMA_LIKE,
      ATTENTION_BIAS,
      .embed_multiplier = "embedding_multiplier",
      .residual_multiplier = "residual_multiplier",
      .scale = "attention_multiplier",
      .mlp_bias = {"mlp_bias", 0},
      .tensor = {LLAMA_NAMES, LLAMA_NORMS}},
     {.name = "smollm3",
      LLAMA_LIKE,
      .kv_heads_needed = 1,
      ATTENTION_BIAS,
      .rotary_layers = "no_rope_layers",
      .rotary_skip = {"no_rope_layer_interval", 4},
      .only = {{"use_sliding_window", "false"}},
      .mlp_bias = {"mlp_bias", 0},
      .tensor = {LLAMA_NAMES, LLAMA_NORMS}},
     {.name = "olmo2",
      LLAMA_LIKE,
      ATTENTION_BIAS,
      .norm_whole = 1,
      .tensor =
          {LLAMA_NAMES,
           HEAD_NORMS, [LIPSC_ATTN_POST_NORM] = "layers.#.post_attention_layernorm.weight",
           [LIPSC_MLP_POST_NORM] = "layers.#.post_feedforward_layernorm.weight"}},
     {.name = "phi3",
      LLAMA_LIKE,
      .rotary_part = {"partial_rotary_factor", 1},
      .window_rule = LIPSC_WINDOW_ALL,
      .window = {"sliding_window", 0},
      .tensor = {[LIPSC_TOKENS] = "embed_tokens.weight",
                 [LIPSC_FINAL_NORM] = "norm.weight",
                 LLAMA_NORMS,
                 [LIPSC_QKV] = "layers.#.self_attn.qkv_proj.weight",
                 [LIPSC_OUT] = "layers.#.self_attn.o_proj.weight",
                 [LIPSC_GATE_UP] = "layers.#.mlp.gate_up_proj.weight",
                 [LIPSC_DOWN] = "layers.#.mlp.down_proj.weight"}},
     {.name = "gemma",
      GEMMA_LIKE,
      .theta = {"rope_theta", 1e4},
      .only = {{"use_bidirectional_attention", "false"}},
      .tensor = {LLAMA_NAMES, LLAMA_NORMS}},
     {.name = "gemma3_text",
      .prefix = {"language_model.model.", "language_model."},
      GEMMA_LIKE,
      .only = {{"use_bidirectional_attention", "false"},
               {"attn_logit_softcapping", "null"}},
      .scale_root = "query_pre_attn_scalar",
      .theta = {"rope_theta", 1e6},
      .local_theta = {"rope_local_base_freq", 1e4},
      .window_rule = LIPSC_WINDOW_BUT_EVERY,
      .window_number = {"sliding_window_pattern|_sliding_window_pattern", 6},
      .window = {"sliding_window", 4096},
      .tensor = {LLAMA_NAMES, SANDWICH_NORMS, HEAD_NORMS}},
     {.name = "phi",
      .field = {USUAL_SIZES, .kv_heads = "num_key_value_heads", .activation = "hidden_act",
                .eps = "layer_norm_eps"},
      .only = {{"qk_layernorm", "false"}},
      .activation = "gelu_new",
      .eps = 1e-5,
      .pad = SIZE_MAX,
      .parallel = ALWAYS,
      .parallel_shares = 1,
      .causal = ALWAYS,
      .qkv_bias = ALWAYS,
      .out_bias = ALWAYS,
      .rotary = LIPSC_ROTARY_HALVES,
      .theta = {"rope_theta", 1e4},
      .rotary_part = {"partial_rotary_factor", 0.5},
      .mlp_bias = ALWAYS,
      .tensor = {[LIPSC_TOKENS] = "embed_tokens.weight",
                 WITH_BIAS(LIPSC_FINAL_NORM, "final_layernorm"),
                 WITH_BIAS(LIPSC_ATTN_NORM, "layers.#.input_layernorm"),
                 ATTENTION("layers.#.self_attn.", "q_proj", "k_proj", "v_proj", "dense"),
                 MLP("layers.#.mlp.fc1", "layers.#.mlp.fc2")}},
     {.name = "stablelm",
      .field = {USUAL_SIZES, .kv_heads = "num_key_value_heads", .activation = "hidden_act",
                .eps = "layer_norm_eps"},
      .only = {{"qk_layernorm", "false"}},
      .kv_heads_needed = 1,
      .activation = "silu",
      .eps = 1e-5,
      .pad = SIZE_MAX,
      .parallel = {"use_parallel_residual", 0},
      .parallel_shares = 1,
      .causal = ALWAYS,
      .qkv_bias = {"use_qkv_bias", 0},
      .rotary = LIPSC_ROTARY_HALVES,
      .theta = {"rope_theta", 1e4},
      .rotary_part = {"partial_rotary_factor|rope_pct", 0.25},
      .tensor = {LLAMA_NAMES, [LIPSC_FINAL_NORM_BIAS] = "norm.bias",
                 WITH_BIAS(LIPSC_ATTN_NORM, "layers.#.input_layernorm"),
                 WITH_BIAS(LIPSC_MLP_NORM, "layers.#.post_attention_layernorm")}},
     {.name = "falcon",
      .when = {{"new_decoder_architecture", "true"}, {"num_ln_in_parallel_attn", "1"}},
      FALCON_LIKE("num_kv_heads|n_head_kv"),
      .parallel = ALWAYS,
      .parallel_shares = 1,
      .tensor = {FALCON_NAMES, WITH_BIAS(LIPSC_ATTN_NORM, "h.#.input_layernorm")}},
     {.name = "falcon",
      .when = {{"new_decoder_architecture", "true"}},
      FALCON_LIKE("num_kv_heads|n_head_kv"),
      .parallel = ALWAYS,
      .tensor = {FALCON_NAMES, WITH_BIAS(LIPSC_ATTN_NORM, "h.#.ln_attn"),
                 WITH_BIAS(LIPSC_MLP_NORM, "h.#.ln_mlp")}},
     {.name = "falcon",
      .when = {{"multi_query", "false"}},
      FALCON_LIKE(NULL),
      .parallel = {"parallel_attn", 1},
      .parallel_shares = 1,
      .tensor = {FALCON_NAMES, WITH_BIAS(LIPSC_ATTN_NORM, "h.#.input_layernorm"),
                 WITH_BIAS(LIPSC_MLP_NORM, "h.#.post_attention_layernorm")}},
     {.name = "falcon",
      FALCON_LIKE(NULL),
      .one_kv_head = ALWAYS,
      .parallel = {"parallel_attn", 1},
      .parallel_shares = 1,
      .tensor = {FALCON_NAMES, WITH_BIAS(LIPSC_ATTN_NORM, "h.#.input_layernorm"),
                 WITH_BIAS(LIPSC_MLP_NORM, "h.#.post_attention_layernorm")}},
     {0}};
