"""A scratch folder with a tiny model, and the program with faults.c in it, called in it."""
import json
import os
import re
import shutil
import sqlite3
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
MEASURE = ["measure", "random:./tiny", "--ids", "ids", "--lengths", "4,8", "--windows", "2",
           "--threads", "1", "--format", "tsv", "-q"]
SANITIZER = ("AddressSanitizer", "LeakSanitizer", "runtime error:")



def tokenizer():
    """A word for each of 41 ids: the tokenizer inside the program takes 20,000 allocations to read."""
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)] + ["\u0120"]
    merges = [first + " " + second for first, second in zip(letters, letters[1:])][:14]
    words = letters + [merge.replace(" ", "") for merge in merges]
    return {"model": {"type": "BPE", "vocab": {word: id for id, word in enumerate(words)}, "merges": merges},
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}, "decoder": {"type": "ByteLevel"}}


class Place:
    def __init__(self, binary, folder):
        self.binary, self.folder = os.path.abspath(binary), os.path.abspath(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.path("tiny"))
        shutil.copy(os.path.join(HERE, "../fuzz/corpus/config/gpt2.json"), self.path("tiny/config.json"))
        with open(self.path("tiny/tokenizer.json"), "w") as written:
            json.dump(tokenizer(), written)
        with open(self.path("ids"), "w") as ids:
            ids.write(" ".join(str(i) for i in range(1, 41)))

    def path(self, name):
        return os.path.join(self.folder, name)

    def command(self, args, fault=None, **more):
        """What Popen needs to run the program: one thread, so that the k-th is always the same."""
        variables = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", LC_ALL="C", **more)
        if fault:
            variables["LIPSCOPE_FAULT"] = fault
        return dict(args=[self.binary, *args], env=variables, cwd=self.folder,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, args, fault=None, **more):
        """Exit code (negative: a signal), standard output and standard error."""
        done = subprocess.run(**self.command(args, fault, **more), timeout=120)
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def well(self, args):
        code, out, err = self.run(args)
        if code:
            raise SystemExit(f"exit {code} without a fault: lipscope {' '.join(args)}\n{err}")
        return out

    def count(self, args):
        """How many calls of each kind the command makes."""
        code, _, err = self.run(args, LIPSCOPE_FAULT_SEEN=self.path("seen"))
        if code:
            raise SystemExit(f"exit {code} without a fault: lipscope {' '.join(args)}\n{err}")
        with open(self.path("seen")) as seen:
            return {kind: int(number) for kind, number in (line.split() for line in seen)}

    def remove(self, *names):
        for name in names:
            for end in ("", "-wal", "-shm", "-journal", "-lock"):
                if os.path.exists(self.path(name + end)):
                    os.remove(self.path(name + end))


class Server:
    """One command, loaded once and forked for each fault: most of a short run is its start."""

    def __init__(self, place, args, name):
        self.output = place.path(name)
        given = dict(place.command(args, LIPSCOPE_FAULT_SERVER=self.output), stderr=None)
        self.process = subprocess.Popen(stdin=subprocess.PIPE, text=True, bufsize=1, **given)

    def read(self, end):
        with open(self.output + end, errors="replace") as file:
            return file.read()

    def run(self, fault=""):
        """Exit code (negative: a signal, -14 after two minutes), standard output and standard error."""
        self.process.stdin.write(fault + "\n")
        status = int(self.process.stdout.readline())
        return os.waitstatus_to_exitcode(status), self.read(".out"), self.read(".err")

    def close(self):
        self.process.stdin.close()
        return self.process.wait()


def rows(text):
    """A table without its seconds, which are never the same."""
    lines = [line.split("\t") for line in text.splitlines()]
    at = lines[0].index("seconds") if lines and "seconds" in lines[0] else None
    return [line[:at] + line[at + 1:] if at is not None else line for line in lines]


def state(path):
    """All that a run file holds, without what no two runs share: seconds and times.  None: no file."""
    if not os.path.exists(path):
        return None
    with sqlite3.connect(path) as database:
        text = "\n".join(database.iterdump())
    database.close()
    return re.sub(r'"seconds":[^,}]*|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ', "", text)


def unsound(path):
    """What SQLite finds wrong with a run file, or None.  An empty database is a new one."""
    if not os.path.exists(path):
        return None
    try:
        with sqlite3.connect(path) as database:
            said = database.execute("PRAGMA integrity_check").fetchone()[0]
        database.close()
    except sqlite3.DatabaseError as error:
        return str(error)
    return None if said == "ok" else said
