"""For training: sigma as a differentiable penalty, and callbacks that log it."""
from __future__ import annotations

import logging
from typing import Any, Callable, Dict, Iterable, Optional

from . import _c, errors
from .arrays import is_torch
from .derivatives import Jacobian, at_module, attention_modules, first_tensor, steady

torch = _c.need("torch", "ls.torch")


def sigma(module: Any, x: Any, **options: Any) -> Any:
    """The largest singular value of the Jacobian of a module (or any function) at x, as a tensor that torch can
    differentiate by the module's weights and by x: d sigma = u^T dJ v.

    The solver finds u and v; sigma = u^T J v is then computed once more by torch, with a graph.  Where the largest singular
    value is not single, the gradient is that of one of them; second derivatives are not those of sigma.  Options are those
    of `Operator.sigma`.

    >>> import torch, lipscope as ls
    >>> W = torch.nn.Linear(3, 3, bias=False).double()
    >>> s = ls.torch.sigma(W, torch.ones(3, dtype=torch.float64))
    >>> s.backward()
    >>> bool(torch.allclose(W.weight.grad.norm(), torch.tensor(1.0, dtype=torch.float64)))
    True
    """
    if not is_torch(x):
        raise errors.KindError(f"x is a {type(x).__name__}, and a torch tensor is needed")
    found = Jacobian(module, x, module).sigma(**options)
    u = torch.from_numpy(found.u).to(x)
    v = torch.from_numpy(found.v).to(x)
    with steady(module), torch.enable_grad():
        point = x if x.requires_grad else x.detach().requires_grad_()
        y = first_tensor(module(point))
        (pulled,) = torch.autograd.grad(y, point, u.reshape(y.shape), create_graph=True)
        return (pulled * v.reshape(point.shape)).sum()


# ---- Logging ---------------------------------------------------------------------------------


def _logger(log: Any) -> Callable[[Dict[str, float], int], Any]:
    """log(values, step) for a function, a TensorBoard writer, a wandb run, a logging.Logger, or None: the logger of this
    package."""
    if log is None:
        log = logging.getLogger("lipscope")
    if isinstance(log, logging.Logger):
        return lambda values, step: log.info("step %d: %s", step, ", ".join(f"{k} {v:.4g}" for k, v in values.items()))
    if hasattr(log, "add_scalar"):
        return lambda values, step: [log.add_scalar(name, value, step) for name, value in values.items()]
    if hasattr(log, "log"):
        return lambda values, step: log.log(values, step=step)
    if callable(log):
        return lambda values, step: log(values, step)
    raise errors.KindError(f"log is a {type(log).__name__}, and a function, a writer or a logger is needed")


class Watch:
    """For plain training loops: sigma of each attention module at a fixed input, every so many steps.

        watch = ls.torch.Watch(model, ids, every=100, log=writer)
        for batch in data:
            ...
            watch.step()

    log: a function of (values, step), a TensorBoard writer, a wandb run, a logging.Logger; default: the logger "lipscope".
    layers: paths of modules; default: every attention module.  dtype: that of the derivatives; modules in half precision are
    copied to float32 for them.  A value that does not converge is logged as the lower bound that it is, with a warning.
    `history` keeps all values.

    >>> import torch, lipscope as ls
    >>> model = torch.nn.TransformerEncoderLayer(8, 2, batch_first=True)
    >>> watch = ls.torch.Watch(model, torch.ones(1, 4, 8), every=2, log=lambda values, step: print(step, *values))
    >>> for _ in range(4): watch.step()
    2 sigma/self_attn
    4 sigma/self_attn
    """

    def __init__(self, model: Any, ids: Any, every: int = 100, log: Any = None, layers: Optional[Iterable[str]] = None,
                 dtype: Any = None, **options: Any):
        if every < 1:
            raise errors.ArgumentError(f"every = {every!r}: a whole number of at least 1 is needed")
        self.model, self.ids, self.every, self.dtype, self.options = model, ids, every, dtype, options
        self.layers = list(attention_modules(model) if layers is None else layers)
        if not self.layers:
            raise errors.ArgumentError("the model has no module whose type is named attention: name them by layers=[...]")
        self.log = _logger(log)
        self.count = 0
        self.history: Dict[int, Dict[str, float]] = {}

    def measure(self) -> Dict[str, float]:
        """sigma of each layer now, under the names that are logged."""
        values = {}
        for path in self.layers:
            function, x, module = at_module(self.model, path, self.ids, self.dtype or self._precision(path))
            try:
                values[f"sigma/{path}"] = float(Jacobian(function, x, module).sigma(**self.options))
            except errors.NotConverged as late:
                values[f"sigma/{path}"] = float(late.result)
                logging.getLogger("lipscope").warning("%s: %s", path, late)
        return values

    def _precision(self, path: str) -> Any:
        """float32 for a module in half precision, whose derivatives cannot be trusted; None: as it is."""
        weight = next(self.model.get_submodule(path).parameters(), None)
        return torch.float32 if weight is not None and weight.dtype in (torch.float16, torch.bfloat16) else None

    def step(self, number: Optional[int] = None) -> None:
        """One step of training is done; number: which, by default one more than before."""
        self.count = self.count + 1 if number is None else number
        if self.count % self.every == 0:
            self.history[self.count] = self.measure()
            self.log(self.history[self.count], self.count)


def callback(trainer: Any, ids: Any, every: int = 100, layers: Optional[Iterable[str]] = None, **options: Any) -> Any:
    """Makes a transformers Trainer log sigma of each attention layer at a fixed input every so many steps, to whatever the
    trainer logs to.  Returns the callback; its `watch` keeps all values.

        ls.torch.callback(trainer, ids, every=100)
        trainer.train()
    """
    base: Any = _c.need("transformers", "ls.torch.callback").TrainerCallback

    class SigmaCallback(base):  # type: ignore[misc]
        def __init__(self) -> None:
            self.watch = Watch(trainer.model, ids, every, lambda values, step: trainer.log(values), layers, **options)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.watch.step(state.global_step)

    made = SigmaCallback()
    trainer.add_callback(made)
    return made
