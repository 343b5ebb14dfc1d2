"""What changes of finite size do, beside what sigma says of small ones."""
from __future__ import annotations

import math
import os
import pathlib
from typing import Any, Dict, List, Optional, Sequence, Union

from . import _c, machines, errors
from ._c import NONE, ffi, lib, text as words_of
from .arrays import flag, numbers, path_of, pointer, whole, wholes
from .models import Tokenizer, model_of
from .studies import Source
from .tables import Table, above, cell


class Perturbation(Table):
    """Changes and what became of them: a row for each, seen by one map (lipsc_perturbed), with the texts of the tokens.

    `step`: the size of the change relative to the input; `ratio`: how far it is stretched; `first`: what the derivative
    predicts; `sigma`: no small change exceeds it; `upper`: proved, no change of that size does; `others`: how far the
    outputs of the other tokens move; `logits`: how far their logits do, through a whole model that predicts tokens."""

    _shown = ("layer", "change", "token", "from", "to", "step", "ratio", "first", "sigma", "upper", "others", "logits")
    _left = ("layer", "change", "from", "to")
    _spare = ("others", "first")

    def __init__(self, rows: List[Dict[str, Any]], found: Sequence[Any] = (), told: Any = None):
        self.rows, self._found, self._told = rows, list(found), told

    def _lines(self) -> List[List[str]]:
        return [[_word(name, row[name]) for name in self._shown] for row in self.rows]

    def report(self, path: Union[str, "os.PathLike[str]"] = "lipscope.html") -> pathlib.Path:
        """One page that needs nothing else, as `lipscope perturb -o` writes it."""
        told, of, rows = self._told, ffi.new("lipsc_perturbed_of *"), ffi.new("lipsc_perturbation_rows *")
        at = ffi.new("lipsc_perturbed[]", [dict(one) for one in self._found])
        kept = [ffi.new("char[]", told["model"]), ffi.new("char[]", told["hash"])]
        rows.at, rows.count = at, len(self._found)
        of.model, of.model_hash, of.n, of.seed = kept[0], kept[1], told["n"], told["seed"]
        words: Optional[Tokenizer] = None
        try:
            words = Tokenizer(os.fsdecode(told["tokenizer"]))
        except errors.LipscopeError:
            pass  # ids as numbers
        if words is None:
            _c.call(lib.lipsc_report_perturbed, rows, of, path_of(path))
        else:
            with words, words._handle.use() as of.tokenizer:
                _c.call(lib.lipsc_report_perturbed, rows, of, path_of(path))
        return pathlib.Path(os.fspath(path))

    def worst(self) -> Dict[str, Any]:
        """The change that is stretched most."""
        return max((row for row in self.rows if row["ratio"] is not None), key=lambda row: float(row["ratio"]))


def _word(name: str, value: Any) -> str:
    if name in ("from", "to"):
        return "" if value is None else repr(value)
    if name == "upper" and value is not None:
        return above(value)
    return "model" if name == "layer" and value is None else cell(value)


def _plain(found: Any) -> Dict[str, Any]:
    """A lipsc_perturbed as it stands."""
    return {name: getattr(found, name) for name in ("change", "layer", "token", "from", "to", "step", "ratio", "first", "sigma",
                                                    "upper", "others", "logits")}


def _row(found: Any, word: Dict[int, str]) -> Dict[str, Any]:
    one = found.token != NONE
    row: Dict[str, Any] = {
        "change": words_of(lib.lipsc_change_name(found.change)), "layer": None if found.layer == NONE else int(found.layer),
        "token": int(found.token) if one else None, "from": word[getattr(found, "from")] if one else None,
        "to": word[found.to] if found.change == lib.LIPSC_CHANGE_SWAP else None}
    for name in ("step", "ratio", "first", "sigma", "upper", "others", "logits"):
        value = float(getattr(found, name))
        row[name] = value if math.isfinite(value) else None
    return row


