"""NumPy's handling of float errors while plans run: NaN and infinity are results, as they are to torch.

`np.errstate` parses what it is given each time that it is entered, which takes as long as a small op. What it comes to
is kept by NumPy in a context variable: found once, it is set in a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, copy_context
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")


def _kept() -> tuple[ContextVar[Any], Any] | None:
    """The variable that `np.errstate` sets, and what it holds where all errors are ignored."""
    before = copy_context()
    with np.errstate(all="ignore"):
        changed = [(var, value) for var, value in copy_context().items() if before.get(var) is not value]
    return changed[0] if len(changed) == 1 else None


_KEPT = _kept()


def ignoring_float_errors(function: Callable[P, R]) -> Callable[P, R]:
    """The function, in which no float operation of NumPy warns or raises."""
    if _KEPT is None:
        return np.errstate(all="ignore")(function)
    variable, ignored = _KEPT
    set_to, reset = variable.set, variable.reset

    @wraps(function)
    def quiet(*args: P.args, **kwargs: P.kwargs) -> R:
        token = set_to(ignored)
        try:
            return function(*args, **kwargs)
        finally:
            reset(token)

    return quiet
