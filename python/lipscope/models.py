"""Models: files, names, and transformers objects in memory; their tokenizers; the maps that are differentiated."""
from __future__ import annotations

import json
import os
from types import TracebackType
from typing import Any, Dict, Iterable, List, Optional, Tuple, Type, Union

import numpy as np

from . import _c, errors
from ._c import Record, ffi, lib, text
from .arrays import Array, is_torch, numbers, pointer
from .layers import DTYPES, MASKS, whole
from .operators import Solvable

PARTS = {"whole": lib.LIPSC_PART_WHOLE, "text": lib.LIPSC_PART_TEXT, "vision": lib.LIPSC_PART_VISION}


def _maps() -> Dict[str, int]:
    kinds = ffi.typeof("lipsc_map_kind").elements
    return {text(lib.lipsc_map_name(kind)) or "": kind for kind in sorted(kinds)}


MAPS = _maps()


def choose(value: Any, table: Dict[str, int], name: str) -> int:
    """The number behind a name, or a sentence with all names."""
    if value not in table:
        raise errors.ArgumentError(f"{name} = {value!r}: there are {', '.join(table)}")
    return table[value]


# ---- transformers objects --------------------------------------------------------------------

_STORED = {"torch.float64": "F64", "torch.float32": "F32", "torch.float16": "F16", "torch.bfloat16": "BF16"}


def _strange(model: Any) -> Optional[str]:
    """Why a transformers object does not compute what its configuration and weights say, or None."""
    if not type(model).__module__.startswith("transformers.models."):
        return f"its class {type(model).__name__} is not one of transformers itself"
    for path, module in model.named_modules():
        kind = type(module)
        where = f"module {path or 'itself'}"
        if "parametrizations" in dict(module.named_children()):
            return f"{where} has parametrizations"
        if kind.__module__.split(".")[0] in ("bitsandbytes", "auto_gptq", "gptqmodel", "awq", "quanto", "torchao", "hqq", "eetq"):
            return f"{where} is quantised ({kind.__name__})"
        if kind.__module__.split(".")[0] == "peft":
            return f"{where} has an adapter ({kind.__name__}) that is not merged: merge_and_unload() first"
        if module._forward_hooks or module._forward_pre_hooks or hasattr(module, "_hf_hook"):
            return f"{where} has hooks"
    return None


def _checkpoint(model: Any) -> Dict[str, Any]:
    """The tensors under the names that save_pretrained gives them; transformers joins some of them when it loads."""
    state = dict(model.state_dict())
    try:
        from transformers.core_model_loading import revert_weight_conversion
    except ImportError:
        return state
    try:
        return dict(revert_weight_conversion(model, state))
    except Exception as wrong:
        raise errors.ArgumentError("transformers cannot give the weights back as its checkpoints keep them: "
                                   + (str(wrong).splitlines() or [type(wrong).__name__])[0]) from None


def _configuration(model: Any) -> bytes:
    config = json.loads(model.config.to_json_string())
    config["architectures"] = [type(model).__name__]
    return json.dumps(config).encode()


def _c_tensor(struct: Any, name: str, tensor: Any, keep: List[Any]) -> None:
    if tensor.device.type != "cpu":
        raise errors.DeviceError(f"weight {name} lies on {tensor.device}, and lipscope reads from main memory here: pass "
                                 "model.cpu()")
    if str(tensor.dtype) not in _STORED:
        raise errors.KindError(f"weight {name} is {tensor.dtype}: float64, float32, float16 and bfloat16 are read")
    tensor = tensor.detach()
    shape = ffi.new("size_t[]", list(tensor.shape))
    strides = ffi.new("ptrdiff_t[]", [s * tensor.element_size() for s in tensor.stride()])
    label, kind = ffi.new("char[]", name.encode()), ffi.new("char[]", _STORED[str(tensor.dtype)].encode())
    keep += [tensor, shape, strides, label, kind]
    struct.name, struct.dtype, struct.ndim, struct.shape = label, kind, tensor.ndim, shape
    struct.data, struct.strides = ffi.cast("void *", tensor.data_ptr()), strides


