#!/usr/bin/env python3
"""Small checkpoints of every family with sizes and options that nobody chose, in the form of make_fixtures.py.

    tools/random_fixtures.py OUT [--seed N] [--rounds R] [NAME...]
    LIPSCOPE_FIXTURES=OUT build/tests/model/test_fixtures       (and test_layer_files, test_certify_fixtures)

Every entry of the tables fixture_families*.py gets, in each round, other widths, heads, layers, windows, stretchings of
rotary positions, activations, biases and lengths of the two inputs. A configuration that transformers itself does not
take is drawn again."""
import argparse
import copy
import random
import shutil
import sys

import torch
import transformers

import make_fixtures

WIDTH = ("hidden_size", "n_embd", "d_model", "dim")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
INNER = ("intermediate_size", "n_inner", "d_ff", "ffn_dim", "hidden_dim", "ffn_hidden_size")
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
ACTIVATION = ("hidden_act", "activation_function", "hidden_activation", "activation")
ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "quick_gelu", "relu", "silu", "tanh")
EPS = ("layer_norm_eps", "rms_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps")
FLAGS = ("attention_bias", "mlp_bias", "use_parallel_residual", "use_qkv_bias", "qkv_bias", "do_layer_norm_before",
         "enable_bias", "bias", "use_bias", "multi_query", "parallel_attn", "new_decoder_architecture",
         "scale_attn_by_inverse_layer_idx", "scale_attn_weights", "token_dropout", "emb_layer_norm_before",
         "use_qk_norm", "use_sliding_window", "qk_layernorm")
NUMBERS = {"query_pre_attn_scalar": (3, 40), "attn_logit_softcapping": (1.0, 9.0), "attention_multiplier": (0.05, 0.6),
           "embedding_multiplier": (0.3, 4.0), "residual_multiplier": (0.2, 1.4), "layerscale_value": (0.3, 1.5),
           "swiglu_limit": (0.5, 4.0)}


def first(keys, config):
    return next((k for k in keys if k in config), None)


