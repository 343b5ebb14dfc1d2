"""Models in memory: every family of the fixtures against the command line on its folder and against torch's Jacobian."""
import json
import os
import pathlib

import numpy as np
import pytest
from conftest import program

import lipscope as ls

# LIPSCOPE_FIXTURES: those of tools/random_fixtures.py, for shapes that nobody chose
FIXTURES = pathlib.Path(os.environ.get("LIPSCOPE_FIXTURES") or pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "fixtures")
FAMILIES = sorted(folder.name for folder in FIXTURES.iterdir() if (folder / "reference.json").exists())


def part_of(name):
    return next((part for key, part in (("text-", "text"), ("_language", "text"), ("mistral3", "text"), ("vision-", "vision")) if key in name), "whole")


def part_of_class(kind, name):
    """A model that is all text or all image has no parts."""
    return part_of(name) if kind in ("CLIPModel", "SiglipModel", "Siglip2Model", "Gemma3ForConditionalGeneration", "Mistral3Model",
                                      "Mistral3ForConditionalGeneration") else "whole"


def loaded(name):
    """The fixture as a transformers object, in double, as its config says."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    config = json.loads((FIXTURES / name / "config.json").read_text())
    kind = config["architectures"][0]
    model = getattr(transformers, kind).from_pretrained(FIXTURES / name, dtype=torch.float32)
    return model, part_of_class(kind, name)


def inputs_of(name):
    reference = json.loads((FIXTURES / name / "reference.json").read_text())
    for c, given in enumerate(reference["inputs"]):
        if "input_ids" in given:
            yield given["input_ids"], given["layers"]
        else:
            safe = pytest.importorskip("safetensors.numpy")
            pixels = safe.load_file(FIXTURES / name / "reference.safetensors")[f"{c}.pixel_values"]
            yield pixels[0] if pixels.ndim == 4 else pixels, given["layers"]


@pytest.mark.parametrize("name", FAMILIES)
def test_family(name, tmp_path):
    """In memory: within 1e-12 of the command line on the folder that transformers saves, 1e-8 of torch's Jacobian."""
    if "mxfp4" in name:
        pytest.skip("transformers opens MXFP4 weights on a GPU only")
    model, part = loaded(name)
    model.save_pretrained(tmp_path / "saved")
    with ls.Model(model, part=part) as memory:
        for given, layers in inputs_of(name):
            said = {row["layer"]: row["sigma"] for row in by_program(tmp_path, given, part)}
            assert len(said) == len(layers)
            for layer, want in enumerate(layers):
                s = memory.jacobian(given, layer).sigma()
                assert s == pytest.approx(said[layer], rel=1e-12)
                assert s == pytest.approx(want["attention_singular_values"][0], rel=1e-8)


def by_program(folder, given, part):
    """The rows of `lipscope measure` in double, by a saved folder and a file."""
    if isinstance(given, list):
        (folder / "ids").write_text(" ".join(map(str, given)))
        source = ["--ids", folder / "ids", "--lengths", len(given), "--windows", 1]
    else:
        pytest.importorskip("safetensors.numpy").save_file({"pixel_values": given}, folder / "pixels")
        source = ["--pixels", folder / "pixels"]
    return program("measure", folder / "saved", *source, "--dtype", "f64", *(["--part", part] if part != "whole" else []))["rows"]


def test_maps():
    """Blocks against torch's Jacobian; the whole model against the same weights as a block chain in torch."""
    model, _ = loaded("gpt2-1")
    memory = ls.Model(model)
    for ids, layers in inputs_of("gpt2-1"):
        for layer, want in enumerate(layers):
            s = memory.jacobian(ids, layer, map="block").sigma(tol=1e-10)
            assert s == pytest.approx(want["block_singular_values"][0], rel=1e-8)
    J = memory.jacobian(ids, map="model")
    s = J.sigma(certify=1e-2)
    assert s.lower <= np.linalg.norm(J.dense(), 2) * (1 + 1e-12) <= s.upper * (1 + 1e-12)
    assert memory.jacobian(ids, 0, head=0).sigma() <= memory.jacobian(ids, 0, map="heads").sigma() * 10
    assert memory.jacobian(ids, 0).upper().value >= memory.jacobian(ids, 0).sigma()


def test_no_copies():
    """Weights are used where they lie: a change of the object before a layer is made ready is seen."""
    torch = pytest.importorskip("torch")
    model, _ = loaded("gpt2-1")
    ids, layers = next(inputs_of("gpt2-1"))
    opened = ls.Model(model)
    with torch.no_grad():
        model.h[1].attn.c_proj.weight.mul_(2)
    want = 2 * layers[1]["attention_singular_values"][0]
    assert opened.jacobian(ids, 1).sigma() == pytest.approx(want, rel=1e-8)


