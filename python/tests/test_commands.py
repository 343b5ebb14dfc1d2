"""What the tests of the program ask (tests/cli), asked of the calls; the table at the end says which test stands for which."""
import importlib
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import random_layer

import lipscope as ls

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data"
NANO = "builtin:gpt2-nano"
ONE = np.ones((1, 1))
TEXT = dict(text="builtin:lighthouse")


def golden(**more):
    """A = -1, V = 1, one token at -1 and nine at 1 (docs/maths.md 5.1)."""
    return ls.attention([[-1.0]] + [[1.0]] * 9, -ONE, None, ONE, **more)


# ---- layer, enclosure, certify, converge -----------------------------------------------------


@pytest.mark.parametrize("more,digits", [({}, 2.993716248639), (dict(causal=True), 3.441372507848),
                                         (dict(mask="sliding", window=10), 3.441372507848), (dict(mask="sliding", window=1), 1.0)], ids=str)
def test_known_digits(more, digits):
    J = golden(**more)
    for method in ("lanczos", "dense", "power"):
        assert J.sigma(method=method, max_products=20000) == pytest.approx(digits, rel=1e-10)
    assert golden(dtype="float32", **more).sigma() == pytest.approx(digits, rel=1e-5)
    s = J.sigma(certify=1e-9)
    assert s.lower <= digits + 1e-12 and digits - 1e-12 <= s.upper <= s.lower * (1 + 1e-9)
    assert ls.Attention(J.layer, J.X, threads=1).sigma() == ls.Attention(J.layer, J.X, threads=2).sigma()


def test_no_certificate():
    """What rounding or a limit forbids is not certified; the value is there all the same."""
    for limits in (dict(certify=1e-17), dict(certify=1e-3, max_bytes=0)):
        with pytest.raises(ls.LipscopeError) as caught:
            golden().sigma(**limits)
        assert caught.value.result == pytest.approx(2.993716248639, rel=1e-9)
    some = dict(TEXT, lengths=[2], windows=1, layers=[3], certify=1e-3)
    r = ls.measure(NANO, certify_seconds=1e-9, **some)
    assert not r.rows or not r[0]["certified"]
    assert r.remarks and "certify_seconds" in " ".join(r.remarks)
    for map in ("heads", "norm-attention", "residual", "block"):
        row = ls.measure(NANO, map=map, **some)[0]
        assert row["certified"] and row["lower"] <= row["upper"] <= 1.001 * row["lower"] * (1 + 1e-12)


@pytest.mark.parametrize("file,digits,options", [
    ("saturated-a", 8.206670524492315967, dict(heads=2, mask="causal")), ("saturated-b", 36.974242647065157730, dict(heads=2)),
    ("saturated-c", 8.573239417306134029, dict(mask="causal")), ("cancellation", 1.3557442268862374, dict(scale=1.0))])
def test_hard_layers(file, digits, options, tmp_path):
    """lower <= sigma <= upper: digits of 80-digit arithmetic."""
    row = ls.save(ls.layer(DATA / "hard" / f"{file}.safetensors", **options), tmp_path / "top", upper=True)
    assert 0.999 * digits < row["lower"] <= digits <= row["upper"]
    assert ls.check(tmp_path / "top").agree


def test_tied_scores(tmp_path):
    """No precision tells these scores apart: no false digit, and the reason."""
    J = ls.layer(DATA / "hard" / "tied.safetensors", scale=1.0)
    row = ls.save(J, tmp_path / "top", upper=True)
    assert row["lower"] == 0.0 and row["upper"] is None and "cannot tell the scores" in row["rounding"]
    assert "cannot tell the scores" in ls.bounds(J)["data-joint"]["refused"]


def test_not_converged(rng):
    J = ls.attention(rng.normal(size=(9, 8)), *random_layer(rng, 8, 2), heads=2)
    with pytest.raises(ls.NotConverged) as caught:
        J.sigma(max_products=1)
    assert 0 < caught.value.result <= J.sigma() * (1 + 1e-14)
    assert J.sigma(tol=0.3).info.products < J.sigma(tol=1e-10).info.products


# ---- bounds ----------------------------------------------------------------------------------


