"""Seeds of configurations: one for each family of src/model/family_*.c, by config.json and by the notes of a GGUF file,
every type that a GGUF file stores numbers in, and the branches that no family takes by itself."""
import struct

from fuzz_seed_formats import ARRAY, EPS, F32, HEADS, LLAMA, STRING, U32, VIT, gguf, gguf_config

USUAL = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 9,
         "max_position_embeddings": 16, "type_vocab_size": 2, "num_key_value_heads": 1}  # fmt: skip
GPT = {"n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 16, "vocab_size": 9}
T5 = {"model_type": "t5", "d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 2, "num_heads": 2, "vocab_size": 9, "is_encoder_decoder": True,
      "relative_attention_num_buckets": 8, "relative_attention_max_distance": 16}  # fmt: skip
EXPERTS = {"num_local_experts": 3, "num_experts_per_tok": 2}


def usual(name, **more):
    return {"model_type": name, **USUAL, **more}


ALIKE = ["gpt_neox", "llama", "mistral", "qwen2", "qwen3", "starcoder2", "cohere", "smollm3", "olmo2", "olmo3", "phi3", "gemma", "gemma2", "gemma3_text",
         "phi", "stablelm", "bert", "electra", "albert", "modernbert", "clip_text_model", "siglip_text_model", "siglip2_text_model"]  # fmt: skip
IMAGES = ["vit", "deit", "dinov2", "clip_vision_model", "siglip_vision_model", "siglip2_vision_model"]
YARN = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 8}
FAMILIES = {
    **{name: usual(name) for name in ALIKE},
    **{name: {**VIT, "model_type": name} for name in IMAGES},
    "dinov2_gated": {**VIT, "model_type": "dinov2", "use_swiglu_ffn": True},
    "granite": usual("granite", attention_multiplier=0.5, embedding_multiplier=2, residual_multiplier=0.5),
    "mixtral": usual("mixtral", **EXPERTS),
    "gpt_oss": usual("gpt_oss", rope_scaling=YARN, **EXPERTS),
    "gpt2": {"model_type": "gpt2", **GPT},
    "gptj": {"model_type": "gptj", **GPT, "rotary_dim": 2},
    "gpt_neo": usual("gpt_neo", num_layers=2, num_heads=2, attention_types=[[["global", "local"], 1]], window_size=4),
    "bloom": {"model_type": "bloom", "hidden_size": 8, "n_layer": 2, "n_head": 2, "vocab_size": 9},
    "opt": usual("opt", ffn_dim=8),
    "roberta": usual("roberta", pad_token_id=1),
    "xlm-roberta": usual("xlm-roberta", pad_token_id=1),
    "mpnet": usual("mpnet", pad_token_id=0),
    "electra_wide": usual("electra", embedding_size=4),
    "falcon_shared_norm": usual("falcon", new_decoder_architecture=True, num_ln_in_parallel_attn=1, num_kv_heads=1),
    "falcon_two_norms": usual("falcon", new_decoder_architecture=True, num_kv_heads=1),
    "falcon_heads": usual("falcon", multi_query=False),
    "falcon_one_key": usual("falcon", bias=True),
    "falcon_serial": usual("falcon", parallel_attn=False),
    "t5": T5,
    "t5_gelu": {**T5, "feed_forward_proj": "gated-gelu"},
    "t5_silu": {**T5, "feed_forward_proj": "gated-silu"},
    "distilbert": {"model_type": "distilbert", "dim": 8, "hidden_dim": 8, "n_layers": 2, "n_heads": 2, "vocab_size": 9, "max_position_embeddings": 16},
    "esm": usual("esm", position_embedding_type="absolute", pad_token_id=1),
    "esm_normed": usual("esm", emb_layer_norm_before=True, pad_token_id=1),
    "esm_rotary": usual("esm", position_embedding_type="rotary", pad_token_id=1),
    "esm_both": usual("esm", position_embedding_type="rotary", emb_layer_norm_before=True, pad_token_id=1, token_dropout=True, mask_token_id=3),
}  # fmt: skip

