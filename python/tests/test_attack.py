"""ls.attack: what tests/cli/attack.sh asks of the program, by calls; rows as the program says them."""
import json
import os
import pathlib
import re
import signal

import numpy as np
import pytest
from conftest import attention_of, complex_step, program, random_layer, same

import lipscope as ls

NANO = "builtin:gpt2-nano"
QUICK = dict(restarts=2, iterations=5)
ONE = np.ones((1, 1))
G1 = np.array([[-1.0]] + [[1.0]] * 9)  # with A = -1, V = 1: the one outlier of docs/maths.md 5.1


@pytest.fixture
def file(tmp_path):
    """A layer file of G1."""
    ls.save(ls.attention(G1, -ONE, None, ONE), tmp_path / "G1")
    return tmp_path / "G1"


def said(*arguments, code=0):
    return program("attack", *arguments, "-q", code=code)["rows"]


def quick(out):
    return ["--restarts", 2, "--iterations", 5, "-o", out]


def test_layer_file(file, tmp_path):
    """At least the known worst case, below what is proved, and confirmed by the definition; the program's numbers."""
    found = ls.attack(file, radius=1.0, out=tmp_path / "found")
    assert 2.9937162 <= found.info.best_construction <= found.sigma <= found.upper and found.info.residual <= 1e-8
    assert found.info.lower <= found.sigma and found.X.shape == (10, 1) and np.abs(found.X).max() <= 1 + 1e-12
    assert ls.layer(tmp_path / "found").sigma() == pytest.approx(found.sigma, rel=1e-12) and ls.check(tmp_path / "found").agree
    same(found.info.__dict__, said(file, "--radius", 1, "-o", tmp_path / "other")[0], ("input", "seconds"))
    assert (tmp_path / "found").read_bytes() == (tmp_path / "other").read_bytes()
    J = complex_step(lambda Z: attention_of(Z, -ONE, ONE, ONE), found.X)
    assert np.linalg.norm(J, 2) == pytest.approx(found.sigma, rel=1e-9)
    assert np.linalg.norm(J @ found.v.ravel()) == pytest.approx(found.sigma * np.linalg.norm(found.v), rel=1e-9)
    sphere = ls.attack(file, domain="sphere", length=4, **QUICK)
    assert np.abs(sphere.X) == pytest.approx(np.ones((4, 1))) and sphere.info.radius == 1.0  # the longest token of the file


def test_in_memory_as_in_a_file(file):
    """The same search from the same layer."""
    J = ls.layer(file)
    assert ls.attack(J, radius=1.0, **QUICK).sigma == ls.attack(file, radius=1.0, **QUICK).sigma
    assert ls.attack(J, domain="sphere", **QUICK).sigma == ls.attack(file, domain="sphere", **QUICK).sigma
    with pytest.raises(ls.ArgumentError, match="ls.save"):
        ls.attack(J, radius=1.0, lengths=[2, 3])


def test_measure(file):
    """docs/maths.md 5.3: masses are worth more than positions alone."""
    found = ls.attack(file, length=4, masses=True, radius=1.0)
    assert found.sigma >= 3.06867 and found.weights.max() == 1.0 and len(found.weights) == 4
    assert ls.attack(ls.layer(file), length=4, masses=True, radius=1.0).sigma == found.sigma


def test_weights_stay(rng, tmp_path):
    """Token weights, times and positions of the input are those of what is found: LAPACK on complex steps."""
    X, W, w = rng.normal(size=(4, 3)), random_layer(rng, 3, 1), np.array([1.0, 2.0, 3.0, 4.0])
    found = ls.attack(ls.attention(X, *W, weights=w), radius=1.0, domain="around", **QUICK)
    J = complex_step(lambda Z: attention_of(Z, *W, weights=w), found.X)
    root = np.repeat(np.sqrt(w), 3)
    assert np.linalg.norm(root[:, None] * J / root, 2) == pytest.approx(found.sigma, rel=1e-8)
    timed = dict(times=np.array([0.1, 0.4, 0.2, 0.3]), mask="times")
    found = ls.attack(ls.attention(X, *W, **timed), radius=0.5, domain="around", **QUICK)
    assert ls.attention(found.X, *W, **timed).sigma() == pytest.approx(found.sigma, rel=1e-8)
    W, turned = random_layer(rng, 4, 1), dict(rotary_freq=np.array([0.7, 0.2]), positions=np.array([0.0, 3.0, 9.0, 27.0]))
    J = ls.attention(rng.normal(size=(4, 4)), *W, **turned)
    found = ls.attack(J, radius=0.5, domain="around", **QUICK)
    assert ls.attention(found.X, *W, **turned).sigma() == pytest.approx(found.sigma, rel=1e-8)
    with pytest.raises(ls.ArgumentError, match="its positions are those of 4 tokens, not of length 3"):
        ls.attack(J, length=3, radius=1.0)


