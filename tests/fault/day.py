"""A day of sweeping in minutes: one `measure` of CELLS cells, as tiny as they can be, and resumed
twice, whose memory and descriptors are watched.  After the first tenth neither may grow.
    day.py BINARY FOLDER [CELLS]      86,400: one a second for 24 hours"""
import os
import subprocess
import sys
import time

from place import MEASURE, Place

LAYERS, LENGTHS = 3, 2
GROWTH = 1.05  # of memory; the run file's cache and the allocator's pools fill up in the beginning


def sweep(windows):
    args = ["long" if word == "ids" else "1,2" if word == "4,8" else word for word in MEASURE]
    args[args.index("--windows") + 1] = str(windows)
    return [*args, "--stride", "2", "--run", "day.db"]


def seen(pid):
    """Resident kilobytes and open descriptors; None when it has ended."""
    try:
        with open(f"/proc/{pid}/status") as status:
            lines = [line for line in status if line.startswith("VmRSS")]
        return (int(lines[0].split()[1]), len(os.listdir(f"/proc/{pid}/fd"))) if lines else None
    except OSError:
        return None


def stored(place):
    """Cells of the run file, by their part of it: cheap while another process writes."""
    code = ("import sqlite3,sys; print(sqlite3.connect('file:' + sys.argv[1] + '?mode=ro', uri=True)"
            ".execute('SELECT count(*) FROM cells').fetchone()[0])")
    done = subprocess.run([sys.executable, "-c", code, place.path("day.db")], capture_output=True, text=True)
    return int(done.stdout) if done.returncode == 0 else 0


def watch(place, windows, until):
    """Runs the sweep to its end, or kills it after `until` cells; what was seen, as (cells, kB, descriptors)."""
    with open(place.path("out"), "wb") as out:
        process = subprocess.Popen(**{**place.command(sweep(windows)), "stdout": out})
        found = []
        while process.poll() is None:
            time.sleep(2)
            cells, now = stored(place), seen(process.pid)
            if now:
                found.append((cells, *now))
            if until and cells >= until:
                process.kill()
                break
        _, err = process.communicate()
    if not until and process.returncode:
        raise SystemExit(f"exit {process.returncode}: {err.decode()[:300]}")
    return found


def main():
    place = Place(*sys.argv[1:3])
    cells = int(sys.argv[3]) if len(sys.argv) > 3 else 86400
    windows = cells // (LAYERS * LENGTHS)
    with open(place.path("long"), "w") as ids:
        ids.write(" ".join(str(i * 7919 % 101) for i in range(2 * windows + 2)))
    start, bad = time.time(), False
    for until in (cells // 2, cells * 3 // 4, 0):
        begin = stored(place)
        found = [one for one in watch(place, windows, until) if begin < one[0] < windows * LAYERS * LENGTHS]
        if len(found) < 4:
            print(f"from {begin} cells on: only {len(found)} looks, nothing can be said")
            continue
        early = found[:max(1, len(found) // 10)]
        memory, descriptors = max(one[1] for one in early), max(one[2] for one in early)
        most, open_most = max(one[1] for one in found), max(one[2] for one in found)
        grew = most > GROWTH * memory or open_most > descriptors
        bad |= grew
        print(f"from {begin} to {found[-1][0]} cells, {len(found)} looks: {memory / 1024:.1f} MB and {descriptors} "
              f"descriptors in the beginning, {most / 1024:.1f} MB and {open_most} at most{': GROWN' if grew else ''}")
    print(f"{stored(place)} cells in {time.time() - start:.0f} s")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
