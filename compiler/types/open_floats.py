"""Floats that are open: numbers of which is noted what they decided, so that what was made holds for others too.

    p = 0.5, open           p * 2.0 + 1.0           open
                            0.0 <= p <= 1.0         True, and noted
                            math.sqrt(p)            the number, and noted: where p is 0.5

As with open sizes, what works on floats works on these unawares. What is computed of them is an expression,
each comparison a decision; where only a number of Python's own will do, the decision is that it is the one at hand.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from ...lang.light_dataclasses import dataclass

Expression: TypeAlias = tuple[Any, ...]
"""("atom", which), ("number", value), or the name of an operation and what it is of."""
MOST_PARTS = 64
"""Of an expression: a longer one is the number at hand. What walks one may recurse, and a float that is used twice
counts twice."""


def _is_number(left: float, right: float) -> bool:
    """Whether it is that very number: zeros differ in their signs."""
    return float(left).hex() == float(right).hex()


_RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "is": _is_number,
}
_OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "pow": operator.pow,
    "neg": operator.neg,
    "abs": operator.abs,
}


@dataclass(frozen=True, slots=True)
class FloatDecision:
    """What was found of two expressions."""

    relation: str
    left: Expression
    right: Expression
    outcome: bool

    def holds(self, values: Sequence[float]) -> bool:
        """Whether the same is found for other numbers."""
        try:
            found = _RELATIONS[self.relation](evaluated(self.left, values), evaluated(self.right, values))
        except (ArithmeticError, TypeError, ValueError):
            return False
        return found is self.outcome

    @property
    def pinned(self) -> frozenset[int]:
        """The atoms that it leaves no choice."""
        return frozenset(_atoms_of(self.left)) if self.relation == "is" and self.outcome else frozenset()


def evaluated(expression: Expression, values: Sequence[float]) -> Any:
    """What an expression comes to, given a value for each atom."""
    kind, *rest = expression
    if kind == "atom":
        return values[rest[0]]
    if kind == "number":
        return rest[0]
    return _OPERATIONS[kind](*(evaluated(part, values) for part in rest))


def _atoms_of(expression: Expression) -> list[int]:
    kind, *rest = expression
    if kind in ("atom", "number"):
        return rest if kind == "atom" else []
    return [atom for part in rest for atom in _atoms_of(part)]


class HoldsOfFloats(Protocol):
    """What holds of numbers, or does not: a FloatDecision, or what others make one of."""

    @property
    def pinned(self) -> frozenset[int]:
        """The atoms that it leaves no choice."""

    def holds(self, values: Sequence[Any]) -> bool:
        """Whether it does, given a value for each atom."""


class NoKey(TypeError):
    """Something is looked up by an open float, which is not any number."""


class Deciding(Protocol):
    """What notes decisions, and knows the numbers at hand."""

    def value_of(self, expression: Expression) -> Any:
        """For the numbers at hand; nothing is noted."""

    def decided(self, relation: str, left: Expression, right: Expression) -> bool:
        """How two expressions compare, noted."""

    def found_to_hold(self, decision: HoldsOfFloats) -> bool:
        """Whether something holds, noted if it does."""


class OpenFloat:
    """An expression that counts as a float, of which each question is noted."""

    __slots__ = ("expression", "owner", "parts")

    def __init__(self, owner: Deciding, expression: Expression, parts: int = 1) -> None:
        self.owner = owner
        self.expression = expression
        self.parts = parts

    @property  # type: ignore[misc]
    def __class__(self) -> type[float]:  # type: ignore[override]
        """What asks whether it is a float is told so; what asks for a number of C's gets it by `__float__`."""
        return float

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal to that of another which is the same, whatever the numbers are."""
        return (OpenFloat, id(self.owner), repr(self.expression))

    def __hash__(self) -> int:
        """What is remembered by a number would not be noted."""
        raise NoKey("an open float is no key")

    def __float__(self) -> float:
        """The number, which it has to be from now on."""
        found = float(self.owner.value_of(self.expression))
        self.owner.decided("is", self.expression, ("number", found))
        return found

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        import numpy as np

        return np.asarray(float(self), dtype)

    def __int__(self) -> int:
        return int(float(self))

    __trunc__ = __int__

    def __repr__(self) -> str:
        return repr(float(self))

    def __format__(self, how: str) -> str:
        return format(float(self), how)

    def __bool__(self) -> bool:
        return self.owner.decided("!=", self.expression, ("number", 0.0))

    def __getattr__(self, name: str) -> Any:
        """What only a number of Python's has."""
        if not hasattr(float, name):
            raise AttributeError(name)
        return getattr(float(self), name)

    def _made(self, name: str, *operands: object) -> Any:
        """An operation on operands, one of which this is."""
        of = [_expression_of(operand, self.owner) for operand in operands]
        if None in of:
            return NotImplemented
        expression = (name, *of)
        # What it raises at hand is raised, and what is no float is no open one.
        found = self.owner.value_of(expression)
        if type(found) is not float:
            return float(self) and found
        parts = 1 + sum(operand.parts if type(operand) is OpenFloat else 1 for operand in operands)
        made = OpenFloat(self.owner, expression, parts)
        return made if parts <= MOST_PARTS else float(made)

    def __add__(self, other: object) -> Any:
        return self._made("add", self, other)

    def __radd__(self, other: object) -> Any:
        return self._made("add", other, self)

    def __sub__(self, other: object) -> Any:
        return self._made("sub", self, other)

    def __rsub__(self, other: object) -> Any:
        return self._made("sub", other, self)

    def __mul__(self, other: object) -> Any:
        return self._made("mul", self, other)

    def __rmul__(self, other: object) -> Any:
        return self._made("mul", other, self)

    def __truediv__(self, other: object) -> Any:
        return self._made("truediv", self, other)

    def __rtruediv__(self, other: object) -> Any:
        return self._made("truediv", other, self)

    def __pow__(self, other: object) -> Any:
        return self._made("pow", self, other)

    def __rpow__(self, other: object) -> Any:
        return self._made("pow", other, self)

    def __neg__(self) -> Any:
        return self._made("neg", self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self._made("abs", self)

    def __round__(self, digits: int | None = None) -> Any:
        return round(float(self), digits)

    def __divmod__(self, other: Any) -> Any:
        return divmod(float(self), other)

    def __rdivmod__(self, other: Any) -> Any:
        return divmod(other, float(self))

    def __floordiv__(self, other: Any) -> Any:
        return float(self) // other

    def __rfloordiv__(self, other: Any) -> Any:
        return other // float(self)

    def __mod__(self, other: Any) -> Any:
        return float(self) % other

    def __rmod__(self, other: Any) -> Any:
        return other % float(self)

    def _compared(self, relation: str, other: object) -> Any:
        found = _expression_of(other, self.owner)
        return NotImplemented if found is None else self.owner.decided(relation, self.expression, found)

    def __lt__(self, other: object) -> Any:
        return self._compared("<", other)

    def __le__(self, other: object) -> Any:
        return self._compared("<=", other)

    def __gt__(self, other: object) -> Any:
        return self._compared(">", other)

    def __ge__(self, other: object) -> Any:
        return self._compared(">=", other)

    def __eq__(self, other: object) -> Any:
        return self._compared("==", other)

    def __ne__(self, other: object) -> Any:
        return self._compared("!=", other)


def _expression_of(operand: object, owner: Deciding) -> Expression | None:
    """What stands for an operand; None where it is no number, or another's."""
    if type(operand) is OpenFloat:
        return operand.expression if operand.owner is owner else None
    if isinstance(operand, bool | int | float):
        # An open size is the number at hand.
        return ("number", operand if type(operand) in (bool, int, float) else float(operand))
    return None


def holds_open_float(value: object) -> bool:
    """Whether something is an open float, or a list or tuple with one in it."""
    if type(value) is OpenFloat:
        return True
    return isinstance(value, list | tuple) and any(map(holds_open_float, value))
