#!/usr/bin/env python3
"""Measures how sigma grows with the length on every real model at hand, and tells what came out.

    tools/study.py measure LIPSCOPE MODELS RUNS TEXT TEXT [...]    one run file per model and text; goes on where it was
    tools/study.py tell LIPSCOPE RUNS OUT                          OUT/growth.json, OUT/growth.png and a table on stdout

MODELS is a folder as tools/real_models.py makes it.  A model that reads no English is measured at tokens of its alphabet
drawn at random (the name of its run ends in -random).  All layers, lengths 8 to 512 or the model's limit, six windows that
start alike, map `attention`, as defined and as released, with the sink.  Exponents and intervals are lipscope's own (the
joint fit over the texts of `lipscope report`); only the slopes of what is left without the sink are computed here."""
import glob
import json
import math
import os
import random
import re
import sqlite3
import subprocess
import sys
import tempfile

from real_models import MODELS

WINDOWS = 6
ALPHABETS = {model["name"]: model["ids"] for model in MODELS if "ids" in model}


def fail(text):
    raise SystemExit("study: " + text)


def models_in(folder):
    """name -> what `lipscope measure` takes."""
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, "*"))):
        gguf = os.path.join(path, "model.gguf")
        if os.path.isfile(gguf):
            found[os.path.basename(path)] = gguf
        elif os.path.isfile(os.path.join(path, "config.json")):
            found[os.path.basename(path)] = path
    return found


def random_ids(path, alphabet, count):
    """A file of ids drawn uniformly from the model's own alphabet: what can be said of a model that reads no English."""
    draw = random.Random(0)
    with open(path, "w", encoding="ascii") as file:
        file.write(" ".join(str(draw.randint(*alphabet)) for _ in range(count)) + "\n")
    return path


def inputs(name, runs, texts, longest):
    """(name of the run, the options that say what is read)"""
    if name in ALPHABETS:
        ids = random_ids(os.path.join(runs, f"{name}.ids"), ALPHABETS[name], WINDOWS * longest)
        return [(f"{name}-random", ["--ids", ids])]
    return [(f"{name}-{os.path.splitext(os.path.basename(text))[0]}", ["--text", text]) for text in texts]


def measure(lipscope, folder, runs, texts):
    os.makedirs(runs, exist_ok=True)
    for name, path in models_in(folder).items():
        info = json.loads(subprocess.run([lipscope, "info", path, "--format", "json"], capture_output=True, text=True,
                                         check=True).stdout)["rows"][0]
        longest = min(512, info["positions"] or 512)
        for run, reads in inputs(name, runs, texts, longest):
            words = [lipscope, "measure", path, *reads, "--lengths", f"8:{longest}:x2", "--windows", str(WINDOWS),
                     "--sink", "--as-released", "--run", os.path.join(runs, run + ".db"), "--format", "json", "--quiet"]
            done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            said = done.stderr.strip().splitlines()
            print(f"{run}: " + ("done" if done.returncode in (0, 3) else said[-1] if said else "?"), flush=True)


