"""What values are where a tile reaches past the end of an axis, and what loads have to give there.

A reduction over an axis whose tile is padded must not see the padding. Often it need not be masked: where loads give 0,
a sum of products is 0 there; where they give -inf, a maximum is undisturbed, and so is a sum of exponentials. So loads
choose what they give, and only the operands that are still not the identity of their reduction are masked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ...lang.light_dataclasses import replace
from ..kernel_ir.kernel import (
    IDENTITY,
    POSITIONS,
    Cast,
    Combine,
    Compute,
    Definition,
    KernelConstant,
    Load,
    Operand,
    Reduce,
    Statement,
)
from ..ops.arrays import numpy_dtype
from ..ops.scalar import PRIMITIVES
from ..types.dtypes import BOOL, FLOAT64, DType, Number
from ..types.open_sizes import is_open

CANDIDATES: tuple[Number, ...] = (0, float("-inf"), float("inf"), 1)
"""What a load may give outside, in the order in which they are tried."""

Padding = Mapping[str, Number]
"""Values by name → what they are outside; of others nothing is known."""


def identity(combine: Combine, dtype: DType) -> Number:
    """What a reduction starts from, as a number of a dtype."""
    number = IDENTITY[combine]
    if dtype.category == 1 and isinstance(number, float):
        limits = np.iinfo(numpy_dtype(dtype))
        return int(limits.min if number < 0 else limits.max)
    return number


def outside(body: Iterable[Statement], over: frozenset[str]) -> dict[str, Number]:
    """The values that are known past the end of a tile along the axes `over`, by what loads give there."""
    known: dict[str, Number] = {}
    defined: dict[str, Statement] = {}
    for statement in body:
        if not isinstance(statement, Definition):
            continue
        defined[statement.name] = statement
        number = _number(statement, known, defined, over)
        if number is not None:
            known[statement.name] = number
    return known


def needs_mask(statement: Reduce, known: Padding) -> bool:
    """Whether a reduction would see the padding."""
    operand = statement.operand
    number = _operand(operand, known)
    # The result of argmax is a position; what it compares starts from an infinity.
    dtype = FLOAT64 if statement.combine in POSITIONS else statement.dtype
    return number is None or float(number) != float(identity(statement.combine, dtype))


def choose_others(body: Iterable[Statement], padded: Sequence[frozenset[str]]) -> list[Statement]:
    """The body with each unconditional load giving past the end of `padded` axes what masks the fewest reductions.

    Of several axes in one set the product is what is padded.
    """
    statements = list(body)
    varying = frozenset(name for axes in padded for name in axes)

    def masked() -> int:
        found = {axis: outside(statements, axis) for axis in padded}
        return sum(
            needs_mask(s, found[axis]) for s in statements if isinstance(s, Reduce) for axis in padded if axis & s.over
        )

    for position, statement in enumerate(statements):
        if not isinstance(statement, Load) or statement.conditions or not statement.axes & varying:
            continue
        best = (masked(), statement)
        for candidate in CANDIDATES[1 if statement.other == 0 else 0 :]:
            if statement.dtype.category != 2 and isinstance(candidate, float):
                continue
            statements[position] = replace(statement, other=candidate)
            best = min(best, (masked(), statements[position]), key=lambda pair: pair[0])  # type: ignore[assignment]
        statements[position] = best[1]
    return statements


def is_shifted(statement: Statement, defined: Mapping[str, Statement], over: frozenset[str]) -> bool:
    """Whether it is `x - m` for the maximum m of the same x along `over`."""
    if not isinstance(statement, Compute) or statement.primitive != "sub":
        return False
    left, right = statement.operands
    maximum = defined.get(right) if isinstance(right, str) else None
    return isinstance(maximum, Reduce) and maximum.combine == "max" and maximum.operand == left and over <= maximum.over


def _number(
    statement: Definition, known: Padding, defined: Mapping[str, Statement], over: frozenset[str]
) -> Number | None:
    if not over & statement.axes:
        return None
    if isinstance(statement, Load):
        return statement.other
    if isinstance(statement, Cast):
        return _cast(_operand(statement.operand, known), statement.dtype)
    if not isinstance(statement, Compute):
        return None
    if is_shifted(statement, defined, over) and known.get(str(statement.operands[0])) == float("-inf"):
        # Where the maximum is -inf too, every element is, and the sum of exponentials is NaN without the padding.
        return float("-inf")
    return _computed(statement, [_operand(operand, known) for operand in statement.operands])


def _operand(operand: Operand, known: Padding) -> Number | None:
    if isinstance(operand, KernelConstant):
        return None if is_open(operand.value) else operand.value
    return known.get(operand)


def _cast(number: Number | None, dtype: DType) -> Number | None:
    if number is None or dtype.category == 2:
        return number
    if dtype == BOOL:
        return bool(number)
    return int(number) if np.isfinite(number) else None


def _computed(statement: Compute, numbers: list[Number | None]) -> Number | None:
    """A primitive on numbers, in float64 in place of all floats."""
    if any(number is None for number in numbers):
        return None
    primitive = PRIMITIVES[statement.primitive]
    dtype = FLOAT64 if statement.dtype.is_floating else statement.dtype
    if primitive.result == "bool":
        dtype = FLOAT64
    arguments = [
        np.asarray(number, numpy_dtype(BOOL if kind == "bool" else dtype))
        for number, kind in zip(numbers, primitive.operands, strict=True)
    ]
    with np.errstate(all="ignore"):
        try:
            result = primitive.evaluate(*arguments)
        except (ZeroDivisionError, TypeError):
            return None
    return np.asarray(result).reshape(()).item()  # type: ignore[no-any-return]
