"""The door to C: calls that check their status, callbacks that keep exceptions, handles that are freed once."""
from __future__ import annotations

import importlib
import math
import os
import threading
import weakref
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Type, TypeVar

from . import errors
from ._binding import ffi, lib

__all__ = ["ffi", "lib", "call", "Work", "Handle", "Owner", "Record", "text", "need"]

_Self = TypeVar("_Self", bound="Owner")


def text(pointer: Any) -> Optional[str]:
    """A C string, None for NULL."""
    return ffi.string(pointer).decode("utf-8", "replace") if pointer else None


def need(module: str, what: str) -> Any:
    """An optional package, or an error that names it."""
    try:
        return importlib.import_module(module)
    except ImportError as absent:
        name = module.split(".")[0]
        raise errors.Missing(f"{what} needs {name}, which is not installed: pip install {name}") from absent


# ---- Processes ---------------------------------------------------------------------------

# OpenMP's threads do not live on in the child of a fork: a child that goes on with them waits for ever.
_process = {"used": False, "forked": False}


def _after_fork() -> None:
    _process["forked"] = _process["used"]


os.register_at_fork(after_in_child=_after_fork)


def enter() -> None:
    """Every call into C that computes begins here."""
    if _process["forked"]:
        raise errors.Unusable("lipscope was used before this process was forked, and its threads did not come along: "
                              "start processes with multiprocessing's 'spawn', or use lipscope only after the fork")
    _process["used"] = True


# ---- Calls -------------------------------------------------------------------------------


def failure(status: int, sentence: str = "", result: Any = None) -> errors.LipscopeError:
    """The exception for a status other than OK."""
    name = text(lib.lipsc_status_name(status)) or "E_ARG"
    kind: Type[errors.LipscopeError] = errors.KINDS.get(name, errors.LipscopeError)
    return kind(sentence or text(lib.lipsc_strerror(status)) or name, result)


def call(function: Callable[..., int], *arguments: Any, err: bool = True) -> None:
    """Calls a function that returns lipsc_status, with a lipsc_error at the end unless err is False; raises unless OK."""
    status, sentence = attempt(function, *arguments, err=err)
    if status != lib.LIPSC_OK:
        raise failure(status, sentence)


def attempt(function: Callable[..., int], *arguments: Any, err: bool = True) -> Any:
    """The same, handing back (status, sentence)."""
    enter()
    if not err:
        return function(*arguments), ""
    error = ffi.new("lipsc_error *")
    status = function(*arguments, error)
    return status, text(error.text) if status != lib.LIPSC_OK else ""


# ---- Callbacks ---------------------------------------------------------------------------

_works = threading.local()


class Work:
    """One call into C that may call back.  An exception in a callback, a Ctrl-C among them, stops the work and is raised
    again after it:

        with Work(apply=...) as work:
            status, sentence = attempt(lib.f, ..., work.handle)
    """

    def __init__(self, apply: Optional[Callable[..., None]] = None, progress: Optional[Callable[..., Any]] = None):
        self.apply = apply
        self.progress = progress
        self.remarks: List[str] = []
        self.error: Optional[BaseException] = None
        self.handle = ffi.new_handle(self)

    def __enter__(self) -> Work:
        stack: List[Work] = _works.__dict__.setdefault("stack", [])
        stack.append(self)
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        _works.stack.pop()
        if self.error is not None and kind is None:
            error, self.error = self.error, None
            raise error


def _keep(kind: Any, error: BaseException, trace: Any) -> None:
    """An exception that a callback met, kept for the caller of C.  Callbacks come from C's own threads too; each has the
    handle of its work as ctx."""
    ctx = trace.tb_frame.f_locals.get("ctx") if trace is not None else None
    work = ffi.from_handle(ctx) if ctx else _works.stack[-1]
    if work.error is None:
        work.error = error


@ffi.def_extern(error=1, onerror=_keep)  # type: ignore[untyped-decorator]
def lipsc_py_apply(ctx: Any, trans: int, k: int, x: Any, y: Any) -> int:
    work = ffi.from_handle(ctx)
    work.apply(trans, k, x, y)
    return 0


@ffi.def_extern(error=1, onerror=_keep)  # type: ignore[untyped-decorator]
def lipsc_py_stop(ctx: Any) -> int:
    work = ffi.from_handle(ctx)
    return work.error is not None


@ffi.def_extern(onerror=_keep)  # type: ignore[untyped-decorator]
def lipsc_py_progress(ctx: Any, products: int, sigma: float, residual: float) -> None:
    work = ffi.from_handle(ctx)
    if work.progress:
        work.progress(products, sigma, residual)


@ffi.def_extern(onerror=_keep)  # type: ignore[untyped-decorator]
def lipsc_py_study_progress(ctx: Any, progress: Any) -> None:
    work = ffi.from_handle(ctx)
    if work.progress:
        work.progress(progress.done, progress.total)


@ffi.def_extern(onerror=_keep)  # type: ignore[untyped-decorator]
def lipsc_py_remark(ctx: Any, sentence: Any) -> None:
    ffi.from_handle(ctx).remarks.append(text(sentence))


@ffi.def_extern(onerror=_keep)  # type: ignore[untyped-decorator]
def lipsc_py_attack_progress(ctx: Any, doing: Any, evaluations: int, best: float) -> None:
    work = ffi.from_handle(ctx)
    if work.progress:
        work.progress(text(doing), evaluations, best)