def test_bounds_of_known_layers():
    """docs/maths.md 3 and 5 by hand; order, regime, a bound that has a logarithm only."""
    b = ls.bounds(golden())
    for name, value in (("finite-n", 4.003), ("paper-finite-n", 12.369), ("mean-field-w2", 4.8442), ("max-token", 3.0), ("one-outlier", 2.9937)):
        assert b[name]["value"] == pytest.approx(value, rel=2e-4), name
    assert b["masked-uniform"]["refused"] and b["max-token"]["ratio"] is None and b.regime["name"] == "mean_field"
    ratios = [row["ratio"] for row in b if row["kind"] == "upper" and row["ratio"] is not None]
    assert ratios == sorted(ratios) and ratios[0] >= 1 - 1e-12
    assert ls.bounds(golden(causal=True))["masked-finite-n"]["value"] == pytest.approx(4.639, rel=2e-4)
    far = ls.bounds(golden(), radius=40.0)["mean-field-w2"]
    assert far["value"] is None and far["log_value"] == pytest.approx(1607.378, rel=1e-6)
    for options, want in ((dict(radius=0.5), "outside the ball"), (dict(below=1.0), "the bound at the input itself"),
                          (dict(around=1.0, below=9.0), "leave out one"), (dict(around=1.0, radius=3.0), "leave out one"),
                          (dict(relative=True), "goes with around"), (dict(p=0.5), "p = 0.5")):
        with pytest.raises(ls.LipscopeError, match=want):
            ls.bounds(golden(), **options)


def test_neighbourhoods(rng):
    """Above what an attack finds there; the largest radius below a limit gives that limit back."""
    J = ls.attention(rng.normal(size=(5, 4)), *random_layer(rng, 4, 2), heads=2, causal=True)
    near = ls.bounds(J, around=0.001, relative=True)
    assert ls.attack(J, domain="around", radius=0.001, relative=True, restarts=2, iterations=20).sigma <= near.around["value"]
    limit = 3 * near.around["value"]
    found = ls.bounds(J, below=limit).around
    assert found["value"] <= limit * (1 + 1e-12) and J.around(found["radius"]).value <= limit * (1 + 1e-9)
    assert J.around(1.02 * found["radius"]).value > limit


# ---- layer files and bad files ---------------------------------------------------------------


