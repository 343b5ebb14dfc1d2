#!/usr/bin/env python3
"""Writes small checkpoints of Hugging Face folders as GGUF files, as the converters of that format do, and beside them
in models.json what transformers answered for the folders: ids and the singular values of attention and block.

    pip install gguf safetensors && tools/make_gguf_models.py FIXTURES tests/data/gguf FOLDER...

Tensor names are the gguf package's own map.  What converters change: matrices of GPT-2 are transposed, rows of llama's
queries and keys are put in pairs, Gemma's gains become whole, llama3's stretching becomes a tensor of factors."""
import json
import math
import os
import sys

import gguf
import numpy as np
from gguf import MODEL_ARCH as A
from safetensors.numpy import load_file

ARCH = {"llama": A.LLAMA, "qwen2": A.QWEN2, "qwen3": A.QWEN3, "gemma": A.GEMMA, "gemma2": A.GEMMA2,
        "gemma3_text": A.GEMMA3, "phi3": A.PHI3, "gpt2": A.GPT2, "bert": A.BERT, "gpt_oss": A.GPT_OSS}


def paired(w, heads):
    """Halves to neighbours: row l and row l + k/2 of a head become rows 2l and 2l+1."""
    k = w.shape[0] // heads
    return w.reshape(heads, 2, k // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def llama3_factors(rope, dim):
    """What one divides the frequencies by."""
    out = []
    for l in range(dim // 2):
        freq = rope["rope_theta"] ** (-2 * l / dim)
        turns = rope["original_max_position_embeddings"] * freq / (2 * math.pi)
        low, high, factor = rope["low_freq_factor"], rope["high_freq_factor"], rope["factor"]
        if turns < low:
            out.append(factor)
        elif turns > high:
            out.append(1.0)
        else:
            smooth = (turns - low) / (high - low)
            out.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(out, dtype=np.float64)


def notes(out, c, kind):
    get = lambda *names: next((c[n] for n in names if c.get(n) is not None), None)
    heads, width = get("num_attention_heads", "n_head"), get("hidden_size", "n_embd")
    out.add_vocab_size(c["vocab_size"])
    out.add_block_count(get("num_hidden_layers", "n_layer"))
    out.add_embedding_length(width)
    out.add_head_count(heads)
    out.add_feed_forward_length(get("intermediate_size", "n_inner") or 4 * width)
    out.add_context_length(get("max_position_embeddings", "n_positions"))
    if get("num_key_value_heads"):
        out.add_head_count_kv(c["num_key_value_heads"])
    if get("head_dim"):
        out.add_key_length(c["head_dim"])
        out.add_value_length(c["head_dim"])
    if get("rms_norm_eps"):
        out.add_layer_norm_rms_eps(c["rms_norm_eps"])
    else:
        out.add_layer_norm_eps(get("layer_norm_eps", "layer_norm_epsilon"))
    rope = c.get("rope_parameters") or {}
    rope = rope.get("full_attention", rope)
    if rope:
        out.add_rope_freq_base(rope["rope_theta"])
        out.add_rope_dimension_count(get("head_dim") or width // heads)
    if rope.get("rope_type") in ("linear", "yarn"):
        out.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        out.add_rope_scaling_factor(rope["factor"])
        if "original_max_position_embeddings" in rope:
            out.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if c.get("attn_logit_softcapping"):
        out.add_attn_logit_softcapping(c["attn_logit_softcapping"])
    if c.get("num_local_experts"):
        out.add_expert_count(c["num_local_experts"])
        out.add_expert_used_count(c["num_experts_per_tok"])
        out.add_expert_feed_forward_length(c["intermediate_size"])
    if c.get("sliding_window"):
        out.add_sliding_window(c["sliding_window"])
    return rope


def changed(name, w, c, kind):
    if kind == "gpt2" and name.endswith(".weight") and w.ndim == 2 and ".c_" in name:
        return np.ascontiguousarray(w.T)
    if kind == "llama" and name.endswith(("q_proj.weight", "q_proj.bias")):
        return paired(w, c["num_attention_heads"])
    if kind == "llama" and name.endswith(("k_proj.weight", "k_proj.bias")):
        return paired(w, c["num_key_value_heads"])
    if kind.startswith("gemma") and name.endswith("norm.weight"):
        return w + 1
    return w


def parts(name, w):
    """gpt-oss: gate and up, which alternate, apart; matrices of experts (out, in)."""
    if name.endswith(".sinks"):
        return [(name + ".weight", w)]
    if ".experts." not in name:
        return [(name, w)]
    bias = name.endswith("_bias")
    name = name.removesuffix("_bias") + (".bias" if bias else ".weight")
    turn = (lambda a: a) if bias else (lambda a: np.ascontiguousarray(a.swapaxes(1, 2)))
    if "gate_up_proj" not in name:
        return [(name, turn(w))]
    return [(name.replace("gate_up_proj", which), np.ascontiguousarray(turn(w[..., first::2])))
            for first, which in ((0, "gate_proj"), (1, "up_proj"))]


def convert(folder, target):
    c = json.load(open(os.path.join(folder, "config.json")))
    kind, arch = c["model_type"], ARCH[c["model_type"]]
    layers = c.get("num_hidden_layers", c.get("n_layer"))
    names = gguf.get_tensor_name_map(arch, layers)
    out = gguf.GGUFWriter(target, gguf.MODEL_ARCH_NAMES[arch])
    rope = notes(out, c, kind)
    tensors = load_file(os.path.join(folder, "model.safetensors"))
    if kind == "gpt_oss":
        tensors = dict(part for name, w in tensors.items() for part in parts(name, w))
    for name, w in sorted(tensors.items()):
        if w.ndim == 0 or "position_ids" in name or "pooler" in name or "lm_head" in name:
            continue
        new = next((n for p in ("", "model.", "transformer.", "bert.")
                    if (n := names.get_name(p + name, try_suffixes=(".weight", ".bias")))), None)
        if not new:
            raise SystemExit(f"{folder}: the package has no name for {name}")
        out.add_tensor(new, changed(name, w.astype(np.float32), c, kind).astype(np.float32))
    if rope.get("rope_type") == "llama3":
        dim = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
        out.add_tensor("rope_freqs.weight", llama3_factors(rope, dim).astype(np.float32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def main(fixtures, target, folders):
    answers = {}
    path = os.path.join(target, "models.json")
    if os.path.exists(path):  # the others stay
        answers = json.load(open(path))
    for name in folders:
        folder = os.path.join(fixtures, name)
        convert(folder, os.path.join(target, name + ".gguf"))
        case = json.load(open(os.path.join(folder, "reference.json")))["inputs"][-1]
        answers[name + ".gguf"] = {"ids": case["input_ids"], "layers": [
            {"attention": layer["attention_singular_values"][0], "block": layer["block_singular_values"][0]}
            for layer in case["layers"]]}
    with open(path, "w") as f:
        json.dump(answers, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
