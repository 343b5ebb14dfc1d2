"""Probability measures: their distances, and attention as a map between them."""
from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Tuple, Union

import numpy as np

from . import _c, machines, errors
from ._c import Record, ffi, lib
from .arrays import Array, at, flag, numbers, path_of, pointer, real
from .files import write_tensors
from .gauss import Gaussians
from .layers import Attention, Layer, layer_of


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

    @classmethod
    def _of(cls, m: Any) -> Measure:
        """A copy of a lipsc_measure."""
        return cls(at(m.points, m.n, m.d).copy(), at(m.weights, m.n).copy() if m.weights else None,
                   at(m.times, m.n).copy() if m.times else None)

    @classmethod
    def load(cls, path: Union[str, "os.PathLike[str]"], normalise: bool = False) -> Measure:
        """From a safetensors file (points, weights, times), a .npy array or a CSV table (points); normalise: divide the
        weights by their sum, which otherwise has to be 1."""
        file = ffi.new("lipsc_measure_file *")
        _c.call(lib.lipsc_measure_file_read, path_of(path), flag(normalise, "normalise"), file)
        try:
            return cls._of(file.measure)
        finally:
            lib.lipsc_measure_file_free(file)

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """As a safetensors file, which `load` and the command line read."""
        write_tensors(path, {name: value for name, value in (("points", self.points), ("weights", self.weights),
                                                             ("times", self.times)) if value is not None})

    def merge(self) -> Measure:
        """The same measure with equal atoms (of equal times) as one."""
        return _cloud(lib.lipsc_measure_merge, self.struct, then=(ffi.NULL,))

    def __len__(self) -> int:
        return int(self.points.shape[0])

    def __repr__(self) -> str:
        n, d = self.points.shape
        return (f"<Measure of {n} atom{'s' if n != 1 else ''} in {d} dimension{'s' if d != 1 else ''}"
                f"{'' if self.times is None else ', with times'}>")


def _cloud(function: Any, *arguments: Any, then: Tuple[Any, ...] = ()) -> Measure:
    """The measure that a function hands out."""
    out = ffi.new("lipsc_cloud *")
    _c.call(function, *arguments, out, *then)
    try:
        return Measure._of(out.measure)
    finally:
        lib.lipsc_cloud_free(out)


