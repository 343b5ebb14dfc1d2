"""The paper's experiments and theorems, computed again: what `lipscope reproduce` does."""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from typing import Any, Dict, List, Optional, Sequence, Union

from . import errors
from .arrays import whole
from .tables import Table

PARTS = ("split", "basics", "bounds", "lemmas", "worst", "mean-field", "regimes", "layers", "released", "text", "adversarial")


class Claims(Table):
    """A row for each claim, with its source, what it promises, what was found, and whether it holds ("not judged" where its
    hypotheses do not, with the reason); true when every theorem and every regression that was judged holds.  `folder` has
    the tables, the page report.html and the run file."""

    _shown = ("section", "name", "source", "holds", "measured")
    _left = _shown

    def __init__(self, rows: List[Dict[str, Any]], folder: pathlib.Path, passed: bool):
        self.rows, self.folder, self._passed = rows, folder, passed

    def __bool__(self) -> bool:
        return self._passed

    def report(self) -> pathlib.Path:
        """The page, which needs nothing else."""
        return self.folder / "report.html"

    def _title(self) -> List[str]:
        return [f"{len(self.rows)} claims; tables and {self.report()} are written"]


def program() -> pathlib.Path:
    """The command line that comes with the package."""
    found = pathlib.Path(__file__).with_name("lipscope")
    if not found.exists():
        raise errors.FileError(f"the program is not in this installation: {found} is not there")
    return found


def reproduce(out: Union[str, "os.PathLike[str]"] = "lipscope-reproduce", *, only: Optional[str] = None, quick: bool = False,
              bert: Any = None, gpt2: Any = None, texts: Sequence[str] = (), run: Union[str, "os.PathLike[str]", None] = None,
              seed: int = 1, threads: int = 0, device: Optional[str] = None, progress: Optional[bool] = None) -> Claims:
    """Every experiment and theorem of "How Smooth Is Attention?" (Castin, Ablin, Peyre, 2024), as defined and as released,
    and those proved here; tables, a page and the run file go into the folder `out`, from which the same call goes on.

    only: one part of it; quick: few lengths and windows, which shows that everything runs and concludes nothing.  bert, gpt2:
    folders, or transformers objects, in the place of what is built in; texts: the texts themselves."""
    if only is not None and only not in PARTS:
        raise errors.ArgumentError(f"only = {only!r}: there are {', '.join(PARTS)}")
    with ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lipscope-")))
        words = [str(program()), "reproduce", "--format", "json", "--out", os.fspath(out), "--seed", str(whole(seed, "seed", 0)),
                 "--threads", str(whole(threads, "threads", 0))]
        words += ["--quick"] if quick else []
        for name, value in (("only", only), ("run", run), ("device", device)):
            words += [] if value is None else [f"--{name}", os.fspath(value)]
        for name, model in (("bert", bert), ("gpt2", gpt2)):
            words += [] if model is None else [f"--{name}", _folder(model, folder / name)]
        for i, text in enumerate([texts] if isinstance(texts, str) else texts):
            (folder / f"{i}.txt").write_text(text, encoding="utf-8")
            words += ["--text", str(folder / f"{i}.txt")]
        shown = progress if progress is not None else sys.stderr.isatty()
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=None if shown else subprocess.PIPE, text=True, check=False)
    try:
        rows = json.loads(done.stdout)["rows"]
    except ValueError:
        said = (done.stderr or "it failed").strip().splitlines()
        raise errors.LipscopeError(said[-1].replace("lipscope reproduce: ", "")) from None
    return Claims(rows, pathlib.Path(os.fspath(out)), done.returncode == 0)


def _folder(model: Any, place: pathlib.Path) -> str:
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model)
    if not hasattr(model, "save_pretrained"):
        raise errors.KindError(f"a {type(model).__name__} is no model: a folder or a transformers object is needed")
    model.save_pretrained(place)
    return str(place)