def test_several_lengths(file, tmp_path):
    """A file for each, a growth law, a run that is continued and refuses other settings: as the program has them."""
    options = dict(lengths=[8, 12, 16], radius=1.0, run=tmp_path / "a.db", out=tmp_path / "many.st", **QUICK)
    found = ls.attack(file, **options)
    words = [file, "--lengths", "8,12,16", "--radius", 1, *quick(tmp_path / "theirs.st")]
    rows = program("attack", *words, "--run", tmp_path / "b.db", "-q")
    assert [row["n"] for row in found] == [8, 12, 16] and len(rows["rows"]) == 3
    for row, other in zip(found, rows["rows"]):
        same(row, other, ("input", "seconds"))
    same(found.law, rows["fits"][0])
    assert found.law["lengths"] == 3 and found.law["exponent_low"] is None and repr(found).startswith("sigma ~ n^")
    for n in (8, 12, 16):
        assert ls.layer(tmp_path / f"many-{n}.st").sigma() == pytest.approx(found.at(n).sigma, rel=1e-12)
    first = (tmp_path / "many-12.st").stat().st_mtime_ns
    again = ls.attack(file, **options)
    assert again.rows == found.rows and (tmp_path / "many-12.st").stat().st_mtime_ns == first
    (tmp_path / "many-12.st").unlink()  # is made again
    assert ls.attack(file, **options).at(12).sigma == found.at(12).sigma
    with pytest.raises(ls.LipscopeError, match="restarts"):
        ls.attack(file, **dict(options, restarts=3))
    assert "<table>" in found._repr_html_() and len(ls.Result(tmp_path / "a.db")) == 3
    with pytest.raises(ls.ArgumentError, match="no input of length 9: there are 8, 12, 16"):
        found.at(9)


def test_files_that_nobody_named(file, monkeypatch, tmp_path):
    """They go with the result."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = ls.attack(file, lengths=[2, 3], radius=1.0, **QUICK)
    assert found.at(3).X.shape == (3, 1) and pathlib.Path(found[0]["input"]).exists()
    one = ls.attack(file, length=2, radius=1.0, **QUICK)
    del found
    assert len(list(tmp_path.glob("lipscope-*"))) == 1 and one.X.shape == (2, 1)  # for the page of this one
    del one
    with pytest.raises(ls.LipscopeError):
        ls.attack(file, radius=1e80, length=5)
    assert not list(tmp_path.glob("lipscope-*"))


def told(page):
    """The run that a page is of."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.S)[1])["runs"][0]


def test_pages(file, tmp_path):
    """Of what was found of a layer file and of a model, with or without files of theirs: the lengths, and what was attacked."""
    several = ls.attack(file, lengths=[2, 3], radius=1.0, **QUICK)
    last, sigma = several.at(3), [row["sigma"] for row in several]
    run = told(several.report(tmp_path / "several.html"))
    assert run["command"] == "attack" and run["settings"]["told"]["model"] == str(file)
    assert run["columns"]["n"] == [2, 3] and run["columns"]["sigma"] == pytest.approx(sigma, rel=1e-12)
    del several
    assert told(last.report(tmp_path / "last.html"))["columns"]["n"] == [2, 3]
    one = ls.attack(NANO, layer=1, length=4, domain="norm", out=tmp_path / "one.st", **QUICK)
    run = told(one.report(tmp_path / "one.html"))
    assert run["settings"]["told"]["model"] == NANO and run["settings"]["layer"] == 1 and run["count"] == 1
    one = ls.attack(NANO, layer=1, length=5, domain="norm", run=tmp_path / "one.db", **QUICK)
    assert told(one.report(tmp_path / "one.html"))["file"] == str(tmp_path / "one.db")
    with pytest.raises(ls.Unusable, match="a layer in memory has no run"):
        ls.attack(ls.Layer(ONE, ONE, ONE), length=3, radius=1.0, **QUICK).report(tmp_path / "none.html")


