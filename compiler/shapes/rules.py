"""What a rule of shapes is, and the table of them.

    @shape_of("mm", "mv", "dot")
    def product(a: Arguments) -> Shape: …

A rule reads the arguments that the shape depends on, and no others: one that is not known makes it undecided. It
returns the shape of the result; a list, of one per result, or per element of a result that is a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

from ..ops.meta import Meta, is_known
from ..ops.registry import Op

Shape: TypeAlias = tuple[int, ...]
Shapes: TypeAlias = Shape | list[Shape | None]
"""None stands for a result that is None."""
Rule: TypeAlias = Callable[["Arguments"], Shapes]
R = TypeVar("R", bound=Rule)


class Undecided(Exception):
    """A shape or dtype depends on what is not known before the elements are."""


class Arguments:
    """The arguments of an op by name."""

    def __init__(self, op: Op, values: Sequence[Any]) -> None:
        self.op = op
        self.values = values
        self._by_name = {argument.name: value for argument, value in zip(op.schema.arguments, values, strict=True)}

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
        tensor: Meta = self[self.op.schema.arguments[index].name]
        return tensor.shape

    def tensors(self) -> Iterator[Meta]:
        """Every tensor, those in lists included. Undecided where one is unknown."""
        for argument in self.op.schema.arguments:
            if not mentions_tensor(argument.type):
                continue
            pending = [self[argument.name]]
            while pending:
                value = pending.pop()
                if isinstance(value, Meta):
                    yield value
                elif isinstance(value, list | tuple):
                    pending += reversed(value)


def mentions_tensor(type: Any) -> bool:
    """Whether a value of the type is a tensor, or holds some, or may be anything."""
    while hasattr(type, "element"):
        type = type.element
    return str(type).startswith(("Tensor", "t"))


RULES: dict[str, Rule] = {}
"""By the name of an op, or of one overload, which comes first: `max`, `max.other`."""


def shape_of(*names: str) -> Callable[[R], R]:
    """Declare the rule of some ops."""

    def register(rule: R) -> R:
        for name in names:
            assert name not in RULES, f"{name} has two rules"
            RULES[name] = rule
        return rule

    return register


def rule_of(op: Op) -> Rule | None:
    """The rule of an op; None where traits or its definition say what there is to say."""
    name = op.schema.full_name.partition("::")[2]
    return RULES.get(name) or RULES.get(op.schema.base_name)


def broadcast(*shapes: Sequence[int]) -> Shape:
    """The shape that all are broadcast to; RuntimeError where they do not fit."""
    rank = max(map(len, shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if size != 1 and result[axis] not in (1, size):
                raise RuntimeError(f"shapes {', '.join(str(list(s)) for s in shapes)} cannot be broadcast together")
            result[axis] = size if result[axis] == 1 else result[axis]
    return tuple(result)


def replaced(shape: Sequence[int], axis: int, *sizes: int) -> Shape:
    """The shape with other sizes in the place of one; none takes it away."""
    return (*shape[:axis], *sizes, *shape[axis + 1 :])


def same(name: str) -> Callable[[Arguments], Shape]:
    """The shape of one argument."""
    return lambda a: a.shape(name)


def sized(name: str) -> Callable[[Arguments], Shape]:
    """The sizes that one argument gives."""

    def rule(a: Arguments) -> Shape:
        size = tuple(a[name])
        if any(s < 0 for s in size):
            raise RuntimeError(f"Trying to create tensor with negative dimension: {list(size)}")
        return size

    return rule


def all_broadcast(a: Arguments) -> Shape:
    """All tensors, broadcast together."""
    return broadcast(*(tensor.shape for tensor in a.tensors()))


def undecided(a: Arguments) -> Shape:
    """It depends on elements."""
    raise Undecided(a.op.schema.full_name)
