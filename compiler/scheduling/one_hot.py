"""Sums of which one term counts: of a number that stands where a position equals an index, and zeros elsewhere.

    %p : int64 [j] = position j                     %v0 : bool [i] = ge(%t, 0)
    %hit : bool [i, j] = eq(%p, %t)           →     %v1 : bool [i] = lt(%t, 1000)
    %g : float32 [i, j] = where(%hit, %x, 0)        %t_inside : bool [i] = and(%v0, %v1)
    %s : float32 [i] = reduce sum %g over j         %s : float32 [i] = where(%t_inside, %x, 0)

The gradient of what was picked out of a row is such a number among zeros, and that of a softmax before it asks for the
sum of the row: without this, a pass over all columns adds zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from ...lang.light_dataclasses import dataclass, replace
from ..kernel_ir.index import axis
from ..kernel_ir.kernel import Cast, Compute, Definition, Kernel, KernelConstant, Operand, Position, Reduce, Statement
from ..kernel_ir.queries import fresh, names_of
from ..kernel_ir.statements import without_unused
from ..types.dtypes import BOOL
from ..types.open_sizes import is_open


@dataclass(frozen=True, slots=True)
class _Single:
    """A value that is `number`, after `steps`, where the position along an axis is `at`, and 0 elsewhere.

    Steps are conversions and products with a number, each of what the one before gives.
    """

    number: Operand
    at: str
    steps: tuple[Cast | Compute, ...]


def pick_single_terms(kernel: Kernel) -> Kernel:
    """The kernel with sums of single terms in place of reductions."""
    defined = {s.name: s for s in kernel.body if isinstance(s, Definition)}
    taken = names_of(kernel)
    body: list[Statement] = []
    for statement in kernel.body:
        single = _single(statement, defined)
        if single is None:
            body.append(statement)
            continue
        assert isinstance(statement, Reduce)
        body += _picked(statement, single, kernel, taken)
    return kernel if len(body) == len(kernel.body) else kernel.with_body(without_unused(body))


def _single(statement: Statement, defined: Mapping[str, Definition]) -> _Single | None:
    """What a sum over one axis comes to, if it is one of single terms."""
    if not (isinstance(statement, Reduce) and statement.combine == "sum" and len(statement.over) == 1):
        return None
    (along,) = statement.over
    chosen = defined.get(str(statement.operand))
    steps: list[Cast | Compute] = []
    while chosen is not None and _leaves_zeros(chosen):
        assert isinstance(chosen, Cast | Compute)
        steps.append(chosen)
        chosen = defined.get(str(chosen.operand if isinstance(chosen, Cast) else _factor(chosen)))
    if not isinstance(chosen, Compute) or chosen.primitive != "where" or chosen.operands[2] != KernelConstant(0):
        return None
    condition, number, _ = chosen.operands
    hit = defined.get(str(condition))
    if _varies(number, along, defined) or not isinstance(hit, Compute) or hit.primitive != "eq":
        return None
    for position, at in (hit.operands, hit.operands[::-1]):
        found = defined.get(str(position))
        if isinstance(found, Position) and found.index == axis(along) and isinstance(at, str) and at in defined:
            return None if _varies(at, along, defined) else _Single(number, at, tuple(steps[::-1]))
    return None


def _leaves_zeros(statement: Definition) -> bool:
    """Whether what it makes of a zero is one, but for its sign, which no sum of several shows."""
    if isinstance(statement, Cast):
        return statement.dtype.is_floating
    if not isinstance(statement, Compute):
        return False
    numbers = [o.value for o in statement.operands if isinstance(o, KernelConstant)]
    is_scaled = statement.primitive == "mul" and len(numbers) == 1 and not is_open(numbers[0]) and isfinite(numbers[0])
    return statement.dtype.is_floating and (is_scaled or statement.primitive == "neg")


def _factor(statement: Compute) -> Operand:
    """What is scaled."""
    return next(operand for operand in statement.operands if not isinstance(operand, KernelConstant))


def _varies(operand: Operand, along: str, defined: Mapping[str, Definition]) -> bool:
    return isinstance(operand, str) and operand in defined and along in defined[operand].axes


def _picked(statement: Reduce, single: _Single, kernel: Kernel, taken: set[str]) -> list[Statement]:
    (along,) = statement.over
    low, high, inside = (fresh("v", taken), fresh("v", taken), fresh(f"{single.at}_inside", taken))
    known = {s.name: s.axes for s in kernel.body if isinstance(s, Definition)}
    axes = known[single.at]
    # All rows may pick the same number.
    varying = known.get(str(single.number), frozenset())
    size = KernelConstant(kernel.axis(along).size)
    number = single.number
    made: list[Statement] = []
    for step in single.steps:
        name = fresh("v", taken)
        if isinstance(step, Cast):
            made.append(Cast(name, step.dtype, varying, number))
        else:
            operands = tuple(o if isinstance(o, KernelConstant) else number for o in step.operands)
            made.append(replace(step, name=name, axes=varying, operands=operands))
        number = name
    return [
        *made,
        Compute(low, BOOL, axes, "ge", (single.at, KernelConstant(0))),
        Compute(high, BOOL, axes, "lt", (single.at, size)),
        Compute(inside, BOOL, axes, "and", (low, high)),
        Compute(statement.name, statement.dtype, statement.axes, "where", (inside, number, KernelConstant(0))),
    ]