def _from_memory(model: Any, part: int, name: str) -> Tuple[Any, List[Any]]:
    """(pointer, what must stay alive): configuration and weights as they lie in memory."""
    strange = _strange(model)
    if strange:
        raise errors.Refused(f"{name}: {strange}; ls.jacobian(model, path, ids) takes it as it is")
    tensors = _checkpoint(model)
    config, keep = _configuration(model), []  # type: Tuple[bytes, List[Any]]
    structs = ffi.new("lipsc_model_tensor[]", len(tensors))
    for struct, (label, tensor) in zip(structs, tensors.items()):
        _c_tensor(struct, label, tensor, keep)
    out = ffi.new("lipsc_model **")
    try:
        _c.call(lib.lipsc_model_from_memory, name.encode(), config, len(config), part, len(tensors), structs, out)
    except errors.LipscopeError as wrong:
        from .derivatives import attention_modules
        paths = list(attention_modules(model))
        hint = f"; ls.jacobian(model, {paths[0]!r}, ids) works with torch's derivatives" if paths else ""
        raise type(wrong)(f"{wrong}{hint}") from None
    return out[0], keep


# ---- Tokenizers ------------------------------------------------------------------------------


class Tokenizer:
    """Text to ids and back, as Hugging Face's tokenizers do it: of a model's folder, file or name, or a tokenizer.json.

    >>> import lipscope as ls
    >>> t = ls.Tokenizer("builtin:gpt2-nano")
    >>> t.decode(t.encode("The keeper of the lighthouse"))
    'The keeper of the lighthouse'
    """

    def __init__(self, spec: Union[str, "os.PathLike[str]"]):
        out = ffi.new("lipsc_tokenizer **")
        _c.call(lib.lipsc_tokenizer_open, os.fspath(spec).encode(), out)
        self._handle = _c.Handle(out[0], lib.lipsc_tokenizer_free, "the tokenizer")

    def encode(self, words: Union[str, bytes], special: bool = False) -> List[int]:
        if not isinstance(words, (str, bytes)):
            raise errors.KindError(f"the text is a {type(words).__name__}, and a string is needed")
        given = words.encode("utf-8", "surrogatepass") if isinstance(words, str) else words
        ids, count = ffi.new("uint32_t **"), ffi.new("size_t *")
        with self._handle.use() as tokenizer:
            _c.call(lib.lipsc_tokenizer_encode, tokenizer, given, len(given), int(special), ids, count)
        found = ffi.gc(ids[0], lib.lipsc_release)
        return list(ffi.unpack(found, count[0])) if count[0] else []

    def decode(self, ids: Iterable[int], skip_special: bool = False) -> str:
        given = token_ids(ids)
        out, size = ffi.new("char **"), ffi.new("size_t *")
        with self._handle.use() as tokenizer:
            _c.call(lib.lipsc_tokenizer_decode, tokenizer, given, len(given), int(skip_special), out, size)
        found = ffi.gc(out[0], lib.lipsc_release)
        return bytes(ffi.buffer(found, size[0])).decode()

    def close(self) -> None:
        self._handle.close()


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


