#!/usr/bin/env python3
"""Compares lipscope's exact transport with POT's (Python Optimal Transport), in value and in time.

    bench/peers_ot.py LIPSCOPE [--quick | --agree]

1. 100 random pairs of measures: n != m, p in 1, 1.5, 2, 3, d = 1 ... 10, with ties, equal atoms, zero distances and
   weights of very different size. cost (distance^p) must equal POT's to 1e-9 max(1, cost), the duality gap be as small.
2. Time for n = m = 500, 1000, 3000, one thread each, in turn, the shortest of several runs. POT's time is that of its
   solver alone, the matrix of costs being given; lipscope's is that of the whole call, its costs and its proof included.
3. n = m = 10,000 with costs that are never stored: time and peak memory, which must stay below 200 MB.

--quick leaves out the largest sizes, --agree all but the first point: values alone, for a machine whose speed means nothing.

POT comes from PyPI, into the environment build-peers-ot, made on first use; where PyPI cannot be reached, from Debian's
python3-pot. Ends with 1 when a value differs, lipscope is slower or needs more memory.
"""
import json
import os
import pathlib
import resource
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / "build-peers-ot"
ONE_THREAD = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", OMP_WAIT_POLICY="passive")


def has_pot(python):
    return subprocess.run([python, "-c", "import ot"], capture_output=True).returncode == 0


def find_python():
    """A Python that has POT."""
    own, debian = VENV / "bin" / "python", "/usr/bin/python3"
    if own.exists() and has_pot(own):
        return own
    print("installing POT from PyPI into build-peers-ot", file=sys.stderr)
    for command in ([sys.executable, "-m", "venv", str(VENV)], [own, "-m", "pip", "install", "-q", "numpy", "POT"]):
        if subprocess.run(command).returncode != 0:
            break
    else:
        return own
    print("that failed; taking Debian's python3-pot", file=sys.stderr)
    if subprocess.run([ROOT / "tools" / "deps.sh", "pot"]).returncode == 0 and has_pot(debian):
        return debian
    sys.exit("peers_ot.py: POT could be had neither from PyPI nor from Debian")


def enter_environment():
    """Starts again in the Python that has POT."""
    python = str(find_python())
    os.execve(python, [python, __file__, "--inside"] + sys.argv[1:], ONE_THREAD)


if "--inside" not in sys.argv:
    enter_environment()

import numpy as np  # noqa: E402
import ot  # noqa: E402


def write_measure(path, points, weights):
    """safetensors: header length, JSON header, data."""
    header, data = {}, b""
    for name, values in (("points", points), ("weights", weights)):
        raw = np.ascontiguousarray(values, dtype="<f8").tobytes()
        header[name] = {"dtype": "F64", "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class Pair:
    """Two measures on disk for lipscope, in memory for POT."""

    def __init__(self, folder, x, a, y, b):
        self.x, self.a, self.y, self.b = x, a / a.sum(), y, b / b.sum()
        self.left, self.right = folder / "a.safetensors", folder / "b.safetensors"
        write_measure(self.left, x, self.a)
        write_measure(self.right, y, self.b)

    def own(self, program, p):
        command = [program, "distance", self.left, self.right, "--p", str(p), "--normalise", "--format", "json"]
        out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=ONE_THREAD).stdout
        return json.loads(out)["rows"][0]

    def costs(self, p):
        square = np.zeros((len(self.x), len(self.y)))
        for k in range(self.x.shape[1]):
            square += (self.x[:, k, None] - self.y[None, :, k]) ** 2
        return square ** (p / 2)

    def theirs(self, costs):
        start = time.perf_counter()
        value = ot.emd2(self.a, self.b, costs, numItermax=10**9, numThreads=1)
        return float(value), time.perf_counter() - start


def random_points(rng, kind, count, d):
    if kind == "grid":  # many ties, equal atoms and zero distances
        return rng.integers(0, 3, (count, d)).astype(float)
    if kind == "far":  # beside each other, not over each other
        return rng.normal(size=(count, d)) + 20 * rng.integers(0, 2)
    return rng.normal(size=(count, d))


def random_weights(rng, kind, count):
    if kind == "equal":
        return np.ones(count)
    if kind == "tiny":
        return 10.0 ** rng.uniform(-12, 0, count)
    return rng.uniform(0.1, 1, count)


