"""Probability measures: their distances, and attention as a map between them."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, Union

import numpy as np

from . import _c, errors
from ._c import Record, ffi, lib
from .arrays import Array, at, numbers, pointer
from .layers import Attention, Layer, whole


class Measure:
    """Weighted atoms: points (n, d), weights (n) that sum to 1 (default: 1/n each), times (n) in [0, 1] or None.

    >>> import numpy as np, lipscope as ls
    >>> ls.Measure(np.zeros((3, 2)))
    <Measure of 3 atoms in 2 dimensions>
    """

    def __init__(self, points: Any, weights: Any = None, times: Any = None):
        self.points = numbers(points, "points", 2)
        n = self.points.shape[0]
        self.weights: Optional[Array] = None if weights is None else numbers(weights, "weights", shape=(n,))
        self.times: Optional[Array] = None if times is None else numbers(times, "times", shape=(n,))
        self.struct = ffi.new("lipsc_measure *", {
            "n": n, "d": self.points.shape[1], "points": pointer(self.points), "weights": pointer(self.weights),
            "times": pointer(self.times)})

    def __repr__(self) -> str:
        n, d = self.points.shape
        return f"<Measure of {n} atoms in {d} dimensions{'' if self.times is None else ', with times'}>"


def measure_of(value: Any) -> Measure:
    """A Measure as it is, an array as points of equal weight, a tuple as points, weights and times."""
    if isinstance(value, Measure):
        return value
    return Measure(*value) if isinstance(value, tuple) else Measure(value)


class Distance(float):
    """A distance between two measures: a float.  `cost` is distance^p; `gap` proves it: no plan costs less than cost - gap
    (NaN for an approximation).  `method`, `f`, `g` (the proof's potentials), `plan` as arrays from, to, mass, or None."""

    p: float
    cost: float
    gap: float
    method: str
    f: Optional[Array]
    g: Optional[Array]
    plan: Optional[Tuple[Any, Any, Array]]
    info: Record

    def __repr__(self) -> str:
        return f"Distance({float(self):.10g}, W_{self.p:g} by {self.method}, gap {self.gap:.1e})"


def _plan(out: Any) -> Optional[Tuple[Any, Any, Array]]:
    if not out.plan:
        return None
    kind = np.dtype([("from", np.uintp), ("to", np.uintp), ("mass", np.float64)])
    moves = np.frombuffer(ffi.buffer(out.plan, out.moves * kind.itemsize), dtype=kind)
    return moves["from"].astype(np.intp), moves["to"].astype(np.intp), moves["mass"].copy()


def wasserstein(a: Any, b: Any, p: float = 2, *, conditional: bool = False, plan: bool = False,
                sinkhorn: Optional[float] = None, check: bool = True) -> Distance:
    """The Wasserstein distance W_p of two measures, exact, with the gap that proves it.

    a, b: a Measure, an array of points (n, d), or a tuple (points, weights, times).  conditional: mass stays at its time.
    sinkhorn: the Sinkhorn divergence with this epsilon instead, an approximation.

    >>> import lipscope as ls
    >>> ls.wasserstein([[0.0], [1.0]], [[0.0], [3.0]], p=1)
    Distance(1, W_1 by line, gap 0.0e+00)
    """
    first, second = measure_of(a), measure_of(b)
    settings = ffi.new("lipsc_distance_settings *")
    lib.lipsc_distance_defaults(settings)
    _c.fill(settings, {"p": p, "conditional": int(conditional), "plan": int(plan), "sinkhorn": sinkhorn,
                       "check": int(check)})
    out = ffi.new("lipsc_distance *")
    _c.call(lib.lipsc_distance_between, first.struct, second.struct, settings, out)
    try:
        result = Distance(out.distance)
        result.p, result.cost, result.gap = out.p, out.cost, out.gap
        result.method = _c.text(out.method) or ""
        result.f = at(out.f, first.struct.n).copy() if out.f else None
        result.g = at(out.g, second.struct.n).copy() if out.g else None
        result.plan = _plan(out)
        result.info = Record.of(out)
    finally:
        lib.lipsc_distance_free(out)
    return result


def layer_of(value: Any) -> Layer:
    if isinstance(value, Attention):
        return value.layer
    if isinstance(value, Layer):
        return value
    raise errors.KindError(f"layer is a {type(value).__name__}, and a Layer or what attention() gives is needed")


def push(mu: Any, layer: Union[Layer, Attention], *, threads: int = 0) -> Measure:
    """The image of a measure under attention: every atom at its output, with its weight and its time.

    >>> import numpy as np, lipscope as ls
    >>> ls.push([[1.0], [3.0]], ls.Layer(np.zeros((1, 1)), np.eye(1), np.eye(1))).points.ravel()
    array([2., 2.])
    """
    measure, out = measure_of(mu), ffi.new("lipsc_cloud *")
    device = _c.on_device(lib.lipsc_measure_push, 2, whole(threads, "threads", 0))
    _c.call(lib.lipsc_measure_push, layer_of(layer).struct, measure.struct, device, out)
    try:
        m = out.measure
        return Measure(at(m.points, m.n, m.d).copy(), at(m.weights, m.n).copy() if m.weights else None,
                       at(m.times, m.n).copy() if m.times else None)
    finally:
        lib.lipsc_cloud_free(out)


def split(mu: Any, layer: Union[Layer, Attention], **options: Any) -> Record:
    """How much faster than a measure its image under attention can change: when atoms move (`move`), when they are split
    (`split`), when a part of one goes far away (`teleport`); lipsc_slopes has all fields.  Options are those of
    lipsc_slope_settings: tol, radius, restarts, step, measured, seed.

    >>> import numpy as np, lipscope as ls
    >>> rng = np.random.default_rng(0)
    >>> A, V = rng.normal(size=(2, 2)), rng.normal(size=(2, 2))
    >>> s = ls.split(rng.normal(size=(3, 2)), ls.Layer(A, None, V))
    >>> s.split >= s.move
    True
    """
    measure = measure_of(mu)
    settings = ffi.new("lipsc_slope_settings *")
    lib.lipsc_slope_defaults(settings)
    known = [name for name, _ in ffi.typeof("lipsc_slope_settings").fields if name not in ("stop", "ctx", "device")]
    for name in options:
        if name not in known:
            raise errors.KindError(f"split has no argument {name}: there are {', '.join(known)}")
    _c.fill(settings, options)
    settings.stop = lib.lipsc_py_stop
    out = ffi.new("lipsc_slopes *")
    with _c.Work() as work:
        settings.ctx = work.handle
        status, sentence = _c.attempt(lib.lipsc_slopes_find, layer_of(layer).struct, measure.struct, settings, out)
    if status not in (lib.LIPSC_OK, lib.LIPSC_E_NOCONV):
        raise _c.failure(status, sentence)
    try:
        result = Record.of(out, **_arrays(out))
    finally:
        lib.lipsc_slopes_free(out)
    if status != lib.LIPSC_OK:
        raise _c.failure(status, sentence, result)
    return result


def _arrays(out: Any) -> Dict[str, Any]:
    shapes: List[Tuple[str, Tuple[int, ...]]] = [("direction", (out.n, out.d)), ("half", (out.d,)), ("target", (out.d,))]
    return {name: at(getattr(out, name), *shape).copy() if getattr(out, name) else None for name, shape in shapes}
