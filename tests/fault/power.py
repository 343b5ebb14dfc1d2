"""Power cuts: what a sweep, and a second one that continues it, do to their run file is recorded;
the disk as it stands after every prefix of that, and after cuts that lose or tear what was not
yet synced, opens, is sound, holds nothing but true rows with the words of their windows, and
goes on to the end.
    power.py BINARY FOLDER [ENDS] [SEED]      ENDS: how many states are brought to the end (all);
of a sample ten times as many are looked at"""
import os
import random
import sys
import time

from kill import SWEEP, cells, unworded
from place import Place, rows, unsound

WHOLE = [*SWEEP, "--stride", "7"]
PART = ["4,5" if word == "4,5,7" else word for word in WHOLE]


def operations(path):
    """(op, file, offset, bytes) of a record."""
    with open(path, "rb") as record:
        while line := record.readline():
            op, name, offset, count = line.decode().rsplit("\n", 1)[0].split(" ")
            yield op, os.path.basename(name), int(offset), record.read(int(count))


def apply(disk, operation):
    op, name, offset, data = operation
    if op == "write":
        old = disk.setdefault(name, bytearray())
        if len(old) < offset:
            old.extend(bytes(offset - len(old)))
        old[offset:offset + len(data)] = data
    elif op == "cut":
        old = disk.setdefault(name, bytearray())
        del old[offset:]
        old.extend(bytes(offset - len(old)))
    elif op == "remove":
        disk.pop(name, None)


def cut_disk(synced, later, draw):
    """The disk when some of what was not synced never reached it, or only sectors of it."""
    disk = {name: bytearray(data) for name, data in synced.items()}
    for op, name, offset, data in later:
        chance = draw.random()
        if op == "write" and chance < 0.3:
            continue
        if op == "write" and chance < 0.5:
            size = 512 * draw.randint(0, len(data) // 512)
            data = data[:size]
        apply(disk, (op, name, offset, data))
    return disk


class Cutter:
    def __init__(self, place, ends, seed):
        self.place, self.ends, self.draw = place, ends, random.Random(seed)
        with open(place.path("many"), "w") as ids:
            ids.write(" ".join(str(self.draw.randrange(101)) for _ in range(400)))
        self.wanted = rows(place.well([*WHOLE, "--run", "whole.db"]))
        self.reference = cells(place.path("whole.db"))
        place.remove("p.db", "record")
        for args in (PART, WHOLE):
            code, _, err = place.run([*args, "--run", "p.db"], LIPSCOPE_FAULT_RECORD=place.path("record"))
            if code:
                raise SystemExit(err)
        self.all = [o for o in operations(place.path("record")) if o[1] in ("p.db", "p.db-wal", "p.db-journal")]
        self.states = self.resumed = 0

    def check(self, disk, what):
        share = self.ends / (2 * len(self.all))
        chance = self.draw.random()
        if chance > 10 * share:  # a sample
            return None
        self.place.remove("p.db")
        for name, data in disk.items():
            with open(self.place.path(name), "wb") as file:
                file.write(data)
        self.states += 1
        if chance < share:
            self.resumed += 1
            return self.goes_on(what) or self.sound(what)
        return self.sound(what)

    def goes_on(self, what):
        code, out, err = self.place.run([*WHOLE, "--run", "p.db"])
        if code or rows(out) != self.wanted:
            return f"{what}: does not go on: exit {code}: {err[:300]}"
        return None

    def sound(self, what):
        path = self.place.path("p.db")
        try:
            if bad := unsound(path) or unworded(path, self.place.path("whole.db")):
                return f"{what}: {bad}"
            now = cells(path)
        except Exception as error:
            return f"{what}: {error}"
        if any(self.reference.get(key) != row for key, row in now.items()):
            return f"{what}: another value is stored"
        return None

    def sweep(self):
        disk, synced, later, found = {}, {}, [], []
        for at, operation in enumerate(self.all):
            apply(disk, operation)
            if operation[0] == "sync":  # of one file: the others may lag behind
                name = operation[1]
                for old in (o for o in later if o[1] == name):
                    apply(synced, old)
                later = [o for o in later if o[1] != name]
            else:
                later.append(operation)
            found += filter(None, [self.check(disk, f"after {at + 1} writes"),
                                   self.check(cut_disk(synced, later, self.draw), f"cut in write {at + 1}")])
        return found


def main():
    place = Place(*sys.argv[1:3])
    ends = int(sys.argv[3]) if len(sys.argv) > 3 else 10**9
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(1 << 30)
    start = time.time()
    cutter = Cutter(place, ends, seed)
    found = cutter.sweep()
    print("\n".join(found))
    print(f"seed {seed}: {len(cutter.all)} recorded operations, {cutter.states} disks, {cutter.resumed} brought to "
          f"the end in {time.time() - start:.0f} s, {len(found)} findings")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