def compare(program, folder):
    worst = worst_gap = 0.0
    rng = np.random.default_rng(1)
    for trial in range(100):
        d, p = 1 + trial % 10, (1, 1.5, 2, 3)[trial % 4]
        n, m = (int(k) for k in rng.integers(1, 250, 2))
        if n == m:
            m += 1
        kind = ("normal", "grid", "far")[trial % 3]
        weights = ("random", "equal", "tiny")[trial // 3 % 3]
        x, y = random_points(rng, kind, n, d), random_points(rng, kind, m, d)
        shared = min(n, m) // 3
        y[:shared] = x[:shared]  # zero distances
        pair = Pair(folder, x, random_weights(rng, weights, n), y, random_weights(rng, weights, m))
        mine, theirs = pair.own(program, p), pair.theirs(pair.costs(p))[0]
        size = max(1.0, theirs)
        worst = max(worst, abs(mine["cost"] - theirs) / size)
        worst_gap = max(worst_gap, abs(mine["gap"]) / size)
        if abs(mine["cost"] - theirs) > 1e-9 * size or abs(mine["gap"]) > 1e-9 * size:
            print(f"differs: n {n}, m {m}, d {d}, p {p}, {kind}, {weights}: "
                  f"lipscope {mine['cost']!r} (gap {mine['gap']!r}), POT {theirs!r}")
    print(f"100 pairs: largest difference {worst:.1e}, largest duality gap {worst_gap:.1e}, both over max(1, cost)")
    return worst <= 1e-9 and worst_gap <= 1e-9


def race(program, folder, quick):
    good = True
    rng = np.random.default_rng(2)
    print(f"{'n = m':>6}  {'d':>2}  {'p':>3}  {'weights':7}  {'POT ms':>8}  {'lipscope ms':>11}  {'ratio':>6}")
    for n in (500, 1000) if quick else (500, 1000, 3000):
        for d, p, weights in ((2, 2, "random"), (2, 2, "equal"), (10, 2, "random"), (10, 1, "equal")):
            pair = Pair(folder, rng.normal(size=(n, d)), random_weights(rng, weights, n),
                        rng.normal(size=(n, d)) + 0.5, random_weights(rng, weights, n))
            costs = pair.costs(p)
            peer, mine = np.inf, np.inf
            for _ in range(3 if n > 1000 else 5):
                value, seconds = pair.theirs(costs)
                peer = min(peer, seconds)
                row = pair.own(program, p)
                mine = min(mine, row["seconds"])
            good &= abs(row["cost"] - value) <= 1e-9 * max(1, value) and mine < peer
            print(f"{n:6d}  {d:2d}  {p:3d}  {weights:7}  {1e3 * peer:8.1f}  {1e3 * mine:11.1f}  {peer / mine:6.2f}")
    return good


def large(program, folder, n=10_000):
    rng = np.random.default_rng(3)
    pair = Pair(folder, rng.normal(size=(n, 2)), np.ones(n), rng.normal(size=(n, 2)) + 0.5, np.ones(n))
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    script = ("import resource,subprocess,sys;r=subprocess.run(sys.argv[1:]).returncode;"
              "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss,file=sys.stderr);sys.exit(r)")
    command = [sys.executable, "-S", "-c", script, program, "distance", pair.left, pair.right, "--format", "json"]
    out = subprocess.run(command, check=True, capture_output=True, text=True, env=ONE_THREAD)
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    peak = int(out.stderr.split()[-1]) / 1024
    row = json.loads(out.stdout)["rows"][0]
    print(f"n = m = {n}, d 2, p 2, equal weights, no matrix: {used:.1f} s of one processor, "
          f"gap {row['gap']:.1e}, peak memory {peak:.0f} MB")
    return peak < 200


def main():
    arguments = [a for a in sys.argv[1:] if a != "--inside"]
    quick, agree = "--quick" in arguments, "--agree" in arguments
    program = os.path.abspath([a for a in arguments if not a.startswith("--")][0])
    print(f"POT {ot.__version__}; load of the machine {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        good = compare(program, folder)
        if not agree:
            good &= race(program, folder, quick)
        if not agree and not quick:
            good &= large(program, folder)
    return 0 if good else 1


sys.exit(main())