def test_bad_files(rng, tmp_path):
    """One sentence that names the file, the thing and the reason."""
    X, W = rng.normal(size=(4, 6)), random_layer(rng, 6, 2)
    ls.save(ls.attention(X, *W, heads=2), tmp_path / "good")
    data = (tmp_path / "good").read_bytes()
    for keep in (0, 4, 8, 20, 200, len(data) // 2, len(data) - 1):
        (tmp_path / "cut").write_bytes(data[:keep])
        with pytest.raises(ls.LipscopeError, match="cut: ") as caught:
            ls.layer(tmp_path / "cut")
        assert "\n" not in str(caught.value)
    (tmp_path / "huge").write_bytes(b"\377" * 7 + b"\177{}")
    safe = pytest.importorskip("safetensors.numpy")
    bad = np.array(W[0])
    bad[0, 0] = np.nan
    files = {"nan": (dict(X=X, A=bad, V=W[2]), "tensor 'A' holds a NaN"), "no-value": (dict(X=X, A=W[0]), "tensor 'V' is missing"),
             "no-input": (dict(A=W[0], V=W[2]), "tensor 'X' is missing"), "shape": (dict(X=X, A=W[0][:5], V=W[2]), "tensor 'A' has shape"),
             "weights": (dict(X=X, A=W[0], V=W[2], weights=np.zeros(4)), "tensor 'weights'")}
    for name, (tensors, want) in files.items():
        safe.save_file({key: np.ascontiguousarray(value) for key, value in tensors.items()}, tmp_path / name)
        with pytest.raises(ls.LipscopeError, match=f"{name}: .*{want}"):
            ls.layer(tmp_path / name)
    for name in ("huge", "missing", "."):
        with pytest.raises(ls.LipscopeError):
            ls.layer(tmp_path / name)


def test_files_know_their_layer(rng, tmp_path):
    """An option that contradicts the file is refused; measures go through it as through the layer."""
    X, W = rng.normal(size=(5, 4)), random_layer(rng, 4, 2)
    J = ls.attention(X, *W, heads=2, mask="sliding", window=3, scale=0.7)
    ls.save(J, tmp_path / "s")
    assert ls.layer(tmp_path / "s", heads=2, mask="sliding", window=3, scale=0.7).sigma() == J.sigma()
    for options in (dict(heads=4), dict(mask="causal"), dict(window=4), dict(mask="sliding", window=4), dict(scale=0.5)):
        with pytest.raises(ls.LipscopeError, match="was asked for|goes with"):
            ls.layer(tmp_path / "s", **options)
    plain = ls.attention(X, *W, heads=2, causal=True)
    ls.save(plain, tmp_path / "c")
    assert np.array_equal(ls.push(X, ls.Layer.load(tmp_path / "c")).points, ls.push(X, plain.layer).points)


# ---- measure: references, windows, runs ------------------------------------------------------


def test_references():
    """Every value of transformers in float64 (tests/data/references)."""
    import json
    rows = json.loads((DATA / "references" / "gpt2-nano.json").read_text())["rows"]
    model = ls.Model(NANO)
    assert len(rows) >= 30
    for n, window in sorted({(row["n"], row["window"]) for row in rows}):
        r = ls.measure(model, lengths=[n], windows=[window], dtype="float64", **TEXT)
        for row in rows:
            if (row["n"], row["window"]) == (n, window):
                assert r[row["layer"]]["sigma"] == pytest.approx(row["sigma"], rel=1e-7)


def test_special_windows(tmp_path):
    """[CLS], the words, [SEP]; a tokenizer that lies elsewhere; bytes that are not UTF-8 are told."""
    (tmp_path / "words").mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"] + [f"w{i}" for i in range(30)]
    (tmp_path / "words" / "vocab.txt").write_text("\n".join(words) + "\n")
    numbers = [i * 7 % 30 for i in range(60)]
    some = dict(tokenizer=tmp_path / "words", text=" ".join(f"w{i}" for i in numbers), layers=[0], dtype="float64")
    for more, start in (({}, 0), (dict(windows=[1]), 8), (dict(windows=[1], stride=20), 20), (dict(windows=[2], tiled=True), 16)):
        r = ls.measure("random:bert:nano", special=True, lengths=[8], **dict(dict(windows=1), **more), **some)
        ids = [2, *(i + 4 for i in numbers[start:start + 6]), 3]
        assert r[0]["special"] and r[0]["start"] == start and r.worst().ids() == ids
        assert r[0]["sigma"] == pytest.approx(ls.Model("random:bert:nano").jacobian(ids, 0).sigma(tol=1e-10), rel=1e-9)
    with pytest.raises(ls.LipscopeError, match="leaves no token of the text"):
        ls.measure("random:bert:nano", special=True, lengths=[2], **some)
    r = ls.measure(NANO, text=b"a caf\351 and a na\357ve text, 1 2 3 4 5 6 7 8 9 10\n", lengths=[8], windows=1, layers=[0])
    assert "2 of 46 bytes" in " ".join(r.remarks)


def test_hub_names(tmp_path, monkeypatch):
    """A name of the local cache; what is not there is said with what fetches it."""
    nano = pathlib.Path(ls.__path__[0]) / "data" / "gpt2-nano"
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ls.LipscopeError, match="hf download our/nano"):
        ls.Model("our/nano")
    (tmp_path / "models--our--nano" / "snapshots").mkdir(parents=True)
    (tmp_path / "models--our--nano" / "snapshots" / "0a1b").symlink_to(nano)
    assert ls.Model("our/nano").layers == 6


SWEEP = """
import sys, lipscope as ls
print("begun", flush=True)
ls.measure("builtin:gpt2-nano", text="builtin:lighthouse", lengths=[8, 16, 32], windows=40, dtype="float64", run=sys.argv[1])
"""


