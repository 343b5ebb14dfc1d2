"""The small models of tests/data/fixtures.  `model`: class of transformers; `config`: what differs from its defaults;
`blocks`: the list of blocks; `attention`: the module of a block; `then`: the output projection where it is a module beside it; `scale`: factors of some parameters; `image`: reads pixels;
`inner`: the output projection where the attention module goes on behind it; `shared`: one block is passed as often as there are layers;
`last`: the module whose output is the last hidden state of the width of the blocks;
`part`: the part of the model that is run; `chosen`: as --part names it; `cache`: whether it takes use_cache."""


def text(hidden, heads, inner, layers=2, vocab=53, **more):
    return {"hidden_size": hidden, "num_attention_heads": heads, "intermediate_size": inner, "num_hidden_layers": layers,
            "vocab_size": vocab, "max_position_embeddings": 48, **more}


def rope(theta, kind="default", **more):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": theta, **more}}


def decoder(model, config, **more):
    return {"model": model, "config": config, "blocks": "layers", "attention": "self_attn", "seed": 1, **more}


def encoder(model, config, **more):
    return {"model": model, "config": config, "blocks": "encoder.layer", "attention": "attention.self",
            "then": "attention.output.dense", "cache": False, "seed": 1, **more}


def image(model, hidden, heads, inner, size, patch, **more):
    config = {"hidden_size": hidden, "num_attention_heads": heads, "intermediate_size": inner, "num_hidden_layers": 2,
              "image_size": size, "patch_size": patch, **more.pop("config", {})}
    return {"model": model, "config": config, "image": True, "attention": "attention", "blocks": "layers", "seed": 1, **more}


NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}

