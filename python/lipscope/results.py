"""What a measurement gives: rows, growth laws, tables, plots, a page."""
from __future__ import annotations

import os
import pathlib
import statistics
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

from . import _c, errors, plots
from ._c import Record, ffi, lib
from .arrays import path_of
from .tables import Table, as_html, as_text, said

ROW = _c.fields(lib.lipsc_row_fields())
GROWTH = _c.fields(lib.lipsc_growth_fields())


class Row(Dict[str, Any]):
    """One value with what it is the value of (docs/row.md): a dictionary.  `tokens` and `jacobian` are there when the row
    comes from `measure` in this process."""

    _again: Any = None  # model and windows

    def _window(self) -> Any:
        if self._again is None:
            raise errors.Unusable("this row was read from a file, which has neither the text nor the model")
        return self._again

    def ids(self) -> List[int]:
        """The token ids of the window."""
        return list(self._window().ids(self))

    def jacobian(self) -> Any:
        """The Jacobian that this row is about, in double."""
        window = self._window()
        return window.model.jacobian(window.ids(self), self["layer"], map=self["map"], head=self["head"], mask=window.mask)

    def tokens(self) -> List[Tuple[str, float]]:
        """The window's tokens, each with its share of the worst direction: the square of its part of v; they sum to 1."""
        v = self.jacobian().sigma().v
        return list(zip(self._window().words(self.ids()), (v ** 2).sum(1).tolist()))


class Result(Table):
    """Rows of sigma, one for each layer and window; shown as a table of medians.

    `rows`: the rows as dictionaries, `fits`: growth laws, `run`: the run file, `remarks`: what is worth knowing.  A run file
    of the command line opens as Result("alice.db")."""

    def __init__(self, run: Union[str, "os.PathLike[str]"], keep: Any = None, remarks: Tuple[str, ...] = (),
                 again: Any = None):
        self.run = os.fspath(run)
        self.remarks = list(remarks)
        self._keep = keep
        self.merged: Optional[Record] = None  # by `merge`
        self.rows: List[Row] = []  # type: ignore[assignment]
        self.fits: List[Dict[str, Any]] = []
        self._read(again)

    def _read(self, again: Any) -> None:
        file = ffi.new("lipsc_rows_file *")
        try:
            _c.call(lib.lipsc_rows_file_open, path_of(self.run), file)
            pointers = ffi.new("lipsc_row *[]", [file.rows + i for i in range(file.count)] if file.count else 1)
            sortable = ffi.cast("const lipsc_row **", pointers)
            lib.lipsc_rows_sort(file.count, sortable)
            for i in range(file.count):
                row = Row(_c.as_dict(sortable[i], ROW, sortable[i].parts))
                row._again = again
                self.rows.append(row)
            self._fit(sortable, file.count, file.seed)
        finally:
            lib.lipsc_rows_file_close(file)

    def _fit(self, rows: Any, count: int, seed: int) -> None:
        laws = ffi.new("lipsc_growths *")
        try:
            _c.call(lib.lipsc_rows_fit, count, rows, seed, laws, err=False)
            self.fits = [_c.as_dict(laws.at[i], GROWTH) for i in range(laws.count)]
        finally:
            lib.lipsc_growths_free(laws)

    # ---- looking ----

    def worst(self) -> Row:
        """The row with the largest sigma."""
        if not self.rows:
            raise errors.ArgumentError("there are no rows yet")
        return max(self.rows, key=lambda row: row["sigma"])

    def medians(self) -> Dict[Tuple[Any, Any], Dict[int, float]]:
        """(layer, head) -> length -> median sigma over windows."""
        groups: Dict[Tuple[Any, Any], Dict[int, List[float]]] = {}
        for row in self.rows:
            groups.setdefault((row["layer"], row["head"]), {}).setdefault(row["n"], []).append(row["sigma"])
        return {key: {n: statistics.median(values) for n, values in by.items()} for key, by in groups.items()}

    def _law(self, layer: Any, head: Any) -> str:
        for law in self.fits:
            if (law["layer"], law["head"], law["against"], law["text"]) == (layer, head, "n", None):
                if law["exponent"] is None:
                    return ""
                interval = f" ({law['exponent_low']:.2f}, {law['exponent_high']:.2f})" if law["exponent_low"] is not None else ""
                return f"{law['exponent']:.2f}{'' if law['law'] else '*'}{interval}"
        return ""

    def _table(self) -> Tuple[str, List[str], List[List[str]]]:
        first = self.rows[0] if self.rows else {}
        lengths = sorted({row["n"] for row in self.rows})
        windows = len({row["window"] for row in self.rows})
        title = (f"{first.get('model')}: {first.get('architecture')}, map {first.get('map')}, mask {first.get('mask')}; "
                 f"{'median ' if windows > 1 else ''}sigma over {windows} window{'s' if windows != 1 else ''}"
                 if self.rows else "no rows yet")
        heads = any(row["head"] is not None for row in self.rows)
        law = any(self._law(*key) for key in self.medians())
        head = ["layer"] + (["head"] if heads else []) + [f"n = {n}" for n in lengths] + (["exponent"] if law else [])
        lines = []
        for (layer, which), by in self.medians().items():
            cells = [f"{by[n]:.4g}" if n in by else "-" for n in lengths]
            lines.append(["all" if layer is None else str(layer)] + (["all" if which is None else str(which)] if heads else [])
                         + cells + ([self._law(layer, which)] if law else []))
        return title, head, lines

    def _notes(self) -> List[str]:
        lost = sum(row["converged"] is False for row in self.rows)
        notes = [f"{lost} of {len(self.rows)} values did not converge: they are lower bounds"] if lost else []
        return notes + (["*: no straight line fits, so it is no power law"] if "*" in str(self._table()[2]) else [])

    def __repr__(self) -> str:
        title, head, lines = self._table()
        spare = [name for name in head if name.startswith("n = ")][1:-1]
        return "\n".join([*said([title]), *as_text(head, lines, spare=spare[1::2] + spare[::2]), *said(self._notes())])

    def _repr_html_(self) -> str:
        """The same for notebooks, larger values darker."""
        title, head, lines = self._table()
        top = max((row["sigma"] for row in self.rows), default=1.0) or 1.0
        shades = [[min(1.0, float(words) / top) if name.startswith("n = ") and words != "-" else 0.0
                   for name, words in zip(head, line)] for line in lines]
        return as_html([title], head, lines, self._notes(), shades)

    # ---- plots and the page ----

    def plot(self, ax: Any = None) -> Any:
        """Median sigma against the length, a line for each layer (of heads that were measured alone, for each head in the
        colour of its layer); both axes logarithmic.  Returns matplotlib's axes."""
        return plots.by_length(self.medians(), self._what(), ax)

    def plot_layers(self, ax: Any = None) -> Any:
        """Median sigma by layer, a line for each length; heads that were measured alone are points.  Returns matplotlib's
        axes."""
        return plots.by_layer(self.medians(), self._what(), ax)

    def _what(self) -> str:
        return self._table()[0].split(";")[0]

    def report(self, path: Union[str, "os.PathLike[str]"] = "lipscope.html") -> pathlib.Path:
        """One page that needs nothing else, as `lipscope report` writes it."""
        return report([self], path)

    def compare(self, other: Any) -> Comparison:
        """How much larger sigma is in another run, layer by layer; see `compare`."""
        return compare(self, other)