@pytest.mark.parametrize("options,words", [
    (dict(domain="norm"), ["--domain", "norm"]), (dict(radius="layernorm"), ["--radius", "layernorm"]),
    (dict(text="builtin:lighthouse", radius=0.1), ["--domain", "around", "--radius", 0.1, "--text", "builtin:lighthouse"]),
    (dict(text="builtin:lighthouse", domain="ball"), ["--text", "builtin:lighthouse"]),
    (dict(radius=2.0, head=1, mask="none"), ["--radius", 2, "--heads", 1, "--mask", "none"])], ids=str)
def test_model(options, words, tmp_path):
    """The image of its norm, the norm's radius, around a text, one head without its mask: the program's numbers."""
    found = ls.attack(NANO, layer=1, length=6, out=tmp_path / "found", **QUICK, **options)
    same(found.info.__dict__, said(NANO, "--layer", 1, "--length", 6, *words, *quick(tmp_path / "other"))[0], ("input", "seconds"))
    assert found.upper is None or found.sigma <= found.upper
    assert ls.check(tmp_path / "found").agree
    assert ls.layer(tmp_path / "found").sigma() == pytest.approx(found.sigma, rel=1e-9)


def test_norm_domain():
    """Tokens of the norm domain are images of the norm: behind gain and shift their length is sqrt(d), their mean zero."""
    model = ls.Model(NANO)
    found = ls.attack(model, layer=1, length=4, domain="norm", **QUICK)
    safe = pytest.importorskip("safetensors.numpy").load_file(ls.__path__[0] + "/data/gpt2-nano/model.safetensors")
    gain, shift = (next(safe[name] for name in safe if name.endswith(f"h.1.ln_1.{part}")).astype(float) for part in ("weight", "bias"))
    z = (found.X - shift) / gain
    assert np.linalg.norm(z, axis=1) == pytest.approx(np.sqrt(192), rel=1e-9) and z.mean(1) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("more,start", [({}, 0), (dict(window=2), 16), (dict(window=2, stride=20), 40), (dict(window=2, tiled=True), 16)],
                         ids=str)
def test_windows(more, start):
    """At radius 0 around a window there is the window alone."""
    model = ls.Model(NANO)
    with open(ls.__path__[0] + "/data/text/lighthouse.txt", encoding="utf-8") as text:
        ids = ls.Tokenizer(NANO).encode(text.read())[start:start + 8]
    found = ls.attack(model, layer=1, head=0, text="builtin:lighthouse", length=8, radius=0.0, restarts=1, iterations=1,
                      dtype="float64", **more)
    assert found.sigma == pytest.approx(model.jacobian(ids, 1, head=0).sigma(tol=1e-10), rel=1e-9)
    assert found.info.given == pytest.approx(found.sigma, rel=1e-9) and max(found.info.moved) == 0


