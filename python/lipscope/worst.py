"""Every bound at an input, and the worst input that a search finds."""
from __future__ import annotations

import os
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Optional, Tuple

import numpy as np

from . import _c, machines, errors
from ._c import Record, ffi, lib
from .arrays import Array, at, choose, flag, numbers, path_of, pointer, positive, whole
from .layers import Attention, Layer, layer, layer_of, precision
from .models import ATTENTION_MAPS, Model, model_of
from .studies import Source
from .tables import Table


class Attack:
    """What `attack` found: the input X (n, d) with `sigma` there, a lower bound of the largest over the domain, and `upper`,
    proved for the whole domain (None: nothing is).  `info` has the fields of lipsc_attack_result; u, v reach sigma."""

    def __init__(self, X: Array, u: Array, v: Array, info: Record, weights: Optional[Array], stopped: bool):
        self.X, self.u, self.v, self.info, self.weights, self.stopped = X, u, v, info, weights, stopped
        self.sigma = float(info.sigma)
        self.upper: Optional[float] = float(info.upper) if np.isfinite(info.upper) else None

    def __repr__(self) -> str:
        proved = f", nowhere above {self.upper:.6g}" if self.upper is not None else ""
        return (f"Attack(sigma {self.sigma:.6g} at n = {len(self.X)}, from {self.info.start}{proved}; "
                f"{self.info.evaluations} inputs tried{', stopped' if self.stopped else ''})")


DOMAINS = {"ball": lib.LIPSC_ATTACK_BALL, "sphere": lib.LIPSC_ATTACK_SPHERE, "around": lib.LIPSC_ATTACK_AROUND}


def given(model: Any) -> Any:
    """A layer file, by its path, as what `layer` makes of it; everything else as it is."""
    if isinstance(model, (str, os.PathLike)) and not lib.lipsc_place_is_model(path_of(model, "the model")):
        return layer(model)
    return model


def attack(model: Any, layer: Optional[int] = None, *, around: Any = None, length: Optional[int] = None,
           radius: Optional[float] = None, relative: bool = False, domain: Optional[str] = None,
           seconds: Optional[float] = None, tokenizer: Any = None, text: Any = None, ids: Any = None, masses: bool = False,
           head: Optional[int] = None, map: str = "attention", restarts: Optional[int] = None,
           iterations: Optional[int] = None, seed: int = 1, dtype: Any = "float64", tol: Optional[float] = None,
           threads: int = 0, device: Any = None, part: str = "whole", progress: Any = None) -> Attack:
    """The input at which sigma of an attention layer is largest, as far as a search finds it.

    model: a Layer, what `attention` gives, a layer file, or a model with the number of its layer.  around: an input X
    (n, d), or the text or ids of a model's window; no token of it moves by more than radius (relative=True: that part of
    the mean token's length).  Without it, `length` tokens in the ball (or domain="sphere") of the radius; masses=True:
    their masses are sought too.  seconds: stop then, with the best so far; progress(doing, evaluations, best) is told.

    >>> import numpy as np, lipscope as ls
    >>> rng = np.random.default_rng(0)
    >>> X, W = rng.normal(size=(4, 3)), rng.normal(size=(3, 3, 3))
    >>> found = ls.attack(ls.Layer(*W), around=X, radius=0.1, relative=True)
    >>> found.sigma >= ls.attention(X, *W).sigma()
    True
    """
    of = given(model)
    opened = None if isinstance(of, (Layer, Attention)) else model_of(of, part, seed)
    where = layer_of(of) if opened is None else opened.layer(layer, head=head, map=map)  # type: ignore[arg-type]
    if text is not None or ids is not None:
        if opened is None or around is not None:
            raise errors.ArgumentError("text= and ids= are windows of a model, in the place of around=")
        source = Source(tokenizer, text, ids, None, False, None, False)
        around = opened.inputs(source.window(opened, length), layer)  # type: ignore[arg-type]
    settings = ffi.new("lipsc_attack_settings *")
    lib.lipsc_attack_defaults(settings)
    X = None if around is None else numbers(around, "around", 2)
    _domain(settings, where, X, domain, length, radius, relative)
    _c.fill(settings, {"restarts": restarts, "iterations": iterations, "seed": whole(seed, "seed", 0), "tol": tol,
                       "masses": flag(masses, "masses"), "dtype": precision(dtype)})
    settings.stop, settings.progress = lib.lipsc_py_stop, lib.lipsc_py_attack_progress
    out = ffi.new("lipsc_attack_result *")
    place = machines.find(device, threads)
    with _c.Work(progress=progress, seconds=seconds) as work, machines.pointer(place) as settings.device:
        settings.ctx = work.handle
        status, sentence = _c.attempt(lib.lipsc_attack_run, where.struct, settings, out)
        if work.error is not None and status == lib.LIPSC_E_STOPPED:
            lib.lipsc_attack_result_free(out)
    if status not in (lib.LIPSC_OK, lib.LIPSC_E_STOPPED):
        raise _c.failure(status, sentence)
    try:
        return _found(out, status == lib.LIPSC_E_STOPPED)
    finally:
        lib.lipsc_attack_result_free(out)


