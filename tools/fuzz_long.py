#!/usr/bin/env python3
"""The long fuzz run, in rounds that add up.

    fuzz_long.py SANITIZED_BUILD BARE_BUILD STATE SECONDS [JOBS]
    fuzz_long.py --table STATE

Each round gives one target ROUND seconds, the one that is furthest behind what is wanted of
it, under the sanitizers or without them (three times as fast; what it keeps is read again by
the next round under the sanitizers).  STATE/rounds.tsv has a line for every round, ever:
another run adds to it, one at a time (STATE/lock).  Its seconds are the processor's.  It ends
after SECONDS, or when every target has its executions and its coverage has stopped growing; a
finding leaves its input in the build folder and ends with 1.  FUZZ_TARGETS: only these of
the targets, names with spaces between.
"""
import collections
import fcntl
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

ROUND = int(os.environ.get("FUZZ_ROUND", 60))
SANITIZED_SHARE = 0.25  # of the seconds of each target
SETTLED = 0.1  # no new edge in this share of a target's executions: it has stopped growing
# Executions wanted, in millions: 500 in all. Where an execution is cheap there are more.
WANTED = {
    "ids": 176, "safetensors": 86, "gguf": 75, "gauss_file": 62, "measure_file": 36, "layer_file": 25,
    "args": 13, "tokenizer": 10, "index": 7, "config": 6, "vocab": 3, "run_file": 1,
}  # fmt: skip
ONLY = os.environ.get("FUZZ_TARGETS", " ".join(WANTED)).split()
COLUMNS = ["target", "build", "executions", "seconds", "edges", "features", "finding", "program"]
Round = collections.namedtuple("Round", COLUMNS)


def read(state):
    rounds = []
    path = state / "rounds.tsv"
    for line in path.read_text().splitlines()[1:] if path.exists() else []:
        r = Round(*line.split("\t"))
        rounds.append(Round(r.target, r.build, int(r.executions), float(r.seconds), int(r.edges), int(r.features), r.finding, r.program))
    return rounds


class Target:
    """What all rounds of a target add up to.  current: its programs, by build; {} where none
    is at hand."""

    def __init__(self, name, rounds, current):
        own = [r for r in rounds if r.target == name]
        self.name, self.rounds = name, len(own)
        self.executions = sum(r.executions for r in own)
        self.seconds = {b: sum(r.seconds for r in own if r.build == b) for b in ("sanitized", "bare")}
        self.sanitized = sum(r.executions for r in own if r.build == "sanitized")
        self.findings = sum(r.finding != "" for r in own)
        # coverage of each build, and the executions since it grew last; edges of two programs
        # cannot be compared: one that was compiled anew begins anew
        self.edges, self.since, programs = {}, 0, {}
        self.unseen = [b for b in self.seconds if not any(r.build == b and r.program == current.get(b, r.program) for r in own)]
        for r in own:
            self.since += r.executions
            anew = r.program != programs.setdefault(r.build, r.program)
            if anew or r.edges > self.edges.get(r.build, 0):
                if r.build in self.edges:
                    self.since = 0
                self.edges[r.build], programs[r.build] = r.edges, r.program

    def done(self):
        return self.executions / (1e6 * WANTED[self.name])

    def settled(self):
        return not self.unseen and self.since >= SETTLED * self.executions

    def build(self):
        if self.unseen:
            return self.unseen[0]
        both = sum(self.seconds.values())
        return "sanitized" if self.seconds["sanitized"] <= SANITIZED_SHARE * both else "bare"


def targets(rounds, current):
    return [Target(name, rounds, current.get(name, {})) for name in WANTED]


def next_target(rounds, busy, current):
    """Coverage that still grows counts as a target that is not done."""
    open_ones = [t for t in targets(rounds, current) if t.name in ONLY and t.name not in busy and (t.done() < 1 or not t.settled())]
    return min(open_ones, key=Target.done) if open_ones else None


def last(pattern, text, otherwise=0):
    found = re.findall(pattern, text)
    return int(found[-1]) if found else otherwise


def program_of(folder, target):
    return hashlib.sha256((folder / "tests/fuzz" / f"fuzz_{target}").read_bytes()).hexdigest()[:12]


