"""The worst input that a search finds: of a layer in memory, or of a model or a layer file, for several lengths and in run files."""
from __future__ import annotations

import json
import os
import pathlib
import shutil
import tempfile
import time
import weakref
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import _c, machines, errors
from ._c import Record, ffi, lib
from .arrays import Array, at, choose, flag, numbers, path_of, pointer, positive, real, whole, wholes
from .layers import Attention, Layer, layer_of, precision
from .models import Model, model_of
from .places import is_layer_file, open_place
from .results import GROWTH, report as report_of
from .studies import Source
from .tables import Table

DOMAINS = {"ball": lib.LIPSC_ATTACK_BALL, "sphere": lib.LIPSC_ATTACK_SPHERE, "norm": lib.LIPSC_ATTACK_NORM,
           "around": lib.LIPSC_ATTACK_AROUND}
ROW = _c.fields(lib.lipsc_attack_fields())
Path = Union[str, "os.PathLike[str]"]


class _Kept:
    """The run file of a result; in a folder that nobody named it goes with the last result that needs it."""

    def __init__(self, run: Path, folder: Optional[str]):
        self.run = run
        self.drop = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True) if folder else lambda: None


class Attack:
    """What `attack` found: the input X (n, d) with `sigma` there, a lower bound of the largest over the domain, and `upper`,
    proved for the whole domain (None: nothing is).  u, v reach sigma.  `info` has the rest: `lower`, `residual`, `start`,
    `best_construction`, `evaluations`."""

    def __init__(self, X: Array, u: Array, v: Array, info: Record, weights: Optional[Array], stopped: bool,
                 kept: Optional[_Kept] = None):
        self.X, self.u, self.v, self.info, self.weights, self.stopped, self._kept = X, u, v, info, weights, stopped, kept
        self.sigma = float(info.sigma)
        self.upper: Optional[float] = float(info.upper) if info.upper is not None and np.isfinite(info.upper) else None

    def __repr__(self) -> str:
        proved = f", nowhere above {self.upper:.6g}" if self.upper is not None else ""
        return (f"Attack(sigma {self.sigma:.6g} at n = {len(self.X)}, from {self.info.start}{proved}; "
                f"{self.info.evaluations} inputs tried{', stopped' if self.stopped else ''})")

    def report(self, path: Path = "lipscope.html") -> pathlib.Path:
        """One page that needs nothing else, as `lipscope report` writes it: of a model or a layer file, with all lengths of
        that search."""
        if self._kept is None:
            raise errors.Unusable("a layer in memory has no run to write a page of: ls.save(J, file) makes a layer file of it")
        return report_of([self._kept.run], path)


class Attacks(Table):
    """The worst input of every length: `rows` (lipsc_attack_row), `law`: how sigma grows with the length, from three lengths
    on; `at(n)`: the input of length n, as `attack` gives it.  `missing`: the length at which Ctrl-C came before any input
    was found, or None."""

    _shown = ("n", "radius", "domain", "start", "sigma", "upper", "best_construction", "evaluations")
    _left = ("domain", "start")
    _spare = ("best_construction", "evaluations")

    def __init__(self, out: Any, stopped: bool, kept: _Kept):
        rows = [_c.as_dict(out.rows[i], ROW) for i in range(out.count)]
        self.rows = [row for row in rows if row["n"] is not None]
        self.law: Optional[Dict[str, Any]] = _c.as_dict(out.law, GROWTH) if out.has_law else None
        self.missing: Optional[int] = None if out.missing == _c.NONE else int(out.missing)
        self.stopped, self._kept = stopped, kept

    def at(self, n: int) -> Attack:
        """The input of length n."""
        for row in self.rows:
            if row["n"] == n:
                return _stored(row, self.stopped, self._kept)
        raise errors.ArgumentError(f"there is no input of length {n}: there are {', '.join(str(r['n']) for r in self.rows)}")

    def report(self, path: Path = "lipscope.html") -> pathlib.Path:
        """One page that needs nothing else, as `lipscope report` writes it."""
        return report_of([self._kept.run], path)

    def _title(self) -> List[str]:
        law = self.law
        return [f"sigma ~ n^{law['exponent']:.2f}"] if law and law["exponent"] is not None else []


# ---- Asking ----------------------------------------------------------------------------------


