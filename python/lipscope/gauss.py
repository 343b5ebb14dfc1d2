"""Gaussians and their mixtures: inputs of infinite length, which attention sees in closed form."""
from __future__ import annotations

import os
from typing import Any, Optional, Sequence, Tuple, Union

import numpy as np

from . import _c, errors
from ._c import ffi, lib
from .arrays import Array, at, numbers, path_of, pointer, whole
from .files import write_tensors
from .layers import layer_of


class Gaussians:
    """sum_k mass_k N(mean_k, cov_k): mean (d) or (parts, d), cov (d, d) or (parts, d, d), mass (parts) or equal ones.

    >>> import numpy as np, lipscope as ls
    >>> g = ls.Gaussians(np.zeros(2), np.eye(2))
    >>> image = g.push(ls.Layer(np.eye(2), None, 2 * np.eye(2)))
    >>> image.cov.tolist(), g.slope(ls.Layer(np.eye(2), None, 2 * np.eye(2)))
    ([[4.0, 0.0], [0.0, 4.0]], 2.0)
    """

    def __init__(self, mean: Any, cov: Any, mass: Any = None):
        means, covs = numbers(mean, "mean"), numbers(cov, "cov")
        self.mean: Array = means[None] if means.ndim == 1 else means
        self.cov: Array = covs[None] if covs.ndim == 2 else covs
        if self.mean.ndim != 2 or self.cov.shape != (*self.mean.shape, self.mean.shape[-1]):
            raise errors.ArgumentError(f"mean has shape {means.shape} and cov {covs.shape}: (d) and (d, d), or (parts, d) and "
                                       "(parts, d, d) are needed")
        parts, d = self.mean.shape
        self.mass: Optional[Array] = None if mass is None else numbers(mass, "mass", shape=(parts,))
        self.struct = ffi.new("lipsc_gauss *", {"parts": parts, "d": d, "mean": pointer(self.mean),
                                                "cov": pointer(self.cov), "mass": pointer(self.mass)})
        _c.call(lib.lipsc_gauss_check, self.struct)
        if parts == 1:  # shown as they were given
            self.mean, self.cov = self.mean[0], self.cov[0]

    @classmethod
    def load(cls, path: Union[str, "os.PathLike[str]"]) -> Gaussians:
        """From a safetensors file: mean, cov, and optionally mix, the masses."""
        file = ffi.new("lipsc_gauss_file *")
        _c.call(lib.lipsc_gauss_file_read, path_of(path), file)
        try:
            g = file.gauss
            return cls(at(g.mean, g.parts, g.d).copy(), at(g.cov, g.parts, g.d, g.d).copy(),
                       at(g.mass, g.parts).copy() if g.mass else None)
        finally:
            lib.lipsc_gauss_file_free(file)

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """As a safetensors file, which `load` and the command line read."""
        write_tensors(path, dict({"mean": self.mean, "cov": self.cov}, **({} if self.mass is None else {"mix": self.mass})))

    @property
    def parts(self) -> int:
        return int(self.struct.parts)

    @property
    def d(self) -> int:
        return int(self.struct.d)

    def sample(self, n: int, seed: int = 1) -> Array:
        """n random tokens (n, d), the same for the same seed."""
        X = np.zeros((whole(n, "n"), self.d))
        _c.call(lib.lipsc_gauss_sample, self.struct, len(X), whole(seed, "seed", 0), pointer(X))
        return X

    def map(self, layer: Any, x: Any) -> Array:
        """Where attention of this input sends the points x (count, d)."""
        points, found = numbers(x, "x", 2), layer_of(layer)
        if points.shape[1] != self.d:
            raise errors.ArgumentError(f"x has {points.shape[1]} columns, and {self.d} are needed")
        y = np.zeros((len(points), found.width))
        _c.call(lib.lipsc_gauss_map, found.struct, self.struct, len(points), pointer(points), pointer(y))
        return y

    def _image(self, layer: Any) -> Tuple[Array, Array, float]:
        found = layer_of(layer)
        mean, cov, slope = np.zeros(found.width), np.zeros((found.width, found.width)), ffi.new("double *")
        _c.call(lib.lipsc_gauss_push, found.struct, self.struct, pointer(mean), pointer(cov), slope)
        return mean, cov, float(slope[0])

    def push(self, layer: Any) -> Gaussians:
        """The image of one Gaussian, again one."""
        mean, cov, _ = self._image(layer)
        return Gaussians(mean, cov)

    def slope(self, layer: Any) -> float:
        """The Lipschitz constant |V S A| of attention at one Gaussian: that of splitting and of teleporting."""
        return self._image(layer)[2]

    def rate(self, layer: Any, lengths: Sequence[int] = (100, 400, 1600, 6400), repeats: int = 4,
             seed: int = 1) -> Tuple[Array, float]:
        """(errors, exponent): how samples of so many tokens approach the limit, and the slope of ln error on ln n."""
        sizes, exponent = ffi.new("size_t[]", [whole(n, "lengths") for n in lengths]), ffi.new("double *")
        errors_ = np.zeros(len(sizes))
        _c.call(lib.lipsc_gauss_rate, layer_of(layer).struct, self.struct, len(sizes), sizes, whole(repeats, "repeats"),
                whole(seed, "seed", 0), pointer(errors_), exponent)
        return errors_, float(exponent[0])

    def __repr__(self) -> str:
        return f"<Gaussian in {self.d} dimensions>" if self.parts == 1 else f"<Mixture of {self.parts} Gaussians in {self.d} dimensions>"
