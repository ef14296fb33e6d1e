"""Operand: the operators, attributes and methods of array-likes whose operations are recorded.

`gs.tape.Variable` records them on the tape, a tracing value in a graph. What an operator or a method means is decided
by `snippets`, that is, by the compiler: as in source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ...compiler.ops.registry import OPS
from ...compiler.spelling.names import METHOD_ATTRIBUTES
from ...lang.diagnostics import nearest
from ..values.recorded import Recorded
from .numpy_functions import array_function, array_ufunc
from .snippets import call_method, operate, subscript
from .torch_functions import torch_function


class RecordedOperand(Recorded):
    """Base of what stands for an array. Subclasses say what to do with a call of a Function."""

    __slots__ = ()
    __array_priority__ = 1000

    # --- arithmetic ---

    def __add__(self, other: Any) -> Any:
        return operate("{} + {}", self, other)

    def __radd__(self, other: Any) -> Any:
        return operate("{} + {}", other, self)

    def __sub__(self, other: Any) -> Any:
        return operate("{} - {}", self, other)

    def __rsub__(self, other: Any) -> Any:
        return operate("{} - {}", other, self)

    def __mul__(self, other: Any) -> Any:
        return operate("{} * {}", self, other)

    def __rmul__(self, other: Any) -> Any:
        return operate("{} * {}", other, self)

    def __truediv__(self, other: Any) -> Any:
        return operate("{} / {}", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return operate("{} / {}", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return operate("{} // {}", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return operate("{} // {}", other, self)

    def __mod__(self, other: Any) -> Any:
        return operate("{} % {}", self, other)

    def __rmod__(self, other: Any) -> Any:
        return operate("{} % {}", other, self)

    def __pow__(self, other: Any) -> Any:
        return operate("{} ** {}", self, other)

    def __rpow__(self, other: Any) -> Any:
        return operate("{} ** {}", other, self)

    def __matmul__(self, other: Any) -> Any:
        return operate("{} @ {}", self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return operate("{} @ {}", other, self)

    def __and__(self, other: Any) -> Any:
        return operate("{} & {}", self, other)

    def __rand__(self, other: Any) -> Any:
        return operate("{} & {}", other, self)

    def __or__(self, other: Any) -> Any:
        return operate("{} | {}", self, other)

    def __ror__(self, other: Any) -> Any:
        return operate("{} | {}", other, self)

    def __xor__(self, other: Any) -> Any:
        return operate("{} ^ {}", self, other)

    def __rxor__(self, other: Any) -> Any:
        return operate("{} ^ {}", other, self)

    def __neg__(self) -> Any:
        return operate("-{}", self)

    def __pos__(self) -> Any:
        return self

    def __invert__(self) -> Any:
        return operate("~{}", self)

    def __abs__(self) -> Any:
        return operate("abs({})", self)

    # --- comparison: elementwise, so hashing is by identity ---

    def __eq__(self, other: object) -> Any:
        return NotImplemented if other is None else operate("{} == {}", self, other)

    def __ne__(self, other: object) -> Any:
        return NotImplemented if other is None else operate("{} != {}", self, other)

    def __lt__(self, other: Any) -> Any:
        return operate("{} < {}", self, other)

    def __le__(self, other: Any) -> Any:
        return operate("{} <= {}", self, other)

    def __gt__(self, other: Any) -> Any:
        return operate("{} > {}", self, other)

    def __ge__(self, other: Any) -> Any:
        return operate("{} >= {}", self, other)

    __hash__ = object.__hash__

    # --- parts, attributes, methods ---

    def __getitem__(self, index: Any) -> Any:
        return subscript(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(
            f"a {type(self).__name__} is not changed in place: compute a new one, "
            "by `x.select_scatter(…)`, `x.index_put(…)` or `gs.ops.where(…)`"
        )

    def __getattr__(self, name: str) -> Any:
        if name in METHOD_ATTRIBUTES and OPS.overloads(METHOD_ATTRIBUTES[name]):
            return operate(f"{{}}.{name}", self)
        if not name.startswith("__") and OPS.overloads(name):
            return partial(call_method, name, self)
        raise AttributeError(_unknown(type(self), name), name=name, obj=self)

    def astype(self, dtype: Any) -> Any:
        """`to(dtype)` under NumPy's name."""
        known = isinstance(dtype, str | type) and np.dtype(dtype)
        return call_method("to", self, known or dtype)

    # --- NumPy's and torch's functions on operands ---

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return array_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        return array_function(function, args, kwargs)

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return torch_function(function, args, kwargs or {})


def _unknown(type: type, name: str) -> str:
    hints = "" if name.startswith("_") else nearest(name, OPS.names())
    return f"a {type.__name__} has no attribute or method '{name}'{hints}"