FAMILIES = {
    "bert": encoder("BertModel", text(30, 5, 44, **NO_DROPOUT)),
    "roberta": encoder("RobertaModel", text(28, 4, 36, pad_token_id=1, **NO_DROPOUT)),
    "xlm-roberta": encoder("XLMRobertaModel", text(24, 3, 40, pad_token_id=1, **NO_DROPOUT)),
    "electra": encoder("ElectraModel", text(24, 2, 40, embedding_size=10, **NO_DROPOUT)),
    "esm": encoder("EsmModel", text(24, 3, 40, vocab=33, pad_token_id=1, mask_token_id=32,
                                    position_embedding_type="rotary", token_dropout=False, **NO_DROPOUT)),
    "mpnet": encoder("MPNetModel", text(24, 3, 40, pad_token_id=1, **NO_DROPOUT),
                     attention="attention.attn", then="", scale={"relative_attention_bias": 3}),
    "distilbert": encoder("DistilBertModel",
                          {"dim": 28, "n_heads": 2, "hidden_dim": 36, "n_layers": 2, "vocab_size": 47,
                           "max_position_embeddings": 48, "dropout": 0.0, "attention_dropout": 0.0},
                          blocks="transformer.layer", attention="attention", then=""),
    "modernbert": encoder("ModernBertModel",
                          text(24, 3, 36, layers=4, local_attention=4, global_attn_every_n_layers=3, pad_token_id=0,
                               bos_token_id=1, eos_token_id=1, cls_token_id=1, sep_token_id=1),
                          blocks="layers", attention="attn", then=""),
    "clip_text_model": encoder("CLIPTextModel", text(24, 3, 40, pad_token_id=1, bos_token_id=0, eos_token_id=1),
                               blocks="encoder.layers", attention="self_attn", then=""),
    "t5": {"model": "T5Model", "part": "encoder", "blocks": "block", "attention": "layer.0.SelfAttention", "cache": False,
           "seed": 1, "scale": {"relative_attention_bias": 3},
           "config": {"d_model": 20, "d_kv": 6, "d_ff": 24, "num_heads": 3, "num_layers": 2, "num_decoder_layers": 1,
                      "vocab_size": 41, "feed_forward_proj": "gated-gelu", "relative_attention_num_buckets": 8,
                      "relative_attention_max_distance": 20, "dropout_rate": 0.0}},
    "gpt2": {"model": "GPT2Model", "blocks": "h", "attention": "attn", "seed": 1,
             "config": {"n_embd": 30, "n_head": 5, "n_layer": 2, "n_positions": 48, "vocab_size": 53, "n_inner": 40,
                        "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0, "bos_token_id": 0, "eos_token_id": 0}},
    "gpt_neo": {"model": "GPTNeoModel", "blocks": "h", "attention": "attn.attention", "seed": 1,
                "config": {"hidden_size": 24, "num_heads": 3, "num_layers": 2, "attention_types": [[["global", "local"], 1]],
                           "vocab_size": 53, "max_position_embeddings": 48, "window_size": 4, "intermediate_size": 40}},
    "gptj": {"model": "GPTJModel", "blocks": "h", "attention": "attn", "seed": 1,
             "config": {"n_embd": 24, "n_head": 2, "n_layer": 2, "n_positions": 48, "vocab_size": 53, "rotary_dim": 8}},
    "bloom": {"model": "BloomModel", "blocks": "h", "attention": "self_attention", "seed": 1,
              "config": {"hidden_size": 24, "n_head": 3, "n_layer": 2, "vocab_size": 53}},
    "falcon": {"model": "FalconModel", "blocks": "h", "attention": "self_attention", "seed": 1,
               "config": {"hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 2, "vocab_size": 53,
                          "multi_query": True, "parallel_attn": True, "bias": False, "alibi": False,
                          "new_decoder_architecture": False, "ffn_hidden_size": 36, **rope(20000.0)}},
    "gpt_neox": decoder("GPTNeoXModel", text(24, 3, 40, **rope(10000.0, partial_rotary_factor=0.25)),
                        attention="attention"),
    "gpt_neox_serial": decoder("GPTNeoXModel", text(24, 2, 40, use_parallel_residual=False,
                                                    **rope(20000.0, partial_rotary_factor=0.5)), attention="attention"),
    "opt": {"model": "OPTModel", "blocks": "decoder.layers", "attention": "self_attn", "seed": 1,
            "last": "decoder.final_layer_norm",
            "config": {"hidden_size": 24, "num_attention_heads": 3, "ffn_dim": 40, "num_hidden_layers": 2, "vocab_size": 53,
                       "max_position_embeddings": 48, "word_embed_proj_dim": 24, "dropout": 0.0}},
    "phi": decoder("PhiModel", text(24, 3, 40, **rope(10000.0, partial_rotary_factor=0.5))),
    "phi3": decoder("Phi3Model", text(30, 5, 36, num_key_value_heads=1, pad_token_id=0, **rope(10000.0))),
    "stablelm": decoder("StableLmModel", text(24, 4, 40, num_key_value_heads=2, use_qkv_bias=True,
                                              **rope(10000.0, partial_rotary_factor=0.67))),
    "llama": decoder("LlamaModel", text(30, 3, 44, num_key_value_heads=1, head_dim=8, **rope(10000.0))),
    "llama_linear": decoder("LlamaModel", text(24, 4, 36, num_key_value_heads=2, head_dim=6, attention_bias=True,
                                               mlp_bias=True, **rope(10000.0, "linear", factor=3.5))),
    "llama_llama3": decoder("LlamaModel", text(24, 2, 36, num_key_value_heads=1, head_dim=16,
                                               **rope(10000.0, "llama3", factor=6.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                                      original_max_position_embeddings=24))),
    "mistral": decoder("MistralModel", text(28, 4, 40, num_key_value_heads=2, head_dim=10, sliding_window=4, **rope(7000.0))),
    "mixtral": decoder("MixtralModel", text(24, 4, 20, num_key_value_heads=2, num_local_experts=3, num_experts_per_tok=2,
                                            **rope(1e5))),
    "qwen2": decoder("Qwen2Model", text(28, 2, 40, num_key_value_heads=1, **rope(10000.0))),
    "qwen2_yarn": decoder("Qwen2Model", text(24, 4, 40, num_key_value_heads=2,
                                             **rope(10000.0, "yarn", factor=2.0, original_max_position_embeddings=24))),
    "qwen3": decoder("Qwen3Model", text(28, 3, 40, num_key_value_heads=3, head_dim=12, **rope(10000.0))),
    "olmo2": decoder("Olmo2Model", text(24, 3, 40, num_key_value_heads=1, **rope(10000.0))),
    "granite": decoder("GraniteModel", text(24, 3, 40, num_key_value_heads=3, attention_multiplier=0.25,
                                            embedding_multiplier=1.5, residual_multiplier=0.6, logits_scaling=2.0,
                                            **rope(10000.0))),
    "smollm3": decoder("SmolLM3Model", text(24, 4, 32, layers=3, num_key_value_heads=2, no_rope_layers=[1, 0, 1],
                                            no_rope_layer_interval=2, pad_token_id=0, **rope(50000.0))),
    "gemma": decoder("GemmaModel", text(24, 2, 36, num_key_value_heads=2, head_dim=10, **rope(10000.0))),
    "gemma2": decoder("Gemma2Model", text(24, 4, 36, num_key_value_heads=2, head_dim=10, attn_logit_softcapping=3.0,
                                          query_pre_attn_scalar=12, sliding_window=4,
                                          layer_types=["sliding_attention", "full_attention"], **rope(10000.0))),
    "olmo3": decoder("Olmo3Model", text(24, 3, 36, layers=3, num_key_value_heads=1, sliding_window=5,
                                        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                                        rope_parameters={
                                            "sliding_attention": {"rope_type": "default", "rope_theta": 9000.0},
                                            "full_attention": {"rope_type": "yarn", "rope_theta": 9000.0, "factor": 4.0,
                                                               "original_max_position_embeddings": 8}})),
    "gemma3_text": decoder("Gemma3TextModel", text(24, 2, 36, layers=3, num_key_value_heads=1, head_dim=12,
                                                   query_pre_attn_scalar=18, sliding_window=5,
                                                   layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                                                   rope_parameters={
                                                       "sliding_attention": {"rope_type": "default", "rope_theta": 8000.0},
                                                       "full_attention": {"rope_type": "default", "rope_theta": 300000.0}})),
    "gpt_oss": decoder("GptOssModel", text(20, 2, 24, num_key_value_heads=1, head_dim=12, num_local_experts=3,
                                           num_experts_per_tok=2, sliding_window=5,
                                           layer_types=["sliding_attention", "full_attention"],
                                           **rope(20000.0, "yarn", factor=3.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                                                  original_max_position_embeddings=16)), scale={"sinks": 4}),
    "vit": image("ViTModel", 28, 4, 40, 24, 8),
    "deit": image("DeiTModel", 24, 3, 40, 24, 8),
    "dinov2": image("Dinov2Model", 24, 3, 40, 24, 8, blocks="encoder.layer",
                    config={"mlp_ratio": 2, "layerscale_value": 1.0}),
    "clip_vision_model": image("CLIPVisionModel", 24, 3, 40, 24, 8, blocks="encoder.layers", attention="self_attn"),
    "siglip_vision_model": image("SiglipVisionModel", 24, 3, 40, 24, 8, blocks="encoder.layers", attention="self_attn"),
}
