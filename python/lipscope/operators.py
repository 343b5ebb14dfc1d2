"""Linear operators that are never formed as a matrix: products, singular values, certificates."""
from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple, Union, overload

import numpy as np

from . import _c, errors
from ._c import Record, ffi, lib
from .arrays import Array, at, choose, like, numbers, pointer, positive, whole

METHODS = {"lanczos": lib.LIPSC_LANCZOS, "power": lib.LIPSC_POWER, "dense": lib.LIPSC_DENSE}


class Solved:
    """How singular values were reached (`info`, the fields of lipsc_svd_info) and what was proved of the largest
    (`certificate`, those of lipsc_certificate, or None); `u` and `v` are the singular vectors."""

    info: Record
    certificate: Optional[Record]
    u: Array
    v: Array

    @property
    def lower(self) -> float:
        """Proved, where it is no NaN: the largest singular value is not below."""
        return float(self.certificate.lower if self.certificate else self.info.lower)

    @property
    def upper(self) -> float:
        """Proved by a certificate, NaN without one: it is not above."""
        return float(self.certificate.upper) if self.certificate else float("nan")

    @property
    def residual(self) -> float:
        """|J'J v - s^2 v| / s^2 of the largest."""
        return float(self.info.residual)

    @property
    def converged(self) -> bool:
        return bool(self.info.converged)

    def _how(self) -> str:
        proof = f"proved in [{self.lower:.8g}, {self.upper:.8g}], " if self.certificate else ""
        return proof + (f"residual {self.residual:.1e}" if self.converged else "not converged")


class Sigma(Solved, float):
    """The largest singular value: a float, |J v| of the direction `v` that was found, so a lower bound up to rounding.

    `lower` and `upper` are proved where they are no NaN; `u` and `v` have the shapes of output and input; `info` and
    `certificate` tell the rest."""

    def __repr__(self) -> str:
        return f"Sigma({float(self):.10g}, {self._how()})"

    def __reduce__(self) -> Any:
        return _rebuild, (float(self), self.__dict__)


def _rebuild(value: float, fields: Dict[str, Any]) -> Sigma:
    sigma = Sigma(value)
    sigma.__dict__.update(fields)
    return sigma


class Sigmas(Solved, np.ndarray):
    """The k largest singular values, largest first: an array of k numbers.  `u` and `v` hold their vectors, first index
    the value's; everything else is about the largest."""

    def __repr__(self) -> str:
        if not hasattr(self, "info"):  # a slice, or the outcome of some arithmetic
            return repr(np.asarray(self))
        return f"Sigmas({np.array2string(np.asarray(self), separator=', ', precision=10)}, {self._how()})"


class Operator:
    """A real operator from arrays of `in_shape` to arrays of `out_shape`; as a matrix it has the shape `shape`."""

    in_shape: Tuple[int, ...]
    out_shape: Tuple[int, ...]

    @property
    def shape(self) -> Tuple[int, int]:
        return int(np.prod(self.out_shape)), int(np.prod(self.in_shape))

    @property
    def T(self) -> Operator:
        """The transpose, which shares everything with this one."""
        return Transposed(self)

    def _products(self, trans: int, x: Array) -> Array:
        """Products with the rows of x."""
        raise NotImplementedError

    def __matmul__(self, v: Any) -> Any:
        """J @ v: v in the shape of the input, or one vector, or a matrix whose columns are vectors."""
        return _multiply(self, 0, v)

    def dense(self) -> Array:
        """The matrix itself, by products with unit vectors: for small ones."""
        m, n = self.shape
        if m < n:
            return self._products(1, np.eye(m))
        return np.ascontiguousarray(self._products(0, np.eye(n)).T)

    def as_scipy(self) -> Any:
        """The same as a scipy.sparse.linalg.LinearOperator."""
        linalg = _c.need("scipy.sparse.linalg", "as_scipy")

        def times(trans: int) -> Callable[[Any], Array]:
            return lambda v: self._products(trans, numbers(np.asarray(v, float).reshape(-1), "v")[None])[0]

        def columns(trans: int) -> Callable[[Any], Array]:
            return lambda v: self._products(trans, numbers(np.asarray(v, float).T, "v")).T

        return linalg.LinearOperator(self.shape, matvec=times(0), rmatvec=times(1), matmat=columns(0),
                                     rmatmat=columns(1), dtype=np.float64)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.shape[0]} x {self.shape[1]}: {self.in_shape} -> {self.out_shape}>"


