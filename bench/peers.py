#!/usr/bin/env python3
"""Prints lipscope's time per pair of products (J, J^T) beside PyTorch's and JAX's, as a table of Markdown.

    bench/peers.py LIPSCOPE [n ...]           default n: 16 32 ... 4096
    bench/peers.py LIPSCOPE --batch [n ...]   16 short windows at once beside vmap; default n: 8 16 32 64

The peers are the newest that PyPI has, in an environment of their own, build-peers, made on first use (PyPI's torch for
Linux brings CUDA along: some gigabytes; PIP_INDEX_URL may name an index with a smaller one).  All sides use the same number
of threads and run one after the other; leave the machine alone meanwhile.  Each length is done ROUNDS times (3), from 1024
tokens on once, and the best time of each counts; its lines are printed when it is done.  This is a comparison, not a test: a
peer that cannot be installed is named and left out."""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / "build-peers"
ROUNDS = int(os.environ.get("ROUNDS", "3"))
LENGTHS = [16 << i for i in range(9)]
LONG = 1024
BATCH, BATCH_LENGTHS = 16, [8, 16, 32, 64]
NAMES = {"jax": ["jax linearize"], "torch": ["torch autodiff", "torch by hand", "torch linearize"]}


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


def version_of(python, module):
    out = subprocess.run([python, "-c", f"import {module}; print({module}.__version__)"], check=True, stdout=subprocess.PIPE, text=True)
    return out.stdout.strip()


def peer_times(python, peer, threads, windows, n):
    command = [python, "-W", "ignore", str(ROOT / "bench" / "peers_timing.py"), peer, str(threads), str(windows), str(n)]
    out = subprocess.run(command, env=environment(threads), check=True, stdout=subprocess.PIPE, text=True).stdout
    return {(r["peer"], r["causal"]): r["ms"] for r in json.loads(out)["rows"]}


def own_times(program, threads, windows, n):
    command = [program, "bench", "-q", "--format", "json", "--threads", str(threads), "--mask", "both",
               "--batch", str(windows), "--lengths", str(n)]
    out = subprocess.run(command, env=environment(threads), check=True, stdout=subprocess.PIPE, text=True).stdout
    return {("lipscope", r["mask"] == "causal"): r["ms_per_pair"]
            for r in json.loads(out)["rows"] if r["dtype"] == "f32" and r["block"] == 1}


def best_times(program, python, peers, threads, windows, n):
    best = {}
    for _ in range(1 if n >= LONG else ROUNDS):
        found = own_times(program, threads, windows, n)
        for peer in peers:
            found.update(peer_times(python, peer, threads, windows, n))
        for key, ms in found.items():
            best[key] = min(ms, best.get(key, ms))
    return best


def main():
    program = os.path.abspath(sys.argv[1])
    batch = "--batch" in sys.argv
    lengths = [int(n) for n in sys.argv[2:] if n != "--batch"] or (BATCH_LENGTHS if batch else LENGTHS)
    windows, threads = BATCH if batch else 1, len(os.sched_getaffinity(0))
    python = python_of_peers()
    peers = [peer for peer in ("torch", "jax") if has(python, peer)]
    names = sorted(name for peer in peers for name in NAMES[peer])
    versions = ", ".join(f"{peer} {version_of(python, peer)}" for peer in peers) or "no peer"
    print(f"ms per pair (J, J^T), width 768, 12 heads, f32, {threads} threads, {windows} window(s); best of {ROUNDS} rounds, "
          f"of one from n = {LONG} on; {versions}; in brackets: peer / lipscope\n")
    print("| n | mask | lipscope | " + " | ".join(names) + " |")
    print("| --- " * (3 + len(names)) + "|", flush=True)
    for n in lengths:
        times = best_times(program, python, peers, threads, windows, n)
        for causal in (False, True):
            own = times["lipscope", causal]
            cells = [f"{times[name, causal]:.3g} ({times[name, causal] / own:.2f})" for name in names]
            print(f"| {n} | {'causal' if causal else 'none'} | {own:.3g} | " + " | ".join(cells) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
