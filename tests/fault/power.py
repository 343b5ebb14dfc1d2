"""Power cuts: what a sweep does to its run file is recorded; the disk as it stands after every
prefix of that, and after cuts that lose or tear what was not yet synced, opens, is sound, and
holds nothing but true rows; every so often it also goes on to the end.
    power.py BINARY FOLDER [ENDS] [SEED]      ENDS: how many states are brought to the end"""
import os
import random
import sys
import time

from kill import cells
from place import MEASURE, Place, rows, unsound


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
        self.wanted = rows(place.well([*MEASURE, "--run", "whole.db"]))
        self.reference = cells(place.path("whole.db"))
        place.remove("p.db", "record")
        code, _, err = place.run([*MEASURE, "--run", "p.db"], LIPSCOPE_FAULT_RECORD=place.path("record"))
        if code:
            raise SystemExit(err)
        self.all = [o for o in operations(place.path("record")) if o[1] in ("p.db", "p.db-wal", "p.db-journal")]
        self.states = self.resumed = 0

    def check(self, disk, what):
        self.place.remove("p.db")
        for name, data in disk.items():
            with open(self.place.path(name), "wb") as file:
                file.write(data)
        self.states += 1
        if self.draw.random() < self.ends / (2 * len(self.all)):
            self.resumed += 1
            code, out, err = self.place.run([*MEASURE, "--run", "p.db"])
            if code or rows(out) != self.wanted:
                return f"{what}: does not go on: exit {code}: {err[:300]}"
        try:
            if bad := unsound(self.place.path("p.db")):
                return f"{what}: {bad}"
            now = cells(self.place.path("p.db"))
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