GEMMA3 = {**LLAMA, "model_type": "gemma3_text", "num_key_value_heads": 1}
FIELDS = {
    "packed": {**FAMILIES["gpt_oss"], "quantization_config": {"quant_method": "mxfp4"}},
    "packed_otherwise": {**FAMILIES["gpt_oss"], "quantization_config": {"quant_method": "awq"}},
    "mlp_too_wide": {**FAMILIES["gpt2"], "n_embd": 1 << 28},
    "mlp_too_wide_no_field": {**FAMILIES["falcon_one_key"], "hidden_size": 1 << 28},
    "scale_root_zero": usual("gemma2", query_pre_attn_scalar=0),
    "experts_many": usual("mixtral", num_local_experts=70000, num_experts_per_tok=2),
    "buckets_too_far": {**T5, "relative_attention_max_distance": 2},
    "image_huge": {**VIT, "image_size": 1 << 29},
    "token_huge": usual("roberta", pad_token_id=1 << 29),
    "longrope_yarn": {**LLAMA, "model_type": "phi3", "original_max_position_embeddings": 32,
                      "rope_scaling": {"type": "yarn", "short_factor": [1.0, 1.0], "long_factor": [1.0, 2.0]}},
    "rope_said_twice": {**LLAMA, "rope_scaling": {"rope_type": "linear", "factor": 2.0}, "rope_parameters": {"rope_type": "linear", "factor": 2.0}},
    "rope_kind_length": {**GEMMA3, "original_max_position_embeddings": 8, "layer_types": ["full_attention"],
                         "rope_parameters": {"full_attention": YARN, "sliding_attention": {"rope_type": "default"}}},
    "rope_theta_zero": {**LLAMA, "rope_theta": 0},
    "window_every_zero": {**LLAMA, "model_type": "modernbert", "global_attn_every_n_layers": 0, "norm_eps": 1e-5},
    "window_pattern_zero": {**GEMMA3, "sliding_window_pattern": 0, "sliding_window": 4},
    "window_pattern": {**GEMMA3, "num_hidden_layers": 3, "sliding_window_pattern": 2, "sliding_window": 4},
    "name_long": {**LLAMA, "hidden_act": "s" * 1100},
}  # fmt: skip
CONFIGS = {**{"family_" + name: fields for name, fields in FAMILIES.items()}, **FIELDS}

# ---- The notes of GGUF files -----------------------------------------------------------

SHAPES = (("context_length", U32, 16), ("attention.head_count", U32, 2), ("attention.key_length", U32, 4))
KNOWN = (("attention.layer_norm_rms_epsilon", F32, 1e-6), ("attention.layer_norm_epsilon", F32, 1e-6), ("attention.sliding_window", U32, 4),
         ("expert_used_count", U32, 2), ("rope.scaling.factor", F32, 2.0))  # fmt: skip
ARCHITECTURES = ["llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "phi3", "gpt-oss", "gpt2", "bert"]
BIASES = ["attn_q.bias", "attn_output.bias", "ffn_up.bias"]


def family(name, biases):
    oss = name == "gpt-oss"
    tensors = [("token_embd.weight", (8, 9), 0, bytes(288)), ("token_types.weight", (8, 2), 0, bytes(64))]
    tensors += [(f"blk.0.{bias}", (8,), 0, bytes(32)) for bias in biases]
    more = (("expert_count", U32, 3 if oss else 0), ("rope.scaling.type", STRING, "yarn" if oss else "none"))
    return gguf_config(name, *SHAPES, *KNOWN, *more, tensors=tensors)


def turned_by(count, kind, raw):
    """Rotary positions divided by the numbers of a tensor."""
    return gguf_config("llama", ("attention.key_length", U32, 2 * count), EPS, HEADS, tensors=[("rope_freqs.weight", (count,), kind, raw)])


def plain(name, **numbers):
    return gguf([("general.architecture", STRING, name), *((f"{name}.{key}", U32, number) for key, number in numbers.items())])


# type: values and bytes of a block; 16 is one that cannot be read
TYPES = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176),
         14: (256, 210), 16: (256, 66), 20: (32, 18), 23: (256, 136), 28: (1, 8), 30: (1, 2), 39: (32, 17)}  # fmt: skip
BYTES = bytes(range(1, 256)) * 2
LARGEST = {"block_count": 62, "embedding_length": 8, "feed_forward_length": 8}
GGUFS = {
    **{f"gguf_family_{name}": family(name, []) for name in ARCHITECTURES},
    **{f"gguf_biased_{name}": family(name, BIASES) for name in ARCHITECTURES},
    **{f"gguf_factors_{kind}": turned_by(max(2, values), kind, BYTES[: size if values > 1 else 2 * size]) for kind, (values, size) in TYPES.items()},
    "gguf_factors_halves": turned_by(8, 1, struct.pack("<8H", 0, 1, 0x8001, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E01)),
    "gguf_factors_powers": turned_by(96, 39, bytes(17) + b"\1" * 17 + b"\x7f" * 17),
    "gguf_factors_many": turned_by(1025, 1, b"\1" * 2050),
    "gguf_list_words": gguf_config("llama", EPS, ("attention.head_count", ARRAY, (STRING, ["2"]))),
    "gguf_list_lists": gguf_config("llama", EPS, ("attention.head_count", ARRAY, (ARRAY, [(U32, [2])]))),
    "gguf_largest_gemma3": plain("gemma3", **LARGEST, **{"attention.head_count": 2}),
    "gguf_no_heads": plain("gemma3", **LARGEST, **{"attention.head_count": 0}),
    "gguf_name_long": gguf_config("n" * 70),
    "gguf_name_nul": gguf_config("a\0b"),
}  # fmt: skip
