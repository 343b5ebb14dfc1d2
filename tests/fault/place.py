"""A scratch folder with a tiny model, and the program with faults.c in it, called in it."""
import os
import shutil
import sqlite3
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
MEASURE = ["measure", "random:./tiny", "--ids", "ids", "--lengths", "4,8", "--windows", "2",
           "--threads", "1", "--format", "tsv", "-q"]
SANITIZER = ("AddressSanitizer", "LeakSanitizer", "runtime error:")


class Place:
    def __init__(self, binary, folder):
        self.binary, self.folder = os.path.abspath(binary), os.path.abspath(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.path("tiny"))
        shutil.copy(os.path.join(HERE, "../fuzz/corpus/config/gpt2.json"), self.path("tiny/config.json"))
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


def rows(text):
    """A table without its seconds, which are never the same."""
    lines = [line.split("\t") for line in text.splitlines()]
    at = lines[0].index("seconds") if lines and "seconds" in lines[0] else None
    return [line[:at] + line[at + 1:] if at is not None else line for line in lines]


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