@pytest.fixture()
def listening():
    """Whoever starts the tests in the background may have told them to ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("where", ["memory", "file", "lengths"])
def test_interrupt(where, file, tmp_path, listening):
    """Ctrl-C keeps the best so far; finished lengths stay in the run."""
    def stop(doing, evaluations, best):
        if best > 0 and (where != "lengths" or (tmp_path / "out-4.st").exists()):
            os.kill(os.getpid(), signal.SIGINT)

    long = dict(radius=3.0, restarts=1000, iterations=10 ** 5, progress=stop)
    with pytest.raises(KeyboardInterrupt) as caught:
        if where == "memory":
            ls.attack(ls.Layer(*np.random.default_rng(0).normal(size=(3, 4, 4))), length=20, **long)
        elif where == "file":
            ls.attack(file, length=20, out=tmp_path / "int.st", **long)
        else:
            ls.attack(file, lengths=[4, 30], out=tmp_path / "out.st", run=tmp_path / "a.db", seconds=2, **long)
    best = caught.value.result
    assert best.stopped
    if where == "lengths":
        assert best[0]["n"] == 4 and len(ls.Result(tmp_path / "a.db")) == 1 and best.at(4).sigma > 0
    else:
        assert best.X.shape[0] == 20 and best.sigma > 0
    if where == "file":
        assert ls.check(tmp_path / "int.st").agree


def test_seconds(file):
    """The best so far, which is done and not interrupted; the first value is waited for."""
    found = ls.attack(file, length=40, radius=30.0, iterations=10 ** 5, restarts=500, seconds=0.3)
    assert found.sigma > 0
    layer = ls.Layer(*np.random.default_rng(0).normal(size=(3, 4, 4)))
    assert ls.attack(layer, length=9, radius=3.0, iterations=10 ** 5, restarts=500, seconds=0.5).sigma > 0
    assert ls.attack(layer, length=9, radius=3.0, iterations=10 ** 5, restarts=500, seconds=1e-9).stopped


def test_edges(file):
    assert ls.attack(file, length=1, radius=2.0).sigma == pytest.approx(1, rel=1e-12)
    assert ls.attack(file, length=5, radius=0.0).sigma == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("model,options,want", [
    ("file", dict(radius=1e80, length=5), "too large for double precision"), ("file", dict(radius=-1.0), "radius = -1.0"),
    ("file", dict(radius=float("nan")), "radius = nan"), ("file", dict(radius="wide"), "radius = 'wide'"),
    ("file", dict(radius=1.0, domain="box"), "there are ball, sphere, norm, around"),
    ("file", dict(domain="norm"), "a layer file has none"), ("file", dict(radius="layernorm"), "a layer file has none"),
    ("file", dict(domain="around"), "needs a radius"), ("file", dict(radius=1.0, relative=True), "relative goes with"),
    ("file", dict(domain="around", radius=1.0, length=11), "no input of length 11"),
    ("file", dict(radius=1.0, length=3, lengths=[3]), "leave out one"), ("file", dict(radius=1.0, lengths=[]), "lengths is an empty"),
    ("file", dict(radius=1.0, lengths=[2, 3], masses=True), "leave out lengths"), ("file", dict(radius=1.0, ids=[1]), "brings its input"),
    ("file", dict(radius=1.0, out="/nowhere/x"), "/nowhere"), ("file", dict(radius=1.0, run="/nowhere/x"), "/nowhere"),
    ("file", dict(radius=1.0, seconds=0), "seconds = 0"), ("/nowhere/at/all", dict(radius=1.0), "/nowhere"),
    (NANO, dict(layer=99, length=3, radius=1.0), "layers 0 to 5"), (NANO, dict(length=3, radius=1.0), "layer= is needed"),
    (NANO, dict(layer=1, length=3), "give a radius"), (NANO, dict(layer=1, domain="norm", radius=3.0, length=6), "leave it out"),
    (NANO, dict(layer=1, text="builtin:lighthouse", length=8, window=10 ** 5, radius=0.1), "window 100000"),
    (NANO, dict(layer=1, text="builtin:lighthouse", length=8, tiled=True, stride=9, radius=0.1), "tiled and stride"),
    (NANO, dict(layer=1, around=np.ones((2, 192)), ids=[1], radius=0.1), "in the place of around="),
    (NANO, dict(layer=1, around=np.ones((2, 192)), domain="norm"), "norm in front of a model")], ids=str)
def test_bad(model, options, want, file):
    with pytest.raises(ls.LipscopeError) as caught:
        ls.attack(file if model == "file" else model, **options)
    assert want in str(caught.value) and "\n" not in str(caught.value)


def test_full_disk(file):
    """What cannot be written is a failure."""
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    with pytest.raises(ls.FileError, match="No space left"):
        ls.attack(file, radius=1.0, restarts=1, iterations=1, out="/dev/full")


