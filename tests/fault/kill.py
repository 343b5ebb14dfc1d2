"""Kills sweeps at random moments, and before random writes, while they begin, go on, are
reported or merged, and while a second writer wants in: no run file may be damaged, every row
that a killed process had reported as stored is there with the words of its window, no page is
there in part, and the end is that of a run that was never killed.
    kill.py BINARY FOLDER [KILLS] [SEED]      FOLDER.counts keeps the kills of all calls"""
import collections
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

from place import MEASURE, Place, rows, unsound

SWEEP = ["many" if word == "ids" else "4,5,7" if word == "4,8" else word for word in MEASURE]
SWEEP[SWEEP.index("--windows") + 1] = "8"  # 72 cells: most of the time is their commits


def cells(path):
    """Key and row of every stored cell, without the seconds."""
    if not os.path.exists(path):
        return {}
    with sqlite3.connect(path) as database:
        try:
            found = dict(database.execute("SELECT key, json_remove(row, '$.seconds') FROM cells"))
        except sqlite3.OperationalError:  # killed before the tables were there
            found = {}
    database.close()
    return found


def unworded(path, whole):
    """A stored cell without the words of its window, or words that are not those of `whole`."""
    if not cells(path):
        return None
    windows = "SELECT start, n, tokens FROM windows"
    with sqlite3.connect(whole) as database:
        wanted = {start: json.loads(tokens) for start, _, tokens in database.execute(windows)}
    database.close()
    with sqlite3.connect(path) as database:
        found = {start: (n, json.loads(tokens)) for start, n, tokens in database.execute(windows)}
        places = database.execute("SELECT json_extract(row, '$.start'), json_extract(row, '$.n') FROM cells").fetchall()
    database.close()
    for start, n in places:
        if start not in found or found[start][0] < n:
            return f"the words of the window at {start} are missing"
    for start, (n, tokens) in found.items():
        if tokens != wanted[start][:n]:
            return f"other words of the window at {start}"
    return None


class Counts:
    """Kills and ended runs by kind, of this call and of all."""

    def __init__(self, path):
        self.path, self.now = path, collections.Counter()
        self.before = collections.Counter()
        if os.path.exists(path):
            with open(path) as file:
                self.before.update(json.load(file))

    def add(self, what, count):
        self.now[what] += count

    def keep(self):
        with open(self.path + ".tmp", "w") as file:
            json.dump(self.before + self.now, file, indent=1, sort_keys=True)
        os.rename(self.path + ".tmp", self.path)

    def kills(self, which):
        return sum(count for what, count in which.items() if what not in ("ends", "findings"))

    def tell(self, which):
        kinds = ", ".join(f"{count} {what}" for what, count in sorted(which.items()) if what not in ("ends", "findings"))
        return (f"{self.kills(which)} kills ({kinds}), {which['ends']} runs brought to their end, "
                f"{which['findings']} findings")


class Killer:
    def __init__(self, place, seed, counts):
        self.place, self.random, self.counts = place, random.Random(seed), counts
        with open(place.path("many"), "w") as ids:
            ids.write(" ".join(str(self.random.randrange(101)) for _ in range(400)))
        self.wanted = rows(place.well([*SWEEP, "--run", "whole.db"]))
        self.reference = cells(place.path("whole.db"))
        self.seconds = {}
        for args in (SWEEP, ["report", "whole.db", "-o", "k.html", "-q"], ["merge", "whole.db", "-o", "m.db", "-q"]):
            start = time.time()
            place.well(args)
            self.seconds[args[0]] = time.time() - start
        place.remove("k.db", "m.db", "k.html")
        self.writes = place.count([*SWEEP, "--run", "k.db"])["write"]
        place.remove("k.db")

    def killed(self, args, by_write):
        """Whether the command died before its end."""
        if by_write:
            fault = f"write:{self.random.randint(1, self.writes)}!"
            return self.place.run(args, fault)[0] == -signal.SIGKILL
        process = subprocess.Popen(**self.place.command(args))
        try:
            process.communicate(timeout=self.random.uniform(0, 1.2 * self.seconds[args[0]]))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
        return process.returncode == -signal.SIGKILL

    def check(self, before, what):
        if bad := unsound(self.place.path("k.db")):
            return f"{what}: {bad}"
        if bad := unworded(self.place.path("k.db"), self.place.path("whole.db")):
            return f"{what}: {bad}"
        now = cells(self.place.path("k.db"))
        if any(self.reference.get(key) != row for key, row in now.items()):
            return f"{what}: another value is stored"
        if lost := before.keys() - now.keys():
            return f"{what}: {len(lost)} stored cells are lost"
        return None

    def two_writers(self, before):
        """One of the two is refused or waits; both are killed."""
        args = [*SWEEP, "--run", "k.db"]
        other = subprocess.Popen(**self.place.command(args))
        died = self.killed(args, False)
        time.sleep(self.random.uniform(0, self.seconds["measure"]))
        other.send_signal(signal.SIGKILL)
        other.communicate()
        self.counts.add("two writers", died + (other.returncode == -signal.SIGKILL))
        return self.check(before, "two writers")

    def one(self):
        """One kill, of what a draw says; what is wrong after it, or None."""
        draw = self.random.random()
        before = cells(self.place.path("k.db"))
        if len(before) == len(self.reference):
            return self.end()
        if 0.6 <= draw < 0.75 and before:
            what, args = "report", ["report", "k.db", "-o", "k.html", "-q"]
        elif 0.75 <= draw < 0.9 and before:
            what, args = "merge", ["merge", "k.db", "-o", "m.db", "-q"]
        elif draw < 0.9:
            what, args = "resume" if before else "begin", [*SWEEP, "--run", "k.db"]
        else:
            return self.two_writers(before)
        self.place.remove("m.db", "k.html")
        self.counts.add(what, self.killed(args, what != "report" and self.random.random() < 0.5))
        if what == "merge" and (bad := unsound(self.place.path("m.db"))):
            return f"merge: m.db: {bad}"
        if what == "report" and os.path.exists(self.place.path("k.html")):
            with open(self.place.path("k.html"), errors="replace") as page:
                if not page.read().rstrip().endswith("</html>"):
                    return "report: a page in part"
        return self.check(before, what)

    def end(self):
        """The same command, left alone, comes to the end."""
        code, out, err = self.place.run([*SWEEP, "--run", "k.db"])
        self.counts.add("ends", 1)
        good = code == 0 and rows(out) == self.wanted
        self.place.remove("k.db", "m.db", "k.html")
        return None if good else f"the run does not come to its end: exit {code}: {err[:300]}"


def main():
    place = Place(*sys.argv[1:3])
    most = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(1 << 30)
    counts, found, start = Counts(place.folder + ".counts"), [], time.time()
    killer = Killer(place, seed, counts)
    while counts.kills(counts.now) < most:
        now = list(filter(None, [*(killer.one() for _ in range(5)), killer.end()]))
        counts.add("findings", len(now))
        counts.keep()
        found += now
    print("\n".join(found))
    print(f"in all:  {counts.tell(counts.before + counts.now)}")
    print(f"seed {seed}: {counts.tell(counts.now)}, of {len(killer.reference)} cells each, in {time.time() - start:.0f} s")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
