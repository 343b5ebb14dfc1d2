"""ls.measure against the command line, and what a result can do."""
import os
import pathlib
import re
import signal
import threading
import time

import numpy as np
import pytest
from conftest import program
from conftest import same as same_record

import lipscope as ls
from lipscope import plots

DATA = pathlib.Path(__file__).resolve().parents[2] / "data"
NANO = dict(text="builtin:lighthouse", lengths=[8, 16, 32], windows=7, layers=[0, 3])


@pytest.fixture(scope="module")
def result():
    return ls.measure("builtin:gpt2-nano", **NANO)


def same(rows, others, but=("seconds", "model", "model_hash")):
    assert len(rows) == len(others)
    for row, other in zip(rows, others):
        same_record(row, other, but)


@pytest.mark.parametrize("more,options", [
    ({}, []), (dict(dtype="float64"), ["--dtype", "f64"]), (dict(map="block"), ["--map", "block"]),
    (dict(upper=True, details=True, k=2), ["--upper", "--details", "--count", "2"]), (dict(heads="each"), ["--heads", "each"]),
    (dict(mask="none"), ["--mask", "none"]), (dict(tiled=True), ["--tiled"]), (dict(as_released=True), ["--as-released"]),
    (dict(sink=True), ["--sink"])], ids=str)
def test_command_line(more, options):
    """The same rows as `lipscope measure`, field by field, numbers to 1e-12."""
    r = ls.measure("builtin:gpt2-nano", text="builtin:lighthouse", lengths=[8, 16], windows=2, layers=[0, 3], **more)
    said = program("measure", "builtin:gpt2-nano", "--text", "builtin:lighthouse", "--lengths", "8,16", "--windows", "2",
                   "--layers", "0,3", *options)
    same(r.rows, said["rows"])


def test_fits(result):
    said = program("measure", "builtin:gpt2-nano", "--text", "builtin:lighthouse", "--lengths", "8,16,32", "--windows", "7",
                   "--layers", "0,3")
    assert len(result.fits) == len(said["fits"]) == 4
    for law, other in zip(result.fits, said["fits"]):
        assert {name: law[name] for name in other} == other


def test_certify():
    """Which proof is taken depends on the speed of the machine; what it proves does not."""
    r = ls.measure("builtin:gpt2-nano", text="builtin:lighthouse", lengths=[4], windows=1, layers=[3], certify=1e-2,
                   dtype="float64")  # in float32 the window itself is another one, by 1e-7
    exact = np.linalg.norm(r.worst().jacobian().dense(), 2)
    assert r[0]["certified"] and r[0]["lower"] <= exact <= r[0]["upper"] <= 1.01 * r[0]["lower"]


def test_in_memory(result):
    """A transformers model with its tokenizer gives the rows of its folder."""
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(DATA / "gpt2-nano")
    tokenizer = transformers.AutoTokenizer.from_pretrained(DATA / "gpt2-nano")
    text = (DATA / "text" / "lighthouse.txt").read_text()
    r = ls.measure(model, tokenizer, text, **{k: v for k, v in NANO.items() if k != "text"})
    same(r.rows, result.rows)
    ids = tokenizer(text)["input_ids"]
    by_ids = ls.measure(model, ids=ids, **{k: v for k, v in NANO.items() if k != "text"})
    assert [row["sigma"] for row in by_ids] == [row["sigma"] for row in r]
    words = r.worst().tokens()
    assert "".join(word for word, _ in words) == tokenizer.decode(r.worst().ids())
    assert sum(share for _, share in words) == pytest.approx(1)
    assert float(r.worst().jacobian().sigma()) == pytest.approx(r.worst()["sigma"], rel=1e-5)


def test_shown(result, tmp_path):
    table = repr(result).splitlines()
    assert table[0].startswith("builtin:gpt2-nano: gpt2, map attention") and "n = 16" in table[1] and len(table) >= 4
    page = result._repr_html_()
    assert page.count("<tr>") == 3 and "rgba(" in page and "<script" not in page
    assert "nothing" not in repr(result.rows[0]) and len(result) == 42 and result[0]["layer"] == 0
    report = result.report(tmp_path / "page.html").read_text()
    assert "gpt2-nano" in report and report.lstrip().startswith("<!")