def perturb(model: Any, tokenizer: Any = None, text: Any = None, *, ids: Any = None, length: int = 32, window: int = 0,
            stride: Optional[int] = None, tiled: bool = False, layers: Optional[Sequence[int]] = None, tokens: Optional[int] = None, neighbours: Optional[int] = None,
            noise: Optional[Sequence[float]] = None, bounds: bool = True, whole_model: bool = True, special: bool = False,
            seed: int = 1, threads: int = 0, device: Any = None, part: str = "whole") -> Perturbation:
    """Swaps tokens for those with the nearest embeddings, adds noise to what a layer's attention receives, leaves tokens out
    and writes them twice, and tells how far the outputs move, beside sigma and the proved bound.

    length, window: of the text; layers: whose attention is looked at (default all); tokens: how many of them are changed;
    neighbours: what each is swapped for; noise: sizes relative to the input; bounds=False: without the proved ones, which
    cost most in long windows; whole_model: all layers together as well.

    >>> import lipscope as ls
    >>> p = ls.perturb("builtin:gpt2-nano", text="builtin:lighthouse", length=8, layers=[0], tokens=1, whole_model=False)
    >>> all(row["upper"] >= row["ratio"] for row in p if row["upper"] is not None)
    True
    """
    opened = model_of(model, part, seed)
    source = Source(tokenizer, text, ids, None, special, stride, tiled)
    window_ids = source.window(opened, length, window)
    settings = ffi.new("lipsc_perturb_settings *")
    lib.lipsc_perturb_defaults(settings)
    kept: List[Any] = []
    if layers is not None:
        kept.append(ffi.new("size_t[]", [opened.layer_number(number) for number in wholes(layers, "layers")]))
        settings.layers, settings.layer_count = kept[-1], len(kept[-1])
    if noise is not None:
        kept.append(numbers([noise] if isinstance(noise, (int, float)) else noise, "noise", 1))
        if not (kept[-1] > 0).all():
            raise errors.ArgumentError(f"noise = {noise!r}: sizes above 0, relative to the input, are needed")
        settings.noise, settings.noise_count = pointer(kept[-1]), len(kept[-1])
    _c.fill(settings, {"tokens": tokens, "neighbours": neighbours, "bounds": flag(bounds, "bounds"), "whole": flag(whole_model, "whole_model"),
                       "seed": whole(seed, "seed", 0)})
    settings.stop = lib.lipsc_py_stop
    out = ffi.new("lipsc_perturbation_rows *")
    place = opened.on(device, threads)
    with opened._handle.use() as found, machines.pointer(place) as settings.device, _c.Work() as work:
        settings.ctx = work.handle
        status, sentence = _c.attempt(lib.lipsc_perturb, found, len(window_ids), ffi.new("uint32_t[]", window_ids), settings,
                                      out)
        if status == lib.LIPSC_E_STOPPED and work.error is not None:
            lib.lipsc_perturbation_free(out)
    if status != lib.LIPSC_OK:
        raise _c.failure(status, sentence)
    try:
        changed = [out.at[i] for i in range(out.count)]
        seen = sorted({i for row in changed for i in (getattr(row, "from"), row.to)})
        word = dict(zip(seen, source.words(opened, seen)))
        with opened._handle.use() as found:
            model_hash = ffi.string(lib.lipsc_model_describe(found).hash)
        spec = ffi.string(source.options.tokenizer) if source.options.tokenizer else path_of(opened.name)
        told = {"model": path_of(opened.name), "hash": model_hash, "n": len(window_ids), "seed": settings.seed,
                "tokenizer": spec, "source": source}
        return Perturbation([_row(row, word) for row in changed], [_plain(row) for row in changed], told)
    finally:
        lib.lipsc_perturbation_free(out)


def nearest(model: Any, token: int, count: int = 5) -> Dict[int, float]:
    """The tokens whose embeddings are nearest to that of an id, with their distances, nearest first.

    >>> import lipscope as ls
    >>> len(ls.nearest("builtin:gpt2-nano", 5, count=3))
    3
    """
    opened, most = model_of(model, "whole", 1), whole(count, "count")
    ids, distance, found = ffi.new("uint32_t[]", most), ffi.new("double[]", most), ffi.new("size_t *")
    number = whole(token, "token", 0)
    if number >= 1 << 32:
        raise errors.ArgumentError(f"token = {number} is no token id")
    with opened._handle.use() as handle:
        _c.call(lib.lipsc_model_nearest, handle, number, most, ids, distance, found)
    return dict(zip(ffi.unpack(ids, found[0]), ffi.unpack(distance, found[0]))) if found[0] else {}