def stretched(r, theta, head, positions, partial):
    """Rotary positions of any kind."""
    kind = r.choice(["default", "default", "linear", "dynamic", "yarn", "llama3", "longrope"])
    rope = {"rope_type": kind, "rope_theta": theta}
    if partial:
        rope["partial_rotary_factor"] = r.choice([p for p in (0.25, 0.4, 0.5, 0.67, 0.75, 1.0) if int(head * p) % 2 == 0])
    turned = int(head * rope.get("partial_rotary_factor", 1.0))
    if kind in ("linear", "dynamic", "yarn", "llama3"):
        rope["factor"] = round(r.uniform(1.5, 9.0), 2)
    if kind == "yarn":
        rope["original_max_position_embeddings"] = r.choice([8, 16, 40])
        if r.random() < 0.4:
            rope.update(beta_fast=r.choice([8.0, 20.0]), beta_slow=r.choice([1.0, 2.0]), truncate=r.random() < 0.5)
        if r.random() < 0.3:
            rope["attention_factor"] = round(r.uniform(0.6, 1.6), 2)
        elif r.random() < 0.3:
            rope.update(mscale=0.8, mscale_all_dim=0.5)
    if kind == "llama3":
        rope.update(low_freq_factor=1.0, high_freq_factor=r.choice([2.0, 4.0]), original_max_position_embeddings=r.choice([8, 24]))
    if kind == "longrope":
        rope.update(short_factor=[round(r.uniform(1, 2), 2) for _ in range(turned // 2)],
                    long_factor=[round(r.uniform(1, 9), 2) for _ in range(turned // 2)],
                    original_max_position_embeddings=r.choice([16, positions]), factor=2.0)
    return rope


def draw_sizes(r, c):
    heads, head = r.randint(1, 6), 2 * r.randint(2, 7)
    free = "head_dim" in c or "d_kv" in c
    c[first(WIDTH, c)] = 2 * r.randint(6, 22) if free else heads * head
    c[first(HEADS, c)] = heads
    for key in ("head_dim", "d_kv"):
        if key in c:
            c[key] = head
    if "num_key_value_heads" in c:
        c["num_key_value_heads"] = r.choice([k for k in range(1, heads + 1) if heads % k == 0])
    if "rotary_dim" in c:
        c["rotary_dim"] = r.choice([k for k in range(2, head + 1, 2)])
    if first(INNER, c):
        c[first(INNER, c)] = r.randint(5, 40)
    for key in ("embedding_size", "word_embed_proj_dim"):
        if key in c:
            c[key] = r.choice([r.randint(4, 20), c[first(WIDTH, c)]])
    return head


def draw_layers(r, c):
    layers = r.randint(1, 4)
    c[first(LAYERS, c)] = layers
    if "layer_types" in c:
        c["layer_types"] = [r.choice(["sliding_attention", "full_attention"]) for _ in range(layers)]
    if "no_rope_layers" in c:
        c["no_rope_layers"] = [r.randint(0, 1) for _ in range(layers)]
    if "attention_types" in c:
        c["attention_types"] = [[["global", "local"], (layers + 1) // 2]]
        c[first(LAYERS, c)] = 2 * ((layers + 1) // 2)
    if "global_attn_every_n_layers" in c:
        c["global_attn_every_n_layers"] = r.randint(1, 3)


def draw_options(r, c, known):
    for key, (low, high) in NUMBERS.items():
        if key in c or (key in known and r.random() < 0.3):
            c[key] = r.randint(low, high) if isinstance(low, int) else round(r.uniform(low, high), 3)
    for key in FLAGS:
        if key in known and r.random() < 0.4:
            c[key] = r.random() < 0.5
    for key in ("sliding_window", "local_attention", "window_size"):
        if key in c:
            c[key] = 2 * r.randint(1, 4) if key == "local_attention" else r.randint(1, 9)
    if "num_local_experts" in c:
        c["num_local_experts"] = r.randint(1, 6)
        c["num_experts_per_tok"] = r.randint(1, c["num_local_experts"])
    key = first(ACTIVATION, known)
    if key and r.random() < 0.6:
        c[key] = r.choice(ACTIVATIONS)
    key = first(EPS, known)
    if key:
        c[key] = r.choice([1e-12, 1e-5, 1e-2])
    if "image_size" in c:
        c["patch_size"] = r.randint(3, 7)
        c["image_size"] = c["patch_size"] * r.randint(1, 3) + r.choice([0, 0, 2])
    if "relative_attention_num_buckets" in known:
        c["relative_attention_num_buckets"] = r.choice([8, 16, 32])
        if "relative_attention_max_distance" in known:
            c["relative_attention_max_distance"] = r.choice([9, 20, 128])


def draw_rope(r, c, head):
    rope = c.get("rope_parameters")
    if not rope:
        return
    theta = lambda: round(10 ** r.uniform(1.5, 6), 1)
    if "rope_theta" in rope:
        c["rope_parameters"] = stretched(r, theta(), head, c.get("max_position_embeddings", 48), "partial_rotary_factor" in rope)
        if c["rope_parameters"]["rope_type"] == "longrope" and r.random() < 0.5:
            c["original_max_position_embeddings"] = c["rope_parameters"]["original_max_position_embeddings"]
    else:
        c["rope_parameters"] = {kind: stretched(r, theta(), head, 48, False) for kind in rope}


def draw(r, family):
    family = copy.deepcopy(family)
    known = vars(getattr(transformers, family["model"]).config_class())
    top = family["config"]
    for c in [top[k] for k in ("text_config", "vision_config") if k in top] or [top]:
        inner = known
        if c is not top:
            inner = vars(known["text_config" if c is top["text_config"] else "vision_config"])
        head = draw_sizes(r, c)
        draw_layers(r, c)
        draw_options(r, c, inner)
        draw_rope(r, c, head)
        if "vocab_size" in c:
            c["vocab_size"] = r.randint(40, 90)
    family["seed"] = r.randint(2, 10**6)
    return family


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("name", nargs="*")
    args = parser.parse_intermixed_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    families = make_fixtures.load_families()
    for turn in range(args.rounds):
        for name in args.name or families:
            r = random.Random(f"{args.seed} {turn} {name}")
            for attempt in range(20):
                family = draw(r, families[name])
                make_fixtures.LENGTHS = (r.randint(1, 5), r.randint(6, 14))
                try:
                    make_fixtures.make(name, family, args.out)
                    break
                except (Exception, SystemExit) as error:
                    torch.set_default_dtype(torch.float32)
                    shutil.rmtree(f"{args.out}/{name}-{family['seed']}", ignore_errors=True)
                    print(f"  {name}: {type(error).__name__}: {str(error)[:100]}", file=sys.stderr)
            else:
                print(f"{name}: nothing that transformers takes", file=sys.stderr)


if __name__ == "__main__":
    main()
