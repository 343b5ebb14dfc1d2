"""Long runs: a run file of ROWS cells is resumed (printed as rows, and as medians), added to, reported, merged
and compared; seconds and the peak of memory beside those of a tenth of it.  A row may cost twice the seconds that it
costs there, and ROW bytes: no row stays in memory, only what its place needs; what is drawn from a sample, SAMPLE
megabytes in all.
    load.py BINARY FOLDER [ROWS]"""
import json
import os
import sqlite3
import sys
import time

from place import MEASURE, Place

LAYERS, LENGTHS = 3, (4, 8)
ROW, SAMPLE = 256, 512  # a row's text alone has 900 bytes
STEPS = ("resume", "medians", "append", "report", "merge", "compare")


def sweep(windows, *more):
    args = ["long" if word == "ids" else word for word in MEASURE]
    args[args.index("--windows") + 1] = str(windows)
    return [*args, "--stride", "8", *more]


def fill(place, name, count):
    """A run whose first windows are real, and the others copies of them with noise."""
    windows = count // (LAYERS * len(LENGTHS))
    with open(place.path("long"), "w") as ids:
        ids.write(" ".join(str(i * 7919 % 101) for i in range(8 * windows + 8)))
    place.remove(name)
    place.well(sweep(1, "--run", name))
    database = sqlite3.connect(place.path(name))
    real = database.execute("SELECT key, created, version, row FROM cells").fetchall()

    def copies():
        for key, created, version, text in real:
            row = json.loads(text)
            for window in range(1, windows):
                more = dict(row, window=window, start=8 * window)
                more["sigma"] = row["sigma"] * (1 + window * 7919 % 1000 / 1e5)
                yield key.replace("window=0", f"window={window}"), created, version, json.dumps(more)

    with database:
        database.executemany("INSERT INTO cells VALUES (?, ?, ?, ?)", copies())
    database.close()
    return windows


def timed(place, args):
    """Seconds and megabytes of a command that must end well."""
    start = time.time()
    with open(place.path("out"), "wb") as out:
        process = os.posix_spawn(place.binary, [place.binary, *args], dict(os.environ, OMP_NUM_THREADS="1"),
                                 file_actions=[(os.POSIX_SPAWN_DUP2, out.fileno(), 1)])
        _, status, usage = os.wait4(process, 0)
    if status:
        raise SystemExit(f"status {status}: lipscope {' '.join(args)}")
    return time.time() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    place = Place(*sys.argv[1:3])
    most = int(sys.argv[3]) if len(sys.argv) > 3 else 10**6
    os.chdir(place.folder)
    results = {}
    for count in (most // 10, most):
        windows = fill(place, "r.db", count)
        for name, args in (("resume", sweep(windows, "--run", "r.db")),
                           ("medians", sweep(windows, "--format", "table", "--run", "r.db")),
                           ("append", sweep(48, "--lengths", "5", "--run", "r.db")),
                           ("report", ["report", "r.db", "-o", "page.html", "-q"]),
                           ("merge", ["merge", "r.db", "-o", "m.db", "-q"]),
                           ("compare", ["compare", "r.db", "m.db", "--format", "tsv", "-q"])):
            if name == "merge":
                place.remove("m.db")
            results[name, count] = timed(place, args)
    print(f"{'':8}{most // 10:>12} rows{'':12}{most:>12} rows{'':10}seconds per row, ratio")
    bad = False
    for name in STEPS:
        (_, few, small), (_, many, large) = results[name, most // 10], results[name, most]
        ratio = many / few / (1 if name == "append" else 10)
        print(f"{name:8}{few:9.2f} s{small:8.0f} MB{'':6}{many:9.2f} s{large:8.0f} MB{ratio:12.2f}")
        most_memory = SAMPLE if name in ("report", "compare") else small + 32 + ROW * 0.9 * most / 2**20
        bad |= ratio > 2 or large > most_memory
    print(f"page: {os.path.getsize('page.html') / 1e6:.1f} MB")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
