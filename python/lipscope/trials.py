"""This build on this machine: does it compute correctly, and how fast?"""
from __future__ import annotations

from typing import Any, Dict, List, Optional

from . import _c, machines
from ._c import ffi, lib
from .arrays import choose, whole
from .layers import MASKS, precision
from .tables import Table


BIASES = {"none": lib.LIPSC_BIAS_NONE, "linear": lib.LIPSC_BIAS_LINEAR, "buckets": lib.LIPSC_BIAS_BUCKETS}


class Selftest(Table):
    """Comparisons with answers that the fast paths had no part in: `rows` with name, error, limit and passed; true when all
    of them passed."""

    _shown = ("name", "error", "limit", "passed")

    def __init__(self, rows: List[Dict[str, Any]]):
        self.rows = rows

    def __bool__(self) -> bool:
        return all(row["passed"] for row in self.rows)

    def _title(self) -> List[str]:
        return [f"{sum(row['passed'] for row in self.rows)} of {len(self.rows)} passed"]


def selftest() -> Selftest:
    """Does this build compute correctly on this machine?  Products, solver and file reader, in a few seconds."""
    rows: List[Dict[str, Any]] = []
    with _c.Work(progress=rows.append) as work:
        _c.enter()
        lib.lipsc_selftest(lib.lipsc_py_trial, work.handle, ffi.NULL)
    return Selftest(rows)


def bench(n: Optional[int] = None, *, mask: Optional[str] = None, dtype: Any = "float32", block: Optional[int] = None,
          batch: Optional[int] = None, bias: Optional[str] = None, soft_cap: Optional[float] = None, repeats: Optional[int] = None, threads: int = 0, device: Any = None) -> Dict[str, Any]:
    """Speed of the products of a layer of GPT-2's size beside this machine's own sgemm (lipsc_bench_row): `fraction` of
    it, `gflops`, `ms_per_pair` and so on."""
    settings, out = ffi.new("lipsc_bench_settings *"), ffi.new("lipsc_bench_row *")
    lib.lipsc_bench_defaults(settings)
    for name, value in (("n", n), ("block", block), ("batch", batch), ("repeats", repeats)):
        if value is not None:
            setattr(settings, name, whole(value, name))
    _c.fill(settings, {"bias": None if bias is None else choose(bias, BIASES, "bias"), "soft_cap": soft_cap})
    _c.fill(settings, {"dtype": precision(dtype), "mask": None if mask is None else choose(mask, MASKS, "mask")})
    settings.stop = lib.lipsc_py_stop
    with _c.Work() as work, machines.pointer(machines.find(device, threads)) as settings.device:
        settings.ctx = work.handle
        _c.call(lib.lipsc_bench, settings, out)
    parts = lib.LIPSC_BENCH_FEATURES if bias is not None or soft_cap is not None else 0
    return _c.as_dict(out, _c.fields(lib.lipsc_bench_fields()), parts)