def fuzz(root, folder, state, target, build, seconds):
    program = program_of(folder, target)
    log = state / f"{target}-{os.getpid()}.log"  # of this round alone
    # by the clock, which goes on where the machine stands still for a while
    env = {"FUZZ_TIMEOUT": "60", **os.environ, "FUZZ_CORPUS": str(state / "corpus" / target), "FUZZ_LOG": str(log)}
    process = subprocess.Popen([root / "tools/fuzz.sh", folder, str(seconds), "fuzz_" + target], env=env,
                               stdout=subprocess.DEVNULL)  # fmt: skip
    _, status, used = os.wait4(process.pid, 0)
    code = process.returncode = os.waitstatus_to_exitcode(status)
    text = log.read_text(errors="replace")
    runs = last(r"number_of_executed_units: *(\d+)", text, last(r"#(\d+)\t", text))
    finding = ""
    if code and "run interrupted" not in text:
        saved = re.findall(r"Test unit written to (\S+)", text)
        finding = saved[-1] if saved else f"ended with {code}: {log}"
    else:
        log.unlink()
    cpu = round(used.ru_utime + used.ru_stime, 1)
    return Round(target, build, runs, cpu, last(r"cov: (\d+)", text), last(r"ft: (\d+)", text), finding, program)


def claim(state):
    """Two runs on one state would count one round twice."""
    lock = (state / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"fuzz_long.py: another run adds to {state}; wait until it ends, or name another folder")
    return lock


def run(root, folders, state, seconds, jobs):
    state.mkdir(parents=True, exist_ok=True)
    claimed = claim(state)
    path, lock, busy = state / "rounds.tsv", threading.Lock(), set()
    if not path.exists():
        path.write_text("\t".join(COLUMNS) + "\n")
    end, bad = time.time() + seconds, []
    current = {name: {build: program_of(folder, name) for build, folder in folders.items()} for name in WANTED}

    def work():
        while True:
            with lock:
                target = next_target(read(state), busy, current)
                left = int(end - time.time())
                if not target or left < 5:
                    return
                busy.add(target.name)
            build = target.build()
            r = fuzz(root, folders[build], state, target.name, build, min(ROUND, left))
            with lock:
                with path.open("a") as f:
                    f.write("\t".join(str(x) for x in r) + "\n")
                if r.finding:  # it would be found again: that target has no more rounds
                    bad.append(r)
                    print(f"{target.name}: {r.finding}", flush=True)
                else:
                    busy.remove(target.name)

    workers = [threading.Thread(target=work) for _ in range(jobs)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    claimed.close()
    return 1 if bad else 0


def table(state):
    rounds = read(state)
    print("| target | executions | under the sanitizers | seconds | edges (sanitized, bare) | executions since the last new edge | rounds that a finding ended |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for t in targets(rounds, {}):
        edges = ", ".join(str(t.edges.get(b, "-")) for b in ("sanitized", "bare"))
        print(f"| `fuzz_{t.name}` | {t.executions:,} | {t.sanitized:,} | {sum(t.seconds.values()):,.0f} | {edges} "
              f"| {t.since:,}{'' if t.settled() else ' (still growing)'} | {t.findings} |")  # fmt: skip
    print(f"| all | {sum(r.executions for r in rounds):,} | {sum(r.executions for r in rounds if r.build == 'sanitized'):,} "
          f"| {sum(r.seconds for r in rounds):,.0f} | | | {sum(r.finding != '' for r in rounds)} |")  # fmt: skip


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--table":
        return table(pathlib.Path(sys.argv[2]))
    if len(sys.argv) not in (5, 6):
        sys.exit(__doc__.strip())
    for name in ONLY:
        if name not in WANTED:
            sys.exit(f"fuzz_long.py: FUZZ_TARGETS names '{name}'; the targets are {' '.join(WANTED)}")
    root = pathlib.Path(__file__).resolve().parent.parent
    sanitized, bare, state = (pathlib.Path(p).resolve() for p in sys.argv[1:4])
    jobs = int(sys.argv[5]) if len(sys.argv) == 6 else os.cpu_count()
    code = run(root, {"sanitized": sanitized, "bare": bare}, state, float(sys.argv[4]), jobs)
    table(state)
    sys.exit(code)


main()
