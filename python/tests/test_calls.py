"""Every command of the program as a call, with its numbers."""
import json
import re

import numpy as np
import pytest
from conftest import attention_of, command, complex_step, program, random_layer, same

import lipscope as ls

NANO = "builtin:gpt2-nano"
TEXT = dict(text="builtin:lighthouse")
CALLS = {"measure": ls.measure, "layer": ls.layer, "bounds": ls.bounds, "attack": ls.attack, "split": ls.split, "push": ls.push,
         "distance": ls.wasserstein, "report": ls.report, "compare": ls.compare, "merge": ls.merge, "info": ls.Model,
         "tokens": ls.Tokenizer, "export": ls.export, "check": ls.check, "selftest": ls.selftest, "bench": ls.bench,
         "perturb": ls.perturb, "devices": ls.devices, "reproduce": ls.reproduce}
FOR_PEOPLE = {"demo"}  # a tour on the screen; docs/tour.ipynb is that of Python


def test_every_command():
    listed = set(re.findall(r"^  ([a-z]+) ", command("help"), re.M))
    assert listed - FOR_PEOPLE == set(CALLS), "commands without a call, or calls without a command"


# ---- Layer files -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "l3.safetensors"
    assert ls.export(NANO, path, layer=3, length=8, **TEXT) == path
    return path


def test_layer_file(file, tmp_path):
    """The program's export and ours are the same file; the layer is that of the model."""
    command("export", NANO, "--layer", 3, "--text", "builtin:lighthouse", "--length", 8, "-o", tmp_path / "theirs")
    assert file.read_bytes() == (tmp_path / "theirs").read_bytes()
    J = ls.layer(file)
    said = program("layer", file, "--upper", "--as-released")["rows"][0]
    assert float(J.sigma()) == pytest.approx(said["sigma"], rel=1e-12)
    assert J.upper().value == pytest.approx(said["upper"], rel=1e-9) and J.released() == pytest.approx(said["released"], rel=1e-12)
    model = ls.Model(NANO)
    assert np.array_equal(J.X, model.inputs(ls.Tokenizer(NANO).encode(text_of(8))[:8], layer=3))
    assert ls.Attention(model.layer(3), J.X).sigma() == J.sigma() == ls.Attention(ls.Layer.load(file), J.X).sigma()
    assert repr(ls.Layer.load(file)) == repr(model.layer(3)) == "<Layer d = 192, 6 heads of 32, causal>"
    assert ls.bounds(file).sigma == pytest.approx(said["sigma"], rel=1e-9)


def text_of(n):
    """The beginning of the text that comes with the package."""
    data = ls.__path__[0] + "/data/text/lighthouse.txt"
    with open(data, encoding="utf-8") as f:
        return f.read(40 * n)


def test_layer_kinds(rng, tmp_path):
    """What a layer may be survives a file."""
    X, W = rng.normal(size=(5, 8)), random_layer(rng, 8, 4, 2)
    more = dict(heads=4, mask="sliding", window=3, scale=0.4, bq=rng.normal(size=8), bo=rng.normal(size=8), soft_cap=5.0,
                rotary_freq=np.array([0.3]), q_gain=np.array([1.0, 2.0]), norm_eps=1e-5, sinks=rng.normal(size=4))
    J = ls.attention(X, *W, positions=np.arange(5) * 2.0, **more)
    row = ls.save(J, tmp_path / "top", upper=True)
    again = ls.layer(tmp_path / "top")
    assert again.sigma() == J.sigma() == pytest.approx(row["sigma"], rel=1e-12) and row["upper"] >= row["sigma"]
    assert ls.check(tmp_path / "top").agree
    same(ls.check(tmp_path / "top", certify=1e-2).__dict__, program("check", tmp_path / "top", "--certify", "1e-2")["rows"][0],
         ("certificate", "certify_products", "lower", "upper"))
    weighted = ls.attention(X, *W, heads=4, weights=np.arange(1.0, 6.0))
    ls.save(weighted, tmp_path / "weighted")
    assert ls.layer(tmp_path / "weighted").sigma() == pytest.approx(float(weighted.sigma()), rel=1e-12)