def attack(model: Any, layer: Optional[int] = None, *, around: Any = None, length: Optional[int] = None,
           lengths: Optional[Sequence[int]] = None, radius: Any = None, relative: bool = False,
           domain: Optional[str] = None, seconds: Optional[float] = None, tokenizer: Any = None, text: Any = None,
           ids: Any = None, pixels: Any = None, window: int = 0, stride: Optional[int] = None, tiled: bool = False, special: bool = False,
           masses: bool = False, head: Optional[int] = None, map: str = "attention", mask: Optional[str] = None,
           restarts: Optional[int] = None, iterations: Optional[int] = None, seed: int = 1, dtype: Any = None,
           tol: Optional[float] = None, threads: int = 0, device: Any = None, part: str = "whole",
           run: Optional[Path] = None, out: Optional[Path] = None, progress: Any = None) -> Any:
    """The input at which sigma of an attention layer is largest, as far as a search finds it: an `Attack`, or for `lengths`
    an `Attacks`, one input for each.

    model: a Layer, what `attention` gives, a layer file, or a model with the number of its layer.  around: an input X
    (n, d), or the text or ids of a model's window; no token of it moves by more than radius (relative=True: that part of
    the mean token's length).  Without it, `length` tokens in the ball (or domain="sphere") of the radius; of a model also
    domain="norm", the image of the norm in front of the layer, and radius="layernorm".  Without a radius it is that of the
    longest token of the input that is given.  masses=True: the tokens' masses are sought too.

    seconds: stop then, with the best so far; progress(doing, evaluations, best) is told.  run: a run file that keeps finished
    lengths and is continued; out: the layer file that the input is written to (NAME-LENGTH.EXT for `lengths`).  Ctrl-C
    keeps the best so far: in these files, and as `result` of the KeyboardInterrupt.  dtype: of the search, default float32
    for a model and float64 for a layer; the value found is computed in double.

    >>> import numpy as np, lipscope as ls
    >>> rng = np.random.default_rng(0)
    >>> X, W = rng.normal(size=(4, 3)), rng.normal(size=(3, 3, 3))
    >>> found = ls.attack(ls.Layer(*W), around=X, radius=0.1, relative=True)
    >>> found.sigma >= ls.attention(X, *W).sigma()
    True
    """
    if length is not None and lengths is not None:
        raise errors.ArgumentError("length is one, lengths are several: leave out one of them")
    options = {"restarts": restarts, "iterations": iterations, "seed": whole(seed, "seed", 0), "tol": tol,
               "relative": flag(relative, "relative"), "masses": flag(masses, "masses")}
    nothing = text is None and ids is None and pixels is None
    window_of = None if nothing else Source(tokenizer, text, ids, pixels, special, stride, tiled)
    domain = domain if domain is not None else "ball" if around is None and window_of is None else "around"
    options["domain"] = choose(domain, DOMAINS, "domain")
    if isinstance(model, (Layer, Attention)) or around is not None:
        _refuse(window_of, lengths, run, out, radius, domain)
        aim = _layer(model, layer, around, part, seed, head, map, mask)
        return _in_memory(*aim, length, radius, options, dtype, machines.find(device, threads), seconds, progress)
    opened = model if is_layer_file(model) else model_of(model, part, seed)
    if window_of is not None and not isinstance(opened, Model):
        raise errors.ArgumentError("text=, ids= and pixels= are of a model, and a layer file brings its input")
    if pixels is not None and length is None and isinstance(opened, Model):
        length = len(opened.inputs(pixels, layer))  # type: ignore[arg-type]
    listed = _lengths(opened, window_of, length, lengths)
    place = opened.on(device, threads) if isinstance(opened, Model) else machines.find(device, threads)
    with open_place(opened, window_of, layer, place, head=head, map=map, mask=mask, window=window) as found:
        return _by_place(found, listed, lengths is not None, radius, dict(options, seconds=seconds), dtype, run, out, progress)


def _refuse(window: Any, lengths: Any, run: Any, out: Any, radius: Any, domain: str) -> None:
    """What an array or a layer in memory cannot have."""
    if window is not None:
        raise errors.ArgumentError("text=, ids= and pixels= are windows of a model, in the place of around=")
    for name, value in (("lengths", lengths), ("run", run), ("out", out)):
        if value is not None:
            raise errors.ArgumentError(f"{name}= is for a model or a layer file: ls.save(J, file) makes one of a layer")
    if domain == "norm" or isinstance(radius, str):
        raise errors.ArgumentError("domain='norm' and radius='layernorm' are of the norm in front of a model's layer")


def _lengths(opened: Any, window: Optional[Source], length: Optional[int], lengths: Any) -> Optional[List[int]]:
    """None: as many tokens as are given."""
    if lengths is not None:
        return wholes(lengths, "lengths", 1)
    if length is not None:
        return [whole(length, "length")]
    if not isinstance(opened, Model):
        return None
    return [16 if window is None else window.length(opened, None)]


