#!/usr/bin/env python3
"""Prints lipscope's time per pair of products (J, J^T) beside PyTorch's and JAX's.

    bench/peers.py LIPSCOPE [n ...]           default n: 64 256 1024

The peers are timed by ../shared/peers/cpu_peers.py: torch in this Python or the system's, jax there too or in the
environment build-peers. Both sides use the same number of threads and run one after the other, never at once; leave the
machine alone meanwhile. This is a comparison, not a test: where no peer is found it says so and ends with 0.
"""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = ROOT.parent / "shared" / "peers" / "cpu_peers.py"
VENV = ROOT / "build-peers"


def has(python, module):
    return os.path.exists(python) and subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0


def jax_python():
    """An environment of its own, build-peers, made on first use: PyPI's jax brings a numpy that Debian's torch may not bear."""
    python = VENV / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], stdout=subprocess.DEVNULL)
    if python.exists() and not has(python, "jax"):
        print("installing jax from PyPI into build-peers", file=sys.stderr)
        subprocess.run([python, "-m", "pip", "install", "-q", "jax"])
    return str(python) if python.exists() and has(python, "jax") else None


def environment(threads):
    """The same for both sides. A passive wait: thread pools that spin take the cores from each other."""
    return dict(os.environ, OMP_WAIT_POLICY="passive", OMP_NUM_THREADS=str(threads))


def peers(python, lengths, threads):
    command = [python, str(SCRIPT), "--json", "--threads", str(threads)] + [str(n) for n in lengths]
    out = subprocess.run(command, env=environment(threads), check=True, stdout=subprocess.PIPE, text=True).stdout
    return [row for row in json.loads(out) if "n" in row]


def own(program, lengths, threads):
    command = [program, "bench", "--format", "json", "--threads", str(threads),
               "--lengths", ",".join(str(n) for n in lengths)]
    out = subprocess.run(command, env=environment(threads), check=True, stdout=subprocess.PIPE, text=True).stdout
    times = {}
    for row in json.loads(out)["rows"]:
        if row["dtype"] == "f32" and row["block"] == 1:
            times[row["n"], row["mask"] == "causal"] = row["ms_per_pair"]
    return times


def main():
    program = os.path.abspath(sys.argv[1])
    lengths = [int(n) for n in sys.argv[2:]] or [64, 256, 1024]
    threads = len(os.sched_getaffinity(0))
    if not SCRIPT.exists():
        print(f"skipped: {os.path.relpath(SCRIPT, ROOT)} is not here")
        return 0
    # Debian's torch belongs to Debian's Python, which need not be the one on the path.
    here = [sys.executable, "/usr/bin/python3"]
    pythons = [python for python in here if has(python, "torch")][:1]
    if not any(has(python, "jax") for python in pythons):
        pythons += filter(None, [jax_python()])
    if not pythons:
        print("skipped: neither torch (Debian: python3-torch) nor jax (PyPI) is installed")
        return 0
    ours = own(program, lengths, threads)
    theirs = [row for python in pythons for row in peers(python, lengths, threads)]

    print(f"ms per pair (J, J^T), d 768, 12 heads, f32, {threads} threads; ratio = peer / lipscope")
    print(f"{'n':>5}  {'mask':6}  {'peer':10}  {'peer ms':>10}  {'lipscope ms':>11}  {'ratio':>6}")
    for row in sorted(theirs, key=lambda r: (r["n"], not r["causal"], r["ms"])):
        mine = ours[row["n"], row["causal"]]
        mask = "causal" if row["causal"] else "none"
        print(f"{row['n']:5d}  {mask:6}  {row['peer']:10}  {row['ms']:10.2f}  {mine:11.2f}  {row['ms'] / mine:6.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
