"""Arrays of any kind as rows of doubles in memory: numpy, torch, DLPack, the buffer protocol, nested lists."""
from __future__ import annotations

from typing import Any, Optional, Tuple

import numpy as np
import numpy.typing as npt

from . import errors
from ._c import ffi

Array = npt.NDArray[np.float64]

_CPU = (1, 3, 11)  # DLPack's kDLCPU, kDLCUDAHost, kDLROCMHost


def is_torch(value: Any) -> bool:
    """A torch tensor, found out without importing torch."""
    return any(kind.__module__.split(".")[0] == "torch" and kind.__name__ == "Tensor" for kind in type(value).__mro__)


def _from_torch(value: Any, name: str) -> Any:
    if value.layout is not __import__("torch").strided:
        raise errors.KindError(f"{name} is a sparse tensor: pass {name}.to_dense()")
    if value.is_complex() or not value.is_floating_point():
        raise errors.KindError(f"{name} holds {value.dtype} where real numbers are needed: pass floating-point numbers")
    return value.detach().double().resolve_neg().numpy()


def _refuse_device(value: Any, name: str) -> None:
    if hasattr(value, "__dlpack_device__"):
        kind = int(value.__dlpack_device__()[0])
        if kind not in _CPU:
            where = str(getattr(value, "device", f"DLPack device {kind}"))
            raise errors.DeviceError(f"{name} lies on {where}, and lipscope reads from main memory here: pass {name}.cpu()")


def _any_array(value: Any, name: str) -> Any:
    """value as a numpy array of whatever kind."""
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    if is_torch(value):
        if value.device.type != "cpu":
            raise errors.DeviceError(f"{name} lies on {value.device}, and lipscope reads from main memory here: pass "
                                     f"{name}.cpu()")
        return _from_torch(value, name)
    _refuse_device(value, name)
    try:
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            return np.from_dlpack(value)
        return np.asarray(value)
    except Exception as wrong:
        raise errors.KindError(f"{name} cannot be read as an array: {_one_line(wrong)}") from None


def _one_line(wrong: BaseException) -> str:
    lines = str(wrong).splitlines()
    return lines[0] if lines else type(wrong).__name__


def numbers(value: Any, name: str, ndim: Optional[int] = None, shape: Optional[Tuple[int, ...]] = None) -> Array:
    """value as a contiguous array of doubles, without a copy where it already is one.

    Whole numbers are taken from lists only: an array of integers is more likely token ids, or weights without their
    scales.  float16, bfloat16 and float32 are widened, which is exact."""
    array = _any_array(value, name)
    kind = array.dtype.kind
    if kind == "i" and isinstance(value, (list, tuple, int)):
        array, kind = array.astype(np.float64), "f"
    if kind == "V" or kind not in "f" or array.dtype.itemsize > 8:
        raise errors.KindError(f"{name} holds {array.dtype} where real numbers are needed: pass floating-point numbers"
                               + (f", {name}.astype(float)" if kind in "iub" else ""))
    if ndim is not None and array.ndim != ndim:
        raise errors.ArgumentError(f"{name} has shape {array.shape}, and {ndim} dimension{'s are' if ndim > 1 else ' is'} "
                                   "needed")
    if shape is not None and array.shape != shape:
        raise errors.ArgumentError(f"{name} has shape {array.shape}, and {shape} is needed")
    if array.size == 0:
        raise errors.ArgumentError(f"{name} is empty: its shape is {array.shape}")
    array = np.ascontiguousarray(array, dtype=np.float64)
    if not np.isfinite(array).all():
        raise errors.NotFinite(f"{name} holds a NaN or an infinity")
    return array


def pointer(array: Optional[Array]) -> Any:
    """The numbers of a contiguous array for C, which lives as long as the array does."""
    return ffi.NULL if array is None else ffi.cast("double *", array.ctypes.data)


def at(address: Any, *shape: int) -> Array:
    """A numpy view of numbers that C owns."""
    size = int(np.prod(shape, dtype=np.int64)) * 8
    return np.frombuffer(ffi.buffer(address, size), dtype=np.float64).reshape(shape)


def like(result: Array, model: Any) -> Any:
    """The result as a torch tensor where the model is one, on its device and in its precision."""
    if not is_torch(model):
        return result
    torch = __import__("torch")
    return torch.from_numpy(result).to(device=model.device, dtype=model.dtype)
