"""Recorded: what stands for an array in a call, and takes the call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from .containers import parts

AnyFunction: TypeAlias = Any
"""A `compiled.Compiled`, which stands above this file: what binds its arguments knows of values that take calls."""
Custom: TypeAlias = Any
"""A class of functions written in Python, `gs.tape.Function`, which stands above this file as well."""


class Recorded:
    """Base of Variables and tracing values."""

    __slots__ = ()
    precedence: ClassVar[int] = 0
    """Of several in one call, that with the highest takes it."""

    data: Any
    """The array, or, of a tracing value, the example's value, whatever its type."""

    def peek(self) -> Any:
        """What `data` is, without asking for it: a tracing value warns of that."""
        return self.data

    @property
    def kind(self) -> str:
        """The type as source writes it."""
        return "Tensor"

    def call_function(self, function: AnyFunction, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run a function on arguments of which one at least is Recorded, and record it."""
        raise NotImplementedError

    def call_operation(self, function: AnyFunction, args: tuple[Any, ...]) -> Any:
        """The same for what an operator or a method means, which is a function made for just these operands."""
        return self.call_function(function, args, {})

    def call_custom(self, function: Custom, args: tuple[Any, ...]) -> Any:
        """Run a function written in Python, with its backward, and record it."""
        raise TypeError(f"{function.__name__} takes no {type(self).__name__}")


class RecordedCall(Exception):
    """The arguments of a call hold no array but something that takes the call."""

    def __init__(self, taker: Recorded) -> None:
        self.taker = taker


def any_recorded(values: Sequence[Any]) -> bool:
    """Whether a value is Recorded, lists and tuples not looked into: the usual case, made quick."""
    for value in values:  # noqa: SIM110 - a generator would take as long as all the rest of a small call
        if isinstance(value, Recorded):
            return True
    return False


def taker_of(values: Iterable[Any]) -> Recorded | None:
    """What takes a call with these arguments: the first of the highest precedence, inside lists and tuples too."""
    taker: Recorded | None = None
    for value in parts(values):
        if isinstance(value, Recorded) and (taker is None or value.precedence > taker.precedence):
            taker = value
    return taker
