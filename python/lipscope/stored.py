"""Layers of models as files, and stored values confirmed without the solver."""
from __future__ import annotations

import os
import pathlib
from typing import Any, Dict, List, Optional, Union

from . import _c, errors
from ._c import Record, ffi, lib
from .arrays import choose, flag, path_of, real, whole
from .layers import Attention
from .models import PARTS, model_of
from .results import ROW, Row
from .studies import Source
from .tables import Table
from .places import open_place


def export(model: Any, path: Union[str, "os.PathLike[str]"], layer: int, *, tokenizer: Any = None, text: Any = None,
           ids: Any = None, pixels: Any = None, length: Optional[int] = None, window: int = 0, stride: Optional[int] = None, tiled: bool = False, map: str = "attention",
           head: Optional[int] = None, special: bool = False, part: str = "whole", seed: int = 1, threads: int = 0,
           device: Any = None) -> pathlib.Path:
    """A layer of a model with its input on a window, as a layer file that `layer`, `bounds` and the command line read.

    >>> import lipscope as ls, tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = ls.export("builtin:gpt2-nano", os.path.join(folder, "l3.safetensors"), layer=3, ids=range(8))
    ...     ls.layer(path)
    <Attention 1536 x 1536: (8, 192) -> (8, 192)>
    """
    opened = model_of(model, part, seed)
    source = Source(tokenizer, text, ids, pixels, special, stride, tiled)
    with open_place(opened, source, layer, opened.on(device, threads), length=length, head=head, map=map, window=window) as place:
        _c.call(lib.lipsc_place_export, place, path_of(path))
    return pathlib.Path(os.fspath(path))


class Tensors(Table):
    """What a file or a model stores: `rows` with tensor, dtype, shape, bytes and file."""

    _shown = ("tensor", "dtype", "shape", "bytes", "file")
    _left = ("tensor", "dtype", "shape", "file")

    def __init__(self, rows: List[Dict[str, Any]]):
        self.rows = rows


def tensors(model: Union[str, "os.PathLike[str]"]) -> Tensors:
    """Every tensor of a safetensors or GGUF file, of a folder with some, or of a model by its name.

    >>> import lipscope as ls
    >>> ls.tensors("builtin:gpt2-nano")[0]["dtype"]
    'F16'
    """
    out, listed = ffi.new("lipsc_stored_rows *"), _c.fields(lib.lipsc_stored_fields())
    try:
        _c.call(lib.lipsc_stored_read_all, path_of(model, "the model"), out)
        return Tensors([_c.as_dict(out.at[i], listed) for i in range(out.count)])
    finally:
        lib.lipsc_stored_rows_free(out)


def save(J: Attention, path: Union[str, "os.PathLike[str]"], *, upper: bool = False, as_released: bool = False,
         tol: Optional[float] = None, max_products: Optional[int] = None, seed: Optional[int] = None) -> Row:
    """Layer, input and the direction that reaches sigma as a file that `layer`, `check` and the command line read; returns
    its row (docs/row.md).  upper, as_released: say these too."""
    settings, out = ffi.new("lipsc_layer_row_settings *"), ffi.new("lipsc_layer_row *")
    if not isinstance(J, Attention):
        raise errors.KindError(f"J is a {type(J).__name__}, and what attention() or layer() gives is needed")
    lib.lipsc_layer_row_defaults(settings)
    file = ffi.new("char[]", path_of(path))
    _c.fill(settings.solve, {"tol": tol, "max_products": max_products, "seed": seed})
    settings.upper, settings.as_released, settings.save_direction = flag(upper, "upper"), flag(as_released, "as_released"), file
    settings.dtype, settings.solve.stop = lib.LIPSC_F64, lib.lipsc_py_stop
    with _c.Work() as work:
        settings.solve.ctx = work.handle
        try:
            _c.call(lib.lipsc_layer_row_find, J.layer.struct, J._input, settings, out)
            return Row(_c.as_dict(out.row, ROW, out.row.parts))
        finally:
            lib.lipsc_layer_row_free(out)


def check(path: Union[str, "os.PathLike[str]"], model: Union[str, "os.PathLike[str]", None] = None, *,
          certify: Optional[float] = None, certify_seconds: Optional[float] = None, certify_memory: Optional[float] = None,
          part: str = "whole", seed: int = 1) -> Record:
    """Whether what a direction file says is true: two products by the definition in plain loops, without the solver.

    The file is what `measure(save_direction=)`, `save` and the command line write; for the maps behind attention
    it needs the model.  `agree` is the verdict; `stored`, `sigma`, `residual` and the rest are those of lipsc_check_row.
    certify: prove an upper bound as well, within certify_seconds and certify_memory GiB.  Raises Refused where the file cannot be checked.

    >>> import lipscope as ls, numpy as np, tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "top.safetensors")
    ...     _ = ls.save(ls.attention(np.eye(3), np.eye(3), np.eye(3), np.eye(3)), path)
    ...     ls.check(path).agree
    True
    """
    settings, kept = ffi.new("lipsc_check_settings *"), [ffi.new("char[]", path_of(path))]
    lib.lipsc_check_defaults(settings)
    settings.file = kept[0]
    if model is not None:
        kept.append(ffi.new("char[]", path_of(model, "the model")))
        settings.model = kept[-1]
    settings.part, settings.seed = choose(part, PARTS, "part"), whole(seed, "seed", 0)
    if certify is not None:
        kept.append(ffi.new("lipsc_certify_settings *"))
        lib.lipsc_certify_defaults(kept[-1])
        _c.fill(kept[-1], {"eps": real(certify, "certify"), "max_seconds": certify_seconds, "max_bytes": None if certify_memory is None else int(real(certify_memory, "certify_memory") * 2 ** 30)})
        settings.certify = kept[-1]
    out = ffi.new("lipsc_checked *")
    try:
        _c.call(lib.lipsc_check, settings, out)
        parts = (lib.LIPSC_CHECK_MODEL if model is not None else 0) | (lib.LIPSC_CHECK_CERTIFY if certify is not None else 0)
        return Record(**_c.as_dict(out.row, _c.fields(lib.lipsc_check_fields()), parts))
    finally:
        lib.lipsc_checked_free(out)