def measure_of(value: Any) -> Measure:
    """A Measure as it is, an array as points of equal weight, a tuple as points, weights and times, a path as a file."""
    if isinstance(value, Measure):
        return value
    if isinstance(value, (str, os.PathLike)):
        return Measure.load(value)
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

    a, b: a Measure, an array of points (n, d), a tuple (points, weights, times), or a file (`Measure.load`); or two single
    Gaussians.  conditional: mass stays at its time.  sinkhorn: the Sinkhorn divergence with this epsilon instead, an
    approximation.

    >>> import lipscope as ls
    >>> ls.wasserstein([[0.0], [1.0]], [[0.0], [3.0]], p=1)
    Distance(1, W_1 by line, gap 0.0e+00)
    """
    if isinstance(a, Gaussians) and isinstance(b, Gaussians):
        return _between_gaussians(a, b, p, conditional or plan or sinkhorn is not None)
    first, second = measure_of(a), measure_of(b)
    settings = _distance_settings(p, conditional, plan, sinkhorn, check)
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


def _distance_settings(p: Any, conditional: Any, plan: Any = False, sinkhorn: Any = None, check: Any = True) -> Any:
    settings = ffi.new("lipsc_distance_settings *")
    lib.lipsc_distance_defaults(settings)
    _c.fill(settings, {"p": p, "conditional": flag(conditional, "conditional"), "plan": flag(plan, "plan"), "sinkhorn": sinkhorn,
                       "check": flag(check, "check")})
    return settings


def _between_gaussians(a: Gaussians, b: Gaussians, p: float, more: bool) -> Distance:
    if p != 2 or more:
        raise errors.ArgumentError("between Gaussians there is W_2, in closed form: sample them for everything else")
    out = ffi.new("double *")
    _c.call(lib.lipsc_gauss_distance, a.struct, b.struct, out)
    result = Distance(out[0])
    result.p, result.cost, result.gap, result.method = 2.0, out[0] ** 2, float("nan"), "gaussian"
    result.f = result.g = result.plan = None
    result.info = Record(p=2.0, distance=out[0], method="gaussian")
    return result


def push(mu: Any, layer: Union[Layer, Attention], *, threads: int = 0, device: Any = None) -> Any:
    """The image of a measure under attention: every atom at its output, with its weight and its time; of one Gaussian,
    again one.

    >>> import numpy as np, lipscope as ls
    >>> ls.push([[1.0], [3.0]], ls.Layer(np.zeros((1, 1)), np.eye(1), np.eye(1))).points.ravel()
    array([2., 2.])
    """
    if isinstance(mu, Gaussians):
        return mu.push(layer)
    measure = measure_of(mu)
    with machines.pointer(machines.find(device, threads)) as there:
        return _cloud(lib.lipsc_measure_push, layer_of(layer).struct, measure.struct, there)


def ratio(a: Any, b: Any, layer: Union[Layer, Attention], p: float = 2, *, conditional: bool = False, threads: int = 0,
          device: Any = None) -> Record:
    """How much further apart two measures are behind a layer: `ratio` = `after` / `before`, two exact distances, each with
    the gap that proves it (lipsc_ratio).

    >>> import numpy as np, lipscope as ls
    >>> r = ls.ratio([[0.0], [1.0]], [[0.0], [2.0]], ls.Layer(np.zeros((1, 1)), np.eye(1), np.eye(1)))
    >>> r.after <= r.before
    True
    """
    first, second, out = measure_of(a), measure_of(b), ffi.new("lipsc_ratio *")
    with machines.pointer(machines.find(device, threads)) as there:
        _c.call(lib.lipsc_ratio_between, layer_of(layer).struct, first.struct, second.struct,
                _distance_settings(p, conditional), there, out)
    return Record.of(out)


def split(mu: Any, layer: Union[Layer, Attention], *, threads: int = 0, device: Any = None, **options: Any) -> Record:
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
    measure, out = measure_of(mu), ffi.new("lipsc_slopes *")
    settings = _settings("lipsc_slope_settings", lib.lipsc_slope_defaults, "split", options)
    with _c.Work() as work, machines.pointer(machines.find(device, threads)) as there:
        settings.ctx, settings.device = work.handle, there
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


def pairs(layer: Union[Layer, Attention], radius: float, *, threads: int = 0, device: Any = None, **options: Any) -> Record:
    """Which measures on a ball attention drives apart most, as far as a search finds them: `best`, reached by `measure`,
    `construction` of the known worst case, and `upper`, which no pair exceeds (lipsc_pairs).  Options: atoms,
    evaluations, step, seed.

    >>> import numpy as np, lipscope as ls
    >>> found = ls.pairs(ls.Layer(np.eye(2), None, np.eye(2)), radius=1.0, evaluations=20)
    >>> found.construction <= found.best <= found.upper
    True
    """
    out = ffi.new("lipsc_pairs *")
    settings = _settings("lipsc_pairs_settings", lib.lipsc_pairs_defaults, "pairs", dict(options, radius=real(radius, "radius")))
    with _c.Work() as work, machines.pointer(machines.find(device, threads)) as there:
        settings.ctx, settings.device = work.handle, there
        _c.call(lib.lipsc_pairs_find, layer_of(layer).struct, settings, out)
    try:
        return Record.of(out, measure=Measure._of(out.measure.measure))
    finally:
        lib.lipsc_pairs_free(out)


def _settings(kind: str, defaults: Any, what: str, options: Dict[str, Any]) -> Any:
    """A settings struct with these options, which can be stopped."""
    settings = ffi.new(kind + " *")
    defaults(settings)
    known = [name for name, _ in ffi.typeof(kind).fields if name not in ("stop", "ctx", "device")]
    for name in options:
        if name not in known:
            raise errors.KindError(f"{what} has no argument {name}: there are {', '.join(known)}")
    _c.fill(settings, options)
    settings.stop = lib.lipsc_py_stop
    return settings


def _arrays(out: Any) -> Dict[str, Any]:
    shapes: List[Tuple[str, Tuple[int, ...]]] = [("direction", (out.n, out.d)), ("half", (out.d,)), ("target", (out.d,))]
    return {name: at(getattr(out, name), *shape).copy() if getattr(out, name) else None for name, shape in shapes}
