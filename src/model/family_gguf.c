/* family_gguf.c - descriptions of the architectures of GGUF files, by the fields that
 * gguf_config.c makes of their notes.
 *
 * All architectures share one set of tensor names.  The converters have changed some
 * weights on the way: matrices are always (out, in), Gemma's gains are whole, and the rows
 * of llama's queries and keys stand in pairs that turn together. */
#include "model/family_macros.h"

#include <stdint.h>

#define SIZES                                                                              \
    .layers = "block_count", .width = "embedding_length", .heads = "attention.head_count", \
    .kv_heads = "attention.head_count_kv", .head_dim = "attention.key_length",             \
    .ffn = "feed_forward_length", .positions = "context_length"

#define EMBEDDING [LIPSC_TOKENS] = "token_embd.weight"

#define RMS_NORMS                                 \
    [LIPSC_FINAL_NORM] = "output_norm.weight",    \
    [LIPSC_ATTN_NORM] = "blk.#.attn_norm.weight", \
    [LIPSC_MLP_NORM] = "blk.#.ffn_norm.weight"

#define HEAD_NORMS                                                      \
    [LIPSC_QUERY_NORM] = "blk.#.attn_q_norm.weight", [LIPSC_KEY_NORM] = \
                                                         "blk.#.attn_k_norm.weight"

#define POST_NORMS                                               \
    [LIPSC_ATTN_POST_NORM] = "blk.#.post_attention_norm.weight", \
    [LIPSC_MLP_POST_NORM] = "blk.#.post_ffw_norm.weight"

#define PROJECTIONS ATTENTION("blk.#.attn_", "q", "k", "v", "output")

#define GATED                                                                     \
    WITH_BIAS(LIPSC_UP, "blk.#.ffn_up"), WITH_BIAS(LIPSC_GATE, "blk.#.ffn_gate"), \
        WITH_BIAS(LIPSC_DOWN, "blk.#.ffn_down")

#define BIASES                                                                   \
    .qkv_bias = {"has:attn_q.bias", 0}, .out_bias = {"has:attn_output.bias", 0}, \
    .mlp_bias = {"has:ffn_up.bias", 0}

#define ROTARY(style) \
    .rotary = style, .theta = {"rope.freq_base", 1e4}, .rotary_dim = "rope.dimension_count"

#define LLAMA_LIKE(style)                                                              \
    .field = {SIZES, .eps = "attention.layer_norm_rms_epsilon"}, .activation = "silu", \
    .eps = 1e-6, .pad = SIZE_MAX, .rms = 1, .causal = ALWAYS, ROTARY(style), BIASES

#define GEMMA_LIKE                                                             \
    .field = {SIZES, .eps = "attention.layer_norm_rms_epsilon"},               \
    .activation = "gelu_pytorch_tanh", .eps = 1e-6, .pad = SIZE_MAX, .rms = 1, \
    .embed_root = 1, .causal = ALWAYS, .rotary = LIPSC_ROTARY_HALVES,          \
    .theta = {"rope.freq_base", 1e4}

