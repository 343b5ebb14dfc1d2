"""The paper's experiments and theorems, computed again and judged: what `lipscope reproduce` does."""
from __future__ import annotations

import os
import pathlib
from typing import Any, Dict, List, Optional, Sequence, Union

from . import _c, errors, machines
from ._c import ffi, lib
from .arrays import choose, flag, path_of, whole
from .results import ROW, report
from .studies import progress_bar
from .tables import Table

PARTS = {name[len("LIPSC_CLAIM_"):].lower().replace("_", "-"): number
         for number, name in ffi.typeof("lipsc_claim_part").elements.items() if not name.endswith("_PARTS")}


class Claims(Table):
    """A row for each claim (lipsc_claim_line): whose it is, what it says, what was measured, and whether it holds ("not
    judged" where its hypotheses do not, with the reason); true when no theorem and no regression fails, a figure of the
    paper that comes out otherwise being a finding.  `curves`, `worst` and `fits` are the numbers behind them, `folder` has
    the run file and the page."""

    _shown = ("section", "name", "source", "holds", "measured")
    _left = _shown

    def __init__(self, out: Any, folder: pathlib.Path):
        self.folder = folder
        self.rows = _records(out.lines, out.line_count, lib.lipsc_claim_line_fields(), lib.LIPSC_CLAIM_SAYS)
        self.curves = [_c.as_dict(out.curves[i], ROW, out.curves[i].parts) for i in range(out.curve_count)]
        self.worst = _records(out.worst, out.worst_count, lib.lipsc_claim_worst_fields())
        self.fits = _records(out.fits, out.fit_count, lib.lipsc_claim_fit_fields())
        self._figure = _c.text(lib.lipsc_claim_source_name(lib.LIPSC_CLAIM_PAPER_FIGURE))

    def __bool__(self) -> bool:
        return not any(row["holds"] == "no" and row["source"] != self._figure for row in self.rows)

    def report(self) -> pathlib.Path:
        """The page of the run, which needs nothing else."""
        return report([self.folder / "run.db"], self.folder / "report.html")

    def _title(self) -> List[str]:
        count = {verdict: sum(row["holds"] == verdict for row in self.rows) for verdict in ("yes", "no", "not judged")}
        return [f"{len(self.rows)} claims: {count['yes']} hold, {count['no']} do not, {count['not judged']} are not judged"]


def _records(at: Any, count: int, listed: Any, parts: int = 0) -> List[Dict[str, Any]]:
    fields = _c.fields(listed)
    return [_c.as_dict(at[i], fields, parts) for i in range(count)]


def reproduce(out: Union[str, "os.PathLike[str]"] = "lipscope-reproduce", *, only: Optional[str] = None, quick: bool = False,
              bert: Any = None, gpt2: Any = None, texts: Sequence[str] = (), seed: int = 1, threads: int = 0,
              device: Any = None, progress: Optional[bool] = None) -> Claims:
    """Every experiment and theorem of "How Smooth Is Attention?" (Castin, Ablin, Peyre, 2024), as defined and as released,
    and those proved here; the run file is kept in the folder `out`, from which the same call goes on.

    only: one part of it; quick: few lengths and windows, which shows that everything runs and concludes nothing.  bert, gpt2:
    folders, or transformers objects, in the place of what is built in; texts: the texts themselves."""
    folder = pathlib.Path(os.fsdecode(path_of(out, "out")))
    settings = ffi.new("lipsc_claims_settings *")
    lib.lipsc_claims_defaults(settings)
    settings.quick, settings.seed = flag(quick, "quick"), whole(seed, "seed", 0)
    settings.only = -1 if only is None else choose(only, PARTS, "only")
    place = machines.find(device, threads)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as wrong:
        raise errors.FileError(f"{folder}: {wrong.strerror}") from None
    kept = [ffi.new("char[]", path_of(path)) for path in _texts(texts, folder)]
    if kept:
        listed = ffi.new("char *[]", kept)
        settings.texts.count, settings.texts.at = len(kept), listed
    for name, model in (("bert", bert), ("gpt2", gpt2)):
        if model is not None:
            kept.append(ffi.new("char[]", path_of(_model(model, folder / name))))
            setattr(settings, name, kept[-1])
    kept.append(ffi.new("char[]", path_of(folder / "run.db")))
    settings.run_file = kept[-1]
    found = ffi.new("lipsc_claims *")
    try:
        with machines.pointer(place) as settings.device, progress_bar(progress) as bar, _c.Work(progress=bar) as work:
            settings.ctx, settings.stop, settings.remark = work.handle, lib.lipsc_py_stop, lib.lipsc_py_remark
            if bar:
                settings.progress = lib.lipsc_py_study_progress
            _c.call(lib.lipsc_claims_run, settings, found)
        return Claims(found, folder)
    finally:
        lib.lipsc_claims_free(found)


def _texts(texts: Sequence[str], folder: pathlib.Path) -> List[pathlib.Path]:
    """The texts as files that the same call finds again."""
    written = []
    for i, text in enumerate([texts] if isinstance(texts, str) else texts):
        if not isinstance(text, str) or not text:
            raise errors.KindError(f"texts holds {text!r}, and texts themselves are needed, strings")
        written.append(folder / f"text{i}.txt")
        written[-1].write_text(text, encoding="utf-8")
    return written


def _model(model: Any, place: pathlib.Path) -> Any:
    if isinstance(model, (str, os.PathLike)):
        return model
    if not hasattr(model, "save_pretrained"):
        raise errors.KindError(f"a {type(model).__name__} is no model: a folder or a transformers object is needed")
    model.save_pretrained(place)
    return place
