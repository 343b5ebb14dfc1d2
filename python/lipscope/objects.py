"""transformers objects in memory: their configuration and weights as they lie, and whether that is all they compute."""
from __future__ import annotations

import copy
import json
import warnings
from typing import Any, Dict, List, Optional, Tuple

from . import _c, errors
from ._c import ffi, lib
from .arrays import to_host
from .tables import plain

_STORED = {"torch.float64": "F64", "torch.float32": "F32", "torch.float16": "F16", "torch.bfloat16": "BF16"}


_QUANTISED = ("bitsandbytes", "auto_gptq", "gptqmodel", "awq", "autoawq", "quanto", "optimum", "torchao", "hqq", "eetq", "aqlm",
              "fbgemm_gpu", "compressed_tensors")


def unwrapped(model: Any) -> Any:
    """What torch.compile and data parallelism wrap: they compute the same."""
    model = getattr(model, "_orig_mod", model)
    if type(model).__name__ in ("DataParallel", "DistributedDataParallel") and type(model).__module__.startswith("torch."):
        model = getattr(model.module, "_orig_mod", model.module)
    return model


# ---- Is it what its configuration and weights say? ----


def _strange(model: Any) -> Optional[str]:
    """Why a transformers object does not compute what its configuration and weights say, or None."""
    everywhere = _c.need("torch.nn.modules.module", "a model in memory")
    if everywhere._global_forward_hooks or everywhere._global_forward_pre_hooks:
        return "torch has forward hooks of all modules"
    for path, module in model.named_modules():
        found = _strange_module(module)
        if found:
            return f"module {path or 'itself'} {found}"
    if not type(model).__module__.startswith("transformers.models."):
        return f"its class {type(model).__name__} is not one of transformers itself"
    return _changed(model)


def _harmless(hook: Any) -> bool:
    """Gradient checkpointing makes the embedding's output require a gradient, which changes no number."""
    return (str(getattr(hook, "__module__", "")).startswith("transformers.")
            and getattr(hook, "__name__", "") == "make_inputs_require_grads")


def _strange_module(module: Any) -> Optional[str]:
    kind = type(module)
    origin = kind.__module__.split(".")[0]
    if origin == "peft":
        return f"has an adapter ({kind.__name__}): pass model.merge_and_unload()"
    if origin in _QUANTISED or ".ao." in f"{kind.__module__}." or ".quantized." in f"{kind.__module__}.":
        return f"is quantised ({kind.__name__})"
    if kind.__name__ == "OptimizedModule":
        return "is compiled alone: compile the whole model, or none of it"
    if "parametrizations" in dict(module.named_children()):
        return "has parametrizations"
    hooks = [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]
    if hasattr(module, "_hf_hook"):
        return "has hooks of accelerate, which move its weights about: load the model without offloading"
    if not all(_harmless(hook) for hook in hooks):
        return "has hooks"
    if "forward" in vars(module):
        return "has another forward than its class"
    for name, tensor in module._parameters.items():
        if tensor is not None and type(tensor.data).__module__.split(".")[0] != "torch":
            return f"keeps its {name} as a {type(tensor.data).__name__}"
    return None


def _changed(model: Any) -> Optional[str]:
    """What was changed by hand since the class made it of the configuration: modules, numbers that they keep, parameters,
    angles of positions.  The class makes another one for that, without memory."""
    torch = _c.need("torch", "a model in memory")
    try:
        with warnings.catch_warnings(), torch.device("meta"):
            warnings.simplefilter("ignore")
            fresh = dict(type(model)(copy.deepcopy(model.config)).named_modules())
    except Exception:  # a class that cannot be made without memory is taken at its word
        return None
    for path, module in model.named_modules():
        if path not in fresh:
            return f"module {path} is none of its class"
        found = _changed_module(module, fresh[path]) or _changed_angles(module)
        if found:
            return f"module {path or 'itself'} {found}"
    return None


_FREE = ("training", "gradient_checkpointing", "layer_idx", "name_or_path", "vocab_size")  # decide no number


