"""Text of values, and what is told while a program runs: print and warnings."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from .....lang.callers import calling_frame
from ....types.lazy_numpy import np
from ... import bounds
from ...registry import Trait, declare
from .scalars import item
from .tensor_text import tensor_text

NONDIFFERENTIABLE = Trait.NONDIFFERENTIABLE


def text(value: Any) -> str:
    """`str(value)`, as Python has it with torch's tensors."""
    return value if isinstance(value, str) else represented(value)


def represented(value: Any) -> str:
    """`repr(value)`. Types nest a few levels, so this recurses."""
    if isinstance(value, list):
        return f"[{', '.join(map(represented, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(represented, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, np.ndarray):
        return tensor_text(value)
    # An open size is the number at hand then; what it is to those who debug is no text of a program.
    return str(value) if isinstance(value, int) else repr(value)


def _format(value: Any, spec: str) -> str:
    """`format(value, spec)`: a tensor without dimensions is formatted as the number that it holds."""
    bounds.require_widths(spec)
    if isinstance(value, np.ndarray):
        if not value.ndim:
            return format(item(value), spec)
        if spec:
            raise TypeError(f"only a tensor without dimensions takes a format, not one of shape {list(value.shape)}")
        return tensor_text(value)
    if isinstance(value, list | tuple):
        if spec:
            raise TypeError(f"a {type(value).__name__} takes no format: give its elements formats of their own")
        return represented(value)
    return format(value, spec)


def _percent(spec: str, value: Any) -> str:
    """`spec % value`, for a spec that takes one value."""
    bounds.require_widths(spec)
    if spec[-1] in "sra":
        plain = text(value) if spec[-1] == "s" else represented(value)
        return f"{spec[:-1]}s" % (ascii(plain)[1:-1] if spec[-1] == "a" else plain)
    number = item(value) if isinstance(value, np.ndarray) else value
    formatted: str = spec % (number,)
    return formatted


CATEGORIES: dict[str, type[Warning]] = {
    kind.__name__: kind
    for kind in (Warning, UserWarning, RuntimeWarning, FutureWarning, DeprecationWarning, PendingDeprecationWarning)
}


def _warn(message: str, category: str) -> None:
    if category not in CATEGORIES:
        raise ValueError(f"'{category}' is no category of warnings")
    _, level = calling_frame()
    warnings.warn(message, CATEGORIES[category], stacklevel=level)


def _declare_text(schema: str, evaluate: Callable[..., str]) -> None:
    declare(schema, evaluate, traits=NONDIFFERENTIABLE)


_declare_text("aten::str(t a) -> str", text)
_declare_text("aten::repr(t a) -> str", represented)
_declare_text("aten::ascii(t a) -> str", lambda value: represented(value).encode("ascii", "backslashreplace").decode())
_declare_text("aten::format(t value, str spec) -> str", _format)
_declare_text("aten::_percent(str spec, t value) -> str", _percent)
declare(
    'prim::Print(str text, *, str end="\n") -> ()', lambda text, end: print(text, end=end), traits=Trait.SIDE_EFFECT
)
declare('gs::warnings_warn(str message, str category="UserWarning") -> ()', _warn, traits=Trait.SIDE_EFFECT)
