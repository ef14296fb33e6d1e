"""KnownCalls: what a Function has learnt of its calls, so that one like those before finds its plan at once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any

from ...compiler.types.lazy_numpy import np
from ...compiler.types.schema import Argument

if TYPE_CHECKING:
    from ..execution.uniform import Uniformity

PLAIN = frozenset((int, float, bool, str, NoneType))
"""Arguments besides arrays on whose values no plan depends."""
KnownCall = tuple[Any, ...]


class KnownCalls:
    """The flat keys of one function's calls: dtypes and ranks of arrays, kinds of plain values.

    A plan is kept under such a key only after arguments were bound and stayed what they were, so that what is found by
    it needs no binding. `defaults` has, by how many arguments are given, the rest of them and their kinds. Where plans
    hang on more, `uniform` says it, and `bound` has the keys for which it may be asked.
    """

    __slots__ = ("_arguments", "bound", "defaults", "uniform")

    def __init__(self, arguments: Sequence[Argument], uniform: Uniformity | None) -> None:
        self._arguments = None if any(argument.keyword_only for argument in arguments) else tuple(arguments)
        self.uniform = uniform
        self.bound: set[Hashable] = set()
        self.defaults: dict[int, tuple[KnownCall, KnownCall]] = {}

    def in_order(self, args: KnownCall, kwargs: Mapping[str, Any]) -> KnownCall | None:
        """All arguments up to the last one given, by position; None where a message is to tell what is wrong."""
        if self._arguments is None:
            return None
        row = [*args]
        left = len(kwargs)
        for argument in self._arguments[len(args) :]:
            if not left:
                break
            if argument.name in kwargs:
                row.append(kwargs[argument.name])
                left -= 1
            elif argument.required:
                return None
            else:
                row.append(argument.default)
        return None if left else tuple(row)

    def key(self, args: KnownCall, values: Sequence[Any]) -> KnownCall | None:
        """What a call is found by from now on; None where an argument is of another kind, or was converted."""
        if any(value is not given for value, given in zip(values, args)):  # noqa: B905 - the rest are defaults
            return None
        key: list[Any] = []
        for value in values:
            if type(value) is np.ndarray:
                key += (value.dtype, value.ndim)
            elif type(value) in PLAIN:
                key.append(type(value))
            else:
                return None
        if len(args) < len(values):
            rest = tuple(values[len(args) :])
            self.defaults[len(args)] = (rest, tuple(map(type, rest)))
        if self.uniform is not None:
            self.bound.add(tuple(key))
            key.append(self.uniform(values))
        return tuple(key)