def _changed_module(module: Any, fresh: Any) -> Optional[str]:
    if type(module) is not type(fresh):
        return f"is a {type(module).__name__} where its class has a {type(fresh).__name__}"
    for name, want in vars(fresh).items():
        found = vars(module).get(name, want)
        if name[0] != "_" and name not in _FREE and type(want) in (bool, int, float, str) and found != want:
            return f"has {name} = {found!r} where its configuration says {want!r}"
    shapes = [{name: tuple(tensor.shape) for name, tensor in one._parameters.items() if tensor is not None}
              for one in (module, fresh)]
    for name in sorted(shapes[0].keys() | shapes[1].keys()):
        if shapes[0].get(name) != shapes[1].get(name):
            return f"has {name} of shape {shapes[0].get(name)} where its configuration says {shapes[1].get(name)}"
    return None


def _changed_angles(module: Any) -> Optional[str]:
    """Rotary frequencies are made of the configuration once; those of long texts follow the text."""
    torch, found = _c.need("torch", "a model in memory"), module._buffers.get("inv_freq")
    if found is None or found.device.type == "meta" or getattr(module, "rope_type", "default") in ("dynamic", "longrope"):
        return None
    try:
        want = type(module)(module.config)._buffers["inv_freq"].to(found)
    except Exception:
        return None
    near = torch.allclose(found, want, rtol=8 * torch.finfo(found.dtype).eps, atol=0.0) if found.shape == want.shape else False
    return None if near else "turns positions by other angles than its configuration says"


# ---- As C takes it ----


def _checkpoint(model: Any) -> Dict[str, Any]:
    """The tensors under the names that save_pretrained gives them; transformers joins some of them when it loads."""
    state = dict(model.state_dict())
    try:
        from transformers.core_model_loading import revert_weight_conversion
    except ImportError:
        return state
    try:
        return dict(revert_weight_conversion(model, state))
    except Exception as wrong:
        raise errors.ArgumentError("transformers cannot give the weights back as its checkpoints keep them: "
                                   + (str(wrong).splitlines() or [type(wrong).__name__])[0]) from None


def _configuration(model: Any) -> bytes:
    config = json.loads(model.config.to_json_string())
    config["architectures"] = [type(model).__name__]
    return json.dumps(config).encode()


def _c_tensor(struct: Any, name: str, tensor: Any, keep: List[Any]) -> None:
    tensor = to_host(tensor, f"weight {name}", "model.cpu()")
    if str(tensor.dtype) not in _STORED:
        raise errors.KindError(f"weight {name} is {tensor.dtype}: float64, float32, float16 and bfloat16 are read")
    tensor = tensor.detach()
    shape = ffi.new("size_t[]", list(tensor.shape))
    strides = ffi.new("ptrdiff_t[]", [s * tensor.element_size() for s in tensor.stride()])
    label, kind = ffi.new("char[]", name.encode()), ffi.new("char[]", _STORED[str(tensor.dtype)].encode())
    keep += [tensor, shape, strides, label, kind]
    struct.name, struct.dtype, struct.ndim, struct.shape = label, kind, tensor.ndim, shape
    struct.data, struct.strides = ffi.cast("void *", tensor.data_ptr()), strides


def from_memory(model: Any, part: int, name: str) -> Tuple[Any, List[Any]]:
    """(pointer, what must stay alive): configuration and weights as they lie in memory."""
    strange = _strange(model)
    if strange:
        raise errors.Refused(f"{plain(name)}: {strange}" + ("" if ": " in strange else "; ls.jacobian(model, path, ids) takes it as it is"))
    tensors = _checkpoint(model)
    config, keep = _configuration(model), []  # type: Tuple[bytes, List[Any]]
    structs = ffi.new("lipsc_model_tensor[]", len(tensors))
    for struct, (label, tensor) in zip(structs, tensors.items()):
        _c_tensor(struct, label, tensor, keep)
    out = ffi.new("lipsc_model **")
    try:
        _c.call(lib.lipsc_model_from_memory, name.encode(), config, len(config), part, len(tensors), structs, out)
    except errors.LipscopeError as wrong:
        from .derivatives import attention_modules
        paths = list(attention_modules(model))
        hint = f"; ls.jacobian(model, {paths[0]!r}, ids) works with torch's derivatives" if paths else ""
        raise type(wrong)(f"{wrong}{hint}") from None
    return out[0], keep