@pytest.mark.parametrize("columns", [80, 50, 200])
def test_fits_a_terminal(result, columns, monkeypatch, tmp_path):
    """No line of a table is wider than the terminal, words excepted that cannot be cut; long ones say how many lines they are."""
    monkeypatch.setenv("COLUMNS", str(columns))
    bounds = ls.bounds("builtin:gpt2-nano", layer=3, ids=range(4))
    shown = [result, bounds, result.compare(result), ls.devices(), ls.tensors("builtin:gpt2-nano"),
             ls.perturb("builtin:gpt2-nano", ids=range(4), length=4, layers=[0], bounds=False, whole_model=False),
             ls.attack("builtin:gpt2-nano", layer=0, head=0, lengths=[1, 2], radius=1.0, restarts=1, iterations=1)]
    wide = ls.Result(result.run)
    wide.rows = [ls.Row(dict(row, layer=layer, n=n)) for row in result.rows[:1] for layer in range(99) for n in range(8, 200, 16)]
    for thing in [*shown, wide]:
        widest = max(len(line) for line in repr(thing).splitlines())
        assert widest <= columns or columns == 50, repr(thing)
    assert "99 lines in all" in repr(wide) and ("left out here: n = " in repr(wide)) == (columns < 200) and wide._repr_html_().count("<tr>") == 61
    if columns == 200:
        assert "left out" not in repr(bounds) and "..." not in repr(bounds)
    for row, line in zip(bounds.rows, bounds._lines()):
        if row["kind"] == "upper" and row["value"] is not None:
            assert row["value"] <= float(line[4]) <= row["value"] * 1.001  # never rounded down


def test_pandas(result):
    pandas = pytest.importorskip("pandas")
    frame = result.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == 42
    assert frame.groupby("layer").sigma.max().tolist() == [max(r["sigma"] for r in result if r["layer"] == l) for l in (0, 3)]


def test_look_of_the_page(result):
    """Pictures of a notebook have the colours, inks and fonts of the page."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    theme, sheet = ((DATA / "report" / name).read_text() for name in ("theme.js", "page.css"))
    runs = re.search(r"light: \[(.*?)\]", theme)[1]
    assert list(plots.RUNS) == re.findall(r"#[0-9a-f]{6}", runs) and len(plots.RUNS) == 8
    assert 'vega.scheme("viridis")' in theme
    assert list(plots.RAMP) == [float(x) for x in re.search(r"isDark\(\) \? \[.*?\] : \[(.*?)\]", theme)[1].split(",")]
    light = re.search(r":root \{(.*?)\}", sheet, re.S)[1]
    assert [plots.INK, plots.SOFT, plots.LINE] == [re.search(rf"--{name}: (#\w+)", light)[1] for name in ("ink", "soft", "line")]
    named = [font.strip().strip('"') for font in re.search(r"--sans: (.*?);", light)[1].split(",")]
    assert list(plots.FONTS) == [font for font in named if font[0].isupper()]  # the others name no font
    assert [plots.LABEL, plots.TITLE] == [0.75 * float(re.search(rf"axis: .*?{name}FontSize: (\d+)", theme, re.S)[1]) for name in ("label", "title")]

    viridis, rgb = matplotlib.colormaps["viridis"], matplotlib.colors.to_rgb
    ax = result.plot()
    for line, place in zip(ax.lines, plots.RAMP):  # layers 0 and 3
        assert rgb(line.get_color()) == pytest.approx(viridis(place)[:3])
    assert rgb(ax.xaxis.label.get_color()) == rgb(plots.INK) and ax.xaxis.label.get_size() == plots.TITLE
    one = ls.Result(result.run)
    one.rows = [row for row in result if row["layer"] == 3]
    ax = one.plot(ax=one.plot())
    assert [line.get_color() for line in ax.lines] == list(plots.RUNS[:2])  # a run, and another beside it
    matplotlib.pyplot.close("all")


def test_plots(result):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    ax = result.plot()
    assert [line.get_label() for line in ax.lines] == ["layer 0", "layer 3"]
    medians = [np.median([r["sigma"] for r in result if (r["layer"], r["n"]) == (3, n)]) for n in (8, 16, 32)]
    assert ax.lines[1].get_ydata() == pytest.approx(medians)
    assert len(result.plot_layers().lines) == 3
    assert len([t for t in ax.yaxis.get_major_locator()() if ax.get_ylim()[0] <= t <= ax.get_ylim()[1]]) >= 2
    heads = ls.measure("builtin:gpt2-nano", **dict(NANO, windows=1, heads="each"))
    assert len(heads.plot().lines) == 12 and len(heads.plot().get_legend().texts) == 2  # colours are those of layers
    points = heads.plot_layers().lines[0]
    assert sorted(points.get_ydata()) == pytest.approx(sorted(r["sigma"] for r in heads if r["n"] == 8))
    whole = ls.measure("builtin:gpt2-nano", text="builtin:lighthouse", lengths=[8], windows=1, map="model")
    with pytest.raises(ls.ArgumentError, match="the map is the whole model"):
        whole.plot_layers()
    assert whole.plot(ax=matplotlib.pyplot.figure().subplots()).lines
    many = ls.Result(result.run)
    many.rows = [ls.Row(dict(row, layer=layer)) for row in result for layer in range(32)]
    assert many.plot().get_legend() is None and len(many.plot().figure.axes) == 2  # a bar of colours
    matplotlib.pyplot.close("all")


def test_run_file(tmp_path):
    """A run is continued, opens again, and refuses other settings."""
    few = dict(text="builtin:lighthouse", lengths=[8], layers=[0], run=tmp_path / "a.db")
    first = ls.measure("builtin:gpt2-nano", windows=1, **few)
    more = ls.measure("builtin:gpt2-nano", windows=2, **few)
    assert len(first) == 1 and len(more) == 2 and more.rows[0] == first.rows[0]
    again = ls.Result(tmp_path / "a.db")
    assert again.rows == more.rows
    with pytest.raises(ls.Unusable, match="read from a file"):
        again.worst().tokens()
    with pytest.raises(ls.LipscopeError, match="block"):
        ls.measure("builtin:gpt2-nano", windows=1, map="block", **few)
    with pytest.raises(ls.LipscopeError):
        ls.Result(tmp_path / "nothing.db")


@pytest.fixture()
def listening():
    """Whoever starts the tests in the background may have told them to ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_interrupt(tmp_path, listening):
    """Ctrl-C stops a sweep and keeps the run, which goes on later."""
    path = tmp_path / "a.db"
    options = dict(text="builtin:lighthouse", lengths=[16, 64, 256], windows=100, run=path, dtype="float64")

    def kept_some():
        try:
            return len(ls.Result(path)) > 0
        except ls.LipscopeError:
            return False

    def stop():
        while not kept_some():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=stop).start()
    with pytest.raises(KeyboardInterrupt) as caught:
        ls.measure("builtin:gpt2-nano", **options)
    kept = ls.Result(path)
    assert caught.value.result.rows == kept.rows
    assert 0 < len(kept) < 1800
    few = ls.measure("builtin:gpt2-nano", **dict(options, lengths=[16, 256], windows=1))
    assert {tuple(sorted(r.items())) for r in map(dict, kept)} <= {tuple(sorted(r.items())) for r in map(dict, few)}