def _domain(settings: Any, where: Layer, X: Optional[Array], domain: Optional[str], length: Optional[int],
            radius: Optional[float], relative: bool) -> None:
    """Where inputs are sought."""
    name = domain if domain is not None else "ball" if X is None else "around"
    settings.domain, settings.radius = choose(name, DOMAINS, "domain"), positive(radius, "radius")
    relative = bool(flag(relative, "relative"))
    if X is None and (relative or name == "around"):
        asked = "domain = 'around'" if name == "around" else "relative=True, which counts in lengths of the mean token,"
        raise errors.ArgumentError(f"{asked} needs around=X, or text= or ids= of a model")
    if X is None:
        settings.n = whole(16 if length is None else length, "length")
        return
    if X.shape[1] != where.struct.d:
        raise errors.ArgumentError(f"around has {X.shape[1]} columns and the layer's tokens have width {where.struct.d}")
    settings.n, settings.centre, settings.data = X.shape[0], pointer(X), pointer(X)
    if relative:
        settings.radius *= float(np.linalg.norm(X, axis=1).mean())


def _found(out: Any, stopped: bool) -> Attack:
    n, d, width = out.n, out.d, out.width
    weights = at(out.weights, n).copy() if out.weights else None
    return Attack(at(out.X, n, d).copy(), at(out.u, n, width).copy(), at(out.v, n, d).copy(), Record.of(out), weights, stopped)


# ---- Bounds ----------------------------------------------------------------------------------


class Bounds(Table):
    """Every known bound beside the exact value at an input: `rows` (upper ones first, tightest first; refused ones last, with
    the reason), `sigma`, `regime` and `around` where they apply; b["data-joint"] is the row of that bound."""

    _shown = ("name", "kind", "norm", "domain", "value", "ratio", "source")
    _left = ("name", "kind", "norm", "domain", "source")

    def __init__(self, out: Any):
        listed = _c.fields(lib.lipsc_bound_fields())
        self.rows = [_c.as_dict(out.at[i], listed) for i in range(out.count)]
        self.sigma, self.n, self.radius = float(out.sigma), int(out.n), float(out.radius)
        self.regime = _c.as_dict(out.regime, _c.fields(lib.lipsc_regime_fields())) if out.has_regime else None
        self.around = _c.as_dict(out.around, _c.fields(lib.lipsc_neighbourhood_fields())) if out.has_around else None
        self.info = Record.of(out.info)

    def __getitem__(self, name: Any) -> Any:
        """The row of that bound."""
        if not isinstance(name, str):
            return super().__getitem__(name)
        for row in self.rows:
            if row["name"] == name:
                return row
        raise errors.ArgumentError(f"there is no bound {name!r}: there are {', '.join(row['name'] for row in self.rows)}")

    def _title(self) -> List[str]:
        return [f"sigma {self.sigma:.6g} at n = {self.n}, longest token {self.radius:.4g}"]

    def _lines(self) -> List[List[str]]:
        """Values beyond a double as powers of e, refusals in the place of the source."""
        lines = super()._lines()
        for line, row in zip(lines, self.rows):
            if row["value"] is None and row["refused"]:
                line[4], line[6] = "refused", row["refused"]
            elif row["value"] is None and row["log_value"] is not None:
                line[4] = f"e^{row['log_value']:.4g}"
        return lines