class Model:
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
        out = ffi.new("lipsc_model **")
        if isinstance(model, (str, os.PathLike)):
            self.name = os.fspath(model)
            _c.call(lib.lipsc_model_open_part, self.name.encode(), which, whole(seed, "seed", 0), out)
            found = out[0]
        elif hasattr(model, "state_dict") and hasattr(model, "config"):
            self.name = getattr(model.config, "_name_or_path", "") or type(model).__name__
            found, kept = _from_memory(model, which, self.name)
        else:
            raise errors.KindError(f"a {type(model).__name__} is no model: a name, a folder or a transformers object is "
                                   "needed")
        self._handle = _c.Handle(found, lib.lipsc_model_free, "the model", kept)
        self.info = Record.of(lib.lipsc_model_describe(found))
        self.layers = int(self.info.layers)

    def jacobian(self, ids: Any, layer: Optional[int] = None, *, map: str = "attention", head: Optional[int] = None,
                 mask: Optional[str] = None, dtype: str = "float64", threads: int = 0) -> Map:
        """The Jacobian of a map of the model at the activations of a window of token ids, or for a model of images at the
        pixels (channels, height, width).

        map: what is differentiated: "heads", "attention", "norm-attention", "residual", "block", or "model", which has no
        layer.  head: that query head alone.  mask: another mask than the model's."""
        return Map(self, ids, layer, map, head, mask, dtype, threads)

    def close(self) -> None:
        """Frees the model now, and closes its Jacobians."""
        self._handle.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        i = self.info
        mask = next((name for name, value in MASKS.items() if value == i.mask), "none")
        return (f"<Model {self.name}: {i.architecture}, {i.layers} layers, d = {i.d}, {i.heads} heads"
                + (f", {mask}" if mask != "none" else "") + ">")


def _activations(model: Any, ids: Any, precision: int, through: int) -> Any:
    """One window, or one image, run through the model."""
    out = ffi.new("lipsc_acts **")
    if lib.lipsc_model_describe(model).has_pixels:
        pixels = numbers(ids, "the image", 3)
        shape = ffi.new("size_t[3]", pixels.shape)
        _c.call(lib.lipsc_acts_new_pixels, model, precision, ffi.NULL, shape, pointer(pixels), through, out)
    else:
        given = token_ids(ids)
        _c.call(lib.lipsc_acts_new, model, precision, ffi.NULL, len(given), given, through, out)
    return ffi.gc(out[0], lib.lipsc_acts_free)


class Map(Solvable):
    """The Jacobian of a map of a model at a window; see `Model.jacobian`."""

    def __init__(self, model: Model, ids: Any, layer: Optional[int], map: str, head: Optional[int], mask: Optional[str],
                 dtype: str, threads: int):
        kind = choose(map, MAPS, "map")
        precision = choose(str(dtype).replace("torch.", ""), DTYPES, "dtype")
        if layer is None and kind != lib.LIPSC_MAP_MODEL:
            raise errors.ArgumentError(f"map = {map!r} needs a layer, from 0 to {model.layers - 1}")
        number = 0 if layer is None else whole(layer, "layer", 0)
        if number >= model.layers:
            raise errors.ArgumentError(f"layer = {number}: the model has layers 0 to {model.layers - 1}")
        self._model, self.map, self.layer = model, map, layer
        options = ffi.new("lipsc_map_options *", {"map": kind, "layer": number, "head": -1 if head is None else
                                                  whole(head, "head", 0), "dtype": precision})
        device = _c.set_threads(options, whole(threads, "threads", 0))
        override = ffi.new("lipsc_mask *", choose(mask, MASKS, "mask")) if mask is not None else ffi.NULL
        options.mask_override = override
        out = ffi.new("lipsc_map **")
        with model._handle.use() as found:
            acts = _activations(found, ids, precision, 0 if kind == lib.LIPSC_MAP_MODEL else number + 1)
            n = int(lib.lipsc_acts_length(acts))
            _c.call(lib.lipsc_map_new, found, acts, options, out)
        self._handle = _c.Handle(out[0], lib.lipsc_map_free, "the map", model._handle, device)
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

    def upper(self) -> Record:
        """A proved upper bound of sigma of the attention inside, at this window (lipsc_upper)."""
        out = ffi.new("lipsc_upper *")
        with self._handle.use() as found:
            attn = lib.lipsc_map_attn(found)
            if not attn or self.map not in ("heads", "attention"):
                raise errors.Refused(f"there is no such bound for the map {self.map}: certify it")
            _c.call(lib.lipsc_attn_upper, attn, out)
        return Record.of(out)

    def close(self) -> None:
        self._handle.close()