class Transposed(Operator):
    """The transpose of an operator."""

    def __init__(self, of: Operator):
        self._of = of
        self.in_shape, self.out_shape = of.out_shape, of.in_shape

    @property
    def T(self) -> Operator:
        return self._of

    def _products(self, trans: int, x: Array) -> Array:
        return self._of._products(1 - trans, x)


def _multiply(op: Operator, trans: int, v: Any) -> Any:
    size = op.shape[1]
    x = numbers(v, "v")
    if x.shape == op.in_shape:
        y = op._products(trans, x.reshape(1, -1)).reshape(op.out_shape)
    elif x.shape == (size,):
        y = op._products(trans, x[None])[0]
    elif x.ndim == 2 and x.shape[0] == size:
        y = np.ascontiguousarray(op._products(trans, np.ascontiguousarray(x.T)).T)
    else:
        raise errors.ArgumentError(f"v has shape {x.shape}, and {op.in_shape}, ({size},) or ({size}, k) is needed")
    return like(y, v)


class Solvable(Operator):
    """An operator whose singular values the library finds."""

    _tol: Dict[str, float] = {}  # tolerances that stand for None

    def _solve(self, settings: Any, values: Array, u: Array, v: Array, info: Any, work: _c.Work) -> int:
        raise NotImplementedError

    def _prove(self, v: Array, settings: Any, out: Any, work: _c.Work, lower: float) -> Any:
        raise NotImplementedError

    def _work(self, progress: Optional[Callable[..., Any]] = None) -> _c.Work:
        return _c.Work(progress=progress)

    @overload
    def sigma(self, k: None = None, certify: Optional[float] = None, **options: Any) -> Sigma: ...

    @overload
    def sigma(self, k: int, certify: Optional[float] = None, **options: Any) -> Sigmas: ...

    def sigma(self, k: Optional[int] = None, certify: Optional[float] = None, *, method: str = "lanczos",
              tol: Optional[float] = None, value_tol: Optional[float] = None, max_products: Optional[int] = None,
              block: Optional[int] = None, seed: Optional[int] = None, probability: Optional[float] = None,
              progress: Optional[Callable[[int, float, float], Any]] = None,
              **limits: Any) -> Union[Sigma, Sigmas]:
        """The largest singular value; with k the k largest, as an array.

        certify: prove also an upper bound within this factor less one of the value, for instance 1e-3; max_seconds,
        max_bytes and eps are its limits (lipsc_certify_settings).  The other arguments are those of lipsc_svd_settings;
        progress(products, sigma, residual) is called after every product.  Ctrl-C stops within a product.

        Raises NotConverged where the tolerance was not met, with what was reached as its `result`."""
        settings = ffi.new("lipsc_svd_settings *")
        lib.lipsc_svd_defaults(settings)
        if k is not None:
            whole(k, "k")
        if certify is not None:
            positive(certify, "certify")
        if limits and certify is None:
            raise errors.KindError(f"sigma has no argument {next(iter(limits))} without certify")
        wanted = dict(self._tol, method=choose(method, METHODS, "method"), count=k, max_products=max_products, block=block, seed=seed,
                      probability=probability)
        wanted.update({name: value for name, value in (("tol", tol), ("value_tol", value_tol)) if value is not None})
        _c.fill(settings, wanted)
        settings.stop = lib.lipsc_py_stop
        if progress is not None:
            settings.progress = lib.lipsc_py_progress
        result = self._values(settings, k, progress)
        if certify is not None:
            self._certify(result, dict(limits, eps=certify, seed=seed), progress)
        return result

    def _values(self, settings: Any, k: Optional[int], progress: Any) -> Union[Sigma, Sigmas]:
        m, n = self.shape
        count = int(settings.count)
        if count > min(m, n):
            raise errors.ArgumentError(f"k = {count}: a {m} x {n} operator has {min(m, n)} singular values")
        values, u, v = np.zeros(count), np.zeros((count, m)), np.zeros((count, n))
        info = ffi.new("lipsc_svd_info *")
        with self._work(progress) as work:
            settings.ctx = work.handle
            status = self._solve(settings, values, u, v, info, work)
        u, v = u.reshape(count, *self.out_shape), v.reshape(count, *self.in_shape)
        result: Union[Sigma, Sigmas]
        if k is None:
            result = Sigma(values[0])
            result.u, result.v = u[0], v[0]
        else:
            result = values.view(Sigmas)
            result.u, result.v = u, v
        result.info, result.certificate = Record.of(info), None
        if status == lib.LIPSC_E_NOCONV:
            raise errors.NotConverged(f"sigma did not converge in {info.products} products: {values[0]:.6g} with residual "
                                      f"{info.residual:.1e}; raise max_products, or tol", result)
        if status != lib.LIPSC_OK:
            raise _c.failure(status, result=result if status == lib.LIPSC_E_STOPPED else None)
        return result

    def _certify(self, result: Union[Sigma, Sigmas], options: Dict[str, Any], progress: Any) -> None:
        settings = ffi.new("lipsc_certify_settings *")
        lib.lipsc_certify_defaults(settings)
        known = {name for name, _ in ffi.typeof("lipsc_certify_settings").fields}
        for name in options:
            if name not in known:
                raise errors.KindError(f"sigma has no argument {name}")
        _c.fill(settings, options)
        settings.stop, settings.ctx = lib.lipsc_py_stop, ffi.NULL
        v = result.v if isinstance(result, Sigma) else result.v[0]
        out = ffi.new("lipsc_certificate *")
        with self._work() as work:
            settings.ctx = work.handle
            value = float(result if isinstance(result, Sigma) else result[0])
            status, sentence = self._prove(np.ascontiguousarray(v).reshape(-1), settings, out, work, value)
        if status in (lib.LIPSC_OK, lib.LIPSC_E_NOCONV, lib.LIPSC_E_REFUSED):
            result.certificate = Record.of(out)
        if status != lib.LIPSC_OK:
            raise _c.failure(status, sentence, result)


