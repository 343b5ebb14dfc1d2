"""Every bound at an input, and the worst input that a search finds."""
from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import numpy as np

from . import _c, errors
from ._c import Record, ffi, lib
from .arrays import Array, at, numbers, pointer
from .layers import Attention, DTYPES, Layer, whole
from .meanfield import layer_of
from .models import choose
from .studies import Source, _model


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


def _layer(model: Any, layer: Optional[int], head: Optional[int], map: str, part: str, seed: int) -> Any:
    """(struct, what keeps it): a Layer, or a layer of a model."""
    if isinstance(model, (Layer, Attention)):
        found = layer_of(model)
        return found.struct, found
    opened = _model(model, part, seed)
    if layer is None:
        raise errors.ArgumentError(f"layer= is needed, from 0 to {opened.layers - 1}")
    number = whole(layer, "layer", 0)
    if number >= opened.layers:
        raise errors.ArgumentError(f"layer = {number}: the model has layers 0 to {opened.layers - 1}")
    out = ffi.new("lipsc_layer *")
    kinds = {"heads": lib.LIPSC_MAP_HEADS, "attention": lib.LIPSC_MAP_ATTENTION}
    with opened._handle.use() as found:
        _c.call(lib.lipsc_model_layer, found, number, -1 if head is None else whole(head, "head", 0),
                choose(map, kinds, "map"), ffi.NULL, out)
    return out, opened


def attack(model: Any, layer: Optional[int] = None, *, around: Any = None, length: Optional[int] = None,
           radius: Optional[float] = None, relative: bool = False, domain: Optional[str] = None,
           seconds: Optional[float] = None, head: Optional[int] = None, map: str = "attention",
           restarts: Optional[int] = None, iterations: Optional[int] = None, seed: int = 1, dtype: str = "float64",
           tol: Optional[float] = None, threads: int = 0, part: str = "whole",
           progress: Any = None) -> Attack:
    """The input at which sigma of an attention layer is largest, as far as a search finds it.

    model: a Layer, what `attention` gives, or a model with the number of its layer.  around: an input X (n, d), no token
    of which moves by more than radius (relative=True: that part of the mean token's length); without it, `length` tokens
    in the ball (or domain="sphere") of the radius.  seconds: stop then, with the best so far; progress(doing,
    evaluations, best) is told.

    >>> import numpy as np, lipscope as ls
    >>> rng = np.random.default_rng(0)
    >>> X, W = rng.normal(size=(4, 3)), rng.normal(size=(3, 3, 3))
    >>> found = ls.attack(ls.Layer(*W), around=X, radius=0.1, relative=True)
    >>> found.sigma >= ls.attention(X, *W).sigma()
    True
    """
    struct, kept = _layer(model, layer, head, map, part, seed)
    settings = ffi.new("lipsc_attack_settings *")
    lib.lipsc_attack_defaults(settings)
    name = domain if domain is not None else "ball" if around is None else "around"
    settings.domain = choose(name, DOMAINS, "domain")
    if radius is None or not radius > 0 or not np.isfinite(radius):
        raise errors.ArgumentError(f"radius = {radius!r}: a number above 0 is needed")
    if around is not None:
        X = numbers(around, "around", 2)
        if X.shape[1] != struct.d:
            raise errors.ArgumentError(f"around has {X.shape[1]} columns and the layer's tokens have width {struct.d}")
        settings.n, settings.centre, settings.data = X.shape[0], pointer(X), pointer(X)
    elif name == "around":
        raise errors.ArgumentError("domain = 'around' needs around=X")
    else:
        settings.n = whole(16 if length is None else length, "length")
    if relative and around is None:
        raise errors.ArgumentError("relative=True counts in lengths of the tokens of around=X, which is not given")
    scale = float(np.linalg.norm(numbers(around, "around"), axis=1).mean()) if relative else 1.0
    _c.fill(settings, {"radius": radius * scale, "restarts": restarts, "iterations": iterations,
                       "seed": whole(seed, "seed", 0), "tol": tol,
                       "dtype": choose(str(dtype).replace("torch.", ""), DTYPES, "dtype")})
    device = _c.set_threads(settings, whole(threads, "threads", 0))
    settings.stop, settings.progress = lib.lipsc_py_stop, lib.lipsc_py_attack_progress
    out = ffi.new("lipsc_attack_result *")
    with _c.Work(progress=progress, seconds=seconds) as work:
        settings.ctx = work.handle
        status, sentence = _c.attempt(lib.lipsc_attack_run, struct, settings, out)
        if work.error is not None and status == lib.LIPSC_E_STOPPED:
            lib.lipsc_attack_result_free(out)
    del kept, device
    if status not in (lib.LIPSC_OK, lib.LIPSC_E_STOPPED):
        raise _c.failure(status, sentence)
    try:
        return _found(out, status == lib.LIPSC_E_STOPPED)
    finally:
        lib.lipsc_attack_result_free(out)