def test_killed_and_locked(tmp_path):
    """kill -9 leaves what is finished; two processes do not write one file; the same call comes to the same end."""
    path = tmp_path / "a.db"
    child = subprocess.Popen([sys.executable, "-c", SWEEP, str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "begun\n"
    few = dict(TEXT, lengths=[8, 16, 32], windows=40, dtype="float64", layers=[0], run=path)
    while child.poll() is None:
        try:
            if len(ls.Result(path)) > 3:
                break
        except ls.LipscopeError:
            time.sleep(0.02)
    if child.poll() is None:
        with pytest.raises(ls.LipscopeError, match="another process|in use|open"):
            ls.measure(NANO, **few)
        child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    kept = {(row["layer"], row["n"], row["window"]): row["sigma"] for row in ls.Result(path)}
    rest = ls.measure(NANO, **dict(few, lengths=[8, 32], windows=2))
    assert kept and all(kept.get((row["layer"], row["n"], row["window"]), row["sigma"]) == row["sigma"] for row in rest)
    with pytest.raises(ls.LipscopeError, match='dtype is "f64" there and "f32" here'):
        ls.measure(NANO, **dict(few, dtype="float32"))


def test_full_disk(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    r = ls.measure(NANO, ids=range(8), lengths=[8], windows=1, layers=[0])
    for write in (lambda: r.report("/dev/full"), lambda: ls.save(golden(), "/dev/full"), lambda: ls.Measure(ONE).save("/dev/full")):
        with pytest.raises(ls.FileError):
            write()


def test_doubled_weights(tmp_path):
    """compare: a ratio that is known; the label of a run."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    model = transformers.AutoModelForCausalLM.from_pretrained(ls.__path__[0] + "/data/gpt2-nano")
    some = dict(TEXT, tokenizer=NANO, lengths=[8, 16], windows=6, layers=[5])
    first = ls.measure(model, label="before", run=tmp_path / "a.db", **some)
    with torch.no_grad():
        model.transformer.h[5].attn.c_proj.weight.mul_(2)
    found = first.compare(ls.measure(model, **some))
    assert found[0]["ratio"] == pytest.approx(2, rel=1e-5) and found[0]["verdict"] == "larger" and found.differ
    with pytest.raises(ls.ArgumentError, match="label = "):
        ls.measure(model, label="it's", **some)


def test_hostile_names(tmp_path):
    """Escapes for the terminal and marks that turn a line around reach neither the terminal nor the page."""
    evil = tmp_path / "a\x1b]0;owned\x07\u202egpj.exe<b>"
    evil.mkdir()
    (evil / "config.json").write_text('{"model_type":"gpt2","n_layer":1,"n_head":2,"n_embd":16,"n_positions":64,"vocab_size":99}')
    r = ls.measure(f"random:{evil}", ids=range(8), lengths=[8], windows=1)
    model = ls.Model(f"random:{evil}")
    for shown in (repr(r), r._repr_html_(), repr(model), repr(r.compare(r)), r.report(tmp_path / "page.html").read_text()):
        assert not set(shown) & set("\x1b\x07\u202e")


# ---- Which test stands for which -------------------------------------------------------------

PROGRAM = "the program's screen, its words or its processes"
STANDS = {
    "attack": "test_attack", "badfiles": "test_commands", "bench": "test_calls", "bounds": "test_commands", "certify": "test_commands",
    "check": "test_calls", "compare": "test_commands", "converge": "test_commands", "devices": "test_calls", "distance": "test_measures",
    "enclosure": "test_commands", "gpu": "test_calls", "hostile": "test_commands", "hub": "test_commands", "layer": "test_commands",
    "layer_file": "test_commands", "measure": "test_commands", "measure_bad": "test_measure", "measure_run": "test_commands",
    "merge": "test_calls", "models": "test_models", "output": "test_commands", "perturb": "test_calls", "report": "test_measure",
    "reproduce": "test_calls", "selftest": "test_calls", "split": "test_measures", "windows": "test_commands", "usage": "test_bad_input",
    "docs": "test_manual", "demo": "test_notebook",
    "large": "the library's memory", "report_absent": "a build without Vega", "reproduce_real": "weights that are not here",
    **dict.fromkeys(("completion", "formats", "help", "man", "terminal"), PROGRAM),
    **dict.fromkeys(("ranks", "ranks_hosts", "ranks_killed", "ranks_pieces", "ranks_stopped"), PROGRAM),
    **dict.fromkeys(("begin", "mpirun", "nano", "shared"), "no tests: what they begin with")}


def test_every_test_of_the_program():
    folder = pathlib.Path(__file__).resolve().parents[2] / "tests" / "cli"
    assert {path.stem for path in folder.glob("*.sh") if not path.stem.startswith("screen")} <= set(STANDS), "tests of the program that no test here stands for"
    for name in {name for name in STANDS.values() if name.startswith("test_") and name not in ("test_maps", "test_manual", "test_notebook")}:
        importlib.import_module(name)
