"""Arrays of any kind as rows of doubles in memory: numpy, torch, DLPack, the buffer protocol, nested lists."""
from __future__ import annotations

import operator as op
import os
from typing import Any, List, Mapping, Optional, Tuple

import numpy as np
import numpy.typing as npt

from . import errors
from ._c import ffi, lib, text

Array = npt.NDArray[np.float64]

_CPU = (1, 3, 11)  # DLPack's kDLCPU, kDLCUDAHost, kDLROCMHost


def is_torch(value: Any) -> bool:
    """A torch tensor, found out without importing torch."""
    return any(kind.__module__.split(".")[0] == "torch" and kind.__name__ == "Tensor" for kind in type(value).__mro__)


def _from_torch(value: Any, name: str) -> Any:
    torch = __import__("torch")
    if value.layout is not torch.strided:
        raise errors.KindError(f"{name} is a sparse tensor: pass {name}.to_dense()")
    if value.is_complex() or not value.is_floating_point():
        raise errors.KindError(f"{name} holds {value.dtype} where real numbers are needed: pass floating-point numbers")
    return to_host(value, name).detach().double().resolve_neg().numpy()


# ---- Where an array lies ----

_KINDS = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 12: "hexagon", 13: "cuda", 14: "oneapi"}  # DLPack's


def not_here(name: str, where: str, how: str = "") -> errors.DeviceError:
    """The sentence about an array that lies where the library cannot read it."""
    if where == "meta":
        return errors.DeviceError(f"{name} lies on meta, where tensors have no numbers: load it first")
    missing = why_not(where)
    return errors.DeviceError(f"{name} lies on {where}, and lipscope " + (missing or "reads from main memory here")
                              + f": pass {how or name + '.cpu()'}")


def why_not(where: str) -> str:
    """Why the library does not compute there; empty where it does, or where nobody ever asked it to."""
    kind = where.split(":")[0]
    if kind != "cuda":
        return ""
    for which in range(lib.lipsc_device_count()):
        found = ffi.new("lipsc_device_info *")
        if lib.lipsc_device_describe(which, found) == lib.LIPSC_OK and (text(found.name) or "").startswith(kind):
            return "" if found.usable else f"has no CUDA device here ({(text(found.about) or 'unusable').rstrip('.')})"
    return "has no CUDA device here"


def device_of(value: Any) -> Optional[str]:
    """"cuda:0" for a torch tensor there, where the library computes too; None: main memory."""
    return str(value.device) if is_torch(value) and value.device.type == "cuda" and not why_not("cuda") else None


def to_host(tensor: Any, name: str, how: str = "") -> Any:
    """A tensor in main memory: copied from a GPU that the library computes on, refused from everywhere else."""
    if tensor.device.type == "cpu":
        return tensor
    if device_of(tensor) is None:
        raise not_here(name, str(tensor.device), how)
    return tensor.cpu()


def _refuse_device(value: Any, name: str) -> None:
    if hasattr(value, "__dlpack_device__"):
        kind, number = (int(part) for part in value.__dlpack_device__())
        if kind not in _CPU:
            raise not_here(name, f"{_KINDS.get(kind, f'DLPack device {kind}')}:{number}", "a copy in main memory")


def _any_array(value: Any, name: str) -> Any:
    """value as a numpy array of whatever kind."""
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    if is_torch(value):
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


def whole(value: Any, name: str, least: int = 1) -> int:
    """A whole number of at least `least`."""
    try:
        number = op.index(value)
    except TypeError:
        raise errors.KindError(f"{name} = {value!r}: a whole number is needed") from None
    if not least <= number < 1 << 62:
        raise errors.ArgumentError(f"{name} = {number}: a whole number of at least {least} is needed")
    return number


def real(value: Any, name: str) -> float:
    """A finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise errors.KindError(f"{name} = {value!r}: a number is needed") from None
    if not np.isfinite(number):
        raise errors.NotFinite(f"{name} = {value!r}: a finite number is needed")
    return number


def positive(value: Any, name: str) -> float:
    """A finite number above 0."""
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool) or not 0 < value < float("inf"):
        raise errors.ArgumentError(f"{name} = {value!r}: a number above 0 is needed")
    return float(value)


def flag(value: Any, name: str) -> int:
    """True or False, for C."""
    if not isinstance(value, (bool, np.bool_)):
        raise errors.KindError(f"{name} = {value!r}: True or False is needed")
    return int(value)


def wholes(values: Any, name: str, least: int = 0) -> List[int]:
    """Whole numbers: one, or a sequence of them."""
    try:
        listed = [values] if isinstance(values, (int, np.integer)) else list(values)
    except TypeError:
        raise errors.KindError(f"{name} = {values!r}: whole numbers are needed") from None
    if not listed:
        raise errors.ArgumentError(f"{name} is an empty list")
    return [whole(value, name, least) for value in listed]


def choose(value: Any, table: Mapping[str, int], name: str) -> int:
    """The number behind a name, or a sentence with all names."""
    if not isinstance(value, str) or value not in table:
        raise errors.ArgumentError(f"{name} = {value!r}: there are {', '.join(table)}")
    return table[value]


def path_of(path: Any, name: str = "path") -> bytes:
    """A path for C."""
    try:
        given = os.fsencode(path)
    except TypeError:
        raise errors.KindError(f"{name} is a {type(path).__name__}, and a path is needed") from None
    if b"\0" in given:
        raise errors.ArgumentError(f"{name} holds a NUL, which no path may")
    return given


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
