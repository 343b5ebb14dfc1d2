#!/usr/bin/env python3
"""Changes every field of config.json of small checkpoints, one at a time, and compares what the product makes of the
model with what transformers does: the last hidden states agree, or the product refuses the field.

    cmake --build build --target hidden_states
    tools/mutate_configs.py build/tests/configs/hidden_states FIXTURES/*        (pip install torch transformers safetensors)

Each folder's config.json is mutated: fields left out, null, other numbers, other names, other stretchings of rotary
positions in the spelling of transformers 5 and in the two older ones; fields of other families are added. Weights are
drawn anew for each. A line per surprise:

    WRONG     both computed something, and it differs; or the product refuses the configuration as it stands
    refused   the product refuses what transformers computes (shown with --refused)

The exit status is 1 when something is WRONG."""
import copy
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers
from torch.overrides import TorchFunctionMode

LENGTH = 14
ACTIVATIONS = ["gelu", "gelu_new", "gelu_fast", "gelu_python", "gelu_pytorch_tanh", "gelu_accurate", "quick_gelu", "relu",
               "relu2", "silu", "swish", "tanh", "sigmoid", "mish", "linear", "relu6"]
NAMES = ["gated-silu", "gated-relu", "gated-gelu", "relu", "absolute", "relative_key", "rotary"]
YARN = {"rope_type": "yarn", "factor": 3.0, "rope_theta": 500.0, "original_max_position_embeddings": 16}
LLAMA3 = {"rope_type": "llama3", "factor": 3.0, "rope_theta": 500.0, "original_max_position_embeddings": 16,
          "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LONG = {"rope_type": "longrope", "rope_theta": 500.0, "original_max_position_embeddings": 32}
STRETCHINGS = [
    {"rope_type": "default", "rope_theta": 500.0}, {"rope_type": "default"}, {"rope_theta": 777.0},
    {"rope_type": "linear", "factor": 3.0, "rope_theta": 500.0}, {"rope_type": "dynamic", "factor": 3.0, "rope_theta": 500.0},
    YARN, {**YARN, "attention_factor": 1.7}, {**YARN, "mscale": 0.7, "mscale_all_dim": 0.4}, {**YARN, "mscale": 0.7},
    {**YARN, "mscale_all_dim": 0.7}, {**YARN, "beta_fast": 8, "beta_slow": 2, "truncate": False},
    {k: v for k, v in YARN.items() if k[0] != "o"}, LLAMA3,
    {**LLAMA3, "original_max_position_embeddings": 32, "low_freq_factor": 0.5, "high_freq_factor": 3.0},
    LONG, {**LONG, "original_max_position_embeddings": 8}, {**LONG, "attention_factor": 1.3}, {**LONG, "factor": 4.0},
    {"rope_type": "proportional", "rope_theta": 500.0, "factor": 2.0},
    {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5}]
BESIDE = {"rope_theta": 333.0, "rope_local_base_freq": 333.0, "global_rope_theta": 333.0, "local_rope_theta": 333.0,
          "rotary_emb_base": 333.0, "rotary_pct": 0.25, "rope_pct": 0.25, "partial_rotary_factor": 0.25,
          "original_max_position_embeddings": 8}
FOREIGN = {"is_decoder": True, "is_causal": False, "use_bidirectional_attention": True, "attn_logit_softcapping": 3.0,
           "sliding_window": 4, "use_sliding_window": True, "attention_bias": True, "mlp_bias": True, "qk_layernorm": True,
           "head_dim": 12, "position_embedding_type": "relative_key", "chunk_size_feed_forward": 3, "num_key_value_heads": 2,
           "add_cross_attention": True, "max_window_layers": 1, "alibi": True, "norm_topk_prob": False,
           "attention_chunk_size": 4, "clip_qkv": 0.5, "query_pre_attn_scalar": 3, "rms_norm_eps": 0.1,
           "layer_norm_eps": 0.1, "n_inner": 20, "ffn_hidden_size": 24, "intermediate_size": 24, "embedding_size": 8,
           "hidden_activation": "relu", "hidden_act": "relu", "use_qk_norm": True}


class Float64(TorchFunctionMode):
    """float32 asked for is float64 given."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = {k: torch.float64 if v is torch.float32 else v for k, v in (kwargs or {}).items()}
        if func is torch.Tensor.float:
            return args[0].double()
        return func(*(torch.float64 if a is torch.float32 else a for a in args), **kwargs)


# ---- Mutations ----

def other_values(value):
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return sorted({value + 1, 2 * value, max(1, value // 2), 3, abs(value - 1), 0} - {value})
    if isinstance(value, float):
        return [value / 2, 2 * value + 0.1, 0.3, 0.0]
    if isinstance(value, str):
        return [v for v in (ACTIVATIONS if value in ACTIVATIONS else NAMES) if v != value]
    return [True, False, 3, 6, 0.5] if value is None else []


def of_fields(config):
    for key in sorted(set(config) - {"architectures", "dtype", "transformers_version", "model_type"}):
        without = {k: v for k, v in config.items() if k != key}
        yield f"without {key}", without
        for value in [None] * (config[key] is not None) + other_values(config[key]):
            yield f"{key} = {value}", {**without, key: value}


def of_layers(config):
    layers = config.get("num_hidden_layers", 2)
    kinds = (["sliding_attention", "full_attention"] * layers)[:layers]
    for window in (1, 2, 5):
        more = {"layer_types": kinds, "sliding_window": window}
        yield f"windows of {window}", {**config, **more}
        yield f"windows of {window}, used", {**config, **more, "use_sliding_window": True}
    yield "all windows", {**config, "layer_types": ["sliding_attention"] * layers, "sliding_window": 3}
    if "attention_layers" in config:
        local = [[["local"], len(config["attention_layers"])]]
        rest = {k: v for k, v in config.items() if k not in ("attention_layers", "attention_types")}
        yield "attention_types", {**rest, "attention_types": local}
    if "no_rope_layers" in config:
        rest = {k: v for k, v in config.items() if k != "no_rope_layers"}
        yield "no_rope_layer_interval", {**rest, "no_rope_layer_interval": 2}


def of_rope(config):
    given = config.get("rope_parameters")
    if not given:
        return
    rest = {k: v for k, v in config.items() if k != "rope_parameters"}
    head = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    for s in STRETCHINGS:
        s = dict(s)
        if "partial_rotary_factor" in given:
            s.setdefault("partial_rotary_factor", given["partial_rotary_factor"])
        if s.get("rope_type") == "longrope":
            half = int(head * s.get("partial_rotary_factor", 1)) // 2
            s |= {"short_factor": [1 + 0.1 * i for i in range(half)], "long_factor": [2 + 0.3 * i for i in range(half)]}
        for kind in [k for k in given if k.endswith("_attention")] or [None]:
            new = {**given, kind: s} if kind else s
            yield f"rope_parameters {kind} {s}", {**rest, "rope_parameters": new}
        outside = {k: s[k] for k in ("rope_theta", "partial_rotary_factor") if k in s}
        inside = {k: v for k, v in s.items() if k not in outside and v != "default"}
        yield f"rope_scaling {s}", {**rest, **outside, **({"rope_scaling": inside} if inside else {})}
        if "rope_type" in inside:
            inside["type"] = inside.pop("rope_type")
            yield f"rope_scaling with type {s}", {**rest, **outside, "rope_scaling": inside}
    for key, value in BESIDE.items():
        yield f"{key} beside", {**config, key: value}
        yield f"{key} alone", {**rest, key: value}


def mutations(config, part):
    """Of a checkpoint with several parts, that of the one that is run."""
    if part:
        for what, inner in mutations(config[f"{part}_config"], None):
            yield what, {**config, f"{part}_config": inner}
        return
    yield "as it is", config
    yield from of_fields(config)
    yield from of_layers(config)
    yield from of_rope(config)
    for key, value in FOREIGN.items():
        if key not in config:
            yield f"new {key} = {value}", {**config, key: value}


# ---- Both sides ----

def draw_weights(model):
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            noise = torch.randn(p.shape, generator=generator, dtype=torch.float64)
            if p.ndim < 2:
                noise = p + 0.25 * noise
            elif "embed" not in name and not name.startswith(("wte", "wpe", "shared")):
                noise *= 1.3 / math.sqrt(p.shape[-2] if p.ndim == 3 else p[0].numel())
            with torch._C.DisableTorchFunction():
                p.copy_(noise.to(torch.float32))


def theirs(folder, kind, part):
    config = transformers.AutoConfig.from_pretrained(folder)
    config._attn_implementation = config._experts_implementation = "eager"
    config.dtype = torch.float64
    model = transformers.T5EncoderModel(config) if kind == "t5" else transformers.AutoModel.from_config(config)
    model = model.double().eval()
    if kind == "opt":
        model.decoder.project_out = None  # belongs to the head: families.md
    draw_weights(model)
    whole = model
    if part:
        names = ("text_model", "language_model") if part == "text" else ("vision_model", "vision_tower")
        model = next(getattr(model, n) for n in names if hasattr(model, n))
        config = model.config
    rng = np.random.default_rng(0)
    if hasattr(config, "image_size"):
        size = config.image_size if isinstance(config.image_size, (list, tuple)) else [config.image_size] * 2
        pixels = rng.standard_normal((config.num_channels, *size))
        pixels.tofile(os.path.join(folder, "pixels.f64"))
        line = " ".join(["pixels", *map(str, pixels.shape), os.path.join(folder, "pixels.f64")])
        inputs = {"pixel_values": torch.tensor(pixels)[None]}
    else:
        ids = rng.integers(2, min(config.vocab_size, 30), LENGTH).tolist()
        line = " ".join(map(str, [LENGTH, *ids]))
        inputs = {"input_ids": torch.tensor([ids])}
    with torch.no_grad():
        hidden = model(**inputs).last_hidden_state[0].numpy()
    whole.save_pretrained(folder)
    return hidden, line


def ours(process, folder, line, part):
    process.stdin.write(f"{folder}{'@' + part if part else ''} {line}\n")
    process.stdin.flush()
    answer = process.stdout.readline().strip()
    if not answer:
        sys.exit(f"{folder}: the product ended")
    if answer.startswith("ERR"):
        return None, answer[4:]
    return np.fromfile(os.path.join(folder, "hidden.f64")).reshape([int(x) for x in answer.split()[1:]]), None


def judge(config, folder, process, part):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    text = json.dumps(config)
    path = os.path.join(folder, "config.json")
    open(path, "w").write(text)
    try:
        torch.set_default_dtype(torch.float64)
        with Float64():
            wanted, line = theirs(folder, config["model_type"], part)
    except Exception:  # transformers refuses it in many ways
        return "neither", ""
    finally:
        torch.set_default_dtype(torch.float32)
    open(path, "w").write(text)  # not as save_pretrained understood it
    got, refusal = ours(process, folder, line, part)
    if got is None:
        return "refused", refusal
    if got.shape != wanted.shape:
        return "WRONG", f"shape {got.shape}, transformers {wanted.shape}"
    error = np.abs(got - wanted).max() / max(np.abs(wanted).max(), 1e-300)
    # factors of longrope and slopes of ALiBi are float32 numbers in transformers
    return ("same" if error < 1e-6 else "WRONG"), f"{error:.1e}"


def main(arguments):
    show = "--refused" in arguments
    program, *folders = [a for a in arguments if a != "--refused"] or sys.exit(__doc__)
    torch.set_num_threads(1)
    transformers.logging.set_verbosity(50)
    transformers.logging.disable_progress_bar()
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    wrong = 0
    with tempfile.TemporaryDirectory() as work:
        for folder in folders:
            if not os.path.exists(os.path.join(folder, "config.json")):
                continue
            count = {}
            part = json.load(open(os.path.join(folder, "reference.json"))).get("part")
            for what, config in mutations(json.load(open(os.path.join(folder, "config.json"))), part):
                verdict, text = judge(copy.deepcopy(config), os.path.join(work, "model"), process, part)
                if what == "as it is" and verdict != "same":  # nothing would be compared
                    verdict, text = "WRONG", f"{verdict}: {text}"
                count[verdict] = count.get(verdict, 0) + 1
                if verdict == "WRONG" or (verdict == "refused" and show):
                    print(f"{os.path.basename(folder)}: {what}: {verdict}: {text}", flush=True)
            wrong += count.get("WRONG", 0)
            print(f"{os.path.basename(folder)}: {count}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