def _found(out: Any, stopped: bool) -> Attack:
    n, d, width = out.n, out.d, out.width
    weights = at(out.weights, n).copy() if out.weights else None
    return Attack(at(out.X, n, d).copy(), at(out.u, n, width).copy(), at(out.v, n, d).copy(), Record.of(out), weights, stopped)


# ---- Bounds ----------------------------------------------------------------------------------


class Bounds:
    """Every known bound beside the exact value at an input: `rows` (upper ones first, tightest first; refused ones last, with
    the reason), `sigma`, `regime` and `around` where they apply."""

    def __init__(self, out: Any):
        listed = _c.fields(lib.lipsc_bound_fields())
        self.rows = [_c.as_dict(out.at[i], listed) for i in range(out.count)]
        self.sigma, self.n, self.radius = float(out.sigma), int(out.n), float(out.radius)
        self.regime = _c.as_dict(out.regime, _c.fields(lib.lipsc_regime_fields())) if out.has_regime else None
        self.around = _c.as_dict(out.around, _c.fields(lib.lipsc_neighbourhood_fields())) if out.has_around else None
        self.info = Record.of(out.info)

    def __getitem__(self, name: str) -> Any:
        """The row of that bound."""
        for row in self.rows:
            if row["name"] == name:
                return row
        raise errors.ArgumentError(f"there is no bound {name!r}: there are {', '.join(row['name'] for row in self.rows)}")

    def to_pandas(self) -> Any:
        return _c.need("pandas", "to_pandas").DataFrame(self.rows)

    def __repr__(self) -> str:
        lines = [f"sigma {self.sigma:.6g} at n = {self.n}, longest token {self.radius:.4g}"]
        for row in self.rows:
            value = f"{row['value']:.6g}" if row["value"] is not None else (
                "refused: " + row["refused"] if row["refused"] else f"e^{row['log_value']:.4g}" if row["log_value"] is not None
                else "-")
            lines.append(f"{row['kind']:<6} {row['norm']:<9} {row['domain']:<7} {row['name']:<24} {value}")
        return "\n".join(lines)


def _bounds(function: Any, arguments: Tuple[Any, ...], options: Dict[str, Any]) -> Bounds:
    settings = ffi.new("lipsc_bounds_settings *")
    lib.lipsc_bounds_defaults(settings)
    _c.fill(settings, options)
    settings.stop = lib.lipsc_py_stop
    out = ffi.new("lipsc_bounds *")
    with _c.Work() as work:
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
           special: bool = False, part: str = "whole", seed: int = 1) -> Bounds:
    """Every bound that is known, beside the exact value: at the input of what `attention` gives, or at the first window of
    `length` tokens (default 64, or all ids) of a model's layer.

    radius: of the ball (default: the longest token; "layernorm": what the norm in front of the layer allows); around: also over that neighbourhood (relative: in lengths of the mean
    token); below: the largest neighbourhood where sigma is proved to stay below.

    >>> import numpy as np, lipscope as ls
    >>> rng = np.random.default_rng(0)
    >>> b = ls.bounds(ls.attention(rng.normal(size=(4, 3)), *rng.normal(size=(3, 3, 3))))
    >>> b["data-joint"]["value"] >= b.sigma
    True
    """
    options: Dict[str, Any] = {"radius": None if radius == "layernorm" else radius, "p": p, "around": around, "below": below}
    for name, value in options.items():
        if value is not None and not (isinstance(value, (int, float)) and 0 < value < float("inf")):
            raise errors.ArgumentError(f"{name} = {value!r}: a number above 0 is needed")
    options["relative"] = int(relative)
    if isinstance(model, Attention):
        with model._handle.use() as attn:
            return _bounds(lib.lipsc_attn_bounds, (attn,), options)
    opened = _model(model, part, seed)
    source = Source(tokenizer, text, ids, None, special, None, False)
    of = ffi.new("lipsc_place_options *")
    lib.lipsc_place_defaults(of)
    spec = ffi.new("char[]", opened.name.encode())
    if layer is None:
        raise errors.ArgumentError(f"layer= is needed, from 0 to {opened.layers - 1}")
    of.map = choose(map, {"heads": lib.LIPSC_MAP_HEADS, "attention": lib.LIPSC_MAP_ATTENTION}, "map")
    of.layer, of.head = whole(layer, "layer", 0), -1 if head is None else whole(head, "head", 0)
    of.source, of.length = source.options[0], 0 if length is None else whole(length, "length")
    setattr(of, "from", spec)
    out = ffi.new("lipsc_place **")
    with opened._handle.use() as found:
        of.open = found
        _c.call(lib.lipsc_place_open, of, out)
        place = ffi.gc(out[0], lib.lipsc_place_close)
        try:
            return _bounds(lib.lipsc_place_bounds, (place, int(radius == "layernorm")), options)
        finally:
            ffi.release(place)
