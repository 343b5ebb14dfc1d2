"""Where numbers are computed: the CPU, a GPU."""
from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator, List, Optional

from . import _c, errors
from ._c import Record, ffi, lib
from .arrays import whole
from .tables import Table


class Device(_c.Owner):
    """Where numbers are computed: "cpu" with `threads` threads (0: as many as OpenMP gives), "cuda", "cuda:1".

    Wherever device= is taken, a name does as well; a Device that is opened once saves the opening.

    >>> import lipscope as ls
    >>> ls.Device("cpu", threads=2)
    <Device cpu, 2 threads>
    """

    def __init__(self, name: Optional[str] = None, threads: int = 0):
        out = ffi.new("lipsc_device **")
        _c.call(lib.lipsc_device_open, ffi.NULL if name is None else name.encode(), whole(threads, "threads", 0), out)
        self._handle = _c.Handle(out[0], lib.lipsc_device_close, "the device")
        self.name = _c.text(lib.lipsc_device_name(out[0])) or ""
        self.threads = int(lib.lipsc_device_threads(out[0]))

    def __repr__(self) -> str:
        return f"<Device {self.name}, {self.threads} thread{'s' if self.threads != 1 else ''}>"


class Devices(Table):
    """What there is to compute on: `rows` with name, usable, memory in bytes (0: not known) and what is to be said of it."""

    _shown = ("name", "usable", "about")
    _left = _shown

    def __init__(self) -> None:
        self.rows = []
        for which in range(lib.lipsc_device_count()):
            out = ffi.new("lipsc_device_info *")
            _c.call(lib.lipsc_device_describe, which, out, err=False)
            self.rows.append(dict(vars(Record.of(out)), usable=bool(out.usable)))


def devices() -> Devices:
    """What there is to compute on, usable or not.

    >>> import lipscope as ls
    >>> [row["name"] for row in ls.devices() if row["usable"]][0]
    'cpu'
    """
    return Devices()


def find(device: Any, threads: int) -> Optional[Device]:
    """What device= and threads= mean: None is the CPU with the threads that OpenMP gives."""
    count = whole(threads, "threads", 0)
    if isinstance(device, Device):
        if count:
            raise errors.ArgumentError("threads= belongs to Device(name, threads) where device= is one that is open")
        return device
    if device is None:
        return Device(threads=count) if count else None
    name = str(device) if isinstance(device, str) or type(device).__module__ == "torch" else None
    if name is None:
        raise errors.KindError(f"device is a {type(device).__name__}, and a name such as \"cuda\", or a Device is needed")
    return Device(name, count)


def handle(device: Optional[Device]) -> List[_c.Handle]:
    """What something made on the device stands on."""
    return [] if device is None else [device._handle]


def turn(device: Optional[Device]) -> Optional[_c.Turn]:
    """Any number of threads may use the CPU; of what lies on another device one at a time."""
    return None if device is None or device.name == "cpu" else device._handle.turn


@contextmanager
def pointer(device: Optional[Device]) -> Iterator[Any]:
    """The device for C while something is made on it."""
    if device is None:
        yield ffi.NULL
        return
    with device._handle.use() as found:
        yield found
