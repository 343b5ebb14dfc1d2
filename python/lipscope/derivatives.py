"""The Jacobian of any differentiable torch function or module, by torch's own derivatives and the library's solver."""
from __future__ import annotations

import contextlib
import copy
import functools
import warnings
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

import numpy as np

from . import _c, machines, dlpack, errors
from ._c import lib
from .arrays import Array, is_torch, pointer
from .operators import Callback


def _torch() -> Any:
    return _c.need("torch", "ls.jacobian")


@functools.lru_cache(maxsize=None)
def _warm() -> None:
    """torch loads its forward mode at its first use and warns of itself then, which is no concern of whoever called us."""
    torch = _torch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.func.jvp(torch.sin, (torch.zeros(1),), (torch.ones(1),))


def _autocast() -> List[str]:
    """Devices whose products torch rounds to half precision now."""
    torch = _torch()
    try:
        return [kind for kind in ("cuda", "cpu") if torch.is_autocast_enabled(kind)]
    except TypeError:  # before torch 2.4
        return [kind for kind, on in (("cuda", torch.is_autocast_enabled), ("cpu", torch.is_autocast_cpu_enabled)) if on()]


@contextlib.contextmanager
def steady(module: Any) -> Iterator[None]:
    """Dropout off, no autocast, and attention by its plain formula, which torch can differentiate in both directions; set
    back after."""
    torch = _torch()
    if torch.is_inference_mode_enabled():
        raise errors.Unusable("torch.inference_mode() forbids derivatives: call lipscope outside it, or use torch.no_grad()")
    modes = [(part, part.training) for part in module.modules()] if isinstance(module, torch.nn.Module) else []
    for part, _ in modes:
        part.training = False
    try:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH), contextlib.ExitStack() as stack:
            for kind in _autocast():
                stack.enter_context(torch.autocast(kind, enabled=False))
            yield
    finally:
        for part, training in modes:
            part.training = training


def first_tensor(value: Any) -> Any:
    """A tensor, or the first one of a tuple, a list or a model's output."""
    if is_torch(value):
        return value
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)) and value and is_torch(value[0]):
        return value[0]
    raise errors.KindError(f"the function returns a {type(value).__name__}, and a tensor is needed")


