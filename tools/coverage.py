#!/usr/bin/env python3
"""What the runs of a build with counters reached of src/, by gcov: lines, and branches taken.

    coverage.py BUILD

Prints each file, then the sums, and ends with 1 below the bars.  A file that is compiled several
times (once per instruction set and precision) counts once: a line or branch counts as reached
where one of the compilations reached it.  A file that was compiled and never ran counts as 0 %;
what this build does not compile (CUDA's .cu files) does not count.  BUILD/unreached.txt lists every
line that was not reached, BUILD/unreached-errors.txt those of them that leave on an error.  Each of
these has to stand in tools/unreached.txt, under the reason why nothing reaches it, and that list
names no line that the sources do not have.
"""
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

LINES, BRANCHES = 92.0, 80.0
ERROR = re.compile(r"\bgoto\b|\blipsc_fail|\bfail\(|\bno_memory\b|\blipsc_short_of_\w+|_E_[A-Z]+|\babort\(")


def gcov(path):
    """What one object file counted: (source, lines) for each source file."""
    text = subprocess.run(["gcov", "-b", "-t", "-j", path], capture_output=True, cwd=path.parent).stdout
    for part in text.splitlines():
        for file in json.loads(part)["files"]:
            yield os.path.normpath(path.parent / file["file"]), file["lines"]


def add(lines, found):
    """found: of one compilation.  lines: number -> [reached, taken of each branch]"""
    for line in found:
        taken = [branch["count"] > 0 for branch in line["branches"]]
        have = lines.setdefault(line["line_number"], [False, taken])
        have[0] = have[0] or line["count"] > 0
        if len(have[1]) == len(taken):
            have[1] = [a or b for a, b in zip(have[1], taken)]
        elif sum(taken) * len(have[1]) > sum(have[1]) * len(taken):
            have[1] = taken


def share(part, whole):
    return 100.0 * part / whole if whole else 100.0


def unreached(src, files):
    """(file, number, text) of every line that was not reached."""
    for name in sorted(files):
        text = (src / name).read_text(errors="replace").splitlines()
        for number in sorted(n for n, (reached, _) in files[name].items() if not reached):
            yield name, number, text[number - 1].strip()


def write_unreached(build, lines):
    """Returns "file: text" of those that leave on an error."""
    with open(build / "unreached.txt", "w") as everything, open(build / "unreached-errors.txt", "w") as errors:
        found = []
        for name, number, text in lines:
            everything.write(f"{name}:{number}: {text}\n")
            if ERROR.search(text):
                errors.write(f"{name}:{number}: {text}\n")
                found.append(f"{name}: {text}")
    return found


def listed():
    known = pathlib.Path(__file__).with_name("unreached.txt").read_text().splitlines()
    return collections.Counter(line for line in known if line and not line.startswith("#"))


def without_reason(found):
    """Those that tools/unreached.txt does not list, as often as they occur."""
    return sorted((collections.Counter(found) - listed()).elements())


def without_line(src):
    """What tools/unreached.txt lists and the sources do not have, as often."""
    there = collections.Counter()
    for name in {line.split(": ", 1)[0] for line in listed()}:
        path = src / name
        text = path.read_text(errors="replace").splitlines() if path.exists() else []
        there.update(f"{name}: {line.strip()}" for line in text)
    return sorted((listed() - there).elements())


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    build = pathlib.Path(sys.argv[1]).resolve()
    src = pathlib.Path(__file__).resolve().parent.parent / "src"
    files = collections.defaultdict(dict)
    notes = sorted(build.rglob("*.gcno"))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for found in pool.map(lambda path: list(gcov(path)), notes):
            for name, lines in found:
                if name.startswith(f"{src}/"):
                    add(files[name[len(str(src)) + 1 :]], lines)
    if not files:
        sys.exit("nothing was compiled with counters")
    total = [0, 0, 0, 0]
    rows = []
    for name, lines in files.items():
        counts = [
            sum(reached for reached, _ in lines.values()), len(lines),
            sum(sum(taken) for _, taken in lines.values()), sum(len(taken) for _, taken in lines.values()),
        ]  # fmt: skip
        total = [a + b for a, b in zip(total, counts)]
        rows.append((share(*counts[:2]), share(*counts[2:]), name))
    for row in sorted(rows):
        print("%6.2f %6.2f  %s" % row)
    found = write_unreached(build, unreached(src, files))
    new = without_reason(found)
    for line in new:
        print(f"leaves on an error, never reached, not in tools/unreached.txt: {line}")
    gone = without_line(src)
    for line in gone:
        print(f"in tools/unreached.txt, but not in the sources: {line}")
    lines, branches = share(*total[:2]), share(*total[2:])
    print(f"lines {lines:.2f} % of {total[1]}, branches taken {branches:.2f} % of {total[3]}; "
          f"{len(found)} lines that leave on an error not reached, {len(new)} of them without a reason")
    if new or gone or lines < LINES or branches < BRANCHES:
        sys.exit(f"an error without a reason, a reason without its line, or below {LINES:g} % of the lines or {BRANCHES:g} % of the branches")


main()
