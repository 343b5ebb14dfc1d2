"""Models: files, names, and transformers objects in memory; their tokenizers; the maps that are differentiated."""
from __future__ import annotations

import os
from typing import Any, Dict, Iterable, List, Optional, Tuple, Union

import numpy as np

from . import _c, machines, errors
from ._c import Record, ffi, lib, text
from .arrays import Array, at, choose, device_of, flag, is_torch, numbers, path_of, pointer, whole
from .layers import MASKS, Layer, precision
from .objects import from_memory, unwrapped
from .operators import Solvable
from .tables import plain

PARTS = {"whole": lib.LIPSC_PART_WHOLE, "text": lib.LIPSC_PART_TEXT, "vision": lib.LIPSC_PART_VISION}


def _maps() -> Dict[str, int]:
    kinds = ffi.typeof("lipsc_map_kind").elements
    return {text(lib.lipsc_map_name(kind)) or "": kind for kind in sorted(kinds)}


MAPS = _maps()
ATTENTION_MAPS = {name: MAPS[name] for name in ("heads", "attention")}


# ---- Tokenizers ------------------------------------------------------------------------------


class Tokenizer(_c.Owner):
    """Text to ids and back, as Hugging Face's tokenizers do it: of a model's folder, file or name, or a tokenizer.json.

    >>> import lipscope as ls
    >>> t = ls.Tokenizer("builtin:gpt2-nano")
    >>> t.decode(t.encode("The keeper of the lighthouse"))
    'The keeper of the lighthouse'
    """

    def __init__(self, spec: Union[str, "os.PathLike[str]"]):
        out = ffi.new("lipsc_tokenizer **")
        _c.call(lib.lipsc_tokenizer_open, path_of(spec, "the tokenizer"), out)
        self._handle = _c.Handle(out[0], lib.lipsc_tokenizer_free, "the tokenizer")

    def encode(self, words: Union[str, bytes], special: bool = False) -> List[int]:
        if not isinstance(words, (str, bytes)):
            raise errors.KindError(f"the text is a {type(words).__name__}, and a string is needed")
        given = words.encode("utf-8", "surrogatepass") if isinstance(words, str) else words
        ids, count = ffi.new("uint32_t **"), ffi.new("size_t *")
        with self._handle.use() as tokenizer:
            _c.call(lib.lipsc_tokenizer_encode, tokenizer, given, len(given), flag(special, "special"), ids, count)
        found = ffi.gc(ids[0], lib.lipsc_release)
        return list(ffi.unpack(found, count[0])) if count[0] else []

    def decode(self, ids: Iterable[int], skip_special: bool = False) -> str:
        given = token_ids(ids)
        out, size = ffi.new("char **"), ffi.new("size_t *")
        with self._handle.use() as tokenizer:
            _c.call(lib.lipsc_tokenizer_decode, tokenizer, given, len(given), flag(skip_special, "skip_special"), out, size)
        found = ffi.gc(out[0], lib.lipsc_release)
        return bytes(ffi.buffer(found, size[0])).decode()

    def __len__(self) -> int:
        """The largest id plus one: the rows that an embedding must have."""
        with self._handle.use() as tokenizer:
            return int(lib.lipsc_tokenizer_vocab_size(tokenizer))


def token_ids(ids: Any) -> Any:
    """A C array of ids from a list, an array or a tensor of whole numbers."""
    if is_torch(ids):
        ids = ids.detach().cpu().numpy()
    array = np.asarray(ids)
    if array.ndim == 2 and array.shape[0] == 1:
        array = array[0]
    if array.ndim != 1 or array.dtype.kind not in "iu":
        if array.size or array.ndim != 1:
            raise errors.KindError(f"ids of kind {array.dtype} and shape {array.shape}: one row of whole numbers is needed")
    if array.size == 0:
        raise errors.ArgumentError("there are no token ids")
    if array.min() < 0 or array.max() >= 1 << 32:
        raise errors.ArgumentError(f"{int(array.min())} .. {int(array.max())} are no token ids")
    return ffi.new("uint32_t[]", array.tolist())


# ---- Models ----------------------------------------------------------------------------------


