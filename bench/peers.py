#!/usr/bin/env python3
"""Prints lipscope's time per pair of products (J, J^T) beside PyTorch's and JAX's, as a table of Markdown.

    bench/peers.py LIPSCOPE [n ...]           default n: 16 32 ... 4096
    bench/peers.py LIPSCOPE --batch           16 short windows at once beside vmap

The peers are the newest that PyPI has, in an environment of their own, build-peers, made on first use (PyPI's torch for
Linux brings CUDA along: some gigabytes; PIP_INDEX_URL may name an index with a smaller one).  All sides use the same number
of threads and run one after the other; leave the machine alone meanwhile.  The whole is done ROUNDS times and the best
time of each counts.  This is a comparison, not a test: a peer that cannot be installed is named and left out."""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / "build-peers"
ROUNDS = int(os.environ.get("ROUNDS", "3"))
LENGTHS = [16 << i for i in range(9)]
BATCH, BATCH_LENGTHS = 16, [8, 16, 32, 64]


def environment(threads):
    """The same for all.  A passive wait: thread pools that spin take the cores from each other."""
    flags = f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'} intra_op_parallelism_threads={threads}"
    return dict(os.environ, OMP_WAIT_POLICY="passive", OMP_NUM_THREADS=str(threads), XLA_FLAGS=flags,
                JAX_PLATFORMS="cpu")


def python_of_peers():
    python = VENV / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True, stdout=subprocess.DEVNULL)
    return str(python)


def has(python, module):
    if subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0:
        return True
    print(f"installing {module} from PyPI into build-peers", file=sys.stderr)
    packages = [module, "numpy"]
    return subprocess.run([python, "-m", "pip", "install", "-q", *packages]).returncode == 0


def peer_times(python, peer, threads, windows, lengths):
    command = [python, "-W", "ignore", str(ROOT / "bench" / "peers_timing.py"), peer, str(threads), str(windows), *map(str, lengths)]
    out = subprocess.run(command, env=environment(threads), check=True, stdout=subprocess.PIPE, text=True).stdout
    found = json.loads(out)
    return found["version"], {(r["peer"], r["n"], r["causal"]): r["ms"] for r in found["rows"]}


def own_times(program, threads, windows, lengths):
    command = [program, "bench", "--format", "json", "--threads", str(threads), "--mask", "both",
               "--batch", str(windows), "--lengths", ",".join(map(str, lengths))]
    out = subprocess.run(command, env=environment(threads), check=True, stdout=subprocess.PIPE, text=True).stdout
    return {("lipscope", r["n"], r["mask"] == "causal"): r["ms_per_pair"]
            for r in json.loads(out)["rows"] if r["dtype"] == "f32" and r["block"] == 1}


def keep_best(times, new):
    for key, ms in new.items():
        times[key] = min(ms, times.get(key, ms))


def main():
    program = os.path.abspath(sys.argv[1])
    batch = "--batch" in sys.argv
    lengths = [int(n) for n in sys.argv[2:] if n != "--batch"] or (BATCH_LENGTHS if batch else LENGTHS)
    windows, threads = (BATCH, len(os.sched_getaffinity(0))) if batch else (1, len(os.sched_getaffinity(0)))
    python = python_of_peers()
    peers = [peer for peer in ("torch", "jax") if has(python, peer)]
    times, versions = {}, {}
    for _ in range(ROUNDS):
        keep_best(times, own_times(program, threads, windows, lengths))
        for peer in peers:
            versions[peer], found = peer_times(python, peer, threads, windows, lengths)
            keep_best(times, found)
    names = sorted({name for name, _, _ in times if name != "lipscope"})
    print(f"ms per pair (J, J^T), width 768, 12 heads, f32, {threads} threads, {windows} window(s); best of {ROUNDS} rounds; "
          f"{', '.join(f'{p} {v}' for p, v in versions.items()) or 'no peer'}; in brackets: peer / lipscope\n")
    print("| n | mask | lipscope | " + " | ".join(names) + " |")
    print("| --- " * (3 + len(names)) + "|")
    for n in lengths:
        for causal in (False, True):
            own = times["lipscope", n, causal]
            cells = [f"{times[name, n, causal]:.3g} ({times[name, n, causal] / own:.2f})" for name in names]
            print(f"| {n} | {'causal' if causal else 'none'} | {own:.3g} | " + " | ".join(cells) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