def test_lifetimes():
    """Jacobians outlive the names of their models and weights, in any order of freeing."""
    ids, layers = next(inputs_of("gpt2-1"))
    J = ls.Model(loaded("gpt2-1")[0]).jacobian(ids, 0)
    assert J.sigma() == pytest.approx(layers[0]["attention_singular_values"][0], rel=1e-8)
    del J
    for _ in range(20):
        model = ls.Model("builtin:gpt2-nano")
        J = model.jacobian(ids, 0)
        model.close()
        del model, J


@pytest.mark.parametrize("cast", ["half", "bfloat16", "double"])
def test_precisions(cast):
    model, _ = loaded("gpt2-1")
    ids, _ = next(inputs_of("gpt2-1"))
    model = getattr(model, cast)()
    want = ls.jacobian(model.double(), "h.1.attn", ids).sigma(tol=1e-10)
    assert ls.Model(getattr(loaded("gpt2-1")[0], cast)()).jacobian(ids, 1).sigma(tol=1e-10) == pytest.approx(want, rel=1e-8)


def test_same_as_torch():
    """ls.jacobian on the module and the library on the model are two ways to one number."""
    model, _ = loaded("llama-1")
    ids, _ = next(inputs_of("llama-1"))
    paths = list(ls.attention_modules(model))
    assert paths[1] == "layers.1.self_attn"
    torch_way = ls.jacobian(model.double(), paths[1], ids).sigma(tol=1e-10)
    # rotary angles are float32 in transformers: 1e-5 of an angle
    assert ls.Model(loaded("llama-1")[0]).jacobian(ids, 1).sigma() == pytest.approx(torch_way, rel=1e-5)


def test_refusals():
    torch = pytest.importorskip("torch")
    model, _ = loaded("gpt2-1")
    hook = model.h[0].register_forward_hook(lambda *_: None)
    with pytest.raises(ls.Refused, match="module h.0 has hooks"):
        ls.Model(model)
    hook.remove()
    with pytest.raises(ls.DeviceError, match="lies on meta"):
        ls.Model(loaded("gpt2-1")[0].to("meta"))
    torch.nn.utils.parametrizations.spectral_norm(model.h[1].mlp.c_fc)
    with pytest.raises(ls.Refused, match="has parametrizations"):
        ls.Model(model)

    class Mine(type(model)):
        pass

    with pytest.raises(ls.Refused, match="its class Mine is not one of transformers itself"):
        ls.Model(Mine(model.config))
    for bad in (3, None, torch.nn.Linear(2, 2)):
        with pytest.raises(ls.KindError, match="is no model"):
            ls.Model(bad)
    with pytest.raises(ls.FileError):
        ls.Model("/nowhere/at/all")


def test_unknown_family():
    transformers = pytest.importorskip("transformers")
    config = transformers.XLNetConfig(d_model=8, n_layer=1, n_head=2, vocab_size=9, d_inner=8)
    with pytest.raises(ls.LipscopeError) as caught:
        ls.Model(transformers.XLNetModel(config))
    assert "ls.jacobian(model, 'layer.0.rel_attn', ids)" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("ids,layer,options,want", [
    ([], 0, {}, "no token ids"), ([1.5], 0, {}, "whole numbers"), ("text", 0, {}, "whole numbers"), ([-1], 0, {}, "no token ids"),
    ([10 ** 7], 0, {}, ""), ([1], 99, {}, "layers 0 to 5"), ([1], -1, {}, "layer = -1"), ([1], None, {}, "needs a layer"),
    ([1], 0, dict(map="mlp"), "there are heads, attention"), ([1], 0, dict(head=77), ""), ([1], 0, dict(map="block", head=0), ""),
    ([[1], [2]], 0, {}, "one row"), ([1] * 100000, 0, {}, "")])
def test_bad_windows(ids, layer, options, want):
    with pytest.raises(ls.LipscopeError) as caught:
        ls.Model("builtin:gpt2-nano").jacobian(ids, layer, **options)
    assert want in str(caught.value) and "\n" not in str(caught.value)


def test_closed():
    model = ls.Model("builtin:gpt2-nano")
    J = model.jacobian([1, 2, 3], 0)
    model.close()
    for use in (J.sigma, lambda: model.jacobian([1], 0), lambda: J @ np.ones(J.shape[1])):
        with pytest.raises(ls.Unusable, match="closed"):
            use()


def test_tokenizer():
    t = ls.Tokenizer("builtin:gpt2-nano")
    words = "Ünïcode, \N{SNOWMAN} and\nlines"
    assert t.decode(t.encode(words)) == words and t.encode("") == []
    with pytest.raises(ls.KindError, match="a string is needed"):
        t.encode(3)
    t.close()
    with pytest.raises(ls.Unusable):
        t.encode("x")
