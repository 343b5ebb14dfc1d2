"""Every map of every family of the fixtures, as an object in memory, against torch's own dense Jacobian in double."""
import importlib.util
import json
import pathlib

import pytest
from test_models import FAMILIES, loaded

import lipscope as ls

torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "data" / "fixtures"

spec = importlib.util.spec_from_file_location("make_fixtures", ROOT / "tools" / "make_fixtures.py")
made = importlib.util.module_from_spec(spec)
spec.loader.exec_module(made)
DESCRIBED = made.load_families()

# Where torch has the sum behind attention: it goes into the norm of the MLP, or comes out of the norm behind attention.
BEHIND = [(name, "in") for name in ("pre_feedforward_layernorm", "post_attention_layernorm", "ln_2", "layernorm_after", "layer_norm2",
                                    "norm2", "mlp_norm", "layer.1.layer_norm", "final_layer_norm", "LayerNorm")]
BEHIND += [(name, "out") for name in ("attention.output", "sa_layer_norm", "attention")]
OTHERWISE = {"opt_post": ("self_attn_layer_norm", "out"), "olmo2": ("mlp", "in"), "olmo3": ("mlp", "in")}
PARALLEL = {"cohere", "falcon", "gptj", "phi", "gpt_neox"}  # the sum is never made: attention and MLP are added at the end
INNER = {"bloom": "self_attention.dense", "bloom12": "self_attention.dense"}  # its attention adds the input


def model_of(name):
    """In double, buffers as well (tools/make_fixtures.py)."""
    family = DESCRIBED[name]
    kind = getattr(transformers, family["model"])
    model = kind.from_pretrained(FIXTURES / f"{name}-{family['seed']}", dtype=torch.float64, attn_implementation="eager",
                                 experts_implementation="eager").eval()
    fresh = dict(kind(model.config).named_buffers())
    for key, buffer in model.named_buffers():
        if buffer.is_floating_point():
            buffer.copy_(fresh[key])
    return model


def inputs_of(name):
    """(what the library takes, what transformers takes): the shortest input of the fixture."""
    folder = FIXTURES / f"{name}-{DESCRIBED[name]['seed']}"
    given = json.loads((folder / "reference.json").read_text())["inputs"][0]
    if "input_ids" in given:
        more = {"use_cache": False} if DESCRIBED[name].get("cache", True) else {}
        return given["input_ids"], {"input_ids": torch.tensor([given["input_ids"]]), **more}
    pixels = pytest.importorskip("safetensors.torch").load_file(folder / "reference.safetensors")["0.pixel_values"]
    return pixels.numpy(), {"pixel_values": pixels[None]}


def norm(y, x):
    """LAPACK on torch's Jacobian, a row for each number of y."""
    y = y.reshape(-1)
    rows = [torch.autograd.grad(y[i], x, retain_graph=True)[0].reshape(-1) for i in range(y.numel())]
    return float(torch.linalg.svdvals(torch.stack(rows))[0])


def of_model(part, family, inputs, block):
    """From what the first block gets to the last hidden state."""
    first = made.Recorder(block)
    with torch.no_grad():
        part(**inputs)
    first.close()
    x = first.input().detach().clone().requires_grad_(True)
    put = []

    def replace(module, args, kwargs):  # once: some families pass one block often
        put.append(module)
        if len(put) == 1:
            return ((x, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": x})

    hook = block.register_forward_pre_hook(replace, with_kwargs=True)
    last = made.Recorder(made.at(part, family["last"])) if family.get("last") else None
    y = part(**inputs).last_hidden_state
    hook.remove()
    if last:
        last.close()
    return norm(last.output if last else y, x)


def sum_behind(name, block):
    for path, side in [OTHERWISE[name]] if name in OTHERWISE else BEHIND:
        try:
            return block.get_submodule(path), side
        except AttributeError:
            pass
    raise AssertionError("nobody knows where attention is added")


def of_block(name, part, family, inputs, block, turn):
    """Attention behind its norm, the sum behind attention, the whole block: at what the block gets."""
    whole = made.Recorder(block, turn=turn)
    with torch.no_grad():
        part(**inputs)
    whole.close()
    x = whole.input().detach().clone().requires_grad_(True)
    tap = made.at(block, INNER.get(name) or family.get("then") or family.get("inner") or family["attention"])
    out, total = [], []
    hooks = [tap.register_forward_hook(lambda m, a, o: out.append(made.first(o)))]
    if name not in PARALLEL:
        module, side = sum_behind(name, block)
        hooks.append(module.register_forward_pre_hook(lambda m, a, k: total.append(a[0] if a else next(iter(k.values()))), with_kwargs=True)
                     if side == "in" else module.register_forward_hook(lambda m, a, o: total.append(made.first(o))))
    y = whole.again(x)
    for hook in hooks:
        hook.remove()
    return {"norm-attention": norm(out[0], x), "residual": norm(x + out[0] if name in PARALLEL else total[0], x), "block": norm(y, x)}


def torchs(name):
    """map -> sigma of the last layer, by torch; what the library takes."""
    family, (given, inputs) = DESCRIBED[name], inputs_of(name)
    torch.set_default_dtype(torch.float64)
    try:
        with made.Float64():
            model = model_of(name)
            part = made.at(model, family.get("part", ""))
            blocks = list(made.at(part, family["blocks"]))
            turn = part.config.num_hidden_layers - 1 if family.get("shared") else 0
            found = of_block(name, part, family, inputs, blocks[-1], turn)
            return dict(found, model=of_model(part, family, inputs, blocks[0])), given
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("folder", [name for name in FAMILIES if (FIXTURES / name).exists() and "mxfp4" not in name])
def test_maps(folder):
    name = folder.rsplit("-", 1)[0]
    wanted, given = torchs(name)
    model, part = loaded(folder)
    with ls.Model(model, part=part) as opened:
        for map, want in wanted.items():
            if map == "norm-attention" and not opened.info.pre_norm:
                with pytest.raises(ls.LipscopeError, match="norm-attention"):
                    opened.jacobian(given, 0, map=map)
                continue
            J = opened.jacobian(given, None if map == "model" else opened.layers - 1, map=map)
            assert J.sigma(tol=1e-10) == pytest.approx(want, rel=1e-8), map