class Model(_c.Owner):
    """A transformer: a folder, a file, a name of the hub's cache, "random:gpt2", "builtin:gpt2-nano", or a transformers
    object in memory, whose weights are used where they lie and must not change meanwhile.

    >>> import lipscope as ls
    >>> m = ls.Model("builtin:gpt2-nano")
    >>> m
    <Model builtin:gpt2-nano: gpt2, 6 layers, d = 192, 6 heads, causal>
    >>> J = m.jacobian(range(16), layer=3)
    >>> J.shape, J.sigma() > 0
    ((3072, 3072), True)
    """

    def __init__(self, model: Any, *, part: str = "whole", seed: int = 1):
        which = choose(part, PARTS, "part")
        kept: List[Any] = []
        self._home: Optional[str] = None  # where it is worked with unless somebody says otherwise
        out = ffi.new("lipsc_model **")
        model = unwrapped(model)
        if isinstance(model, (str, os.PathLike)):
            self.name = os.fspath(model)
            _c.call(lib.lipsc_model_open_part, path_of(model, "the model"), which, whole(seed, "seed", 0), out)
            found = out[0]
        elif hasattr(model, "state_dict") and hasattr(model, "config") and not isinstance(model, type):
            self._home = device_of(next(iter(model.parameters()), None))
            self.name = getattr(model.config, "_name_or_path", "") or type(model).__name__
            found, kept = from_memory(model, which, self.name)
        else:
            raise errors.KindError(f"a {type(model).__name__} is no model: a name, a folder or a transformers object is "
                                   "needed")
        self._handle = _c.Handle(found, lib.lipsc_model_free, "the model", kept)
        self._devices: Dict[Any, Optional[machines.Device]] = {}
        self.info = Record.of(lib.lipsc_model_describe(found))
        self.layers = int(self.info.layers)

    def jacobian(self, ids: Any, layer: Optional[int] = None, *, map: str = "attention", head: Optional[int] = None,
                 mask: Optional[str] = None, dtype: Any = "float64", threads: int = 0, device: Any = None) -> Map:
        """The Jacobian of a map of the model at the activations of a window of token ids, or for a model of images at the
        pixels (channels, height, width).

        map: what is differentiated: "heads", "attention", "norm-attention", "residual", "block", or "model", which has no
        layer.  head: that query head alone.  mask: another mask than the model's."""
        return Map(self, ids, layer, map, head, mask, dtype, threads, device)

    def inputs(self, ids: Any, layer: int, *, dtype: Any = "float64") -> Array:
        """What the attention of a layer receives in a forward pass on a window: X (n, d), for instance for `attack`.

        >>> import lipscope as ls
        >>> ls.Model("builtin:gpt2-nano").inputs(range(16), layer=3).shape
        (16, 192)
        """
        number = self.layer_number(layer)
        with self._handle.use() as found:
            acts = _activations(found, ids, precision(dtype), number + 1, ffi.NULL)
            return at(lib.lipsc_acts_attention_input(acts, number), int(lib.lipsc_acts_length(acts)), int(self.info.d)).copy()

    def layer(self, layer: int, *, head: Optional[int] = None, map: str = "attention", mask: Optional[str] = None) -> Layer:
        """A layer as `attention`, `attack`, `split` and the like take it, copied: map "heads" or "attention"; head: that
        query head alone; mask: another than the model's.

        >>> import lipscope as ls
        >>> ls.Model("builtin:gpt2-nano").layer(3)
        <Layer d = 192, 6 heads of 32, causal>
        """
        out, kept = ffi.new("lipsc_layer *"), self._layer(layer, head, map, mask)
        with self._handle.use() as found:
            _c.call(lib.lipsc_model_layer, found, *kept, out)
            copied = Layer._of(out[0])
            lib.lipsc_model_let_go(found, kept[0])
        return copied

    def _layer(self, layer: Any, head: Optional[int], map: str, mask: Optional[str]) -> Tuple[Any, ...]:
        override = ffi.NULL if mask is None else ffi.new("lipsc_mask *", choose(mask, MASKS, "mask"))
        return (self.layer_number(layer), -1 if head is None else whole(head, "head", 0), choose(map, ATTENTION_MAPS, "map"),
                override)

    def layer_number(self, layer: Any) -> int:
        """The number of a layer that is there, or a sentence."""
        if layer is None:
            raise errors.ArgumentError(f"layer= is needed, from 0 to {self.layers - 1}")
        number = whole(layer, "layer", 0)
        if number >= self.layers:
            raise errors.ArgumentError(f"layer = {number}: the model has layers 0 to {self.layers - 1}")
        return number

    def on(self, device: Any, threads: int) -> Optional[machines.Device]:
        """The device that the model is worked with on, which outlives it: one for each name."""
        threads = whole(threads, "threads", 0)
        device = self._home if device is None and not threads else device
        if device is None and not threads:
            return None
        key = device if isinstance(device, machines.Device) else (str(device), threads)
        if key not in self._devices:
            found = machines.find(device, threads)
            self._handle.stand_on(found._handle if found else None)
            self._devices[key] = found
        return self._devices[key]

    def __repr__(self) -> str:
        i = self.info
        mask = next((name for name, value in MASKS.items() if value == i.mask), "none")
        return (f"<Model {plain(self.name)}: {i.architecture}, {i.layers} layers, d = {i.d}, {i.heads} heads"
                + (f", {mask}" if mask != "none" else "") + ">")