class Callback(Solvable):
    """An operator that is given by its products: multiply(trans, x) with x of shape (k, n) or, transposed, (k, m).

    >>> import numpy as np, lipscope as ls
    >>> A = np.diag([3.0, 2.0, 1.0])
    >>> J = ls.operator(A.shape, lambda trans, x: x @ (A if trans else A.T))
    >>> round(float(J.sigma()), 10)
    3.0
    """

    def __init__(self, in_shape: Tuple[int, ...], out_shape: Tuple[int, ...], multiply: Callable[[int, Array], Any]):
        self.in_shape, self.out_shape = in_shape, out_shape
        self._multiply = multiply

    def _products(self, trans: int, x: Array) -> Array:
        y = np.asarray(self._multiply(trans, x), dtype=np.float64)
        want = (len(x), self.shape[trans])
        if y.shape != want:
            raise errors.ArgumentError(f"the product with {'the transpose' if trans else 'the operator'} has shape "
                                       f"{y.shape}, and {want} is needed")
        return y

    def _apply(self, trans: int, k: int, x: Any, y: Any) -> None:
        m, n = self.shape
        at(y, k, n if trans else m)[:] = self._products(trans, at(x, k, m if trans else n))

    def _work(self, progress: Optional[Callable[..., Any]] = None) -> _c.Work:
        return _c.Work(apply=self._apply, progress=progress)

    def _op(self, work: _c.Work) -> Any:
        m, n = self.shape
        return ffi.new("lipsc_op *", {"m": m, "n": n, "apply": lib.lipsc_py_apply, "ctx": work.handle})

    def _solve(self, settings: Any, values: Array, u: Array, v: Array, info: Any, work: _c.Work) -> int:
        status, _ = _c.attempt(lib.lipsc_svd, self._op(work), settings, pointer(values), pointer(u), pointer(v), info,
                               err=False)
        return int(status)

    def _rounding(self, value: float) -> float:
        """What products are taken to be off by, at most."""
        return 64 * float(np.finfo(np.float64).eps) * value

    def _prove(self, v: Array, settings: Any, out: Any, work: _c.Work, lower: float) -> Any:
        if settings.rounding == 0:
            settings.rounding = self._rounding(lower)
        return _c.attempt(lib.lipsc_certify, self._op(work), pointer(v), settings, out)


def operator(shape: Tuple[int, int], multiply: Callable[[int, Array], Any]) -> Callback:
    """An m x n operator by its products: multiply(0, x) gives A x_i for the rows x_i of x (k, n), multiply(1, x) gives
    A^T x_i for those of x (k, m).  The library's solver finds its singular values."""
    m, n = shape
    return Callback((n,), (m,), multiply)
