"""How far can an attention layer stretch a small change of its input?

    import lipscope as ls

    r = ls.measure(model, tokenizer, text=text)                      # transformers objects, folders, names
    ls.bounds(model, layer=3, text=text); ls.attack(model, layer=3, around=X, radius=0.05, relative=True)
    ls.attention(X, Wq, Wk, Wv, Wo, heads=12, causal=True).sigma()   # one layer, in numpy, torch, DLPack
    J = ls.jacobian(model, "model.layers.3.self_attn", ids)          # a module of any torch model
    J = ls.jacobian(fn, x)                                           # any differentiable torch function
    J.sigma(k=3, certify=1e-3); J @ v; J.T @ w; J.as_scipy()
    ls.torch.sigma(module, x)                                        # differentiable: a penalty for training
    ls.wasserstein(a, b, p=2); ls.split(mu, layer)                   # measures
    ls.perturb(model, tokenizer, text)                               # changes of finite size beside sigma
    ls.compare(r, other); ls.merge(runs, "all.db"); ls.report([r, other], "page.html")
    ls.export(model, "l3.safetensors", layer=3, text=text); ls.layer("l3.safetensors"); ls.check("top.safetensors")
    ls.reproduce("paper/"); ls.devices(); ls.selftest(); ls.bench()

Everything is computed by the C library; docs/python.md is the manual.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, List

from . import errors
from ._c import Record, lib, text
from .errors import (ArgumentError, CallbackError, DeviceError, FileError, FormatError, KindError, LipscopeError, Missing,
                     NoMemory, NotConverged, NotFinite, RangeError, Refused, Stopped, Unusable)
from .attacks import Attack, Attacks, attack
from .changes import Perturbation, nearest, perturb
from .claims import Claims, reproduce
from .derivatives import Jacobian, attention_modules, jacobian
from .machines import Device, devices
from .gauss import Gaussians
from .layers import Attention, Layer, attention, layer
from .models import Map, Model, Tokenizer
from .meanfield import Distance, Measure, pairs, push, ratio, split, wasserstein
from .operators import Operator, Sigma, Sigmas, operator
from .places import Bounds, bounds
from .results import Comparison, Result, Row, compare, merge, report
from .stored import Tensors, check, export, save, tensors
from .studies import assert_sigma, measure
from .trials import Selftest, bench, selftest

if TYPE_CHECKING:
    from . import torch as torch

__version__ = text(lib.lipsc_version()) or ""

__all__ = ["ArgumentError", "Attack", "Attacks", "Attention", "Bounds", "CallbackError", "Claims", "Comparison", "Device", "DeviceError",
           "Distance", "FileError", "FormatError", "Gaussians", "Jacobian", "KindError", "Layer", "LipscopeError", "Map",
           "Measure", "Missing", "Model", "NoMemory", "NotConverged", "NotFinite", "Operator", "Perturbation", "RangeError",
           "Record", "Refused", "Result", "Row", "Selftest", "Sigma", "Sigmas", "Stopped", "Tensors", "Tokenizer", "Unusable",
           "assert_sigma", "attack", "attention", "attention_modules", "bench", "bounds", "check", "compare", "devices",
           "errors", "export", "jacobian", "layer", "measure", "merge", "nearest", "operator", "pairs", "perturb", "push",
           "ratio", "report", "reproduce", "save", "selftest", "split", "tensors", "torch", "wasserstein"]


def __dir__() -> List[str]:
    return sorted([*__all__, "__doc__", "__version__"])


def __getattr__(name: str) -> Any:
    """ls.torch is loaded when it is asked for: torch takes seconds to import and may be absent."""
    if name == "torch":
        import importlib
        return importlib.import_module(".torch", __name__)
    raise AttributeError(f"module 'lipscope' has no attribute {name!r}")
