"""Tensors in safetensors files, written by the library."""
from __future__ import annotations

from typing import Any, List, Mapping

from . import _c
from ._c import ffi, lib
from .arrays import Array, path_of, pointer


def write_tensors(path: Any, tensors: Mapping[str, Array]) -> None:
    """Named arrays of doubles as one file, which appears whole or not at all."""
    items = ffi.new("lipsc_st_item[]", len(tensors))
    kept: List[Any] = []
    for item, (name, array) in zip(items, tensors.items()):
        label, shape = ffi.new("char[]", name.encode()), ffi.new("size_t[]", list(array.shape))
        kept += [label, shape]
        item.name, item.dtype, item.ndim, item.shape, item.data = label, lib.LIPSC_F64, array.ndim, shape, pointer(array)
    _c.call(lib.lipsc_st_write, path_of(path), items, len(tensors), ffi.NULL, 0)