# ---- Several runs ----------------------------------------------------------------------------


def _path(run: Any) -> bytes:
    """The run file of a Result, or a path."""
    return path_of(run.run if isinstance(run, Result) else run, "the run")


def _paths(runs: Iterable[Any]) -> Tuple[int, Any, List[Any]]:
    kept = [ffi.new("char[]", _path(run)) for run in ([runs] if isinstance(runs, (str, os.PathLike, Result)) else runs)]
    return len(kept), ffi.new("char *[]", kept), kept


def report(runs: Any, path: Union[str, "os.PathLike[str]"] = "lipscope.html") -> pathlib.Path:
    """One page of several runs, compared: what `measure` gave, or run files."""
    count, paths, kept = _paths(runs)
    _c.call(lib.lipsc_report_write, count, paths, path_of(path))
    del kept
    return pathlib.Path(os.fspath(path))


class Comparison(Table):
    """How much larger sigma is in the second of two runs: a row for each layer, head and map that both have, with the ratio,
    its 95 % interval and a verdict (lipsc_change).  `differ`: what differs of model, text, mask and so on."""

    _shown: Sequence[str] = ("layer", "head", "n", "before", "after", "ratio", "ratio_low", "ratio_high", "verdict")
    _left = ("verdict",)

    def __init__(self, out: Any, runs: Sequence[Any] = ()):
        self._runs = list(runs)  # and what keeps their files
        listed = _c.fields(lib.lipsc_change_fields())
        self.rows = [_c.as_dict(out.changes[i], listed) for i in range(out.count)]
        self.differ = [word.strip() for word in (_c.text(out.differ) or "").split(",") if word.strip()]
        if all(row["head"] is None for row in self.rows):
            self._shown = tuple(name for name in self._shown if name != "head")

    def report(self, path: Union[str, "os.PathLike[str]"] = "lipscope.html") -> pathlib.Path:
        """One page with both runs, as `lipscope compare -o` writes it."""
        return report(self._runs, path)

    def _title(self) -> List[str]:
        return ["the runs differ in " + (", ".join(self.differ) or "nothing that decides a value")]


def compare(before: Any, after: Any) -> Comparison:
    """How much larger sigma is in one run than in another: what `measure` gave, or run files.

    >>> import lipscope as ls
    >>> some = dict(text="builtin:lighthouse", lengths=[8, 16], windows=6, layers=[0])
    >>> c = ls.compare(ls.measure("builtin:gpt2-nano", **some), ls.measure("builtin:gpt2-nano", mask="none", **some))
    >>> c.differ, c[0]["ratio_low"] < c[0]["ratio"] < c[0]["ratio_high"]
    (['mask'], True)
    """
    first, second = ffi.new("char[]", _path(before)), ffi.new("char[]", _path(after))
    out = ffi.new("lipsc_comparison *")
    _c.call(lib.lipsc_runs_compare, first, second, out)
    try:
        return Comparison(out, [before, after])
    finally:
        lib.lipsc_comparison_free(out)


def merge(runs: Iterable[Any], out: Union[str, "os.PathLike[str]"]) -> Result:
    """Run files of one sweep, made in several places (shard=), become one: `out` gets all their cells."""
    count, paths, kept = _paths(runs)
    merged = ffi.new("lipsc_merged *")
    _c.call(lib.lipsc_run_merge, count, paths, path_of(out, "out"), ffi.NULL, merged)
    del kept
    result = Result(out)
    result.merged = Record.of(merged)
    return result
