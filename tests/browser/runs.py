"""runs.py - run files with known rows, written with Python's own sqlite3 as src/run/run.h
describes them: the page is judged by numbers that lipscope has not computed."""
import json
import math
import os
import random
import sqlite3

APPLICATION_ID, SCHEMA = 0x4C697053, 1


def write(path, rows, command="measure", line="lipscope measure", settings=None, windows=()):
    if os.path.exists(path):
        os.remove(path)
    db = sqlite3.connect(path)
    db.executescript(f"""
        CREATE TABLE run (id INTEGER PRIMARY KEY CHECK (id = 1), schema INTEGER NOT NULL,
            version TEXT NOT NULL, created TEXT NOT NULL, command TEXT NOT NULL,
            command_line TEXT, settings TEXT NOT NULL);
        CREATE TABLE cells (key TEXT PRIMARY KEY, created TEXT NOT NULL,
            version TEXT NOT NULL, row TEXT NOT NULL) WITHOUT ROWID;
        PRAGMA application_id = {APPLICATION_ID};
        PRAGMA user_version = {SCHEMA};""")
    now = "2026-01-02T03:04:05Z"
    db.execute("INSERT INTO run VALUES (1, ?, '0.1.0', ?, ?, ?, ?)",
               (SCHEMA, now, command, line, json.dumps(settings or {"seed": 1})))
    db.executemany("INSERT INTO cells VALUES (?, ?, '0.1.0', ?)",
                   ((f"cell {i:06}", now, json.dumps(row)) for i, row in enumerate(rows)))
    if windows:  # (text_hash, start, after, tokens) of the model of measure()
        db.execute("""CREATE TABLE windows (model_hash TEXT, text_hash TEXT, special INTEGER, start INTEGER,
            n INTEGER, after INTEGER, tokens TEXT, PRIMARY KEY (model_hash, text_hash, special, start)) WITHOUT ROWID""")
        db.executemany("INSERT INTO windows VALUES (?, ?, 0, ?, ?, ?, ?)",
                       (("ab" * 32, text, start, len(tokens), after, json.dumps(tokens))
                        for text, start, after, tokens in windows))
    db.commit()
    db.close()
    return path


def measure(layers, lengths, windows, heads=(None,), model="some/folder/tiny", seed=1,
            growth=lambda layer, n: n ** (0.1 + 0.1 * layer), text="cd" * 32):
    """sigma = (1 + layer) growth(layer, n) with noise."""
    draw = random.Random(seed)
    rows = []
    for layer in range(layers):
        for head in heads:
            for n in lengths:
                for window in range(windows):
                    sigma = (1 + layer) * growth(layer, n) * math.exp(draw.gauss(0, 0.1))
                    rows.append({
                        "model": model, "architecture": "gpt2", "layer": layer, "head": head,
                        "map": "attention", "mask": "causal", "n": n, "window": window,
                        "sigma": sigma, "lower": sigma, "upper": 3 * sigma, "upper_prob": 1.2 * sigma,
                        "probability": 0.999, "residual": 10 ** draw.uniform(-6, -3),
                        "products": draw.randint(8, 20), "converged": True, "dtype": "f32",
                        "radius_rms": 10 + layer + draw.random(), "radius_max": 20.0,
                        "seconds": 0.1, "released": 0.7 * sigma, "model_hash": "ab" * 32,
                        "text_hash": text, "seed": 1, "tol": 0.01,
                        "start": window * max(lengths)})
    return rows


def details(rows, strongest=3):
    """What --details adds: the token, the pair, the sink, what each token does alone."""
    return [dict(row, entropy=1.5, sink=0.25 * row["n"], sink_token=0, token=strongest, token_norm=0.9 * row["sigma"],
                 pair_from=1, pair_to=2, pair_norm=0.5 * row["sigma"],
                 influence=[4.0 if i == strongest else 1.0 + i / row["n"] for i in range(row["n"])]) for row in rows]


def bounds():
    rows = [{"name": f"bound-{i}", "source": "3.3", "kind": kind, "norm": "frobenius",
             "domain": "ball", "value": value, "log_value": math.log(value), "sigma": 2.0,
             "ratio": value / 2.0, "refused": None}
            for i, (kind, value) in enumerate([("upper", 2.5), ("upper", 40.0), ("lower", 3.0),
                                               ("limit", 7.0)])]
    huge = dict(rows[0], name="huge", value=None, log_value=5000.0, ratio=None)
    refused = dict(rows[0], name="refused", value=None, log_value=None, ratio=None,
                   refused="the layer has <b>biases</b>")
    return rows + [huge, refused]


def attack():
    return [{"n": n, "radius": 15.5, "domain": "ball", "start": "outlier", "sigma": 40 * n ** 0.5,
             "lower": 40 * n ** 0.5, "residual": 1e-9, "best_construction": 38 * n ** 0.5,
             "upper": None if n == 2 else 300 * n ** 0.5, "evaluations": 200,
             "input": "attack.safetensors"} for n in (2, 4, 8, 16, 32)]


def claims():
    return [{"source": "theorem proved here", "claim": "sigma is below every bound", "origin": "3.3",
             "measured": "always", "holds": True},
            {"source": "figure of the paper", "claim": "growth", "origin": "n^0.5", "measured": "n^0.4",
             "holds": False},
            {"claim": "a second text", "paper": "the same", "measured": None, "holds": None}]
