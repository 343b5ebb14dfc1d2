"""Kills sweeps at random moments, and before random writes, while they begin, go on, are
reported or merged, and while a second writer wants in: no run file may be damaged, every row
that a killed process had reported as stored is there, and the end is that of a run that was
never killed.
    kill.py BINARY FOLDER [KILLS] [SEED]"""
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

from place import MEASURE, Place, rows, unsound

SWEEP = ["many" if word == "ids" else "4,5,6,7,8,9,10,12" if word == "4,8" else word for word in MEASURE]
SWEEP[SWEEP.index("--windows") + 1] = "16"  # 384 cells: about half a second


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


class Killer:
    def __init__(self, place, seed):
        self.place, self.random = place, random.Random(seed)
        with open(place.path("many"), "w") as ids:
            ids.write(" ".join(str(self.random.randrange(101)) for _ in range(400)))
        self.wanted = rows(place.well([*SWEEP, "--run", "whole.db"]))
        self.reference = cells(place.path("whole.db"))
        start = time.time()
        place.well(SWEEP)
        self.seconds = time.time() - start
        place.remove("k.db")
        self.writes = place.count([*SWEEP, "--run", "k.db"])["write"]
        place.remove("k.db")
        self.kills = self.ended = self.restarts = 0

    def killed(self, args, by_write):
        """Whether the command died before its end."""
        if by_write:
            fault = f"write:{self.random.randint(1, self.writes)}!"
            return self.place.run(args, fault)[0] == -signal.SIGKILL
        process = subprocess.Popen(**self.place.command(args))
        try:
            process.communicate(timeout=self.random.uniform(0, 1.2 * self.seconds))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
        return process.returncode == -signal.SIGKILL

    def check(self, before, what):
        if bad := unsound(self.place.path("k.db")):
            return f"{what}: {bad}"
        now = cells(self.place.path("k.db"))
        if any(self.reference.get(key) != row for key, row in now.items()):
            return f"{what}: another value is stored"
        if lost := before.keys() - now.keys():
            return f"{what}: {len(lost)} stored cells are lost"
        return None

    def one(self):
        """One kill, of what a draw says; what is wrong after it, or None."""
        draw = self.random.random()
        before = cells(self.place.path("k.db"))
        if len(before) == len(self.reference):
            return self.end()
        if draw < 0.7:
            what = "measure"
            args = [*SWEEP, "--run", "k.db"]
        elif draw < 0.8 and before:
            what, args = "report", ["report", "k.db", "-o", "k.html", "-q"]
        elif draw < 0.9 and before:
            what, args = "merge", ["merge", "k.db", "-o", "m.db", "-q"]
        else:
            what, args = "two writers", [*SWEEP, "--run", "k.db"]
            other = subprocess.Popen(**self.place.command(args))
            died = self.killed(args, False)
            time.sleep(self.random.uniform(0, self.seconds))
            other.send_signal(signal.SIGKILL)
            other.communicate()
            self.kills += died + (other.returncode == -signal.SIGKILL)
            return self.check(before, what)
        died = self.killed(args, what == "measure" and self.random.random() < 0.5)
        self.kills += died
        if what == "merge" and (bad := unsound(self.place.path("m.db"))):
            return f"merge: m.db: {bad}"
        return self.check(before, what)

    def end(self):
        """The same command, left alone, comes to the end."""
        code, out, err = self.place.run([*SWEEP, "--run", "k.db"])
        self.ended += 1
        good = code == 0 and rows(out) == self.wanted
        self.place.remove("k.db", "m.db", "k.html")
        return None if good else f"the run does not come to its end: exit {code}: {err[:300]}"


def main():
    place = Place(*sys.argv[1:3])
    most = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(1 << 30)
    killer, found, start = Killer(place, seed), [], time.time()
    while killer.kills < most:
        for _ in range(5):
            found += filter(None, [killer.one()])
        found += filter(None, [killer.end()])
    print("\n".join(found))
    print(f"seed {seed}: {killer.kills} kills in {time.time() - start:.0f} s, {killer.ended} runs of "
          f"{len(killer.reference)} cells brought to their end, {len(found)} findings")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