def test_check(tmp_path):
    """A changed value is not confirmed; maps behind attention need the model; no direction, no check."""
    ls.measure(NANO, **TEXT, lengths=[8], windows=1, layers=[3], map="block", dtype="float64", save_direction=tmp_path / "b")
    assert ls.check(tmp_path / "b", NANO).agree and ls.check(tmp_path / "b", NANO).input_error < 1e-6
    with pytest.raises(ls.Refused, match="model"):
        ls.check(tmp_path / "b")
    ls.export(NANO, tmp_path / "plain", layer=0, ids=range(4))
    with pytest.raises(ls.Refused):
        ls.check(tmp_path / "plain")
    J = ls.attention(np.eye(3), np.eye(3), np.eye(3), np.eye(3))
    ls.save(J, tmp_path / "t")
    data = bytearray((tmp_path / "t").read_bytes())
    size = int.from_bytes(data[:8], "little")
    at = 8 + size + json.loads(data[8:8 + size])["sigma"]["data_offsets"][0]
    data[at:at + 8] = np.float64(1.001 * J.sigma()).tobytes()
    (tmp_path / "t").write_bytes(bytes(data))
    assert not ls.check(tmp_path / "t").agree


@pytest.mark.parametrize("call,want", [
    (lambda: ls.layer("/nowhere"), "nowhere"), (lambda: ls.layer(3), "a path is needed"), (lambda: ls.layer("a\0b"), "NUL"),
    (lambda: ls.check("/nowhere"), "nowhere"), (lambda: ls.Layer.load("/nowhere", colour=3), "no colour"),
    (lambda: ls.save(3, "x"), "is needed"), (lambda: ls.export(NANO, "x", layer=3), "one of text, ids and pixels"),
    (lambda: ls.export(NANO, "/nowhere/x", layer=3, ids=[1]), "/nowhere"), (lambda: ls.export(NANO, "x", layer=9, ids=[1]), "0 to 5"),
    (lambda: ls.compare("/nowhere", "/nowhere"), "nowhere"), (lambda: ls.merge([], "x"), ""), (lambda: ls.report(["/nowhere"], "x"), ""),
    (lambda: ls.perturb(NANO, text="the"), ""), (lambda: ls.perturb(NANO, ids=[1] * 8, length=8, noise=[-1.0]), "noise = "),
    (lambda: ls.perturb(NANO, ids=[1] * 8, length=8, layers=[7]), "0 to 5"), (lambda: ls.nearest(NANO, 10 ** 6), ""),
    (lambda: ls.Measure.load("/nowhere"), "nowhere"), (lambda: ls.wasserstein("/nowhere", [[0.0]]), "nowhere"),
    (lambda: ls.Gaussians(np.zeros(2), np.eye(3)), "mean has shape"), (lambda: ls.Gaussians(np.zeros(2), -np.eye(2)), ""),
    (lambda: ls.pairs(ls.Layer(np.eye(2), None, np.eye(2)), -1.0), ""), (lambda: ls.pairs(ls.Layer(np.eye(2), None, np.eye(2)), 1.0, speed=1), "no argument speed"),
    (lambda: ls.Device("quantum"), "quantum"), (lambda: ls.Device(threads=-1), "threads = -1"), (lambda: ls.bench(0), "n = 0"),
    (lambda: ls.attention(np.ones((2, 2)), *[np.eye(2)] * 3, device=3), "device is a int"),
    (lambda: ls.attention(np.ones((2, 2)), *[np.eye(2)] * 3, device=ls.Device(), threads=2), "threads="),
    (lambda: ls.reproduce(only="nothing"), "only = 'nothing'"), (lambda: ls.reproduce("/proc/nowhere", quick=True), "/proc/nowhere"),
    (lambda: ls.reproduce("x", gpt2=3), "is no model"), (lambda: ls.reproduce("x", texts=[3]), "texts holds 3")], ids=str)
def test_bad(call, want, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ls.LipscopeError) as caught:
        call()
    assert want in str(caught.value) and "\n" not in str(caught.value)


# ---- Runs ------------------------------------------------------------------------------------


def test_runs(tmp_path):
    some = dict(TEXT, lengths=[8, 16], windows=6, layers=[0, 2])
    for i in (1, 2):
        ls.measure(NANO, run=tmp_path / f"part{i}", shard=(i, 2), **some)
    whole = ls.merge([tmp_path / "part1", tmp_path / "part2"], tmp_path / "whole")
    assert len(whole) == 24 == whole.merged.added
    again = ls.measure(NANO, run=tmp_path / "whole", **some)
    assert again.rows == whole.rows
    free = ls.measure(NANO, mask="none", run=tmp_path / "free", **some)
    found = whole.compare(free)
    said = program("compare", tmp_path / "whole", tmp_path / "free")["rows"]
    assert len(found) == len(said) == 2 and found.differ == ["mask"]
    for row, other in zip(found, said):
        same(row, other)
    assert "verdict" in repr(found) and "<table>" in found._repr_html_() and "head" not in repr(found).splitlines()[1]
    page = ls.report([whole, tmp_path / "free"], tmp_path / "page.html").read_text()
    assert "gpt2-nano" in page
    with pytest.raises(ls.LipscopeError, match="mask|settings"):
        ls.merge([whole, free], tmp_path / "both")


