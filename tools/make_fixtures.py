#!/usr/bin/env python3
"""Writes small checkpoints with random weights and, beside each, the answers of Hugging Face transformers in float64.

    pip install -r tools/fixture_requirements.txt
    tools/make_fixtures.py tests/data/fixtures [NAME...]

The models are the tables FAMILIES of the files fixture_families*.py beside this one. A folder NAME-SEED gets

    config.json, model.safetensors   as save_pretrained writes them, weights in float32
    reference.json                   inputs[c]: input_ids, and for each of its layers the six largest singular values of
                                     the Jacobian of the attention module (with its output projection) at its input, and
                                     of the whole block at the block's input; all other arguments as in the forward pass
    reference.safetensors            float64: c.l.block_input, c.l.attention_input, c.l.attention_output, c.l.block_output
                                     for input c and layer l; c.output, the last hidden state; c.pixel_values for images

Weights are numbers of float32, so both sides see the same ones. Everything else is float64: `Float64` below turns every
request for float32 inside transformers (softmax, norms, rotary angles) into one for float64."""
import glob
import importlib.util
import json
import os
import sys

import torch
import transformers
from safetensors.torch import save_file
from torch.overrides import TorchFunctionMode

COUNT = 6  # singular values
LENGTHS = (4, 11)


class Float64(TorchFunctionMode):
    """float32 asked for is float64 given."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.float:
            return args[0].double()
        for key, value in kwargs.items():
            if value is torch.float32:
                kwargs[key] = torch.float64
        args = tuple(torch.float64 if a is torch.float32 else a for a in args)
        return func(*args, **kwargs)


def load_families():
    families = {}
    for path in sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixture_families*.py"))):
        spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name in module.FAMILIES:
            if name in families:
                sys.exit(f"{path}: {name} is described twice")
        families.update(module.FAMILIES)
    return families


def randomize(model, seed, scale):
    """Weights that no default hides: no gain is one, no bias zero, and scores are of order one.  `scale` makes the
    parameters whose names contain a key larger or smaller."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            noise = torch.randn(p.shape, generator=generator, dtype=torch.float32)
            if p.ndim >= 2:
                size = 0.5 if "embed" in name or "wte" in name or "wpe" in name else 1.3 / p.shape[-1] ** 0.5
                center = 0.0
            else:
                size, center = 0.3, 1.0 if bool((p == 1).all()) else 0.0
            for key, factor in scale.items():
                if key in name:
                    size *= factor
            p.copy_(center + size * noise)


def at(module, path):
    return module.get_submodule(path) if path else module


def first(output):
    return output[0] if isinstance(output, (tuple, list)) else output


class Recorder:
    """What a module was called with, and what it returned, or the module `then` that takes its output, or the module
    `inner` that it calls; the turn-th time."""

    def __init__(self, module, then=None, inner=None, turn=0):
        self.module, self.then, self.inner, self.turn = module, then, inner, turn
        self.calls, self.outputs = [], []
        self.hooks = [module.register_forward_pre_hook(self.before, with_kwargs=True),
                      (then or inner or module).register_forward_hook(self.after)]

    def before(self, module, args, kwargs):
        self.calls.append((args, dict(kwargs)))

    def after(self, module, args, output):
        self.outputs.append(first(output))

    @property
    def call(self):
        return self.calls[self.turn]

    @property
    def output(self):
        return self.outputs[self.turn]

    def close(self):
        for hook in self.hooks:
            hook.remove()

    def input(self):
        args, kwargs = self.call
        return args[0] if args else kwargs["hidden_states"]

    def again(self, x):
        """The module at x, all other arguments as they were."""
        args, kwargs = self.call
        seen = []
        hook = self.inner.register_forward_hook(lambda module, args, output: seen.append(output)) if self.inner else None
        output = first(self.module(x, *args[1:], **kwargs) if args else self.module(**{**kwargs, "hidden_states": x}))
        if hook:
            hook.remove()
            return seen[0]
        return self.then(output) if self.then else output


def singular_values(recorder):
    x = recorder.input().detach().clone().requires_grad_(True)
    y = recorder.again(x).reshape(-1)
    rows = [torch.autograd.grad(y[i], x, retain_graph=True)[0].reshape(-1) for i in range(y.numel())]
    return torch.linalg.svdvals(torch.stack(rows))[:COUNT].tolist()


