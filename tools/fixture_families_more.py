"""More models of tests/data/fixtures: families and options of families beyond fixture_families.py, which says what the
entries mean."""


def sizes(hidden, heads, inner, layers=2, **more):
    return {"hidden_size": hidden, "num_attention_heads": heads, "intermediate_size": inner, "num_hidden_layers": layers,
            "vocab_size": 53, "max_position_embeddings": 48, **more}


def rope(theta, kind="default", **more):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": theta, **more}}


def decoder(model, config, **more):
    return {"model": model, "config": config, "blocks": "layers", "attention": "self_attn", "seed": 1, **more}


def wrapper(model, part, chosen, text, vision, **more):
    """A text and an image model in one checkpoint."""
    return {"model": model, "part": part, "chosen": chosen, "blocks": "encoder.layers", "attention": "self_attn",
            "cache": False, "image": chosen == "vision", "seed": 1,
            "config": {"text_config": text, "vision_config": vision}, **more}


TEXT = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24, "num_hidden_layers": 2, "vocab_size": 37,
        "max_position_embeddings": 20}
CLIP_TEXT = {**TEXT, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
VISION = {"hidden_size": 18, "num_attention_heads": 3, "intermediate_size": 20, "num_hidden_layers": 2, "image_size": 16,
          "patch_size": 8}
GEMMA = {**TEXT, "num_key_value_heads": 1, "head_dim": 8, "query_pre_attn_scalar": 10, "sliding_window": 4,
         "layer_types": ["sliding_attention", "full_attention"]}

FAMILIES = {
    "clip_text": wrapper("CLIPModel", "text_model", "text", CLIP_TEXT, VISION),
    "clip_vision": wrapper("CLIPModel", "vision_model", "vision", CLIP_TEXT, VISION),
    "siglip_text": wrapper("SiglipModel", "text_model", "text", CLIP_TEXT, VISION),
    "siglip_vision": wrapper("SiglipModel", "vision_model", "vision", CLIP_TEXT, VISION),
    "gemma3_language": wrapper("Gemma3ForConditionalGeneration", "model.language_model", "text", GEMMA, VISION,
                               blocks="layers", cache=True),
    "gemma3_vision": wrapper("Gemma3ForConditionalGeneration", "model.vision_tower", "vision", GEMMA, VISION),
    "siglip2_text": wrapper("Siglip2Model", "text_model", "text", {**CLIP_TEXT, "projection_size": 12},
                            {"hidden_size": 12, "num_attention_heads": 2, "intermediate_size": 8, "num_hidden_layers": 1,
                             "patch_size": 4, "num_patches": 4}),
    "mistral3": wrapper("Mistral3ForConditionalGeneration", "model.language_model", "text",
                        {"model_type": "mistral", **TEXT, "num_key_value_heads": 1, "head_dim": 6, "sliding_window": 4,
                         "rope_theta": 3000.0},
                        {"model_type": "pixtral", "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8,
                         "num_hidden_layers": 1, "image_size": 8, "patch_size": 4, "head_dim": 4},
                        blocks="layers", cache=True),
    "cohere": decoder("CohereModel", sizes(24, 4, 36, num_key_value_heads=2, pad_token_id=0, **rope(8000.0))),
    "starcoder2": decoder("Starcoder2Model", sizes(24, 6, 36, num_key_value_heads=3, sliding_window=4, **rope(5000.0))),
    "opt_post": {"model": "OPTModel", "blocks": "decoder.layers", "attention": "self_attn", "seed": 1,
                 "config": {"hidden_size": 24, "num_attention_heads": 2, "ffn_dim": 36, "num_hidden_layers": 2,
                            "vocab_size": 53, "max_position_embeddings": 48, "word_embed_proj_dim": 24, "dropout": 0.0,
                            "do_layer_norm_before": False}},
    "dinov2_swiglu": {"model": "Dinov2Model", "image": True, "blocks": "encoder.layer", "attention": "attention", "seed": 1,
                      "config": {"hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 2, "image_size": 24,
                                 "patch_size": 8, "mlp_ratio": 3, "use_swiglu_ffn": True}},
    "esm1b": {"model": "EsmModel", "blocks": "encoder.layer", "attention": "attention.self",
              "then": "attention.output.dense", "cache": False, "seed": 1,
              "config": {"hidden_size": 24, "num_attention_heads": 4, "intermediate_size": 36, "num_hidden_layers": 2,
                         "vocab_size": 33, "max_position_embeddings": 48, "pad_token_id": 1, "mask_token_id": 32,
                         "position_embedding_type": "absolute", "emb_layer_norm_before": True, "token_dropout": True,
                         "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}},
    "bloom12": {"model": "BloomModel", "blocks": "h", "attention": "self_attention", "seed": 1,
                "config": {"hidden_size": 36, "n_head": 12, "n_layer": 1, "vocab_size": 53}},
    # the two Gemmas as a GGUF file can hold them: scores scaled by head_dim, windows in the usual layers
    "gemma2_gguf": decoder("Gemma2Model", sizes(24, 4, 36, layers=3, num_key_value_heads=2, head_dim=8,
                                                attn_logit_softcapping=4.0, query_pre_attn_scalar=8, sliding_window=4,
                                                **rope(10000.0))),
    "gemma3_gguf": decoder("Gemma3TextModel", sizes(16, 2, 24, layers=7, num_key_value_heads=1, head_dim=8,
                                                    query_pre_attn_scalar=8, sliding_window=4,
                                                    rope_parameters={
                                                        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                                                        "full_attention": {"rope_type": "linear", "factor": 8.0,
                                                                           "rope_theta": 1000000.0}})),
    "mixtral_top3": decoder("MixtralModel", sizes(24, 2, 16, num_key_value_heads=1, num_local_experts=5,
                                                  num_experts_per_tok=3, sliding_window=3, **rope(1e5))),
    "mixtral_one": decoder("MixtralModel", sizes(12, 2, 9, layers=1, num_key_value_heads=1, num_local_experts=1,
                                                 num_experts_per_tok=1, **rope(1e4))),
    "albert": {"model": "AlbertModel", "blocks": "encoder.albert_layer_groups.0.albert_layers", "attention": "attention",
               "inner": "attention.dense", "shared": True, "cache": False, "seed": 1,
               "config": sizes(24, 3, 20, layers=3, embedding_size=10)},
    "albert_square": {"model": "AlbertModel", "blocks": "encoder.albert_layer_groups.0.albert_layers",
                      "attention": "attention", "inner": "attention.dense", "shared": True, "cache": False, "seed": 1,
                      "config": sizes(12, 2, 9, layers=1, embedding_size=12)},
    "phi3_longrope": decoder("Phi3Model", sizes(24, 3, 36, num_key_value_heads=3, pad_token_id=0, sliding_window=5,
                                                original_max_position_embeddings=16,
                                                **rope(10000.0, "longrope", short_factor=[1.0, 1.25, 1.5, 3.0],
                                                       long_factor=[1.0, 2.0, 4.0, 8.0]))),
}
