#!/usr/bin/env python3
"""Times `bench` of two builds in turn and prints the ratio of their best times, as a table of Markdown.

    bench/before.py OLD NEW [n ...]           default n: 16 32 ... 4096

One thread; each round runs both, the order changes from round to round, and the best time of each counts."""
import json
import os
import subprocess
import sys

ROUNDS = int(os.environ.get("ROUNDS", "3"))


def times(program, n):
    command = [program, "bench", "-q", "--lengths", str(n), "--mask", "both", "--threads", "1", "--repeats", "3", "--format", "json"]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return {row["mask"]: row["ms_per_pair"] for row in json.loads(out)["rows"]}


def main():
    programs = sys.argv[1:3]
    print("| n | mask | ms before | ms now | before / now |\n| --- | --- | --- | --- | --- |")
    for n in map(int, sys.argv[3:] or [16 << i for i in range(9)]):
        best = {}
        for turn in range(ROUNDS):
            for which in (0, 1) if turn % 2 == 0 else (1, 0):
                for mask, ms in times(programs[which], n).items():
                    best[mask, which] = min(ms, best.get((mask, which), ms))
        for mask in ("none", "causal"):
            print(f"| {n} | {mask} | {best[mask, 0]:.3g} | {best[mask, 1]:.3g} | {best[mask, 0] / best[mask, 1]:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