# ---- A layer in memory -----------------------------------------------------------------------


def _in_memory(where: Layer, centre: Optional[Array], given: Optional[Attention], length: Optional[int], radius: Any,
               options: Dict[str, Any], dtype: Any, place: Optional[machines.Device], seconds: Optional[float],
               progress: Any) -> Attack:
    settings = ffi.new("lipsc_attack_settings *")
    lib.lipsc_attack_defaults(settings)
    kept = _aim(settings, where, centre, given, length, radius, options)
    _c.fill(settings, {name: options[name] for name in ("restarts", "iterations", "seed", "tol", "masses", "domain")})
    settings.dtype = precision("float64" if dtype is None else dtype)
    settings.stop, settings.progress = lib.lipsc_py_stop, lib.lipsc_py_attack_progress
    out = ffi.new("lipsc_attack_result *")
    try:
        with machines.pointer(place) as settings.device:
            work = _c.Work(progress=_clock(seconds, progress))
            settings.ctx = work.handle
            status, sentence = _attempt(work, lib.lipsc_attack_run, (where.struct, settings, out),
                                        lambda: _found(out, True) if out.X else None)
        if status not in (lib.LIPSC_OK, lib.LIPSC_E_STOPPED):
            raise _c.failure(status, sentence)
        return _found(out, status == lib.LIPSC_E_STOPPED)
    finally:
        lib.lipsc_attack_result_free(out)
        del kept


def _clock(seconds: Optional[float], progress: Any) -> Any:
    """A progress that ends the search after so many seconds, as soon as some input has a value."""
    until = float("inf") if seconds is None else time.monotonic() + positive(seconds, "seconds")

    def told(doing: str, evaluations: int, best: float) -> None:
        if progress is not None:
            progress(doing, evaluations, best)
        if best > 0 and time.monotonic() > until:
            raise _Late

    return told


class _Late(Exception):
    """The time is over."""


def _attempt(work: _c.Work, function: Any, arguments: Tuple[Any, ...], best: Any) -> Any:
    """A search; an interrupt carries the best so far as its `result`."""
    try:
        with work:
            status, sentence = _c.attempt(function, *arguments)
            if isinstance(work.error, _Late):
                work.error = None
            return status, sentence
    except KeyboardInterrupt as stopped:
        stopped.result = best()  # type: ignore[attr-defined]
        raise


def _layer(model: Any, layer: Optional[int], around: Any, part: str, seed: int, head: Optional[int], map: str,
           mask: Optional[str]) -> Tuple[Layer, Optional[Array], Optional[Attention]]:
    """(the layer, the input to begin from, where its tokens' weights, times and positions stand)."""
    centre = None if around is None else numbers(around, "around", 2)
    if is_layer_file(model):
        from .layers import layer as read
        model = read(model)
    if isinstance(model, (Layer, Attention)):
        if layer is not None or head is not None or mask is not None:
            raise errors.ArgumentError("layer=, head= and mask= choose of a model: this is a layer already")
        given = model if isinstance(model, Attention) else None
        return layer_of(model), given.X if centre is None and given else centre, given
    return model_of(model, part, seed).layer(layer, head=head, map=map, mask=mask), centre, None  # type: ignore[arg-type]


def _aim(settings: Any, where: Layer, X: Optional[Array], given: Optional[Attention], length: Optional[int], radius: Any,
         options: Dict[str, Any]) -> List[Any]:
    """Where inputs are sought; returns what C points to."""
    name, relative = options["domain"], options["relative"]
    near = name == lib.LIPSC_ATTACK_AROUND
    if X is None and (relative or near):
        asked = "domain = 'around'" if near else "relative=True, which counts in lengths of the mean token,"
        raise errors.ArgumentError(f"{asked} needs around=X, or text= or ids= of a model")
    if X is not None and X.shape[1] != where.struct.d:
        raise errors.ArgumentError(f"around has {X.shape[1]} columns and the layer's tokens have width {where.struct.d}")
    settings.n = whole(length, "length") if length is not None else 16 if X is None else len(X)
    kept: List[Any] = [X]
    if X is not None and settings.n > len(X):
        raise errors.ArgumentError(f"length = {settings.n}: the input that is given has {len(X)} tokens")
    if X is not None:
        kept.append(np.ascontiguousarray(X[:settings.n]))
        settings.data = pointer(kept[-1])
        settings.centre = settings.data if near else ffi.NULL
    settings.radius = _radius(radius, relative, near, kept[-1])
    for of in ("weights", "times", "positions"):
        value = getattr(given, of, None)
        if value is None or (of == "weights" and options["masses"]):
            continue
        if len(value) != settings.n:
            raise errors.ArgumentError(f"its {of} are those of {len(value)} tokens, not of length {settings.n}")
        setattr(settings, of, pointer(value))
        kept.append(value)
    return kept