@ffi.def_extern(onerror=_keep)  # type: ignore[untyped-decorator]
def lipsc_py_attacks_progress(ctx: Any, n: int, doing: Any, evaluations: int, best: float) -> None:
    lipsc_py_attack_progress(ctx, doing, evaluations, best)


@ffi.def_extern(onerror=_keep)  # type: ignore[untyped-decorator]
def lipsc_py_trial(ctx: Any, trial: Any) -> None:
    ffi.from_handle(ctx).progress({"name": text(trial.name), "error": trial.error, "limit": trial.limit,
                                   "passed": bool(trial.passed)})


# ---- Handles -----------------------------------------------------------------------------


class Turn:
    """One thread at a time: whoever holds it may use the handles that share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: Optional[int] = None

    @contextmanager
    def hold(self, what: str) -> Iterator[None]:
        if self._owner == threading.get_ident():
            raise errors.Unusable(f"{what} is in use already: a function that it calls cannot use it again")
        with self._lock:
            self._owner = threading.get_ident()
            try:
                yield
            finally:
                self._owner = None


class Handle:
    """A pointer that one thread uses at a time and that is freed once: by close, by a with statement, or with the last
    reference to it.  What it stands on, `under`, lives until then; a handle that is closed closes first those above it."""

    def __init__(self, pointer: Any, free: Callable[[Any], None], what: str, *under: Any, turn: Optional[Turn] = None):
        self._under: List[Any] = []

        def free_first(found: Any, kept: Any = self._under) -> None:  # kept: freed after
            free(found)

        self._pointer = ffi.gc(pointer, free_first)
        self._what = what
        self._above: "weakref.WeakSet[Handle]" = weakref.WeakSet()
        self.turn = turn or Turn()
        for below in under:
            self.stand_on(below)

    def stand_on(self, below: Any) -> None:
        """From now on this needs `below` to the end."""
        if not any(kept is below for kept in self._under):
            self._under.append(below)
            if isinstance(below, Handle):
                below._above.add(self)

    @contextmanager
    def use(self) -> Iterator[Any]:
        with self.turn.hold(self._what):
            if self._pointer is None:
                raise errors.Unusable(f"{self._what} is closed")
            yield self._pointer

    def close(self) -> None:
        for handle in list(self._above):
            handle.close()
        with self.turn.hold(self._what):
            if self._pointer is not None:
                ffi.release(self._pointer)
                self._pointer = None


class Owner:
    """What holds a handle: freed by close, by a with statement, or with the last reference to it."""

    _handle: Handle

    def close(self) -> None:
        """Frees the memory now; the last reference would do it as well."""
        self._handle.close()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()


# ---- Structs -----------------------------------------------------------------------------


class Record:
    """A result of the library: the fields of its C struct, under their names there."""

    def __init__(self, **fields: Any):
        self.__dict__.update(fields)

    @classmethod
    def of(cls, struct: Any, **extra: Any) -> Record:
        """The numbers, strings and enumerations of a struct; pointers to anything else only by `extra`."""
        kind = ffi.typeof(struct)
        kind = kind.item if kind.kind == "pointer" else kind
        fields: Dict[str, Any] = {}
        for name, field in kind.fields:
            if name in extra or field.type.kind == "primitive" or field.type.kind == "enum":
                fields[name] = extra.get(name, getattr(struct, name))
            elif field.type.cname in ("char *", "const char *") or field.type.cname.startswith("char["):
                fields[name] = text(getattr(struct, name))
        fields.update(extra)
        return cls(**fields)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there is no field {name}: the fields are {', '.join(self.__dict__)}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self.__dict__ == other.__dict__

    def __repr__(self) -> str:
        width = max((len(name) for name in self.__dict__), default=0)
        return "\n".join(f"{name:<{width}}  {_show(value)}" for name, value in self.__dict__.items())


def _show(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    shape = getattr(value, "shape", None)
    return f"array {shape}" if shape else str(value)


NONE: int = (1 << 8 * ffi.sizeof("size_t")) - 1  # LIPSC_NONE
_NO_WHOLE: int = -1 << 63  # LIPSC_NO_WHOLE
_EMPTY: Dict[str, Callable[[Any], Any]] = {
    "TEXT": lambda value: text(value),
    "COUNT": lambda value: None if value == NONE else int(value),
    "WHOLE": lambda value: None if value == _NO_WHOLE else int(value),
    "REAL": lambda value: float(value) if math.isfinite(value) else None,
    "FLAG": lambda value: None if value < 0 else bool(value),
    "REALS": lambda value: [float(x) for x in ffi.unpack(value.at, value.count)] if value.at else None,
}


def fields(listed: Any) -> List[Any]:
    """(name, how to read it, its part) of a list of fields (lipsc_fields)."""
    kinds = {value: name.replace("LIPSC_FIELD_", "") for value, name in ffi.typeof("lipsc_field_kind").elements.items()}
    return [(text(f.name), _EMPTY[kinds[f.kind]], f.part) for f in ffi.unpack(listed.at, listed.count)]


def as_dict(struct: Any, listed: List[Any], parts: int = -1) -> Dict[str, Any]:
    """A record of the library with such fields, empty values as None; of the parts only those that it has."""
    return {name: read(getattr(struct, name)) for name, read, part in listed if not part or part & parts}


def fill(struct: Any, options: Dict[str, Any]) -> None:
    """Sets the fields of a settings struct; None leaves the default.  What C cannot hold is an ArgumentError."""
    for name, value in options.items():
        if value is None:
            continue
        try:
            setattr(struct, name, value)
        except (TypeError, OverflowError) as wrong:
            raise errors.ArgumentError(f"{name} = {value!r}: {wrong}") from None
