"""Makes the k-th allocation, write, sync, rename or map of whole commands fail, for every k or
for some, and asks each time: one clear sentence and exit 1, or the same result as ever; no
crash, no leak (in a sanitized build), nothing half-written, a run file that is sound and goes
on.
    sweep.py BINARY FOLDER [TRIES]      TRIES of each kind and command, spread over k; 0: all"""
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from place import MEASURE, SANITIZER, Place, Server, rows, state, unsound

KINDS = ("alloc", "write", "sync", "rename", "map")


class Command:
    """args; what it writes; whether that is a run file that a further call completes."""

    def __init__(self, name, args, writes=None, run=False):
        self.name, self.args, self.writes, self.run = name, args, writes, run


def smaller(place):
    """A layer that is bounded and attacked in milliseconds."""
    with open(place.path("tiny/config.json")) as tiny:
        config = dict(json.load(tiny), n_embd=8, n_head=2, n_layer=2)
    os.makedirs(place.path("smaller"))
    with open(place.path("smaller/config.json"), "w") as written, open(place.path("few"), "w") as few:
        json.dump(config, written)
        few.write("1 2 3 4")


def commands(place):
    measure = MEASURE
    place.well([*measure, "--run", "done.db"])
    for part in ("1", "2"):
        place.well([*measure, "--shard", part + "/2", "--run", f"part{part}.db"])
    smaller(place)
    export = ["export", "random:./smaller", "--ids", "few", "--layer", "1", "-q", "-o"]
    place.well([*export, "layer.st"])
    return [
        Command("measure", [*measure, "--run", "new.db"], "new.db", run=True),
        Command("attack", ["attack", "layer.st", "--domain", "around", "--radius", "1", "--restarts", "1",
                           "--iterations", "2", "-o", "found.st", "--format", "tsv", "-q"], "found.st"),
        Command("report", ["report", "done.db", "-o", "page.html", "-q"], "page.html"),
        Command("merge", ["merge", "part1.db", "part2.db", "-o", "whole.db", "-q"], "whole.db", run=True),
        Command("bounds", ["bounds", "layer.st", "--format", "tsv"]),
        Command("compare", ["compare", "done.db", "part1.db", "--format", "tsv"]),
        Command("export", [*export, "again.st"], "again.st"),
    ]


def wrong_sentence(command, code, err):
    """Every failure is told in sentences that begin with the program's name; none is empty."""
    lines = err.strip().splitlines()
    if not lines:
        return "no sentence"
    if not all(line.startswith(f"lipscope {command.name}: ") and len(line) < 400 for line in lines):
        return f"not a sentence: {err.strip()[:300]}"
    return None


def judge(place, command, wanted, contents, code, out, err):
    """What is wrong after a fault, or None."""
    if any(word in err for word in SANITIZER):
        return "sanitizer: " + err[:1500]
    if code == -6 and "load.c" in err and "Assertion" in err:
        return None  # jansson's lexer gives up so; docs/reliability.md
    if code not in (0, 1):
        return f"exit {code}: {err.strip()[:300]}"
    if code == 0 and rows(out) != wanted:
        return f"exit 0 with another result: {out[:300]}"
    if code == 1 and (said := wrong_sentence(command, code, err)):
        return said
    if left := [name for name in os.listdir(place.folder) if name.endswith(".tmp")]:
        return f"left behind: {left}"
    if not command.writes:
        return None
    path = place.path(command.writes)
    if not command.run:
        if os.path.exists(path) and len(open(path, "rb").read()) != len(contents):
            return "half-written"
        return "exit 0 without its file" if code == 0 and not os.path.exists(path) else None
    if bad := unsound(path):
        return f"the run file is not sound: {bad}"
    return goes_on(place, state(path))


def goes_on(place, found):
    """Each state that a fault leaves a run file in is completed once, by a call without a fault."""
    if found in place.completed:
        return None
    code, out, err = place.further.run()
    if code or rows(out) != place.reference:
        return f"the run does not go on: exit {code}: {err.strip()[:300]}"
    place.completed.add(found)
    return None


def sweep(place, command, tries):
    wanted = rows(place.well(command.args))
    contents = open(place.path(command.writes), "rb").read() if command.writes else None
    place.remove(*filter(None, [command.writes]))
    counts, found, ran, aborts = place.count(command.args), [], 0, 0
    sentences = set()
    server = Server(place, command.args, "served")
    place.further, place.completed = Server(place, [*MEASURE, "--run", command.writes or ""], "further"), set()
    for kind in KINDS:
        total = counts[kind]
        step = max(1, total // tries) if tries else 1
        for k in range(1, total + 1, step):
            for end in ("", "+") if kind != "alloc" or k % 16 == 1 or tries else ("",):
                place.remove(*filter(None, [command.writes]))
                code, out, err = server.run(f"{kind}:{k}{end}")
                ran += 1
                aborts += code == -6
                sentences.update(err.strip().splitlines())
                if bad := judge(place, command, wanted, contents, code, out, err):
                    found.append(f"{command.name} {kind}:{k}{end}: {bad}")
    server.close()
    place.further.close()
    return ran, counts, found, sentences, aborts


def main():
    binary, folder = sys.argv[1:3]
    tries = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    start = time.time()

    def one(number):
        place = Place(binary, f"{folder}/{number}")
        command = commands(place)[number]
        place.reference = rows(place.well(MEASURE))
        ran, counts, found, sentences, aborts = sweep(place, command, tries)
        made = ", ".join(f"{counts[kind]} {kind}" for kind in KINDS)
        print(f"{command.name}: {ran} faults ({made}): {len(found)} wrong, {aborts} given up by jansson", flush=True)
        if os.environ.get("SENTENCES"):
            print("\n".join(sorted(sentences)))
        return ran, found

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(one, range(7)))
    bad = [line for _, found in results for line in found]
    print("\n".join(bad[:200]))
    print(f"{sum(ran for ran, _ in results)} faults in {time.time() - start:.0f} s, {len(bad)} findings")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