class Jacobian(Callback):
    """The Jacobian of a torch function at x; see `jacobian`.  `mode` tells how J v is computed: "forward", or
    "double-backward" where torch has no forward derivative of some operation.  The solver's vectors stay on x's device
    where the library has it too; `vectors` tells where they were in the last solve."""

    def __init__(self, function: Callable[[Any], Any], x: Any, module: Any = None, name: str = "x"):
        torch = _torch()
        if not is_torch(x):
            raise errors.KindError(f"{name} is a {type(x).__name__}, and a torch tensor is needed")
        if x.dtype not in (torch.float64, torch.float32):
            raise errors.KindError(f"{name} is {x.dtype}: derivatives in that precision cannot be trusted; pass float64 or "
                                   "float32, for a model in memory dtype=torch.float64")
        if x.device.type == "meta":
            raise errors.DeviceError(f"{name} lies on meta, where tensors have no numbers")
        if x.numel() == 0:
            raise errors.ArgumentError(f"{name} is empty: its shape is {tuple(x.shape)}")
        self._module = module
        self._x = x.detach().clone()
        self._function: Callable[[Any], Any] = lambda value: first_tensor(function(value))
        self._tol = {} if x.dtype == torch.float64 else {"tol": 1e-2, "value_tol": 1e-5}
        self._leaf: Any = self._x.clone().requires_grad_()
        with steady(module), torch.enable_grad():
            y: Any = self._function(self._leaf)
        self._graph = y
        if not torch.isfinite(y).all() or not torch.isfinite(self._x).all():
            raise errors.NotFinite(f"a NaN or an infinity is in {name} or in the function's value")
        super().__init__(tuple(x.shape), tuple(y.shape), self._torch_products)
        self._y = y.detach()
        self._push: Callable[[Any], Any] = self._forward
        self.mode, self.vectors = "forward", "cpu"
        self._choose()

    def _pull(self, w: Any) -> Any:
        """J^T w, by the graph of one evaluation that is kept."""
        return self._derivative(self._graph, self._leaf, w)

    @staticmethod
    def _derivative(y: Any, x: Any, w: Any, more: bool = False) -> Any:
        torch = _torch()
        if not y.requires_grad:  # constant
            return torch.zeros_like(x)
        (found,) = torch.autograd.grad(y, x, w, retain_graph=True, create_graph=more, allow_unused=True)
        return torch.zeros_like(x) if found is None else found

    def _forward(self, v: Any) -> Any:
        return _torch().func.jvp(self._function, (self._x,), (v,))[1]

    def _double_backward(self) -> Callable[[Any], Any]:
        """J v as the derivative of J^T w by w, which is linear in w."""
        w: Any = _torch().zeros_like(self._y, requires_grad=True)
        pulled = self._derivative(self._graph, self._leaf, w, more=True)
        return lambda v: self._derivative(pulled, w, v)

    def _backward_twice(self, v: Any) -> Any:
        """J v by double-backward, from now on."""
        try:
            self._push, self.mode = self._double_backward(), "double-backward"
            return self._push(v)
        except (RuntimeError, NotImplementedError) as wrong:
            raise errors.CallbackError("torch has neither a forward derivative nor a second one of this function: "
                                       + str(wrong).splitlines()[0]) from None

    def _choose(self) -> None:
        """Forward mode where every operation has it, which a first product tells.  <J v, w> = <v, J^T w> has to hold, so
        that a derivative that torch gets wrong does not become a number."""
        torch = _torch()
        _warm()
        generator = torch.Generator(device="cpu").manual_seed(1)
        v = torch.randn(self._x.shape, generator=generator, dtype=torch.float64).to(self._x)
        w = torch.randn(self._y.shape, generator=generator, dtype=torch.float64).to(self._y)
        with steady(self._module), torch.enable_grad():
            try:
                jv = self._forward(v)
            except (NotImplementedError, RuntimeError):
                jv = self._backward_twice(v)
            jw = self._pull(w)
        jv, jw = jv.detach(), jw.detach()
        left, right = float((jv * w).double().sum()), float((v * jw).double().sum())
        size = float(jv.double().norm() * w.double().norm() + v.double().norm() * jw.double().norm())
        slack = (1e-9 if self._x.dtype == torch.float64 else 1e-3) * size
        if not abs(left - right) <= slack:
            raise errors.CallbackError(f"torch's forward and backward derivatives of this function contradict each other "
                                       f"(<Jv, w> = {left:.6g}, <v, J'w> = {right:.6g}): is it random, or does it keep state?")

    def _product(self, trans: int, vector: Any) -> Any:
        """J v or J^T w of one flat vector, flat."""
        found = self._pull(vector.reshape(self._y.shape).to(self._x)) if trans else \
            self._push(vector.reshape(self._x.shape).to(self._x))
        return found.detach().reshape(-1)

    def _torch_products(self, trans: int, x: Array) -> Array:
        torch = _torch()
        with steady(self._module), torch.enable_grad():
            return np.stack([self._product(trans, torch.from_numpy(np.array(row))).double().cpu().numpy() for row in x])

    # ---- vectors that stay where x is ----

    def _apply_there(self, trans: int, k: int, x: Any, y: Any) -> None:
        """Products with vectors in the memory of x's device."""
        torch, place = _torch(), self._x.device
        m, n = self.shape
        source = dlpack.doubles(x, (k, m if trans else n), place)
        target = dlpack.doubles(y, (k, n if trans else m), place)
        with steady(self._module), torch.enable_grad():
            for v, w in zip(source, target):
                w.copy_(self._product(trans, v))
        if place.type == "cuda":
            torch.cuda.current_stream(place).synchronize()

    def _device(self) -> Optional[machines.Device]:
        """The library's device where x lies; None: it is the CPU, or the library cannot work there."""
        place = self._x.device
        if place.type == "cpu":
            return None
        try:
            return machines.Device(f"{place.type}:{place.index or 0}")
        except errors.LipscopeError:
            return None

    def _solve(self, settings: Any, values: Array, u: Array, v: Array, info: Any, work: _c.Work) -> int:
        device = self._device()
        self.vectors = "cpu" if device is None else device.name
        if device is not None or self._x.device.type == "cpu":
            work.apply = self._apply_there
        with machines.pointer(device) as there:
            status, _ = _c.attempt(lib.lipsc_svd_on, there, self._op(work), settings, pointer(values), pointer(u), pointer(v),
                                   info, err=False)
        return int(status)

    def _rounding(self, value: float) -> float:
        return 64 * float(_torch().finfo(self._x.dtype).eps) * value

    def output(self) -> Any:
        """The function's value at x."""
        return self._y.clone()


# ---- Inputs of a module inside a model -------------------------------------------------------


def attention_modules(model: Any) -> Dict[str, Any]:
    """The attention modules of a model by their paths, found by the names of their types: of modules inside each other the
    outer one.

    >>> import torch, lipscope as ls
    >>> list(ls.attention_modules(torch.nn.TransformerEncoderLayer(8, 2)))
    ['self_attn']
    """
    found: Dict[str, Any] = {}
    if not hasattr(model, "named_modules"):
        raise errors.KindError(f"a {type(model).__name__} has no modules: a torch model is needed")
    for path, module in model.named_modules():
        if "attention" in type(module).__name__.lower() and not any(path.startswith(outer + ".") for outer in found):
            if path and any(True for _ in module.parameters()):
                found[path] = module
    return found


def _submodule(model: Any, path: str) -> Any:
    try:
        return model.get_submodule(path)
    except AttributeError:
        near = ", ".join(list(attention_modules(model))[:4])
        raise errors.ArgumentError(f"the model has no module {path!r}" + (f": it has {near}" if near else "")) from None