# ---- Finite changes --------------------------------------------------------------------------


def test_perturb(tmp_path):
    found = ls.perturb(NANO, length=8, layers=[0], tokens=2, neighbours=1, **TEXT)
    said = program("perturb", NANO, "--text", "builtin:lighthouse", "--length", 8, "--layers", 0, "--tokens", 2, "--neighbours", 1)["rows"]
    assert len(found) == len(said)
    for row, other in zip(found, said):
        other["first"] = other.pop("first_order")
        same(row, other, ("from", "to"), 1e-9)
        assert row["from"] is None or f'"{row["from"]}"' == other["from"]
        assert row["upper"] is None or row["upper"] >= row["ratio"]
    assert found.worst()["ratio"] == max(row["ratio"] or 0 for row in found) and "model" in repr(found)
    page = found.report(tmp_path / "changes.html")
    assert "first_order" in page.read_text() and page.stat().st_size > 100000
    small = ls.perturb(NANO, ids=range(8), length=8, layers=[0], noise=[1e-6], bounds=False, whole_model=False)
    assert all(row["upper"] is None for row in small)
    noise = [row for row in small if row["change"] == "noise"]
    assert len(noise) == 1 and noise[0]["ratio"] == pytest.approx(noise[0]["first"], rel=1e-4) and noise[0]["ratio"] <= noise[0]["sigma"]