const lipsc_family lipsc_families_gguf[] = {
    {.name = "gguf:llama",
     LLAMA_LIKE(LIPSC_ROTARY_PAIRS),
     .only = {{"expert_count", "0"}},
     .tensor = {EMBEDDING, RMS_NORMS, PROJECTIONS, GATED}},
    {.name = "gguf:qwen2",
     LLAMA_LIKE(LIPSC_ROTARY_HALVES),
     .tensor = {EMBEDDING, RMS_NORMS, PROJECTIONS, GATED}},
    {.name = "gguf:qwen3",
     LLAMA_LIKE(LIPSC_ROTARY_HALVES),
     .tensor = {EMBEDDING, RMS_NORMS, HEAD_NORMS, PROJECTIONS, GATED}},
    {.name = "gguf:gemma",
     GEMMA_LIKE,
     .tensor = {EMBEDDING, RMS_NORMS, PROJECTIONS, GATED}},
    {.name = "gguf:gemma2",
     GEMMA_LIKE,
     .scale_root = {"scale_root", 0},
     .soft_cap = {"attn_logit_softcapping", 50},
     .window_rule = LIPSC_WINDOW_BUT_EVERY,
     .window_number = {NULL, 2},
     .window = {"attention.sliding_window", 4096},
     .tensor = {EMBEDDING, RMS_NORMS, POST_NORMS, PROJECTIONS, GATED}},
    {.name = "gguf:gemma3",
     GEMMA_LIKE,
     .only = {{"attn_logit_softcapping", "0"}},
     .scale_root = {"scale_root", 0},
     .local_theta = {"rope.freq_base_swa", 1e4},
     .window_rule = LIPSC_WINDOW_BUT_EVERY,
     .window_number = {NULL, 6},
     .window = {"attention.sliding_window", 0},
     .tensor = {EMBEDDING, RMS_NORMS, HEAD_NORMS, POST_NORMS, PROJECTIONS, GATED}},
    {.name = "gguf:phi3",
     LLAMA_LIKE(LIPSC_ROTARY_HALVES),
     .window_rule = LIPSC_WINDOW_ALL,
     .window = {"attention.sliding_window", 0},
     .tensor =
         {EMBEDDING, RMS_NORMS, [LIPSC_QKV] = "blk.#.attn_qkv.weight",
          [LIPSC_OUT] = "blk.#.attn_output.weight", [LIPSC_GATE_UP] = "blk.#.ffn_up.weight",
          [LIPSC_DOWN] = "blk.#.ffn_down.weight"}},
    {.name = "gguf:gpt-oss",
     .field = {SIZES, .eps = "attention.layer_norm_rms_epsilon"},
     .activation = "silu",
     .eps = 1e-5,
     .pad = SIZE_MAX,
     .rms = 1,
     .causal = ALWAYS,
     .qkv_bias = ALWAYS,
     .out_bias = ALWAYS,
     .mlp_bias = ALWAYS,
     ROTARY(LIPSC_ROTARY_HALVES),
     .window_rule = LIPSC_WINDOW_BUT_EVERY,
     .window_number = {NULL, 2},
     .window = {"attention.sliding_window", 128},
     .experts = "expert_count",
     .experts_used = "expert_used_count",
     .experts_rows = 1,
     .glu_alpha = {NULL, 1.702},
     .glu_limit = {NULL, 7},
     .tensor = {EMBEDDING, [LIPSC_FINAL_NORM] = "output_norm.weight",
                [LIPSC_ATTN_NORM] = "blk.#.attn_norm.weight",
                [LIPSC_MLP_NORM] = "blk.#.post_attention_norm.weight",
                PROJECTIONS, [LIPSC_SINKS] = "blk.#.attn_sinks.weight",
                WITH_BIAS(LIPSC_ROUTER, "blk.#.ffn_gate_inp"),
                WITH_BIAS(LIPSC_GATE, "blk.#.ffn_gate_exps"),
                WITH_BIAS(LIPSC_UP, "blk.#.ffn_up_exps"),
                WITH_BIAS(LIPSC_DOWN, "blk.#.ffn_down_exps")}},
    {.name = "gguf:gpt2",
     .field = {SIZES, .eps = "attention.layer_norm_epsilon"},
     .activation = "gelu_new",
     .eps = 1e-5,
     .pad = SIZE_MAX,
     .causal = ALWAYS,
     .qkv_bias = ALWAYS,
     .out_bias = ALWAYS,
     .mlp_bias = ALWAYS,
     .tensor = {EMBEDDING, [LIPSC_POSITIONS] = "position_embd.weight",
                WITH_BIAS(LIPSC_FINAL_NORM, "output_norm"),
                WITH_BIAS(LIPSC_ATTN_NORM, "blk.#.attn_norm"),
                WITH_BIAS(LIPSC_MLP_NORM, "blk.#.ffn_norm"),
                WITH_BIAS(LIPSC_QKV, "blk.#.attn_qkv"),
                WITH_BIAS(LIPSC_OUT, "blk.#.attn_output"),
                MLP("blk.#.ffn_up", "blk.#.ffn_down")}},
    {.name = "gguf:bert",
     .field = {SIZES, .eps = "attention.layer_norm_epsilon"},
     .activation = "gelu",
     .eps = 1e-12,
     .qkv_bias = ALWAYS,
     .out_bias = ALWAYS,
     .mlp_bias = ALWAYS,
     .tensor = {EMBEDDING, [LIPSC_POSITIONS] = "position_embd.weight",
                [LIPSC_TYPES] = "token_types.weight",
                WITH_BIAS(LIPSC_EMBED_NORM, "token_embd_norm"), PROJECTIONS,
                WITH_BIAS(LIPSC_ATTN_SUM_NORM, "blk.#.attn_output_norm"),
                WITH_BIAS(LIPSC_MLP_SUM_NORM, "blk.#.layer_output_norm"),
                MLP("blk.#.ffn_up", "blk.#.ffn_down")}},
    {0}};