def run(model, family, c, tensors):
    """Input c through the model: its entry of reference.json; activations go to `tensors`."""
    generator = torch.Generator().manual_seed(1000 + c)
    part = at(model, family.get("part", ""))
    entry = {}
    if family.get("image"):
        size = part.config.image_size
        pixels = torch.randn((1, 3, size, size), generator=generator, dtype=torch.float32).double()
        tensors[f"{c}.pixel_values"] = pixels[0]
        inputs = {"pixel_values": pixels}
    else:
        low = family.get("first_id", 5)  # beyond padding and other special ids
        ids = torch.randint(low, part.config.vocab_size, (1, LENGTHS[c]), generator=generator)
        entry["input_ids"] = ids[0].tolist()
        inputs = {"input_ids": ids}
        if family.get("cache", True):
            inputs["use_cache"] = False
    blocks = list(at(part, family["blocks"]))
    shared = part.config.num_hidden_layers if family.get("shared") else 1
    recorders = []
    for turn in range(shared):
        for block in blocks:
            then = at(block, family["then"]) if family.get("then") else None
            inner = at(block, family["inner"]) if family.get("inner") else None
            recorders.append((Recorder(block, turn=turn), Recorder(at(block, family["attention"]), then, inner, turn)))
    last = Recorder(at(part, family["last"])) if family.get("last") else None
    with torch.no_grad():
        tensors[f"{c}.output"] = part(**inputs).last_hidden_state[0]
    if last:
        tensors[f"{c}.output"] = last.output[0].clone()
        last.close()
    entry["layers"] = []
    for l, (block, attention) in enumerate(recorders):  # copied before the modules run again
        for name, value in (("block_input", block.input()), ("block_output", block.output),
                            ("attention_input", attention.input()), ("attention_output", attention.output)):
            tensors[f"{c}.{l}.{name}"] = value.detach().clone().reshape(-1, value.shape[-1])
    for pair in recorders:
        for recorder in pair:
            recorder.close()
    for block, attention in recorders:
        entry["layers"].append({"attention_singular_values": singular_values(attention),
                                "block_singular_values": singular_values(block)})
    return entry


def check_precision(model, tensors):
    for name, buffer in model.named_buffers():
        if buffer.is_floating_point() and buffer.dtype != torch.float64:
            sys.exit(f"buffer {name} is {buffer.dtype}")
    for name, tensor in tensors.items():
        if tensor.dtype != torch.float64 or not bool(torch.isfinite(tensor).all()):
            sys.exit(f"{name} is {tensor.dtype}, or not finite")
        embedded = name.endswith((".0.block_input", ".0.attention_input"))  # may be rows of a table
        if name.endswith("put") and not embedded and bool((tensor == tensor.float().double()).all()):
            sys.exit(f"{name} has been through float32")


def make(name, family, out):
    folder = os.path.join(out, f"{name}-{family['seed']}")
    transformers.set_seed(family["seed"])
    model_class = getattr(transformers, family["model"])
    config = model_class.config_class(**family["config"])
    model = model_class(config).eval()
    randomize(model, family["seed"], family.get("scale", {}))
    model.save_pretrained(folder)
    torch.set_default_dtype(torch.float64)
    with Float64():
        model = model_class.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager",
                                            experts_implementation="eager").eval()
        fresh = dict(model_class(config).named_buffers())
        for name, buffer in model.named_buffers():  # those that the file holds in float32 too (esm's frequencies)
            if buffer.is_floating_point():
                buffer.copy_(fresh[name])
        tensors = {}
        inputs = [run(model, family, c, tensors) for c in range(len(LENGTHS))]
    torch.set_default_dtype(torch.float32)
    check_precision(model, tensors)
    save_file({k: v.contiguous() for k, v in tensors.items()}, os.path.join(folder, "reference.safetensors"))
    reference = {"architecture": name, "seed": family["seed"], "transformers": transformers.__version__,
                 "torch": torch.__version__.split("+")[0], "inputs": inputs}
    if "chosen" in family:
        reference["part"] = family["chosen"]
    with open(os.path.join(folder, "reference.json"), "w") as file:
        json.dump(reference, file)
        file.write("\n")
    size = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder))
    print(f"{folder}: {size // 1024} KiB", flush=True)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    torch.set_num_threads(1)  # the same sums on every machine
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    families = load_families()
    names = sys.argv[2:] or list(families)
    for name in names:
        if name not in families:
            sys.exit(f"no family {name}; there are {' '.join(families)}")
        make(name, families[name], sys.argv[1])


if __name__ == "__main__":
    main()