def _bounds(function: Any, arguments: Tuple[Any, ...], options: Dict[str, Any], progress: Any) -> Bounds:
    settings = ffi.new("lipsc_bounds_settings *")
    lib.lipsc_bounds_defaults(settings)
    _c.fill(settings, options)
    settings.stop, settings.progress = lib.lipsc_py_stop, lib.lipsc_py_progress
    out = ffi.new("lipsc_bounds *")
    with _c.Work(progress=progress) as work:
        settings.ctx = work.handle
        status, sentence = _c.attempt(function, *arguments, settings, out)
    if status not in (lib.LIPSC_OK, lib.LIPSC_E_NOCONV):
        raise _c.failure(status, sentence)
    try:
        result = Bounds(out)
    finally:
        lib.lipsc_bounds_free(out)
    if status != lib.LIPSC_OK:
        raise _c.failure(status, sentence, result)
    return result


def bounds(model: Any, layer: Optional[int] = None, *, tokenizer: Any = None, text: Any = None, ids: Any = None,
           length: Optional[int] = None, head: Optional[int] = None, map: str = "attention", radius: Any = None,
           p: Optional[float] = None, around: Optional[float] = None, relative: bool = False, below: Optional[float] = None,
           special: bool = False, part: str = "whole", seed: int = 1, threads: int = 0, device: Any = None,
           progress: Any = None) -> Bounds:
    """Every bound that is known, beside the exact value: at the input of what `attention` gives, of a layer file, or at the
    first window of `length` tokens (default 64, or all ids) of a model's layer.

    radius: of the ball (default: the longest token; "layernorm": what the norm in front of the layer allows); around: also
    over that neighbourhood (relative: in lengths of the mean token); below: the largest neighbourhood where sigma is
    proved to stay below.

    >>> import numpy as np, lipscope as ls
    >>> rng = np.random.default_rng(0)
    >>> b = ls.bounds(ls.attention(rng.normal(size=(4, 3)), *rng.normal(size=(3, 3, 3))))
    >>> b["data-joint"]["value"] >= b.sigma
    True
    """
    of_norm = isinstance(radius, str) and radius == "layernorm"
    options: Dict[str, Any] = {"radius": None if of_norm else radius, "p": p, "around": around, "below": below}
    for name, value in options.items():
        if value is not None:
            positive(value, name)
    options["relative"] = flag(relative, "relative")
    of = given(model)
    if isinstance(of, Attention):
        with of._handle.use() as attn:
            return _bounds(lib.lipsc_attn_bounds, (attn,), options, progress)
    opened = model_of(of, part, seed)
    source = Source(tokenizer, text, ids, None, special, None, False)
    with open_place(opened, source, layer, length, head, map, opened.on(device, threads)) as found:
        return _bounds(lib.lipsc_place_bounds, (found, int(of_norm)), options, progress)


@contextmanager
def open_place(opened: Model, source: Source, layer: Optional[int], length: Optional[int], head: Optional[int], map: str,
               device: Optional[machines.Device], window: int = 0) -> Iterator[Any]:
    """A lipsc_place: a layer of a model at a window."""
    of = ffi.new("lipsc_place_options *")
    lib.lipsc_place_defaults(of)
    spec = ffi.new("char[]", path_of(opened.name))
    of.map = choose(map, ATTENTION_MAPS, "map")
    of.layer, of.head = opened.layer_number(layer), -1 if head is None else whole(head, "head", 0)
    of.source, of.length = source.options[0], 0 if length is None else whole(length, "length")
    of.window = whole(window, "window", 0)
    setattr(of, "from", spec)
    out = ffi.new("lipsc_place **")
    with opened._handle.use() as found, machines.pointer(device) as of.device:
        of.open = found
        _c.call(lib.lipsc_place_open, of, out)
        place = ffi.gc(out[0], lib.lipsc_place_close)
        try:
            yield place
        finally:
            ffi.release(place)