def page(lipscope, runs):
    """What `lipscope report` knows of these runs: their rows' columns and all fits."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.html")
        subprocess.run([lipscope, "report", *runs, "-o", path], check=True, stderr=subprocess.DEVNULL)
        text = open(path, encoding="utf-8").read()
    return json.loads(re.search(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.S).group(1))


def median(values):
    values = sorted(v for v in values if v is not None and math.isfinite(v))
    if not values:
        return math.nan
    return 0.5 * (values[(len(values) - 1) // 2] + values[len(values) // 2])


def slope(points):
    """Least squares of ln y on ln x."""
    points = [(math.log(x), math.log(y)) for x, y in points if y and y > 0]
    if len(points) < 3:
        return math.nan
    mx, my = (sum(p[i] for p in points) / len(points) for i in (0, 1))
    return sum((x - mx) * (y - my) for x, y in points) / sum((x - mx) ** 2 for x, _ in points)


def read_rows(runs):
    names = ["layer", "n", "window", "sigma", "released", "entropy", "sink", "sink_token", "sink_norm", "rest_norm",
             "radius_rms", "text_hash", "mask"]
    rows = []
    for run in runs:
        with sqlite3.connect(f"file:{run}?mode=ro", uri=True) as db:
            rows += [dict(zip(names, r)) for r in db.execute(f"select {', '.join(names)} from results")]
    return rows


def by_length(rows, layer, value):
    lengths = sorted({r["n"] for r in rows})
    return [(n, median([value(r) for r in rows if r["layer"] == layer and r["n"] == n])) for n in lengths]


def describe(lipscope, name, runs):
    rows, told = read_rows(runs), page(lipscope, runs)
    fits = told["texts"] if len(runs) > 1 else told["runs"][0]["fits"]
    own = [f for run in told["runs"] for f in run["fits"]]
    longest = max(r["n"] for r in rows)
    layers = []
    for layer in sorted({r["layer"] for r in rows}):
        joint = next((f for f in fits if f["layer"] == layer and f["against"] == "n" and f.get("text") is None), None)
        if joint is None:
            continue
        last = [r for r in rows if r["layer"] == layer and r["n"] == longest]
        layers.append({
            "layer": layer, "exponent": joint["exponent"], "low": joint["exponent_low"], "high": joint["exponent_high"],
            "law": joint["law"], "slopes": joint["slopes"], "starts": joint["starts"],
            "each": [f["exponent"] for f in own if f["layer"] == layer and f["against"] == "n"],
            "released": slope(by_length(rows, layer, lambda r: r["released"])),
            "rest": slope(by_length(rows, layer, lambda r: r["rest_norm"])),
            "sink_growth": slope(by_length(rows, layer, lambda r: r["sink"])),
            "sigma": median([r["sigma"] for r in last]),
            "sink": median([r["sink"] / r["n"] for r in last if r["sink"]]),
            "sink_part": median([r["sink_norm"] / r["sigma"] for r in last if r["sink_norm"]]),
            "first": median([float(r["sink_token"] == 0) for r in last if r["sink_token"] is not None]),
            "entropy": median([r["entropy"] / math.log(r["n"]) for r in last if r["entropy"] is not None]),
            "radius": slope(by_length(rows, layer, lambda r: r["radius_rms"])),
        })
    return {"name": name, "mask": rows[0]["mask"], "longest": longest, "texts": len(runs), "layers": layers,
            "cells": len(rows)}


def spearman(a, b):
    pairs = [(x, y) for x, y in zip(a, b) if math.isfinite(x) and math.isfinite(y)]
    if len(pairs) < 4:
        return math.nan

    def ranks(values):
        order = sorted(range(len(values)), key=lambda i: values[i])
        rank = [0.0] * len(values)
        for place, i in enumerate(order):
            rank[i] = place
        return rank
    x, y = (ranks([p[i] for p in pairs]) for i in (0, 1))
    mean = (len(pairs) - 1) / 2
    return sum((p - mean) * (q - mean) for p, q in zip(x, y)) / sum((p - mean) ** 2 for p in x)


def draw(models, path):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import MaxNLocator
    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "lipscope"})
    columns = min((3, 4, 5), key=lambda c: -len(models) % c)  # the fewest empty places
    lines = -(-len(models) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(2 + 3 * columns, 2.9 * lines), sharey=True, squeeze=False)
    for axis in axes.flat[len(models):]:
        axis.axis("off")
    for axis, model in zip(axes.flat, models):
        x = [l["layer"] for l in model["layers"]]
        axis.axhline(0.5, color="#999", lw=0.8, ls="--")
        axis.axhline(0.25, color="#999", lw=0.8, ls=":")
        axis.axhline(0.0, color="#ccc", lw=0.8)
        rest = [l["rest"] for l in model["layers"]]
        if any(math.isfinite(r) for r in rest):
            axis.plot(x, rest, color="#d58a27", lw=1.2, label="sink token held fixed")
        low = [l["exponent"] - (l["low"] if l["low"] is not None else l["exponent"]) for l in model["layers"]]
        high = [(l["high"] if l["high"] is not None else l["exponent"]) - l["exponent"] for l in model["layers"]]
        axis.errorbar(x, [l["exponent"] for l in model["layers"]], yerr=[low, high], color="#2a6ebb", lw=1.2, ms=3.5,
                      marker="o", elinewidth=1, label="sigma, 95 %")
        axis.plot([l["layer"] for l in model["layers"] if not l["law"]],
                  [l["exponent"] for l in model["layers"] if not l["law"]], ls="", marker="o", ms=3.5, mfc="white",
                  mec="#2a6ebb", zorder=5)
        reads = ", random tokens" if model["name"] in ALPHABETS else ""
        axis.set_title(f"{model['name']} ({'no mask' if model['mask'] == 'none' else 'causal'}{reads})", fontsize=10)
        axis.set_xlabel("layer")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set_ylim(-0.25, 0.75)
    for line in axes:
        line[0].set_ylabel("exponent of n")
    axes[0][0].legend(frameon=False, fontsize=8, loc="lower right")
    figure.text(0.995, 0.005, "dashed: 1/2 of the theorem   dotted: 1/4 of the paper's figures   open circles: no power law",
                ha="right", va="bottom", fontsize=8, color="#555")
    figure.tight_layout(rect=(0, 0.02, 1, 1))
    figure.savefig(path, dpi=110)


def number(x, digits=2):
    return "–" if x is None or not math.isfinite(x) else f"{0.0 if abs(x) < 0.5 * 10 ** -digits else x:.{digits}f}"


def table(model):
    print(f"\n### {model['name']}\n")
    print("| layer | exponent (95 %) | law | released | sink held fixed | sigma | sink share | sink token alone | entropy |")
    print("| ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for l in model["layers"]:
        interval = f" [{number(l['low'])}, {number(l['high'])}]" if l["low"] is not None else ""
        print(f"| {l['layer']} | {number(l['exponent'])}{interval} | {'yes' if l['law'] else 'no'} | {number(l['released'])} "
              f"| {number(l['rest'])} | {l['sigma']:.4g} | {number(l['sink'])} | {number(l['sink_part'])} "
              f"| {number(l['entropy'])} |")


def tell(lipscope, runs, out):
    groups = {}
    for path in sorted(glob.glob(os.path.join(runs, "*.db"))):
        groups.setdefault(os.path.basename(path).rsplit("-", 1)[0], []).append(path)
    if not groups:
        fail(f"{runs}: no run files")
    models = [describe(lipscope, name, paths) for name, paths in groups.items()]
    models.sort(key=lambda m: (m["name"] in ALPHABETS, m["mask"] == "none", m["name"]))
    os.makedirs(out, exist_ok=True)
    json.dump(models, open(os.path.join(out, "growth.json"), "w"), indent=1)
    draw(models, os.path.join(out, "growth.png"))
    for model in models:
        table(model)
    print("\n| model | layers | exponents | rank correlation of the exponent with: sink share | part of the sink token | entropy |")
    print("| --- | ---: | --- | ---: | ---: | ---: |")
    for model in models:
        e = [l["exponent"] for l in model["layers"]]
        print(f"| {model['name']} | {len(e)} | {number(min(e))} to {number(max(e))} "
              + "".join(f"| {number(spearman(e, [l[k] for l in model['layers']]))} " for k in ("sink", "sink_part", "entropy"))
              + "|")


def main(words):
    if len(words) >= 5 and words[0] == "measure":
        measure(words[1], words[2], words[3], words[4:])
    elif len(words) == 4 and words[0] == "tell":
        tell(*words[1:])
    else:
        fail("see the head of this file")


if __name__ == "__main__":
    main(sys.argv[1:])