def _radius(radius: Any, relative: int, near: bool, X: Optional[Array]) -> float:
    if radius is None and X is not None and not near:
        return float(np.linalg.norm(X, axis=1).max())
    return positive(radius, "radius") * (float(np.linalg.norm(X, axis=1).mean()) if relative and X is not None else 1.0)


def _found(out: Any, stopped: bool) -> Attack:
    n, d, width = out.n, out.d, out.width
    weights = at(out.weights, n).copy() if out.weights else None
    return Attack(at(out.X, n, d).copy(), at(out.u, n, width).copy(), at(out.v, n, d).copy(), Record.of(out), weights, stopped)


# ---- A model, or a layer file ----------------------------------------------------------------


def _by_place(place: Any, lengths: Optional[List[int]], several: bool, radius: Any, options: Dict[str, Any], dtype: Any,
              run: Optional[Path], out: Optional[Path], progress: Any) -> Any:
    settings = ffi.new("lipsc_attacks_settings *")
    lib.lipsc_attacks_defaults(settings)
    # what nobody named lives in a folder that goes with the result
    folder = tempfile.mkdtemp(prefix="lipscope-") if out is None or run is None else None
    files = _Kept(run if run is not None else os.path.join(str(folder), "attack.db"), folder)
    found = ffi.new("lipsc_attacks *")
    given: List[Any] = []

    def result(stopped: bool) -> Any:
        listed = Attacks(found, stopped, files)
        given.append(listed if several else listed.at(listed.rows[0]["n"]) if listed.rows else None)
        return given[-1]

    try:
        kept = _settings(settings, lengths, radius, options, files.run, dtype)
        kept.append(ffi.new("char[]", path_of(out if out is not None else os.path.join(str(folder), "attack.safetensors"), "out")))
        settings.out = kept[-1]
        settings.stop, settings.progress = lib.lipsc_py_stop, lib.lipsc_py_attacks_progress
        work = _c.Work(progress=progress)
        settings.ctx = work.handle
        status, sentence = _attempt(work, lib.lipsc_place_attack, (place, settings, found), lambda: result(True))
        if status != lib.LIPSC_OK:
            raise _c.failure(status, sentence)
        return result(False)
    finally:
        lib.lipsc_attacks_free(found)
        if not given or given[-1] is None:
            files.drop()


def _settings(settings: Any, lengths: Optional[List[int]], radius: Any, options: Dict[str, Any], run: Path,
              dtype: Any) -> List[Any]:
    """Fills them; returns what they point to."""
    kept: List[Any] = []
    if options.pop("masses"):
        if lengths is not None and len(lengths) > 1:
            raise errors.ArgumentError("masses=True seeks a measure of one number of atoms, `length`: leave out lengths")
        settings.atoms = lengths[0] if lengths else 16
    elif lengths is not None:
        kept.append(ffi.new("size_t[]", lengths))
        settings.lengths.count, settings.lengths.at = len(lengths), kept[-1]
    if isinstance(radius, str):
        if radius != "layernorm":
            raise errors.ArgumentError(f"radius = {radius!r}: a number, or 'layernorm', is needed")
        settings.radius_of_norm = 1
    elif radius is not None:
        settings.radius = real(radius, "radius")
        if settings.radius < 0:
            raise errors.ArgumentError(f"radius = {radius!r}: a number from 0 on is needed")
    if options["seconds"] is not None:
        positive(options["seconds"], "seconds")
    _c.fill(settings, options)
    settings.dtype = -1 if dtype is None else precision(dtype)
    kept.append(ffi.new("char[]", path_of(run, "run")))
    settings.run_file = kept[-1]
    return kept


def _stored(row: Dict[str, Any], stopped: bool, kept: _Kept) -> Attack:
    """An input that was written, with its direction."""
    found = _tensors(row["input"])
    return Attack(found["X"], found["u"], found["v"], Record(**row), found.get("weights"), stopped, kept)


def _tensors(path: str) -> Dict[str, Array]:
    """The doubles of a layer file that the library wrote."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header, data = json.loads(file.read(size)), file.read()
    return {name: np.frombuffer(data[slice(*about["data_offsets"])], dtype="<f8").reshape(about["shape"]).copy()
            for name, about in header.items() if name != "__metadata__" and about["dtype"] == "F64"}