def model_of(model: Any, part: str, seed: int) -> Model:
    """A Model as it is, everything else opened."""
    return model if isinstance(model, Model) else Model(model, part=part, seed=seed)


def _activations(model: Any, ids: Any, kind: int, through: int, device: Any) -> Any:
    """One window, or one image, run through the model."""
    out = ffi.new("lipsc_acts **")
    if lib.lipsc_model_describe(model).has_pixels:
        pixels = numbers(ids, "the image", 3)
        shape = ffi.new("size_t[3]", pixels.shape)
        _c.call(lib.lipsc_acts_new_pixels, model, kind, device, shape, pointer(pixels), through, out)
    else:
        given = token_ids(ids)
        _c.call(lib.lipsc_acts_new, model, kind, device, len(given), given, through, out)
    return ffi.gc(out[0], lib.lipsc_acts_free)


class Map(Solvable, _c.Owner):
    """The Jacobian of a map of a model at a window; see `Model.jacobian`."""

    def __init__(self, model: Model, ids: Any, layer: Optional[int], map: str, head: Optional[int], mask: Optional[str],
                 dtype: Any, threads: int, device: Any):
        kind = choose(map, MAPS, "map")
        exact = precision(dtype)
        if layer is None and kind != lib.LIPSC_MAP_MODEL:
            raise errors.ArgumentError(f"map = {map!r} needs a layer, from 0 to {model.layers - 1}")
        number = 0 if layer is None else model.layer_number(layer)
        self._model, self.map, self.layer = model, map, layer
        options = ffi.new("lipsc_map_options *", {"map": kind, "layer": number, "head": -1 if head is None else
                                                  whole(head, "head", 0), "dtype": exact})
        override = ffi.new("lipsc_mask *", choose(mask, MASKS, "mask")) if mask is not None else ffi.NULL
        options.mask_override = override
        out = ffi.new("lipsc_map **")
        place = model.on(device, threads)
        with model._handle.use() as found, machines.pointer(place) as there:
            options.device = there
            acts = _activations(found, ids, exact, 0 if kind == lib.LIPSC_MAP_MODEL else number + 1, there)
            n = int(lib.lipsc_acts_length(acts))
            _c.call(lib.lipsc_map_new, found, acts, options, out)
        self._handle = _c.Handle(out[0], lib.lipsc_map_free, "the map", model._handle, *machines.handle(place),
                                 turn=machines.turn(place))
        op = lib.lipsc_map_op(out[0])
        self.in_shape, self.out_shape = (n, op.n // n), (n, op.m // n)

    def _products(self, trans: int, x: Array) -> Array:
        x = np.ascontiguousarray(x)
        y = np.zeros((len(x), self.shape[trans]))
        with self._handle.use() as found:
            op = lib.lipsc_map_op(found)
            if op.apply(op.ctx, trans, len(x), pointer(x), pointer(y)):
                raise errors.NotFinite("a NaN or an infinity appeared in a product")
        return y

    def _solve(self, settings: Any, values: Array, u: Array, v: Array, info: Any, work: _c.Work) -> int:
        with self._handle.use() as found:
            status, _ = _c.attempt(lib.lipsc_map_sigma, found, settings, pointer(values), pointer(u), pointer(v), info,
                                   err=False)
        return int(status)

    def _prove(self, v: Array, settings: Any, out: Any, work: _c.Work, lower: float) -> Any:
        with self._handle.use() as found:
            return _c.attempt(lib.lipsc_map_certify, found, pointer(v), settings, out)

    def released(self) -> float:
        """What the paper's released scripts return in place of sigma (docs/maths.md 8)."""
        out = ffi.new("double *")
        with self._handle.use() as found:
            _c.call(lib.lipsc_map_released, found, out, err=False)
        return float(out[0])

    def upper(self) -> Record:
        """A proved upper bound of sigma of the attention inside, at this window (lipsc_upper)."""
        out = ffi.new("lipsc_upper *")
        with self._handle.use() as found:
            attn = lib.lipsc_map_attn(found)
            if not attn or self.map not in ("heads", "attention"):
                raise errors.Refused(f"there is no such bound for the map {self.map}: certify it")
            _c.call(lib.lipsc_attn_upper, attn, out)
        return Record.of(out)
