"""A layer of a model at a window, and every bound there."""
from __future__ import annotations

import os
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

from . import _c, machines, errors
from ._c import Record, ffi, lib
from .arrays import choose, flag, path_of, positive, whole
from .layers import MASKS, Attention, layer as layer_at
from .models import ATTENTION_MAPS, Model, model_of
from .studies import Source
from .tables import Table, above, below, cell


def is_layer_file(model: Any) -> bool:
    """The path of a layer file."""
    return isinstance(model, (str, os.PathLike)) and not lib.lipsc_place_is_model(path_of(model, "the model"))


# ---- Bounds ----------------------------------------------------------------------------------


class Bounds(Table):
    """Every known bound beside the exact value at an input: `rows` (upper ones first, tightest first; refused ones last, with
    the reason), `sigma`, `regime` and `around` where they apply; b["data-joint"] is the row of that bound."""

    _shown = ("name", "kind", "norm", "domain", "value", "ratio", "source")
    _left = ("name", "kind", "norm", "domain", "source")
    _spare = ("norm",)

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
        sides: Dict[str, Callable[[Any], str]] = {"upper": above, "lower": below}
        for line, row in zip(lines, self.rows):
            side = sides.get(row["kind"], cell)
            for place, name in ((4, "value"), (5, "ratio")):
                if row[name] is not None:
                    line[place] = side(row[name])
            if row["value"] is None and row["refused"]:
                line[4], line[6] = "refused", row["refused"]
            elif row["value"] is None and row["log_value"] is not None:
                line[4] = "e^" + side(row["log_value"])
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
           pixels: Any = None, length: Optional[int] = None, window: int = 0, stride: Optional[int] = None, tiled: bool = False,
           head: Optional[int] = None, map: str = "attention", mask: Optional[str] = None, radius: Any = None,
           p: Optional[float] = None, around: Optional[float] = None, relative: bool = False, below: Optional[float] = None,
           special: bool = False, part: str = "whole", seed: int = 1, threads: int = 0, device: Any = None,
           progress: Any = None) -> Bounds:
    """Every bound that is known, beside the exact value: at the input of what `attention` gives, of a layer file, or at the
    window of `length` tokens (default 64, or all ids) of a model's layer.

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
    _agree(around, below, radius, relative, p)
    of = layer_at(model) if is_layer_file(model) else model
    if isinstance(of, Attention):
        with of._handle.use() as attn:
            return _bounds(lib.lipsc_attn_bounds, (attn,), options, progress)
    opened = model_of(of, part, seed)
    source = Source(tokenizer, text, ids, pixels, special, stride, tiled)
    with open_place(opened, source, layer, opened.on(device, threads), length=length, head=head, map=map,
                    mask=mask, window=window) as found:
        return _bounds(lib.lipsc_place_bounds, (found, int(of_norm)), options, progress)


def _agree(around: Any, below: Any, radius: Any, relative: bool, p: Any) -> None:
    """Options that contradict each other."""
    given = [name for name, value in (("around", around), ("below", below), ("radius", radius)) if value is not None]
    if len(given) > 1:
        raise errors.ArgumentError(f"{given[0]} and {given[1]} are two neighbourhoods: leave out one")
    if relative and around is None:
        raise errors.ArgumentError("relative=True goes with around=")
    if p is not None and not p >= 1:
        raise errors.ArgumentError(f"p = {p!r}: a number of at least 1 is needed")


@contextmanager
def open_place(opened: Union[Model, str, "os.PathLike[str]"], source: Optional[Source], layer: Optional[int],
               device: Optional[machines.Device], *, length: Optional[int] = None, head: Optional[int] = None,
               map: str = "attention", mask: Optional[str] = None, window: int = 0) -> Iterator[Any]:
    """A lipsc_place: a layer of a model, with the windows of a source or without; or a layer file."""
    of = ffi.new("lipsc_place_options *")
    lib.lipsc_place_defaults(of)
    model = opened if isinstance(opened, Model) else None
    spec = ffi.new("char[]", path_of(opened.name if isinstance(opened, Model) else opened))
    override = ffi.new("lipsc_mask *", choose(mask, MASKS, "mask")) if mask is not None else ffi.NULL
    of.map, of.mask_override, of.file.need_input = choose(map, ATTENTION_MAPS, "map"), override, 0
    of.head, of.window = -1 if head is None else whole(head, "head", 0), whole(window, "window", 0)
    of.length = 0 if length is None else whole(length, "length")
    if source is not None:
        of.source = source.options[0]
    setattr(of, "from", spec)
    with machines.pointer(device) as of.device:
        if model is None:
            with _opened(of) as place:
                yield place
            return
        of.layer = model.layer_number(layer)
        with model._handle.use() as of.open, _opened(of) as place:
            yield place


@contextmanager
def _opened(of: Any) -> Iterator[Any]:
    out = ffi.new("lipsc_place **")
    _c.call(lib.lipsc_place_open, of, out)
    place = ffi.gc(out[0], lib.lipsc_place_close)
    try:
        yield place
    finally:
        ffi.release(place)