def test_nearest():
    """Against the embedding itself."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(ls.__path__[0] + "/data/gpt2-nano")
    table = model.transformer.wte.weight.detach().double()
    gaps = (table - table[5]).norm(dim=1)
    want = [int(i) for i in torch.argsort(gaps)[1:4]]
    found = ls.nearest(model, 5, 3)
    assert list(found) == want and list(found.values()) == pytest.approx([float(gaps[i]) for i in want], rel=1e-6)


# ---- Measures --------------------------------------------------------------------------------


def test_measure_files(rng, tmp_path):
    a = ls.Measure(rng.normal(size=(4, 2)), [0.1, 0.2, 0.3, 0.4])
    b = ls.Measure(rng.normal(size=(3, 2)), times=[0.0, 0.5, 1.0])
    a.save(tmp_path / "a")
    b.save(tmp_path / "b")
    again = ls.Measure.load(tmp_path / "b")
    assert np.array_equal(again.points, b.points) and np.array_equal(again.times, b.times) and again.weights is None and len(again) == 3
    said = program("distance", tmp_path / "a", tmp_path / "b", "--p", 3)["rows"][0]
    found = ls.wasserstein(tmp_path / "a", tmp_path / "b", p=3)
    same({**found.info.__dict__}, said, ("seconds", "n", "m", "d", "image_distance", "ratio", "image_gap", "image_method", "conditional", "epsilon"))
    np.savetxt(tmp_path / "c.csv", b.points, delimiter=",")
    np.save(tmp_path / "c.npy", b.points)
    assert ls.wasserstein(tmp_path / "c.csv", tmp_path / "c.npy") == pytest.approx(0.0, abs=1e-12)
    assert len(ls.Measure([[1.0], [2.0], [1.0]]).merge()) == 2
    heavy = tmp_path / "heavy.csv"
    heavy.write_text("x,weight\n0,1\n1,3\n")
    with pytest.raises(ls.LipscopeError, match="sum"):
        ls.Measure.load(heavy)
    assert ls.Measure.load(heavy, normalise=True).weights.tolist() == [0.25, 0.75]


def test_push_and_split(file, rng, tmp_path):
    points = rng.normal(size=(3, 192))
    ls.Measure(points).save(tmp_path / "mu")
    layer = ls.Layer.load(file)
    command("push", tmp_path / "mu", "--layer", file, "-o", tmp_path / "image")
    assert np.allclose(ls.push(tmp_path / "mu", layer).points, ls.Measure.load(tmp_path / "image").points, rtol=1e-12)
    said = program("split", tmp_path / "mu", "--layer", file, "--restarts", 0, "--step", 0)["rows"][0]
    found = ls.split(tmp_path / "mu", layer, restarts=0, step=0)
    assert found.split == pytest.approx(said["split"], rel=1e-9) and found.move == pytest.approx(said["move"], rel=1e-9)
    moved = ls.Measure(points + 1e-3 * rng.normal(size=points.shape))
    r = ls.ratio(ls.Measure(points), moved, ls.Layer(np.eye(192), None, np.eye(192)))
    assert r.ratio == pytest.approx(r.after / r.before) and r.before == ls.wasserstein(points, moved)


def test_gaussians(rng, tmp_path):
    """One Gaussian by its affine map, mixtures by samples."""
    B = rng.normal(size=(2, 2))
    mean, cov, A, V = rng.normal(size=2), B @ B.T, rng.normal(size=(2, 2)), rng.normal(size=(2, 2))
    g, layer = ls.Gaussians(mean, cov), ls.Layer(A, None, V)
    image = g.push(layer)
    M = V @ cov @ A.T  # Gamma(x) = V (m + S A' x): scores x . (A y)
    lin = (g.map(layer, np.eye(2)) - g.map(layer, np.zeros((2, 2)))).T
    assert np.allclose(lin, M, rtol=1e-10) or np.allclose(lin, V @ cov @ A, rtol=1e-10)
    assert np.allclose(image.cov, lin @ cov @ lin.T, rtol=1e-10) and g.slope(layer) == pytest.approx(np.linalg.norm(lin, 2), rel=1e-10)
    assert ls.push(g, layer).cov == pytest.approx(image.cov)
    shifted = ls.Gaussians(mean + 3.0, cov)
    assert ls.wasserstein(g, shifted) == pytest.approx(3 * np.sqrt(2), rel=1e-10)
    X = g.sample(20000, seed=3)
    assert X.mean(0) == pytest.approx(mean, abs=0.1) and np.cov(X.T) == pytest.approx(cov, abs=0.3)
    mix = ls.Gaussians(rng.normal(size=(2, 2)), np.stack([np.eye(2), cov]), [0.25, 0.75])
    mix.save(tmp_path / "mix")
    assert ls.Gaussians.load(tmp_path / "mix").mass.tolist() == [0.25, 0.75] and "Mixture of 2" in repr(mix)
    errors, exponent = ls.Gaussians(mean, 0.1 * np.eye(2)).rate(layer, lengths=[50, 200, 800], repeats=2)
    assert len(errors) == 3 and -1.0 < exponent < 0.0
    with pytest.raises(ls.ArgumentError, match="W_2"):
        ls.wasserstein(g, shifted, p=1)


def test_pairs(rng):
    layer = ls.Layer(rng.normal(size=(2, 2)), None, rng.normal(size=(2, 2)))
    found = ls.pairs(layer, 1.0, evaluations=30)
    assert found.construction <= found.best <= found.upper and np.linalg.norm(found.measure.points, axis=1).max() <= 1 + 1e-9
    assert ls.split(found.measure, layer, restarts=0).split == pytest.approx(found.best, rel=1e-6)


# ---- The rest --------------------------------------------------------------------------------


def test_tokens(tmp_path):
    (tmp_path / "t").write_text("The keeper, and\nthe sea.")
    said = [int(word) for word in command("tokens", NANO, tmp_path / "t").split()]
    t = ls.Tokenizer(NANO)
    assert t.encode("The keeper, and\nthe sea.") == said and len(t) > max(said)


def test_info():
    said, info = program("info", NANO)["rows"][0], ls.Model(NANO).info
    for name in ("layers", "d", "heads", "architecture"):
        assert getattr(info, name) == said[name]


def test_devices():
    listed = ls.devices()
    assert {"cpu", "guard"} <= {row["name"] for row in listed if row["usable"]} and "cpu" in repr(listed)
    X, W = np.eye(4), [np.eye(4)] * 3
    want = ls.attention(X, *W).sigma()
    with ls.Device("guard") as guard:
        J = ls.attention(X, *W, device=guard)
        assert J.sigma() == want and "guard" in repr(guard)
    with pytest.raises(ls.Unusable, match="closed"):
        J.sigma()
    assert ls.attention(X, *W, device="guard").sigma() == want == ls.attention(X, *W, device="cpu", threads=2).sigma()
    model, some = ls.Model(NANO), dict(TEXT, lengths=[8], windows=1, layers=[3])
    rows = [ls.measure(model, device=device, **some)[0] for device in (None, "guard", "cpu")]
    assert rows[0]["sigma"] == rows[1]["sigma"] == rows[2]["sigma"] and rows[1]["device"] == "guard"
    with model.jacobian(range(8), 3, device="guard") as J:
        sigma = J.sigma()
        with pytest.raises(ls.ArgumentError, match="in use on guard"):
            model.jacobian(range(8), 3)
    assert model.jacobian(range(8), 3).sigma() == sigma
    assert ls.bounds(model, layer=3, ids=range(8), device="guard").sigma == ls.bounds(model, layer=3, ids=range(8)).sigma
    assert ls.attack(model, layer=3, ids=range(4), radius=0.01, relative=True, seconds=0.5, device="guard").sigma > 0


def test_no_cuda():
    """What is not here is said, with the reason."""
    if any(row["name"].startswith("cuda") and row["usable"] for row in ls.devices()):
        pytest.skip("there is a CUDA device")
    for call in (lambda: ls.Device("cuda"), lambda: ls.attention(np.eye(2), *[np.eye(2)] * 3, device="cuda"),
                 lambda: ls.measure(NANO, ids=range(8), device="cuda:0")):
        with pytest.raises(ls.DeviceError) as caught:
            call()
        assert "\n" not in str(caught.value) and "cuda" in str(caught.value).lower()

    class OnGPU:
        def __init__(self, kind):
            self.kind = kind

        def __dlpack__(self, **more):
            raise AssertionError("nobody may read it")

        def __dlpack_device__(self):
            return (self.kind, 1)

    for kind, name in ((2, "cuda:1"), (10, "rocm:1"), (99, "DLPack device 99:1")):
        with pytest.raises(ls.DeviceError) as caught:
            ls.attention(OnGPU(kind), *[np.eye(2)] * 3)
        assert f"X lies on {name}" in str(caught.value) and ("no CUDA device" in str(caught.value)) == (kind == 2)


def test_attack_at_a_window():
    model = ls.Model(NANO)
    X = model.inputs(range(6), 2)
    found = ls.attack(model, layer=2, ids=range(6), radius=0.02, relative=True, iterations=3, restarts=1, dtype="float64")
    near = ls.attack(model, layer=2, around=X, radius=0.02, relative=True, iterations=3, restarts=1)
    # the length of the mean token is summed by numpy in one, by the library in the other
    assert found.sigma == pytest.approx(near.sigma, rel=1e-14)
    assert near.sigma >= model.jacobian(range(6), 2).sigma() * (1 - 1e-9)
    assert ls.attack(ls.Layer(np.eye(2), None, np.eye(2)), length=3, radius=1.0, masses=True, iterations=3).weights.max() == 1.0
    with pytest.raises(ls.ArgumentError, match="windows of a model"):
        ls.attack(ls.Layer(np.eye(2), None, np.eye(2)), ids=[1], radius=1.0)


def test_selftest():
    found = ls.selftest()
    assert found and len(found) > 5 and all(row["error"] <= row["limit"] for row in found) and "passed" in repr(found)


def test_bench():
    row = ls.bench(16, repeats=1, threads=1)
    assert row["n"] == 16 and row["gflops"] > 0 and row["threads"] == 1


def test_reproduce(tmp_path):
    """One part in its quick form: the claims of the program; the same call goes on; a page can be made of it."""
    found = ls.reproduce(tmp_path / "paper", quick=True, only="basics")
    said = program("reproduce", "--quick", "--only", "basics", "--out", tmp_path / "other", "-q")["rows"]
    assert found and len(found) == len(said) > 0 and "claims" in repr(found)
    for row, other in zip(found, said):
        same(row, other, ("says",))
    assert ls.reproduce(tmp_path / "paper", quick=True, only="basics").rows == found.rows
    with pytest.raises(ls.LipscopeError, match="seed"):
        ls.reproduce(tmp_path / "paper", quick=True, only="basics", seed=2)


def test_released(rng):
    """|J' f(X)|^(1/2), by numpy."""
    X, W = rng.normal(size=(5, 4)), random_layer(rng, 4, 2)
    A, y = complex_step(lambda Z: attention_of(Z, *W, heads=2), X), attention_of(X, *W, heads=2)
    assert ls.attention(X, *W, heads=2).released() == pytest.approx(np.sqrt(np.linalg.norm(A.T @ y.ravel())), rel=1e-12)


def test_sides():
    """A bound is shown on the side on which it holds; a comparison has its page."""
    bounds = ls.bounds(NANO, layer=0, ids=range(6))
    for row, line in zip(bounds.rows, bounds._lines()):
        side = {"upper": 1, "lower": -1}.get(row["kind"], 0)
        assert all(side * (float(line[place]) - row[name]) >= 0 for place, name in ((4, "value"), (5, "ratio")) if row[name] is not None)


def test_comparison_page(tmp_path):
    some = dict(lengths=[8], windows=1, layers=[0], **TEXT)
    page = ls.compare(ls.measure(NANO, **some), ls.measure(NANO, mask="none", **some)).report(tmp_path / "both.html")
    assert "first run" in page.read_text() and page.stat().st_size > 100000
