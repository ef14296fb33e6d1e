"""What is known of an op's arguments before anything runs, by name: what the rules of its declaration are given.

A rule reads the arguments that its answer depends on, and no others: one that is not known makes it undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from ..types.dtypes import DType
from ..types.schema import FunctionSchema
from ..types.types import TensorType, VariableType, leaf_of
from .meta import Meta, is_known


class Undecided(Exception):
    """A shape or dtype depends on what is not known before the elements are."""


class Arguments:
    """The arguments of an op by name."""

    def __init__(self, schema: FunctionSchema, values: Sequence[Any]) -> None:
        self.schema = schema
        self.values = values
        self._by_name = {argument.name: value for argument, value in zip(schema.arguments, values, strict=True)}

    def __getitem__(self, name: str) -> Any:
        """Undecided where some of it is unknown, KeyError where there is no such argument."""
        value = self._by_name[name]
        if not is_known(value):
            raise Undecided(name)
        return value

    def get(self, name: str, default: Any = None) -> Any:
        """The default where there is no such argument."""
        return self[name] if name in self._by_name else default

    def glimpse(self, name: str) -> Any:
        """The value, known or not: of an argument that has no say in the shape, but may not fit."""
        return self._by_name[name]

    def shape(self, name: str) -> Shape:
        """Of a tensor."""
        return self.tensor(name).shape

    def tensor(self, name: str) -> Meta:
        value: Meta = self[name]
        return value

    def at(self, index: int) -> Shape:
        """The shape of the tensor that is argument number `index`."""
        tensor: Meta = self[self.schema.arguments[index].name]
        return tensor.shape

    def tensors(self) -> Iterator[Meta]:
        """Every tensor, those in lists included. Undecided where one is unknown."""
        for argument in self.schema.arguments:
            if not isinstance(leaf_of(argument.type), TensorType | VariableType):
                continue
            pending = [self[argument.name]]
            while pending:
                value = pending.pop()
                if isinstance(value, Meta):
                    yield value
                elif isinstance(value, list | tuple):
                    pending += reversed(value)


Shape: TypeAlias = tuple[int, ...]
Shapes: TypeAlias = Shape | list[Shape | None]
"""Of the result; a list of one per result, or per element of a result that is a list. None: a result that is None."""
ShapeRule: TypeAlias = Callable[[Arguments], Shapes]
ElementRule: TypeAlias = Callable[[Arguments], DType]
"""The dtype of a result, where the types of the arguments say too little."""
Check: TypeAlias = Callable[[Arguments], None]
"""RuntimeError or IndexError where arguments do not fit an op, in what its shape rule does not ask."""
