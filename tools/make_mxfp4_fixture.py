#!/usr/bin/env python3
"""Writes tests/data/fixtures/gpt_oss_mxfp4-1: a small gpt_oss whose experts are stored as published, in four bits, with
the answers of transformers for the weights that its own convert_moe_packed_tensors makes of them; and
tests/data/mxfp4.safetensors: random blocks with all codes and scales beside what that function answers.

    tools/make_mxfp4_fixture.py tests/data          (pip install -r tools/fixture_requirements.txt)"""
import json
import os
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

import make_fixtures
from fixture_families import decoder, rope, text

FAMILY = decoder("GptOssModel", text(32, 2, 32, layers=2, num_key_value_heads=1, head_dim=8, num_local_experts=3,
                                     num_experts_per_tok=2, sliding_window=5,
                                     layer_types=["sliding_attention", "full_attention"],
                                     **rope(20000.0, "yarn", factor=3.0, truncate=False,
                                            original_max_position_embeddings=16)))


def random_blocks(generator, experts, rows, columns, low, high):
    blocks = torch.randint(0, 256, (experts, rows, columns // 32, 16), generator=generator, dtype=torch.uint8)
    scales = torch.randint(low, high, (experts, rows, columns // 32), generator=generator, dtype=torch.uint8)
    return blocks, scales


def plain(blocks, scales):
    return convert_moe_packed_tensors(blocks, scales, dtype=torch.bfloat16)


def make_model(out):
    folder = os.path.join(out, "fixtures", "gpt_oss_mxfp4-1")
    generator = torch.Generator().manual_seed(1)
    transformers.set_seed(1)
    config = transformers.GptOssConfig(**FAMILY["config"])
    model = transformers.GptOssModel(config).eval()
    make_fixtures.randomize(model, 1, {"sinks": 4})
    packed = {}
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
                blocks, scales = random_blocks(generator, p.shape[0], p.shape[2], p.shape[1], 122, 126)
                packed[name + "_blocks"], packed[name + "_scales"] = blocks, scales
                p.copy_(plain(blocks, scales).float())
    model.save_pretrained(folder)
    torch.set_default_dtype(torch.float64)
    with make_fixtures.Float64():
        model = transformers.GptOssModel.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager",
                                                         experts_implementation="eager").eval()
        for (name, buffer), (_, fresh) in zip(model.named_buffers(), transformers.GptOssModel(config).named_buffers()):
            buffer.copy_(fresh)
        tensors = {}
        inputs = [make_fixtures.run(model, FAMILY, c, tensors) for c in range(2)]
    torch.set_default_dtype(torch.float32)
    save_file({k: v.contiguous() for k, v in tensors.items()}, os.path.join(folder, "reference.safetensors"))
    with open(os.path.join(folder, "reference.json"), "w") as file:
        json.dump({"architecture": "gpt_oss", "transformers": transformers.__version__, "inputs": inputs}, file)
    path = os.path.join(folder, "model.safetensors")
    stored = {k: v for k, v in load_file(path).items() if k + "_blocks" not in packed}
    save_file({**stored, **packed}, path, metadata={"format": "pt"})
    path = os.path.join(folder, "config.json")
    config = json.load(open(path)) | {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": [
        "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}}
    json.dump(config, open(path, "w"), indent=2)


def make_blocks(out):
    generator = torch.Generator().manual_seed(2)
    blocks, scales = random_blocks(generator, 2, 40, 64, 1, 253)
    answer = plain(blocks, scales).float()
    save_file({"blocks": blocks, "scales": scales, "answer": answer}, os.path.join(out, "mxfp4.safetensors"))


if __name__ == "__main__":
    torch.set_num_threads(1)
    make_model(sys.argv[1])
    make_blocks(sys.argv[1])
