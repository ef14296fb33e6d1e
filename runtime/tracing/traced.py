"""TracedValue: what stands for an argument, or for something computed of it, while Python code is traced."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from ...compiler.ir.node import Value
from ...compiler.types.types import is_tensor
from ...compiler.unparse.literals import annotation
from ...lang.callers import calling_frame
from ..operands.operand import RecordedOperand
from ..operands.snippets import operate

if TYPE_CHECKING:
    from ..execution.compiled import Compiled
    from ..tape.custom import TapeFunction

T = TypeVar("T")


class TracerWarning(UserWarning):
    """A trace holds for less than the function that was traced: a value that it depends on has become a constant."""


class Trace(Protocol):
    """The trace that a value belongs to: where what is done with the value is recorded."""

    name: str
    warns: bool

    def call(self, function: Compiled, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run a function on the example's values and put it into the graph."""

    def operation(self, function: Compiled, args: tuple[Any, ...]) -> Any:
        """The same for what an operator or a method means."""

    def custom(self, function: type[TapeFunction], args: tuple[Any, ...]) -> Any:
        """Record a call of a gs.tape.Function with the backward that it has."""


class TracedValue(RecordedOperand):
    """A value of the graph that is being made, and what it is for the example arguments.

    Sizes, numbers and lists computed from arguments are tracing values too. Where Python needs the number itself
    (`if`, `int()`, `len()`, iteration), it gets that of the example, and a TracerWarning says so. The rank and dtype
    of a tensor are part of a trace, as is the length of its shape.
    """

    __slots__ = ("example", "tracer", "value")
    precedence = 1

    def __init__(self, tracer: Trace, value: Value, example: Any) -> None:
        self.tracer = tracer
        self.value = value
        self.example = example

    def peek(self) -> Any:
        return self.example

    @property
    def kind(self) -> str:
        return annotation(self.value.type)

    def call_function(self, function: Compiled, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return self.tracer.call(function, args, kwargs)

    def call_operation(self, function: Compiled, args: tuple[Any, ...]) -> Any:
        return self.tracer.operation(function, args)

    def call_custom(self, function: type[TapeFunction], args: tuple[Any, ...]) -> Any:
        return self.tracer.custom(function, args)

    # --- what a trace may depend on ---

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self._array("dtype").dtype
        return dtype

    @property
    def ndim(self) -> int:
        return int(self._array("ndim").ndim)

    def _array(self, name: str) -> Any:
        if not is_tensor(self.value.type):
            raise AttributeError(f"a {self.kind} has no attribute '{name}'", name=name, obj=self)
        return self.example

    # --- what becomes a constant ---

    @property
    def data(self) -> Any:
        self._fix("`.data`", "the array")
        return self.example

    def __bool__(self) -> bool:
        return self._fixed(bool(self._number()), "bool()", "the way that Python took")

    def __int__(self) -> int:
        return self._fixed(int(self._number()), "int()", "the number")

    def __index__(self) -> int:
        return self._fixed(int(self._number()), "an index or a range", "the number")

    def __float__(self) -> float:
        return self._fixed(float(self._number()), "float()", "the number")

    def __len__(self) -> int:
        if not self._is_shape():
            self._fix("len()", "the length")
        return len(self.example)

    def __iter__(self) -> Iterator[Any]:
        if not self._is_shape():
            self._fix("iteration", "the number of rounds")
        if is_tensor(self.value.type):
            parts = operate("{}.unbind(0)", self)
            return iter([parts[i] for i in range(len(self.example))])
        return iter([self[i] for i in range(len(self.example))])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        self._fix("conversion to an array", "the array")
        return np.array(self.example, dtype=dtype, copy=copy)

    def __format__(self, specification: str) -> str:
        """A number as the example has it: text is for people."""
        return format(self._number(), specification) if specification else repr(self)

    def __contains__(self, item: Any) -> bool:
        return bool(operate("{} in {}", item, self))

    def _number(self) -> Any:
        """The example as Python converts it; RuntimeFailure, with the line, for a tensor of several elements."""
        if not is_tensor(self.value.type):
            return self.example
        if np.size(self.example) != 1:
            operate("{}.item()", self)
        return np.asarray(self.example).item()

    def _is_shape(self) -> bool:
        return self.value.node.kind == "aten::size"

    def __copy__(self) -> TracedValue:
        return self

    def __deepcopy__(self, _: Any) -> TracedValue:
        return self

    def _fixed(self, result: T, what: str, kept: str) -> T:
        """A result that has been computed, which fails on its own before there is anything to warn of."""
        self._fix(what, kept)
        return result

    def _fix(self, what: str, kept: str) -> None:
        if not self.tracer.warns:
            return
        message = (
            f"{what} of a tracing value: {kept} is kept as the example made it, whatever the arguments will be. "
            "Compile the function (gs.script, gs.CompilationUnit) to keep control flow"
        )
        warn(message)

    def __repr__(self) -> str:
        return f"<TracedValue {self.kind} of {self.tracer.name}>"


def warn(message: str) -> None:
    """A TracerWarning at the line of the user's code that is running."""
    _, level = calling_frame()
    warnings.warn(message, TracerWarning, stacklevel=level)
