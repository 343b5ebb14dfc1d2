"""Memory that the library owns as a torch tensor, on any device, without a copy: DLPack."""
from __future__ import annotations

import ctypes
from typing import Any, Dict, Tuple

from ._c import ffi

_DEVICES = {"cpu": 1, "cuda": 2}  # kDLCPU, kDLCUDA
_FLOAT = 2  # kDLFloat


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64)]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]


_lent: Dict[int, Tuple[Any, ...]] = {}  # structs that a tensor still refers to


def _returned(address: Any) -> None:
    _lent.pop(address, None)


_deleter = _Deleter(_returned)
_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype, _capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def doubles(pointer: Any, shape: Tuple[int, ...], device: Any) -> Any:
    """The doubles at an address of a torch device as a tensor.  It must not be read after the memory is gone."""
    from torch.utils.dlpack import from_dlpack
    sizes = (ctypes.c_int64 * len(shape))(*shape)
    managed = _Managed()
    t = managed.tensor
    t.data, t.device_type, t.device_id = int(ffi.cast("uintptr_t", pointer)), _DEVICES[device.type], device.index or 0
    t.ndim, t.code, t.bits, t.lanes, t.shape = len(shape), _FLOAT, 64, 1, sizes
    managed.deleter = _deleter
    _lent[ctypes.addressof(managed)] = (managed, sizes)
    return from_dlpack(_capsule(ctypes.addressof(managed), b"dltensor", None))