def test_progress(capsys):
    pytest.importorskip("tqdm")
    ls.measure("builtin:gpt2-nano", text="builtin:lighthouse", lengths=[8], windows=2, layers=[0], progress=True)
    assert "2/2" in capsys.readouterr().err


@pytest.mark.parametrize("model,options,want", [
    ("builtin:gpt2-nano", dict(text=""), "the text is empty"),
    ("builtin:gpt2-nano", {}, "one of text, ids and pixels is needed"),
    ("builtin:gpt2-nano", dict(text="a", ids=[1]), "text and ids"),
    ("builtin:gpt2-nano", dict(text=3), "text is a int"),
    ("builtin:gpt2-nano", dict(text="builtin:nothing"), "builtin:nothing"),
    ("builtin:gpt2-nano", dict(text="a", lengths=[64]), ""),
    ("builtin:gpt2-nano", dict(ids=[10 ** 6] * 9, lengths=[8]), ""),
    ("builtin:gpt2-nano", dict(text="builtin:lighthouse", lengths=[]), "lengths is an empty list"),
    ("builtin:gpt2-nano", dict(text="builtin:lighthouse", lengths=[0]), ""),
    ("builtin:gpt2-nano", dict(text="builtin:lighthouse", lengths=[-4]), "lengths = -4"),
    ("builtin:gpt2-nano", dict(text="builtin:lighthouse", lengths=[10 ** 6]), ""),
    ("builtin:gpt2-nano", dict(text="builtin:lighthouse", layers=[99]), "99"),
    ("builtin:gpt2-nano", dict(text="builtin:lighthouse", map="mlp"), "there are heads"),
    ("builtin:gpt2-nano", dict(text="builtin:lighthouse", map="block", upper=True), "upper"),
    ("builtin:gpt2-nano", dict(text="builtin:lighthouse", tokenizer=3), "no tokenizer"),
    ("builtin:gpt2-nano", dict(text="builtin:lighthouse", tol=float("nan")), ""),
    ("builtin:gpt2-nano", dict(pixels=np.ones((3, 8, 8))), ""),
    ("builtin:gpt2-nano", dict(text="builtin:lighthouse", run="/nowhere/a.db"), "/nowhere"),
    ("/nowhere", dict(text="a"), "nowhere"), (3, dict(text="a"), "is no model")])
