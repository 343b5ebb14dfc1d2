#!/usr/bin/env python3
"""Writes a large checkpoint with random weights, to see what memory and time it takes.

    tools/make_large.py DIR [--layers 24] [--d 896] [--heads 14] [--kv-heads 2] [--ffn 4864] [--vocab 151936]

DIR gets config.json (qwen2) and model.safetensors in bf16: by default 494 million parameters, 988 MB, the sizes of
Qwen2.5-0.5B; and ids.txt, 4096 token ids for --ids.  Matrices are uniform in the exponent, 2^-7 <= |w| < 2^-5; gains are
one, biases zero.  Needs nothing but Python."""
import argparse
import json
import os
import random
import struct

PIECE = 1 << 22
SIGNS = bytes(0x3C | (i & 0x80) for i in range(256))  # the upper byte: sign, exponent -7 or -6


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir")
    for name, value in (("layers", 24), ("d", 896), ("heads", 14), ("kv-heads", 2), ("ffn", 4864), ("vocab", 151936)):
        parser.add_argument("--" + name, type=int, default=value)
    return parser.parse_args()


def tensors(a):
    head = a.d // a.heads
    kv = a.kv_heads * head
    yield "model.embed_tokens.weight", (a.vocab, a.d)
    for layer in range(a.layers):
        at = f"model.layers.{layer}."
        for name, out in (("q", a.d), ("k", kv), ("v", kv)):
            yield at + f"self_attn.{name}_proj.weight", (out, a.d)
            yield at + f"self_attn.{name}_proj.bias", (out,)
        yield at + "self_attn.o_proj.weight", (a.d, a.d)
        yield at + "mlp.gate_proj.weight", (a.ffn, a.d)
        yield at + "mlp.up_proj.weight", (a.ffn, a.d)
        yield at + "mlp.down_proj.weight", (a.d, a.ffn)
        yield at + "input_layernorm.weight", (a.d,)
        yield at + "post_attention_layernorm.weight", (a.d,)
    yield "model.norm.weight", (a.d,)


def size(shape):
    return shape[0] * (shape[1] if len(shape) > 1 else 1)


def write_matrix(out, count, source):
    while count:
        now = min(count, PIECE)
        piece = bytearray(2 * now)
        piece[0::2] = source.randbytes(now)
        piece[1::2] = source.randbytes(now).translate(SIGNS)
        out.write(piece)
        count -= now


def write_weights(a, path):
    source = random.Random(1)
    header, offset = {}, 0
    for name, shape in tensors(a):
        end = offset + 2 * size(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for name, shape in tensors(a):
            if len(shape) > 1:
                write_matrix(out, size(shape), source)
            else:
                out.write((b"\0\0" if name.endswith("bias") else b"\x80\x3f") * shape[0])
    return offset // 2


def main():
    a = arguments()
    os.makedirs(a.dir, exist_ok=True)
    config = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": a.d, "num_hidden_layers": a.layers,
              "num_attention_heads": a.heads, "num_key_value_heads": a.kv_heads, "intermediate_size": a.ffn,
              "vocab_size": a.vocab, "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
              "max_position_embeddings": 32768, "tie_word_embeddings": True, "use_sliding_window": False,
              "torch_dtype": "bfloat16"}
    with open(os.path.join(a.dir, "config.json"), "w") as out:
        json.dump(config, out, indent=2)
    source = random.Random(2)
    with open(os.path.join(a.dir, "ids.txt"), "w") as out:
        out.write(" ".join(str(source.randrange(a.vocab)) for _ in range(4096)) + "\n")
    path = os.path.join(a.dir, "model.safetensors")
    print(f"{path}: {write_weights(a, path)} parameters, {os.path.getsize(path)} bytes")


main()