def _forward_pass(model: Any, ids: Any) -> None:
    torch = _torch()
    if isinstance(ids, Mapping):
        model(**ids)
        return
    if not is_torch(ids):
        ids = torch.as_tensor(np.asarray(ids))
    if not ids.is_floating_point() and ids.ndim == 1:
        ids = ids[None]
    place = next(iter(model.parameters()), ids).device
    model(ids.to(place))


class _Found(Exception):
    """Ends a forward pass at the module whose arguments are wanted."""


def captured(model: Any, module: Any, ids: Any) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    """The arguments that a module gets in a real forward pass.  A cache of keys and values is left out: it would grow with
    every product."""
    torch = _torch()
    got: List[Any] = []

    def keep(_: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        got.append((args, kwargs))
        raise _Found

    hook = module.register_forward_pre_hook(keep, with_kwargs=True)
    try:
        with steady(model), torch.no_grad():
            _forward_pass(model, ids)
    except _Found:
        pass
    finally:
        hook.remove()
    if not got:
        raise errors.ArgumentError("the module takes no part in the model's forward pass")
    args, kwargs = got[0]
    return (tuple(None if _is_cache(value) else value for value in args),
            {name: None if _is_cache(value) else value for name, value in kwargs.items()})


def _is_cache(value: Any) -> bool:
    """A cache of transformers, by what all of them can do."""
    return hasattr(value, "get_seq_length") and hasattr(value, "update")


def _input_place(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    """Where the hidden states are: the first floating-point tensor."""
    for place, value in list(enumerate(args)) + list(kwargs.items()):
        if is_torch(value) and value.is_floating_point():
            return place
    raise errors.ArgumentError("no argument of the module is a floating-point tensor")


def _cast(value: Any, dtype: Any) -> Any:
    """Tensors of real numbers in another precision, inside tuples as well (rotary positions come as one)."""
    if is_torch(value):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(_cast(part, dtype) for part in value)
    return value


def _check_weights(model: Any) -> None:
    """Weights that have numbers, and a derivative."""
    for name, weight in model.named_parameters():
        if weight.device.type == "meta":
            raise errors.DeviceError(f"weight {name} lies on meta, where tensors have no numbers: load the model's weights first")
        if weight.is_inference():
            raise errors.Refused(f"weight {name} was made inside torch.inference_mode(), which forbids derivatives: load the model "
                                 "outside it")


def at_module(model: Any, path: str, ids: Any, dtype: Any = None) -> Tuple[Callable[[Any], Any], Any, Any]:
    """(function, x, module): a module as a function of its hidden states, all other arguments as a forward pass has them."""
    module = _submodule(model, path)
    _check_weights(model)
    args, kwargs = captured(model, module, ids)
    if dtype is not None:
        module = copy.deepcopy(module).to(dtype)
        args = tuple(_cast(value, dtype) for value in args)
        kwargs = {name: _cast(value, dtype) for name, value in kwargs.items()}
    place = _input_place(args, kwargs)
    x = args[place] if isinstance(place, int) else kwargs[place]

    def function(value: Any) -> Any:
        if isinstance(place, int):
            return module(*args[:place], value, *args[place + 1:], **kwargs)
        return module(*args, **dict(kwargs, **{place: value}))

    return function, x, module


def jacobian(function: Any, x: Any, ids: Any = None, *, dtype: Any = None) -> Jacobian:
    """The Jacobian of any differentiable torch function, or of a module inside a model.

    jacobian(fn, x): of fn at the tensor x, by torch.func.jvp and vjp, or twice backward where torch has no forward
    derivative.  jacobian(model, "path.of.module", ids): of that module at what it gets in a forward pass of the model on
    ids (token ids, or a dictionary of the model's arguments); masks, positions and all other arguments stay as they are
    there.  dtype=torch.float64 makes a copy of that module in double.  Dropout is off meanwhile.

    J.sigma(k=3, certify=1e-3), J @ v, J.T @ w, J.as_scipy() as for every operator; vectors may be torch's or numpy's.  A
    certificate takes torch's products to be right to 64 units in the last place of sigma; `rounding=` says otherwise.

    >>> import torch, lipscope as ls
    >>> J = ls.jacobian(torch.tanh, torch.zeros(3, dtype=torch.float64))
    >>> J.sigma()
    Sigma(1, residual 0.0e+00)
    """
    torch = _torch()
    if isinstance(x, str):
        if not isinstance(function, torch.nn.Module):
            raise errors.KindError(f"a path inside a {type(function).__name__}: a torch module is needed")
        if ids is None:
            raise errors.ArgumentError("jacobian(model, path, ids) needs ids: token ids, or the model's arguments")
        return Jacobian(*at_module(function, x, ids, dtype), name="the module's input")
    if not callable(function):
        raise errors.KindError(f"a {type(function).__name__} is no function")
    return Jacobian(function, x, function)