def test_bad(model, options, want):
    with pytest.raises(ls.LipscopeError) as caught:
        ls.measure(model, **options)
    assert want in str(caught.value) and "\n" not in str(caught.value)


def test_assert_sigma():
    small = dict(text="builtin:lighthouse", lengths=[16], windows=1, layers=[3])
    assert ls.assert_sigma("builtin:gpt2-nano", below=20, **small).rows[0]["sigma"] < 20
    assert ls.assert_sigma("builtin:gpt2-nano", below=20, certify=1e-2, **dict(small, lengths=[4])).rows[0]["upper"] < 20
    with pytest.raises(AssertionError, match="layer 3 at window 0 of 16 tokens"):
        ls.assert_sigma("builtin:gpt2-nano", below=0.1, **small)


def test_random_model():
    r = ls.measure("random:gpt2", text="some words that are read by a model that was never trained, again and again and again",
                   lengths=[4], windows=1, layers=[0])
    assert r.rows[0]["architecture"] == "gpt2" and r.rows[0]["sigma"] > 0


def test_attack(rng):
    X, W = rng.normal(size=(5, 4)), rng.normal(size=(3, 4, 4))
    layer = ls.Layer(*W)
    start = ls.attention(X, *W).sigma()
    found = ls.attack(layer, around=X, radius=0.1)
    assert np.linalg.norm(found.X - X, axis=1).max() <= 0.1 * (1 + 1e-12) and found.sigma > start
    assert found.sigma == pytest.approx(float(ls.attention(found.X, *W).sigma()), rel=1e-8)
    assert found.upper is None or found.upper >= found.sigma
    assert ls.attention(X, *W).around(0.1).value >= found.sigma
    ball = ls.attack(layer, length=4, radius=2.0, iterations=20)
    assert np.linalg.norm(ball.X, axis=1).max() <= 2 * (1 + 1e-12)
    nano = ls.attack("builtin:gpt2-nano", layer=3, length=4, radius=10.0, seconds=1.0)
    assert nano.X.shape == (4, 192) and "Attack(sigma" in repr(nano)


@pytest.mark.parametrize("options,want", [
    (dict(radius=-1.0), "radius = -1.0"), (dict(radius=float("nan")), "radius = nan"), (dict(), "radius = None"),
    (dict(radius=1.0, around=np.ones((3, 9))), "around has 9 columns"), (dict(radius=1.0, relative=True), "relative=True"),
    (dict(radius=1.0, domain="cube"), "there are ball"), (dict(radius=1.0, domain="around"), "needs around=X"),
    (dict(radius=1.0, length=0), "length = 0"), (dict(radius=1e300), "")])
def test_bad_attacks(options, want):
    with pytest.raises(ls.LipscopeError) as caught:
        ls.attack(ls.Layer(np.eye(4), np.eye(4), np.eye(4)), **options)
    assert want in str(caught.value) and "\n" not in str(caught.value)


def test_bounds(rng):
    """The same as `lipscope bounds`, and above the dense SVD's value where they say so."""
    b = ls.bounds("builtin:gpt2-nano", layer=3, text="builtin:lighthouse", length=8)
    said = program("bounds", "builtin:gpt2-nano", "--text", "builtin:lighthouse", "--layers", "3", "--length", "8")["rows"]
    assert [row["name"] for row in said] == [row["name"] for row in b.rows]
    for row in said:
        assert b[row["name"]]["value"] == (None if row["value"] is None else pytest.approx(row["value"], rel=1e-9))
    J = ls.attention(rng.normal(size=(5, 4)), *rng.normal(size=(3, 4, 4)))
    exact = np.linalg.norm(J.dense(), 2)
    found = ls.bounds(J, around=0.1, relative=True)
    assert found.sigma == pytest.approx(exact, rel=1e-10) and found.around["value"] >= exact
    proved = [row["value"] for row in found.rows if row["kind"] == "upper" and row["norm"] == "frobenius" and row["value"] is not None]
    assert proved and min(proved) >= exact * (1 - 1e-12)
    assert repr(found).startswith("sigma ") and "data-joint" in repr(found) and "<table>" in found._repr_html_()
    with pytest.raises(ls.ArgumentError, match="radius = -1"):
        ls.bounds(J, radius=-1)
    with pytest.raises(ls.ArgumentError, match="layer= is needed"):
        ls.bounds("builtin:gpt2-nano", text="builtin:lighthouse")
    with pytest.raises(ls.ArgumentError, match="no bound 'x'"):
        found["x"]
