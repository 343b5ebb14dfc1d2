"""Exceptions: one class for each status of the library, each with one clear sentence."""
from __future__ import annotations

from typing import Any, Dict, Type


class LipscopeError(Exception):
    """What every exception of this package is.  `status` is the library's name of it, for instance "E_ARG"; `result` is
    what was reached before the failure, or None."""

    status = "E_ARG"

    def __init__(self, sentence: str, result: Any = None):
        super().__init__(sentence)
        self.result = result


class ArgumentError(LipscopeError, ValueError):
    """A value that makes no sense: a wrong shape, a negative size, an unknown name."""


class KindError(LipscopeError, TypeError):
    """An object of the wrong type: integers where real numbers are needed, something that is no array."""


class NoMemory(LipscopeError, MemoryError):
    """There is not enough memory."""

    status = "E_NOMEM"


class FileError(LipscopeError, OSError):
    """A file that cannot be read or written."""

    status = "E_IO"


class FormatError(LipscopeError, ValueError):
    """A file that is not what it says it is."""

    status = "E_FORMAT"


class RangeError(LipscopeError, OverflowError):
    """A size that the library cannot count."""

    status = "E_RANGE"


class DeviceError(LipscopeError, RuntimeError):
    """A device that this build or this machine does not have."""

    status = "E_BACKEND"


class NotConverged(LipscopeError, ArithmeticError):
    """The tolerance was not met; `result` holds what was reached, a lower bound all the same."""

    status = "E_NOCONV"


class NotFinite(LipscopeError, ArithmeticError):
    """A NaN or an infinity, given or met."""

    status = "E_NONFIN"


class CallbackError(LipscopeError, RuntimeError):
    """A function that was handed over failed."""

    status = "E_CALLBACK"


class Stopped(LipscopeError, RuntimeError):
    """The work was stopped; `result` holds what was reached."""

    status = "E_STOPPED"


class Refused(LipscopeError, ArithmeticError):
    """The hypotheses of a bound do not hold, or a limit would be exceeded."""

    status = "E_REFUSED"


class Unusable(LipscopeError, RuntimeError):
    """An object that was closed, is in use, or lives on the other side of a fork."""


class Missing(LipscopeError, ImportError):
    """A package that this needs is not installed."""


def _kinds(root: Type[LipscopeError]) -> Dict[str, Type[LipscopeError]]:
    return {kind.status: kind for kind in reversed(root.__subclasses__())}


KINDS = dict(_kinds(LipscopeError), E_ARG=ArgumentError)
